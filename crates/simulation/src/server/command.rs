//! Commands: their routing, writes with their sessions, and commands that wait for a majority.

use mangonel_bson::{RawDocument, writer};

use super::answer::{NO_SUCH_TRANSACTION, OVERLOADED, is_passing};
use super::log::{Write, collection};
use super::login::{LOGINS, REAUTHENTICATION_REQUIRED, UNAUTHORIZED};
use super::member::{Cursor, Duty, Held, Mischief, State, Wait};
use super::router::NO_PRIMARY;
use super::set::{Out, Set};
use crate::queue::ms;
use crate::wire::{BODY, Level, Request, append_document, append_strings, document};

/// Commands that a member refuses if it is not primary.
const WRITES: &[&str] = &["insert", "update", "delete", "bulkWrite", "commitTransaction", "abortTransaction"];
/// Commands of the driver itself; fail points ignore them.
const OWN: &[&str] = &["hello", "isMaster", "killCursors", "endSessions", "killSessions"];
/// `WriteConcernFailed`: its time limit passed.
const WRITE_CONCERN_TIMEOUT: i64 = 64;
/// How many milliseconds a read of a delayed member takes at most.
const LONGEST_READ: u64 = 2_000;
/// `DuplicateKey`.
const DUPLICATE_KEY: i32 = 11000;

impl Set {
    /// Handles a whole message that arrived at a running member.
    pub fn receive(&mut self, number: usize, line: usize, message: &[u8]) {
        let Some(request) = Request::read(message) else {
            self.out.push(Out::Close(line));
            return;
        };
        // A paused member later handles messages again that routers passed on to it.
        self.hosts.entry(line).or_insert(number);
        let Some(number) = self.route(number, &request) else {
            return self.refuse(number, line, &request, NO_PRIMARY);
        };
        if self.members[number].state == State::Paused {
            return self.members[number].inbox.push((line, message.to_vec()));
        }
        if let Some(time) = request.cluster_time {
            self.members[number].clock = self.members[number].clock.max(time);
        }
        let is_login = LOGINS.contains(&request.name);
        let is_hello = matches!(request.name, "hello" | "isMaster");
        if !is_login && !is_hello && !self.logins.is_in(line) {
            return self.refuse(number, line, &request, UNAUTHORIZED);
        }
        if !is_login && !is_hello && self.logins.has_expired(line) {
            return self.refuse(number, line, &request, REAUTHENTICATION_REQUIRED);
        }
        let is_own = OWN.contains(&request.name);
        let waiting = &mut self.members[number].mischief;
        let is_met = !is_own && waiting.front().is_some_and(|next| meets(*next, &request));
        let mischief = if is_met { waiting.pop_front() } else { None };
        if is_login && matches!(mischief, Some(Mischief::Refuse(_) | Mischief::Overload)) {
            self.logins.refusals += 1;
        }
        match mischief {
            Some(Mischief::Refuse(code)) => self.refuse(number, line, &request, code),
            Some(Mischief::LoseLogin) => {
                self.members[number].mischief.push_front(Mischief::CloseBefore);
                self.refuse(number, line, &request, REAUTHENTICATION_REQUIRED);
            }
            Some(Mischief::Overload) => self.refuse(number, line, &request, OVERLOADED),
            Some(Mischief::CloseBefore) => self.out.push(Out::Close(line)),
            Some(Mischief::CloseAfter) => {
                let sent = self.out.len();
                self.perform(number, line, &request, message);
                self.take_back_answer(number, line, sent);
                self.out.push(Out::Close(line));
            }
            Some(Mischief::HangUp) => {
                self.perform(number, line, &request, message);
                self.out.push(Out::Close(line));
            }
            Some(Mischief::WriteConcern(code)) if is_write(&request) && self.members[number].is_primary => {
                self.perform_with_failed_concern(number, line, &request, message, code);
            }
            Some(Mischief::Block(milliseconds)) => {
                let until = Some(self.now + ms(milliseconds));
                self.wake_at(number, until);
                let held = Held { line, message: message.to_vec(), wait: Wait::Blocked, until };
                self.members[number].held.push(held);
            }
            _ => self.perform(number, line, &request, message),
        }
    }

