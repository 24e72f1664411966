//! One command with all its retries, from the choice of a server to its reply. Knows no socket and no clock.
//! Spec: server-selection, connection-monitoring-and-pooling, retryable-reads, retryable-writes, sessions.
//!
//! The owner looks at [`Exchange::step`], does what it says, reports with a `handle_*`, and looks again:
//!
//! ```text
//!            begin
//!              │
//!   ┌──────────▼─────────┐ no idle link  ┌─────────┐ connected  ┌───────────┐
//!   │ server selection,  ├──────────────▶│ Connect ├───────────▶│ handshake │
//!   │ check-out          │               └────┬────┘            │  (Write)  │
//!   └─┬──────────────┬───┘                    │ failed          └─┬───┬─────┘
//!     │ pool is full │ link                   ▼                   │   │ ready
//!  ┌──▼───┐ woken    │                    ┌───────┐◀──────────────┘   │
//!  │ Wait ├─────────▶│                    │ Sleep │ and select again  │
//!  └──────┘          ▼                    └───────┘                   │
//!                  Write ◀────────────────────────────────────────────┘
//!                    │ reply, or an error that is not retried
//!                    ▼
//!                  Done
//! ```
//!
//! The laws:
//! - A link belongs to one exchange from check-out until the exchange is done or closed.
//! - A link that owes a reply is never checked in: [`Exchange::close`] discards it.
//! - A command is stamped anew for every attempt; only its transaction number stays.

use std::time::Duration;

use mangonel_bson::{RawDocument, writer};

use crate::client::{Client, ShardId};
use crate::error::{Failure, ProtocolError};
use crate::hello::{Hello, MAX_WIRE_VERSION, MIN_WIRE_VERSION, write_hello};
use crate::message::{Command, Replies, read_reply};
use crate::operation::{Kind, Operation, SessionChoice};
use crate::pool::{CheckOut, ExchangeId, LinkId};
use crate::reply::Facts;
use crate::retry;
use crate::session::ServerSession;
use crate::time::Instant;

/// How long to wait before an unreachable server is tried again (SDAM: `minHeartbeatFrequencyMS`).
const RECONNECT_DELAY: Duration = Duration::from_millis(500);

/// What the owner has to do next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    /// Open a connection, then [`Exchange::handle_connected`] or [`Exchange::handle_network_error`].
    Connect,
    /// Send [`Exchange::outbound`], receive a message when [`Exchange::expects_reply`], then report it.
    Write,
    /// Receive a message without sending one: the server already writes.
    Read,
    /// Wait to be woken or for [`Exchange::deadline`].
    Wait,
    /// Wait for this moment, then [`Exchange::handle_timeout`].
    Sleep(Instant),
    /// [`Exchange::failure`] says whether there is a reply.
    Done,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    Selecting,
    Waiting,
    Connecting,
    Handshake,
    InFlight,
    BackingOff(Instant),
    Done,
}

/// One command being run.
pub struct Exchange {
    id: ExchangeId,
    shard: ShardId,
    operation: Operation,
    handshake: Option<Command>,
    phase: Phase,
    link: Option<LinkId>,
    /// The generation of the connection that it holds or opens: an error on an older one says nothing of the server.
    generation: u32,
    request_id: i32,
    attempt: u32,
    session: Option<ServerSession>,
    begun: Instant,
    /// When it last joined the wait queue.
    queued: Instant,
    failure: Option<Failure>,
    facts: Facts,
    /// Whether the server will send more without being asked.
    more_to_come: bool,
    /// Whether the command went out ahead of the wait for its reply.
    is_sent: bool,
}

impl Exchange {
    /// Starts to run `operation` on the connections of `shard`; often already at [`Step::Write`].
    pub fn begin(client: &mut Client, shard: ShardId, operation: Operation, now: Instant) -> Self {
        let mut exchange = Exchange {
            id: client.next_exchange(),
            shard,
            operation,
            handshake: None,
            phase: Phase::Selecting,
            link: None,
            generation: 0,
            request_id: 0,
            attempt: 0,
            session: None,
            begun: now,
            queued: now,
            failure: None,
            facts: Facts::default(),
            more_to_come: false,
            is_sent: false,
        };
        exchange.select(client, now);
        exchange
    }

