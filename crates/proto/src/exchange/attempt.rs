//! One attempt: stamps the command for its connection, reads the answer, and decides whether another attempt follows.
//! Spec: message, retryable-reads, retryable-writes, sessions.

use mangonel_bson::RawDocument;

use super::{Attempt, Attempts, Besides, Earlier, Exchange, Failed, Phase, Stay};
use crate::client::Client;
use crate::client_session::ClientSession;
use crate::envelope::{Envelope, wire_preference};
use crate::error::{Failure, ProtocolError};
use crate::message::read_reply;
use crate::operation::{Kind, Limit, SessionChoice};
use crate::reply::Facts;
use crate::retry::{self, Again};
use crate::time::Instant;
use crate::topology::{self, Cause, ServerDescription, ServerType, TopologyType, is_state_change};

/// The error code of a server that requires the user to authenticate again before it runs the command.
const REAUTHENTICATION_REQUIRED: i64 = 391;

impl Exchange {
    /// Stamps the command for its connection.
    pub(super) fn send(&mut self, client: &mut Client, now: Instant) {
        let Some(server) = self.server.clone() else { return self.fail(Failure::Closed) };
        if self.session.is_none() {
            // The description from server selection decides: another thread may have marked the server as unknown
            // since, but a cursor's session must still be sent.
            let has_sessions = server.logical_session_timeout_minutes.is_some()
                || server.server_type == ServerType::LoadBalancer;
            match std::mem::replace(&mut self.operation.session, SessionChoice::None) {
                SessionChoice::Implicit if has_sessions => self.session = Some(client.take_session(now)),
                SessionChoice::Of(session) => self.session = Some(session),
                SessionChoice::Implicit | SessionChoice::Explicit(_) | SessionChoice::None => {}
            }
        }
        let max_time_ms = match self.time_for_server(&server, now) {
            Ok(milliseconds) => milliseconds,
            Err(failure) => {
                self.check_in(client, now);
                self.fail(failure);
                if self.report_earlier() {
                    self.note_besides(Besides::OutOfTime);
                }
                return self.end_session(client, now);
            }
        };
        let is_retryable = self.operation.kind == Kind::RetryableWrite
            && client.options.retry_writes
            && self.may_count_writes()
            && takes_transaction_numbers(&server);
        if let Some(session) = &mut self.session
            && is_retryable
            && self.attempts.retries == 0
            && !self.attempts.has_reauthenticated
        {
            session.txn_number += 1;
        }
        self.attempts.has_transaction_number = is_retryable;
        self.request_id = client.next_request();
        let stamp = match self.stamp_session(client, &server, is_retryable, now) {
            Ok(stamp) => stamp,
            Err(failure) => {
                self.check_in(client, now);
                self.fail_unsent(failure);
                return self.end_session(client, now);
            }
        };
        let explicit = self.explicit.as_ref().and_then(|explicit| client.session(explicit.id));
        // A command that the user wrote may be a read; for a write this makes no difference.
        let is_read = match self.operation.kind {
            Kind::Command => !stamp.as_ref().is_some_and(|stamp| stamp.is_in_transaction),
            kind => kind.is_read(),
        };
        let envelope = Envelope {
            explicit: stamp.as_ref(),
            session: self.session.as_ref(),
            is_retryable,
            cluster_time: client.cluster_time(&server, explicit.and_then(ClientSession::cluster_time)),
            server_api: &client.options.server_api,
            max_time_ms,
            database: &self.operation.database,
            read_preference: wire_preference(
                self.operation.read_preference.as_ref(),
                is_read,
                server.server_type,
                client.description().topology_type,
            ),
        };
        let command = &mut self.operation.command;
        command.stamp(self.request_id, self.operation.replies, |out| envelope.append_to(out));
        let size = command.outbound().len();
        let largest = usize::try_from(server.max_message_size_bytes).unwrap_or(usize::MAX);
        if size > largest {
            self.unsend_session(client);
            self.check_in(client, now);
            self.fail_unsent(Failure::TooLarge(format!(
                "the command is {size} bytes, and {} takes at most {largest}; split it",
                server.address
            )));
            return self.end_session(client, now);
        }
        self.enter(Phase::InFlight { is_sent: self.operation.is_under_way });
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
        if !self.facts.ok {
            let errmsg = body.get_str("errmsg")?.unwrap_or_default();
            self.facts.is_state_change = is_state_change(self.facts.code, errmsg);
        }
        self.announce_reply(client, body, self.facts.ok, now);
        if let Some(time) = self.facts.cluster_time.clone() {
            client.advance_cluster_time(&body.as_bytes()[time]);
        }
        if self.explicit.is_some() {
            self.teach_session(client, body, now);
        }
        if self.facts.code == Some(REAUTHENTICATION_REQUIRED)
            && self.may_reauthenticate(client)
            && !more_to_come
        {
            self.unsend_session(client);
            self.begin_reauthentication(client, now);
            return Ok(());
        }
        if !self.facts.ok || self.facts.write_concern_code.is_some() {
            let message =
                format!("{}: {}", self.address(), body.get_str("errmsg")?.unwrap_or("write concern error"));
            self.report(client, topology::Phase::AfterHandshake, Cause::Reply(body), &message, now);
        }
        let link = self.link;
        let stay = if more_to_come {
            Stay::MoreToCome
        } else if client.is_load_balanced()
            && self.facts.ok
            && !self.is_link_pinned(client)
            && self.facts.cursor.as_ref().is_some_and(|cursor| cursor.id != 0)
        {
            Stay::WithCursor
        } else {
            self.check_in(client, now);
            Stay::No
        };
        if stay != Stay::No {
            self.keep_pinned(client);
        }
        self.failed = (!self.facts.ok).then_some(Failed::new(Failure::Command));
        let again = match stay {
            Stay::No => retry::after_reply(self.operation.kind, &self.facts, &client.options),
            // Another attempt would take another connection, and this one would never be returned.
            Stay::MoreToCome | Stay::WithCursor => Again::No,
        };
        match again {
            Again::AfterBackoff => {
                self.attempts.met_overload = true;
                if let Some(until) = self.backoff_end(client, now) {
                    self.put_off_session(client, now);
                    // The transaction may no longer need the connection.
                    self.check_in(client, now);
                    self.wait_out(client, until, message);
                    return Ok(());
                }
            }
            Again::Now if self.may_retry(client, now) => {
                self.retry(client, message, now);
                return Ok(());
            }
            Again::Now if self.would_retry(now) => self.note_besides(Besides::OutOfTime),
            Again::Now | Again::No => {}
        }
        if self.facts.labels.wrote_nothing {
            self.report_earlier();
        }
        self.finish(client, stay, now);
        self.count_cursors(client, link);
        Ok(())
    }

