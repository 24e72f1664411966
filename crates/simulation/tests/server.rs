//! Rules of simulated servers that no seed is certain to exercise.

mod common;

use mangonel_bson::{RawDocument, append_binary, append_bool, append_i64, append_str, writer};
use mangonel_simulation::chance::Chance;
use mangonel_simulation::queue::{EPOCH, ms};
use mangonel_simulation::server::member::{Duty, Mischief};
use mangonel_simulation::server::{Out, Set};
use mangonel_simulation::wire::{append_document, append_time, document, message};

use common::go_on;

/// Sends a command to a member, and returns the one answer.
fn ask(set: &mut Set, member: usize, fill: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    set.receive(member, 0, &message(&document(fill), 1, 0, false));
    let sent = std::mem::take(&mut set.out);
    let [Out::Reply(0, reply)] = &sent[..] else { panic!("expected one answer, got {sent:?}") };
    reply[21..].to_vec()
}

fn read(body: &[u8]) -> RawDocument<'_> {
    RawDocument::from_bytes(body).unwrap()
}

#[test]
fn a_linearizable_read_of_a_secondary_is_refused_and_writes_nothing() {
    let mut set = Set::new(&[(Duty::Bearing, 1); 3], Chance::new(1, 1), &[]);
    let known = set.members[1].data.log.len();
    let reply = ask(&mut set, 1, |out| {
        append_str(out, "find", "counters");
        append_document(out, "readConcern", |out| append_str(out, "level", "linearizable"));
        append_document(out, "$readPreference", |out| append_str(out, "mode", "primaryPreferred"));
    });
    assert_eq!(read(&reply).get_i64_lenient("code"), Ok(Some(10107)));
    assert_eq!(set.members[1].data.log.len(), known);
}

#[test]
fn a_stream_that_is_resumed_where_a_majority_has_less_keeps_its_token() {
    let mut set = Set::new(&[(Duty::Bearing, 1)], Chance::new(1, 1), &[]);
    // A token after the first write of an entry that this member does not have yet.
    let token = (set.members[0].commit as i64) << 16 | 1;
    let reply = ask(&mut set, 0, |out| {
        append_str(out, "aggregate", "orders");
        let stages = writer::begin_array(out, "pipeline");
        append_document(out, "0", |out| {
            append_document(out, "$changeStream", |out| {
                append_document(out, "startAfter", |out| append_i64(out, "_data", token));
            });
        });
        writer::end_document(out, stages);
    });
    let cursor = read(&reply).get_document("cursor").unwrap().unwrap();
    let behind = cursor.get_document("postBatchResumeToken").unwrap().unwrap();
    assert_eq!(behind.get_i64_lenient("_data"), Ok(Some(token)));
}

#[test]
fn a_write_that_waits_for_a_time_is_answered_also_if_its_write_concern_is_to_fail() {
    let mut set = Set::new(&[(Duty::Bearing, 1); 3], Chance::new(1, 1), &[]);
    set.cuts.extend([(0, 1), (0, 2)]);
    let write = |out: &mut Vec<u8>| {
        append_str(out, "update", "counters");
        let updates = writer::begin_array(out, "updates");
        append_document(out, "0", |out| append_i64(out, "q", 1));
        writer::end_document(out, updates);
    };
    let reply = ask(&mut set, 0, write);
    let time = read(&reply).get_timestamp("operationTime").unwrap().unwrap().to_u64();
    set.members[0].mischief.push_back(Mischief::WriteConcern(64));
    let begun = document(|out| {
        write(out);
        append_document(out, "lsid", |out| append_binary(out, "id", 0x04, &[1; 16]));
        append_i64(out, "txnNumber", 1);
        append_bool(out, "autocommit", false);
        append_bool(out, "startTransaction", true);
        append_document(out, "readConcern", |out| {
            append_str(out, "level", "snapshot");
            append_time(out, "afterClusterTime", time);
        });
    });
    set.receive(0, 0, &message(&begun, 2, 0, false));
    assert!(set.out.is_empty(), "no majority has that time yet");
    set.cuts.clear();
    let mut now = EPOCH;
    while set.out.is_empty() {
        assert!(now < EPOCH + ms(5_000), "it is never answered");
        go_on(&mut set, &mut now);
    }
}