    /// Returns what to do next.
    pub fn step(&self) -> Step {
        match self.phase {
            Phase::Connecting => Step::Connect,
            Phase::Handshake => Step::Write,
            Phase::InFlight if self.operation.is_under_way || self.is_sent => Step::Read,
            Phase::InFlight => Step::Write,
            Phase::Waiting => Step::Wait,
            Phase::BackingOff(until) => Step::Sleep(until),
            Phase::Selecting | Phase::Done => Step::Done,
        }
    }

    /// Returns the name that wakers and the pool know it by.
    pub fn id(&self) -> ExchangeId {
        self.id
    }

    /// Returns the shard it runs on.
    pub fn shard(&self) -> ShardId {
        self.shard
    }

    /// Returns the connection it holds.
    pub fn link(&self) -> Option<LinkId> {
        self.link
    }

    /// Returns the message to send.
    pub fn outbound(&self) -> &[u8] {
        match (&self.phase, &self.handshake) {
            (Phase::Handshake, Some(hello)) => hello.outbound(),
            _ => self.operation.command.outbound(),
        }
    }

    /// Returns whether the message to send is answered.
    pub fn expects_reply(&self) -> bool {
        self.phase != Phase::InFlight || self.operation.replies != Replies::None
    }

    /// Returns how long the current step may take on the line; `None` for no limit.
    pub fn line_timeout(&self, client: &Client) -> Option<Duration> {
        match self.phase {
            Phase::Connecting | Phase::Handshake => client.options.connect_timeout,
            _ => client.options.socket_timeout,
        }
    }

    /// Returns when waiting for a connection ends in an error; `None` for never.
    pub fn deadline(&self, client: &Client) -> Option<Instant> {
        match self.phase {
            Phase::Waiting => client.options.wait_queue_timeout.map(|longest| self.queued + longest),
            Phase::BackingOff(until) => Some(until),
            _ => None,
        }
    }

    /// Returns why there is no reply, once done.
    pub fn failure(&self) -> Option<&Failure> {
        self.failure.as_ref()
    }

    /// Returns what the driver itself read from the reply.
    pub fn facts(&self) -> &Facts {
        &self.facts
    }

    /// Returns whether the connection stays with the caller because more replies follow on it.
    pub fn more_to_come(&self) -> bool {
        self.more_to_come
    }

    /// Returns how often the command was sent before the last time.
    pub fn retries(&self) -> u32 {
        self.attempt
    }

    /// Returns the operation.
    pub fn operation(&self) -> &Operation {
        &self.operation
    }

    /// Returns the session it holds.
    pub fn session(&self) -> Option<&ServerSession> {
        match &self.operation.session {
            SessionChoice::Of(session) => Some(session),
            SessionChoice::Implicit | SessionChoice::None => self.session.as_ref(),
        }
    }

    /// Takes the session along with an open cursor; without a cursor it goes back to the pool by itself.
    pub fn take_session(&mut self) -> Option<ServerSession> {
        self.session.take()
    }

    /// A connection was opened; it is called `link` from now on.
    pub fn handle_connected(&mut self, client: &mut Client, link: LinkId, now: Instant) {
        if self.phase != Phase::Connecting {
            return;
        }
        self.link = Some(link);
        if client.is_closed() {
            self.drop_link(client, now);
            return self.fail(Failure::Closed);
        }
        self.phase = Phase::Handshake;
        match hello_command(client) {
            Ok(mut command) => {
                self.request_id = client.next_request();
                command.stamp(self.request_id, Replies::One, |_| {});
                self.handshake = Some(command);
            }
            Err(error) => {
                self.drop_link(client, now);
                self.fail(Failure::Protocol(error.to_string()));
            }
        }
    }

