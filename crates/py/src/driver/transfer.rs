//! The fused paths: send and receive on a plain socket without the socket object, the interpreter lock released once.
//! The slow path, through `sendall` and `recv_into`, stays their specification; the same tests run on both.

use std::io;
use std::time::Duration;

use mangonel_proto::frame::Deframer;
use pyo3::exceptions::PyTimeoutError;
use pyo3::prelude::*;

use super::exchange::Exchange;
use super::failure;
use super::link::Link;
use super::waiter::Waiter;

/// What one system call came to.
enum Progress {
    Moved(usize),
    WouldBlock,
    Interrupted,
}

fn outcome(moved: isize) -> io::Result<Progress> {
    if let Ok(count) = usize::try_from(moved) {
        return Ok(Progress::Moved(count));
    }
    let error = io::Error::last_os_error();
    match error.kind() {
        io::ErrorKind::WouldBlock => Ok(Progress::WouldBlock),
        io::ErrorKind::Interrupted => Ok(Progress::Interrupted),
        _ => Err(error),
    }
}

fn send(fd: i32, bytes: &[u8], flags: i32) -> io::Result<Progress> {
    // SAFETY: `bytes` is a live slice for the time of the call.
    outcome(unsafe { libc::send(fd, bytes.as_ptr().cast(), bytes.len(), flags | libc::MSG_NOSIGNAL) })
}

fn receive(fd: i32, window: &mut [u8], flags: i32) -> io::Result<Progress> {
    // SAFETY: `window` is a live, exclusive slice for the time of the call.
    outcome(unsafe { libc::recv(fd, window.as_mut_ptr().cast(), window.len(), flags) })
}

/// Tells whether the peer has closed the line or sent something that nobody waits for.
pub fn has_ended(fd: i32) -> bool {
    !matches!(receive(fd, &mut [0], libc::MSG_PEEK | libc::MSG_DONTWAIT), Ok(Progress::WouldBlock))
}

/// Waits until the socket is ready for `events`, or the time is over; returns whether it is ready.
fn wait_for(fd: i32, events: i16, timeout: Option<Duration>) -> io::Result<Progress> {
    let milliseconds =
        timeout.map_or(-1, |timeout| i32::try_from(timeout.as_millis().max(1)).unwrap_or(i32::MAX));
    let mut entry = libc::pollfd { fd, events, revents: 0 };
    // SAFETY: `entry` is one live pollfd, as the count says.
    let ready = unsafe { libc::poll(&raw mut entry, 1, milliseconds) };
    match outcome(ready as isize)? {
        Progress::Moved(0) => Ok(Progress::WouldBlock),
        other => Ok(other),
    }
}

/// One blocking conversation: everything out, then one whole message in.
struct Conversation<'a> {
    fd: i32,
    outbound: &'a [u8],
    expects_reply: bool,
    timeout: Option<Duration>,
}

enum Ended {
    Whole,
    Closed,
    TimedOut,
    Interrupted,
    Failed(io::Error),
    Broken(String),
}

impl Conversation<'_> {
    fn run(&mut self, deframer: &mut Deframer) -> Ended {
        // Without a time-out the call itself may block; with one, only the poll may, for it knows when to stop.
        let flags = if self.timeout.is_some() { libc::MSG_DONTWAIT } else { 0 };
        while !self.outbound.is_empty() {
            match send(self.fd, self.outbound, flags) {
                Ok(Progress::Moved(count)) => self.outbound = &self.outbound[count..],
                Ok(Progress::WouldBlock) => match wait_for(self.fd, libc::POLLOUT, self.timeout) {
                    Ok(Progress::WouldBlock) => return Ended::TimedOut,
                    Ok(Progress::Interrupted) => return Ended::Interrupted,
                    Ok(Progress::Moved(_)) => {}
                    Err(error) => return Ended::Failed(error),
                },
                Ok(Progress::Interrupted) => return Ended::Interrupted,
                Err(error) => return Ended::Failed(error),
            }
        }
        if !self.expects_reply || deframer.message().is_some() {
            return Ended::Whole;
        }
        loop {
            if self.timeout.is_some() {
                match wait_for(self.fd, libc::POLLIN, self.timeout) {
                    Ok(Progress::WouldBlock) => return Ended::TimedOut,
                    Ok(Progress::Interrupted) => return Ended::Interrupted,
                    Ok(Progress::Moved(_)) => {}
                    Err(error) => return Ended::Failed(error),
                }
            }
            match receive(self.fd, deframer.window(), 0) {
                Ok(Progress::Moved(0)) => return Ended::Closed,
                Ok(Progress::Moved(count)) => match deframer.received(count) {
                    Ok(true) => return Ended::Whole,
                    Ok(false) => {}
                    Err(error) => return Ended::Broken(error.to_string()),
                },
                Ok(Progress::Interrupted) => return Ended::Interrupted,
                Ok(Progress::WouldBlock) => match wait_for(self.fd, libc::POLLIN, self.timeout) {
                    Ok(Progress::WouldBlock) => return Ended::TimedOut,
                    Ok(Progress::Interrupted) => return Ended::Interrupted,
                    Ok(Progress::Moved(_)) => {}
                    Err(error) => return Ended::Failed(error),
                },
                Err(error) => return Ended::Failed(error),
            }
        }
    }
}

