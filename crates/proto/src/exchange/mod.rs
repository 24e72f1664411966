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

mod announcing;
mod attempt;
mod endings;
mod explicit;
mod handshake;
mod placing;

pub use handshake::{Answer, Question};

use std::sync::Arc;
use std::time::Duration;

use mangonel_bson::RawDocument;

use self::handshake::Handshake;
use crate::client::Client;
use crate::error::{Failure, ProtocolError};
use crate::events::CheckOutFailure;
use crate::ids::{ExchangeId, LinkId, ShardId};
use crate::message::Replies;
use crate::operation::{Limit, Operation, SessionChoice};
use crate::pool::Pool;
use crate::read_preference::ReadPreference;
use crate::reply::Facts;
use crate::session::ServerSession;
use crate::time::Instant;
use crate::topology::{Address, ServerDescription};

/// A socket that is given no time at all is a non-blocking one, which is something else.
const SHORTEST_WAIT: Duration = Duration::from_millis(1);

/// How long to wait before an unreachable server is tried again (SDAM: `minHeartbeatFrequencyMS`).
const RECONNECT_DELAY: Duration = Duration::from_millis(500);

static PRIMARY: ReadPreference = ReadPreference::PRIMARY;

/// What the owner has to do next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    /// Open a connection, then [`Exchange::handle_connected`] or [`Exchange::handle_network_error`].
    Connect,
    /// Send [`Exchange::outbound`], receive a message when [`Exchange::expects_reply`], then report it.
    Write,
    /// Receive a message without sending one: the server already writes.
    Read,
    /// Find the answer to [`Exchange::question`], which may take long, then [`Exchange::handle_answer`].
    Ask,
    /// Wait to be woken or for [`Exchange::deadline`].
    Wait,
    /// Wait for this moment, then [`Exchange::handle_timeout`].
    Sleep(Instant),
    /// [`Exchange::failure`] says whether there is a reply.
    Done,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    /// Waiting for the user's word on the servers that suit.
    Choosing,
    /// Waiting for the deployment to change, since no server suits.
    Selecting,
    /// Listeners are told that a connection will be asked for.
    Announced,
    /// Waiting in a pool's queue.
    Waiting,
    Connecting,
    Handshake,
    /// Authenticating once more, on a connection that works, because the server asked for it.
    Reauthenticating,
    InFlight,
    BackingOff(Instant),
    Done,
}

/// How an attempt failed that was followed by another: it is what the caller is told when the last one says less.
struct Earlier {
    failure: Option<Failure>,
    facts: Facts,
    /// The message that answered it; empty when none did.
    reply: Vec<u8>,
}

/// One command being run.
pub struct Exchange {
    id: ExchangeId,
    shard: ShardId,
    operation: Operation,
    /// In a box, since most commands never shake hands.
    handshake: Option<Box<Handshake>>,
    phase: Phase,
    /// Where it goes, once a server was selected.
    server: Option<Arc<ServerDescription>>,
    /// Servers that failed it, avoided while there are others.
    deprioritized: Vec<Address>,
    link: Option<LinkId>,
    /// Whether its connection stays with the cursor, whose later batches no other service behind the balancer has.
    keeps_link: bool,
    /// The servers that the user may choose from.
    candidates: Vec<Arc<ServerDescription>>,
    /// How many servers suited when the user chose none of them the last time; 0 when one was chosen.
    refused_by_user: usize,
    /// The generation of the connection that it holds or opens: an error on an older one says nothing of the server.
    generation: u32,
    request_id: i32,
    attempt: u32,
    session: Option<ServerSession>,
    /// What it must know of the session that the user opened; then there is no other.
    explicit: Option<Box<explicit::Explicit>>,
    begun: Instant,
    /// When it last joined the wait queue.
    queued: Instant,
    failure: Option<Failure>,
    facts: Facts,
    /// The result of the attempt before, when another one followed.
    earlier: Option<Box<Earlier>>,
    /// Whether that is what the caller is told.
    reports_earlier: bool,
    /// Whether only the end of its time kept it from another attempt.
    is_out_of_time: bool,
    /// Whether a server had too much to do, so that other rules for retries hold.
    retries_as_overloaded: bool,
    /// Whether the last failure was that of a connection being made, which may mean the same.
    may_be_overload: bool,
    /// When its time is over (client-side-operations-timeout).
    until: Option<Instant>,
    /// Whether the server will send more without being asked.
    more_to_come: bool,
    /// Whether the command carries a number by which the server knows a repetition.
    has_transaction_number: bool,
    /// Whether the command went out ahead of the wait for its reply.
    is_sent: bool,
    /// What listeners call this operation; its first request's number unless its caller chose one.
    operation_id: Option<i64>,
    announcement: announcing::Announcement,
    /// Whether it authenticated once more already; a second time would not help.
    is_reauthenticated: bool,
    notes: announcing::CheckOutNotes,
    /// What the connection that it opens will be called.
    opening: Option<LinkId>,
    /// Whether listeners have heard of its start, and not of its end.
    is_traced: bool,
}

