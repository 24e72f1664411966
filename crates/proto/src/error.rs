//! The core's errors, one enum for each question. The binding turns each into an exception class.

use std::fmt;

/// The peer broke the wire protocol, or sent more than fits in memory. Its connection must not be used again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProtocolError {
    message: String,
    is_out_of_memory: bool,
}

impl ProtocolError {
    /// Makes an error with the message.
    pub fn new(message: impl Into<String>) -> Self {
        ProtocolError { message: message.into(), is_out_of_memory: false }
    }

    /// Makes the error for a message that is too large for the memory; the peer is not at fault.
    pub fn out_of_memory(size: usize) -> Self {
        ProtocolError { message: format!("no memory for a message of {size} bytes"), is_out_of_memory: true }
    }

    /// Returns whether the cause is a lack of memory.
    pub fn is_out_of_memory(&self) -> bool {
        self.is_out_of_memory
    }
}

impl fmt::Display for ProtocolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for ProtocolError {}

impl From<mangonel_bson::Error> for ProtocolError {
    fn from(error: mangonel_bson::Error) -> Self {
        ProtocolError::new(format!("the reply is not valid BSON: {error}"))
    }
}

/// The reason why an exchange ended without the requested reply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Failure {
    /// No suitable server before the deadline. Nothing was sent.
    ServerSelection(String),
    /// No connection became free in time. Nothing was sent.
    WaitQueue(String),
    /// The operation's time is over, or the remaining time is less than a round trip. Nothing was sent in this attempt.
    TimeLimit(String),
    /// The connection broke, or its read timed out; the command may or may not have run.
    Network {
        /// The error, with the server's address.
        message: String,
        /// Whether the wait took too long, rather than the connection breaking.
        timed_out: bool,
    },
    /// The server's answer is invalid.
    Protocol(String),
    /// The server said `ok: 0`; the reply has the reason.
    Command,
    /// The server refused the user, or could not prove its identity.
    Authentication {
        /// The user, the server, the reason, and a possible remedy.
        message: String,
        /// The server's code, when it gave one.
        code: Option<i64>,
        /// The server's reply as BSON; empty if the server did not refuse.
        reply: Vec<u8>,
    },
    /// The face could not answer a request of the authentication.
    Unanswered,
    /// The server cannot work with this driver or these options.
    Configuration(String),
    /// The call is not allowed in the state of its session.
    Usage(&'static str),
    /// The client was closed.
    Closed,
    /// The command is too large for the server.
    TooLarge(String),
}
