//! The events for the user's listeners, loggers and tracers, as plain values in one queue. Calls nothing, and makes
//! only events that are requested: each kind has its bit in [`Interests`].
//! Spec: command-logging-and-monitoring, connection-monitoring-and-pooling, server-discovery-and-monitoring.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use mangonel_bson::ObjectId;

use crate::ids::LinkId;
use crate::topology::{self, Address, TopologyDescription};

/// The kinds of events to record, as bits.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Interests(pub u8);

impl Interests {
    /// Commands: started, succeeded, failed.
    pub const COMMANDS: Interests = Interests(1);
    /// Pools and their connections.
    pub const POOLS: Interests = Interests(2);
    /// The topology, its servers, and their heartbeats.
    pub const TOPOLOGY: Interests = Interests(4);

    /// The choice of a server.
    pub const SELECTION: Interests = Interests(8);

    /// Returns whether one of these kinds is wanted.
    pub fn contains(self, kinds: Interests) -> bool {
        self.0 & kinds.0 != 0
    }
}

/// The common facts of all events of one sent command.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CommandFacts {
    /// The command's name: its first key.
    pub name: Box<str>,
    /// The database it runs on.
    pub database: Box<str>,
    /// The server it goes to.
    pub address: Address,
    /// The `requestID` of its message.
    pub request_id: i32,
    /// The common id of an operation's attempts, and of the commands of one bulk write.
    pub operation_id: i64,
    /// The connection it is sent on.
    pub link: LinkId,
    /// The server's own number for that connection, if its hello named one.
    pub server_connection_id: Option<i64>,
    /// The service behind a load balancer.
    pub service_id: Option<ObjectId>,
    /// Whether the command and its answer must be hidden.
    pub is_sensitive: bool,
    /// How listeners see the reply.
    pub reply_shape: ReplyShape,
}

/// The form in which listeners see a reply, as requested by its caller.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum ReplyShape {
    /// A document.
    #[default]
    Document,
    /// A raw document.
    Raw,
    /// A document whose batch is one block of bytes.
    RawBatch,
}

/// The reason why a command has no successful reply.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum CommandFailure {
    /// The server refused in this reply, a whole BSON document; for a sensitive command only the public
    /// fields.
    Reply(Vec<u8>),
    /// The connection broke.
    Network(String),
    /// No reply came in time.
    Timeout(String),
    /// The received message is no reply.
    Protocol(String),
    /// Its caller did not wait for it.
    Cancelled(String),
}

/// How a traced command ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum CommandEnd {
    /// The server has answered, or no answer is expected.
    Answered {
        /// The open cursor on the server, or 0.
        cursor: i64,
    },
    /// The server refused it.
    Refused {
        /// The server's code.
        code: Option<i64>,
        /// The server's message.
        message: Box<str>,
    },
    /// There is no answer.
    Failed(CommandFailure),
}

/// The reason why a connection was closed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CloseReason {
    /// Its pool was cleared after it was opened.
    Stale,
    /// It was idle for too long.
    Idle,
    /// It broke, or could not be made.
    Error,
    /// Its pool was closed.
    PoolClosed,
}

impl CloseReason {
    /// Returns the specification's name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Stale => "stale",
            Self::Idle => "idle",
            Self::Error => "error",
            Self::PoolClosed => "poolClosed",
        }
    }
}

/// The reason why a check-out failed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CheckOutFailure {
    /// No connection became free before the timeout.
    Timeout,
    /// The pool was closed.
    PoolClosed,
    /// No connection could be opened, or the pool was cleared in the meantime.
    Connection,
}

impl CheckOutFailure {
    /// Returns the specification's name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Timeout => "timeout",
            Self::PoolClosed => "poolClosed",
            Self::Connection => "connectionError",
        }
    }
}

