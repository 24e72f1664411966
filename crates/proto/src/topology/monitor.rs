//! One server's monitor: when to connect, when to send hello, what to wait for. Opens no socket, keeps no clock and
//! does not know what other servers say. Spec: server-monitoring.

use std::time::Duration;

use mangonel_bson::RawDocument;

use super::address::Address;
use super::description::{ServerDescription, TopologyVersion};
use super::hello_request::{HelloRequest, Step};
use super::rtt::RttTracker;
use crate::time::Instant;

/// The least time between two checks of a server.
pub const MIN_HEARTBEAT: Duration = Duration::from_millis(500);

/// Whether a server's changes are streamed or polled.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum ServerMonitoringMode {
    /// Stream, but poll if the program runs as a cloud function.
    #[default]
    Auto,
    /// Stream if the server supports it.
    Stream,
    /// Poll, which saves a connection per server.
    Poll,
}

/// The settings for all monitors of a client.
#[derive(Clone, Copy, Debug)]
pub struct MonitorSettings {
    /// The time between two checks while polling, and the longest wait for a streamed reply.
    pub heartbeat_frequency: Duration,
    /// The least time between two checks: [`MIN_HEARTBEAT`], or less in tests with their own deployment.
    pub min_heartbeat: Duration,
    /// The time limit for a connection and for each hello; `None`: no limit.
    pub connect_timeout: Option<Duration>,
    /// The URI's `serverMonitoringMode`.
    pub mode: ServerMonitoringMode,
    /// Whether the program runs as a cloud function.
    pub is_faas: bool,
}

impl Default for MonitorSettings {
    fn default() -> Self {
        MonitorSettings {
            heartbeat_frequency: Duration::from_secs(10),
            min_heartbeat: MIN_HEARTBEAT,
            connect_timeout: Some(Duration::from_secs(20)),
            mode: ServerMonitoringMode::Auto,
            is_faas: false,
        }
    }
}

impl MonitorSettings {
    fn allows_streaming(&self) -> bool {
        match self.mode {
            ServerMonitoringMode::Auto => !self.is_faas,
            ServerMonitoringMode::Stream => true,
            ServerMonitoringMode::Poll => false,
        }
    }
}

/// The result of a check of a server.
#[derive(Clone, Debug)]
pub struct Check {
    /// The server's description according to the check.
    pub description: ServerDescription,
    /// How long the check took.
    pub duration: Duration,
    /// Whether the server could delay its reply.
    pub is_awaited: bool,
    /// The kind of failure; `None`: it succeeded.
    pub failure: Option<Failure>,
}

/// The kind of a check's failure.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Failure {
    /// The connection broke or could not be opened.
    Network,
    /// A time limit passed.
    Timeout,
    /// The server replied with an error.
    Command,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    /// No connection.
    Idle,
    Connecting,
    Handshaking,
    /// Connected, between two polls.
    Ready,
    Polling,
    /// Sent a hello whose reply the server may delay.
    Awaiting(TopologyVersion),
    /// The server will send more replies without a request.
    Streaming,
    Stopped,
}

/// Watches one server.
#[derive(Clone, Debug)]
pub struct Monitor {
    address: Address,
    settings: MonitorSettings,
    state: State,
    /// Round-trip times, from here or from the pinger.
    pub(super) rtt: RttTracker,
    // When the running check began, and when its hello was sent.
    check_started: Instant,
    hello_sent: Instant,
    last_check_end: Option<Instant>,
    next_check: Instant,
    is_check_requested: bool,
    has_streamed: bool,
    // Whether the connection that is being opened has reached the server, and TLS comes next.
    is_securing: bool,
    // The proxy for the connection being opened, once it is reached.
    proxy: Option<String>,
    // A heartbeat that has begun but is not published yet; true if awaited.
    started: Option<bool>,
}

impl Monitor {
    /// Makes a monitor whose first check is due at once.
    pub fn new(address: Address, settings: MonitorSettings, now: Instant) -> Monitor {
        let heartbeat_frequency = settings.heartbeat_frequency.max(settings.min_heartbeat);
        Monitor {
            address,
            settings: MonitorSettings { heartbeat_frequency, ..settings },
            state: State::Idle,
            rtt: RttTracker::default(),
            check_started: now,
            hello_sent: now,
            last_check_end: None,
            next_check: now,
            is_check_requested: false,
            has_streamed: false,
            is_securing: false,
            proxy: None,
            started: None,
        }
    }

