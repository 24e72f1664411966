//! The next step of a monitor or a pinger, and the hello that it sends. Spec: server-monitoring.

use std::time::Duration;

use super::description::TopologyVersion;
use crate::time::Instant;

/// Which hello to send.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HelloRequest {
    /// The first on a connection, with the client's metadata.
    Handshake,
    /// A plain one, answered at once.
    Poll,
    /// One that the server answers when something changes or the time is up, with `exhaustAllowed` set.
    Await {
        /// The state the client knows.
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
        /// Time it may take, TLS included.
        timeout: Option<Duration>,
    },
    /// Send this hello, then read one reply.
    Write {
        /// What to send.
        hello: HelloRequest,
        /// Time until the reply must be there.
        timeout: Option<Duration>,
    },
    /// Read the next reply of a stream, without sending anything.
    Read {
        /// Time until the reply must be there.
        timeout: Option<Duration>,
    },
    /// Do nothing until then, or until woken.
    Wait {
        /// When to ask again.
        until: Instant,
    },
    /// Close the connection; there is nothing more to do.
    Stop,
}
