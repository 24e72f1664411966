//! Counts an exchange: its duration, its waits, its new connections. Most is counted only on request. Names:
//! OpenTelemetry's conventions for databases.

use std::time::Duration;

use mangonel_bson::{RawDocument, RawValue};

use super::Exchange;
use crate::client::Client;
use crate::error::Failure;
use crate::events::CheckOutFailure;
use crate::ids::LinkId;
use crate::metrics::{KILL_CURSORS, Key, PoolCounts, target_of};
use crate::operation::Kind;
use crate::time::Instant;

/// The start times of the counted activities.
#[derive(Debug)]
pub(super) struct Counted {
    started: Instant,
    /// The time at which the exchange requested a connection that it is still waiting for.
    asked: Option<Instant>,
    /// The time at which it began to open a connection that is not usable yet.
    opened: Option<Instant>,
    /// The time at which it began to wait for a server.
    selecting: Option<Instant>,
    /// Whether the operation is counted already, or must not be.
    is_over: bool,
}

impl Counted {
    pub(super) fn new(now: Instant, is_silent: bool) -> Self {
        Counted { started: now, asked: None, opened: None, selecting: None, is_over: is_silent }
    }
}

impl Exchange {
    /// Counts the operation once it is over; call it after every change.
    #[inline]
    pub fn count_end(&mut self, client: &mut Client, now: Instant) {
        if client.metrics.is_some() && self.is_done() && !self.counted.is_over {
            self.counted.is_over = true;
            self.count_operation(client, now);
        }
    }

    /// Called when it ends without a command, so that it is not counted.
    pub(super) fn count_nothing(&mut self) {
        self.counted.is_over = true;
    }

    /// Takes a shortcut for most operations: those that succeed and whose names and server were counted before.
    #[inline(never)]
    fn count_operation(&self, client: &mut Client, now: Instant) {
        let elements = self.operation.command.body_elements();
        let is_counted = self.failed.is_none()
            && !self.facts.has_write_errors
            && client.metrics.as_mut().is_some_and(|metrics| {
                let nanos = now.nanos_since(self.counted.started);
                metrics.add_again(elements, &self.operation.database, nanos)
            });
        if !is_counted {
            self.add_operation(client, now);
        }
    }

    #[cold]
    fn add_operation(&self, client: &mut Client, now: Instant) {
        let elements = self.operation.command.body_elements();
        if elements.starts_with(KILL_CURSORS) {
            self.forget_killed_cursors(client);
        }
        let (error, code) = match &self.failed {
            None if !self.facts.has_write_errors => (None, None),
            None => (Some("WriteError"), self.code()),
            Some(failed) if failed.failure == Failure::Command => (Some(failed.failure.class()), self.code()),
            Some(failed) => (Some(failed.failure.class()), None),
        };
        if let Some(metrics) = &mut client.metrics {
            let key = Key { target: target_of(elements), database: &self.operation.database, error, code };
            metrics.add_operation(elements, key, now.saturating_since(self.counted.started));
        }
    }

    fn code(&self) -> Option<i64> {
        self.facts.code.or(self.facts.write_concern_code)
    }

    /// A server was chosen.
    #[inline]
    pub(super) fn count_selection(&mut self, client: &mut Client, now: Instant) {
        let Some(metrics) = &mut client.metrics else { return };
        if !self.operation.is_silent {
            match self.counted.selecting.take() {
                None => metrics.selections.add_zero(),
                Some(since) => metrics.selections.add(now.saturating_since(since)),
            }
        }
    }

    /// No server was chosen, and it waits.
    pub(super) fn count_waiting_for_server(&mut self, now: Instant) {
        self.counted.selecting.get_or_insert(now);
    }

    /// No server was chosen, and the time is over.
    pub(super) fn count_no_server(&mut self, client: &mut Client) {
        self.counted.selecting = None;
        if let Some(metrics) = client.metrics.as_mut().filter(|_| !self.operation.is_silent) {
            metrics.selection_timeouts += 1;
        }
    }

