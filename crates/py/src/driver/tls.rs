//! The fused paths over TLS: the standard library's engine encrypts and decrypts in memory, and the sockets are plain.
//! `_faces/secure.py` does the same through the socket object and is the specification.

use std::cell::RefCell;
use std::marker::PhantomData;

use mangonel_proto::error::ProtocolError;
use mangonel_proto::frame::Deframer;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyBytes;
use pyo3::{PyTraverseError, PyVisit, ffi, intern};

use super::interpreter;
use super::socket::{self, Ended, Progress};

/// How much is received at once, before it is decrypted.
const RECEIVE_SIZE: usize = 128 * 1024;

/// How much is encrypted before it is sent, so that a large message is not in memory twice.
const MOST_AHEAD: usize = 256 * 1024;

thread_local! {
    static RECEIVED: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// The TLS of one link.
pub struct Tls {
    /// The engine: `read(count, buffer)` and `write(buffer)`.
    engine: Py<PyAny>,
    /// The memory from which the engine reads the peer's bytes: `write(buffer)` and `pending`.
    incoming: Py<PyAny>,
    /// The memory into which the engine writes bytes for the peer: `read()` and `pending`.
    outgoing: Py<PyAny>,
    /// The face's `Secured`: explains errors, and keeps the session for later connections.
    owner: Py<PyAny>,
    /// Encrypted bytes that are not sent yet; only on non-blocking sockets.
    unsent: Vec<u8>,
    /// How many bytes of the message `unsent` encrypts.
    unsent_plain: usize,
}

/// The result of decrypting.
enum Decrypted {
    Whole,
    NotYet,
    Closed,
    Broken(ProtocolError),
}

impl Tls {
    /// Makes the TLS of a link; see [`Link::secure`](super::link::Link).
    pub fn new(engine: Py<PyAny>, incoming: Py<PyAny>, outgoing: Py<PyAny>, owner: Py<PyAny>) -> Self {
        Tls { engine, incoming, outgoing, owner, unsent: Vec::new(), unsent_plain: 0 }
    }

    /// Called when the first reply was read: the session may now be kept.
    pub fn remember(owner: &Py<PyAny>, py: Python<'_>) {
        if let Err(error) = owner.call_method0(py, intern!(py, "remember")) {
            interpreter::raise_soon(py, error, owner.bind(py));
        }
    }

    /// The face's object behind it.
    pub fn owner(&self, py: Python<'_>) -> Py<PyAny> {
        self.owner.clone_ref(py)
    }

    /// Shows the garbage collector what it holds.
    pub fn traverse(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.engine)?;
        visit.call(&self.owner)
    }

    /// Sends a message and receives one whole message, blocking. Raises only exceptions of signal handlers.
    pub fn converse(
        &mut self,
        py: Python<'_>,
        mut socket: socket::Socket,
        outbound: &[u8],
        expects_reply: bool,
        deframer: &mut Deframer,
    ) -> PyResult<Ended> {
        let mut rest = outbound;
        while !rest.is_empty() {
            let data = match self.encrypt(py, &mut rest) {
                Ok(data) => data,
                Err(error) => return Ok(self.raised(py, error)),
            };
            let mut bytes = data.bind(py).as_bytes();
            match socket::insist(py, || socket.send_all(&mut bytes))? {
                Ended::Whole => {}
                other => return Ok(other),
            }
        }
        if !expects_reply || deframer.message().is_some() {
            return Ok(Ended::Whole);
        }
        socket.await_reply();
        // Not borrowed from the thread's cell: a signal handler's Python code may call this again.
        let mut buffer = RECEIVED.take();
        buffer.resize(RECEIVE_SIZE, 0);
        let ended = loop {
            let mut count = 0;
            match socket::insist(py, || socket.receive_some(&mut buffer, &mut count)) {
                Ok(Ended::Whole) => {}
                other => break other,
            }
            match self.decrypt(py, &mut buffer[..count], deframer) {
                Ok(Decrypted::Whole) => break Ok(Ended::Whole),
                Ok(Decrypted::Closed) => break Ok(Ended::Closed),
                Ok(Decrypted::Broken(message)) => break Ok(Ended::Broken(message)),
                Ok(Decrypted::NotYet) => {}
                Err(error) => break Ok(self.raised(py, error)),
            }
        };
        RECEIVED.set(buffer);
        ended
    }

    /// Sends as much of a message as the socket takes at once. Returns how much of it was sent; encrypted bytes that
    /// wait do not count, so only the full length means that everything was sent.
    pub fn send_some(&mut self, py: Python<'_>, fd: i32, outbound: &[u8]) -> PyResult<usize> {
        let mut done = 0;
        loop {
            if self.unsent.is_empty() {
                let mut rest = outbound.get(done..).unwrap_or_default();
                if rest.is_empty() {
                    return Ok(done);
                }
                let length = rest.len();
                let data = self.encrypt(py, &mut rest).map_err(|error| self.explained(py, error))?;
                let bytes = data.bind(py).as_bytes();
                self.unsent_plain = length - rest.len();
                // Usually the socket takes all of it, and nothing is kept.
                match socket::send_now(fd, bytes)? {
                    count if count == bytes.len() => done += std::mem::take(&mut self.unsent_plain),
                    count => {
                        self.unsent = bytes[count..].to_vec();
                        return Ok(done);
                    }
                }
                continue;
            }
            let count = socket::send_now(fd, &self.unsent)?;
            self.unsent.drain(..count);
            if !self.unsent.is_empty() {
                return Ok(done);
            }
            done += std::mem::take(&mut self.unsent_plain);
        }
    }

    /// Called when the non-blocking socket is readable: receives and decrypts the available bytes.
    pub fn receive_ready(&mut self, py: Python<'_>, fd: i32, deframer: &mut Deframer) -> Ended {
        let mut buffer = RECEIVED.take();
        buffer.resize(RECEIVE_SIZE, 0);
        let received = socket::receive_now(fd, &mut buffer);
        let ended = match received {
            Ok(Progress::WouldBlock | Progress::Interrupted) => Ended::Interrupted,
            Ok(Progress::Moved(0)) => Ended::Closed,
            Ok(Progress::Moved(count)) => match self.decrypt(py, &mut buffer[..count], deframer) {
                Ok(Decrypted::Whole) => Ended::Whole,
                Ok(Decrypted::NotYet) => Ended::Interrupted,
                Ok(Decrypted::Closed) => Ended::Closed,
                Ok(Decrypted::Broken(message)) => Ended::Broken(message),
                Err(error) => self.raised(py, error),
            },
            Err(error) => Ended::Failed(error),
        };
        RECEIVED.set(buffer);
        ended
    }

    /// Encrypts the start of `rest`, and shortens that; returns the bytes to send for it.
    fn encrypt(&self, py: Python<'_>, rest: &mut &[u8]) -> PyResult<Py<PyBytes>> {
        let mut ahead = 0;
        while !rest.is_empty() && ahead < MOST_AHEAD {
            let count: usize = {
                let view = View::of(py, rest)?;
                self.engine.bind(py).call_method1(intern!(py, "write"), (&view.0,))?.extract()?
            };
            *rest = rest.get(count..).unwrap_or_default();
            ahead += count;
        }
        let data = self.outgoing.bind(py).call_method0(intern!(py, "read"))?;
        Ok(data.cast_into::<PyBytes>().map_err(PyErr::from)?.unbind())
    }

    /// Decrypts all received bytes: none may stay behind, since the socket would not become readable for them.
    fn decrypt(&self, py: Python<'_>, received: &mut [u8], deframer: &mut Deframer) -> PyResult<Decrypted> {
        let incoming = self.incoming.bind(py);
        {
            let view = View::of(py, received)?;
            incoming.call_method1(intern!(py, "write"), (&view.0,))?;
        }
        loop {
            let window = deframer.window();
            let size = window.len();
            let outcome = {
                let view = View::of_mut(py, window)?;
                self.engine.bind(py).call_method1(intern!(py, "read"), (size, &view.0))
            };
            let count: usize = match outcome {
                Ok(count) => count.extract()?,
                Err(error) if error.is_instance(py, wants_more(py)?) => break,
                Err(error) => return Err(error),
            };
            if count == 0 {
                return Ok(Decrypted::Closed);
            }
            let count = count.min(size);
            if let Err(error) = deframer.received(count) {
                return Ok(Decrypted::Broken(error));
            }
            // A record that did not fill the window is used up; reading again without data would cost an exception.
            if count < size && incoming.getattr(intern!(py, "pending"))?.extract::<usize>()? == 0 {
                break;
            }
        }
        Ok(if deframer.message().is_some() { Decrypted::Whole } else { Decrypted::NotYet })
    }

    fn explained(&self, py: Python<'_>, error: PyErr) -> PyErr {
        if !error.is_instance_of::<pyo3::exceptions::PyOSError>(py) {
            return error;
        }
        match self.owner.call_method1(py, intern!(py, "explain"), (error.value(py),)) {
            Ok(explained) => PyErr::from_value(explained.into_bound(py)),
            Err(other) => other,
        }
    }

    fn raised(&self, py: Python<'_>, error: PyErr) -> Ended {
        Ended::Raised(self.explained(py, error))
    }
}

