//! Rules of simulated servers that no seed is sure to play.

use mangonel_bson::{RawDocument, append_i64, append_str, writer};
use mangonel_simulation::chance::Chance;
use mangonel_simulation::server::member::Duty;
use mangonel_simulation::server::{Out, Set};
use mangonel_simulation::wire::{append_document, document, message};

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
    // Behind the first write of an entry that this member does not have yet.
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
