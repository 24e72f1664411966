//! One connection as its face sees it: a place to receive into, and the face's own transport.

use std::os::raw::c_int;
use std::sync::Arc;
use std::time::Duration;

use mangonel_entries::entries;
use mangonel_proto::compress::{Compressor, OP_COMPRESSED};
use mangonel_proto::error::ProtocolError;
use mangonel_proto::frame::Deframer;
use mangonel_proto::ids::LinkId;
use mangonel_proto::time::Instant;
use pyo3::exceptions::{PyBufferError, PyConnectionError, PyRuntimeError};
use pyo3::prelude::*;
use pyo3::{PyTraverseError, PyVisit, ffi};

use super::clock::Clock;
use super::direct_receive::DirectReceive;
use super::failure;
use super::interpreter;
use super::spare;
use super::tls::Tls;
use super::waiter::Waiter;
use crate::thread_end::Entry;

/// How long a connection may be idle before it is probed. If the server closes it earlier, the next operation
/// notices.
const PROBE_AFTER: Duration = Duration::from_secs(1);

/// One connection. It is itself the buffer to receive into: `link.received(sock.recv_into(link))`.
#[pyclass(module = "mangonel._core", weakref)]
pub struct Link {
    _entry: Entry,
    pub(crate) id: LinkId,
    pub(crate) shard: u32,
    /// Receives messages; `None` while it would be empty, or while a call uses it.
    deframer: Option<Box<Deframer>>,
    /// The number of buffers lent to Python now; while there are any, nothing may move the bytes.
    lent: usize,
    /// Whether a buffer was lent and the count of received bytes is not reported yet.
    has_lost_count: bool,
    /// The face's object for this connection: a socket, or an object around one.
    #[pyo3(get, set)]
    transport: Option<Py<PyAny>>,
    /// The file descriptor of a plain socket, for the paths that skip the socket object; -1 for none.
    #[pyo3(get, set)]
    pub(crate) fd: i32,
    /// The descriptor to probe after idleness if `fd` must not be used: gevent waits in the socket object.
    probe: i32,
    /// The engine that encrypts and decrypts for the paths that skip the socket object; None for plain connections, and
    /// while a call uses it.
    pub(crate) tls: Option<Box<Tls>>,
    /// The likely reason if the server ends the connection before its first reply.
    closing_hint: Option<String>,
    /// Whether a reply was read.
    has_spoken: bool,
    /// Whether a thread is inside a system call on `fd`, which therefore must not be closed and given to another file.
    pub(crate) is_busy: bool,
    /// Whether that thread must close the connection after its call.
    is_doomed: bool,
    /// Whether `socket::prepare` has prepared `fd` for good.
    pub(crate) is_prepared: bool,
    /// When the last reply was read.
    pub(crate) idle_since: Instant,
    /// Its client's clock.
    pub(crate) clock: Arc<Clock>,
    /// The future that is resolved when a whole message has arrived; asyncio's faces only.
    #[pyo3(get, set)]
    pub(crate) waiter: Option<Py<Waiter>>,
    /// The target of expected chunks' data, for the paths that skip the socket object; None for other replies.
    pub(crate) direct_receive: Option<Box<DirectReceive>>,
}

/// Messages of this size and above are compressed and decompressed without the GIL; below it, releasing the GIL costs
/// more.
const WORTH_DETACHING: usize = 16 * 1024;

impl Link {
    /// Makes the state of a connection that was just opened.
    pub fn new(id: LinkId, shard: u32, transport: Py<PyAny>, fd: i32, clock: Arc<Clock>) -> Self {
        Link {
            _entry: Entry,
            id,
            shard,
            deframer: None,
            lent: 0,
            has_lost_count: false,
            transport: Some(transport),
            fd,
            probe: fd,
            tls: None,
            closing_hint: None,
            has_spoken: false,
            is_busy: false,
            is_doomed: false,
            idle_since: clock.now(),
            clock,
            waiter: None,
            is_prepared: false,
            direct_receive: None,
        }
    }

    /// Returns the message that has arrived, for [`unpacked`](Self::unpacked).
    ///
    /// # Errors
    /// When there is no memory for it, or no message may follow it. Nothing more may be read then.
    #[inline]
    pub(crate) fn take_message(&mut self, py: Python<'_>) -> Result<Vec<u8>, ProtocolError> {
        let Some(mut deframer) = self.deframer.take() else { return Ok(Vec::new()) };
        let message = deframer.take()?;
        self.put_back(py, deframer);
        Ok(message)
    }

