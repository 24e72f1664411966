//! Ends an exchange or an attempt: broken connections, their consequences for the server, and the return of resources.
//! Spec: server-discovery-and-monitoring (error handling), connection-monitoring-and-pooling, sessions.

use std::time::Duration;

use super::{Besides, Exchange, Failed, Phase, Stay};
use crate::client::Client;
use crate::error::Failure;
use crate::events::{CheckOutFailure, CloseReason, CommandFailure};
use crate::operation::SessionChoice;
use crate::pool::Pool;
use crate::retry;
use crate::time::Instant;
use crate::topology::{self, ApplicationError, Cause};

/// Commands whose reply has a cursor.
const OPENS_CURSOR: &[&str] = &["find", "aggregate", "listCollections", "listIndexes", "bulkWrite"];

/// The message for a connection in use that ended with its client.
const CLOSED: &str =
    "the client was closed while the operation ran; whether the server carried it out is not known";

/// The message for a connection in use that this side closed.
const INTERRUPTED: &str = "the connection was closed here, because the server did not answer a heartbeat in time \
                           (connectTimeoutMS)";

/// The end of the message of an operation whose time limit passed before its reply came.
const TIME_LIMIT_REMEDY: &str = ": no reply before the operation's time limit, and it may have been done \
                                 nevertheless: raise timeoutMS, or the argument of timeout()";

impl Exchange {
    /// Called when the received bytes are no message, or not the expected one. Closes the link. Nothing is retried,
    /// since the outcome on the server is unknown.
    pub fn handle_protocol_error(&mut self, client: &mut Client, message: &str, now: Instant) {
        self.announce_failure(client, CommandFailure::Protocol(message.to_owned()), now);
        self.drop_link(client, now);
        self.spoil_session(client);
        self.fail(Failure::Protocol(format!("{}: {message}", self.address())));
        self.end_session(client, now);
    }

    /// The connection broke, did not answer in time, or could not be opened. `message` gives the reason, without the
    /// address.
    pub fn handle_network_error(
        &mut self,
        client: &mut Client,
        message: &str,
        timed_out: bool,
        now: Instant,
    ) {
        let message = match self.is_in_flight() {
            true if client.is_closed() => CLOSED,
            _ if self.is_interrupted(client) => INTERRUPTED,
            _ => message,
        };
        let message = format!("{}: {message}", self.address());
        let cause = if timed_out { Cause::Timeout } else { Cause::Network };
        let told = if timed_out { CommandFailure::Timeout } else { CommandFailure::Network };
        match self.phase {
            Phase::Reauthenticating(_) => {
                self.announce_failure(client, told(message.clone()), now);
                self.report(client, topology::Phase::AfterHandshake, cause, &message, now);
                // The command was refused before it ran.
                self.back_off(client, message, timed_out, Besides::Nothing, now);
            }
            Phase::Connecting { .. } | Phase::Handshake(_) => {
                self.announce_failure(client, told(message.clone()), now);
                let besides = self.report(client, topology::Phase::BeforeHandshake, cause, &message, now);
                self.back_off(client, message, timed_out, besides, now);
            }
            Phase::InFlight { .. } => {
                let message = match timed_out {
                    true if self.until.is_some() => message + TIME_LIMIT_REMEDY,
                    true => message + &late_reply(client.options.socket_timeout),
                    false => message,
                };
                self.announce_failure(client, told(message.clone()), now);
                self.report(client, topology::Phase::AfterHandshake, cause, &message, now);
                self.drop_link(client, now);
                self.spoil_session(client);
                self.fail(Failure::Network { message, timed_out });
                // The operation's time is over, so there is no other attempt.
                let is_spent = timed_out && self.until.is_some();
                let may = !is_spent && retry::after_network_error(self.operation.kind, &client.options);
                if may && self.may_retry(client, now) {
                    self.retry(client, &[], now);
                } else {
                    if may && self.would_retry(now) {
                        self.note_besides(Besides::OutOfTime);
                    }
                    self.end_session(client, now);
                }
            }
            _ => {}
        }
    }

    /// The exchange's only connection was lost before anything was sent on it. Only the command that ends a transaction
    /// may use another one.
    pub(super) fn fail_pinned(&mut self, client: &mut Client, now: Instant) {
        let what = if self.operation.pinned.is_some() { "cursor" } else { "transaction" };
        let message = format!("{}: the connection of the {what} was lost", self.address());
        self.drop_link(client, now);
        self.fail(Failure::Network { message, timed_out: false });
        if retry::after_network_error(self.operation.kind, &client.options) && self.may_retry(client, now) {
            self.retry(client, &[], now);
        } else {
            self.end_session(client, now);
        }
    }

