//! Answers: hello, refusals with their codes and labels, and the fields of every answer.

use mangonel_bson::{ObjectId, RawValue, writer};
use mangonel_proto::topology::Address;

use super::login::{AUTHENTICATION_FAILED, UNAUTHORIZED};
use super::member::{Duty, Held, Wait};
use super::router::NO_PRIMARY;
use super::set::{Out, Set};
use crate::plan::address;
use crate::queue::ms;
use crate::wire::{self, Request, append_document, append_strings, append_time};

/// Codes of members that are no longer primary, or are shutting down.
const STATE_CHANGES: &[i64] = &[91, 189, 10107, 11600, 11602, 13435, 13436];
/// Codes of unreachable hosts, and of the server's own time limit.
const PASSING: &[i64] = &[6, 7, 89, 262, 9001];
/// The code of an overloaded server.
pub const OVERLOADED: i64 = 462;
/// `NoSuchTransaction`.
pub const NO_SUCH_TRANSACTION: i64 = 251;
/// `WriteConflict`.
pub const WRITE_CONFLICT: i64 = 112;

/// The values of the tag that members have, in turn.
pub const SIDES: [&str; 2] = ["left", "right"];
/// How far a delayed member is behind, in seconds.
const DELAY: i64 = 600;

impl Set {
    /// Sends an answer with the fields of `fill`.
    pub(crate) fn answer(
        &mut self,
        number: usize,
        line: usize,
        request: &Request<'_>,
        fill: impl FnOnce(&mut Vec<u8>),
    ) {
        let body = self.made(number, |out| {
            fill(out);
            self.append_recovery_token(line, request, out);
        });
        if request.is_answered {
            self.send(line, request.id, &body, false);
        }
    }

    /// Appends the token by which another router can end the command's transaction.
    pub(crate) fn append_recovery_token(&self, line: usize, request: &Request<'_>, out: &mut Vec<u8>) {
        if self.is_cluster && request.is_in_transaction {
            let host = self.host_of(line).unwrap_or_default();
            append_document(out, "recoveryToken", |out| writer::append_i32(out, "host", host as i32));
        }
    }

    fn append_times(&self, number: usize, out: &mut Vec<u8>) {
        let member = &self.members[number];
        append_document(out, "$clusterTime", |out| append_time(out, "clusterTime", member.clock));
        append_time(out, "operationTime", member.data.time_at(member.data.log.len()));
    }

    /// Makes an answer to be sent later.
    pub(crate) fn made(&self, number: usize, fill: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
        wire::document(|out| {
            fill(out);
            self.append_times(number, out);
        })
    }

    pub(crate) fn send(&mut self, line: usize, response_to: i32, body: &[u8], is_more_to_come: bool) -> i32 {
        self.next_message += 1;
        let message = wire::message(body, self.next_message, response_to, is_more_to_come);
        self.out.push(Out::Reply(line, message));
        self.next_message
    }

    /// Refuses a command. The labels follow from the code and the command, as MongoDB's do.
    pub(crate) fn refuse(&mut self, number: usize, line: usize, request: &Request<'_>, code: i64) {
        let body = self.refusal(number, request, code);
        if request.is_answered {
            self.send(line, request.id, &body, false);
        }
    }

    /// Makes a refusal.
    pub(crate) fn refusal(&self, number: usize, request: &Request<'_>, code: i64) -> Vec<u8> {
        let is_end = matches!(request.name, "commitTransaction" | "abortTransaction");
        let is_retryable = request.number.is_some() && !request.is_in_transaction;
        let mut labels = Vec::new();
        if is_passing(code) {
            if request.is_in_transaction && !is_end {
                labels.push("TransientTransactionError");
            } else if is_end {
                labels.push("RetryableWriteError");
            } else if is_retryable {
                labels.extend(["RetryableWriteError", "NoWritesPerformed"]);
            }
        } else if code == OVERLOADED {
            labels.extend(["SystemOverloadedError", "RetryableError", "NoWritesPerformed"]);
        } else if request.is_in_transaction && matches!(code, NO_SUCH_TRANSACTION | WRITE_CONFLICT) {
            labels.push("TransientTransactionError");
        }
        let (process, counter) = self.version(number);
        self.made(number, |out| {
            writer::append_double(out, "ok", 0.0);
            writer::append_str(out, "errmsg", reason(code));
            writer::append_i32(out, "code", code as i32);
            if !labels.is_empty() {
                append_strings(out, "errorLabels", labels);
            }
            if STATE_CHANGES.contains(&code) && self.routers == 0 {
                append_version(out, process, counter);
            }
        })
    }

