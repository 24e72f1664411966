//! The fused paths: send and receive on a plain socket without the socket object, and release the GIL once. The slow
//! path, through `sendall` and `recv_into`, is their specification; the same tests run on both.

use std::time::Duration;

use mangonel_entries::entries;
use mangonel_proto::error::ProtocolError;
use mangonel_proto::frame::Deframer;
use pyo3::exceptions::PyTimeoutError;
use pyo3::prelude::*;

use super::core::Core;
use super::direct_receive::DirectReceive;
use super::exchange::Exchange;
use super::failure;
use super::link::Link;
use super::operation::Operation;
use super::socket::{Ended, Progress, Socket, When, insist, prepare, receive_now, send_now};
use super::waiter::Waiter;

/// One blocking conversation: everything out, then one whole message in.
struct Conversation<'a> {
    socket: Socket,
    outbound: &'a [u8],
    expects_reply: bool,
}

impl Conversation<'_> {
    fn run(&mut self, deframer: &mut Deframer, direct_receive: &mut Option<Box<DirectReceive>>) -> Ended {
        match self.socket.send_all(&mut self.outbound) {
            Ended::Whole => {}
            other => return other,
        }
        if !self.expects_reply || deframer.message().is_some() {
            return Ended::Whole;
        }
        self.socket.await_reply();
        loop {
            let mut count = 0;
            let socket = self.socket;
            let ended = match direct_receive {
                Some(direct_receive) => {
                    socket.receive_by(&mut || direct_receive.receive(socket.fd, When::Ready), &mut count)
                }
                None => socket.receive_some(deframer.window(), &mut count),
            };
            match ended {
                Ended::Whole => {}
                other => return other,
            }
            match arrived(deframer, direct_receive, count) {
                Ok(true) => return Ended::Whole,
                Ok(false) => {}
                Err(error) => return Ended::Broken(error),
            }
        }
    }
}

/// Processes the received bytes; returns whether a whole message has arrived.
fn arrived(
    deframer: &mut Deframer,
    direct_receive: &mut Option<Box<DirectReceive>>,
    count: usize,
) -> Result<bool, ProtocolError> {
    let Some(receiving) = direct_receive else { return deframer.received(count) };
    let is_whole = receiving.take_in(deframer);
    if receiving.is_plain {
        *direct_receive = None;
    }
    is_whole
}

/// Adds the functions of this module.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(transfer, module)?)?;
    module.add_function(wrap_pyfunction!(run_fused, module)?)?;
    module.add_function(wrap_pyfunction!(send_some, module)?)?;
    module.add_function(wrap_pyfunction!(receive_ready, module)?)
}

/// Do the steps WRITE and READ on a plain socket, blocking, until another step is due; return whether that is DONE.
/// Raise only exceptions of signal handlers, and MemoryError. Does nothing when `link.fd` is -1.
#[entries]
#[pyfunction]
fn transfer(exchange: &Bound<'_, Exchange>) -> PyResult<bool> {
    let mut borrowed = exchange.try_borrow_mut()?;
    converse(exchange.py(), &mut borrowed)
}

/// Begin an operation on a shard and run it as far as `transfer` can. Return its answer; or, if another step is due or
/// its reply is withheld, the exchange, which the caller drives on and closes. Raise the errors of `Exchange.result`
/// and `transfer`.
#[entries]
#[pyfunction]
fn run_fused(core: &Bound<'_, Core>, operation: &Bound<'_, Operation>, shard: u32) -> PyResult<Py<PyAny>> {
    let py = core.py();
    let mut exchange = Exchange::begin(core, operation, shard)?;
    let outcome = match converse(py, &mut exchange) {
        Ok(true) => exchange.outcome(py),
        Ok(false) => None,
        Err(error) => Some(Err(error)),
    };
    match outcome {
        Some(outcome) => {
            exchange.close(py);
            outcome
        }
        None => Ok(Py::new(py, exchange)?.into_any()),
    }
}