    /// Returns a received message, decompressed, and its size on the wire.
    ///
    /// # Errors
    /// When it does not decompress to a message within the limits. Nothing more may be read then.
    #[inline]
    pub(crate) fn unpacked(py: Python<'_>, message: Vec<u8>) -> Result<(Vec<u8>, usize), ProtocolError> {
        let size = message.len();
        if message.get(12..16) != Some(&OP_COMPRESSED.to_le_bytes()) {
            return Ok((message, size));
        }
        let mut codec = spare::codec(py);
        let mut unpack = || codec.decompress(&message).map_err(ProtocolError::from);
        // Few bytes may decompress to many, so the claimed size decides.
        let claimed = message.get(20..24).map_or(0, |size| size[2] | size[3]);
        let unpacked = if claimed > 0 || size > WORTH_DETACHING { py.detach(unpack) } else { unpack() };
        spare::keep_codec(py, codec);
        unpacked.map(|message| (message, size))
    }

    /// Compresses a whole message; `None` when it must stay as it is.
    pub(crate) fn pack(py: Python<'_>, compressor: Compressor, message: &[u8]) -> Option<Vec<u8>> {
        let mut codec = spare::codec(py);
        let mut pack = || {
            let mut packed = Vec::new();
            codec.compress(compressor, message, &mut packed).ok().map(|()| packed)
        };
        let packed = if message.len() > WORTH_DETACHING { py.detach(pack) } else { pack() };
        spare::keep_codec(py, codec);
        packed
    }

    /// Returns the deframer to receive into.
    #[inline]
    pub(crate) fn deframer(&mut self, py: Python<'_>) -> &mut Deframer {
        self.deframer.get_or_insert_with(|| spare::deframer(py))
    }

    /// Keeps the deframer if bytes are left in it; otherwise another connection may use it.
    #[inline]
    fn put_back(&mut self, py: Python<'_>, deframer: Box<Deframer>) {
        match deframer.is_empty() {
            true => spare::keep_deframer(py, deframer),
            false => self.deframer = Some(deframer),
        }
    }

    /// Fails when Python still holds the memory that is about to change.
    pub(crate) fn check_not_lent(&self) -> PyResult<()> {
        if self.lent > 0 {
            return Err(PyBufferError::new_err(
                "expected the receive buffer to be released, got it still in use",
            ));
        }
        Ok(())
    }

    /// Records that a reply is about to be read. Returns the face's object that must be told of the first reply.
    pub(crate) fn note_reply(&mut self, py: Python<'_>) -> Option<Py<PyAny>> {
        if std::mem::replace(&mut self.has_spoken, true) {
            return None;
        }
        self.tls.as_ref().map(|tls| tls.owner(py))
    }

    /// Describes the connection's error, with a remedy if it ended before its first reply.
    pub(crate) fn describe(&self, py: Python<'_>, error: &PyErr) -> String {
        let message = error.value(py).to_string();
        if self.has_spoken || !error.is_instance_of::<PyConnectionError>(py) {
            return message;
        }
        let hint = self.closing_hint.as_deref().unwrap_or("if it expects TLS, set tls=true");
        format!("{message} before its first reply; {hint}")
    }

    /// Returns the face's transport.
    pub(crate) fn transport_of(&self, py: Python<'_>) -> Option<Py<PyAny>> {
        self.transport.as_ref().map(|transport| transport.clone_ref(py))
    }

    /// Records that the connection is over; pass the result to [`finish`](Self::finish), once the borrow has ended.
    pub(crate) fn end(&mut self, py: Python<'_>) -> Option<(Py<PyAny>, &'static str)> {
        if self.is_busy {
            self.is_doomed = true;
            return self.transport.as_ref().map(|transport| (transport.clone_ref(py), "interrupt"));
        }
        self.fd = -1;
        self.probe = -1;
        self.transport.take().map(|transport| (transport, "close"))
    }

    /// Closes the connection, unless it is borrowed.
    pub(crate) fn hang_up(link: &Py<Self>, py: Python<'_>) {
        let ending = link.try_borrow_mut(py).ok().and_then(|mut link| link.end(py));
        Self::finish(py, ending);
    }

    /// Lets the face close the transport that [`end`](Self::end) returned, or wake the thread that waits in it.
    pub(crate) fn finish(py: Python<'_>, ending: Option<(Py<PyAny>, &'static str)>) {
        let Some((transport, method)) = ending else { return };
        interpreter::insist(py, transport.bind(py), || transport.call_method0(py, method).map(drop));
    }

    /// Lends the state to a thread that will be inside system calls on `fd`.
    pub(crate) fn enter(&mut self, py: Python<'_>) -> Box<Deframer> {
        self.is_busy = true;
        self.deframer.take().unwrap_or_else(|| spare::deframer(py))
    }

    /// Takes the state back; the result is for [`finish`](Self::finish) if the connection has ended.
    pub(crate) fn leave(
        &mut self,
        py: Python<'_>,
        deframer: Box<Deframer>,
    ) -> Option<(Py<PyAny>, &'static str)> {
        self.put_back(py, deframer);
        self.is_busy = false;
        if self.is_doomed { self.end(py) } else { None }
    }
}