    /// A whole message arrived on the link. Afterwards the step is `Done`, or `Write` for what comes next.
    pub fn handle_reply(&mut self, client: &mut Client, message: &[u8], now: Instant) {
        let outcome = match self.phase {
            Phase::Handshake => self.read_handshake(client, message, now),
            Phase::InFlight => self.read_answer(client, message, now),
            _ => Err(ProtocolError::new("expected no message, found one")),
        };
        if let Err(error) = outcome {
            self.handle_protocol_error(client, &error.to_string(), now);
        }
    }

    /// What arrived cannot be a message, or is not the one that was due. The link is closed; nothing is retried, for
    /// nobody knows what the peer did.
    pub fn handle_protocol_error(&mut self, client: &mut Client, message: &str, now: Instant) {
        self.drop_link(client, now);
        if let Some(session) = &mut self.session {
            session.is_dirty = true;
        }
        self.fail(Failure::Protocol(format!("{}: {message}", client.options.address)));
        self.end_session(client, now);
    }

    /// The message was sent. Without a reply to it the exchange is done, otherwise [`Step::Read`] is what remains.
    pub fn handle_sent(&mut self, client: &mut Client, now: Instant) {
        self.is_sent = self.phase == Phase::InFlight;
        if self.phase == Phase::InFlight && self.operation.replies == Replies::None {
            self.facts = Facts { ok: true, ..Facts::default() };
            self.check_in(client, now);
            self.finish(client, now);
        }
    }

    /// The line broke, or was silent for too long, or could not be opened. `message` says how, without the address.
    pub fn handle_network_error(
        &mut self,
        client: &mut Client,
        message: &str,
        timed_out: bool,
        now: Instant,
    ) {
        let message = format!("{}: {message}", client.options.address);
        match self.phase {
            Phase::Connecting | Phase::Handshake => {
                let is_stale = self.is_stale(client);
                self.drop_link(client, now);
                self.back_off(client, message, is_stale, now);
            }
            Phase::InFlight => {
                let is_stale = self.is_stale(client);
                self.drop_link(client, now);
                if let Some(session) = &mut self.session {
                    session.is_dirty = true;
                }
                if !timed_out && !is_stale {
                    client.mark_unreachable(message.clone());
                }
                let options = &client.options;
                let again = retry::after_network_error(
                    self.operation.kind,
                    options.retry_reads,
                    options.retry_writes,
                );
                if again && self.may_retry(client) {
                    self.attempt += 1;
                    self.failure = Some(Failure::Network { message, timed_out });
                    self.select(client, now);
                } else {
                    self.fail(Failure::Network { message, timed_out });
                    self.end_session(client, now);
                }
            }
            _ => {}
        }
    }

    /// The server had closed the link before anything was sent on it: another one is taken, and no attempt was made.
    pub fn handle_link_lost(&mut self, client: &mut Client, now: Instant) {
        if self.phase != Phase::InFlight || self.is_sent || self.operation.pinned.is_some() {
            return;
        }
        self.drop_link(client, now);
        self.select(client, now);
    }

    /// It was woken: a connection may have been granted to it.
    pub fn handle_wake(&mut self, client: &mut Client, now: Instant) {
        if self.phase != Phase::Waiting {
            return;
        }
        if client.is_closed() {
            // What it was granted before has to be given back all the same.
            if let Some(pool) = client.pool_mut(self.shard) {
                pool.abandon(self.id, now);
            }
            return self.fail(Failure::Closed);
        }
        match client.pool_mut(self.shard).map(|pool| pool.granted(self.id)) {
            Some(Some(answer)) => self.checked_out(client, answer, now),
            Some(None) => self.handle_timeout(client, now),
            None => self.fail(Failure::Closed),
        }
    }

    /// The moment of [`deadline`](Self::deadline) has come.
    pub fn handle_timeout(&mut self, client: &mut Client, now: Instant) {
        match self.phase {
            Phase::Waiting if self.deadline(client).is_some_and(|deadline| deadline <= now) => {
                let Some(pool) = client.pool_mut(self.shard) else { return self.fail(Failure::Closed) };
                let (_, out, pending) = pool.sizes();
                let waiting = pool.waiting();
                pool.abandon(self.id, now);
                let longest = client.options.wait_queue_timeout.unwrap_or_default().as_secs_f64();
                self.fail(Failure::WaitQueue(format!(
                    "no connection to {} became free within {longest} s: {out} in use, {pending} being opened, \
                     {waiting} waiting; raise maxPoolSize or waitQueueTimeoutMS",
                    client.options.address
                )));
            }
            Phase::BackingOff(until) if until <= now => self.select(client, now),
            _ => {}
        }
    }