    /// Returns what to do next. Call it again after every `handle_*`, and when a wait is over.
    pub fn poll_step(&mut self, now: Instant) -> Step {
        let timeout = self.settings.connect_timeout;
        if matches!(self.state, State::Idle | State::Ready) {
            if now < self.next_check {
                return Step::Wait { until: self.next_check };
            }
            let next = if self.state == State::Idle { State::Connecting } else { State::Polling };
            self.begin_check(next, now);
        }
        match self.state {
            State::Connecting => Step::Connect { timeout },
            State::Handshaking => Step::Write { hello: HelloRequest::Handshake, timeout },
            State::Polling => Step::Write { hello: HelloRequest::Poll, timeout },
            State::Awaiting(topology_version) => {
                let max_await_time = self.settings.heartbeat_frequency;
                let hello = HelloRequest::Await { topology_version, max_await_time };
                Step::Write { hello, timeout: self.await_timeout() }
            }
            State::Streaming => Step::Read { timeout: self.await_timeout() },
            State::Idle | State::Ready => Step::Wait { until: self.next_check },
            State::Stopped => Step::Stop,
        }
    }

    /// Returns whether the heartbeat that just began is awaited, once for each that began.
    pub fn poll_started(&mut self) -> Option<bool> {
        self.started.take()
    }

    /// Returns whether the server's changes were ever streamed, so that the pinger must measure round-trip times.
    pub fn has_streamed(&self) -> bool {
        self.has_streamed
    }

    /// Returns whether a check is running.
    pub fn is_checking(&self) -> bool {
        !matches!(self.state, State::Idle | State::Ready | State::Stopped)
    }

    /// Returns how long the running check has taken and whether it is awaited, or `None` between checks.
    pub fn check_under_way(&self, now: Instant) -> Option<(Duration, bool)> {
        let is_awaited = matches!(self.state, State::Awaiting(_) | State::Streaming);
        self.is_checking().then(|| (now.saturating_since(self.check_started), is_awaited))
    }

    /// Describes the running check and its duration, for error messages; `None` between checks.
    pub fn doing(&self, now: Instant) -> Option<String> {
        let seconds = now.saturating_since(self.check_started).as_secs_f64();
        match self.state {
            State::Connecting if self.is_securing => Some(format!(
                "in the TLS handshake for {seconds:.1} s; the server may not speak TLS on this port"
            )),
            State::Connecting => Some(match &self.proxy {
                Some(proxy) => format!("in the SOCKS5 handshake with the proxy {proxy} for {seconds:.1} s"),
                None => format!("connecting for {seconds:.1} s"),
            }),
            State::Handshaking | State::Polling => Some(format!("no reply to hello for {seconds:.1} s")),
            State::Idle | State::Ready | State::Awaiting(_) | State::Streaming | State::Stopped => None,
        }
    }

    /// Called when the proxy was reached; the SOCKS5 handshake begins now.
    pub fn handle_proxy(&mut self, proxy: String) {
        self.proxy = Some(proxy);
    }

    /// Called when the server was reached; the TLS handshake begins now.
    pub fn handle_securing(&mut self) {
        self.is_securing = self.state == State::Connecting;
    }

    /// Called when the monitor has connected; the handshake is sent now.
    pub fn handle_connected(&mut self, now: Instant) {
        if self.state == State::Connecting {
            self.state = State::Handshaking;
            self.hello_sent = now;
        }
    }

