//! The topology's events for listeners, and its effects for pools and faces: values in two queues. Calls nothing. Spec:
//! server-discovery-and-monitoring-logging-and-monitoring.

use std::sync::Arc;
use std::time::Duration;

use mangonel_bson::ObjectId;

use super::address::Address;
use super::description::{ServerDescription, TopologyDescription};

/// An event for listeners, in order.
#[derive(Clone, PartialEq, Debug)]
pub enum Event {
    /// The client began to monitor its deployment.
    TopologyOpening,
    /// The deployment's description changed.
    TopologyDescriptionChanged {
        /// Before.
        previous: Arc<TopologyDescription>,
        /// After.
        new: Arc<TopologyDescription>,
    },
    /// The client was closed.
    TopologyClosed,
    /// A server was added to the topology.
    ServerOpening {
        /// The server.
        address: Address,
    },
    /// A server's description changed.
    ServerDescriptionChanged {
        /// Before.
        previous: Arc<ServerDescription>,
        /// After.
        new: Arc<ServerDescription>,
    },
    /// A server left the topology.
    ServerClosed {
        /// The server.
        address: Address,
    },
    /// A check of a server began.
    HeartbeatStarted {
        /// The server.
        address: Address,
        /// Whether the server may delay its reply.
        is_awaited: bool,
    },
    /// A server replied to a check.
    HeartbeatSucceeded {
        /// The server.
        address: Address,
        /// How long it took.
        duration: Duration,
        /// The hello reply, a whole BSON document.
        reply: Vec<u8>,
        /// Whether the server could delay its reply.
        is_awaited: bool,
    },
    /// A check of a server failed or was given up.
    HeartbeatFailed {
        /// The server.
        address: Address,
        /// How long it took.
        duration: Duration,
        /// Why.
        error: Arc<str>,
        /// Whether the server could delay its reply.
        is_awaited: bool,
    },
}

/// An action for the pools or the face, in order.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Effect {
    /// Make a pool for this server, paused.
    OpenPool {
        /// The server.
        address: Address,
    },
    /// Let this server's pool hand out connections.
    ReadyPool {
        /// The server.
        address: Address,
    },
    /// Clear this server's pool and pause it.
    ClearPool {
        /// The server.
        address: Address,
        /// Behind a load balancer: only the connections of this service, and without a pause.
        service_id: Option<ObjectId>,
        /// Whether connections in use are closed at once.
        is_interrupting: bool,
    },
    /// Close this server's pool for good.
    ClosePool {
        /// The server.
        address: Address,
    },
    /// Start driving this server's monitor.
    StartMonitor {
        /// The server.
        address: Address,
    },
    /// Start driving this server's pinger.
    StartPinger {
        /// The server.
        address: Address,
    },
    /// Let this server's monitor poll its step again: its wait may be over.
    WakeMonitor {
        /// The server.
        address: Address,
    },
    /// Shut down the socket of this server's monitor, whose reply is no longer needed.
    InterruptMonitor {
        /// The server.
        address: Address,
    },
    /// Stop driving this server's monitor and pinger, and interrupt them.
    StopMonitor {
        /// The server.
        address: Address,
    },
    /// Let exchanges that wait for a server try again.
    WakeSelections,
}