    /// Whether clearing the pool, and not the server, closed the connection in use.
    fn is_interrupted(&self, client: &mut Client) -> bool {
        let link = self.link.filter(|_| self.is_in_flight());
        link.is_some_and(|link| self.pool(client).is_some_and(|pool| !pool.is_out(link)))
    }

    /// Called when the server's name could not be resolved. Unlike a refused connection, this says nothing about the
    /// server's load.
    pub fn handle_name_error(&mut self, client: &mut Client, message: &str, now: Instant) {
        if matches!(self.phase, Phase::Connecting { .. }) {
            let message = format!("{}: {message}", self.address());
            self.report_load(client, topology::Phase::BeforeHandshake, Cause::Network, &message, false, now);
            self.back_off(client, message, false, Besides::Nothing, now);
        }
    }

    /// Gives up: checks its connection in, and closes a link whose reply is outstanding. Idempotent.
    pub fn close(&mut self, client: &mut Client, now: Instant) {
        match self.phase {
            Phase::Selecting { .. } => client.stop_waiting(self.id),
            Phase::Announced => self.announce_no_connection(client, CheckOutFailure::Connection, now),
            Phase::Waiting { .. } => {
                let id = self.id;
                if let Some(pool) = self.pool(client) {
                    pool.abandon(id, now);
                }
                self.announce_no_connection(client, CheckOutFailure::Connection, now);
            }
            Phase::Connecting { .. }
            | Phase::Handshake(_)
            | Phase::Reauthenticating(_)
            | Phase::InFlight { .. } => {
                let failure = CommandFailure::Cancelled("the caller did not wait for the reply".to_owned());
                self.announce_failure(client, failure, now);
                if self.is_in_flight() {
                    self.spoil_session(client);
                }
                self.drop_link(client, now);
            }
            // A cursor is open, and nothing took it over.
            Phase::Done(_) if self.failed.is_none() => self.note_left_cursor(),
            _ => {}
        }
        if !self.is_done() {
            self.enter(Phase::Done(Stay::No));
            self.failed.get_or_insert_with(|| {
                let message = "the exchange was given up".into();
                Failed::new(Failure::Network { message, timed_out: false })
            });
        }
        self.end_session(client, now);
    }

    /// Closes the exchange. With `is_kept`, checks in the connection that it kept for later batches, unless a cursor
    /// took that over.
    pub fn give_up(&mut self, client: &mut Client, is_kept: bool, now: Instant) {
        let (link, owes_more) = (self.link(), self.more_to_come());
        self.close(client, now);
        if let (true, Some(link)) = (is_kept, link) {
            client.release_pinned(link, !owes_more, now);
        }
        self.count_end(client, now);
    }

    /// Reports an error on the connection to the topology; returns its further consequence for the caller.
    pub(super) fn report(
        &mut self,
        client: &mut Client,
        phase: topology::Phase,
        cause: Cause<'_>,
        message: &str,
        now: Instant,
    ) -> Besides {
        // A connection that cannot be opened may only mean that the server is overloaded; its monitor will find out
        // (client-backpressure).
        let is_overload = phase == topology::Phase::BeforeHandshake
            && matches!(cause, Cause::Network | Cause::Timeout)
            && !self.is_authenticating();
        self.report_load(client, phase, cause, message, is_overload, now);
        if is_overload { Besides::Overload } else { Besides::Nothing }
    }

    fn report_load(
        &mut self,
        client: &mut Client,
        phase: topology::Phase,
        cause: Cause<'_>,
        message: &str,
        is_overload: bool,
        now: Instant,
    ) {
        if phase == topology::Phase::BeforeHandshake {
            self.note_trouble(message);
        }
        let Some(server) = &self.server else { return };
        let pool = client.pool(&server.address, self.shard);
        // Behind a load balancer each service has its own generation.
        let service = self.link.and_then(|link| pool?.service_of(link));
        let (generation, current) = match (service, pool) {
            (Some((service, generation)), Some(pool)) => (generation, pool.service_generation(service)),
            _ => (self.generation, pool.map_or(self.generation, Pool::generation)),
        };
        let error = ApplicationError {
            address: &server.address,
            cause,
            phase,
            is_overload,
            generation: u64::from(generation),
            pool_generation: u64::from(current),
            service_id: service.map(|(service, _)| service),
            message,
        };
        client.with_topology(|topology| topology.handle_application_error(&error, now));
    }

