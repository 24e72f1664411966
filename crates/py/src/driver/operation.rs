//! A command from Python, encoded: `_shared/operation.py` chooses the command and how to read its reply.

use std::sync::{Arc, OnceLock};

use mangonel_bson::RawDocument;
use mangonel_entries::entries;
use mangonel_proto::error::ProtocolError;
use mangonel_proto::events::ReplyShape;
use mangonel_proto::ids::{LinkId, SessionId};
use mangonel_proto::message::{Command, Replies};
use mangonel_proto::operation::{Kind, Operation as CoreOperation, SessionChoice};
use mangonel_proto::read_preference::ReadPreference;
use mangonel_proto::session::LostWrite;
use mangonel_proto::topology::Address;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use pyo3::{PyTraverseError, PyVisit};

use super::chunks::ChunkTarget;
use super::exchange::Exchange;
use super::failure;
use super::lost::{Numbered, numbered};
use super::session::{ImplicitSession, Session};
use crate::codec::{self, Codec};
use crate::thread_end::Entry;

/// The form in which an operation returns its reply.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ReplyForm {
    /// The whole reply, as a document; `ok: 0` raises.
    Document,
    /// The whole reply, even an error.
    Unchecked,
    /// The first document of the cursor's batch, or None; passed through the operation's `answer` function,
    /// if any.
    First,
    /// The cursor, as a `Batch`; passed through the `answer` function, if any.
    Batch,
    /// Like `Batch`, but raw: the batch is returned as one bytes object.
    RawBatch,
    /// The field `value`.
    Value,
    /// The operation's `answer` object; a write error raises.
    Answer,
    /// The reply's bytes.
    Raw,
    /// The result of the operation's `answer` function for the whole reply, or for None without a reply.
    Apply,
    /// The whole reply without its cursor, and the cursor as a `Batch` or None.
    WithBatch,
    /// The array `databases`, as the only batch of a cursor.
    Databases,
    /// None: the face reads the reply's bytes, then calls `release` for the result.
    Held,
    /// The result of the operation's `maker`; a write error raises.
    Made,
    /// The reply without the keys that do not describe the writes; `ok: 0` raises.
    Write,
}

const REPLY_FORMS: &[(&str, ReplyForm)] = &[
    ("READ_DOCUMENT", ReplyForm::Document),
    ("READ_UNCHECKED", ReplyForm::Unchecked),
    ("READ_FIRST", ReplyForm::First),
    ("READ_BATCH", ReplyForm::Batch),
    ("READ_RAW_BATCH", ReplyForm::RawBatch),
    ("READ_VALUE", ReplyForm::Value),
    ("READ_ANSWER", ReplyForm::Answer),
    ("READ_RAW", ReplyForm::Raw),
    ("READ_APPLY", ReplyForm::Apply),
    ("READ_WITH_BATCH", ReplyForm::WithBatch),
    ("READ_DATABASES", ReplyForm::Databases),
    ("READ_HELD", ReplyForm::Held),
    ("READ_MADE", ReplyForm::Made),
    ("READ_WRITE", ReplyForm::Write),
];

const KINDS: &[(&str, Kind)] = &[
    ("KIND_READ", Kind::Read),
    ("KIND_READ_ONCE", Kind::ReadOnce),
    ("KIND_RETRYABLE_WRITE", Kind::RetryableWrite),
    ("KIND_SELECTION", Kind::Selection),
    ("KIND_WRITE", Kind::Write),
    ("KIND_COMMAND", Kind::Command),
    ("KIND_COMMIT", Kind::Commit),
    ("KIND_ABORT", Kind::Abort),
];

const REPLIES: &[(&str, Replies)] =
    &[("REPLIES_ONE", Replies::One), ("REPLIES_NONE", Replies::None), ("REPLIES_EXHAUST", Replies::Exhaust)];

/// Adds the function of this module, and the numbers of the enums above; each is the index of its row.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(read_operation, module)?)?;
    let names = REPLY_FORMS.iter().map(|row| row.0).enumerate();
    let names = names.chain(KINDS.iter().map(|row| row.0).enumerate());
    for (number, name) in names.chain(REPLIES.iter().map(|row| row.0).enumerate()) {
        module.add(name, number)?;
    }
    Ok(())
}

fn lookup<T: Copy>(table: &[(&str, T)], number: usize) -> PyResult<T> {
    let row = table.get(number);
    row.map(|row| row.1).ok_or_else(|| {
        PyValueError::new_err(format!(
            "expected one of {:?} constants, got {number}",
            table.first().map(|row| row.0)
        ))
    })
}

/// Returns the form with this number.
pub(super) fn reading(number: usize) -> PyResult<ReplyForm> {
    lookup(REPLY_FORMS, number)
}

