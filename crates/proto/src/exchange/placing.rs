//! Finds a server and a connection for an exchange: server selection, check-out, and the waits for both.
//! Spec: server-selection, connection-monitoring-and-pooling.

use std::sync::Arc;

use super::{Besides, Candidates, Exchange, Failed, PRIMARY, Phase, RECONNECT_DELAY, Stay};
use crate::client::Client;
use crate::error::Failure;
use crate::events::{CheckOutFailure, CloseReason, Interests, SelectionEvent};
use crate::operation::Kind;
use crate::pool::CheckOut;
use crate::retry;
use crate::time::Instant;
use crate::topology::select::{Criteria, SelectionError};
use crate::topology::{Address, ServerDescription, ServerType};

/// MongoDB 5.0, the first whose secondaries run an aggregation that writes.
const WRITING_AGGREGATION_WIRE_VERSION: i32 = 13;

impl Exchange {
    pub(super) fn select(&mut self, client: &mut Client, now: Instant) {
        if client.is_closed() {
            self.fail_closed();
            return self.end_session(client, now);
        }
        if self.operation.kind == Kind::Write && self.operation.read_preference.is_some() {
            self.place_writing_aggregation(client);
        }
        let selected = match self.server_by_address(client) {
            Some(address) => Ok(client.known_server(&address)),
            None => {
                let preference = self.operation.read_preference.as_ref().unwrap_or(&PRIMARY);
                let is_writing = !self.operation.kind.is_read() && self.operation.read_preference.is_none();
                let criteria = if is_writing { Criteria::Writable } else { Criteria::Readable(preference) };
                match client.candidates(criteria, &self.deprioritized) {
                    Ok(Some(candidates)) if !candidates.is_empty() => {
                        self.enter(Phase::Choosing(Box::new(Candidates(candidates))));
                        return;
                    }
                    Ok(_) => client.select(criteria, &self.deprioritized),
                    Err(error) => Err(error),
                }
            }
        };
        self.take_server(client, selected, 0, now);
    }

    /// Returns the only server that can run the operation: the cursor's, or the one that the transaction is pinned to.
    fn server_by_address(&self, client: &Client) -> Option<Address> {
        self.operation.server.clone().or_else(|| self.session_pin(client).map(|pin| pin.address.clone()))
    }

    /// Sends an aggregation with a write stage to the primary if any known server is too old to run it on a secondary.
    /// CRUD, "read preference of $out and $merge".
    fn place_writing_aggregation(&mut self, client: &Client) {
        let is_too_old = |server: &Arc<ServerDescription>| {
            server.server_type.is_data_bearing()
                && server.server_type != ServerType::LoadBalancer
                && server.max_wire_version < WRITING_AGGREGATION_WIRE_VERSION
        };
        if client.description().servers.values().any(is_too_old) {
            self.operation.read_preference = None;
        }
    }

    /// Handles the servers that `server_selector` returned. An empty choice is no error: suitable servers may appear
    /// later.
    pub(super) fn handle_choice(
        &mut self,
        client: &mut Client,
        mut among: Vec<Arc<ServerDescription>>,
        chosen: &[Address],
        now: Instant,
    ) {
        let suitable = among.len();
        among.retain(|server| chosen.contains(&server.address));
        let refused_by_user = if among.is_empty() { suitable } else { 0 };
        let server = client.choose(among);
        self.take_server(client, Ok(server), refused_by_user, now);
    }

    fn take_server(
        &mut self,
        client: &mut Client,
        selected: Result<Option<Arc<ServerDescription>>, SelectionError>,
        refused_by_user: usize,
        now: Instant,
    ) {
        match selected {
            Ok(Some(server)) => {
                self.count_selection(client, now);
                if client.wants(Interests::SELECTION) {
                    let address = server.address.clone();
                    self.announce_selection(client, SelectionEvent::Succeeded { address });
                }
                if self.operation.kind == Kind::Selection {
                    self.enter(Phase::Done(Stay::No));
                    return self.end_session(client, now);
                }
                self.server = Some(server);
                if client.wants(Interests::POOLS) && !self.is_pinned(client) {
                    // Listeners are called first, since they may need the connection themselves.
                    self.announce_check_out(client, now);
                    self.enter(Phase::Announced);
                } else {
                    self.take_connection(client, now);
                }
            }
            Ok(None) => {
                self.enter(Phase::Selecting { refused_by_user });
                self.count_waiting_for_server(now);
                if self.selection_deadline(client) <= now {
                    return self.fail_selection(client, now);
                }
                let remaining = self.selection_deadline(client).saturating_since(now);
                self.announce_selection(client, SelectionEvent::Waiting { remaining });
                client.wait_for_change(self.id, now);
            }
            Err(error) => {
                self.fail_unsent(Failure::Configuration(error.to_string()));
                self.end_session(client, now);
            }
        }
    }

