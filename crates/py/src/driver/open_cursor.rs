//! A cursor that is open on a server, as an object: when its last reference is dropped, the cursor is killed. A drop
//! runs no Python code, so a signal handler's exception cannot prevent that.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use mangonel_entries::entries;
use pyo3::prelude::*;

use super::core::Core;
use super::pending::LostCursor;
use crate::thread_end::{Entry, never_unwind_this_thread};

/// The server's side of a cursor.
#[pyclass(frozen, module = "mangonel._core")]
pub struct OpenCursor {
    _entry: Entry,
    core: Py<Core>,
    /// How many forks lie between the client's first process and the one that opened it.
    forks: u32,
    server: String,
    namespace: String,
    id: i64,
    /// The number of its pinned link, or `UNBOUND`.
    pinned: AtomicU32,
    /// Whether more of its replies arrive on that connection without a request.
    is_streaming: AtomicBool,
    /// Whether it has ended, or its kill is scheduled.
    is_over: AtomicBool,
}

/// No link has this number.
const UNBOUND: u32 = u32::MAX;

impl OpenCursor {
    /// Makes the object; `pinned` is its pinned link.
    pub fn new(
        core: Py<Core>,
        server: String,
        namespace: String,
        id: i64,
        pinned: Option<u32>,
        is_streaming: bool,
    ) -> Self {
        let forks = core.get().forks();
        OpenCursor {
            _entry: Entry,
            core,
            forks,
            server,
            namespace,
            id,
            pinned: AtomicU32::new(pinned.unwrap_or(UNBOUND)),
            is_streaming: AtomicBool::new(is_streaming),
            is_over: AtomicBool::new(false),
        }
    }
}

#[entries]
#[pymethods]
impl OpenCursor {
    /// Make the object for a cursor that a command of the user opened.
    #[new]
    fn adopt(core: Py<Core>, server: String, namespace: String, id: i64) -> Self {
        OpenCursor::new(core, server, namespace, id, None, false)
    }

    #[getter]
    fn pinned(&self) -> Option<u32> {
        Some(self.pinned.load(Ordering::Relaxed)).filter(|link| *link != UNBOUND)
    }

    #[getter]
    fn is_streaming(&self) -> bool {
        self.is_streaming.load(Ordering::Relaxed)
    }

    #[setter]
    fn set_is_streaming(&self, is_streaming: bool) {
        self.is_streaming.store(is_streaming, Ordering::Relaxed);
    }

    /// Pin it to this link, or to none.
    #[setter]
    fn set_pinned(&self, link: Option<u32>) {
        self.pinned.store(link.unwrap_or(UNBOUND), Ordering::Relaxed);
    }

    /// Record that the server no longer has the cursor, or cannot be reached.
    fn disown(&self) {
        self.is_over.store(true, Ordering::Relaxed);
    }

    /// Kill it in the background, on its pinned connection if it has one; a streaming cursor's connection is closed. A
    /// second call does nothing.
    fn end_soon(&self) {
        // A forked child leaves its parent's cursors open.
        if !self.is_over.swap(true, Ordering::Relaxed) && self.core.get().forks() == self.forks {
            let (server, namespace) = (self.server.clone(), self.namespace.clone());
            let cursor = LostCursor { server, namespace, id: self.id, pinned: self.pinned() };
            Core::end_lost(&self.core, cursor, self.is_streaming());
        }
    }
}

impl Drop for OpenCursor {
    fn drop(&mut self) {
        never_unwind_this_thread();
        self.end_soon();
    }
}