/// `ssl.SSLWantReadError`: the received bytes do not complete a record.
fn wants_more<'py>(py: Python<'py>) -> PyResult<&'py Bound<'py, PyAny>> {
    static CLASS: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    CLASS
        .get_or_try_init(py, || Ok(py.import("ssl")?.getattr("SSLWantReadError")?.unbind()))
        .map(|class| class.bind(py))
}

/// A `memoryview` of our memory for the time of one call; released when it ends, even if it was kept.
struct View<'py, 'a>(Bound<'py, PyAny>, PhantomData<&'a [u8]>);

impl<'py, 'a> View<'py, 'a> {
    fn of(py: Python<'py>, bytes: &'a [u8]) -> PyResult<Self> {
        // SAFETY: read only, and `bytes` are borrowed for as long as the view lives, which its drop ends for Python too.
        unsafe { Self::make(py, bytes.as_ptr().cast_mut(), bytes.len(), ffi::PyBUF_READ) }
    }

    fn of_mut(py: Python<'py>, bytes: &'a mut [u8]) -> PyResult<Self> {
        // SAFETY: `bytes` are borrowed exclusively for as long as the view lives, which its drop ends for Python too.
        unsafe { Self::make(py, bytes.as_mut_ptr(), bytes.len(), ffi::PyBUF_WRITE) }
    }

    /// # Safety
    /// `start` and `length` name memory that stays, and may be used as `flags` say, until the view is dropped.
    unsafe fn make(py: Python<'py>, start: *mut u8, length: usize, flags: i32) -> PyResult<Self> {
        // SAFETY: `py` shows that the interpreter's lock is held. The memory stays, and may be used as the flags say,
        // until the drop of the `View` releases the `memoryview`. What is returned is a new reference or null with the
        // error set.
        let view = unsafe {
            let made = ffi::PyMemoryView_FromMemory(start.cast(), length as ffi::Py_ssize_t, flags);
            Bound::from_owned_ptr_or_err(py, made)
        };
        view.map(|view| View(view, PhantomData))
    }
}

impl Drop for View<'_, '_> {
    fn drop(&mut self) {
        let py = self.0.py();
        interpreter::beside_pending_error(py, || {
            // A view in use cannot be released; the engine uses none between its calls.
            if let Err(error) = self.0.call_method0(intern!(py, "release")) {
                error.write_unraisable(py, None);
            }
        });
    }
}
