//! Reading: chunks in order from the batches of one cursor, checked, directly into the caller's memory.
//! Spec: gridfs.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use mangonel_bson::{RawDocument, RawValue};
use mangonel_entries::entries;
use mangonel_proto::chunk_filter::{LAID, Laid, read_laid};
use mangonel_proto::message::read_reply;
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use super::target::{ChunkTarget, Room};
use crate::driver::batch::{Batch, next_in};

/// Longer copies let other threads run meanwhile.
const LONG_COPY: usize = 256 * 1024;

/// One chunk document of a batch.
struct Chunk {
    n: i64,
    id: Option<[u8; 12]>,
    /// Where its data starts in the message.
    start: usize,
    end: usize,
    /// Where its data was received instead, and how much.
    laid: Option<(usize, usize)>,
}

impl Chunk {
    fn size(&self) -> usize {
        self.laid.map_or(self.end - self.start, |laid| laid.1)
    }
}

/// Bytes to copy from a message to a target.
struct Copy {
    message: Arc<Vec<u8>>,
    /// Their position in the message, and their number.
    at: usize,
    count: usize,
    /// How much the target held before.
    filled: usize,
    room: Room,
}

/// Reads a file's chunks in order out of the batches of one cursor, and checks each against the file's document.
#[pyclass(module = "mangonel._core")]
pub struct ChunkReader {
    chunk_size: u64,
    length: u64,
    /// The position in the file of the next byte to hand out.
    #[pyo3(get)]
    position: u64,
    /// The number that the next chunk document must have.
    #[pyo3(get, name = "next_chunk")]
    next: i64,
    /// The batch's message, the position of its next document, and the end of its documents. A long copy holds a
    /// reference to the message.
    message: Arc<Vec<u8>>,
    next_document: usize,
    documents_end: usize,
    /// How many of its documents were read, and the next documents whose data is not in the message.
    index: u32,
    laid: VecDeque<Laid>,
    /// Whether the next chunk was received to the wrong place, so that it must be requested again.
    #[pyo3(get)]
    is_misplaced: bool,
    /// The current chunk's data in the message: its start, the next byte, its end.
    start: usize,
    at: usize,
    end: usize,
    first_id: Option<[u8; 12]>,
    last_id: Option<[u8; 12]>,
    /// Whether chunks of another writer may be among those read, so that the file's document must be read again.
    #[pyo3(get)]
    is_suspicious: bool,
    fault: Option<String>,
}

impl ChunkReader {
    fn chunk_count(&self) -> i64 {
        self.length.div_ceil(self.chunk_size) as i64
    }

    fn expected_size(&self, n: i64) -> u64 {
        (self.length - n as u64 * self.chunk_size).min(self.chunk_size)
    }

    /// Reads the next chunk document of the batch, without comparing it with the file.
    fn next_chunk_document(&mut self) -> Option<Result<Chunk, String>> {
        match next_in(&self.message, self.next_document, self.documents_end) {
            Ok(Some(range)) => {
                self.next_document = range.end;
                let mut chunk = read_chunk(&self.message, range);
                let laid = self.laid.pop_front_if(|laid| laid.index == self.index);
                self.index += 1;
                if let (Ok(chunk), Some(laid)) = (&mut chunk, laid) {
                    chunk.laid = Some((usize::try_from(laid.at).unwrap_or(usize::MAX), laid.size as usize));
                }
                Some(chunk)
            }
            Ok(None) => None,
            Err(found) => {
                self.next_document = self.documents_end;
                Some(Err(format!("expected a document, got {found}")))
            }
        }
    }

    /// Moves to the next chunk; returns whether there is one. Stops at a damaged chunk, which `fault` describes.
    fn advance(&mut self, target: Option<&mut ChunkTarget>) -> bool {
        if self.fault.is_some() || self.is_misplaced || self.next >= self.chunk_count() {
            return false;
        }
        let expected = self.next;
        let Some(found) = self.next_chunk_document() else { return false };
        let chunk = match found {
            Ok(chunk) => chunk,
            Err(why) => {
                self.fault = Some(format!("chunk #{expected}: {why}"));
                return false;
            }
        };
        let (size, whole) = (chunk.size() as u64, self.expected_size(expected));
        if chunk.n != expected {
            self.fault =
                Some(format!("missing chunk: expected chunk #{expected}, got chunk with n={}", chunk.n));
        } else if size < whole {
            self.fault = Some(format!("truncated chunk #{expected}: expected {whole} bytes, got {size}"));
        } else if size > whole {
            self.fault = Some(format!("oversized chunk #{expected}: expected {whole} bytes, got {size}"));
        }
        if self.fault.is_some() {
            return false;
        }
        self.look_at_id(chunk.id);
        let skipped = self.position - expected as u64 * self.chunk_size;
        if let Some((at, size)) = chunk.laid {
            return self.accept(at, size, skipped, target);
        }
        self.start = chunk.start;
        self.at = chunk.start + skipped as usize;
        self.end = chunk.end;
        self.next = expected + 1;
        true
    }

