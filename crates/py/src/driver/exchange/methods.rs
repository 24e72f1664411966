//! The class `Exchange` as Python uses it: its steps by number, and its methods.

use std::os::raw::c_int;
use std::time::Duration;

use mangonel_entries::entries;
use mangonel_proto::error::ProtocolError;
use mangonel_proto::exchange::{Question, Step};
use mangonel_proto::message::{read_reply, with_body};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::{PyTraverseError, PyVisit, ffi};

use super::Exchange;
use crate::codec;
use crate::driver::auth::{self, KeyQuestion, WordQuestion};
use crate::driver::core::Core;
use crate::driver::failure;
use crate::driver::link::Link;
use crate::driver::lost;
use crate::driver::operation::{self, Operation};

pub const DONE: u8 = 0;
pub const WRITE: u8 = 1;
pub const READ: u8 = 2;
pub const CONNECT: u8 = 3;
pub const WAIT: u8 = 4;
pub const SLEEP: u8 = 5;
pub const ASK: u8 = 6;

/// Starts to run an operation on the connections of a shard.
#[entries]
#[pyfunction]
fn begin(core: &Bound<'_, Core>, operation: &Bound<'_, Operation>, shard: u32) -> PyResult<Exchange> {
    Exchange::begin(core, operation, shard)
}

/// Starts an operation whose reply is read later. It holds a connection until then, unless that would leave none for
/// others.
#[entries]
#[pyfunction]
fn begin_ahead(core: &Bound<'_, Core>, operation: &Bound<'_, Operation>, shard: u32) -> PyResult<Exchange> {
    let place = core.get().ahead.take();
    let mut exchange = Exchange::start(core, operation, shard, place.is_none())?;
    exchange.place = place;
    Ok(exchange)
}

/// Adds the functions that begin an exchange, its class, and the numbers of the steps.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(begin, module)?)?;
    module.add_function(wrap_pyfunction!(begin_ahead, module)?)?;
    module.add_class::<Exchange>()?;
    let steps = [
        ("DONE", DONE),
        ("WRITE", WRITE),
        ("READ", READ),
        ("CONNECT", CONNECT),
        ("WAIT", WAIT),
        ("SLEEP", SLEEP),
        ("ASK", ASK),
    ];
    steps.iter().try_for_each(|(name, number)| module.add(*name, number))
}

#[entries]
#[pymethods]
impl Exchange {
    /// What to do next: DONE, WRITE, READ, CONNECT, WAIT, SLEEP or ASK.
    #[getter]
    pub(crate) fn step(&self) -> u8 {
        match self.inner.step() {
            Step::Done => DONE,
            Step::Write => WRITE,
            Step::Read => READ,
            Step::Connect => CONNECT,
            Step::Wait => WAIT,
            Step::Sleep(_) => SLEEP,
            Step::Ask => ASK,
        }
    }

    /// Whether the handshake is still in progress, so that the next message is not the command.
    #[getter]
    fn is_handshake(&self) -> bool {
        self.inner.is_handshake()
    }

    /// Host and port of the server it goes to, or the path of its socket and None; None before server selection.
    #[getter]
    fn address(&self) -> Option<(String, Option<u16>)> {
        self.inner.server().map(|address| (address.host().to_owned(), address.port()))
    }

    /// The connection it holds, or None.
    #[getter]
    fn link(&self, py: Python<'_>) -> Option<Py<Link>> {
        self.link.as_ref().map(|link| link.clone_ref(py))
    }

    /// Whether a reply to the message is expected.
    #[getter]
    pub(crate) fn expects_reply(&self) -> bool {
        self.inner.expects_reply()
    }

    /// Seconds that the current step may take, or None.
    #[getter]
    pub(crate) fn step_timeout(&self) -> Option<f64> {
        let now = self.core.get().now();
        self.core.get().peek(|state| self.inner.step_timeout(&state.client, now)).map(seconds)
    }

    /// Whether `step_timeout` shrinks from call to call, since it is the remaining time of the whole operation.
    #[getter]
    pub(crate) fn is_limited(&self) -> bool {
        self.inner.is_limited()
    }

    /// Seconds from now until `handle_timeout()` is due while waiting or sleeping, or None.
    #[getter]
    pub(crate) fn time_left(&self) -> Option<f64> {
        let now = self.core.get().now();
        let deadline = self.core.get().peek(|state| self.inner.deadline(&state.client));
        deadline.map(|deadline| seconds(deadline.saturating_since(now)))
    }

    /// Call `waker` once, from any thread, when a connection may have become free.
    pub(crate) fn set_waker(&self, py: Python<'_>, waker: Py<PyAny>) -> PyResult<()> {
        let id = self.inner.id();
        // Otherwise a grant since the last check would wake no waiter.
        let due = self.core.get().with(py, |state| {
            if state.client.should_wake(id) { Some(waker) } else { state.wakers.insert(id, waker) }
        });
        // A replaced waker is called too: a needless wake-up is harmless, and one path is safer than two.
        due.map_or(Ok(()), |waker| waker.call0(py).map(drop))
    }

