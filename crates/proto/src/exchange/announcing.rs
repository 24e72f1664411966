//! Publishes the events of a command and of its check-out: one start, and one end for each start. Makes no event
//! without a listener. Spec: command-logging-and-monitoring, connection-monitoring-and-pooling.

use std::sync::Arc;

use mangonel_bson::{RawDocument, writer};

use super::{Exchange, Phase};
use crate::client::Client;
use crate::events::{
    CheckOutFailure, CloseReason, CommandEnd, CommandFacts, CommandFailure, Event, HARMLESS, Interests,
    PoolEvent, ReplyShape, SelectionEvent,
};
use crate::ids::LinkId;
use crate::message::Replies;
use crate::secret_commands::{is_hello, is_secret};
use crate::time::Instant;

/// The events of an exchange that were published.
#[derive(Debug, Default)]
pub(super) struct Heard {
    /// The operation's id in the events; by default the number of its first request.
    operation_id: Option<i64>,
    /// Whether its wait for a server was published.
    is_selecting: bool,
    command: Announcement,
    /// Start and end that the owner's span has not taken yet; `None` if the owner makes no spans.
    span: Option<Box<Untold>>,
    check_out: CheckOutNotes,
}

impl Heard {
    pub(super) fn new(operation_id: Option<i64>) -> Self {
        Heard { operation_id, ..Heard::default() }
    }
}

/// A command's start and its end, for a span.
#[derive(Debug, Default)]
struct Untold {
    start: Option<Arc<CommandFacts>>,
    end: Option<CommandEnd>,
}

/// The published events of the attempt in flight.
#[derive(Debug, Default)]
enum Announcement {
    /// There is no listener, or start and end were reported.
    #[default]
    Nothing,
    /// It is about to be sent.
    Due,
    /// Its start was published.
    Started(Arc<CommandFacts>, Instant),
}

/// A check-out whose start was published and whose end was not.
#[derive(Debug, Default)]
struct CheckOutNotes {
    asked: Option<Instant>,
    created: Option<Instant>,
    trouble: Option<Box<str>>,
}

/// An empty BSON document.
const EMPTY: [u8; 5] = [5, 0, 0, 0, 0];

impl Exchange {
    /// Returns whether [`announce`](Self::announce) has to be called before the message is sent.
    pub fn is_announcement_due(&self) -> bool {
        matches!(self.heard.command, Announcement::Due)
    }

    /// Tells listeners that the command is sent now. If the connection proves stale before this, nothing was sent on
    /// it.
    pub fn announce(&mut self, client: &mut Client, now: Instant) {
        if !self.is_announcement_due() {
            return;
        }
        let (Some(server), Some(link)) = (&self.server, self.link) else { return };
        // An authentication command is not an attempt of the operation, so it has its own number.
        let authenticating = self.authenticating_command();
        let is_authenticating = authenticating.is_some();
        let sent = authenticating.unwrap_or(&self.operation.command);
        let name = sent.name();
        let is_heard = client.wants(Interests::COMMANDS);
        // The command is copied only if a listener needs it.
        let is_shown = is_heard || authenticating.is_some() || is_hello(name);
        let mut command = if is_shown { sent.to_document() } else { Vec::new() };
        let database = match authenticating {
            Some(_) => database_of(&command),
            None => self.operation.database.clone(),
        };
        let own_number = i64::from(self.request_id);
        let operation_id = match authenticating {
            Some(_) => own_number,
            None => self.heard.operation_id.unwrap_or(own_number),
        };
        let is_secret = is_secret(name) || is_hello(name) && holds_credentials(&command);
        if is_secret {
            command = EMPTY.to_vec();
        }
        let facts = client.connection_facts(link);
        let facts = Arc::new(CommandFacts {
            name: name.into(),
            database,
            address: server.address.clone(),
            request_id: self.request_id,
            operation_id,
            link,
            server_connection_id: facts.server_connection_id,
            service_id: facts.service_id,
            is_sensitive: is_secret,
            reply_shape: if is_authenticating { ReplyShape::Document } else { self.operation.reply_shape },
        });
        if !is_authenticating {
            self.heard.operation_id = Some(operation_id);
        }
        self.heard.command = Announcement::Started(Arc::clone(&facts), now);
        if self.operation.is_traced && !is_authenticating && !is_secret {
            self.heard.span.get_or_insert_default().start = Some(Arc::clone(&facts));
        }
        if is_heard {
            client.publish(Event::CommandStarted { facts, command });
        }
    }

    /// Returns the command that was sent since the last call, for a span of it; once.
    pub fn take_command_start(&mut self) -> Option<Arc<CommandFacts>> {
        self.heard.span.as_mut()?.start.take()
    }

    /// Returns how the command in flight has ended since the last call; once.
    pub fn take_command_end(&mut self) -> Option<CommandEnd> {
        self.heard.span.as_mut()?.end.take()
    }