    /// Gives up: whatever it holds goes back, and a link that owes a reply is closed. Idempotent.
    pub fn close(&mut self, client: &mut Client, now: Instant) {
        match self.phase {
            Phase::Waiting => {
                if let Some(pool) = client.pool_mut(self.shard) {
                    pool.abandon(self.id, now);
                }
            }
            Phase::Connecting | Phase::Handshake | Phase::InFlight => {
                if self.phase == Phase::InFlight
                    && let Some(session) = &mut self.session
                {
                    session.is_dirty = true;
                }
                self.drop_link(client, now);
            }
            _ => {}
        }
        if self.phase != Phase::Done {
            self.phase = Phase::Done;
            self.failure.get_or_insert(Failure::Network {
                message: "the exchange was given up".into(),
                timed_out: false,
            });
        }
        self.end_session(client, now);
    }

    /// The caller read the last reply of an exhaust cursor, or will not read on; `is_drained` tells which.
    pub fn release_pinned(client: &mut Client, link: LinkId, is_drained: bool, now: Instant) {
        if let Some(pool) = client.pool_of(link) {
            if is_drained { pool.check_in(link, now) } else { pool.discard(link, now) }
        }
    }

    fn select(&mut self, client: &mut Client, now: Instant) {
        if client.is_closed() {
            return self.fail(Failure::Closed);
        }
        if let Some(link) = self.operation.pinned {
            // The server may have closed it since, or the process may have forked.
            if !client.pool(self.shard).is_some_and(|pool| pool.is_out(link)) {
                let message = format!("{}: the connection of the cursor was lost", client.options.address);
                return self.fail(Failure::Network { message, timed_out: false });
            }
            self.link = Some(link);
            return self.send(client, now);
        }
        let Some(pool) = client.pool_mut(self.shard) else { return self.fail(Failure::Closed) };
        let answer = pool.check_out(self.id, now);
        self.checked_out(client, answer, now);
    }

    fn checked_out(&mut self, client: &mut Client, answer: CheckOut, now: Instant) {
        self.generation = client.pool(self.shard).map_or(0, |pool| pool.generation());
        match answer {
            CheckOut::Ready(link) => {
                self.link = Some(link);
                self.send(client, now);
            }
            CheckOut::Establish => self.phase = Phase::Connecting,
            CheckOut::Wait => {
                self.queued = now;
                self.phase = Phase::Waiting;
            }
        }
    }

