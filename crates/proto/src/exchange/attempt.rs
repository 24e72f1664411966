//! One attempt: the command stamped for its connection, its answer read, and whether another attempt follows.
//! Spec: message, retryable-reads, retryable-writes, sessions.

use mangonel_bson::RawDocument;

use super::{Exchange, Phase};
use crate::client::Client;
use crate::envelope::{Envelope, wire_preference};
use crate::error::{Failure, ProtocolError};
use crate::message::read_reply;
use crate::operation::{Kind, SessionChoice};
use crate::reply::Facts;
use crate::retry;
use crate::time::Instant;
use crate::topology::{self, Cause, ServerDescription, ServerType};

/// The server wants the user to authenticate once more before it runs the command.
const REAUTHENTICATION_REQUIRED: i64 = 391;

impl Exchange {
    /// Stamps the command for the connection it was given.
    pub(super) fn send(&mut self, client: &mut Client, now: Instant) {
        let Some(server) = self.server.clone() else { return self.fail(Failure::Closed) };
        if self.session.is_none() && client.session_timeout().is_some() {
            match std::mem::replace(&mut self.operation.session, SessionChoice::None) {
                SessionChoice::Implicit => self.session = Some(client.take_session(now)),
                SessionChoice::Of(session) => self.session = Some(session),
                SessionChoice::None => {}
            }
        }
        let is_retryable = self.operation.kind == Kind::RetryableWrite
            && client.options.retry_writes
            && self.session.is_some()
            && takes_transaction_numbers(&server);
        if let Some(session) = &mut self.session
            && is_retryable
            && self.attempt == 0
            && !self.is_reauthenticated
        {
            session.txn_number += 1;
        }
        self.has_transaction_number = is_retryable;
        self.request_id = client.next_request();
        let envelope = Envelope {
            session: self.session.as_ref(),
            is_retryable,
            cluster_time: client.cluster_time(&server),
            server_api: &client.options.server_api,
            database: &self.operation.database,
            read_preference: wire_preference(
                self.operation.read_preference.as_ref(),
                self.operation.kind.is_read(),
                server.server_type,
                client.description().topology_type,
            ),
        };
        let command = &mut self.operation.command;
        command.stamp(self.request_id, self.operation.replies, |out| envelope.append_to(out));
        let size = command.outbound().len();
        let largest = usize::try_from(server.max_message_size_bytes).unwrap_or(usize::MAX);
        if size > largest {
            self.check_in(client, now);
            self.fail(Failure::TooLarge(format!(
                "the command is {size} bytes, and {} takes at most {largest}; split it",
                server.address
            )));
            return self.end_session(client, now);
        }
        self.is_sent = false;
        self.phase = Phase::InFlight;
        self.prepare_announcement(client, now);
    }

    pub(super) fn read_answer(
        &mut self,
        client: &mut Client,
        message: &[u8],
        now: Instant,
    ) -> Result<(), ProtocolError> {
        let more_to_come = read_reply(message)?.more_to_come;
        let body = self.answer_of(message)?;
        self.facts = Facts::read(body)?;
        self.more_to_come = more_to_come;
        self.announce_reply(client, body, self.facts.ok, now);
        if let Some(time) = self.facts.cluster_time.clone() {
            client.advance_cluster_time(&body.as_bytes()[time]);
        }
        if self.facts.code == Some(REAUTHENTICATION_REQUIRED) && self.may_reauthenticate(client) {
            self.begin_reauthentication(client, now);
            return Ok(());
        }
        if !self.facts.ok || self.facts.write_concern_code.is_some() {
            let message =
                format!("{}: {}", self.address(), body.get_str("errmsg")?.unwrap_or("write concern error"));
            self.report(client, topology::Phase::AfterHandshake, Cause::Reply(body), &message, now);
        }
        if !more_to_come {
            self.check_in(client, now);
        }
        let options = &client.options;
        let again =
            retry::after_reply(self.operation.kind, &self.facts, options.retry_reads, options.retry_writes);
        if again && self.may_retry() {
            self.retry(client, now);
            return Ok(());
        }
        self.failure = (!self.facts.ok).then_some(Failure::Command);
        self.finish(client, now);
        Ok(())
    }

    /// Checks that a message answers what was asked, and returns its body.
    pub(super) fn answer_of<'a>(&self, message: &'a [u8]) -> Result<RawDocument<'a>, ProtocolError> {
        let reply = read_reply(message)?;
        // The later replies of an exhaust cursor answer the reply before them, which the link has checked.
        if reply.response_to != self.request_id && !self.operation.is_under_way {
            return Err(ProtocolError::new(format!(
                "expected the reply to request {}, found one to {}",
                self.request_id, reply.response_to
            )));
        }
        Ok(reply.body)
    }

    pub(super) fn may_retry(&self) -> bool {
        self.attempt == 0
            && self.operation.pinned.is_none()
            && self.operation.server.is_none()
            && (self.operation.kind.is_read() || self.has_transaction_number)
    }

    pub(super) fn retry(&mut self, client: &mut Client, now: Instant) {
        self.attempt += 1;
        self.deprioritized.extend(self.server().cloned());
        self.select(client, now);
    }
}

/// Whether a write may carry a transaction number, so that the server knows a repetition when it sees one.
fn takes_transaction_numbers(server: &ServerDescription) -> bool {
    server.server_type != ServerType::Standalone
}
