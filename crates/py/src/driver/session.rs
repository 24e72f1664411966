//! A server session on loan: whoever drops the handle gives the session back.

use mangonel_proto::session::ServerSession;
use pyo3::prelude::*;

use super::core::Core;

/// The session of an open cursor.
#[pyclass(module = "mangonel._core")]
pub struct ImplicitSession {
    core: Py<Core>,
    session: Option<ServerSession>,
}

impl ImplicitSession {
    /// Puts a session into Python's hands.
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
        if let Some(session) = self.session.take() {
            self.core.get().give_back(session);
        }
    }
}