    /// Continues a command that waited. `is_due`: its wait has succeeded.
    pub(crate) fn go_on(&mut self, number: usize, held: Held, is_due: bool) {
        let Held { line, message, wait, .. } = held;
        let Some(request) = Request::read(&message) else { return };
        match wait {
            Wait::Hello(_) => {
                let longest = request.integer("maxAwaitTimeMS").unwrap_or(10_000);
                self.stream_hello(number, line, message.clone(), request.id, longest);
            }
            Wait::Majority { term, reply, .. } => {
                let member = &self.members[number];
                let is_interrupted = !member.is_primary || member.term != term;
                if !is_interrupted && is_due {
                    self.send(line, request.id, &reply, false);
                } else if is_write(&request) && !is_refusal(&reply) {
                    // A majority may have it in the end, or not.
                    let code = if is_interrupted { 11602 } else { WRITE_CONCERN_TIMEOUT };
                    self.send_with_failed_concern(line, &request, &reply, code);
                } else {
                    // The result of a read or a refusal may turn out wrong.
                    self.refuse(number, line, &request, if is_interrupted { 11602 } else { 50 });
                }
            }
            Wait::Time { .. } if !is_due => self.refuse(number, line, &request, 50),
            Wait::Time { .. } | Wait::Blocked => self.perform(number, line, &request, &message),
            Wait::Data(_) => self.get_more(number, line, &request, &message, true),
        }
    }

    /// Answers that a write was applied but its write concern failed.
    fn send_with_failed_concern(&mut self, line: usize, request: &Request<'_>, reply: &[u8], code: i64) {
        let done = RawDocument::from_bytes(reply).ok();
        let body = document(|out| {
            for element in done.iter().flat_map(|done| done.iter()).flatten() {
                writer::append_value(out, element.key, element.value);
            }
            append_document(out, "writeConcernError", |out| {
                writer::append_i32(out, "code", code as i32);
                writer::append_str(out, "errmsg", "waiting for replication failed");
            });
            if is_passing(code) && request.number.is_some() {
                append_strings(out, "errorLabels", ["RetryableWriteError"]);
            }
        });
        if request.is_answered {
            self.send(line, request.id, &body, false);
        }
    }

    fn perform_with_failed_concern(
        &mut self,
        number: usize,
        line: usize,
        request: &Request<'_>,
        message: &[u8],
        code: i64,
    ) {
        let sent = self.out.len();
        self.perform(number, line, request, message);
        // Its write concern is not waited for; if it is not done yet, it meets no failure.
        let held = self.members[number].held.iter().rev().find(|held| held.line == line);
        let reply = match held.map(|held| &held.wait) {
            Some(Wait::Majority { reply, .. }) => Some(reply.clone()),
            _ => self.out[sent..].iter().find_map(|out| match out {
                Out::Reply(to, reply) if *to == line => Some(reply[BODY..].to_vec()),
                _ => None,
            }),
        };
        // A refused write was not applied.
        if let Some(reply) = reply.filter(|reply| !is_refusal(reply)) {
            self.take_back_answer(number, line, sent);
            self.send_with_failed_concern(line, request, &reply, code);
        }
    }

    /// Drops the messages on a connection since `sent`, later ones too.
    fn take_back_answer(&mut self, number: usize, line: usize, sent: usize) {
        let kept: Vec<Out> = self.out.drain(sent..).filter(|out| !is_reply_to(out, line)).collect();
        self.out.extend(kept);
        self.members[number].held.retain(|held| held.line != line);
    }