/// Adds the functions of this module.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(transfer, module)?)?;
    module.add_function(wrap_pyfunction!(send_some, module)?)?;
    module.add_function(wrap_pyfunction!(receive_ready, module)?)
}

/// Do the steps WRITE and READ on a plain socket, blocking, until another step is due; raise only what a signal
/// handler raises. The face uses it when `link.fd` is not -1.
#[pyfunction]
fn transfer(exchange: &Bound<'_, Exchange>) -> PyResult<()> {
    let py = exchange.py();
    let mut exchange = exchange.try_borrow_mut()?;
    while matches!(exchange.step(), super::exchange::WRITE | super::exchange::READ) {
        let Some(link) = exchange.link.as_ref().map(|link| link.clone_ref(py)) else { return Ok(()) };
        let link = link.bind(py);
        let is_read = exchange.step() == super::exchange::READ;
        if !is_read && link.try_borrow()?.is_stale() {
            exchange.handle_link_lost(py)?;
            continue;
        }
        exchange.announce(py);
        let (fd, mut deframer) = {
            let mut link = link.try_borrow_mut()?;
            if link.fd < 0 {
                return Ok(());
            }
            link.check_not_lent()?;
            (link.fd, link.enter())
        };
        let timeout = exchange.line_timeout().map(Duration::from_secs_f64);
        let expects_reply = exchange.expects_reply();
        let outbound = if is_read { &[][..] } else { exchange.outbound() };
        let mut conversation = Conversation { fd, outbound, expects_reply, timeout };
        let ended = loop {
            match py.detach(|| conversation.run(&mut deframer)) {
                Ended::Interrupted => {
                    if let Err(error) = py.check_signals() {
                        break Err(error);
                    }
                }
                other => break Ok(other),
            }
        };
        let ending = link.try_borrow_mut()?.leave(py, deframer);
        Link::finish(py, ending);
        let ended = ended?;
        match ended {
            Ended::Whole if expects_reply => exchange.take_reply(py)?,
            Ended::Whole => exchange.sent(py),
            Ended::Closed => exchange.network_error(py, &failure::connection_closed(py), false),
            Ended::TimedOut => {
                let spent = timeout.unwrap_or_default().as_secs_f64();
                let error = PyTimeoutError::new_err(format!("the line was silent for {spent} s"));
                exchange.network_error(py, &error, true);
            }
            Ended::Failed(error) => exchange.network_error(py, &PyErr::from(error), false),
            Ended::Broken(message) => exchange.protocol_broken(py, &message),
            Ended::Interrupted => {}
        }
    }
    Ok(())
}

/// Send what the socket takes at once, from `offset` on; return how much. For non-blocking plain sockets.
#[pyfunction]
fn send_some(exchange: &Bound<'_, Exchange>, offset: usize) -> PyResult<usize> {
    let py = exchange.py();
    if exchange.try_borrow()?.inner.is_announcement_due() {
        exchange.try_borrow_mut()?.announce(py);
    }
    let exchange = exchange.try_borrow()?;
    let fd = exchange.link.as_ref().map_or(-1, |link| link.borrow(py).fd);
    let outbound = exchange.outbound().get(offset..).unwrap_or_default();
    match send(fd, outbound, libc::MSG_DONTWAIT) {
        Ok(Progress::Moved(count)) => Ok(count),
        Ok(Progress::WouldBlock | Progress::Interrupted) => Ok(0),
        Err(error) => Err(PyErr::from(error)),
    }
}

/// The socket is readable: receive what is there and resolve the waiter once a message is whole.
///
/// Return True while the connection is good. Return False when the server closed it or broke the protocol; the
/// waiter then holds the exception.
#[pyfunction]
fn receive_ready(link: &Bound<'_, Link>) -> PyResult<bool> {
    let py = link.py();
    let mut link = link.try_borrow_mut()?;
    link.check_not_lent()?;
    let fd = link.fd;
    if fd < 0 {
        return Ok(false);
    }
    let ended = match receive(fd, link.deframer.window(), libc::MSG_DONTWAIT) {
        Ok(Progress::WouldBlock | Progress::Interrupted) => return Ok(true),
        Ok(Progress::Moved(0)) => failure::connection_closed(py),
        Ok(Progress::Moved(count)) => match link.deframer.received(count) {
            Ok(false) => return Ok(true),
            Ok(true) => {
                let waiter = link.waiter.take();
                drop(link);
                // A message that nobody waits for is found by `has_message`, or makes the link unfit for reuse.
                if let Some(waiter) = waiter {
                    Waiter::resolve_now(waiter.bind(py), None)?;
                }
                return Ok(true);
            }
            Err(error) => failure::protocol_error(py, &error.to_string()),
        },
        Err(error) => PyErr::from(error),
    };
    let waiter = link.waiter.take();
    drop(link);
    if let Some(waiter) = waiter {
        Waiter::resolve_now(waiter.bind(py), Some(ended))?;
    }
    Ok(false)
}
