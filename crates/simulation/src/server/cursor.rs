//! Reads: find and its cursors, and change streams over the entries that a majority has.

use std::collections::VecDeque;

use mangonel_bson::{RawDocument, RawValue, writer};

use super::log::{CHUNKS, COLLECTIONS, collection};
use super::member::{Cursor, Held, Wait};
use super::set::{DROPPED, Set};
use crate::queue::ms;
use crate::wire::{Level, Request, append_document, append_time};

/// How many documents a first batch has unless the command says.
const FIRST_BATCH: usize = 101;

/// `ChangeStreamHistoryLost`.
pub(crate) const HISTORY_LOST: i64 = 286;
/// `InvalidResumeToken`: nothing follows this token, since the collection was dropped.
pub(crate) const INVALID_RESUME_TOKEN: i64 = 260;

/// A change that a stream shows: the position behind it, and the write.
struct Change {
    behind: (usize, usize),
    key: i64,
    intent: i64,
}

impl Set {
    pub(super) fn find(&mut self, number: usize, line: usize, request: &Request<'_>, message: &[u8]) {
        if request.is_in_transaction && !self.check_transaction(number, line, request) {
            return;
        }
        let Some(collection) = collection(request.collection()) else {
            return self.refuse(number, line, request, 73);
        };
        let member = &self.members[number];
        let (length, own) = match (request.is_in_transaction, request.session) {
            (true, Some(session)) => {
                let known = &member.transactions[&session];
                (known.snapshot, known.writes.clone())
            }
            _ => match request.level {
                Level::Local | Level::Linearizable => (member.data.log.len(), Vec::new()),
                Level::Majority => (member.commit, Vec::new()),
                Level::Snapshot => match request.at {
                    Some(at) if member.data.time_at(member.commit) < at => {
                        let until = request.max_time.map(|limit| self.now + ms(limit));
                        self.wake_at(number, until);
                        let wait = Wait::Time { time: at, is_majority: true };
                        self.members[number].held.push(Held { line, message: message.to_vec(), wait, until });
                        return;
                    }
                    Some(at) => (member.data.length_at(at), Vec::new()),
                    None => (member.commit, Vec::new()),
                },
            },
        };
        let one = request.body.get_document("filter").ok().flatten();
        let one = one.and_then(|filter| filter.get_i64_lenient("_id").ok().flatten());
        let data = &member.data;
        let mut found = match one {
            Some(key) => data.value(collection, key, length).map(|value| (key, value)).into_iter().collect(),
            None => data.scan(collection, length),
        };
        for write in own.iter().filter(|write| write.collection == collection) {
            if let (Some(known), Some(value)) =
                (found.iter_mut().find(|(key, _)| *key == write.key), write.value)
            {
                known.1 = value;
            }
        }
        let at = member.data.time_at(length);
        let mut rest = VecDeque::from(found);
        let size = request.integer("batchSize").map_or(FIRST_BATCH, |size| size as usize);
        let batch: Vec<(i64, i64)> = rest.drain(..size.min(rest.len())).collect();
        let is_single = request.body.get_bool_lenient("singleBatch").ok().flatten() == Some(true);
        let id = if rest.is_empty() || is_single {
            0
        } else {
            self.open_cursor(
                number,
                Cursor { line, session: request.session, collection, rest, seen: None, used: self.now },
            )
        };
        let is_snapshot = request.level == Level::Snapshot && !request.is_in_transaction;
        if request.level == Level::Linearizable {
            self.write(number, None, false, Vec::new());
        }
        let reply = self.made(number, |out| {
            append_document(out, "cursor", |out| {
                append_documents(out, "firstBatch", collection, &batch);
                writer::append_i64(out, "id", id);
                writer::append_str(out, "ns", &format!("shop.{}", COLLECTIONS[usize::from(collection)]));
                if is_snapshot {
                    append_time(out, "atClusterTime", at);
                }
            });
            writer::append_double(out, "ok", 1.0);
            self.append_recovery_token(line, request, out);
        });
        self.answer_when_safe(number, line, request, message, reply);
    }

    fn open_cursor(&mut self, number: usize, cursor: Cursor) -> i64 {
        self.next_cursor += 1;
        self.members[number].cursors.insert(self.next_cursor, cursor);
        self.next_cursor
    }