    fn perform(&mut self, number: usize, line: usize, request: &Request<'_>, message: &[u8]) {
        let member = &self.members[number];
        let refused = if WRITES.contains(&request.name) && !member.is_primary {
            Some(10107)
        } else if is_read(request)
            && !member.is_primary
            && request.preference.is_none_or(|mode| mode == "primary")
        {
            Some(13435)
        } else if (request.is_in_transaction || request.level == Level::Linearizable) && !member.is_primary {
            Some(10107)
        } else {
            None
        };
        if let Some(code) = refused {
            return self.refuse(number, line, request, code);
        }
        if let Some(after) = request.after
            && self.waits_for_time(number, line, request, message, after)
        {
            return;
        }
        match request.name {
            "hello" | "isMaster" => self.hello(number, line, request, message),
            "ping" | "endSessions" => self.agree(number, line, request),
            "killSessions" => self.kill_sessions(number, line, request),
            "commitTransaction" => self.commit_transaction(number, line, request, message),
            "abortTransaction" => self.abort_transaction(number, line, request),
            "insert" | "update" | "delete" if request.is_in_transaction => {
                self.write_in_transaction(number, line, request);
            }
            "insert" | "update" | "delete" => self.write_now(number, line, request, message),
            "saslStart" | "saslContinue" | "authenticate" => self.log_in(number, line, request),
            "bulkWrite" => self.bulk_write(number, line, request, message),
            "find" => self.find(number, line, request, message),
            "aggregate" => self.aggregate(number, line, request, message),
            "getMore" => self.get_more(number, line, request, message, false),
            "killCursors" => self.kill_cursors(number, line, request),
            _ => self.refuse(number, line, request, 59),
        }
    }

    pub(crate) fn agree(&mut self, number: usize, line: usize, request: &Request<'_>) {
        self.answer(number, line, request, |out| writer::append_double(out, "ok", 1.0));
    }

    /// Delays a command until the member has reached its `afterClusterTime`.
    fn waits_for_time(
        &mut self,
        number: usize,
        line: usize,
        request: &Request<'_>,
        message: &[u8],
        time: u64,
    ) -> bool {
        let is_majority = matches!(request.level, Level::Majority | Level::Snapshot);
        let member = &self.members[number];
        let length = if is_majority { member.commit } else { member.data.log.len() };
        if member.data.time_at(length) >= time {
            return false;
        }
        self.bring_time(number, time);
        if self.members[number].is_primary && !is_majority {
            return false;
        }
        // A delayed member would have the time in ten minutes; its operator allows no wait that long.
        let is_delayed = self.members[number].duty == Duty::Delayed;
        let limit = request.max_time.or(is_delayed.then_some(LONGEST_READ));
        let until = limit.map(|limit| self.now + ms(limit));
        self.wake_at(number, until);
        let wait = Wait::Time { time, is_majority };
        self.members[number].held.push(Held { line, message: message.to_vec(), wait, until });
        true
    }

    /// Answers once a majority has the current log, or at once if that is not required.
    pub(crate) fn answer_when_safe(
        &mut self,
        number: usize,
        line: usize,
        request: &Request<'_>,
        message: &[u8],
        reply: Vec<u8>,
    ) {
        let member = &self.members[number];
        let length = member.data.log.len();
        let is_linearizable = request.level == Level::Linearizable;
        if !request.is_answered {
            return;
        }
        if !(request.wants_majority || is_linearizable) || member.commit >= length {
            self.send(line, request.id, &reply, false);
            return;
        }
        let limit =
            if is_linearizable { request.max_time } else { request.write_timeout.or(request.max_time) };
        let until = limit.map(|limit| self.now + ms(limit));
        let wait = Wait::Majority { length, term: member.term, reply };
        self.wake_at(number, until);
        self.members[number].held.push(Held { line, message: message.to_vec(), wait, until });
    }

    fn write_now(&mut self, number: usize, line: usize, request: &Request<'_>, message: &[u8]) {
        let Some(collection) = collection(request.collection()) else {
            return self.refuse(number, line, request, 73);
        };
        let statements: Vec<Statement<'_>> = request
            .documents
            .iter()
            .map(|document| Statement { name: request.name, collection, document: *document })
            .collect();
        let Some(duplicate) = self.write_statements(number, line, request, &statements) else { return };
        let reply = self.made(number, |out| {
            writer::append_double(out, "ok", 1.0);
            writer::append_i32(out, "n", duplicate.unwrap_or(request.documents.len() as i32));
            if let Some(position) = duplicate {
                let start = writer::begin_array(out, "writeErrors");
                append_document(out, "0", |out| {
                    writer::append_i32(out, "index", position);
                    writer::append_i32(out, "code", DUPLICATE_KEY);
                    writer::append_str(out, "errmsg", "duplicate key");
                });
                writer::end_document(out, start);
            }
        });
        self.answer_when_safe(number, line, request, message, reply);
    }

