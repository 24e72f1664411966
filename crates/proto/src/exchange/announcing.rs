//! What listeners hear of a command: one start, and one end for each start. Nothing is made while nobody listens.
//! Spec: command-logging-and-monitoring.

use std::sync::Arc;

use mangonel_bson::{RawDocument, writer};

use super::{Exchange, Phase};
use crate::client::Client;
use crate::events::{CommandFacts, CommandFailure, Event, HARMLESS, Interests, is_hello, is_sensitive};
use crate::message::Replies;
use crate::time::Instant;

/// How much listeners have heard of the attempt in flight.
#[derive(Debug, Default)]
pub(super) enum Announcement {
    /// Nobody listens, or both its ends were told.
    #[default]
    Nothing,
    /// It is about to be sent.
    Due,
    /// Its start was told.
    Started(Arc<CommandFacts>, Instant),
}

/// An empty BSON document.
const EMPTY: [u8; 5] = [5, 0, 0, 0, 0];

impl Exchange {
    /// Returns whether [`announce`](Self::announce) has to be called before the message is sent.
    pub fn is_announcement_due(&self) -> bool {
        matches!(self.announcement, Announcement::Due)
    }

    /// Tells listeners that the command is sent now. A connection found stale before that was never sent anything.
    pub fn announce(&mut self, client: &mut Client, now: Instant) {
        if !self.is_announcement_due() {
            return;
        }
        let (Some(server), Some(link)) = (&self.server, self.link) else { return };
        let name = self.operation.command.name();
        let mut command = self.operation.command.to_document();
        let is_secret = is_sensitive(name) || is_hello(name) && holds_credentials(&command);
        if is_secret {
            command = EMPTY.to_vec();
        }
        let line = client.line(link);
        let facts = Arc::new(CommandFacts {
            name: name.into(),
            database: self.operation.database.clone(),
            address: server.address.clone(),
            request_id: self.request_id,
            operation_id: self.operation_id.unwrap_or_else(|| i64::from(self.request_id)),
            link,
            server_connection_id: line.server_connection_id,
            service_id: line.service_id,
            is_sensitive: is_secret,
        });
        self.operation_id = Some(facts.operation_id);
        self.announcement = Announcement::Started(Arc::clone(&facts), now);
        client.publish(Event::CommandStarted { facts, command });
    }

    /// Notes that a stamped command will be sent, when somebody listens.
    pub(super) fn prepare_announcement(&mut self, client: &mut Client, now: Instant) {
        if !client.wants(Interests::COMMANDS) {
            return;
        }
        self.announcement = Announcement::Due;
        // Nothing is sent for the later replies of an exhaust cursor, so nobody else would ask for it.
        if self.operation.is_under_way {
            self.announce(client, now);
        }
    }

    /// Tells listeners how the command in flight ended, by its reply.
    pub(super) fn announce_reply(
        &mut self,
        client: &mut Client,
        body: RawDocument<'_>,
        is_ok: bool,
        now: Instant,
    ) {
        let Some((facts, started)) = self.take_announced(client, now) else { return };
        let duration = now.saturating_since(started);
        let is_secret = facts.is_sensitive;
        client.publish(if is_ok {
            let reply = if is_secret { EMPTY.to_vec() } else { body.as_bytes().to_vec() };
            Event::CommandSucceeded { facts, duration, reply }
        } else {
            let reply = if is_secret { harmless(body) } else { body.as_bytes().to_vec() };
            Event::CommandFailed { facts, duration, failure: CommandFailure::Reply(reply) }
        });
    }

    /// Tells listeners that the command in flight was sent, and is not answered.
    pub(super) fn announce_unacknowledged(&mut self, client: &mut Client, now: Instant) {
        debug_assert!(self.operation.replies == Replies::None);
        let Some((facts, started)) = self.take_announced(client, now) else { return };
        let duration = now.saturating_since(started);
        let mut reply = Vec::new();
        let start = writer::begin_document(&mut reply);
        writer::append_i32(&mut reply, "ok", 1);
        writer::end_document(&mut reply, start);
        client.publish(Event::CommandSucceeded { facts, duration, reply });
    }

    /// Tells listeners that the command in flight will not be answered.
    pub(super) fn announce_failure(&mut self, client: &mut Client, failure: CommandFailure, now: Instant) {
        if self.phase != Phase::InFlight {
            return;
        }
        if let Announcement::Started(facts, started) = std::mem::take(&mut self.announcement) {
            let duration = now.saturating_since(started);
            client.publish(Event::CommandFailed { facts, duration, failure });
        }
    }

    fn take_announced(&mut self, client: &mut Client, now: Instant) -> Option<(Arc<CommandFacts>, Instant)> {
        // A face that sends in a way of its own may not have asked; a late start is better than an end without one.
        self.announce(client, now);
        match std::mem::take(&mut self.announcement) {
            Announcement::Started(facts, started) => Some((facts, started)),
            _ => None,
        }
    }
}

fn holds_credentials(command: &[u8]) -> bool {
    let command = RawDocument::from_bytes(command);
    command.is_ok_and(|command| matches!(command.get("speculativeAuthenticate"), Ok(Some(_)) | Err(_)))
}

/// Copies what may be shown of a sensitive command's error.
fn harmless(body: RawDocument<'_>) -> Vec<u8> {
    let mut shown = Vec::new();
    let start = writer::begin_document(&mut shown);
    for element in body.iter().flatten().filter(|element| HARMLESS.contains(&element.key)) {
        writer::append_value(&mut shown, element.key, element.value);
    }
    writer::end_document(&mut shown, start);
    shown
}
