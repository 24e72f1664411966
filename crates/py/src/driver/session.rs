//! Sessions as Python objects: a cursor's implicit one, given back on drop, and explicit ones. The state of an explicit
//! session stays in the core behind its lock; the object holds its id.

use mangonel_bson::{RawDocument, writer};
use mangonel_entries::entries;
use mangonel_proto::client_session::{ClientSession, ENDED};
use mangonel_proto::ids::SessionId;
use mangonel_proto::message::Command;
use mangonel_proto::operation::{Kind, SessionChoice};
use mangonel_proto::session::ServerSession;
use mangonel_proto::transaction::{State as TransactionState, WrongState};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use super::core::Core;
use super::failure;
use super::operation::{Operation, Plan, ReplyForm};
use crate::codec::{self, Codec};
use crate::thread_end::never_unwind_this_thread;

/// The session of an open cursor.
#[pyclass(module = "mangonel._core")]
pub struct ImplicitSession {
    core: Py<Core>,
    session: Option<ServerSession>,
}

impl ImplicitSession {
    /// Wraps a session for Python.
    pub fn new(core: Py<Core>, session: ServerSession) -> Self {
        ImplicitSession { core, session: Some(session) }
    }

    /// Takes the session out, to run a command in it.
    pub fn take(&mut self) -> Option<ServerSession> {
        self.session.take()
    }
}

impl Drop for ImplicitSession {
    fn drop(&mut self) {
        never_unwind_this_thread();
        if let Some(session) = self.session.take() {
            Core::give_back(&self.core, session);
        }
    }
}

/// An explicit session. Dropping it ends it without sending anything.
#[pyclass(frozen, module = "mangonel._core")]
pub struct Session {
    core: Py<Core>,
    pub(crate) id: SessionId,
}

impl Session {
    fn look<T>(&self, look: impl FnOnce(&ClientSession) -> T) -> Option<T> {
        self.core.get().peek(|state| state.client.session(self.id).map(look))
    }

    fn change(&self, py: Python<'_>, change: impl FnOnce(&mut ClientSession)) {
        self.core.get().with(py, |state| state.client.session_mut(self.id).map(change));
    }

    /// Returns the server session's id; takes one from the pool if there is none yet.
    fn server(&self, py: Python<'_>) -> PyResult<[u8; 16]> {
        let now = self.core.get().now();
        let found = self.core.get().with(py, |state| {
            let session = state.client.ready_session(self.id, now);
            session.and_then(|session| session.server()).map(|server| server.id)
        });
        found.ok_or_else(|| failure::invalid_operation(py, ENDED))
    }
}

#[entries]
#[pymethods]
impl Session {
    /// Open a session; nothing is sent.
    #[new]
    fn new(core: &Bound<'_, Core>, is_causal: bool, is_snapshot: bool) -> Self {
        let session = ClientSession::new(is_causal, is_snapshot);
        let id = core.get().with(core.py(), |state| state.client.open_session(session));
        Session { core: core.clone().unbind(), id }
    }

    /// End it: the server session goes back to its pool.
    fn end(&self, py: Python<'_>) {
        let now = self.core.get().now();
        self.core.get().with(py, |state| state.client.end_session(self.id, now));
    }

    /// Whether it has ended, or belongs to the parent process.
    #[getter]
    fn has_ended(&self) -> bool {
        self.look(|_| ()).is_none()
    }

    /// Its number among the sessions of its client.
    #[getter]
    fn number(&self) -> u64 {
        self.id.0
    }