    /// Writes to several collections; each operation names its collection by position.
    fn bulk_write(&mut self, number: usize, line: usize, request: &Request<'_>, message: &[u8]) {
        let named = request.namespaces.iter().map(|info| {
            let namespace = info.get_str("ns").ok().flatten().unwrap_or_default();
            collection(namespace.split_once('.').map_or("", |(_, name)| name))
        });
        let named: Vec<Option<u8>> = named.collect();
        let statements = request.documents.iter().map(|operation| {
            let name = operation.iter().next()?.ok()?.key;
            let place = operation.get_i64_lenient(name).ok()??;
            let collection = named.get(usize::try_from(place).ok()?).copied()??;
            let part = if name == "insert" { "document" } else { "updateMods" };
            let document = operation.get_document(part).ok()??;
            Some(Statement { name, collection, document })
        });
        let Some(statements) = statements.collect::<Option<Vec<_>>>() else {
            return self.refuse(number, line, request, 73);
        };
        let Some(duplicate) = self.write_statements(number, line, request, &statements) else { return };
        let reply = self.made(number, |out| {
            writer::append_double(out, "ok", 1.0);
            append_document(out, "cursor", |out| {
                writer::append_i64(out, "id", 0);
                let batch = writer::begin_array(out, "firstBatch");
                for position in 0..duplicate.map_or(statements.len(), |position| position as usize + 1) {
                    let is_wrong = Some(position as i32) == duplicate;
                    append_document(out, &position.to_string(), |out| {
                        writer::append_double(out, "ok", if is_wrong { 0.0 } else { 1.0 });
                        writer::append_i32(out, "idx", position as i32);
                        if is_wrong {
                            writer::append_i32(out, "code", DUPLICATE_KEY);
                        }
                    });
                }
                writer::end_document(out, batch);
                writer::append_str(out, "ns", "admin.$cmd.bulkWrite");
            });
            writer::append_i32(out, "nErrors", i32::from(duplicate.is_some()));
        });
        self.answer_when_safe(number, line, request, message, reply);
    }

