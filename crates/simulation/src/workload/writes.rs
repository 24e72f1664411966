//! Writes: inserts, counters, and those that are not repeated or not answered.

use mangonel_bson::{append_bool, append_i64, append_str, writer};
use mangonel_proto::message::{Command, Replies};
use mangonel_proto::operation::{Kind, Limit, Operation, SessionChoice};

use super::{COUNTERS, Place, append_concern, append_level, command, command_of, finished};
use crate::judge::Verdict;
use crate::queue::ms;
use crate::server::cursor::batch_of;
use crate::wire::{append_document, document};

/// Inserts one document or several.
pub(super) async fn insert(place: &mut Place, turn: i64) {
    let count = place.chance.pick(&[1, 1, 1, 3]);
    let is_safe = place.chance.percent(70);
    let wtimeout = place.chance.percent(10).then_some(200);
    let intents: Vec<i64> = (0..count).map(|part| place.intent(turn, part)).collect();
    let is_sequence = place.chance.percent(50);
    let operation = insertion(&intents, is_safe, wtimeout, is_sequence);
    for intent in &intents {
        place.ledger.borrow_mut().begin(*intent, place.desk.now());
    }
    let ending = place.desk.run(operation).await;
    if ending.is_ok() && ending.document().is_some_and(|body| body.get("writeErrors") != Ok(None)) {
        place.blame(format!("insert {} met its own document, which was inserted once", intents[0]));
    }
    for intent in &intents {
        place.enter(*intent, &ending, is_safe);
    }
}

fn insertion(intents: &[i64], is_safe: bool, wtimeout: Option<i32>, is_sequence: bool) -> Operation {
    let mut head = Command::begin();
    let start = writer::begin_document(&mut head);
    append_str(&mut head, "insert", "orders");
    append_bool(&mut head, "ordered", true);
    append_concern(&mut head, is_safe, wtimeout);
    append_i64(&mut head, "comment", intents[0]);
    if intents[0] % 40 == 1 {
        // More bytes than usually precede a sequence.
        append_document(&mut head, "let", |out| append_str(out, "long", &"a".repeat(1_100)));
    }
    let fill = |out: &mut Vec<u8>, intent: i64| {
        append_i64(out, "_id", intent);
        append_i64(out, "value", intent % 1000);
        append_i64(out, "intent", intent);
    };
    let mut sequence = Vec::new();
    if is_sequence {
        sequence = Command::begin_sequence("documents", 64);
        for intent in intents {
            let start = writer::begin_document(&mut sequence);
            fill(&mut sequence, *intent);
            writer::end_document(&mut sequence, start);
        }
    } else {
        let array = writer::begin_array(&mut head, "documents");
        for (position, intent) in intents.iter().enumerate() {
            append_document(&mut head, &position.to_string(), |out| fill(out, *intent));
        }
        writer::end_document(&mut head, array);
    }
    writer::end_document(&mut head, start);
    finished(head, sequence, Kind::RetryableWrite)
}

/// Inserts a document and counts up, with one command.
pub(super) async fn bulk(place: &mut Place, turn: i64) {
    let is_safe = place.chance.percent(70);
    let (key, now) = (place.chance.below(COUNTERS) as i64, place.desk.now());
    let intents = [place.intent(turn, 0), place.intent(turn, 1)];
    {
        let mut ledger = place.ledger.borrow_mut();
        intents.iter().for_each(|intent| ledger.begin(*intent, now));
        ledger.counts.entry(key).or_default().push((intents[1], now));
    }
    if place.chance.percent(20) {
        // Like a bulk write that must know the server's limits first.
        let mut selection = command_of("ping", 1, Kind::Selection, |_| {});
        (selection.is_silent, selection.session) = (true, SessionChoice::None);
        if place.desk.run(selection).await.sends > 0 {
            place.blame("the choice of a server was sent".into());
        }
    }
    let ending = place.desk.run(bulk_command(intents, key, is_safe)).await;
    let errors = ending.document().and_then(|body| body.get_i64_lenient("nErrors").ok().flatten());
    if ending.is_ok() && errors.is_some_and(|errors| errors > 0) {
        place.blame(format!("bulk write {} met its own document, which was inserted once", intents[0]));
    }
    intents.iter().for_each(|intent| place.enter(*intent, &ending, is_safe));
}