#[entries]
#[pymethods]
impl Link {
    /// Note that `count` bytes were received into the buffer; return whether a whole message has arrived.
    fn received(&mut self, py: Python<'_>, count: usize) -> PyResult<bool> {
        self.check_not_lent()?;
        self.has_lost_count = false;
        if count == 0 {
            return Err(failure::connection_closed(py));
        }
        self.deframer(py).received(count).map_err(|error| failure::broken_message(py, &error))
    }

    /// Whether bytes may have been received without a call of `received`, so that no reply can be read any more.
    #[getter]
    fn has_lost_count(&self) -> bool {
        self.has_lost_count
    }

    /// Speak TLS on it. `engine`, `incoming`, `outgoing`: an `ssl.SSLObject` after its handshake and the memory around it;
    /// `owner`: has `explain(error)`, `remember()` and `closing_hint`.
    fn secure(
        &mut self,
        py: Python<'_>,
        engine: Py<PyAny>,
        incoming: Py<PyAny>,
        outgoing: Py<PyAny>,
        owner: Py<PyAny>,
    ) -> PyResult<()> {
        self.closing_hint = Some(owner.getattr(py, "closing_hint")?.extract(py)?);
        self.tls = Some(Box::new(Tls::new(engine, incoming, outgoing, owner)));
        Ok(())
    }

    /// Whether it speaks TLS.
    #[getter]
    fn is_secure(&self) -> bool {
        self.closing_hint.is_some()
    }

    /// Whether no bytes are left beyond the messages already read.
    #[getter]
    fn is_quiet(&self) -> bool {
        self.deframer.as_ref().is_none_or(|deframer| deframer.is_empty())
    }

    /// Probe this descriptor after idleness; never wait in it.
    #[setter]
    fn set_probe(&mut self, fd: i32) {
        self.probe = fd;
    }

    /// Whether the server closed the connection, or sent unexpected data, while it was idle. Costs a system call after
    /// a second of idleness, before that nothing.
    #[getter]
    pub(crate) fn is_stale(&self) -> bool {
        self.probe >= 0
            && self.clock.now().saturating_since(self.idle_since) > PROBE_AFTER
            && super::socket::has_ended(self.probe)
    }

    /// Whether a whole message has already arrived.
    #[getter]
    pub(crate) fn has_message(&self) -> bool {
        self.deframer.as_ref().is_some_and(|deframer| deframer.message().is_some())
    }

    /// The connection's number, unique in its client.
    #[getter]
    fn number(&self) -> u32 {
        self.id.0
    }

    fn __len__(&mut self, py: Python<'_>) -> PyResult<usize> {
        self.check_not_lent()?;
        Ok(self.deframer(py).window().len())
    }

    /// Lends the window to receive into.
    ///
    /// # Safety
    /// Called by the interpreter with a valid view.
    unsafe fn __getbuffer__(slf: Bound<'_, Self>, view: *mut ffi::Py_buffer, flags: c_int) -> PyResult<()> {
        let mut link = slf.try_borrow_mut()?;
        link.check_not_lent()?;
        let window = link.deframer(slf.py()).window();
        let (start, length) = (window.as_mut_ptr(), window.len());
        // SAFETY: the window stays where it is until the next `window`, `received` or `take`; `Link` counts the view
        // as lent and refuses those until it is released, and the view holds a reference to the link.
        let outcome = unsafe {
            ffi::PyBuffer_FillInfo(view, slf.as_ptr(), start.cast(), length as ffi::Py_ssize_t, 0, flags)
        };
        if outcome != 0 {
            return Err(PyErr::take(slf.py()).unwrap_or_else(|| {
                PyRuntimeError::new_err("expected a buffer to be filled in, got no reason")
            }));
        }
        link.lent += 1;
        link.has_lost_count = true;
        Ok(())
    }

    /// Takes the window back.
    ///
    /// # Safety
    /// Called by the interpreter with a view from `__getbuffer__`.
    unsafe fn __releasebuffer__(&mut self, _view: *mut ffi::Py_buffer) {
        self.lent = self.lent.saturating_sub(1);
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.transport)?;
        if let Some(tls) = &self.tls {
            tls.traverse(&visit)?;
        }
        visit.call(&self.waiter)
    }

    fn __clear__(&mut self) {
        self.transport = None;
        self.waiter = None;
        self.tls = None;
    }
}