impl Exchange {
    /// Starts to run `operation` on the connections of `shard`; often already at [`Step::Write`].
    pub fn begin(client: &mut Client, shard: ShardId, operation: Operation, now: Instant) -> Self {
        let mut exchange = Exchange::new(client, shard, operation, now);
        if exchange.operation.is_filling {
            exchange.fill(client, now);
        } else if exchange.enter_session(client, now) {
            exchange.select(client, now);
        }
        exchange
    }

    fn new(client: &mut Client, shard: ShardId, mut operation: Operation, now: Instant) -> Self {
        let until = match operation.limit {
            Limit::OfClient => client.options.timeout.map(|limit| now + limit),
            Limit::None => None,
            Limit::Within(limit) => Some(now + limit),
        };
        // The wait of a tailable cursor's `getMore` is its caller's; it is cut when it is sent.
        if until.is_some() && operation.command.name() != "getMore" {
            operation.command.drop_own_limits();
        }
        let operation_id = operation.group;
        let mut exchange = Exchange {
            id: client.next_exchange(),
            shard,
            operation,
            handshake: None,
            phase: Phase::Selecting,
            server: None,
            deprioritized: Vec::new(),
            link: None,
            keeps_link: false,
            candidates: Vec::new(),
            refused_by_user: 0,
            generation: 0,
            request_id: 0,
            attempt: 0,
            session: None,
            explicit: None,
            begun: now,
            queued: now,
            failure: None,
            facts: Facts::default(),
            earlier: None,
            reports_earlier: false,
            is_out_of_time: false,
            retries_as_overloaded: false,
            may_be_overload: false,
            until,
            more_to_come: false,
            has_transaction_number: false,
            is_sent: false,
            operation_id,
            announcement: announcing::Announcement::default(),
            is_reauthenticated: false,
            notes: announcing::CheckOutNotes::default(),
            opening: None,
            is_traced: false,
        };
        exchange.announce_operation(client);
        exchange
    }

    /// Starts to run `operation` on this server, or not at all: without a choice, and without waiting for the server to
    /// be known.
    pub fn begin_at(
        client: &mut Client,
        shard: ShardId,
        operation: Operation,
        server: &Address,
        now: Instant,
    ) -> Self {
        let mut exchange = Exchange::new(client, shard, operation, now);
        let known = client.description().servers.get(server).cloned();
        exchange.server =
            Some(known.unwrap_or_else(|| Arc::new(ServerDescription::unknown(server.clone(), now))));
        let reason = match client.is_ready(server) {
            Some(true) => {
                exchange.announce_check_out(client, now);
                exchange.take_connection(client, now);
                return exchange;
            }
            Some(false) => CheckOutFailure::Connection,
            None => CheckOutFailure::PoolClosed,
        };
        exchange.announce_check_out(client, now);
        exchange.announce_no_connection(client, reason, now);
        exchange.fail(match reason {
            CheckOutFailure::PoolClosed => Failure::Closed,
            _ => Failure::Network { message: format!("{server}: the pool is paused"), timed_out: false },
        });
        exchange
    }

    /// Returns what to do next.
    pub fn step(&self) -> Step {
        match self.phase {
            Phase::Connecting => Step::Connect,
            Phase::Choosing => Step::Ask,
            Phase::Handshake | Phase::Reauthenticating => self.handshake_step(),
            Phase::InFlight if self.operation.is_under_way || self.is_sent => Step::Read,
            Phase::InFlight => Step::Write,
            Phase::Selecting | Phase::Announced | Phase::Waiting => Step::Wait,
            Phase::BackingOff(until) => Step::Sleep(until),
            Phase::Done => Step::Done,
        }
    }

    /// Returns whether the connection is still being made usable, so that the message to send is not the command.
    pub fn is_handshake(&self) -> bool {
        self.phase == Phase::Handshake
    }

    /// Returns the name that wakers and the pool know it by.
    pub fn id(&self) -> ExchangeId {
        self.id
    }

    /// Returns the shard it runs on.
    pub fn shard(&self) -> ShardId {
        self.shard
    }