    /// Accepts a chunk whose data was received at its destination; if it was not, the chunk must be read again.
    fn accept(&mut self, at: usize, size: usize, skipped: u64, target: Option<&mut ChunkTarget>) -> bool {
        let Some(target) = target.filter(|target| {
            let end = at.saturating_add(size);
            skipped == 0
                && at == target.filled
                && end <= target.landed.load(Ordering::Relaxed).min(target.size)
        }) else {
            self.is_misplaced = true;
            return false;
        };
        target.filled += size;
        self.position += size as u64;
        (self.start, self.at, self.end) = (0, 0, 0);
        self.next += 1;
        true
    }

    /// A writer gives its chunks consecutive ids. Another order is allowed, but may mean that the file was replaced
    /// during the read.
    fn look_at_id(&mut self, id: Option<[u8; 12]>) {
        let is_first = self.last_id.is_none() && id.is_some() && !self.is_suspicious;
        let follows = is_first || is_next(self.last_id, id);
        if is_first {
            self.first_id = id;
        }
        self.last_id = id;
        self.is_suspicious |= !follows;
    }

    /// Finds the next bytes to copy; `None` when the target is full or the batch used up.
    fn next_copy(&mut self, target: &mut ChunkTarget) -> Option<Copy> {
        while target.filled < target.size {
            if self.left() > 0 {
                let count = self.left().min(target.size - target.filled);
                let message = Arc::clone(&self.message);
                return Some(Copy {
                    message,
                    at: self.at,
                    count,
                    filled: target.filled,
                    room: target.room(),
                });
            }
            if !self.advance(Some(target)) {
                return None;
            }
        }
        None
    }

    fn left(&self) -> usize {
        self.end - self.at
    }

    fn hand_out(&mut self, count: usize) {
        self.at += count;
        self.position += count as u64;
    }
}

/// Whether one writer may have made the two ids one after the other.
fn is_next(last: Option<[u8; 12]>, id: Option<[u8; 12]>) -> bool {
    let (Some(last), Some(id)) = (last, id) else { return false };
    last[4..9] == id[4..9] && counter(&id) == (counter(&last) + 1) & 0xff_ffff
}

fn counter(id: &[u8; 12]) -> u32 {
    u32::from_be_bytes([0, id[9], id[10], id[11]])
}

fn read_chunk(message: &[u8], range: std::ops::Range<usize>) -> Result<Chunk, String> {
    let offset = range.start;
    let bytes = message.get(range).unwrap_or_default();
    let document = RawDocument::from_bytes(bytes).map_err(|error| error.to_string())?;
    let (mut n, mut id, mut data) = (None, None, None);
    for element in document.iter() {
        let element = element.map_err(|error| error.to_string())?;
        match (element.key, element.value) {
            ("_id", RawValue::ObjectId(value)) => id = Some(value.bytes()),
            ("n", value) => n = value.as_i64_lenient(),
            ("data", RawValue::Binary(binary)) => {
                // The data borrows from the message, so the distance of the two is its offset.
                let start = offset + (binary.bytes.as_ptr() as usize - bytes.as_ptr() as usize);
                data = Some((start, start + binary.bytes.len()));
            }
            ("data", other) => return Err(format!("expected binary data, got {other}")),
            _ => {}
        }
    }
    let n = n.ok_or("expected an integer n, got none")?;
    let (start, end) = data.ok_or("expected binary data, got none")?;
    Ok(Chunk { n, id, start, end, laid: None })
}

#[entries]
#[pymethods]
impl ChunkReader {
    /// `chunk_size` and `length`: from the file's own document. `position`: the first byte to read.
    #[new]
    fn new(chunk_size: u64, length: u64, position: u64) -> PyResult<Self> {
        if chunk_size == 0 || chunk_size > i32::MAX as u64 || length > i64::MAX as u64 {
            return Err(PyValueError::new_err(format!(
                "expected a file of chunks of 1 to {} bytes, got chunkSize {chunk_size} and length {length}",
                i32::MAX
            )));
        }
        Ok(ChunkReader {
            chunk_size,
            length,
            position,
            next: (position / chunk_size) as i64,
            message: Arc::default(),
            next_document: 0,
            documents_end: 0,
            index: 0,
            laid: VecDeque::new(),
            is_misplaced: false,
            start: 0,
            at: 0,
            end: 0,
            first_id: None,
            last_id: None,
            is_suspicious: false,
            fault: None,
        })
    }

    /// How many bytes of the current chunk are left.
    #[getter]
    fn ready(&self) -> usize {
        self.left()
    }

    /// The fault of the chunk at which reading stopped, or None.
    #[getter]
    fn fault(&self) -> Option<&str> {
        self.fault.as_deref()
    }

    /// Forget the batch: the next one begins with the expected chunk.
    fn restart(&mut self) {
        self.is_misplaced = false;
        self.next_document = self.documents_end;
        self.last_id = None;
    }

