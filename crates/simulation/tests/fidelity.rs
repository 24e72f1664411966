//! The simulated servers answer like a real mongod, which `tools/simulation_traces.py` recorded.

mod common;

use mangonel_bson::{RawArray, RawDocument, RawValue, append_binary, append_i64, parse_json, writer};
use mangonel_proto::time::Instant;
use mangonel_simulation::chance::Chance;
use mangonel_simulation::queue::EPOCH;
use mangonel_simulation::server::cursor::batch_of;
use mangonel_simulation::server::member::{Duty, Mischief};
use mangonel_simulation::server::{Out, Set};
use mangonel_simulation::wire::{append_document, append_time, document, documents_of, message};

use common::go_on;

const TRACE: &str = include_str!("traces/mongod.jsonl");
/// A label that the recorded mongod, 6.0, gave to none of its refusals. The model adds it, so that retries are tested
/// with it.
const NO_WRITES_PERFORMED: &str = "NoWritesPerformed";

/// Values from the last answers to which later commands of the trace refer.
#[derive(Default)]
struct Known {
    cursor: i64,
    /// The time of a snapshot.
    moment: u64,
    operation: u64,
    /// The tokens of a stream's batch, and of the first change in one.
    batch: i64,
    change: i64,
}

impl Known {
    /// Appends the fields of a recorded command as they are sent: the record has numbers for sessions, and names for
    /// values from answers.
    fn append(&self, out: &mut Vec<u8>, recorded: RawDocument<'_>) {
        for element in recorded.iter().flatten() {
            match (element.key, element.value) {
                ("lsid", value) => {
                    let byte = value.as_i64_lenient().unwrap() as u8;
                    append_document(out, "lsid", |out| append_binary(out, "id", 0x04, &[byte; 16]));
                }
                ("getMore", _) => append_i64(out, "getMore", self.cursor),
                ("cursors", _) => {
                    let array = writer::begin_array(out, "cursors");
                    append_i64(out, "0", self.cursor);
                    writer::end_document(out, array);
                }
                ("atClusterTime", _) => append_time(out, "atClusterTime", self.moment),
                ("afterClusterTime", _) => append_time(out, "afterClusterTime", self.operation),
                (key @ ("resumeAfter" | "startAfter"), name) => {
                    let token = if name == RawValue::String("batch") { self.batch } else { self.change };
                    append_document(out, key, |out| append_i64(out, "_data", token));
                }
                (key, RawValue::Document(part)) => append_document(out, key, |out| self.append(out, part)),
                (key, RawValue::Array(parts))
                    if parts.iter().all(|part| matches!(part, Ok(RawValue::Document(_)))) =>
                {
                    let array = writer::begin_array(out, key);
                    for (position, part) in documents_of(parts).enumerate() {
                        append_document(out, &position.to_string(), |out| self.append(out, part));
                    }
                    writer::end_document(out, array);
                }
                (key, value) => writer::append_value(out, key, value),
            }
        }
    }

    fn note(&mut self, reply: RawDocument<'_>) {
        let time =
            |document: RawDocument<'_>, key| document.get_timestamp(key).unwrap().map(|time| time.to_u64());
        let token = |token: RawDocument<'_>| token.get_i64_lenient("_data").unwrap();
        self.operation = time(reply, "operationTime").unwrap_or(self.operation);
        let Some(cursor) = reply.get_document("cursor").unwrap() else { return };
        self.cursor = cursor.get_i64_lenient("id").unwrap().filter(|id| *id != 0).unwrap_or(self.cursor);
        self.moment = time(cursor, "atClusterTime").unwrap_or(self.moment);
        let Some(behind) = cursor.get_document("postBatchResumeToken").unwrap() else { return };
        self.batch = token(behind).unwrap();
        let batch = ["firstBatch", "nextBatch"].iter().find_map(|key| cursor.get_array(key).unwrap());
        let first = batch.into_iter().flat_map(documents_of).find(|change| key_of(*change) >= 0);
        let first = first.and_then(|change| token(change.get_document("_id").unwrap()?));
        self.change = first.unwrap_or(self.change);
    }
}

/// Returns the key of the document that changed; below 0 for the end of the collection.
fn key_of(change: RawDocument<'_>) -> i64 {
    change.get_i64_lenient("key").unwrap().unwrap()
}

fn integers(array: Option<RawArray<'_>>) -> Vec<i64> {
    array.iter().flat_map(|array| array.iter()).flatten().filter_map(|value| value.as_i64_lenient()).collect()
}

fn strings(array: Option<RawArray<'_>>) -> Vec<String> {
    let mut found: Vec<String> = array
        .iter()
        .flat_map(|array| array.iter())
        .flatten()
        .filter_map(|value| match value {
            RawValue::String(text) => Some(text.to_owned()),
            _ => None,
        })
        .collect();
    found.sort();
    found
}

/// The parts of an answer that are compared.
#[derive(PartialEq, Debug, Default)]
struct Outcome {
    numbers: [Option<i64>; 3],
    labels: Vec<String>,
    write_errors: Vec<i64>,
    write_concern_error: Option<i64>,
    batch: Option<Vec<(i64, i64)>>,
    /// The documents whose changes a stream shows.
    changes: Option<Vec<i64>>,
    is_open: Option<bool>,
    /// Whether the connection was closed instead of an answer.
    is_closed: bool,
}