    /// Stamps the command for the connection it was given.
    fn send(&mut self, client: &mut Client, now: Instant) {
        let hello = client.hello.as_ref();
        let has_sessions = hello.is_some_and(|hello| hello.session_timeout.is_some());
        if self.session.is_none() && has_sessions {
            match std::mem::replace(&mut self.operation.session, SessionChoice::None) {
                SessionChoice::Implicit => {
                    let timeout = client.session_timeout();
                    self.session = Some(client.sessions.take(timeout, now));
                }
                SessionChoice::Of(session) => self.session = Some(session),
                SessionChoice::None => {}
            }
        }
        let is_retryable = self.operation.kind == Kind::RetryableWrite
            && client.options.retry_writes
            && client.hello.as_ref().is_some_and(Hello::supports_retryable_writes);
        if let Some(session) = &mut self.session
            && is_retryable
            && self.attempt == 0
        {
            session.txn_number += 1;
        }
        self.request_id = client.next_request();
        let hello = client.hello.as_ref();
        let is_mongos = hello.is_some_and(|hello| hello.is_mongos);
        let is_standalone = hello.is_some_and(|hello| hello.set_name.is_none() && !hello.is_mongos);
        let preference = self.operation.read_preference.as_ref();
        let (session, replies, database) = (&self.session, self.operation.replies, &self.operation.database);
        let is_read = self.operation.kind.is_read();
        let (cluster_time, server_api) = (client.cluster_time(), client.options.server_api.as_slice());
        self.operation.command.stamp(self.request_id, replies, |out| {
            if let Some(session) = session {
                let start = writer::begin_subdocument(out, "lsid");
                writer::append_binary(out, "id", 0x04, &session.id);
                writer::end_document(out, start);
                if is_retryable {
                    writer::append_i64(out, "txnNumber", session.txn_number);
                }
            }
            if let Some(Ok(time)) = cluster_time.map(RawDocument::from_bytes) {
                writer::append_raw_document(out, "$clusterTime", time);
            }
            if let Ok(api) = RawDocument::from_bytes(server_api) {
                api.iter()
                    .flatten()
                    .for_each(|element| writer::append_value(out, element.key, element.value));
            }
            writer::append_str(out, "$db", database);
            match preference {
                Some(preference) if !preference.is_primary || is_mongos => {
                    if let Ok(document) = RawDocument::from_bytes(&preference.document) {
                        writer::append_raw_document(out, "$readPreference", document);
                    }
                }
                // A member that was named directly must answer a read even when it is a secondary.
                _ if is_read && !is_standalone && !is_mongos => {
                    let start = writer::begin_subdocument(out, "$readPreference");
                    writer::append_str(out, "mode", "primaryPreferred");
                    writer::end_document(out, start);
                }
                _ => {}
            }
        });
        let largest = client.hello.as_ref().map_or(48_000_000, |hello| hello.max_message_size);
        let size = self.operation.command.outbound().len();
        if size > largest {
            self.check_in(client, now);
            self.fail(Failure::TooLarge(format!(
                "the command is {size} bytes, and {} takes at most {largest}; split it",
                client.options.address
            )));
            return self.end_session(client, now);
        }
        self.is_sent = false;
        self.phase = Phase::InFlight;
    }

    fn read_handshake(
        &mut self,
        client: &mut Client,
        message: &[u8],
        now: Instant,
    ) -> Result<(), ProtocolError> {
        let reply = self.answer_of(message)?;
        let facts = Facts::read(reply)?;
        if !facts.ok {
            let why = reply.get_str("errmsg")?.unwrap_or("no reason given").to_owned();
            let is_stale = self.is_stale(client);
            self.drop_link(client, now);
            let message = format!("{}: the handshake was refused: {why}", client.options.address);
            self.back_off(client, message, is_stale, now);
            return Ok(());
        }
        let hello = Hello::read(reply)?;
        if let Some(problem) = incompatibility(client, &hello) {
            self.drop_link(client, now);
            self.fail(Failure::Configuration(problem));
            return Ok(());
        }
        client.hello = Some(hello);
        client.last_error = None;
        self.handshake = None;
        let generation = self.generation;
        if let (Some(link), Some(pool)) = (self.link, client.pool_mut(self.shard)) {
            pool.established(link, generation, now);
        }
        self.send(client, now);
        Ok(())
    }

    fn read_answer(
        &mut self,
        client: &mut Client,
        message: &[u8],
        now: Instant,
    ) -> Result<(), ProtocolError> {
        let more_to_come = read_reply(message)?.more_to_come;
        let body = self.answer_of(message)?;
        self.facts = Facts::read(body)?;
        self.more_to_come = more_to_come;
        if let Some(time) = self.facts.cluster_time.clone() {
            client.advance_cluster_time(&body.as_bytes()[time]);
        }
        if !more_to_come {
            self.check_in(client, now);
        }
        let options = &client.options;
        let again =
            retry::after_reply(self.operation.kind, &self.facts, options.retry_reads, options.retry_writes);
        if again && self.may_retry(client) {
            self.attempt += 1;
            self.select(client, now);
            return Ok(());
        }
        self.failure = (!self.facts.ok).then_some(Failure::Command);
        self.finish(client, now);
        Ok(())
    }