    fn version(&self, number: usize) -> (ObjectId, i64) {
        let mut process = [0; 12];
        process[..8].copy_from_slice(&(number as u64 + 1).to_le_bytes());
        process[8..].copy_from_slice(&self.members[number].boot.to_le_bytes());
        (ObjectId::from_bytes(process), self.members[number].counter)
    }

    fn append_own_hello(&self, number: usize, line: usize, out: &mut Vec<u8>) {
        if self.routers == 0 {
            return self.append_hello(number, line, out);
        }
        self.append_router_hello(number, line, out);
        if self.is_cluster {
            let (process, counter) = self.version(number);
            append_version(out, process, counter);
        }
    }

    /// Appends the fields of hello.
    pub(crate) fn append_hello(&self, number: usize, connection: usize, out: &mut Vec<u8>) {
        let member = &self.members[number];
        let (is_primary, is_arbiter) = (member.is_primary, member.duty == Duty::Arbiter);
        writer::append_double(out, "ok", 1.0);
        writer::append_bool(out, "helloOk", true);
        writer::append_bool(out, "isWritablePrimary", is_primary);
        writer::append_bool(out, "ismaster", is_primary);
        writer::append_bool(out, "secondary", !is_primary && !is_arbiter);
        if is_arbiter || member.duty == Duty::Delayed {
            writer::append_bool(out, "passive", true);
        }
        append_document(out, "tags", |out| writer::append_str(out, "side", SIDES[number % 2]));
        writer::append_str(out, "setName", "rs0");
        writer::append_i32(out, "setVersion", member.config);
        writer::append_str(out, "me", address(number).as_str());
        let of = |duty: Duty| {
            (0..self.members.len()).filter(move |&other| self.members[other].duty == duty).map(address)
        };
        let hosts: Vec<Address> = of(Duty::Bearing).collect();
        append_strings(out, "hosts", hosts.iter().map(Address::as_str));
        let passives: Vec<Address> = of(Duty::Delayed).collect();
        if !passives.is_empty() {
            append_strings(out, "passives", passives.iter().map(Address::as_str));
        }
        let arbiters: Vec<Address> = of(Duty::Arbiter).collect();
        if !arbiters.is_empty() {
            append_strings(out, "arbiters", arbiters.iter().map(Address::as_str));
        }
        if is_arbiter {
            writer::append_bool(out, "arbiterOnly", true);
        }
        if member.duty == Duty::Hidden {
            writer::append_bool(out, "hidden", true);
        }
        if is_primary {
            let mut election = [0; 12];
            election[4..].copy_from_slice(&member.term.to_be_bytes());
            writer::append_object_id(out, "electionId", ObjectId::from_bytes(election));
        }
        if let Some(primary) = self.primary() {
            writer::append_str(out, "primary", address(primary).as_str());
        }
        let length = member.data.log.len();
        let delay = if member.duty == Duty::Delayed { DELAY } else { 0 };
        append_document(out, "lastWrite", |out| {
            let seconds = (member.data.time_at(length) >> 32) as i64 - delay;
            writer::append_datetime(out, "lastWriteDate", seconds * 1000);
        });
        let (process, counter) = self.version(number);
        append_version(out, process, counter);
        self.append_limits(number, connection, out);
    }

    /// Appends the fields of hello that a member and a router have in common.
    pub(crate) fn append_limits(&self, number: usize, connection: usize, out: &mut Vec<u8>) {
        writer::append_i32(out, "maxBsonObjectSize", 16 * 1024 * 1024);
        writer::append_i32(out, "maxMessageSizeBytes", self.largest);
        writer::append_i32(out, "maxWriteBatchSize", 100_000);
        writer::append_datetime(out, "localTime", self.wall(number));
        writer::append_i32(out, "logicalSessionTimeoutMinutes", 30);
        writer::append_i32(out, "connectionId", connection as i32);
        writer::append_i32(out, "minWireVersion", 0);
        writer::append_i32(out, "maxWireVersion", self.wire);
    }