fn converse(py: Python<'_>, exchange: &mut Exchange) -> PyResult<bool> {
    while matches!(exchange.step(), super::exchange::WRITE | super::exchange::READ) {
        let Some(link) = exchange.link.as_ref().map(|link| link.clone_ref(py)) else { return Ok(false) };
        let link = link.bind(py);
        let is_read = exchange.step() == super::exchange::READ;
        if !is_read && link.try_borrow()?.is_stale() {
            exchange.handle_link_lost(py)?;
            continue;
        }
        exchange.announce(py);
        let (fd, mut deframer, mut tls, mut direct_receive) = {
            let mut link = link.try_borrow_mut()?;
            if link.fd < 0 {
                return Ok(false);
            }
            link.check_not_lent()?;
            if !link.is_prepared {
                link.is_prepared = prepare(link.fd);
            }
            (link.fd, link.enter(py), link.tls.take(), link.direct_receive.take())
        };
        let timeout = exchange.step_timeout().map(Duration::from_secs_f64);
        let expects_reply = exchange.expects_reply();
        let outbound = if is_read { &[][..] } else { exchange.outbound() };
        let socket = Socket::new(fd, timeout, exchange.is_limited());
        let ended = match &mut tls {
            None => {
                let mut conversation = Conversation { socket, outbound, expects_reply };
                insist(py, || conversation.run(&mut deframer, &mut direct_receive))
            }
            Some(tls) => tls.converse(py, socket, outbound, expects_reply, &mut deframer),
        };
        let ending = {
            let mut link = link.try_borrow_mut()?;
            link.tls = tls;
            link.direct_receive = direct_receive;
            link.leave(py, deframer)
        };
        Link::finish(py, ending);
        let ended = ended?;
        match ended {
            Ended::Whole if expects_reply => exchange.take_reply(py)?,
            Ended::Whole => exchange.sent(py),
            Ended::Closed => exchange.network_error(py, &failure::connection_closed(py), false),
            Ended::TimedOut => {
                // The socket module's own text; the core adds which limit it was.
                exchange.network_error(py, &PyTimeoutError::new_err("timed out"), true);
            }
            Ended::Failed(error) => exchange.network_error(py, &PyErr::from(error), false),
            Ended::Raised(error) => exchange.network_error(py, &error, false),
            Ended::Broken(error) if error.is_out_of_memory() => {
                return Err(failure::broken_message(py, &error));
            }
            Ended::Broken(error) => exchange.handle_protocol_error(py, &error.to_string()),
            Ended::Interrupted => {}
        }
    }
    Ok(exchange.step() == super::exchange::DONE)
}

/// How much of a message was sent without waiting.
pub enum Asked {
    /// All of it; this is the wait for its reply.
    All(Py<Waiter>),
    /// All of it, and it has no reply; or nothing, since its connection is stale. The next step is due.
    Next,
    /// This many bytes; the face sends the rest itself.
    Part(usize),
}

/// Sends as much of the current message as the socket takes at once; for asyncio. `waiter` begins the wait for its
/// reply.
pub fn ask(
    py: Python<'_>,
    exchange: &mut Exchange,
    waiter: impl FnOnce() -> PyResult<Py<Waiter>>,
) -> PyResult<Asked> {
    let Some(link) = exchange.link.as_ref().map(|link| link.clone_ref(py)) else { return Ok(Asked::Part(0)) };
    let link = link.bind(py);
    {
        let known = link.try_borrow()?;
        if known.is_stale() {
            drop(known);
            exchange.handle_link_lost(py)?;
            return Ok(Asked::Next);
        }
        // Without a descriptor the link is a stream, or was closed.
        if known.fd < 0 || known.has_message() {
            return Ok(Asked::Part(0));
        }
    }
    exchange.announce(py);
    let sent = send_from(py, exchange, link, 0)?;
    if sent < exchange.outbound().len() {
        return Ok(Asked::Part(sent));
    }
    if !exchange.expects_reply() {
        exchange.sent(py);
        return Ok(Asked::Next);
    }
    let waiter = waiter()?;
    link.try_borrow_mut()?.waiter = Some(waiter.clone_ref(py));
    Ok(Asked::All(waiter))
}