/// Makes the result of an operation whose exchange is done, without a Python call.
pub trait Maker: Send + Sync {
    /// Makes the result.
    fn make(self: Box<Self>, exchange: &mut Exchange, py: Python<'_>) -> PyResult<Py<PyAny>>;

    /// Shows the collector the references that may lead back to the operation.
    fn traverse(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError>;
}

/// How to run one command; many [`Operation`]s share this part.
pub struct Plan {
    pub(crate) kind: Kind,
    pub(crate) reading: ReplyForm,
    pub(crate) replies: Replies,
}

impl Plan {
    /// Reads the three numbers.
    pub fn new(kind: usize, reading: usize, replies: usize) -> PyResult<Self> {
        Ok(Plan {
            kind: lookup(KINDS, kind)?,
            reading: lookup(REPLY_FORMS, reading)?,
            replies: lookup(REPLIES, replies)?,
        })
    }
}

/// One command, encoded and ready to begin, once.
#[pyclass(module = "mangonel._core")]
pub struct Operation {
    _entry: Entry,
    pub(crate) operation: Option<CoreOperation>,
    pub(crate) reading: ReplyForm,
    pub(crate) codec: Py<Codec>,
    /// The result of a successful write, or the function that reads its reply or batch.
    pub(crate) answer: Option<Py<PyAny>>,
    /// The maker of the result in the core, without Python.
    pub(crate) maker: Option<Box<dyn Maker>>,
    /// The target for the data of the chunks in its reply, and the position in it.
    pub(crate) sink: Option<(Py<ChunkTarget>, usize)>,
    /// Set when an attempt stays without an answer, if Python asked for that.
    loss: Option<Arc<OnceLock<LostWrite>>>,
}

#[entries]
#[pymethods]
impl Operation {
    /// Encode `command` for `database`.
    ///
    /// `read_preference`: the `$readPreference` document, or None for the primary. `session`: the session of the cursor
    /// or of the user; False for none, None for an implicit one. `pinned`: the link of an exhaust cursor. `answer`: for
    /// READ_ANSWER the result of a successful write; for READ_APPLY, READ_BATCH and READ_FIRST the function that makes
    /// the result from the reply, the batch or the document; without it, READ_APPLY returns the reply of a successful
    /// write. `server`: the address of the server that has the cursor.
    #[new]
    #[pyo3(signature = (database, command, codec, kind, reading, replies=0, read_preference=None, session=None,
                        pinned=None, is_under_way=false, answer=None, server=None))]
    #[allow(clippy::too_many_arguments)] // One call per command; a parameter object would cost an allocation.
    fn new(
        py: Python<'_>,
        database: &str,
        command: &Bound<'_, PyAny>,
        codec: Py<Codec>,
        kind: usize,
        reading: usize,
        replies: usize,
        read_preference: Option<&Bound<'_, PyAny>>,
        session: Option<&Bound<'_, PyAny>>,
        pinned: Option<u32>,
        is_under_way: bool,
        answer: Option<Py<PyAny>>,
        server: Option<&str>,
    ) -> PyResult<Self> {
        let plan = Plan::new(kind, reading, replies)?;
        let mut head = Command::begin();
        codec::encode_document(py, command, codec.get(), false, &mut head)?;
        let preference =
            read_preference.map(|document| read_preference_of(py, document, &codec)).transpose()?;
        let session = session_choice(session)?;
        let mut made = Operation::assemble(py, database, head, Vec::new(), codec, &plan, session)?;
        if let Some(operation) = &mut made.operation {
            operation.read_preference = preference;
            operation.server = server.and_then(|server| Address::parse(server).ok());
            operation.pinned = pinned.map(LinkId);
            operation.is_under_way = is_under_way;
        }
        made.answer = answer;
        Ok(made)
    }

    /// Make the operation that opens one more connection to the server with that address.
    #[staticmethod]
    fn filling(py: Python<'_>, server: &str) -> PyResult<Self> {
        let server = Address::parse(server).map_err(|error| PyValueError::new_err(error.to_string()))?;
        let operation = CoreOperation::filling(server).map_err(|error| failure::protocol_error(py, error))?;
        let codec = Codec::default_for(py)?.clone_ref(py);
        Ok(Operation {
            _entry: Entry,
            operation: Some(operation),
            reading: ReplyForm::Unchecked,
            codec,
            answer: None,
            maker: None,
            sink: None,
            loss: None,
        })
    }

    /// Receive the data of the chunks in its reply into `target`, from `at` on, if possible.
    fn receive_into(&mut self, target: Py<ChunkTarget>, at: usize) {
        self.sink = Some((target, at));
    }

    /// Withhold its reply until the exchange's `release`; return the form in which to read it then.
    fn hold(&mut self) -> usize {
        let reading = std::mem::replace(&mut self.reading, ReplyForm::Held);
        // A reply to decrypt must be in one piece.
        self.sink = None;
        REPLY_FORMS.iter().position(|row| row.1 == reading).unwrap_or_default()
    }

    /// The name of its command.
    #[getter]
    fn name(&self) -> &str {
        self.operation.as_ref().map_or("", |operation| operation.command.name())
    }

    /// The database on which it runs.
    #[getter]
    fn database(&self) -> &str {
        self.operation.as_ref().map_or("", |operation| &operation.database)
    }

    /// Return the bytes of its command, its document sequences as arrays; None if nothing will be sent.
    fn document(&self, py: Python<'_>) -> PyResult<Option<Py<PyBytes>>> {
        let sent = self.operation.as_ref().filter(|operation| operation.kind != Kind::Selection);
        let document = sent.map(|operation| operation.command.to_document());
        document.map(|document| Ok(codec::bytes_of(py, &document)?.unbind())).transpose()
    }

    /// Replace its command with another one.
    fn rewrite(&mut self, py: Python<'_>, document: &[u8]) -> PyResult<()> {
        let mut head = Command::begin();
        head.extend_from_slice(document);
        let command = Command::new(head, Vec::new()).map_err(|error| failure::protocol_error(py, error))?;
        if let Some(operation) = &mut self.operation {
            operation.command = command;
        }
        Ok(())
    }

    /// Publish no events: it is an internal operation.
    fn silence(&mut self) {
        if let Some(operation) = &mut self.operation {
            operation.is_silent = true;
        }
    }

    /// Leave out `maxTimeMS`: the server would apply the limit of a cursor's first command to all of its batches.
    fn omit_max_time(&mut self) {
        if let Some(operation) = &mut self.operation {
            operation.omits_max_time = true;
        }
    }

    /// Make listeners see it as a part of the group.
    fn join(&mut self, group: i64) {
        if let Some(operation) = &mut self.operation {
            operation.group = Some(group);
        }
    }

    /// Remember in `lost` whether an attempt stays without an answer.
    fn watch(&mut self) {
        let loss = self.loss.insert(Arc::default()).clone();
        if let Some(operation) = &mut self.operation {
            operation.loss = Some(loss);
        }
    }

    /// If its outcome is unknown, the session and number of the write, which is 0 without one; otherwise None.
    #[getter]
    fn lost<'py>(&self, py: Python<'py>) -> Option<Numbered<'py>> {
        self.loss.as_ref()?.get().map(|&lost| numbered(py, lost))
    }

    /// The size of the command's own bytes.
    #[getter]
    fn size(&self) -> usize {
        self.operation.as_ref().map_or(0, |operation| operation.command.size(0))
    }
}