    /// Checks that a message answers the request, and returns its body.
    pub(super) fn answer_of<'a>(&self, message: &'a [u8]) -> Result<RawDocument<'a>, ProtocolError> {
        let reply = read_reply(message)?;
        // The later replies of an exhaust cursor respond to the previous reply; the link has checked that.
        if reply.response_to != self.request_id && !self.operation.is_under_way {
            return Err(ProtocolError::new(format!(
                "expected the reply to request {}, got one to {}",
                self.request_id, reply.response_to
            )));
        }
        Ok(reply.body)
    }

    pub(super) fn may_retry(&self, client: &Client, now: Instant) -> bool {
        let Attempts { retries, met_overload, .. } = self.attempts;
        let most = if met_overload { client.options.max_adaptive_retries } else { 1 };
        // A time limit replaces the limit of attempts, even an unlimited time.
        let has_unlimited_time = self.operation.limit == Limit::None && !met_overload;
        self.until.map_or(has_unlimited_time || retries < most, |until| now < until) && self.is_repeatable()
    }

    /// Whether another attempt would follow, if the operation had time left.
    pub(super) fn would_retry(&self, now: Instant) -> bool {
        self.until.is_some_and(|until| until <= now) && self.is_repeatable()
    }

    /// Whether this command may be attempted again at all.
    fn is_repeatable(&self) -> bool {
        let is_end = self.operation.kind.end().is_some();
        self.operation.pinned.is_none()
            && self.operation.server.is_none()
            && (self.operation.kind.is_read() || self.attempts.has_transaction_number || is_end)
            // The caller repeats the whole transaction; only its end is retried alone.
            && (is_end || !self.is_in_transaction())
    }

    /// Tries again on another server if possible. `message`: the reply to this attempt, empty without one.
    pub(super) fn retry(&mut self, client: &mut Client, message: &[u8], now: Instant) {
        self.keep_failure(message);
        self.count_retry(client);
        self.attempts.retries += 1;
        self.begun = now;
        self.unpin_session(client, now);
        self.unsend_session(client);
        self.deprioritized.extend(self.server().cloned());
        self.select(client, now);
    }

    /// Returns when to try an overloaded server again; `None` after the last allowed attempt.
    fn backoff_end(&self, client: &mut Client, now: Instant) -> Option<Instant> {
        let retries = self.attempts.retries;
        if retries >= client.options.max_adaptive_retries || self.operation.pinned.is_some() {
            return None;
        }
        let end = now + retry::backoff(retries + 1, self.facts.base_backoff, client.chance());
        self.until.is_none_or(|until| end < until).then_some(end)
    }

    /// Waits before trying an overloaded server again, or another one if `enable_overload_retargeting` is set.
    fn wait_out(&mut self, client: &mut Client, until: Instant, message: &[u8]) {
        self.keep_failure(message);
        self.count_retry(client);
        self.attempts.retries += 1;
        self.begun = until;
        let is_sharded = client.description().topology_type == TopologyType::Sharded;
        if is_sharded || client.options.enable_overload_retargeting {
            self.deprioritized.extend(self.server().cloned());
        }
        // The session owns a connection that stays with its transaction meanwhile, and may lose it.
        self.link = None;
        self.enter(Phase::BackingOff(until));
    }

    /// Keeps the result of this attempt, unless it wrote nothing and an earlier result is more informative.
    fn keep_failure(&mut self, message: &[u8]) {
        // Always taken: otherwise a next attempt without a reply would inherit these facts.
        let (failed, facts) = (self.failed.take(), std::mem::take(&mut self.facts));
        if facts.labels.wrote_nothing && matches!(self.earlier, Earlier::Kept(_)) {
            return;
        }
        self.earlier = Earlier::Kept(Box::new(Attempt { failed, facts, reply: message.to_vec() }));
    }

    /// Ends with the result of an earlier attempt, if there was one; returns whether there was.
    pub(super) fn report_earlier(&mut self) -> bool {
        match std::mem::replace(&mut self.earlier, Earlier::None) {
            Earlier::Kept(attempt) => {
                let Attempt { failed, facts, reply } = *attempt;
                (self.failed, self.facts, self.earlier) = (failed, facts, Earlier::Told(reply));
                true
            }
            Earlier::None | Earlier::Told(_) => false,
        }
    }

    /// Returns the `maxTimeMS` that the operation's limit leaves to the server: the time left less a round trip.
    fn time_for_server(&mut self, server: &ServerDescription, now: Instant) -> Result<Option<i64>, Failure> {
        let Some(until) = self.until else { return Ok(None) };
        let (left, way) = (until.saturating_since(now), server.min_round_trip_time);
        let milliseconds = i64::try_from(left.saturating_sub(way).as_millis()).unwrap_or(i64::MAX);
        if milliseconds == 0 {
            return Err(Failure::TimeLimit(format!(
                "the operation would exceed its time limit: {} ms are left, and a round trip to {} takes at \
                 least {} ms; raise timeoutMS, or the argument of timeout()",
                left.as_millis(),
                server.address,
                way.as_millis()
            )));
        }
        let command = &mut self.operation.command;
        // On a `getMore` the server allows `maxTimeMS` only for a tailable cursor, as its wait. On the `find` of a
        // tailable cursor it would limit the cursor's whole life.
        let is_omitted = match command.name() {
            "getMore" => {
                command.shorten_wait(milliseconds);
                true
            }
            "find" if command.has_flag("tailable") => !command.has_flag("awaitData"),
            _ => self.operation.omits_max_time,
        };
        Ok((!is_omitted).then_some(milliseconds))
    }
}

/// Whether the server accepts transaction numbers, which let it recognise a repeated write.
fn takes_transaction_numbers(server: &ServerDescription) -> bool {
    server.server_type != ServerType::Standalone
}