    /// Returns the session that the command was stamped with, and its write or transaction number.
    pub fn stamped_session(&self, client: &Client) -> Option<([u8; 16], Option<i64>)> {
        let explicit = self.explicit.as_ref().and_then(|explicit| client.session(explicit.id));
        let session = self.session().or_else(|| explicit?.server())?;
        let is_numbered = self.attempts.has_transaction_number || self.is_in_transaction();
        Some((session.id, is_numbered.then_some(session.txn_number)))
    }

    /// Returns the command as it was sent, as one document.
    pub fn sent_document(&self) -> Vec<u8> {
        self.operation.command.to_document()
    }

    /// Records that a stamped command will be sent, if there is a listener.
    pub(super) fn prepare_announcement(&mut self, client: &mut Client, now: Instant) {
        let is_wanted = client.wants(Interests::COMMANDS) || self.operation.is_traced;
        if !is_wanted || self.operation.is_silent {
            return;
        }
        self.heard.command = Announcement::Due;
        // The later replies of an exhaust cursor have no request, so no start is due.
        if self.operation.is_under_way {
            self.announce(client, now);
        }
    }

    /// The command that was stamped is not sent, so listeners hear nothing of it.
    pub(super) fn drop_announcement(&mut self) {
        self.heard.command = Announcement::Nothing;
    }

    /// Records that an authentication command will be sent, if there is a listener. The hello before it has no event.
    pub(super) fn prepare_authentication_announcement(&mut self, client: &Client) {
        if client.wants(Interests::COMMANDS) {
            self.heard.command = Announcement::Due;
        }
    }