    /// Returns whether the check-out was announced but not begun. Publish the events, then call
    /// [`handle_check_out`](Self::handle_check_out).
    pub fn is_check_out_due(&self) -> bool {
        matches!(self.phase, Phase::Announced)
    }

    /// Begins the announced check-out, or selects another server if this one was lost in the meantime.
    pub fn handle_check_out(&mut self, client: &mut Client, now: Instant) {
        if !self.is_check_out_due() {
            return;
        }
        let is_ready = self.server.as_ref().and_then(|server| client.is_ready(&server.address));
        // If only this server can run the operation, there is no other to select.
        let is_only =
            self.server_by_address(client).is_some_and(|address| client.known_server(&address).is_some());
        if client.is_closed() || is_ready == Some(true) || is_only {
            return self.take_connection(client, now);
        }
        let is_paused = is_ready.is_some();
        let reason = if is_paused { CheckOutFailure::Connection } else { CheckOutFailure::PoolClosed };
        self.announce_no_connection(client, reason, now);
        self.select(client, now);
    }

    /// Leaves a pool's queue, or gives up opening a connection. Nothing drives the exchange until
    /// [`resume`](Self::resume), so others must not wait for it.
    pub fn step_aside(&mut self, client: &mut Client, now: Instant) {
        match self.phase {
            Phase::Waiting { .. } => {
                let id = self.id;
                if let Some(pool) = self.pool(client) {
                    pool.abandon(id, now);
                }
                self.announce_no_connection(client, CheckOutFailure::Connection, now);
            }
            Phase::Connecting { .. } => self.drop_link(client, now),
            _ => return,
        }
        self.enter(Phase::Selecting { refused_by_user: 0 });
    }

    /// Continues after [`step_aside`](Self::step_aside) or [`begin_aside`](Self::begin_aside). The time limit starts now,
    /// because the caller begins to wait now.
    pub fn resume(&mut self, client: &mut Client, now: Instant) {
        if !matches!(self.phase, Phase::Selecting { .. }) {
            return;
        }
        let aside = now.saturating_since(self.begun);
        self.begun = now;
        self.until = self.until.map(|until| until + aside);
        self.handle_wake(client, now);
    }

    fn is_pinned(&self, client: &Client) -> bool {
        self.operation.pinned.is_some() || self.session_pin(client).is_some_and(|pin| pin.link.is_some())
    }

    pub(super) fn take_connection(&mut self, client: &mut Client, now: Instant) {
        let id = self.id;
        let pinned = self.operation.pinned.or(self.session_pin(client).and_then(|pin| pin.link));
        let Some(pool) = self.pool(client) else {
            if pinned.is_none() {
                self.count_check_out(now);
            }
            self.announce_no_connection(client, CheckOutFailure::PoolClosed, now);
            self.fail_closed();
            return self.end_session(client, now);
        };
        let Some(link) = pinned else {
            let answer = pool.check_out(id, now);
            self.generation = pool.generation();
            if matches!(answer, CheckOut::Ready(_)) {
                pool.counts_mut().waits.add_zero();
                self.count_no_wait();
            } else {
                self.count_check_out(now);
            }
            return self.checked_out(client, answer, now);
        };
        // The server may have closed the link since, or the process may have forked.
        let Some(generation) = pool.generation_of(link) else { return self.fail_pinned(client, now) };
        self.generation = generation;
        client.forget_pinned(link);
        self.link = Some(link);
        self.send(client, now);
    }

    /// Handles the pool's answer; the caller has recorded its generation.
    pub(super) fn checked_out(&mut self, client: &mut Client, answer: CheckOut, now: Instant) {
        match answer {
            CheckOut::Ready(link) => {
                self.link = Some(link);
                self.announce_checked_out(client, link, now);
                self.send(client, now);
            }
            CheckOut::Establish => self.name_connection(client, now),
            CheckOut::Wait => self.enter(Phase::Waiting { since: now }),
        }
    }

