//! The next step of a monitor or a pinger, and the hello that it sends. Spec: server-monitoring.

use std::time::Duration;

use super::description::TopologyVersion;
use crate::time::Instant;

/// The kind of hello to send.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HelloRequest {
    /// The first on a connection, with the client's metadata.
    Handshake,
    /// A plain one, answered at once.
    Poll,
    /// One that the server answers after a change or at the end of the time, with `exhaustAllowed` set.
    Await {
        /// The version that the client knows.
        topology_version: TopologyVersion,
        /// The longest the server may wait.
        max_await_time: Duration,
    },
}

/// The next step of a monitor.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    /// Drop the connection, if there is one, and open a new one.
    Connect {
        /// The time limit, TLS included.
        timeout: Option<Duration>,
    },
    /// Send this hello, then read one reply.
    Write {
        /// What to send.
        hello: HelloRequest,
        /// The time limit for the reply.
        timeout: Option<Duration>,
    },
    /// Read the next reply of a stream, without sending anything.
    Read {
        /// The time limit for the reply.
        timeout: Option<Duration>,
    },
    /// Do nothing until then, or until woken.
    Wait {
        /// When to poll the step again.
        until: Instant,
    },
    /// Close the connection; there is nothing more to do.
    Stop,
}
