//! Round-trip times: the moving average and minimum of hello's durations, and the pinger that measures them
//! while the monitor's own connection streams. Spec: server-monitoring, "Measuring RTT".

use std::time::Duration;

use super::hello_request::{HelloRequest, Step};
use crate::time::Instant;

/// Weight of the newest sample in the average.
const ALPHA: f64 = 0.2;
const SAMPLES: usize = 10;

/// How long after the first streamed reply the pinger connects: long enough for a program with one operation to end
/// without a second connection to each server, and well below the least time between two heartbeats.
pub(super) const FIRST_PING_DELAY: Duration = Duration::from_millis(100);

/// Average and minimum of one server's round-trip times.
#[derive(Clone, Debug, Default)]
pub struct RttTracker {
    average: Option<Duration>,
    samples: [Duration; SAMPLES],
    count: usize,
}

impl RttTracker {
    /// Adds a sample.
    pub fn add_sample(&mut self, sample: Duration) {
        self.average = Some(match self.average {
            None => sample,
            Some(average) => average_with(average, sample),
        });
        self.samples[self.count % SAMPLES] = sample;
        self.count += 1;
    }

    /// Forgets everything: the server was lost.
    pub fn reset(&mut self) {
        *self = RttTracker::default();
    }

    /// Returns the moving average, or `None` before the first sample.
    pub fn average(&self) -> Option<Duration> {
        self.average
    }

    /// Returns the least of the last ten samples, or zero while there are fewer than two.
    pub fn min(&self) -> Duration {
        match self.count {
            0 | 1 => Duration::ZERO,
            count => self.samples[..count.min(SAMPLES)].iter().min().copied().unwrap_or_default(),
        }
    }
}

/// Returns the moving average after one more sample.
pub fn average_with(average: Duration, sample: Duration) -> Duration {
    average.mul_f64(1.0 - ALPHA).saturating_add(sample.mul_f64(ALPHA))
}

#[derive(Clone, Copy, Debug)]
enum State {
    /// No connection; the next ping is due at this time.
    Idle(Instant),
    Connecting,
    /// Sent hello on a new connection at this time.
    Handshaking(Instant),
    /// Connected; the next ping is due at this time.
    Ready(Instant),
    /// Sent hello at this time.
    Pinging(Instant),
}

/// Sends hello on a separate connection, once per heartbeat. The topology ignores its failures.
#[derive(Clone, Debug)]
pub struct RttPinger {
    frequency: Duration,
    timeout: Option<Duration>,
    state: State,
}

impl RttPinger {
    /// Makes a pinger whose first ping is due at `first`.
    pub fn new(frequency: Duration, timeout: Option<Duration>, first: Instant) -> RttPinger {
        RttPinger { frequency, timeout, state: State::Idle(first) }
    }

    /// Returns what to do next. Call it again after every `handle_*`, and when a wait is over.
    pub fn poll_step(&mut self, now: Instant) -> Step {
        let timeout = self.timeout;
        match self.state {
            State::Idle(due) | State::Ready(due) if now < due => Step::Wait { until: due },
            State::Idle(_) | State::Connecting => {
                self.state = State::Connecting;
                Step::Connect { timeout }
            }
            State::Handshaking(_) => Step::Write { hello: HelloRequest::Handshake, timeout },
            State::Ready(_) => {
                self.state = State::Pinging(now);
                Step::Write { hello: HelloRequest::Poll, timeout }
            }
            State::Pinging(_) => Step::Write { hello: HelloRequest::Poll, timeout },
        }
    }

    /// Called when the pinger has connected; the handshake is sent now.
    pub fn handle_connected(&mut self, now: Instant) {
        if let State::Connecting = self.state {
            self.state = State::Handshaking(now);
        }
    }

    /// Called when a reply has arrived; returns how long it took. The content does not matter.
    pub fn handle_reply(&mut self, now: Instant) -> Option<Duration> {
        match self.state {
            State::Handshaking(since) | State::Pinging(since) => {
                self.state = State::Ready(now + self.frequency);
                Some(now.saturating_since(since))
            }
            _ => None,
        }
    }

    /// Called when the connection broke: tries again at the next heartbeat, on a new one.
    pub fn handle_network_error(&mut self, now: Instant) {
        self.state = State::Idle(now + self.frequency);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn at(milliseconds: u32) -> Instant {
        Instant(milliseconds * MS)
    }

    #[test]
    fn the_minimum_is_zero_until_two_samples_and_covers_the_last_ten() {
        let mut rtt = RttTracker::default();
        rtt.add_sample(3 * MS);
        assert_eq!(rtt.min(), Duration::ZERO);
        rtt.add_sample(5 * MS);
        assert_eq!(rtt.min(), 3 * MS);
        for _ in 0..9 {
            rtt.add_sample(5 * MS);
        }
        assert_eq!(rtt.min(), 5 * MS);
        rtt.reset();
        assert_eq!((rtt.average(), rtt.min()), (None, Duration::ZERO));
    }

    #[test]
    fn the_pinger_says_hello_once_per_heartbeat_and_survives_errors() {
        let mut pinger = RttPinger::new(1000 * MS, None, at(0));
        assert_eq!(pinger.poll_step(at(0)), Step::Connect { timeout: None });
        pinger.handle_connected(at(5));
        assert_eq!(pinger.poll_step(at(5)), Step::Write { hello: HelloRequest::Handshake, timeout: None });
        assert_eq!(pinger.handle_reply(at(7)), Some(2 * MS));
        assert_eq!(pinger.poll_step(at(7)), Step::Wait { until: at(1007) });
        assert_eq!(pinger.poll_step(at(1010)), Step::Write { hello: HelloRequest::Poll, timeout: None });
        pinger.handle_network_error(at(1020));
        assert_eq!(pinger.handle_reply(at(1021)), None);
        assert_eq!(pinger.poll_step(at(1021)), Step::Wait { until: at(2020) });
        assert_eq!(pinger.poll_step(at(2020)), Step::Connect { timeout: None });
    }
}