fn recorded(answer: RawDocument<'_>) -> Outcome {
    let pairs = |key| {
        let pairs = answer.get_array(key).unwrap()?;
        Some(pairs.iter().flatten().filter_map(|pair| match pair {
            RawValue::Array(pair) => Some(integers(Some(pair))),
            _ => None,
        }))
    };
    Outcome {
        numbers: ["ok", "code", "n"].map(|key| answer.get_i64_lenient(key).unwrap()),
        labels: strings(answer.get_array("labels").unwrap()),
        write_errors: pairs("writeErrors").into_iter().flatten().flatten().collect(),
        write_concern_error: answer.get_i64_lenient("writeConcernError").unwrap(),
        batch: pairs("batch").map(|pairs| pairs.map(|pair| (pair[0], pair[1])).collect()),
        changes: answer.get_array("changes").unwrap().map(|changes| integers(Some(changes))),
        is_open: answer.get_bool_lenient("isOpen").unwrap(),
        is_closed: answer.get_bool_lenient("closed").unwrap() == Some(true),
    }
}

fn answered(reply: RawDocument<'_>) -> Outcome {
    let cursor = reply.get_document("cursor").unwrap();
    let stream = cursor.filter(|cursor| cursor.get("postBatchResumeToken") != Ok(None));
    let errors = reply.get_array("writeErrors").unwrap().into_iter().flat_map(documents_of);
    let integer = |document: RawDocument<'_>, key| document.get_i64_lenient(key).unwrap();
    let mut labels = strings(reply.get_array("errorLabels").unwrap());
    labels.retain(|label| label != NO_WRITES_PERFORMED);
    Outcome {
        numbers: ["ok", "code", "n"].map(|key| integer(reply, key)),
        labels,
        write_errors: errors
            .flat_map(|error| [integer(error, "index").unwrap(), integer(error, "code").unwrap()])
            .collect(),
        write_concern_error: reply
            .get_document("writeConcernError")
            .unwrap()
            .and_then(|error| integer(error, "code")),
        batch: cursor.filter(|_| stream.is_none()).map(|cursor| batch_of(cursor, "_id", "value")),
        changes: stream.map(|cursor| {
            let changes = batch_of(cursor, "key", "intent").into_iter().map(|(key, _)| key);
            changes.filter(|key| *key >= 0).collect()
        }),
        is_open: cursor.map(|cursor| integer(cursor, "id") != Some(0)),
        is_closed: false,
    }
}

/// Returns the effect of a recorded fail point on the next command.
fn mischief(command: RawDocument<'_>) -> Mischief {
    let name = command.get_str("failPoint").unwrap().unwrap();
    let value = command.get_i64_lenient(name).unwrap();
    match (name, value) {
        ("code", Some(code)) => Mischief::Refuse(code),
        ("concern", Some(code)) => Mischief::WriteConcern(code),
        ("block", Some(milliseconds)) => Mischief::Block(milliseconds as u64),
        ("close", _) => Mischief::CloseBefore,
        other => panic!("expected a fail point, got {other:?}"),
    }
}

/// Sends a command; returns the output, even if that takes a while.
fn outs(set: &mut Set, now: &mut Instant, sent: &[u8]) -> Vec<Out> {
    set.receive(0, 0, &message(sent, 1, 0, false));
    while set.out.is_empty() {
        go_on(set, now);
    }
    std::mem::take(&mut set.out)
}

#[test]
fn every_command_is_answered_as_mongod_answered_it() {
    let mut set = Set::new(&[(Duty::Bearing, 1)], Chance::new(1, 1), &[]);
    let (mut known, mut now, mut wrong) = (Known::default(), EPOCH, Vec::new());
    for (number, line) in TRACE.lines().enumerate() {
        let line_bytes = parse_json(line).unwrap();
        let step = RawDocument::from_bytes(&line_bytes).unwrap();
        let command = step.get_document("command").unwrap().unwrap();
        match command.iter().next().unwrap().unwrap().key {
            "failPoint" => {
                set.members[0].mischief.push_back(mischief(command));
                continue;
            }
            "drop" => {
                set.drop_orders();
                continue;
            }
            _ => {}
        }
        let sent = document(|out| known.append(out, command));
        let expected = recorded(step.get_document("answer").unwrap().unwrap());
        let got = match &outs(&mut set, &mut now, &sent)[..] {
            [Out::Reply(_, reply)] => {
                let reply = RawDocument::from_bytes(&reply[21..]).unwrap();
                known.note(reply);
                answered(reply)
            }
            [Out::Close(_)] => Outcome { is_closed: true, ..Outcome::default() },
            other => panic!("line {}: {other:?}", number + 1),
        };
        if expected != got {
            wrong.push(format!("line {}: {line}\n  got {got:?}", number + 1));
        }
    }
    assert!(wrong.is_empty(), "{} answers differ\n{}", wrong.len(), wrong.join("\n"));
}