    /// Returns whether the connection stays with the caller, to be given back with
    /// [`Client::release_pinned`]: more replies follow on it, or it is the only one that knows the cursor.
    pub fn keeps_link(&self) -> bool {
        self.more_to_come || self.keeps_link
    }

    /// Returns the server it goes to, once one was selected.
    pub fn server(&self) -> Option<&Address> {
        self.server.as_ref().map(|server| &server.address)
    }

    /// Returns the connection it holds.
    pub fn link(&self) -> Option<LinkId> {
        self.link
    }

    /// Returns the number of the request that was stamped last; every stamp takes another.
    pub fn request_id(&self) -> i32 {
        self.request_id
    }

    /// Returns what the connection that it wants to open is to be called.
    pub fn opening(&self) -> Option<LinkId> {
        self.opening
    }

    /// Returns the message to send.
    pub fn outbound(&self) -> &[u8] {
        match (&self.phase, &self.handshake) {
            (Phase::Handshake | Phase::Reauthenticating, Some(handshake)) => handshake.outbound(),
            _ => self.operation.command.outbound(),
        }
    }

    /// Returns whether the message to send is answered.
    pub fn expects_reply(&self) -> bool {
        self.phase != Phase::InFlight || self.operation.replies != Replies::None
    }

    /// Returns how long the current step may take; `None` for no limit.
    pub fn step_timeout(&self, client: &Client, now: Instant) -> Option<Duration> {
        let longest = match self.phase {
            Phase::Connecting | Phase::Handshake | Phase::Reauthenticating => client.options.connect_timeout,
            _ if self.until.is_some() => None,
            _ => client.options.socket_timeout,
        };
        let end = match self.phase {
            // A server that swallows everything must not hold the caller for longer than looking for one may take.
            Phase::Connecting | Phase::Handshake if !self.operation.is_filling => {
                Some(self.selection_deadline(client))
            }
            _ => self.until,
        };
        let left = end.map(|end| end.saturating_since(now).max(SHORTEST_WAIT));
        longest.map_or(left, |longest| Some(left.map_or(longest, |left| left.min(longest))))
    }

    /// Returns when waiting for a connection ends in an error; `None` for never.
    pub fn deadline(&self, client: &Client) -> Option<Instant> {
        match self.phase {
            Phase::Selecting => Some(self.selection_deadline(client)),
            Phase::Waiting if self.until.is_some() => self.until,
            Phase::Waiting => client.options.wait_queue_timeout.map(|longest| self.queued + longest),
            Phase::BackingOff(until) => Some(until),
            _ => None,
        }
    }

    /// Returns whether its time is limited as a whole, so that every wait is shorter than the one before.
    pub fn is_limited(&self) -> bool {
        self.until.is_some()
    }

    /// Returns why there is no reply, once done.
    pub fn failure(&self) -> Option<&Failure> {
        self.failure.as_ref()
    }

    /// Returns what the driver itself read from the reply.
    pub fn facts(&self) -> &Facts {
        &self.facts
    }

    /// Reads another body in place of the reply's: where its cursor and its batch are. What the reply meant, it has said.
    ///
    /// # Errors
    /// When it is no reply.
    pub fn read_again(&mut self, body: RawDocument<'_>) -> Result<(), ProtocolError> {
        self.facts = Facts::read(body)?;
        Ok(())
    }

    /// Returns whether the connection stays with the caller because more replies follow on it.
    pub fn more_to_come(&self) -> bool {
        self.more_to_come
    }

    /// Takes the message that [`failure`](Self::failure) is about when it answered an earlier attempt, not the last; once.
    pub fn take_earlier_reply(&mut self) -> Option<Vec<u8>> {
        std::mem::take(&mut self.reports_earlier).then(|| self.earlier.take())?.map(|earlier| earlier.reply)
    }

    /// Returns whether there would have been another attempt, had there been time: then the failure says how the last one
    /// ended, and the caller is told of a time limit that is over besides.
    pub fn is_out_of_time(&self) -> bool {
        self.is_out_of_time && self.failure.is_some()
    }

    /// Returns whether the failure carries the label `RetryableWriteError`, which only the client can give it.
    pub fn is_retryable_write_error(&self) -> bool {
        let is_repeatable = self.has_transaction_number || self.operation.kind.end().is_some();
        is_repeatable && matches!(self.failure, Some(Failure::Network { .. }))
    }

    /// Returns whether the failure carries the labels `SystemOverloadedError` and `RetryableError`: no connection could
    /// be made, perhaps since the server has too much to do.
    pub fn is_overload_error(&self) -> bool {
        self.may_be_overload && matches!(self.failure, Some(Failure::Network { .. }))
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
            SessionChoice::Implicit | SessionChoice::Explicit(_) | SessionChoice::None => {
                self.session.as_ref()
            }
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
        if let Some(pool) = self.pool(client) {
            pool.connected(link);
        }
        self.begin_handshake(client, now);
    }