    /// Called when a connection was opened. `transport`: the face's object, with a `close()`; `fd`: of a plain socket,
    /// else -1.
    fn handle_connected(&mut self, py: Python<'_>, transport: Py<PyAny>, fd: i32) -> PyResult<Py<Link>> {
        self.check_not_lent()?;
        let core = self.core.clone_ref(py);
        let opening = self.inner.opening();
        let id = opening.unwrap_or_else(|| core.get().with(py, |state| state.client.next_link()));
        let link =
            Py::new(py, Link::new(id, self.inner.shard().0, transport, fd, self.core.get().clock.clone()))?;
        let kept = link.clone_ref(py);
        self.advance(py, |inner, state, now| {
            state.links.insert(id, kept);
            inner.handle_connected(&mut state.client, id, now);
        });
        Ok(link)
    }

    /// Called when the face is about to send the message itself.
    fn handle_sending(&mut self, py: Python<'_>) -> PyResult<()> {
        self.check_not_lent()?;
        self.announce(py);
        Ok(())
    }

    /// The function to call at ASK, with the running event loop if there is one; it may take long. Pass its result to
    /// `handle_answer`, its exception to `handle_no_answer`.
    #[getter]
    fn question(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        match self.inner.question() {
            Some(Question::Servers(_)) => Err(failure::bug(py, "expected the selector to be called here")),
            Some(Question::Keys(request)) => Ok(Py::new(py, KeyQuestion::new(request))?.into_any()),
            Some(Question::Word(_, prompt)) => {
                let responder = self.core.get().responder.as_ref().map(|responder| responder.clone_ref(py));
                let responder = responder
                    .ok_or_else(|| failure::bug(py, "expected a responder for the mechanism, got none"))?;
                let left = self.inner.answer_timeout(self.core.get().now()).map(seconds);
                let host = self.inner.server().map_or(String::new(), |address| address.host().to_owned());
                let state = self.conversation.as_ref().filter(|_| prompt.challenge.is_some());
                let state = state.map(|state| state.clone_ref(py));
                Ok(Py::new(py, WordQuestion::new(responder, prompt, host, state, left))?.into_any())
            }
            None => Err(failure::bug(py, "expected an open question, got none")),
        }
    }

    /// Called with the result of `question`.
    fn handle_answer(&mut self, py: Python<'_>, answer: &Bound<'_, PyAny>) -> PyResult<()> {
        self.check_not_lent()?;
        let (answer, conversation) = auth::answer(answer)?;
        self.conversation = conversation;
        self.advance(py, |inner, state, now| inner.handle_answer(&mut state.client, answer, now));
        Ok(())
    }

    /// Called when `question` raised: the exchange is done, and its result raises the same exception.
    fn handle_no_answer(&mut self, py: Python<'_>, error: Py<PyAny>) {
        self.cause = Some(error);
        self.advance(py, |inner, state, now| inner.handle_no_answer(&mut state.client, now));
    }

    /// Called when a whole message has arrived on the link.
    fn handle_reply(&mut self, py: Python<'_>) -> PyResult<()> {
        self.check_not_lent()?;
        self.take_reply(py)
    }

    /// Called when the message was sent: the exchange is at READ if a reply is expected, otherwise done.
    fn handle_sent(&mut self, py: Python<'_>) -> PyResult<()> {
        self.check_not_lent()?;
        self.sent(py);
        Ok(())
    }

    /// Called when the received bytes cannot be a message.
    pub(crate) fn handle_protocol_error(&mut self, py: Python<'_>, message: &str) {
        self.advance(py, |inner, state, now| inner.handle_protocol_error(&mut state.client, message, now));
    }

    /// Called when the connection broke, could not be opened, or (`timed_out`) did not answer in time.
    #[pyo3(signature = (error, timed_out=false))]
    fn handle_network_error(&mut self, error: &Bound<'_, PyAny>, timed_out: bool) {
        self.network_error(error.py(), &PyErr::from_value(error.clone()), timed_out);
    }

    /// Called when the link is stale and nothing was sent: takes another one.
    pub(crate) fn handle_link_lost(&mut self, py: Python<'_>) -> PyResult<()> {
        self.check_not_lent()?;
        self.advance(py, |inner, state, now| inner.handle_link_lost(&mut state.client, now));
        Ok(())
    }

    /// Give up a place in a queue that others may need, unless the message was sent; nothing drives the exchange until
    /// `resume`.
    fn step_aside(&mut self, py: Python<'_>) {
        if matches!(self.inner.step(), Step::Wait | Step::Connect) {
            self.advance(py, |inner, state, now| inner.step_aside(&mut state.client, now));
            self.place = None;
        }
    }

    /// Continue after `step_aside`.
    fn resume(&mut self, py: Python<'_>) {
        if self.inner.step() == Step::Wait {
            self.advance(py, |inner, state, now| inner.resume(&mut state.client, now));
        }
    }