/// Encode a read from the primary in an implicit session: the same as the class does, without its many arguments.
#[entries]
#[pyfunction]
#[pyo3(signature = (database, command, codec, reading, answer=None))]
fn read_operation(
    py: Python<'_>,
    database: &str,
    command: &Bound<'_, PyAny>,
    codec: Py<Codec>,
    reading: usize,
    answer: Option<Py<PyAny>>,
) -> PyResult<Operation> {
    let plan = Plan { kind: Kind::Read, reading: self::reading(reading)?, replies: Replies::One };
    let mut head = Command::begin();
    codec::encode_document(py, command, codec.get(), false, &mut head)?;
    let mut made =
        Operation::assemble(py, database, head, Vec::new(), codec, &plan, SessionChoice::Implicit)?;
    made.answer = answer;
    Ok(made)
}

impl Operation {
    /// Makes an operation from encoded parts.
    pub(crate) fn assemble(
        py: Python<'_>,
        database: &str,
        head: Vec<u8>,
        sequence: Vec<u8>,
        codec: Py<Codec>,
        plan: &Plan,
        session: SessionChoice,
    ) -> PyResult<Self> {
        let command = Command::new(head, sequence).map_err(|error| failure::protocol_error(py, error))?;
        Ok(Self::of_command(command, database, codec, plan, session))
    }