    /// Whether its first chunk was written right after the last one that `earlier` read.
    fn continues(&self, earlier: PyRef<'_, Self>) -> bool {
        is_next(earlier.last_id, self.first_id)
    }

    /// Trust the chunks of the current batch: the file was not replaced.
    fn clear_suspicion(&mut self) {
        self.is_suspicious = false;
    }

    /// Read from the documents of `batch` from now on; it is empty afterwards.
    fn take(&mut self, batch: &Bound<'_, Batch>) -> PyResult<()> {
        let (message, next_document, documents_end) = batch.try_borrow_mut()?.take_documents();
        (self.message, self.next_document, self.documents_end) =
            (Arc::new(message), next_document, documents_end);
        (self.start, self.at, self.end) = (0, 0, 0);
        let body =
            read_reply(&self.message).ok().and_then(|reply| reply.body.get_binary(LAID).ok().flatten());
        self.laid = body.map(|entries| read_laid(entries.bytes).into()).unwrap_or_default();
        self.index = 0;
        Ok(())
    }

    /// Copy the batch's bytes into `target`, as many as fit; return their number.
    ///
    /// # Errors
    /// `RuntimeError`: another thread read from it in the meantime.
    fn pour(slf: &Bound<'_, Self>, target: &Bound<'_, ChunkTarget>) -> PyResult<usize> {
        let before = target.try_borrow()?.filled;
        loop {
            let next = slf.try_borrow_mut()?.next_copy(&mut *target.try_borrow_mut()?);
            let Some(copy) = next else { break };
            let (message, from, count) = (&copy.message, copy.at, copy.count);
            let source = &message[from..from + count];
            // Neither object is borrowed here, so that another thread can use either.
            if count > LONG_COPY {
                slf.py().detach(|| copy.room.fill(source));
            } else {
                copy.room.fill(source);
            }
            let (mut reader, mut target) = (slf.try_borrow_mut()?, target.try_borrow_mut()?);
            if reader.at != from || target.filled != copy.filled || !Arc::ptr_eq(&reader.message, message) {
                return Err(PyRuntimeError::new_err(
                    "expected one reader of a file's chunks, got two at once",
                ));
            }
            target.filled += count;
            reader.hand_out(count);
        }
        Ok(target.try_borrow()?.filled - before)
    }

    /// Go to the next chunk of the batch, if nothing is left of the current one; return whether there is one.
    #[pyo3(name = "advance")]
    fn go_on(&mut self) -> bool {
        self.left() > 0 || self.advance(None)
    }

    /// Return the rest of the current chunk, or the next one of the batch, at most `limit` bytes; None when the
    /// batch is used up.
    #[pyo3(signature = (limit=None))]
    fn piece<'py>(&mut self, py: Python<'py>, limit: Option<usize>) -> Option<Bound<'py, PyBytes>> {
        if self.left() == 0 && !self.advance(None) {
            return None;
        }
        let count = self.left().min(limit.unwrap_or(usize::MAX));
        let bytes = PyBytes::new(py, &self.message[self.at..self.at + count]);
        self.hand_out(count);
        Some(bytes)
    }

    /// Return the bytes up to a line's end, or `limit` of them; None if the current chunk holds less.
    fn line<'py>(&mut self, py: Python<'py>, limit: usize) -> Option<Bound<'py, PyBytes>> {
        let rest = &self.message[self.at..self.end];
        let within = &rest[..rest.len().min(limit)];
        let count = match memchr::memchr(b'\n', within) {
            Some(place) => place + 1,
            None if within.len() == limit && limit > 0 => limit,
            None => return None,
        };
        let bytes = PyBytes::new(py, &rest[..count]);
        self.hand_out(count);
        Some(bytes)
    }

    /// Move to `position` if the current batch contains it; return whether it does.
    fn move_to(&mut self, position: u64) -> bool {
        loop {
            let first = self.position - (self.at - self.start) as u64;
            let size = (self.end - self.start) as u64;
            if size > 0 && (first..first + size).contains(&position) {
                self.at = self.start + (position - first) as usize;
                self.position = position;
                return true;
            }
            if position < first {
                return false;
            }
            let rest = self.left();
            self.hand_out(rest);
            if !self.advance(None) {
                return false;
            }
        }
    }

    /// Check the batch after the last chunk: an empty chunk is ignored, any other is a fault.
    fn check_rest(&mut self) {
        while self.fault.is_none()
            && let Some(found) = self.next_chunk_document()
        {
            let count = self.chunk_count();
            match found {
                Ok(chunk) if chunk.size() == 0 => {}
                Ok(chunk) => {
                    self.fault = Some(format!(
                        "extra chunk: expected {count} chunks, got chunk with n={} and {} bytes",
                        chunk.n,
                        chunk.size()
                    ));
                }
                Err(why) => self.fault = Some(format!("extra chunk behind the {count} expected: {why}")),
            }
        }
    }
}