    /// Called when a connection may have become free.
    pub(crate) fn handle_wake(&mut self, py: Python<'_>) {
        self.advance(py, |inner, state, now| inner.handle_wake(&mut state.client, now));
    }

    /// Called when the time of `time_left` is over.
    pub(crate) fn handle_timeout(&mut self, py: Python<'_>) {
        self.advance(py, |inner, state, now| inner.handle_timeout(&mut state.client, now));
    }

    /// Give up what it holds; a connection whose reply is outstanding is closed. Does nothing once done.
    pub(crate) fn close(&mut self, py: Python<'_>) {
        self.place = None;
        self.end_lost_cursor();
        if self.is_over() || self.is_held() {
            return;
        }
        let is_kept = self.inner.keeps_link() && !std::mem::replace(&mut self.has_handed_over, true);
        let id = self.inner.id();
        let mut waker = None;
        self.advance(py, |inner, state, now| {
            waker = state.wakers.remove(&id);
            inner.give_up(&mut state.client, is_kept, now);
        });
        lost::note(&self.inner);
    }

    /// Return the answer in the form that the operation requested, or raise its error; the exchange itself if its reply
    /// is withheld.
    fn result(slf: &Bound<'_, Self>) -> PyResult<Py<PyAny>> {
        let outcome = slf.try_borrow_mut()?.outcome(slf.py());
        outcome.unwrap_or_else(|| Ok(slf.clone().into_any().unbind()))
    }

    /// The bytes of the withheld reply; None if there is none, or if it reports that the command failed.
    #[getter]
    fn held_reply(&self, py: Python<'_>) -> PyResult<Option<Py<PyAny>>> {
        if self.reply.is_empty() || self.inner.failure().is_some() {
            return Ok(None);
        }
        Ok(Some(codec::bytes_of(py, self.body(py)?.as_bytes())?.into_any().unbind()))
    }

    /// Return the withheld answer, read from the reply, or from `body` instead. `reading`: the result of
    /// `Operation.hold`.
    #[pyo3(signature = (reading, body=None))]
    fn release(&mut self, py: Python<'_>, reading: usize, body: Option<&[u8]>) -> PyResult<Py<PyAny>> {
        self.reading = operation::reading(reading)?;
        if let Some(body) = body {
            let broken = |error: ProtocolError| failure::protocol_error(py, error);
            let message = with_body(&self.reply, body).map_err(broken)?;
            self.inner.read_again(read_reply(&message).map_err(broken)?.body).map_err(broken)?;
            self.reply = message;
        }
        self.answer(py)
    }

    fn __len__(&self) -> usize {
        self.outbound().len()
    }

    /// Lends the message to send.
    ///
    /// # Safety
    /// Called by the interpreter with a valid view.
    unsafe fn __getbuffer__(slf: Bound<'_, Self>, view: *mut ffi::Py_buffer, flags: c_int) -> PyResult<()> {
        let mut exchange = slf.try_borrow_mut()?;
        // SAFETY: the message stays where it is until it is stamped again, which only `handle_*` does, and those refuse
        // while a view is lent; the view holds a reference to the exchange.
        unsafe { lend(slf.as_any(), exchange.outbound(), view, flags) }?;
        exchange.lent += 1;
        Ok(())
    }

    /// Takes back the message.
    ///
    /// # Safety
    /// Called by the interpreter with a view from `__getbuffer__`.
    unsafe fn __releasebuffer__(&mut self, _view: *mut ffi::Py_buffer) {
        self.lent = self.lent.saturating_sub(1);
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.link)?;
        visit.call(&self.answer)?;
        if let Some(maker) = &self.maker {
            maker.traverse(&visit)?;
        }
        visit.call(&self.cause)?;
        visit.call(&self.conversation)
    }

    fn __clear__(&mut self) {
        self.cause = None;
        self.conversation = None;
    }
}

/// Fills in a read-only view of `bytes`, which `owner` holds.
///
/// # Safety
/// `view` is valid, and `bytes` stay where they are for as long as the view is lent.
pub unsafe fn lend(
    owner: &Bound<'_, PyAny>,
    bytes: &[u8],
    view: *mut ffi::Py_buffer,
    flags: c_int,
) -> PyResult<()> {
    let (start, length) = (bytes.as_ptr().cast_mut().cast(), bytes.len() as ffi::Py_ssize_t);
    // SAFETY: the caller promises a valid view and bytes that stay; the view takes a reference of its own to the owner, which
    // so outlives it, and is read-only.
    let outcome = unsafe { ffi::PyBuffer_FillInfo(view, owner.as_ptr(), start, length, 1, flags) };
    if outcome == 0 {
        return Ok(());
    }
    Err(PyErr::take(owner.py())
        .unwrap_or_else(|| PyRuntimeError::new_err("expected a buffer to be filled in, got no reason")))
}

fn seconds(span: Duration) -> f64 {
    span.as_secs_f64()
}