    /// Makes an operation from a command.
    pub(crate) fn of_command(
        command: Command,
        database: &str,
        codec: Py<Codec>,
        plan: &Plan,
        session: SessionChoice,
    ) -> Self {
        // A write without a reply must not have a session: its outcome would stay unknown.
        let session = if plan.replies == Replies::None { SessionChoice::None } else { session };
        let reply_shape = match plan.reading {
            ReplyForm::RawBatch => ReplyShape::RawBatch,
            // The driver itself reads these replies, so the user's types do not apply to them.
            ReplyForm::Answer | ReplyForm::Apply | ReplyForm::Unchecked => ReplyShape::Document,
            ReplyForm::Made if plan.kind != Kind::Read => ReplyShape::Document,
            _ if codec.get().makes_raw_documents() => ReplyShape::Raw,
            _ => ReplyShape::Document,
        };
        let operation = CoreOperation {
            replies: plan.replies,
            session,
            reply_shape,
            ..CoreOperation::new(command, database, plan.kind)
        };
        Operation {
            _entry: Entry,
            operation: Some(operation),
            reading: plan.reading,
            codec,
            answer: None,
            maker: None,
            sink: None,
            loss: None,
        }
    }
}

/// A write command without its documents: encoded once, and sent with the documents of each message of a run.
#[pyclass(frozen, module = "mangonel._core")]
pub struct WriteCommand {
    _entry: Entry,
    database: String,
    head: Vec<u8>,
    pub(crate) codec: Py<Codec>,
    plan: Plan,
    session: Option<SessionId>,
    group: Option<i64>,
}

#[entries]
#[pymethods]
impl WriteCommand {
    /// Encode `command` for `database`.
    ///
    /// `session`: the user's session, or None for an implicit one. `group`: the operation id that listeners see for all
    /// of its messages.
    #[new]
    #[pyo3(signature = (database, command, codec, kind, reading, replies=0, session=None, group=None))]
    #[allow(clippy::too_many_arguments)] // As for Operation.
    fn new(
        py: Python<'_>,
        database: String,
        command: &Bound<'_, PyAny>,
        codec: Py<Codec>,
        kind: usize,
        reading: usize,
        replies: usize,
        session: Option<&Bound<'_, Session>>,
        group: Option<i64>,
    ) -> PyResult<Self> {
        let plan = Plan::new(kind, reading, replies)?;
        let mut head = Command::begin();
        codec::encode_document(py, command, codec.get(), false, &mut head)?;
        let session = session.map(|session| session.get().id);
        Ok(WriteCommand { _entry: Entry, database, head, codec, plan, session, group })
    }
}

impl WriteCommand {
    /// Returns how many of `max_size` bytes a long `let` or comment leaves for documents.
    pub(crate) fn room(&self, max_size: usize) -> usize {
        max_size.saturating_sub(self.head.len())
    }

    /// Makes the message that carries this section of documents.
    pub(crate) fn with_documents(&self, py: Python<'_>, sequence: Vec<u8>) -> PyResult<Operation> {
        self.assembled(py, Command::new(self.head.clone(), sequence))
    }

    /// Makes the message that carries this section of documents and another one with that name.
    pub(crate) fn with_two_sequences(
        &self,
        py: Python<'_>,
        sequence: Vec<u8>,
        name: &str,
        second: &[u8],
    ) -> PyResult<Operation> {
        self.assembled(py, Command::with_two_sequences(self.head.clone(), sequence, name, second))
    }

    fn assembled(&self, py: Python<'_>, command: Result<Command, ProtocolError>) -> PyResult<Operation> {
        let command = command.map_err(|error| failure::protocol_error(py, error))?;
        let session = self.session.map_or(SessionChoice::Implicit, SessionChoice::Explicit);
        let codec = self.codec.clone_ref(py);
        let mut made = Operation::of_command(command, &self.database, codec, &self.plan, session);
        if let Some(operation) = &mut made.operation {
            operation.group = self.group;
        }
        Ok(made)
    }
}

fn read_preference_of(
    py: Python<'_>,
    document: &Bound<'_, PyAny>,
    codec: &Py<Codec>,
) -> PyResult<ReadPreference> {
    let mut bytes = Vec::new();
    codec::encode_document(py, document, codec.get(), false, &mut bytes)?;
    let parsed = RawDocument::from_bytes(&bytes).map_err(|error| error.to_string());
    let preference = parsed.and_then(ReadPreference::from_document);
    preference.map_err(|error| failure::configuration(py, &error))
}

/// Reads a `session` argument: None, False, the session of a cursor, or one that the user opened.
pub fn session_choice(session: Option<&Bound<'_, PyAny>>) -> PyResult<SessionChoice> {
    let Some(session) = session else { return Ok(SessionChoice::Implicit) };
    if let Ok(session) = session.cast::<Session>() {
        return Ok(SessionChoice::Explicit(session.get().id));
    }
    let Ok(handle) = session.cast::<ImplicitSession>() else { return Ok(SessionChoice::None) };
    Ok(handle.try_borrow_mut()?.take().map_or(SessionChoice::Implicit, SessionChoice::Of))
}