    /// A connection is requested, and must be waited for or opened.
    pub(super) fn count_check_out(&mut self, now: Instant) {
        self.counted.asked = Some(now);
    }

    /// A connection was available at once, and is counted already.
    #[inline]
    pub(super) fn count_no_wait(&mut self) {
        self.counted.asked = None;
    }

    /// A connection was obtained after waiting for it or opening it.
    #[inline]
    pub(super) fn count_checked_out(&mut self, client: &mut Client, now: Instant) {
        if let Some(asked) = self.counted.asked.take() {
            self.count_wait(client, now.saturating_since(asked));
        }
    }

    #[cold]
    fn count_wait(&self, client: &mut Client, duration: Duration) {
        self.count_in_pool(client, |counts| counts.waits.add(duration));
    }

    /// Counts for the pool, or for closed pools.
    fn count_in_pool(&self, client: &mut Client, count: impl FnOnce(&mut PoolCounts)) {
        match (self.pool(client), &self.server) {
            (Some(pool), _) => count(pool.counts_mut()),
            (None, Some(server)) => client.count_gone(&server.address, count),
            (None, None) => {}
        }
    }

    /// No connection was obtained.
    pub(super) fn count_no_connection(&mut self, client: &mut Client, reason: CheckOutFailure) {
        if self.counted.asked.take().is_none() {
            return;
        }
        self.count_in_pool(client, |counts| counts.add_failed(reason));
    }

    /// A connection is about to be opened.
    pub(super) fn count_opening(&mut self, client: &mut Client, now: Instant) {
        self.counted.opened = Some(now);
        self.count_in_pool(client, |counts| counts.created += 1);
    }

    /// A connection has done its handshake.
    pub(super) fn count_opened(&mut self, client: &mut Client, now: Instant) {
        if let Some(opened) = self.counted.opened.take() {
            self.count_in_pool(client, |counts| counts.openings.add(now.saturating_since(opened)));
        }
    }

    /// Another attempt is made.
    pub(super) fn count_retry(&self, client: &mut Client) {
        if let Some(metrics) = &mut client.metrics {
            metrics.retries += 1;
        }
    }

    /// A reply arrived, which may open or end a cursor.
    #[inline]
    pub(super) fn count_cursors(&self, client: &mut Client, link: Option<LinkId>) {
        let open = self.facts.cursor.as_ref().map_or(0, |cursor| cursor.id);
        if let Some(metrics) = &mut client.metrics {
            if open != 0 {
                // A connection that stays with its cursor ends with it.
                metrics.note_open_cursor(open, link.filter(|_| self.keeps_link()));
            } else if self.operation.kind == Kind::ReadOnce {
                let id = self.asked_cursors("getMore", |value| value.as_i64_lenient().into_iter().collect());
                id.into_iter().for_each(|id| metrics.note_closed_cursor(id));
            }
        }
    }

    /// Cursors were killed, whether or not the command reached the server.
    fn forget_killed_cursors(&self, client: &mut Client) {
        let ids = self.asked_cursors("cursors", |value| match value {
            RawValue::Array(ids) => ids.iter().flatten().filter_map(|id| id.as_i64_lenient()).collect(),
            _ => Vec::new(),
        });
        if let Some(metrics) = &mut client.metrics {
            ids.into_iter().for_each(|id| metrics.note_closed_cursor(id));
        }
    }

    /// Reads the ids of the cursors that the command names.
    fn asked_cursors(&self, key: &str, read: impl Fn(RawValue<'_>) -> Vec<i64>) -> Vec<i64> {
        let body = self.operation.command.body().and_then(|body| RawDocument::prefix(body).ok());
        body.and_then(|(body, _)| body.get(key).ok().flatten().map(read)).unwrap_or_default()
    }
}