    /// Answers hello, or delays the answer until something changes.
    pub(crate) fn hello(&mut self, number: usize, line: usize, request: &Request<'_>, message: &[u8]) {
        if self.is_balanced() && request.body.get_bool_lenient("loadBalanced").ok().flatten() != Some(true) {
            self.complaints.push("hello does not say that it comes by a load balancer".into());
        }
        let known = request.body.get_document("topologyVersion").ok().flatten();
        let known = known.and_then(|version| {
            Some((version.get_object_id("processId").ok()??, version.get_i64_lenient("counter").ok()??))
        });
        match (known, request.integer("maxAwaitTimeMS")) {
            (Some(known), Some(longest)) if known == self.version(number) => {
                self.hold_hello(number, line, message.to_vec(), longest);
            }
            (Some(_), Some(longest)) => {
                self.stream_hello(number, line, message.to_vec(), request.id, longest)
            }
            _ => {
                let mut more = Vec::new();
                self.append_login(number, line, request, &mut more);
                let wanted = request.body.get_array("compression").ok().flatten();
                let wanted = wanted.into_iter().flat_map(|names| names.iter()).flatten();
                let common: Vec<&str> = wanted
                    .filter_map(|name| match name {
                        RawValue::String(name) => self.compressors.iter().find(|known| **known == name),
                        _ => None,
                    })
                    .copied()
                    .collect();
                let body = self.made(number, |out| {
                    self.append_own_hello(number, line, out);
                    out.extend_from_slice(&more);
                    if !common.is_empty() {
                        append_strings(out, "compression", common);
                    }
                });
                self.send(line, request.id, &body, false);
            }
        }
    }

    fn hold_hello(&mut self, number: usize, line: usize, message: Vec<u8>, longest: i64) {
        let until = Some(self.now + ms(longest as u64));
        self.wake_at(number, until);
        let wait = Wait::Hello(self.members[number].counter);
        self.members[number].held.push(Held { line, message, wait, until });
    }

    /// Sends a hello of a stream, and delays the next one.
    pub(crate) fn stream_hello(
        &mut self,
        number: usize,
        line: usize,
        message: Vec<u8>,
        response_to: i32,
        longest: i64,
    ) {
        let body = self.made(number, |out| self.append_own_hello(number, line, out));
        let sent = self.send(line, response_to, &body, true);
        let mut next = message;
        // Each one responds to the one before.
        next[4..8].copy_from_slice(&sent.to_le_bytes());
        self.hold_hello(number, line, next, longest);
    }
}

/// Whether a command that failed with this code may succeed when it is sent again.
pub(super) fn is_passing(code: i64) -> bool {
    STATE_CHANGES.contains(&code) || PASSING.contains(&code)
}

fn append_version(out: &mut Vec<u8>, process: ObjectId, counter: i64) {
    append_document(out, "topologyVersion", |out| {
        writer::append_object_id(out, "processId", process);
        writer::append_i64(out, "counter", counter);
    });
}

fn reason(code: i64) -> &'static str {
    match code {
        10107 => "not primary",
        13435 => "not primary and secondaryOk=false",
        13436 => "node is recovering",
        91 | 11600 => "shutdown in progress",
        189 | 11602 => "interrupted by a change of state",
        43 => "cursor not found",
        260 => "the collection was dropped",
        286 => "the resume point is no longer in the log",
        391 => "the user has to log in once more",
        50 => "operation exceeded time limit",
        WRITE_CONFLICT => "write conflict; please retry",
        NO_SUCH_TRANSACTION => "no such transaction",
        256 => "transaction was committed",
        225 => "transaction too old",
        OVERLOADED => "too many requests",
        NO_PRIMARY => "could not find a host matching the read preference",
        AUTHENTICATION_FAILED => "Authentication failed.",
        UNAUTHORIZED => "command requires authentication",
        _ => "refused",
    }
}
