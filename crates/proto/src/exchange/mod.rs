//! One command with all its retries, from the choice of a server to its reply. Knows no socket and no clock.
//! Spec: server-selection, connection-monitoring-and-pooling, retryable-reads, retryable-writes, sessions.
//!
//! The owner reads [`Exchange::step`], does that step, reports with a `handle_*`, and reads the step again:
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
//! - A link whose reply is outstanding is never checked in: [`Exchange::close`] discards it.
//! - A command is stamped again for every attempt; only its transaction number stays.

mod announcing;
mod attempt;
mod counting;
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
use crate::pool::{CheckOut, Pool};
use crate::read_preference::ReadPreference;
use crate::reply::Facts;
use crate::session::{LostWrite, ServerSession};
use crate::time::Instant;
use crate::topology::{Address, ServerDescription};

/// A timeout of zero makes a socket non-blocking.
const SHORTEST_WAIT: Duration = Duration::from_millis(1);

/// How long to wait before an unreachable server is tried again (SDAM: `minHeartbeatFrequencyMS`).
const RECONNECT_DELAY: Duration = Duration::from_millis(500);

static PRIMARY: ReadPreference = ReadPreference::PRIMARY;

/// The owner's next step.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    /// Open a connection, then [`Exchange::handle_connected`] or [`Exchange::handle_network_error`].
    Connect,
    /// Send [`Exchange::outbound`], receive a message when [`Exchange::expects_reply`], then report it.
    Write,
    /// Receive a message without sending one: the server already writes.
    Read,
    /// Find the answer to [`Exchange::question`], which may take a while, then [`Exchange::handle_answer`].
    Ask,
    /// Wait until woken or until [`Exchange::deadline`].
    Wait,
    /// Wait for this moment, then [`Exchange::handle_timeout`].
    Sleep(Instant),
    /// [`Exchange::failure`] says whether there is a reply.
    Done,
}

/// The phase of an exchange, with its data.
enum Phase {
    /// Waiting until `server_selector` has chosen among the suitable servers.
    Choosing(Box<Candidates>),
    /// Waiting for the deployment to change: no server is suitable, or the user's selector refused all suitable ones.
    Selecting {
        refused_by_user: usize,
    },
    /// The check-out was announced to listeners.
    Announced,
    /// Waiting in a pool's queue.
    Waiting {
        since: Instant,
    },
    /// Opening the connection of this name.
    Connecting {
        opening: LinkId,
    },
    /// Making a new connection usable.
    Handshake(Box<Handshake>),
    /// Authenticating again on a working connection, because the server requires it.
    Reauthenticating(Box<Handshake>),
    /// The command is being sent, or its reply is awaited.
    InFlight {
        is_sent: bool,
    },
    BackingOff(Instant),
    Done(Stay),
}

/// The suitable servers.
struct Candidates(Vec<Arc<ServerDescription>>);

/// Whether the connection goes back to its pool when the exchange is done.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stay {
    /// The connection goes back.
    No,
    /// The server sends more replies without a request.
    MoreToCome,
    /// Only this connection leads to the cursor's service behind the balancer.
    WithCursor,
}

/// The reason why there is no reply.
struct Failed {
    failure: Failure,
    besides: Besides,
}

/// Further facts for the caller about the failure.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Besides {
    Nothing,
    /// A connection could not be opened, perhaps because the server is overloaded.
    Overload,
    /// Without a time limit there would be another attempt.
    OutOfTime,
}

/// The result of the attempt before the last one.
enum Earlier {
    /// There was none, or it is not more informative.
    None,
    /// Another attempt followed. The caller gets this result if the last one is less informative.
    Kept(Box<Attempt>),
    /// The caller gets this result; this is its reply, empty if there was none.
    Told(Vec<u8>),
}

/// The result of a failed attempt that was followed by another.
struct Attempt {
    failed: Option<Failed>,
    facts: Facts,
    reply: Vec<u8>,
}

