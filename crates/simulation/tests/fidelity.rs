//! The simulated servers answer as a real mongod did: `tools/simulation_traces.py` recorded it.

use mangonel_bson::{RawArray, RawDocument, RawValue, append_binary, append_i64, parse_json, writer};
use mangonel_simulation::chance::Chance;
use mangonel_simulation::server::cursor::batch_of;
use mangonel_simulation::server::member::Duty;
use mangonel_simulation::server::{Out, Set};
use mangonel_simulation::wire::{append_document, document, documents_of, message};

const TRACE: &str = include_str!("traces/mongod.jsonl");

/// Returns a recorded command as it is sent: sessions are numbers there, and the last cursor has no name.
fn command(recorded: RawDocument<'_>, last: i64) -> Vec<u8> {
    document(|out| {
        for element in recorded.iter().flatten() {
            match (element.key, element.value) {
                ("lsid", value) => {
                    let byte = value.as_i64_lenient().unwrap() as u8;
                    append_document(out, "lsid", |out| append_binary(out, "id", 0x04, &[byte; 16]));
                }
                ("getMore", _) => append_i64(out, "getMore", last),
                ("cursors", _) => {
                    let array = writer::begin_array(out, "cursors");
                    append_i64(out, "0", last);
                    writer::end_document(out, array);
                }
                (key, value) => writer::append_value(out, key, value),
            }
        }
    })
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

/// What counts in an answer.
#[derive(PartialEq, Debug)]
struct Outcome {
    numbers: [Option<i64>; 3],
    labels: Vec<String>,
    write_errors: Vec<i64>,
    batch: Option<Vec<(i64, i64)>>,
    is_open: Option<bool>,
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
        batch: pairs("batch").map(|pairs| pairs.map(|pair| (pair[0], pair[1])).collect()),
        is_open: answer.get_bool_lenient("isOpen").unwrap(),
    }
}

fn answered(reply: RawDocument<'_>) -> Outcome {
    let cursor = reply.get_document("cursor").unwrap();
    let errors = reply.get_array("writeErrors").unwrap().into_iter().flat_map(documents_of);
    let integer = |document: RawDocument<'_>, key| document.get_i64_lenient(key).unwrap();
    Outcome {
        numbers: ["ok", "code", "n"].map(|key| integer(reply, key)),
        labels: strings(reply.get_array("errorLabels").unwrap()),
        write_errors: errors
            .flat_map(|error| [integer(error, "index").unwrap(), integer(error, "code").unwrap()])
            .collect(),
        batch: cursor.map(|cursor| batch_of(cursor, "_id", "value")),
        is_open: cursor.map(|cursor| integer(cursor, "id") != Some(0)),
    }
}

#[test]
fn every_command_is_answered_as_mongod_answered_it() {
    let mut set = Set::new(&[(Duty::Bearing, 1)], Chance::new(1, 1), &[]);
    let (mut last, mut wrong) = (0, Vec::new());
    for (number, line) in TRACE.lines().enumerate() {
        let line_bytes = parse_json(line).unwrap();
        let step = RawDocument::from_bytes(&line_bytes).unwrap();
        let sent = command(step.get_document("command").unwrap().unwrap(), last);
        set.receive(0, 0, &message(&sent, 1, 0, false));
        let replies = std::mem::take(&mut set.out);
        let [Out::Reply(_, reply)] = &replies[..] else { panic!("line {}: {replies:?}", number + 1) };
        let reply = RawDocument::from_bytes(&reply[21..]).unwrap();
        let cursor = reply.get_document("cursor").unwrap();
        let id = cursor.and_then(|cursor| cursor.get_i64_lenient("id").unwrap());
        last = id.filter(|id| *id != 0).unwrap_or(last);
        let (expected, got) = (recorded(step.get_document("answer").unwrap().unwrap()), answered(reply));
        if expected != got {
            wrong.push(format!("line {}: {line}\n  got {got:?}", number + 1));
        }
    }
    assert!(wrong.is_empty(), "{} answers differ\n{}", wrong.len(), wrong.join("\n"));
}