    /// Opens one more connection, unless the pool has enough by now.
    pub(super) fn fill(&mut self, client: &mut Client, now: Instant) {
        let server = self.operation.server.as_ref().and_then(|address| client.known_server(address));
        self.server = server;
        let is_due = !client.is_closed() && self.pool(client).is_some_and(|pool| pool.begin_filling());
        if !is_due {
            self.enter(Phase::Done(Stay::No));
            return;
        }
        self.generation = self.pool(client).map_or(0, |pool| pool.generation());
        self.name_connection(client, now);
    }

    /// Puts the connection opened in the background into the pool, for the next check-out.
    pub(super) fn put_by(&mut self, client: &mut Client, now: Instant) {
        self.enter(Phase::Done(Stay::No));
        match (self.link.take(), self.pool(client)) {
            (Some(link), Some(pool)) => pool.put_by(link, now),
            // The server left the topology; only this code can close the link.
            (Some(link), None) => {
                self.announce_closed(client, link, CloseReason::PoolClosed);
                client.link_lost(self.shard, link, now);
            }
            _ => {}
        }
    }

    pub(super) fn selection_deadline(&self, client: &Client) -> Instant {
        let end = self.begun + client.options.server_selection_timeout;
        self.until.map_or(end, |until| end.min(until))
    }

    /// Called when no connection could be opened, or it was lost during reauthentication. The server did nothing, so
    /// any command is safe to retry, until the monitor finds the server gone. The exchange fails at once if retries are
    /// off, or if it is bound to this connection and is not the end of a transaction.
    ///
    /// `connectTimeoutMS` limited the attempt, so after the first one the time for server selection starts over. Not
    /// after later ones: otherwise a server that never answers would be tried for ever.
    pub(super) fn back_off(
        &mut self,
        client: &mut Client,
        message: String,
        timed_out: bool,
        besides: Besides,
        now: Instant,
    ) {
        let until = now + RECONNECT_DELAY;
        let is_bound = self.needs_its_link(client) && self.operation.kind.end().is_none();
        self.drop_link(client, now);
        self.failed = Some(Failed { failure: Failure::Network { message, timed_out }, besides });
        if self.operation.is_filling {
            self.enter(Phase::Done(Stay::No));
            return;
        }
        if is_bound || !retry::after_nothing_done(self.operation.kind, &client.options) {
            self.enter(Phase::Done(Stay::No));
            return self.end_session(client, now);
        }
        if !std::mem::replace(&mut self.attempts.has_missed, true) {
            self.begun = now;
        }
        if until > self.selection_deadline(client) {
            self.fail_selection(client, now);
        } else {
            self.enter(Phase::BackingOff(until));
        }
    }

    pub(super) fn fail_selection(&mut self, client: &mut Client, now: Instant) {
        self.count_no_server(client);
        // The error that made another server necessary is more informative than the failed selection.
        if self.report_earlier() {
            if self.until == Some(self.selection_deadline(client)) {
                self.note_besides(Besides::OutOfTime);
            }
            let message = "no other server than those that failed".to_owned();
            self.announce_selection(client, SelectionEvent::Failed { message });
            self.enter(Phase::Done(Stay::No));
            return self.end_session(client, now);
        }
        let limit = self.selection_deadline(client).saturating_since(self.begun).as_millis() as f64 / 1000.0;
        let wanted = match &self.operation.read_preference {
            Some(preference) => format!("server for read preference {}", preference.mode().name()),
            None if self.operation.kind.is_read() => "server for read preference primary".to_owned(),
            None => "server that takes writes".to_owned(),
        };
        let earlier = match self.failed.take() {
            Some(Failed { failure: Failure::Network { message, .. }, .. }) => {
                format!("; last attempt: {message}")
            }
            _ => String::new(),
        };
        let choice = match self.phase {
            Phase::Selecting { refused_by_user: suitable @ 1.. } => {
                format!("the server_selector left none of the {suitable} that suit: ")
            }
            _ => String::new(),
        };
        let description = client.describe(now);
        let message = format!("no {wanted} within {limit} s: {choice}{description}{earlier}");
        self.announce_selection(client, SelectionEvent::Failed { message: message.clone() });
        self.fail(Failure::ServerSelection(message));
        self.end_session(client, now);
    }
}
