//! Receives the data of chunks where it belongs while the reply around it arrives, so that nothing is copied twice.
//! On plain sockets only; every other path reads the whole message, from which the data is copied.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use mangonel_proto::error::ProtocolError;
use mangonel_proto::frame::Deframer;
use mangonel_proto::sieve::{Sieve, Sifting};
use pyo3::prelude::*;

use super::chunks::ChunkTarget;
use super::transfer::{Progress, outcome};

/// A sieve, and the memory that it lays data into.
pub struct Siphon {
    sieve: Sieve,
    /// Keeps the memory where it is.
    _target: Py<ChunkTarget>,
    start: usize,
    /// End of what was laid, for the target to know: bytes beyond it were never written.
    landed: Arc<AtomicUsize>,
    /// How many of the next bytes are data.
    direct: usize,
    /// Whether what arrives is not for the sieve: it is given up, and the deframer has all that came.
    pub is_plain: bool,
}

impl Siphon {
    /// Makes one that lays data into `target`, from `at` on.
    pub fn new(py: Python<'_>, target: &Py<ChunkTarget>, at: usize) -> PyResult<Self> {
        let (start, size, landed) = target.bind(py).try_borrow()?.memory();
        Ok(Siphon {
            sieve: Sieve::new(at, size),
            _target: target.clone_ref(py),
            start,
            landed,
            direct: 0,
            is_plain: false,
        })
    }

    /// Receives once: data to its place, and what is between into the sieve.
    pub fn receive(&mut self, fd: i32, flags: i32) -> io::Result<Progress> {
        let place = self.start + self.sieve.place();
        let window = self.sieve.window();
        let mut parts = [
            libc::iovec { iov_base: std::ptr::with_exposed_provenance_mut(place), iov_len: self.direct },
            libc::iovec { iov_base: window.as_mut_ptr().cast(), iov_len: window.len() },
        ];
        // SAFETY: all-zero is a valid msghdr: no address, no control data.
        let mut header: libc::msghdr = unsafe { std::mem::zeroed() };
        header.msg_iov = parts.as_mut_ptr();
        header.msg_iovlen = 2;
        // SAFETY: the first part lies in the target's memory, since a sieve announces no more data than there is room
        // for behind its place, and the target lets go of the memory only when nothing lays into it; the second part
        // is the window.
        let moved = outcome(unsafe { libc::recvmsg(fd, &raw mut header, flags) })?;
        if let Progress::Moved(count) = moved {
            let direct = count.min(self.direct);
            self.sieve.received(direct, count - direct);
        }
        Ok(moved)
    }

    /// Looks at what was received; whole messages go to `deframer`. Returns whether it has one.
    pub fn sift(&mut self, deframer: &mut Deframer) -> Result<bool, ProtocolError> {
        let mut is_whole = deframer.message().is_some();
        loop {
            match self.sieve.poll() {
                Sifting::Place(count) => {
                    let place = self.start + self.sieve.place();
                    let ready = &self.sieve.ready()[..count];
                    // SAFETY: the place and `count` bytes behind it lie in the target's memory, as for `receive`.
                    unsafe {
                        let place = std::ptr::with_exposed_provenance_mut::<u8>(place);
                        std::ptr::copy_nonoverlapping(ready.as_ptr(), place, count);
                    }
                    self.sieve.placed(count);
                }
                Sifting::Receive(direct) => {
                    self.direct = direct;
                    self.landed.fetch_max(self.sieve.place(), Ordering::Relaxed);
                    return Ok(is_whole);
                }
                Sifting::Whole => {
                    is_whole = feed(deframer, &self.sieve.take())?;
                }
                Sifting::Plain => {
                    self.is_plain = true;
                    is_whole |= feed(deframer, &self.sieve.take())?;
                    return feed(deframer, self.sieve.ready()).map(|more| is_whole | more);
                }
            }
        }
    }
}

fn feed(deframer: &mut Deframer, mut bytes: &[u8]) -> Result<bool, ProtocolError> {
    let mut is_whole = deframer.message().is_some();
    while !bytes.is_empty() {
        let window = deframer.window();
        let count = window.len().min(bytes.len());
        window[..count].copy_from_slice(&bytes[..count]);
        bytes = &bytes[count..];
        is_whole = deframer.received(count)?;
    }
    Ok(is_whole)
}
