//! A plain socket's calls, with their time limits and results. Knows no exchange and no connection; the system calls
//! are in `posix.rs` and `windows.rs`, which offer the same functions.

#[cfg_attr(not(windows), path = "posix.rs")]
#[cfg_attr(windows, path = "windows.rs")]
mod system;

use std::io;
use std::time::{Duration, Instant};

use system::{TO_RECEIVE, TO_SEND, receive, send, wait_for};
pub use system::{has_ended, prepare, receive_both};

use mangonel_proto::error::ProtocolError;
use pyo3::prelude::*;

/// The result of one system call.
pub enum Progress {
    Moved(usize),
    WouldBlock,
    Interrupted,
}

/// When a call must return.
#[derive(Clone, Copy, PartialEq)]
pub enum When {
    /// At once, though the socket may block.
    Now,
    /// Once some bytes were moved, if the socket blocks.
    Ready,
}

/// Reads the result of a system call.
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

/// How long a call may wait before it checks for signals. A signal between the last check and the call, or one in
/// another thread, does not interrupt the call.
const LONGEST_WAIT: Duration = Duration::from_secs(1);

/// A plain socket, and its time limits.
#[derive(Clone, Copy)]
pub struct Socket {
    pub fd: i32,
    /// The time by which the message must be sent, or the whole reply received. A peer that sends a byte at a time
    /// gains no time by it.
    pub until: Option<Instant>,
    /// How long the reply may take once the message is sent; `None`: `until` applies to both.
    pub reply_timeout: Option<Duration>,
}

/// The result of a conversation, or of a part of it.
pub enum Ended {
    /// Everything was sent, or a whole message has arrived.
    Whole,
    Closed,
    TimedOut,
    /// A signal must be handled before continuing; or there is no more data for now.
    Interrupted,
    Failed(io::Error),
    /// Python code raised, for example an `ssl.SSLError`.
    Raised(PyErr),
    Broken(ProtocolError),
}

impl Socket {
    /// A socket whose message and reply may each take `timeout`, or both together if `is_limited`.
    pub fn new(fd: i32, timeout: Option<Duration>, is_limited: bool) -> Socket {
        let until = timeout.map(|timeout| Instant::now() + timeout);
        Socket { fd, until, reply_timeout: if is_limited { None } else { timeout } }
    }

    /// Starts the time limit of the reply.
    pub fn await_reply(&mut self) {
        if let Some(timeout) = self.reply_timeout.take() {
            self.until = Some(Instant::now() + timeout);
        }
    }

    /// Sends everything, and shortens `outbound` by the sent bytes.
    pub fn send_all(self, outbound: &mut &[u8]) -> Ended {
        // Without a timeout the call itself may block; with one, only the poll may, since it has a time limit.
        let when = if self.until.is_some() { When::Now } else { When::Ready };
        while !outbound.is_empty() {
            match send(self.fd, outbound, when) {
                Ok(Progress::Moved(count)) => *outbound = &outbound[count..],
                Ok(Progress::WouldBlock) => match self.wait_for(TO_SEND) {
                    Ended::Whole => {}
                    other => return other,
                },
                Ok(Progress::Interrupted) => return Ended::Interrupted,
                Err(error) => return Ended::Failed(error),
            }
        }
        Ended::Whole
    }

    /// Receives some bytes into `window`, and sets `received` to their number.
    pub fn receive_some(self, window: &mut [u8], received: &mut usize) -> Ended {
        self.receive_by(&mut || receive(self.fd, window, When::Ready), received)
    }

    /// Like `receive_some`, with another call.
    pub fn receive_by(
        self,
        receive: &mut dyn FnMut() -> io::Result<Progress>,
        received: &mut usize,
    ) -> Ended {
        let mut must_wait = self.until.is_some();
        loop {
            if must_wait {
                match self.wait_for(TO_RECEIVE) {
                    Ended::Whole => {}
                    other => return other,
                }
            }
            match receive() {
                Ok(Progress::Moved(0)) => return Ended::Closed,
                Ok(Progress::Moved(count)) => {
                    *received = count;
                    return Ended::Whole;
                }
                Ok(Progress::Interrupted) => return Ended::Interrupted,
                // No data for LONGEST_WAIT, or the socket does not block.
                Ok(Progress::WouldBlock) => must_wait = true,
                Err(error) => return Ended::Failed(error),
            }
        }
    }

    fn wait_for(self, events: i16) -> Ended {
        let left = self.until.map(|until| until.saturating_duration_since(Instant::now()));
        let is_last = left.is_some_and(|left| left <= LONGEST_WAIT);
        match wait_for(self.fd, events, left.unwrap_or(LONGEST_WAIT).min(LONGEST_WAIT)) {
            Ok(Progress::WouldBlock) if is_last => Ended::TimedOut,
            Ok(Progress::WouldBlock) => Ended::Interrupted,
            Ok(Progress::Interrupted) => Ended::Interrupted,
            Ok(Progress::Moved(_)) => Ended::Whole,
            Err(error) => Ended::Failed(error),
        }
    }
}

/// Runs `part` without the GIL, again after each signal; raises a signal handler's exception.
pub fn insist(py: Python<'_>, mut part: impl FnMut() -> Ended + Send) -> PyResult<Ended> {
    loop {
        match py.detach(&mut part) {
            Ended::Interrupted => py.check_signals()?,
            other => return Ok(other),
        }
    }
}

/// Sends the bytes that a non-blocking socket takes at once; returns their number.
pub fn send_now(fd: i32, bytes: &[u8]) -> io::Result<usize> {
    match send(fd, bytes, When::Now)? {
        Progress::Moved(count) => Ok(count),
        Progress::WouldBlock | Progress::Interrupted => Ok(0),
    }
}

/// Receives the bytes that have arrived, without waiting.
pub fn receive_now(fd: i32, window: &mut [u8]) -> io::Result<Progress> {
    receive(fd, window, When::Now)
}