    /// Does the statements of a write that the session has not done yet. Returns the position of a statement whose key
    /// is taken; `None` when the command was refused.
    fn write_statements(
        &mut self,
        number: usize,
        line: usize,
        request: &Request<'_>,
        statements: &[Statement<'_>],
    ) -> Option<Option<i32>> {
        let session = request.session.zip(request.number);
        let mut done = Vec::new();
        if let Some((session, number_of)) = session {
            let known = self.members[number].data.rows.get(&session).cloned().unwrap_or_default();
            let active = self.members[number].transactions.get(&session).map_or(0, |known| known.number);
            let code = if number_of < known.number.max(active) {
                Some(225)
            } else if known.number == number_of && known.is_transaction {
                Some(256)
            } else {
                None
            };
            if let Some(code) = code {
                self.refuse(number, line, request, code);
                return None;
            }
            if known.number == number_of {
                done = known.statements;
            }
            // A newer number ends the session's transaction.
            self.members[number].transactions.remove(&session);
        }
        for (position, statement) in statements.iter().enumerate() {
            let position = position as i32;
            if done.contains(&position) {
                continue;
            }
            let length = self.members[number].data.log.len();
            match made(self, number, request.intent, statement, position, length) {
                Some(write) => {
                    self.write(number, session, false, vec![write]);
                }
                None => return Some(Some(position)),
            }
        }
        Some(None)
    }

    fn kill_sessions(&mut self, number: usize, line: usize, request: &Request<'_>) {
        let named = request.body.get_array("killSessions").ok().flatten();
        let ids: Vec<[u8; 16]> = named
            .into_iter()
            .flat_map(crate::wire::documents_of)
            .filter_map(|session| session.get_binary("id").ok()??.bytes.try_into().ok())
            .collect();
        for (position, member) in self.members.iter_mut().enumerate() {
            if position == number || self.routers > 0 {
                let is_other = |cursor: &Cursor| cursor.session.is_none_or(|session| !ids.contains(&session));
                member.cursors.retain(|_, cursor| is_other(cursor));
                member.transactions.retain(|session, _| !ids.contains(session));
            }
        }
        self.agree(number, line, request);
    }

    /// Returns whether a transaction's statement may continue; refuses it otherwise.
    pub(crate) fn check_transaction(&mut self, number: usize, line: usize, request: &Request<'_>) -> bool {
        let Some((session, wanted)) = request.session.zip(request.number) else {
            self.refuse(number, line, request, 72);
            return false;
        };
        let member = &mut self.members[number];
        let row = member.data.rows.get(&session).cloned().unwrap_or_default();
        let active = member.transactions.get(&session).map(|known| known.number);
        let newest = row.number.max(active.unwrap_or_default());
        let code = if wanted < newest {
            Some(225)
        } else if request.is_starting && active != Some(wanted) && row.number != wanted {
            let snapshot = member.commit;
            let begun = super::member::Transaction { number: wanted, line, snapshot, writes: Vec::new() };
            member.transactions.insert(session, begun);
            None
        } else if row.number == wanted && row.is_transaction {
            Some(256)
        } else if active != Some(wanted) || request.is_starting {
            Some(NO_SUCH_TRANSACTION)
        } else {
            None
        };
        let of = self.members[number].transactions.get(&session).map(|known| known.line);
        if self.is_balanced() && code.is_none() && of != Some(line) {
            self.complaints.push(format!("{} left the connection of its transaction", request.name));
        }
        if self.is_cluster && code.is_none() && of.and_then(|of| self.host_of(of)) != self.host_of(line) {
            self.complaints.push(format!("{} left the router of its transaction", request.name));
        }
        if let Some(code) = code {
            self.refuse(number, line, request, code);
        }
        code.is_none()
    }
}

/// One write of a command.
pub(super) struct Statement<'a> {
    pub(super) name: &'a str,
    pub(super) collection: u8,
    pub(super) document: RawDocument<'a>,
}

/// Makes the write of one statement; `None` when its key is taken. `intent`: the name of the whole command.
pub(super) fn made(
    set: &Set,
    number: usize,
    intent: Option<i64>,
    statement: &Statement<'_>,
    position: i32,
    length: usize,
) -> Option<Write> {
    let Statement { name, collection, document } = *statement;
    let data = &set.members[number].data;
    let integer = |key| document.get_i64_lenient(key).ok().flatten();
    let key = integer("_id").or_else(|| integer("q")).unwrap_or_default();
    let intent = integer("intent").or(intent).unwrap_or_default();
    let known = data.value(collection, key, length);
    let value = match name {
        "insert" if known.is_some() => return None,
        "insert" => integer("value"),
        "update" => Some(known.unwrap_or_default() + integer("add").unwrap_or_default()),
        _ => None,
    };
    Some(Write { collection, key, value, intent, statement: position })
}

/// Whether a planned disturbance concerns this command.
fn meets(mischief: Mischief, request: &Request<'_>) -> bool {
    let is_end = matches!(request.name, "commitTransaction" | "abortTransaction");
    match mischief {
        Mischief::HangUp => request.is_in_transaction && !is_end,
        Mischief::LoseLogin => request.is_in_transaction && !is_end && !request.is_starting,
        _ => true,
    }
}

fn is_write(request: &Request<'_>) -> bool {
    matches!(request.name, "insert" | "update" | "delete" | "bulkWrite" | "commitTransaction")
}

fn is_read(request: &Request<'_>) -> bool {
    matches!(request.name, "find" | "aggregate") && !request.is_in_transaction
}

fn is_refusal(body: &[u8]) -> bool {
    RawDocument::from_bytes(body).is_ok_and(|body| body.get_bool_lenient("ok") != Ok(Some(true)))
}

fn is_reply_to(out: &Out, line: usize) -> bool {
    matches!(out, Out::Reply(to, _) if *to == line)
}
