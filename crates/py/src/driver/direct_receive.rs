//! Receives the data of chunks directly at its destination while the rest of the reply arrives, so that nothing is
//! copied twice. Only on plain sockets; every other path reads the whole message and copies the data from it.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use mangonel_proto::chunk_filter::{ChunkFilter, FilterStep};
use mangonel_proto::error::ProtocolError;
use mangonel_proto::frame::Deframer;
use pyo3::prelude::*;

use super::chunks::ChunkTarget;
use super::socket::{Progress, When, receive_both};

/// A chunk filter, and the memory that it lays data into.
pub struct DirectReceive {
    filter: ChunkFilter,
    /// Keeps the memory in place.
    _target: Py<ChunkTarget>,
    start: usize,
    /// The end of the received data, shared with the target: bytes beyond it were never written.
    landed: Arc<AtomicUsize>,
    /// How many of the next bytes are data.
    direct: usize,
    /// How many bytes of the message went past the deframer.
    pub received_size: usize,
    /// Whether the filter does not apply; the deframer then has all received bytes.
    pub is_plain: bool,
}

impl DirectReceive {
    /// Makes a receiver that puts data into `target`, from `at` on.
    pub fn new(py: Python<'_>, target: &Py<ChunkTarget>, at: usize) -> PyResult<Self> {
        let (start, size, landed) = target.bind(py).try_borrow()?.memory();
        Ok(DirectReceive {
            filter: ChunkFilter::new(at, size),
            _target: target.clone_ref(py),
            start,
            landed,
            direct: 0,
            received_size: 0,
            is_plain: false,
        })
    }

    /// Receives once: data at its destination, other bytes into the filter.
    pub fn receive(&mut self, fd: i32, when: When) -> io::Result<Progress> {
        let place = std::ptr::with_exposed_provenance_mut(self.start + self.filter.place());
        // SAFETY: `direct` bytes at `place` lie in the target's memory, since a filter announces no more data than there
        // is room for behind its place, and the target releases the memory only when nothing is received into it.
        let moved = unsafe { receive_both(fd, place, self.direct, self.filter.window(), when) }?;
        if let Progress::Moved(count) = moved {
            let direct = count.min(self.direct);
            self.received_size += direct;
            self.filter.received(direct, count - direct);
        }
        Ok(moved)
    }

    /// Processes received bytes; whole messages go to `deframer`. Returns whether one is complete.
    pub fn take_in(&mut self, deframer: &mut Deframer) -> Result<bool, ProtocolError> {
        let mut is_whole = deframer.message().is_some();
        loop {
            match self.filter.poll() {
                FilterStep::Place(count) => {
                    let place = self.start + self.filter.place();
                    let ready = &self.filter.ready()[..count];
                    // SAFETY: `count` bytes fit behind the place, since the filter asks to place no more data than
                    // there is room for in the target's memory, which is released only when nothing is received into it.
                    // `ready` is the filter's own memory, so they do not overlap.
                    unsafe {
                        let place = std::ptr::with_exposed_provenance_mut::<u8>(place);
                        std::ptr::copy_nonoverlapping(ready.as_ptr(), place, count);
                    }
                    self.filter.placed(count);
                    self.received_size += count;
                }
                FilterStep::Receive(direct) => {
                    self.direct = direct;
                    self.landed.fetch_max(self.filter.place(), Ordering::Relaxed);
                    return Ok(is_whole);
                }
                FilterStep::Whole => {
                    is_whole = feed(deframer, &self.filter.take())?;
                }
                FilterStep::NoMemory => return Err(ProtocolError::out_of_memory(self.filter.length())),
                FilterStep::Plain => {
                    self.is_plain = true;
                    is_whole |= feed(deframer, &self.filter.take())?;
                    return feed(deframer, self.filter.ready()).map(|more| is_whole | more);
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