    pub(super) fn aggregate(&mut self, number: usize, line: usize, request: &Request<'_>, _message: &[u8]) {
        let stage = request.body.get_array("pipeline").ok().flatten();
        let stage = stage.and_then(|stages| match stages.iter().next() {
            Some(Ok(RawValue::Document(stage))) => stage.get_document("$changeStream").ok().flatten(),
            _ => None,
        });
        let Some(options) = stage else { return self.refuse(number, line, request, 40324) };
        let token =
            ["resumeAfter", "startAfter"].iter().find_map(|key| options.get_document(key).ok().flatten());
        let token = token.and_then(|token| token.get_i64_lenient("_data").ok().flatten());
        let start = options.get_timestamp("startAtOperationTime").ok().flatten();
        let is_lost = token.is_some_and(|token| (token as usize >> 16) < self.oldest);
        if is_lost {
            return self.refuse(number, line, request, HISTORY_LOST);
        }
        let resumed = options.get_document("resumeAfter").ok().flatten().is_some();
        let dropped = token.filter(|_| resumed).is_some_and(|token| {
            let (entries, writes) = (token as usize >> 16, token as usize & 0xFFFF);
            let last = self.members[number].data.log.get(entries).zip(writes.checked_sub(1));
            last.and_then(|(entry, last)| entry.writes.get(last)).is_some_and(|write| write.intent <= DROPPED)
        });
        if dropped {
            return self.refuse(number, line, request, INVALID_RESUME_TOKEN);
        }
        let member = &self.members[number];
        let seen = match (token, start) {
            (Some(token), _) => (token as usize >> 16, token as usize & 0xFFFF),
            // Behind everything before that time.
            (None, Some(time)) => (member.data.length_at(time.to_u64().saturating_sub(1)), 0),
            (None, None) => (member.commit, 0),
        };
        let cursor = Cursor {
            line,
            session: request.session,
            collection: 0,
            rest: VecDeque::new(),
            seen: Some(seen),
            used: self.now,
        };
        let id = self.open_cursor(number, cursor);
        self.answer_changes(number, line, request, id, "firstBatch");
    }

    pub(super) fn get_more(
        &mut self,
        number: usize,
        line: usize,
        request: &Request<'_>,
        message: &[u8],
        has_waited: bool,
    ) {
        let id = request.integer("getMore").unwrap_or_default();
        let commit = self.members[number].commit;
        let (now, size) = (self.now, request.integer("batchSize").map_or(usize::MAX, |size| size as usize));
        let Some(cursor) = self.members[number].cursors.get_mut(&id) else {
            return self.refuse(number, line, request, 43);
        };
        if cursor.session != request.session {
            return self.refuse(number, line, request, 50738);
        }
        cursor.used = now;
        let (of, is_stream) = (cursor.line, cursor.seen.is_some());
        if self.is_strange(of, line) {
            self.complaints.push(format!("getMore of cursor {id} came on another connection than its own"));
        }
        let Some(cursor) = self.members[number].cursors.get_mut(&id).filter(|_| is_stream || size > 0) else {
            return self.refuse(number, line, request, 43);
        };
        if let Some((entries, _)) = cursor.seen {
            if entries >= commit && !has_waited {
                let until = Some(now + ms(request.max_time.unwrap_or(1000)));
                self.wake_at(number, until);
                let held = Held { line, message: message.to_vec(), wait: Wait::Data(id), until };
                return self.members[number].held.push(held);
            }
            return self.answer_changes(number, line, request, id, "nextBatch");
        }
        let collection = cursor.collection;
        let batch: Vec<(i64, i64)> = cursor.rest.drain(..size.min(cursor.rest.len())).collect();
        let left = if cursor.rest.is_empty() { 0 } else { id };
        if left == 0 {
            self.members[number].cursors.remove(&id);
        }
        let is_streaming = request.allows_exhaust && left != 0 && self.routers == 0;
        let body = self.made(number, |out| {
            append_document(out, "cursor", |out| {
                append_documents(out, "nextBatch", collection, &batch);
                writer::append_i64(out, "id", left);
                writer::append_str(out, "ns", &format!("shop.{}", COLLECTIONS[usize::from(collection)]));
            });
            writer::append_double(out, "ok", 1.0);
        });
        let sent = self.send(line, request.id, &body, is_streaming);
        if is_streaming {
            self.go_on_streaming(number, line, message, sent);
        }
    }

    /// Soon answers a `getMore` again, as if it had arrived again.
    fn go_on_streaming(&mut self, number: usize, line: usize, message: &[u8], sent: i32) {
        let mut message = message.to_vec();
        // Each one responds to the one before.
        message[4..8].copy_from_slice(&sent.to_le_bytes());
        let until = Some(self.now + ms(1));
        self.wake_at(number, until);
        self.members[number].held.push(Held { line, message, wait: Wait::Blocked, until });
    }