    /// The 16 bytes that identify it to the server.
    #[getter]
    fn session_id<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        Ok(PyBytes::new(py, &self.server(py)?))
    }

    /// Whether a connection broke under it, so that its server session is not used again.
    #[getter]
    fn is_dirty(&self) -> bool {
        self.look(|session| session.server().is_some_and(|server| server.is_dirty)).unwrap_or(false)
    }

    /// The newest cluster time that it saw, as a document, or None.
    #[getter]
    fn cluster_time(&self, py: Python<'_>) -> PyResult<Option<Py<PyAny>>> {
        let time =
            self.look(|session| session.cluster_time().map(|(_, document)| document.clone())).flatten();
        time.map(|time| codec::decode_document(py, &time, Codec::default_for(py)?.get())).transpose()
    }

    /// Seconds and increment of its last operation, or None.
    #[getter]
    fn operation_time(&self) -> Option<(u32, u32)> {
        self.look(ClientSession::operation_time).flatten().map(halves)
    }

    /// Seconds and increment of the time at which a snapshot session reads, or None.
    #[getter]
    fn snapshot_time(&self) -> Option<(u32, u32)> {
        self.look(ClientSession::snapshot_time).flatten().map(halves)
    }

    /// Advance to the cluster time of another session, a `$clusterTime` document as BSON.
    fn advance_cluster_time(&self, py: Python<'_>, document: &[u8]) {
        self.change(py, |session| session.advance_cluster_time(document));
    }

    /// Advance to the operation time of another session.
    fn advance_operation_time(&self, py: Python<'_>, seconds: u32, increment: u32) {
        let time = u64::from(seconds) << 32 | u64::from(increment);
        self.change(py, |session| session.advance_operation_time(time));
    }

    /// Whether commands now belong to a transaction.
    #[getter]
    pub(super) fn in_transaction(&self) -> bool {
        self.look(|session| session.transaction.is_active()).unwrap_or(false)
    }

    /// Whether a transaction was started but has not reached the server yet.
    #[getter]
    fn is_starting(&self) -> bool {
        self.look(|session| session.transaction.state() == TransactionState::Starting).unwrap_or(false)
    }

    /// The address of the router to which the transaction is pinned, or None.
    #[getter]
    fn pinned_server(&self) -> Option<String> {
        self.look(|session| session.transaction.pin().map(|pin| pin.address.to_string())).flatten()
    }

    /// Start a transaction. The concerns are documents as BSON, or empty.
    fn start_transaction(&self, py: Python<'_>, read_concern: &[u8], write_concern: &[u8]) -> PyResult<()> {
        for concern in [read_concern, write_concern] {
            if !concern.is_empty() {
                RawDocument::from_bytes(concern)
                    .map_err(|error| failure::invalid_bson(py, &error.to_string()))?;
            }
        }
        let now = self.core.get().now();
        let (read_concern, write_concern) = (read_concern.to_vec(), write_concern.to_vec());
        let outcome = self
            .core
            .get()
            .with(py, |state| state.client.start_transaction(self.id, read_concern, write_concern, now));
        outcome.map_err(|WrongState(message)| failure::invalid_operation(py, message))
    }

    /// Make the operation that ends the transaction, of KIND_COMMIT or KIND_ABORT: nothing changes before it begins.
    /// `max_time_ms`: how long the server may work on a commit; None or 0: no limit.
    fn ending(&self, py: Python<'_>, kind: usize, max_time_ms: Option<i64>) -> PyResult<Operation> {
        let plan = Plan { reading: ReplyForm::Answer, ..Plan::new(kind, 0, 0)? };
        let is_commit = plan.kind == Kind::Commit;
        let mut head = Command::begin();
        let start = writer::begin_document(&mut head);
        writer::append_i32(&mut head, if is_commit { "commitTransaction" } else { "abortTransaction" }, 1);
        match max_time_ms {
            Some(limit) if limit != 0 && is_commit => match i32::try_from(limit) {
                Ok(limit) => writer::append_i32(&mut head, "maxTimeMS", limit),
                Err(_) => writer::append_i64(&mut head, "maxTimeMS", limit),
            },
            _ => {}
        }
        writer::end_document(&mut head, start);
        let codec = Codec::default_for(py)?.clone_ref(py);
        let session = SessionChoice::Explicit(self.id);
        Operation::assemble(py, "admin", head, Vec::new(), codec, &plan, session)
    }

    /// End it unless a transaction is open; return whether it has ended now.
    fn end_idle(&self, py: Python<'_>) -> bool {
        let is_idle = !self.in_transaction();
        if is_idle {
            self.end(py);
        }
        is_idle
    }
}

fn halves(time: u64) -> (u32, u32) {
    ((time >> 32) as u32, time as u32)
}

impl Drop for Session {
    fn drop(&mut self) {
        never_unwind_this_thread();
        Core::end_session(&self.core, self.id);
    }
}