/// The number of attempts, and facts that affect the next one.
#[derive(Default)]
struct Attempts {
    /// The number of attempts before the last one.
    retries: u32,
    /// Whether a server was overloaded, so the retry rules for overload apply.
    met_overload: bool,
    /// Whether the command carries a transaction number, which lets the server recognise a repetition.
    has_transaction_number: bool,
    /// Whether it has authenticated again; a second time would not help.
    has_reauthenticated: bool,
    /// Whether a connection could not be opened, so that it selected a server again.
    has_missed: bool,
}

/// One command being run.
pub struct Exchange {
    id: ExchangeId,
    shard: ShardId,
    operation: Operation,
    phase: Phase,
    /// The selected server.
    server: Option<Arc<ServerDescription>>,
    /// Servers on which an attempt failed; avoided while there are others.
    deprioritized: Vec<Address>,
    link: Option<LinkId>,
    /// The generation of the connection that it holds or opens. Errors of an older generation do not affect the server.
    generation: u32,
    request_id: i32,
    attempts: Attempts,
    session: Option<ServerSession>,
    /// The facts about the explicit session, if it has one.
    explicit: Option<Box<explicit::Explicit>>,
    /// The time at which it began to look for a server.
    begun: Instant,
    counted: counting::Counted,
    /// The time at which it runs out of time (client-side-operations-timeout).
    until: Option<Instant>,
    failed: Option<Failed>,
    facts: Facts,
    earlier: Earlier,
    /// The write of an attempt without an answer.
    lost: Option<Box<LostWrite>>,
    heard: announcing::Heard,
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

    /// Enters the session of `operation` and leaves the rest to [`resume`](Self::resume).
    pub fn begin_aside(client: &mut Client, shard: ShardId, operation: Operation, now: Instant) -> Self {
        let mut exchange = Exchange::new(client, shard, operation, now);
        exchange.enter_session(client, now);
        exchange
    }

    fn new(client: &mut Client, shard: ShardId, mut operation: Operation, now: Instant) -> Self {
        let until = match operation.limit {
            Limit::OfClient => client.options.timeout.map(|limit| now + limit),
            Limit::None => None,
            Limit::Within(limit) => Some(now + limit),
        };
        // On a `getMore`, `maxTimeMS` is how long a tailable cursor waits; `time_for_server` shortens that.
        if until.is_some() && operation.command.name() != "getMore" {
            operation.command.drop_own_limits();
        }
        let heard = announcing::Heard::new(operation.group);
        let counted = counting::Counted::new(now, operation.is_silent);
        Exchange {
            id: client.next_exchange(),
            shard,
            operation,
            phase: Phase::Selecting { refused_by_user: 0 },
            server: None,
            deprioritized: Vec::new(),
            link: None,
            generation: 0,
            request_id: 0,
            attempts: Attempts::default(),
            session: None,
            explicit: None,
            begun: now,
            counted,
            until,
            failed: None,
            facts: Facts::default(),
            earlier: Earlier::None,
            lost: None,
            heard,
        }
    }