    /// Checks that a message answers what was asked, and returns its body.
    fn answer_of<'a>(&self, message: &'a [u8]) -> Result<RawDocument<'a>, ProtocolError> {
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

    fn may_retry(&self, client: &Client) -> bool {
        self.attempt == 0
            && self.operation.pinned.is_none()
            && (self.operation.kind.is_read()
                || client.hello.as_ref().is_some_and(Hello::supports_retryable_writes))
    }

    /// Whether its connection is older than the last failure of the server, and so fails for a reason known already.
    fn is_stale(&self, client: &Client) -> bool {
        client.pool(self.shard).is_some_and(|pool| pool.generation() != self.generation)
    }

    fn back_off(&mut self, client: &mut Client, message: String, is_stale: bool, now: Instant) {
        let until = now + RECONNECT_DELAY;
        let limit = client.options.server_selection_timeout;
        if !is_stale {
            client.mark_unreachable(message.clone());
        }
        if until > self.begun + limit {
            let earlier = match self.failure.take() {
                Some(Failure::Network { message, .. }) => format!("; the first attempt failed: {message}"),
                _ => String::new(),
            };
            self.fail(Failure::ServerSelection(format!(
                "no server answered within {} s: {message}{earlier}",
                limit.as_secs_f64()
            )));
            self.end_session(client, now);
        } else {
            self.phase = Phase::BackingOff(until);
        }
    }

    fn check_in(&mut self, client: &mut Client, now: Instant) {
        if self.operation.pinned.is_some() {
            return;
        }
        if let (Some(link), Some(pool)) = (self.link.take(), client.pool_mut(self.shard)) {
            pool.check_in(link, now);
        }
    }

    fn drop_link(&mut self, client: &mut Client, now: Instant) {
        let Some(pool) = client.pool_mut(self.shard) else { return };
        match (self.phase, self.link.take()) {
            (Phase::Connecting | Phase::Handshake, link) => pool.failed(link, now),
            (_, Some(link)) => pool.discard(link, now),
            _ => {}
        }
    }

    fn finish(&mut self, client: &mut Client, now: Instant) {
        self.phase = Phase::Done;
        let has_open_cursor = self.facts.cursor.as_ref().is_some_and(|cursor| cursor.id != 0);
        if !has_open_cursor {
            self.end_session(client, now);
        }
    }

    fn end_session(&mut self, client: &mut Client, now: Instant) {
        let session = match std::mem::replace(&mut self.operation.session, SessionChoice::None) {
            SessionChoice::Of(session) => Some(session),
            _ => self.session.take(),
        };
        if let Some(session) = session {
            let timeout = client.session_timeout();
            client.sessions.give_back(session, timeout, now);
        }
    }

    fn fail(&mut self, failure: Failure) {
        self.failure = Some(failure);
        self.phase = Phase::Done;
    }
}

fn hello_command(client: &Client) -> Result<Command, ProtocolError> {
    let mut head = Command::begin();
    let metadata = RawDocument::from_bytes(&client.options.metadata)?;
    write_hello(&mut head, metadata, !client.options.server_api.is_empty());
    Command::new(head, Vec::new())
}

fn incompatibility(client: &Client, hello: &Hello) -> Option<String> {
    let address = &client.options.address;
    if hello.min_wire_version > MAX_WIRE_VERSION {
        return Some(format!(
            "{address} requires wire version {}, this driver speaks up to {MAX_WIRE_VERSION}; upgrade mangonel",
            hello.min_wire_version
        ));
    }
    if hello.max_wire_version < MIN_WIRE_VERSION {
        return Some(format!(
            "{address} speaks wire version {}, this driver needs {MIN_WIRE_VERSION} (MongoDB 4.4) or newer",
            hello.max_wire_version
        ));
    }
    let wanted = client.options.replica_set.as_ref()?;
    (hello.set_name.as_ref() != Some(wanted)).then(|| match &hello.set_name {
        Some(found) => format!("expected a member of replica set {wanted:?}, found {address} in {found:?}"),
        None => format!("expected a member of replica set {wanted:?}, found {address} in none"),
    })
}