    /// Tells listeners how the command in flight ended, according to its reply.
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
        if self.is_span_open(&facts) {
            self.heard.span.get_or_insert_default().end = Some(if is_ok {
                CommandEnd::Answered { cursor: self.facts.cursor.as_ref().map_or(0, |cursor| cursor.id) }
            } else {
                let errmsg = body.get_str("errmsg").ok().flatten();
                let message = errmsg.or_else(|| body.get_str("codeName").ok().flatten());
                CommandEnd::Refused { code: self.facts.code, message: message.unwrap_or_default().into() }
            });
        }
        if !client.wants(Interests::COMMANDS) {
            return;
        }
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
        if self.is_span_open(&facts) {
            self.heard.span.get_or_insert_default().end = Some(CommandEnd::Answered { cursor: 0 });
        }
        if !client.wants(Interests::COMMANDS) {
            return;
        }
        let duration = now.saturating_since(started);
        let mut reply = Vec::new();
        let start = writer::begin_document(&mut reply);
        writer::append_i32(&mut reply, "ok", 1);
        writer::end_document(&mut reply, start);
        client.publish(Event::CommandSucceeded { facts, duration, reply });
    }

    /// Tells listeners that the command in flight will not be answered.
    pub(super) fn announce_failure(&mut self, client: &mut Client, failure: CommandFailure, now: Instant) {
        if !matches!(self.phase, Phase::Handshake(_) | Phase::Reauthenticating(_) | Phase::InFlight { .. }) {
            return;
        }
        if let Announcement::Started(facts, started) = std::mem::take(&mut self.heard.command) {
            let duration = now.saturating_since(started);
            if self.is_span_open(&facts) {
                self.heard.span.get_or_insert_default().end = Some(CommandEnd::Failed(failure.clone()));
            }
            if client.wants(Interests::COMMANDS) {
                client.publish(Event::CommandFailed { facts, duration, failure });
            }
        }
    }

    /// Whether the owner was given this command's start for a span, and so needs its end.
    fn is_span_open(&self, facts: &CommandFacts) -> bool {
        self.operation.is_traced && !facts.is_sensitive && self.authenticating_command().is_none()
    }

    /// Tells listeners of a step of server selection; before the first step, of the start.
    pub(super) fn announce_selection(&mut self, client: &mut Client, event: SelectionEvent) {
        // Server selection to prepare a bulk write is published only if it waits or fails; the write publishes the
        // rest.
        let is_at_once = matches!(event, SelectionEvent::Succeeded { .. }) && !self.heard.is_selecting;
        let is_quiet = self.operation.is_silent && (self.operation.command.name() == "ping" || is_at_once);
        if !client.wants(Interests::SELECTION) || is_quiet {
            return;
        }
        let operation_id = *self.heard.operation_id.get_or_insert(self.id.0 as i64);
        let selector = match (&self.operation.server, &self.operation.read_preference) {
            (Some(address), _) => format!("server {address}"),
            (None, Some(preference)) => format!("read preference {}", preference.mode().name()),
            (None, None) if self.operation.kind.is_read() => "read preference primary".to_owned(),
            (None, None) => "server that takes writes".to_owned(),
        };
        let is_first = !std::mem::replace(&mut self.heard.is_selecting, true);
        // A wait is reported once, however often it is checked again.
        if matches!(event, SelectionEvent::Waiting { .. }) && !is_first {
            return;
        }
        self.heard.is_selecting = matches!(event, SelectionEvent::Waiting { .. });
        let description = client.description().clone();
        let started = is_first.then_some(SelectionEvent::Started);
        for event in started.into_iter().chain([event]) {
            client.publish(Event::Selection {
                operation: self.operation.command.name().into(),
                operation_id,
                selector: selector.clone(),
                description: Arc::clone(&description),
                event,
            });
        }
    }

    /// Tells listeners that the exchange requests a connection.
    pub(super) fn announce_check_out(&mut self, client: &mut Client, now: Instant) {
        self.count_check_out(now);
        if !client.wants(Interests::POOLS) {
            return;
        }
        self.heard.check_out = CheckOutNotes { asked: Some(now), ..CheckOutNotes::default() };
        self.publish_pool(client, PoolEvent::CheckOutStarted);
    }

    /// Begins to open a connection: gives it its name, and tells listeners.
    pub(super) fn name_connection(&mut self, client: &mut Client, now: Instant) {
        let link = client.next_link();
        self.enter(Phase::Connecting { opening: link });
        self.count_opening(client, now);
        // A connection that is opened in the background has no check-out.
        let is_spare = self.operation.is_filling;
        if self.heard.check_out.asked.is_some() || is_spare && client.wants(Interests::POOLS) {
            self.heard.check_out.created = Some(now);
            self.publish_pool(client, PoolEvent::ConnectionCreated { link });
        }
    }

    /// Tells listeners that a new connection has done its handshake.
    pub(super) fn announce_ready(&mut self, client: &mut Client, now: Instant) {
        self.count_opened(client, now);
        self.count_checked_out(client, now);
        if let (Some(created), Some(link)) = (self.heard.check_out.created.take(), self.link) {
            let duration = now.saturating_since(created);
            self.publish_pool(client, PoolEvent::ConnectionReady { link, duration });
            self.announce_checked_out(client, link, now);
        }
    }

    /// Tells listeners that the exchange has a connection.
    #[inline]
    pub(super) fn announce_checked_out(&mut self, client: &mut Client, link: LinkId, now: Instant) {
        self.count_checked_out(client, now);
        if let Some(asked) = self.heard.check_out.asked.take() {
            let duration = now.saturating_since(asked);
            self.publish_pool(client, PoolEvent::CheckedOut { link, duration });
        }
    }

    /// Keeps the reason why a connection cannot be made, for the event of giving up.
    pub(super) fn note_trouble(&mut self, message: &str) {
        if self.heard.check_out.asked.is_some() {
            self.heard.check_out.trouble = Some(message.into());
        }
    }

    /// Tells listeners that the check-out failed.
    pub(super) fn announce_no_connection(
        &mut self,
        client: &mut Client,
        reason: CheckOutFailure,
        now: Instant,
    ) {
        self.count_no_connection(client, reason);
        if let Some(asked) = self.heard.check_out.asked.take() {
            let (error, duration) = (self.heard.check_out.trouble.take(), now.saturating_since(asked));
            self.publish_pool(client, PoolEvent::CheckOutFailed { reason, error, duration });
        }
    }

    /// Tells listeners that a connection outside any pool is closed.
    pub(super) fn announce_closed(&self, client: &mut Client, link: LinkId, reason: CloseReason) {
        if let Some(server) = &self.server {
            client.count_gone(&server.address, |counts| counts.add_closed(reason));
        }
        self.publish_pool(client, PoolEvent::ConnectionClosed { link, reason });
    }

    /// Tells listeners that a connection whose pool is gone was given back, and closed.
    pub(super) fn announce_orphan(&self, client: &mut Client, link: LinkId) {
        self.publish_pool(client, PoolEvent::CheckedIn { link });
        self.announce_closed(client, link, CloseReason::PoolClosed);
    }

    fn publish_pool(&self, client: &mut Client, event: PoolEvent) {
        if let Some(server) = &self.server {
            client.publish_pool(&server.address, || event);
        }
    }

    fn take_announced(&mut self, client: &mut Client, now: Instant) -> Option<(Arc<CommandFacts>, Instant)> {
        // A face that sends in its own way may have skipped the start. A late start is better than none before the end.
        self.announce(client, now);
        match std::mem::take(&mut self.heard.command) {
            Announcement::Started(facts, started) => Some((facts, started)),
            _ => None,
        }
    }
}

/// Returns the database that a whole command names.
fn database_of(command: &[u8]) -> Box<str> {
    let command = RawDocument::from_bytes(command);
    command.ok().and_then(|command| command.get_str("$db").ok()?).unwrap_or_default().into()
}

fn holds_credentials(command: &[u8]) -> bool {
    let command = RawDocument::from_bytes(command);
    command.is_ok_and(|command| matches!(command.get("speculativeAuthenticate"), Ok(Some(_)) | Err(_)))
}

/// Copies the public fields of a sensitive command's error.
fn harmless(body: RawDocument<'_>) -> Vec<u8> {
    let mut shown = Vec::new();
    let start = writer::begin_document(&mut shown);
    for element in body.iter().flatten().filter(|element| HARMLESS.contains(&element.key)) {
        writer::append_value(&mut shown, element.key, element.value);
    }
    writer::end_document(&mut shown, start);
    shown
}