    /// Answers with the changes that a majority has and the cursor has not shown.
    fn answer_changes(&mut self, number: usize, line: usize, request: &Request<'_>, id: i64, batch: &str) {
        let member = &mut self.members[number];
        let commit = member.commit;
        let Some(cursor) = member.cursors.get_mut(&id) else {
            return self.refuse(number, line, request, 43);
        };
        let (mut entries, mut writes) = cursor.seen.unwrap_or_default();
        let (mut changes, mut end): (Vec<Change>, _) = (Vec::new(), None);
        while entries < commit && changes.len() < 5 && end.is_none() {
            let entry = &member.data.log[entries];
            for (position, write) in entry.writes.iter().enumerate().skip(writes) {
                if write.collection == 0 {
                    let behind = (entries, position + 1);
                    changes.push(Change { behind, key: write.key, intent: write.intent });
                    // Nothing follows the end of the collection.
                    end = (write.intent <= DROPPED).then_some(behind).or(end);
                }
            }
            (entries, writes) = (entries + 1, 0);
        }
        cursor.seen = Some((entries, writes));
        // A member whose log ends before the token of a resumed stream must not move it back.
        let (behind_all, id) = match end {
            Some(behind) => {
                member.cursors.remove(&id);
                (behind, 0)
            }
            None => ((entries, writes), id),
        };
        self.answer(number, line, request, |out| {
            writer::append_double(out, "ok", 1.0);
            append_document(out, "cursor", |out| {
                let start = writer::begin_array(out, batch);
                for (position, change) in changes.iter().enumerate() {
                    append_document(out, &position.to_string(), |out| {
                        append_token(out, "_id", change.behind);
                        writer::append_i64(out, "key", change.key);
                        writer::append_i64(out, "intent", change.intent);
                    });
                }
                writer::end_document(out, start);
                append_token(out, "postBatchResumeToken", behind_all);
                writer::append_i64(out, "id", id);
                writer::append_str(out, "ns", "shop.orders");
            });
        });
    }

    pub(super) fn kill_cursors(&mut self, number: usize, line: usize, request: &Request<'_>) {
        let named = request.body.get_array("cursors").ok().flatten();
        for id in named.iter().flat_map(|ids| ids.iter()).flatten().filter_map(|id| id.as_i64_lenient()) {
            if let Some(cursor) = self.members[number].cursors.remove(&id)
                && self.is_strange(cursor.line, line)
            {
                self.complaints.push(format!("killCursors of {id} came on another connection than its own"));
            }
        }
        self.agree(number, line, request);
    }

    /// Whether a cursor that was opened on one connection cannot be used on the other.
    fn is_strange(&self, of: usize, line: usize) -> bool {
        (self.is_balanced() && of != line) || (self.is_cluster && self.host_of(of) != self.host_of(line))
    }
}

fn append_token(out: &mut Vec<u8>, key: &str, behind: (usize, usize)) {
    append_document(out, key, |out| writer::append_i64(out, "_data", (behind.0 << 16 | behind.1) as i64));
}

/// Returns the bytes of a chunk, by its number and its size.
pub(crate) fn chunk_bytes(number: i64, size: i64) -> Vec<u8> {
    (0..size).map(|at| (number * 31 + at * 7 + at / 256) as u8).collect()
}

fn append_documents(out: &mut Vec<u8>, key: &str, collection: u8, documents: &[(i64, i64)]) {
    let start = writer::begin_array(out, key);
    for (position, (id, value)) in documents.iter().enumerate() {
        append_document(out, &position.to_string(), |out| {
            writer::append_i64(out, "_id", *id);
            if collection == CHUNKS {
                writer::append_binary(out, "data", 0, &chunk_bytes(*id, *value));
            } else {
                writer::append_i64(out, "value", *value);
            }
        });
    }
    writer::end_document(out, start);
}

/// Returns the documents of a reply's batch as pairs of integers.
pub fn batch_of(cursor: RawDocument<'_>, first: &str, second: &str) -> Vec<(i64, i64)> {
    let batch = cursor.get_array("firstBatch").ok().flatten();
    let batch = batch.or_else(|| cursor.get_array("nextBatch").ok().flatten());
    let integer =
        |document: &RawDocument<'_>, key| document.get_i64_lenient(key).ok().flatten().unwrap_or(-1);
    batch
        .into_iter()
        .flat_map(crate::wire::documents_of)
        .map(|document| (integer(&document, first), integer(&document, second)))
        .collect()
}