/// Send as much as the socket takes at once, from `offset` on; return how much. For non-blocking plain sockets.
#[entries]
#[pyfunction]
fn send_some(exchange: &Bound<'_, Exchange>, offset: usize) -> PyResult<usize> {
    let py = exchange.py();
    if exchange.try_borrow()?.inner.is_announcement_due() {
        exchange.try_borrow_mut()?.announce(py);
    }
    let exchange = exchange.try_borrow()?;
    match &exchange.link {
        Some(link) => send_from(py, &exchange, link.bind(py), offset),
        None => Ok(0),
    }
}

fn send_from(py: Python<'_>, exchange: &Exchange, link: &Bound<'_, Link>, offset: usize) -> PyResult<usize> {
    let outbound = exchange.outbound().get(offset..).unwrap_or_default();
    let (fd, tls) = {
        let mut link = link.try_borrow_mut()?;
        (link.fd, link.tls.take())
    };
    let Some(mut tls) = tls else { return Ok(send_now(fd, outbound)?) };
    let sent = tls.send_some(py, fd, outbound);
    link.try_borrow_mut()?.tls = Some(tls);
    sent
}

/// Called when the socket is readable: receive the available bytes, and resolve the waiter once a message is complete.
///
/// Call `lose` when the server closed the connection or broke the protocol; the waiter then holds the exception.
#[entries]
#[pyfunction]
fn receive_ready(link: &Bound<'_, Link>, lose: &Bound<'_, PyAny>) -> PyResult<()> {
    let py = link.py();
    let ended = {
        let mut books = link.try_borrow_mut()?;
        books.check_not_lent()?;
        let fd = books.fd;
        if fd < 0 {
            // Not while borrowed: dropping it may use the link again.
            drop(books);
            return lose.call0().map(drop);
        }
        match books.tls.take() {
            None => {
                let mut direct_receive = books.direct_receive.take();
                let ended = receive_plain(fd, books.deframer(py), &mut direct_receive);
                books.direct_receive = direct_receive;
                ended
            }
            Some(mut tls) => {
                // Decrypting releases the GIL, so other threads may use the link meanwhile.
                let mut deframer = books.enter(py);
                drop(books);
                let ended = tls.receive_ready(py, fd, &mut deframer);
                let mut books = link.try_borrow_mut()?;
                books.tls = Some(tls);
                let ending = books.leave(py, deframer);
                drop(books);
                Link::finish(py, ending);
                ended
            }
        }
    };
    let error = match ended {
        Ended::Interrupted | Ended::TimedOut => return Ok(()),
        // If no operation waits for the message, `has_message` finds it later, or the link is not used again.
        Ended::Whole => None,
        Ended::Closed => Some(failure::connection_closed(py)),
        Ended::Failed(error) => Some(PyErr::from(error)),
        Ended::Raised(error) => Some(error),
        Ended::Broken(error) => Some(failure::broken_message(py, &error)),
    };
    let is_good = error.is_none();
    let waiter = link.try_borrow_mut()?.waiter.take();
    let resolved = waiter.map_or(Ok(()), |waiter| Waiter::resolve_now(waiter.bind(py), error));
    if is_good { resolved } else { lose.call0().and(resolved) }
}

fn receive_plain(fd: i32, deframer: &mut Deframer, direct_receive: &mut Option<Box<DirectReceive>>) -> Ended {
    let moved = match direct_receive {
        Some(direct_receive) => direct_receive.receive(fd, When::Now),
        None => receive_now(fd, deframer.window()),
    };
    match moved {
        Ok(Progress::WouldBlock | Progress::Interrupted) => Ended::Interrupted,
        Ok(Progress::Moved(0)) => Ended::Closed,
        Ok(Progress::Moved(count)) => match arrived(deframer, direct_receive, count) {
            Ok(false) => Ended::Interrupted,
            Ok(true) => Ended::Whole,
            Err(error) => Ended::Broken(error),
        },
        Err(error) => Ended::Failed(error),
    }
}