    pub(super) fn check_in(&mut self, client: &mut Client, now: Instant) {
        if self.operation.pinned.is_some() || self.is_link_pinned(client) {
            return self.keep_pinned(client);
        }
        self.link.into_iter().for_each(|link| client.forget_pinned(link));
        match (self.link.take(), self.pool(client)) {
            (Some(link), Some(pool)) => pool.check_in(link, now),
            // The pool was closed in the meantime; only this code can close the link.
            (Some(link), None) => {
                self.announce_orphan(client, link);
                client.link_lost(self.shard, link, now);
            }
            _ => {}
        }
    }

    /// Leaves its connection to a cursor or a transaction.
    pub(super) fn keep_pinned(&self, client: &mut Client) {
        if let (Some(link), Some(server)) = (self.link, &self.server) {
            client.keep_pinned(link, &server.address, self.shard);
        }
    }

    pub(super) fn drop_link(&mut self, client: &mut Client, now: Instant) {
        if self.is_link_pinned(client) {
            self.unpin_session(client, now);
        }
        let link = self.link.take();
        link.into_iter().for_each(|link| client.forget_pinned(link));
        let is_new = matches!(self.phase, Phase::Connecting { .. } | Phase::Handshake(_));
        match (is_new, self.pool(client), link) {
            (true, Some(pool), link) => pool.failed(link, now),
            (false, Some(pool), Some(link)) => pool.discard(link, now),
            // The server left the topology; only this code can close the link.
            (is_new, None, Some(link)) => {
                if is_new {
                    self.announce_closed(client, link, CloseReason::PoolClosed);
                } else {
                    self.announce_orphan(client, link);
                }
                client.link_lost(self.shard, link, now);
            }
            _ => {}
        }
        if is_new {
            if let (Some(opening), None) = (self.opening(), link) {
                self.announce_closed(client, opening, CloseReason::Error);
            }
            let is_closed = client.is_closed();
            let reason = if is_closed { CheckOutFailure::PoolClosed } else { CheckOutFailure::Connection };
            self.announce_no_connection(client, reason, now);
        }
    }

    /// Called when the exchange has its result, and its connection is kept or checked in.
    #[inline]
    pub(super) fn finish(&mut self, client: &mut Client, stay: Stay, now: Instant) {
        self.enter(Phase::Done(stay));
        let has_open_cursor = self.facts.cursor.as_ref().is_some_and(|cursor| cursor.id != 0);
        if !has_open_cursor {
            self.end_session(client, now);
        }
    }

    /// Whether the command may open a cursor.
    pub(super) fn opens_cursor(&self) -> bool {
        OPENS_CURSOR.contains(&self.operation.command.name())
    }

    /// Records that the command may have left an unused cursor open in its implicit session.
    pub(super) fn note_left_cursor(&mut self) {
        let opens_cursor = self.opens_cursor();
        if let Some(session) = self.session.as_mut().filter(|_| opens_cursor) {
            session.is_dirty = true;
            session.left_cursor_at = self.server.as_ref().map(|server| server.address.clone());
        }
    }

    pub(super) fn end_session(&mut self, client: &mut Client, now: Instant) {
        let session = match std::mem::replace(&mut self.operation.session, SessionChoice::None) {
            SessionChoice::Of(session) => Some(session),
            _ => self.session.take(),
        };
        if let Some(session) = session {
            client.give_back_session(session, now);
        }
        if self.explicit.is_some() {
            self.leave_session(client, now);
        }
    }

    pub(super) fn fail(&mut self, failure: Failure) {
        self.failed = Some(Failed::new(failure));
        self.enter(Phase::Done(Stay::No));
    }

    /// Fails before this attempt was sent. If an earlier attempt was sent, its result is reported, since it is more
    /// informative.
    pub(super) fn fail_unsent(&mut self, failure: Failure) {
        self.fail(failure);
        self.report_earlier();
    }

    /// Fails because the client was closed. For a write the result of an earlier attempt is more informative.
    pub(super) fn fail_closed(&mut self) {
        self.fail(Failure::Closed);
        if !self.operation.kind.is_read() {
            self.report_earlier();
        }
    }

    /// Adds further information to a failure.
    pub(super) fn note_besides(&mut self, besides: Besides) {
        if let Some(failed) = &mut self.failed {
            failed.besides = besides;
        }
    }
}

impl Failed {
    pub(super) fn new(failure: Failure) -> Self {
        Failed { failure, besides: Besides::Nothing }
    }
}

/// Returns the message for a late reply, with the remedy.
fn late_reply(limit: Option<Duration>) -> String {
    let limit = limit.map_or(String::new(), |limit| format!(" ({} ms)", limit.as_millis()));
    format!(
        ": no reply within socketTimeoutMS{limit}, and the operation may have been done nevertheless: raise it"
    )
}
