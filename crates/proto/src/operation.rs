//! One command as its caller requested it: encoded once, before a connection is taken, because encoding runs user code.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use mangonel_bson::writer;

use crate::error::ProtocolError;
use crate::events::ReplyShape;
use crate::ids::{LinkId, SessionId};
use crate::message::{Command, Replies};
use crate::read_preference::ReadPreference;
use crate::session::{LostWrite, ServerSession};
use crate::topology::Address;

/// The effect of a command on the server, which decides on which servers it may run and whether it may be sent twice.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Reads; sent again once when the connection breaks and `retryReads` is on.
    Read,
    /// Continues a read whose position only the server knows, such as `getMore`; never sent twice.
    ReadOnce,
    /// Writes so that the server recognises a repetition; sent again once with the same transaction number.
    RetryableWrite,
    /// Writes, or may write; never sent twice.
    Write,
    /// Sends nothing: it is done once a writable server is known.
    Selection,
    /// A command of the user, which may do anything; sent again only if the server reports that it did nothing.
    Command,
    /// Commits a transaction; retried once, regardless of options.
    Commit,
    /// Aborts a transaction; retried once, regardless of options.
    Abort,
}

impl Kind {
    /// Returns whether it only reads.
    pub fn is_read(self) -> bool {
        matches!(self, Kind::Read | Kind::ReadOnce)
    }
}

/// The server session in which a command runs.
#[derive(Debug)]
pub enum SessionChoice {
    /// One from the pool, for this command or the cursor it opens.
    Implicit,
    /// None at all: unacknowledged writes, and commands that must not have one.
    None,
    /// The one in which the cursor was opened.
    Of(ServerSession),
    /// One that the user opened.
    Explicit(SessionId),
}

/// How long an operation may take from its beginning to its answer, all attempts included.
/// Spec: client-side-operations-timeout.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Limit {
    /// As long as the client's `timeoutMS` allows.
    #[default]
    OfClient,
    /// No limit.
    None,
    /// A limit for this operation.
    Within(Duration),
}

/// One command, ready to begin.
pub struct Operation {
    /// Its bytes.
    pub command: Command,
    /// The database it runs on.
    pub database: Box<str>,
    /// Its effect.
    pub kind: Kind,
    /// The replies to expect.
    pub replies: Replies,
    /// Its session.
    pub session: SessionChoice,
    /// The read preference; `None` for the primary without sending one.
    pub read_preference: Option<ReadPreference>,
    /// The server it must go to: that of its cursor.
    pub server: Option<Address>,
    /// The connection it must use: that of an exhaust cursor. The pool counts it as checked out.
    pub pinned: Option<LinkId>,
    /// How long it may take in total, instead of the client's own limit.
    pub limit: Limit,
    /// Whether the limit is not sent: the server would apply the limit of a cursor's first command to all of its
    /// batches.
    pub omits_max_time: bool,
    /// Whether replies are already on their way, so that nothing is sent: the later batches of an exhaust cursor.
    pub is_under_way: bool,
    /// Whether it only opens a connection to `server` for the pool, and sends no command on it.
    pub is_filling: bool,
    /// Whether the driver runs it for itself, so that it has no events.
    pub is_silent: bool,
    /// Whether its owner makes spans, and needs the start and end of each command.
    pub is_traced: bool,
    /// The operation id for listeners, if it is one of several commands of a bulk write.
    pub group: Option<i64>,
    /// How listeners see its reply.
    pub reply_shape: ReplyShape,
    /// Set when an attempt stays without an answer, for an owner that cannot catch the error where it is raised. The
    /// number is 0 if the attempt had none.
    pub loss: Option<Arc<OnceLock<LostWrite>>>,
}

impl Operation {
    /// Makes an operation with one reply and an implicit session that may go to the primary, within the client's limit.
    pub fn new(command: Command, database: &str, kind: Kind) -> Operation {
        Operation {
            command,
            database: database.into(),
            kind,
            replies: Replies::One,
            session: SessionChoice::Implicit,
            read_preference: None,
            server: None,
            pinned: None,
            limit: Limit::OfClient,
            omits_max_time: false,
            is_under_way: false,
            is_filling: false,
            is_silent: false,
            is_traced: false,
            group: None,
            reply_shape: ReplyShape::Document,
            loss: None,
        }
    }

    /// Makes an operation that opens one more connection to a server, if its pool needs one.
    ///
    /// # Errors
    /// When its generated command cannot be read back, which would be a bug.
    pub fn filling(server: Address) -> Result<Operation, ProtocolError> {
        let mut head = Command::begin();
        let start = writer::begin_document(&mut head);
        writer::append_i32(&mut head, "ping", 1);
        writer::end_document(&mut head, start);
        Ok(Operation {
            session: SessionChoice::None,
            server: Some(server),
            limit: Limit::None,
            is_filling: true,
            is_silent: true,
            ..Operation::new(Command::new(head, Vec::new())?, "admin", Kind::ReadOnce)
        })
    }
}