/// An event of one server's pool or of its connections.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum PoolEvent {
    /// The pool was made, paused.
    Created,
    /// The pool begins to hand out connections.
    Ready,
    /// The pool was cleared: its connections are not used again.
    Cleared {
        /// Behind a load balancer: only those of this service.
        service_id: Option<ObjectId>,
        /// Whether those in use are closed at once.
        is_interrupting: bool,
    },
    /// The pool was closed.
    Closed,
    /// A connection is about to be opened.
    ConnectionCreated {
        /// Its name.
        link: LinkId,
    },
    /// A connection has done its handshake.
    ConnectionReady {
        /// Its name.
        link: LinkId,
        /// Since it was created.
        duration: Duration,
    },
    /// A connection was closed.
    ConnectionClosed {
        /// Its name.
        link: LinkId,
        /// Why.
        reason: CloseReason,
    },
    /// An operation asks for a connection.
    CheckOutStarted,
    /// The operation got no connection.
    CheckOutFailed {
        /// Why.
        reason: CheckOutFailure,
        /// The connection's error, if that is the reason.
        error: Option<Box<str>>,
        /// Since it asked.
        duration: Duration,
    },
    /// The operation got a connection.
    CheckedOut {
        /// The connection's name.
        link: LinkId,
        /// Since it asked.
        duration: Duration,
    },
    /// The operation gave its connection back.
    CheckedIn {
        /// The connection's name.
        link: LinkId,
    },
}

/// An event of server selection.
#[derive(Clone, PartialEq, Debug)]
pub enum SelectionEvent {
    /// The operation needs a server.
    Started,
    /// No server is suitable; it waits for the deployment to change.
    Waiting {
        /// The longest wait.
        remaining: Duration,
    },
    /// The operation uses this server.
    Succeeded {
        /// The server.
        address: Address,
    },
    /// No server is suitable, and the time is over.
    Failed {
        /// Why.
        message: String,
    },
}

/// One event.
#[derive(Clone, PartialEq, Debug)]
pub enum Event {
    /// A command is about to be sent.
    CommandStarted {
        /// The facts of the command.
        facts: Arc<CommandFacts>,
        /// All of it, document sequences as arrays: a whole BSON document, empty when sensitive.
        command: Vec<u8>,
    },
    /// A command was answered with `ok: 1`, or needed no answer.
    CommandSucceeded {
        /// The facts of the command.
        facts: Arc<CommandFacts>,
        /// From the start of sending to the end of receiving.
        duration: Duration,
        /// The answer, a whole BSON document, empty when sensitive.
        reply: Vec<u8>,
    },
    /// A command was refused or not answered.
    CommandFailed {
        /// The facts of the command.
        facts: Arc<CommandFacts>,
        /// From the start of sending to the failure.
        duration: Duration,
        /// Why.
        failure: CommandFailure,
    },
    /// An event of a server's pool.
    Pool {
        /// The server.
        address: Address,
        /// What.
        event: PoolEvent,
    },
    /// An event of server selection.
    Selection {
        /// The name of the operation's command.
        operation: Box<str>,
        /// The operation id of its commands.
        operation_id: i64,
        /// A description of the suitable servers, for people.
        selector: String,
        /// The deployment at that time.
        description: Arc<TopologyDescription>,
        /// What.
        event: SelectionEvent,
    },
    /// An event of the deployment.
    Topology(topology::Event),
}

/// Events that were not fetched yet, and the kinds to record.
#[derive(Debug, Default)]
pub struct EventQueue {
    interests: Interests,
    waiting: VecDeque<Event>,
}

impl EventQueue {
    /// Returns an empty queue for these kinds.
    pub fn new(interests: Interests) -> EventQueue {
        EventQueue { interests, waiting: VecDeque::new() }
    }

    /// Returns whether one of these kinds is wanted.
    pub fn wants(&self, kinds: Interests) -> bool {
        self.interests.contains(kinds)
    }

    /// Sets the kinds that are recorded from now on; queued events stay.
    pub fn set_interests(&mut self, interests: Interests) {
        self.interests = interests;
    }

    /// Appends an event that is wanted.
    pub fn push(&mut self, event: Event) {
        self.waiting.push_back(event);
    }

    /// Appends the events of one pool.
    pub fn push_log(&mut self, address: &Address, log: Vec<PoolEvent>) {
        let events = log.into_iter().map(|event| Event::Pool { address: address.clone(), event });
        self.waiting.extend(events);
    }

    /// Returns whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Takes all queued events, in order.
    pub fn take(&mut self) -> VecDeque<Event> {
        std::mem::take(&mut self.waiting)
    }

    /// Drops all queued events: in a forked child, they are the parent's.
    pub fn clear(&mut self) {
        self.waiting.clear();
    }
}

/// The parts of a sensitive command's error that may be shown.
pub(crate) const HARMLESS: &[&str] = &["code", "codeName", "errorLabels"];