    /// Starts to run `operation` on this server. Fails at once if the server's pool is paused or closed.
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
        match &self.phase {
            Phase::Connecting { .. } => Step::Connect,
            Phase::Choosing(_) => Step::Ask,
            Phase::Handshake(handshake) | Phase::Reauthenticating(handshake) => handshake.step(),
            Phase::InFlight { is_sent: true } => Step::Read,
            Phase::InFlight { is_sent: false } => Step::Write,
            Phase::Selecting { .. } | Phase::Announced | Phase::Waiting { .. } => Step::Wait,
            Phase::BackingOff(until) => Step::Sleep(*until),
            Phase::Done(_) => Step::Done,
        }
    }

    /// Returns whether the handshake is still in progress, so that the message to send is not the command.
    pub fn is_handshake(&self) -> bool {
        matches!(self.phase, Phase::Handshake(_))
    }

    /// Returns its id for wakers and the pool.
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
        matches!(self.phase, Phase::Done(Stay::MoreToCome | Stay::WithCursor))
    }

    /// Returns the selected server.
    pub fn server(&self) -> Option<&Address> {
        self.server.as_ref().map(|server| &server.address)
    }

    /// Returns the connection it holds.
    pub fn link(&self) -> Option<LinkId> {
        self.link
    }

    /// Returns the number of the last stamped request; every stamp takes a new number.
    pub fn request_id(&self) -> i32 {
        self.request_id
    }

    /// Returns the id of the connection to open.
    pub fn opening(&self) -> Option<LinkId> {
        match self.phase {
            Phase::Connecting { opening } => Some(opening),
            _ => None,
        }
    }

    /// Returns the message to send.
    pub fn outbound(&self) -> &[u8] {
        match &self.phase {
            Phase::Handshake(handshake) | Phase::Reauthenticating(handshake) => handshake.outbound(),
            _ => self.operation.command.outbound(),
        }
    }

    /// Returns whether to expect a reply to the message.
    pub fn expects_reply(&self) -> bool {
        self.operation.replies != Replies::None || !self.is_in_flight()
    }

    /// Returns how long the current step may take; `None` for no limit.
    pub fn step_timeout(&self, client: &Client, now: Instant) -> Option<Duration> {
        let longest = match self.phase {
            Phase::Connecting { .. } | Phase::Handshake(_) | Phase::Reauthenticating(_) => {
                client.options.connect_timeout
            }
            _ if self.until.is_some() => None,
            _ => client.options.socket_timeout,
        };
        let left = self.until.map(|until| until.saturating_since(now).max(SHORTEST_WAIT));
        longest.into_iter().chain(left).min()
    }

    /// Returns when waiting for a connection ends in an error; `None` for never.
    pub fn deadline(&self, client: &Client) -> Option<Instant> {
        match self.phase {
            Phase::Selecting { .. } => Some(self.selection_deadline(client)),
            Phase::Waiting { .. } if self.until.is_some() => self.until,
            Phase::Waiting { since } => client.options.wait_queue_timeout.map(|longest| since + longest),
            Phase::BackingOff(until) => Some(until),
            _ => None,
        }
    }

    /// Returns whether its time is limited as a whole, so that each wait is shorter than the previous one.
    pub fn is_limited(&self) -> bool {
        self.until.is_some()
    }

    /// Returns the reason why there is no reply, once done.
    pub fn failure(&self) -> Option<&Failure> {
        self.failed.as_ref().map(|failed| &failed.failure)
    }

    /// Returns the facts that the driver itself read from the reply.
    pub fn facts(&self) -> &Facts {
        &self.facts
    }

    /// Reads cursor and batch from another body than the reply's. The other facts stay those of the reply.
    ///
    /// # Errors
    /// When it is not a valid reply.
    pub fn read_again(&mut self, body: RawDocument<'_>) -> Result<(), ProtocolError> {
        self.facts = Facts::read(body)?;
        Ok(())
    }

    /// Returns whether the connection stays with the caller because more replies follow on it.
    pub fn more_to_come(&self) -> bool {
        matches!(self.phase, Phase::Done(Stay::MoreToCome))
    }

    /// Takes the reply that [`failure`](Self::failure) refers to, if it answered an attempt before the last one; once.
    pub fn take_earlier_reply(&mut self) -> Option<Vec<u8>> {
        let Earlier::Told(reply) = &mut self.earlier else { return None };
        let reply = std::mem::take(reply);
        self.earlier = Earlier::None;
        Some(reply)
    }

    /// Returns whether only the time limit prevented another attempt. The failure then describes the end of the last
    /// attempt, and the caller also reports the time limit.
    pub fn is_out_of_time(&self) -> bool {
        self.failed.as_ref().is_some_and(|failed| failed.besides == Besides::OutOfTime)
    }

    /// Returns whether the failure carries the label `RetryableWriteError`, which only the client can add.
    pub fn is_retryable_write_error(&self) -> bool {
        let is_repeatable = self.attempts.has_transaction_number || self.operation.kind.end().is_some();
        is_repeatable && matches!(self.failure(), Some(Failure::Network { .. }))
    }

    /// Returns whether the failure carries the labels `SystemOverloadedError` and `RetryableError`: no connection could
    /// be opened, perhaps because the server is overloaded.
    pub fn is_overload_error(&self) -> bool {
        self.failed.as_ref().is_some_and(|failed| failed.besides == Besides::Overload)
    }

    /// Returns the number of attempts before the last one.
    pub fn retries(&self) -> u32 {
        self.attempts.retries
    }

    /// Returns whether the replies come without a request: later batches of an exhaust cursor.
    pub fn is_under_way(&self) -> bool {
        self.operation.is_under_way
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

    /// Returns its write if that failed and the server may still carry it out; only a write with a transaction number
    /// in an implicit session.
    pub fn lost_write(&self) -> Option<LostWrite> {
        self.failed.as_ref().and(self.lost.as_deref().copied())
    }

    /// Takes the session for an open cursor. Without a cursor the session returns to the pool by itself.
    pub fn take_session(&mut self) -> Option<ServerSession> {
        self.session.take()
    }

    /// Called when a connection was opened, which gets the id `link`.
    pub fn handle_connected(&mut self, client: &mut Client, link: LinkId, now: Instant) {
        if !matches!(self.phase, Phase::Connecting { .. }) {
            return;
        }
        self.link = Some(link);
        if client.is_closed() {
            self.drop_link(client, now);
            self.fail_closed();
            return self.end_session(client, now);
        }
        if let Some(pool) = self.pool(client) {
            pool.connected(link);
        }
        self.begin_handshake(client, now);
    }

    /// Called when a whole message arrived on the link. Afterwards the step is `Done`, or `Write` for the next message.
    pub fn handle_reply(&mut self, client: &mut Client, message: &[u8], now: Instant) {
        let outcome = match self.phase {
            Phase::Handshake(_) | Phase::Reauthenticating(_) => self.read_handshake(client, message, now),
            Phase::InFlight { .. } => self.read_answer(client, message, now),
            _ => Err(ProtocolError::new("expected no message before a command, got one")),
        };
        if let Err(error) = outcome {
            self.handle_protocol_error(client, &error.to_string(), now);
        }
    }

    /// Called when the message was sent. If no reply is expected, the exchange is done; otherwise [`Step::Read`]
    /// remains.
    pub fn handle_sent(&mut self, client: &mut Client, now: Instant) {
        let Phase::InFlight { is_sent } = &mut self.phase else { return };
        *is_sent = true;
        if self.operation.replies == Replies::None {
            self.facts = Facts { ok: true, ..Facts::default() };
            // An earlier failure to connect no longer matters.
            self.failed = None;
            self.announce_unacknowledged(client, now);
            self.check_in(client, now);
            self.finish(client, Stay::No, now);
        }
    }

    /// Called when the server closed the link before the message was sent on it. This counts as no attempt, and another
    /// link is taken; but a pinned exchange fails.
    pub fn handle_link_lost(&mut self, client: &mut Client, now: Instant) {
        match self.phase {
            Phase::InFlight { is_sent: false } if self.needs_its_link(client) => {
                self.drop_announcement();
                self.fail_pinned(client, now)
            }
            Phase::InFlight { is_sent: false } => {
                self.drop_announcement();
                self.drop_link(client, now);
                self.unsend_session(client);
                self.select(client, now);
            }
            // A question took long: a manual login, a slow key derivation.
            Phase::Handshake(_) | Phase::Reauthenticating(_) => {
                self.handle_network_error(client, "the server closed the connection", false, now);
            }
            _ => {}
        }
    }

    /// Called after a wake-up: a connection may have been granted, or the deployment may have changed.
    pub fn handle_wake(&mut self, client: &mut Client, now: Instant) {
        if client.is_closed() && matches!(self.phase, Phase::Selecting { .. } | Phase::Waiting { .. }) {
            // A granted connection must still be given back.
            let id = self.id;
            if let Some(pool) = self.pool(client) {
                pool.abandon(id, now);
            }
            self.announce_no_connection(client, CheckOutFailure::PoolClosed, now);
            self.fail_closed();
            return self.end_session(client, now);
        }
        match self.phase {
            Phase::Selecting { .. } => {
                client.stop_waiting(self.id);
                self.select(client, now);
            }
            Phase::Announced => self.handle_check_out(client, now),
            Phase::Waiting { .. } => {
                let Some(pool) = self.pool(client) else {
                    self.announce_no_connection(client, CheckOutFailure::PoolClosed, now);
                    return self.select(client, now);
                };
                match pool.granted(self.id) {
                    Some(answer) => {
                        // The pool may have been cleared since the connection was granted.
                        let granted =
                            if let CheckOut::Ready(link) = answer { pool.generation_of(link) } else { None };
                        self.generation = granted.unwrap_or(pool.generation());
                        self.checked_out(client, answer, now);
                    }
                    // Removed from the queue: the pool was cleared, and the server may be gone.
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

    /// Called when [`deadline`](Self::deadline) has passed.
    pub fn handle_timeout(&mut self, client: &mut Client, now: Instant) {
        if self.deadline(client).is_none_or(|deadline| deadline > now) {
            return;
        }
        match self.phase {
            // Looks once more: the wake-up may be on its way. After a pause of the whole machine, timers and replies are
            // due together.
            Phase::Selecting { .. } => self.handle_wake(client, now),
            Phase::Waiting { since } => {
                self.handle_wake(client, now);
                if !matches!(self.phase, Phase::Waiting { .. }) {
                    return;
                }
                let address = self.address();
                let longest = now.saturating_since(since).as_millis() as f64 / 1000.0;
                let id = self.id;
                let Some(pool) = self.pool(client) else { return };
                let (_, out, pending) = pool.sizes();
                let waiting = pool.waiting();
                pool.abandon(id, now);
                self.announce_no_connection(client, CheckOutFailure::Timeout, now);
                self.fail(Failure::WaitQueue(format!(
                    "no connection to {address} became free within {longest} s: {out} in use, {pending} being \
                     opened, {waiting} waiting; raise maxPoolSize or the time limit",
                )));
                // The result of an earlier attempt is more informative than the wait queue's timeout.
                if self.report_earlier() && self.until.is_some() {
                    self.note_besides(Besides::OutOfTime);
                }
                self.end_session(client, now);
            }
            Phase::BackingOff(_) => self.select(client, now),
            _ => {}
        }
    }

    /// Leaves the phase for the next one.
    #[inline]
    fn enter(&mut self, next: Phase) {
        let left = std::mem::replace(&mut self.phase, next);
        // Every command runs this: most phases own nothing to drop, but the compiler would call a function to find out.
        if matches!(left, Phase::Choosing(_) | Phase::Handshake(_) | Phase::Reauthenticating(_)) {
            drop(left);
        } else {
            std::mem::forget(left);
        }
    }

    fn is_in_flight(&self) -> bool {
        matches!(self.phase, Phase::InFlight { .. })
    }

    fn is_done(&self) -> bool {
        matches!(self.phase, Phase::Done(_))
    }

    /// Returns the server's address for messages.
    fn address(&self) -> String {
        self.server().map_or_else(|| "no server".to_owned(), ToString::to_string)
    }

    fn pool<'a>(&self, client: &'a mut Client) -> Option<&'a mut Pool> {
        client.pool_mut(&self.server.as_ref()?.address, self.shard)
    }
}