    /// A whole message arrived on the link. Afterwards the step is `Done`, or `Write` for what comes next.
    pub fn handle_reply(&mut self, client: &mut Client, message: &[u8], now: Instant) {
        let outcome = match self.phase {
            Phase::Handshake | Phase::Reauthenticating => self.read_handshake(client, message, now),
            Phase::InFlight => self.read_answer(client, message, now),
            _ => Err(ProtocolError::new("expected no message, got one")),
        };
        if let Err(error) = outcome {
            self.handle_protocol_error(client, &error.to_string(), now);
        }
    }

    /// The message was sent. Without a reply to it the exchange is done, otherwise [`Step::Read`] is what remains.
    pub fn handle_sent(&mut self, client: &mut Client, now: Instant) {
        self.is_sent = self.phase == Phase::InFlight;
        if self.phase == Phase::InFlight && self.operation.replies == Replies::None {
            self.facts = Facts { ok: true, ..Facts::default() };
            self.announce_unacknowledged(client, now);
            self.check_in(client, now);
            self.finish(client, now);
        }
    }

    /// The server had closed the link before anything was sent on it: another one is taken, and no attempt was made.
    pub fn handle_link_lost(&mut self, client: &mut Client, now: Instant) {
        if self.phase != Phase::InFlight || self.is_sent || self.operation.pinned.is_some() {
            return;
        }
        self.drop_link(client, now);
        self.unsend_session(client);
        self.select(client, now);
    }

    /// It was woken: a connection may have been granted to it, or the deployment may have changed.
    pub fn handle_wake(&mut self, client: &mut Client, now: Instant) {
        if client.is_closed() && matches!(self.phase, Phase::Selecting | Phase::Waiting) {
            // What it was granted before has to be given back all the same.
            let id = self.id;
            if let Some(pool) = self.pool(client) {
                pool.abandon(id, now);
            }
            self.announce_no_connection(client, CheckOutFailure::PoolClosed, now);
            return self.fail(Failure::Closed);
        }
        match self.phase {
            Phase::Selecting => {
                client.stop_waiting(self.id);
                self.select(client, now);
            }
            Phase::Announced => self.handle_check_out(client, now),
            Phase::Waiting => {
                let Some(pool) = self.pool(client) else {
                    self.announce_no_connection(client, CheckOutFailure::PoolClosed, now);
                    return self.select(client, now);
                };
                let generation = pool.generation();
                match pool.granted(self.id) {
                    Some(answer) => {
                        self.generation = generation;
                        self.checked_out(client, answer, now);
                    }
                    // Sent away: the pool was cleared, and the server may be gone.
                    None if !pool.is_waiting(self.id) => {
                        self.announce_no_connection(client, CheckOutFailure::Connection, now);
                        self.select(client, now);
                    }
                    None => {}
                }
            }
            _ => {}
        }
    }

    /// The moment of [`deadline`](Self::deadline) has come.
    pub fn handle_timeout(&mut self, client: &mut Client, now: Instant) {
        if self.deadline(client).is_none_or(|deadline| deadline > now) {
            return;
        }
        match self.phase {
            Phase::Selecting => {
                client.stop_waiting(self.id);
                self.fail_selection(client, now);
            }
            Phase::Waiting => {
                let address = self.address();
                let longest = now.saturating_since(self.queued).as_millis() as f64 / 1000.0;
                let id = self.id;
                let Some(pool) = self.pool(client) else { return self.fail(Failure::Closed) };
                let (_, out, pending) = pool.sizes();
                let waiting = pool.waiting();
                pool.abandon(id, now);
                self.announce_no_connection(client, CheckOutFailure::Timeout, now);
                self.fail(Failure::WaitQueue(format!(
                    "no connection to {address} became free within {longest} s: {out} in use, {pending} being \
                     opened, {waiting} waiting; raise maxPoolSize or the time limit",
                )));
                self.end_session(client, now);
            }
            Phase::BackingOff(_) => self.select(client, now),
            _ => {}
        }
    }

    /// Its server, as messages show it.
    fn address(&self) -> String {
        self.server().map_or_else(|| "no server".to_owned(), ToString::to_string)
    }

    fn pool<'a>(&self, client: &'a mut Client) -> Option<&'a mut Pool> {
        client.pool_mut(&self.server.as_ref()?.address, self.shard)
    }
}