fn bulk_command(intents: [i64; 2], key: i64, is_safe: bool) -> Operation {
    let mut head = Command::begin();
    let start = writer::begin_document(&mut head);
    append_i64(&mut head, "bulkWrite", 1);
    append_bool(&mut head, "ordered", true);
    append_concern(&mut head, is_safe, None);
    append_i64(&mut head, "comment", intents[0]);
    writer::end_document(&mut head, start);
    let mut operations = Command::begin_sequence("ops", 256);
    operations.extend(document(|out| {
        append_i64(out, "insert", 0);
        append_document(out, "document", |out| {
            append_i64(out, "_id", intents[0]);
            append_i64(out, "value", intents[0] % 1000);
            append_i64(out, "intent", intents[0]);
        });
    }));
    operations.extend(document(|out| {
        append_i64(out, "update", 1);
        append_document(out, "updateMods", |out| {
            append_i64(out, "q", key);
            append_i64(out, "add", 1);
            append_i64(out, "intent", intents[1]);
        });
    }));
    let names = ["shop.orders", "shop.counters"];
    let namespaces: Vec<u8> =
        names.iter().flat_map(|name| document(|out| append_str(out, "ns", name))).collect();
    let command = Command::with_two_sequences(head, operations, "nsInfo", &namespaces)
        .expect("documents were built above");
    Operation::new(command, "admin", Kind::RetryableWrite)
}

/// Makes an update that adds to a document.
pub(super) fn addition(
    collection: &str,
    key: i64,
    add: i64,
    intent: i64,
    concern: Option<bool>,
) -> Operation {
    let kind = if concern.is_some() { Kind::RetryableWrite } else { Kind::Write };
    command("update", collection, kind, |out| {
        let array = writer::begin_array(out, "updates");
        append_document(out, "0", |out| {
            append_i64(out, "q", key);
            append_i64(out, "add", add);
            append_i64(out, "intent", intent);
        });
        writer::end_document(out, array);
        append_i64(out, "comment", intent);
        if let Some(is_safe) = concern {
            append_concern(out, is_safe, None);
        }
    })
}

/// Counts up, or reads a counter.
pub(super) async fn count(place: &mut Place, turn: i64) {
    let key = place.chance.below(COUNTERS) as i64;
    if place.chance.percent(60) {
        let intent = place.intent(turn, 0);
        let is_safe = place.chance.percent(80);
        {
            let now = place.desk.now();
            let mut ledger = place.ledger.borrow_mut();
            ledger.begin(intent, now);
            ledger.counts.entry(key).or_default().push((intent, now));
        }
        let ending = place.desk.run(addition("counters", key, 1, intent, Some(is_safe))).await;
        place.enter(intent, &ending, is_safe);
        return;
    }
    let level = place.chance.pick(&["local", "majority", "linearizable"]);
    let is_exact = level == "linearizable";
    let preference = if is_exact { None } else { place.preference() };
    let mut operation = command("find", "counters", Kind::Read, |out| {
        append_document(out, "filter", |out| append_i64(out, "_id", key));
        append_level(out, level);
    });
    operation.read_preference = preference;
    if place.chance.percent(10) {
        operation.limit = Limit::Within(ms(place.chance.pick(&[3, 30, 400])));
    }
    let ending = place.desk.run(operation).await;
    if !ending.is_ok() {
        return;
    }
    let cursor = ending.document().and_then(|body| body.get_document("cursor").ok().flatten());
    let found = cursor.map(|cursor| batch_of(cursor, "_id", "value")).unwrap_or_default();
    let (Some(begun), Some(ended)) = (ending.begun, ending.ended) else { return };
    match found.first() {
        Some((_, value)) => place.ledger.borrow_mut().judge_count(key, *value, begun, ended, is_exact),
        None => {
            // Every member has the first entry, even after a rollback or before it has fetched anything.
            place.blame(format!("counter {key} is not there"));
        }
    }
}

/// Writes without retries, and unacknowledged writes.
pub(super) async fn plain(place: &mut Place, turn: i64) {
    let intent = place.intent(turn, 0);
    place.ledger.borrow_mut().begin(intent, place.desk.now());
    let key = place.chance.below(COUNTERS) as i64;
    let now = place.desk.now();
    place.ledger.borrow_mut().counts.entry(key).or_default().push((intent, now));
    let mut operation = addition("counters", key, 1, intent, None);
    let is_answered = place.chance.percent(80);
    if !is_answered {
        operation.replies = Replies::None;
        operation.session = SessionChoice::None;
    }
    let ending = place.desk.run(operation).await;
    if is_answered {
        place.enter(intent, &ending, false);
    } else {
        place.ledger.borrow_mut().end(intent, Verdict::Unknown, place.desk.now());
    }
}