    /// Called when a hello reply has arrived. Returns the check's result, or `None` if the check was cancelled.
    ///
    /// `is_more_to_come` is the flag of the message that carried the reply.
    pub fn handle_reply(
        &mut self,
        reply: RawDocument<'_>,
        is_more_to_come: bool,
        now: Instant,
    ) -> Option<Check> {
        let is_awaited = match self.state {
            State::Handshaking | State::Polling => false,
            State::Awaiting(_) | State::Streaming => true,
            _ => return None,
        };
        let mut description = ServerDescription::from_hello(self.address.clone(), reply, now);
        let duration = now.saturating_since(self.check_started);
        self.last_check_end = Some(now);
        if description.error.is_some() {
            self.lose_connection(now);
            return Some(Check { description, duration, is_awaited, failure: Some(Failure::Command) });
        }
        // A reply that the server may delay says nothing about the connection.
        if !is_awaited {
            self.rtt.add_sample(now.saturating_since(self.hello_sent));
        }
        description.round_trip_time = self.rtt.average();
        description.min_round_trip_time = self.rtt.min();

        match description.topology_version {
            _ if is_more_to_come && is_awaited => self.begin_check(State::Streaming, now),
            Some(version) if self.settings.allows_streaming() => {
                self.has_streamed = true;
                self.begin_check(State::Awaiting(version), now);
            }
            _ => self.wait_in(State::Ready, now),
        }
        Some(Check { description, duration, is_awaited, failure: None })
    }

    /// Called when the connection could not be opened, broke, or was too slow. Returns the check's result, or `None` if
    /// the check was cancelled.
    ///
    /// `was_known` says whether the topology knew the server's type; if it did, the next check follows at once.
    pub fn handle_network_error(
        &mut self,
        message: &str,
        failure: Failure,
        was_known: bool,
        now: Instant,
    ) -> Option<Check> {
        if !self.is_checking() {
            return None;
        }
        let is_awaited = matches!(self.state, State::Awaiting(_) | State::Streaming);
        let duration = now.saturating_since(self.check_started);
        let description = ServerDescription::failed(self.address.clone(), message, now);
        self.last_check_end = Some(now);
        self.lose_connection(now);
        if was_known && failure != Failure::Command {
            self.next_check = now;
        }
        Some(Check { description, duration, is_awaited, failure: Some(failure) })
    }

    /// Requests a check as soon as the least time between two checks allows it. Returns whether the face
    /// must be woken for it.
    pub fn request_check(&mut self, now: Instant) -> bool {
        let earliest = self.earliest(now);
        match self.state {
            State::Idle | State::Ready => {
                let is_earlier = earliest < self.next_check;
                self.next_check = self.next_check.min(earliest);
                // The face may have had no thread for a check that is overdue, and tries again now.
                let is_overdue = self.next_check + self.settings.min_heartbeat <= now;
                if is_overdue {
                    self.next_check = now;
                }
                return is_earlier || is_overdue;
            }
            State::Stopped => {}
            _ => self.is_check_requested = true,
        }
        false
    }

    /// Gives up the connection and the check on it, because the application found the server broken.
    ///
    /// Returns whether a check was running; the face must then interrupt it, and its result is ignored.
    pub fn cancel_check(&mut self, now: Instant) -> bool {
        match self.state {
            State::Stopped | State::Idle => false,
            State::Ready => {
                self.state = State::Idle;
                false
            }
            _ => {
                self.last_check_end = Some(now);
                self.lose_connection(now);
                true
            }
        }
    }

    /// Ends the monitor for good.
    pub fn stop(&mut self) {
        self.state = State::Stopped;
        self.started = None;
    }

    fn await_timeout(&self) -> Option<Duration> {
        self.settings.connect_timeout.map(|timeout| timeout.saturating_add(self.settings.heartbeat_frequency))
    }

    fn begin_check(&mut self, state: State, now: Instant) {
        self.state = state;
        self.is_securing = false;
        self.proxy = None;
        self.check_started = now;
        self.hello_sent = now;
        self.started = Some(matches!(state, State::Awaiting(_) | State::Streaming));
    }

    fn lose_connection(&mut self, now: Instant) {
        self.rtt.reset();
        self.wait_in(State::Idle, now);
    }

    fn wait_in(&mut self, state: State, now: Instant) {
        self.state = state;
        self.next_check = match std::mem::take(&mut self.is_check_requested) {
            true => self.earliest(now),
            false => now + self.settings.heartbeat_frequency,
        };
    }

    fn earliest(&self, now: Instant) -> Instant {
        self.last_check_end.map_or(now, |end| now.max(end + self.settings.min_heartbeat))
    }
}
