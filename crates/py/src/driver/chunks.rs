//! A stored file's chunks between messages and memory: read out of a batch straight into the caller's memory, and
//! packed into inserts straight from it. Makes no Python object per chunk; knows no command and waits for nothing.
//! Spec: gridfs.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use mangonel_bson::{RawDocument, RawValue};
use mangonel_proto::message::{Command, read_reply};
use mangonel_proto::sieve::{LAID, Laid, read_laid};
use pyo3::exceptions::{PyBufferError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList};
use pyo3::{buffer::PyBuffer, ffi};

use super::batch::{Batch, next_in};
use super::failure;
use super::operation::{Operation, Plan, session_choice};
use crate::codec::{self, Codec};

/// Copies of more than this let other threads run meanwhile.
const LONG_COPY: usize = 256 * 1024;

/// Results of at least this size are put on huge pages where the system has any: most of the cost of a large read is
/// the kernel's zeroing of its pages.
#[cfg(target_os = "linux")]
const HUGE_RESULT: usize = 4 * 1024 * 1024;

/// Adds this module's classes.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<ChunkTarget>()?;
    module.add_class::<ChunkReader>()?;
    module.add_class::<ChunkPacker>()
}

/// Memory that file bytes are read into: a new bytes object, or a writable buffer of the caller's.
#[pyclass(module = "mangonel._core")]
pub struct ChunkTarget {
    bytes: Option<Py<PyBytes>>,
    buffer: Option<PyBuffer<u8>>,
    whole: Option<Py<ChunkTarget>>,
    /// Address of the memory that one of the three above keeps alive.
    start: usize,
    size: usize,
    filled: usize,
    /// End of what was received into it directly. Whoever does that has a share of this.
    landed: Arc<AtomicUsize>,
    is_shared: bool,
}

impl ChunkTarget {
    /// Returns the memory's address and size, and where to note how far it was written to. The memory stays where it is
    /// for as long as that is kept.
    pub fn memory(&self) -> (usize, usize, Arc<AtomicUsize>) {
        (self.start, self.size, Arc::clone(&self.landed))
    }

    /// Returns the part that is not filled yet.
    ///
    /// # Safety
    /// The slice must not outlive `self`, and only one may exist at a time.
    unsafe fn room<'a>(&mut self) -> &'a mut [u8] {
        // SAFETY: `start` is the memory of `bytes` or `buffer`, `size` long, and `filled <= size`. Nobody else has the
        // bytes object before `finish`; a caller who uses his buffer while it is being read into gets what he asked for.
        unsafe {
            let start = std::ptr::with_exposed_provenance_mut::<u8>(self.start).add(self.filled);
            std::slice::from_raw_parts_mut(start, self.size - self.filled)
        }
    }
}

#[pymethods]
impl ChunkTarget {
    /// `memory`: the size of a new bytes object, or a writable buffer.
    #[new]
    fn new(memory: &Bound<'_, PyAny>) -> PyResult<Self> {
        let py = memory.py();
        if let Ok(size) = memory.extract::<usize>() {
            let length = ffi::Py_ssize_t::try_from(size)?;
            // SAFETY: asks for an uninitialised bytes object, which nobody sees before it was filled.
            let made = unsafe { ffi::PyBytes_FromStringAndSize(std::ptr::null(), length) };
            // SAFETY: a new reference, or NULL with an exception set.
            let bytes = unsafe { Bound::from_owned_ptr_or_err(py, made) }?.cast_into::<PyBytes>()?;
            // SAFETY: `made` is a live bytes object.
            let start = unsafe { ffi::PyBytes_AS_STRING(made) }.cast_mut().cast::<u8>();
            ask_for_huge_pages(start.expose_provenance(), size);
            return Ok(ChunkTarget {
                bytes: Some(bytes.unbind()),
                buffer: None,
                whole: None,
                start: start.expose_provenance(),
                size,
                filled: 0,
                landed: Arc::default(),
                is_shared: false,
            });
        }
        let (buffer, start, size) = match PyBuffer::<u8>::get(memory) {
            Ok(buffer) => {
                let (start, size) = (buffer.buf_ptr().expose_provenance(), buffer.len_bytes());
                (buffer, start, size)
            }
            Err(error) => return Err(error),
        };
        if buffer.readonly() || !buffer.is_c_contiguous() {
            return Err(PyBufferError::new_err("expected a writable buffer in one piece, found another"));
        }
        let landed = Arc::default();
        Ok(ChunkTarget {
            bytes: None,
            buffer: Some(buffer),
            whole: None,
            start,
            size,
            filled: 0,
            landed,
            is_shared: false,
        })
    }

    /// How many bytes it has room for in all.
    #[getter]
    fn size(&self) -> usize {
        self.size
    }

    /// How many bytes were read into it.
    #[getter]
    fn filled(&self) -> usize {
        self.filled
    }

    /// Return targets for parts of its memory: between each of `ends` and the one before it.
    fn split(slf: &Bound<'_, Self>, ends: Vec<usize>) -> PyResult<Vec<Self>> {
        let whole = slf.try_borrow()?;
        let mut begin = 0;
        let mut parts = Vec::with_capacity(ends.len());
        for end in ends {
            if end < begin || end > whole.size {
                return Err(PyValueError::new_err(format!(
                    "expected ends from {begin} to {} in order, found {end}",
                    whole.size
                )));
            }
            parts.push(ChunkTarget {
                bytes: None,
                buffer: None,
                whole: Some(slf.clone().unbind()),
                start: whole.start + begin,
                size: end - begin,
                filled: 0,
                landed: Arc::default(),
                is_shared: false,
            });
            begin = end;
        }
        Ok(parts)
    }

    /// Count what is in `parts`, which `split` returned, as filled, up to the first that is not full; let go of them.
    fn join(&mut self, parts: Vec<PyRefMut<'_, Self>>) -> PyResult<()> {
        for mut part in parts {
            // A connection that still receives into the part keeps the memory of all.
            let is_in_use = Arc::strong_count(&part.landed) > 1;
            self.is_shared |= is_in_use;
            self.filled += part.filled;
            let is_full = part.filled == part.size;
            if !is_in_use {
                (part.size, part.filled, part.whole) = (0, 0, None);
            }
            if !is_full {
                break;
            }
        }
        Ok(())
    }

    /// Return the bytes object, or the number of bytes read into the caller's buffer, and let go of both.
    fn finish(&mut self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let (filled, size) = (self.filled, self.size);
        if self.is_shared || Arc::strong_count(&self.landed) > 1 {
            // A connection may still receive into the memory: the target stays its owner.
            return match &self.bytes {
                None => Ok(filled.into_pyobject(py)?.into_any().unbind()),
                Some(bytes) => Ok(PyBytes::new(py, &bytes.as_bytes(py)[..filled]).into_any().unbind()),
            };
        }
        self.size = 0;
        self.filled = 0;
        self.buffer = None;
        match self.bytes.take() {
            None => Ok(filled.into_pyobject(py)?.into_any().unbind()),
            Some(bytes) if filled == size => Ok(bytes.into_any()),
            // What was not written to must not be seen.
            Some(bytes) => Ok(PyBytes::new(py, &bytes.as_bytes(py)[..filled]).into_any().unbind()),
        }
    }
}

#[cfg(target_os = "linux")]
fn ask_for_huge_pages(start: usize, size: usize) {
    const HUGE_PAGE: usize = 2 * 1024 * 1024;
    if size < HUGE_RESULT {
        return;
    }
    let first = start.next_multiple_of(HUGE_PAGE);
    let length = (start + size).saturating_sub(first) / HUGE_PAGE * HUGE_PAGE;
    // SAFETY: the range lies in memory that was just allocated; this is advice, and a refusal changes nothing.
    unsafe { libc::madvise(std::ptr::with_exposed_provenance_mut(first), length, libc::MADV_HUGEPAGE) };
}

#[cfg(not(target_os = "linux"))]
fn ask_for_huge_pages(_start: usize, _size: usize) {}

/// One chunk document of a batch.
struct Chunk {
    n: i64,
    id: Option<[u8; 12]>,
    /// Where its data stands in the message.
    start: usize,
    end: usize,
    /// Where its data was received to instead, and how much.
    laid: Option<(usize, usize)>,
}

impl Chunk {
    fn size(&self) -> usize {
        self.laid.map_or(self.end - self.start, |laid| laid.1)
    }
}

/// Reads a file's chunks in order out of the batches of one cursor, and checks each against what the file says.
#[pyclass(module = "mangonel._core")]
pub struct ChunkReader {
    chunk_size: u64,
    length: u64,
    /// Where in the file the next byte to hand out stands.
    position: u64,
    /// The number that the next chunk document must have.
    next: i64,
    /// The batch's message, where its next document stands, and where its documents end.
    message: Vec<u8>,
    next_document: usize,
    documents_end: usize,
    /// How many of its documents were read, and the next ones whose data is not in the message.
    index: u32,
    laid: VecDeque<Laid>,
    is_misplaced: bool,
    /// The current chunk's data in the message: its start, the next byte, its end.
    start: usize,
    at: usize,
    end: usize,
    first_id: Option<[u8; 12]>,
    last_id: Option<[u8; 12]>,
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
                Some(Err(format!("expected a document, found {found}")))
            }
        }
    }

    /// Goes on to the next chunk; returns whether there is one. A damaged one is none, and `fault` says why.
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
                Some(format!("missing chunk: expected chunk #{expected}, found chunk with n={}", chunk.n));
        } else if size < whole {
            self.fault = Some(format!("truncated chunk #{expected}: expected {whole} bytes, found {size}"));
        } else if size > whole {
            self.fault = Some(format!("oversized chunk #{expected}: expected {whole} bytes, found {size}"));
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

    /// Takes in a chunk whose data is in its place already; if it is not, the chunk has to be read again.
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

    /// One writer gives its chunks ids one after the other. Another order is no fault, but it is what a file looks like
    /// that was replaced while it was read.
    fn look_at_id(&mut self, id: Option<[u8; 12]>) {
        let is_first = self.last_id.is_none() && id.is_some() && !self.is_suspicious;
        let follows = is_first || is_next(self.last_id, id);
        if is_first {
            self.first_id = id;
        }
        self.last_id = id;
        self.is_suspicious |= !follows;
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
            ("data", other) => return Err(format!("expected binary data, found {other}")),
            _ => {}
        }
    }
    let n = n.ok_or("expected an integer n, found none")?;
    let (start, end) = data.ok_or("expected binary data, found none")?;
    Ok(Chunk { n, id, start, end, laid: None })
}

#[pymethods]
impl ChunkReader {
    /// `chunk_size` and `length`: what the file's own document says. `position`: the first byte to be read.
    #[new]
    fn new(chunk_size: u64, length: u64, position: u64) -> PyResult<Self> {
        if chunk_size == 0 || chunk_size > i32::MAX as u64 || length > i64::MAX as u64 {
            return Err(PyValueError::new_err(format!(
                "expected a file of chunks of 1 to {} bytes, found chunkSize {chunk_size} and length {length}",
                i32::MAX
            )));
        }
        Ok(ChunkReader {
            chunk_size,
            length,
            position,
            next: (position / chunk_size) as i64,
            message: Vec::new(),
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

    /// Where in the file the next byte stands.
    #[getter]
    fn position(&self) -> u64 {
        self.position
    }

    /// The number that the next chunk document must have.
    #[getter]
    fn next_chunk(&self) -> i64 {
        self.next
    }

    /// How many bytes of the current chunk are left.
    #[getter]
    fn ready(&self) -> usize {
        self.left()
    }

    /// What is wrong with the chunk at which reading stopped, or None.
    #[getter]
    fn fault(&self) -> Option<&str> {
        self.fault.as_deref()
    }

    /// Whether the next chunk was received to another place than it is wanted at, and has to be asked for again.
    #[getter]
    fn is_misplaced(&self) -> bool {
        self.is_misplaced
    }

    /// Forget the batch: the next one begins with the chunk that is due.
    fn restart(&mut self) {
        self.is_misplaced = false;
        self.next_document = self.documents_end;
        self.last_id = None;
    }

    /// Whether chunks of another writer may be among those read, so that the file has to be looked at again.
    #[getter]
    fn is_suspicious(&self) -> bool {
        self.is_suspicious
    }

    /// Whether its first chunk was written right after the last one that `earlier` read.
    fn continues(&self, earlier: PyRef<'_, Self>) -> bool {
        is_next(earlier.last_id, self.first_id)
    }

    /// Trust the chunks of the current batch: the file is what it was.
    fn clear_suspicion(&mut self) {
        self.is_suspicious = false;
    }

    /// Read from the documents of `batch` from now on; it is empty afterwards.
    fn take(&mut self, batch: &Bound<'_, Batch>) -> PyResult<()> {
        (self.message, self.next_document, self.documents_end) = batch.try_borrow_mut()?.take_documents();
        (self.start, self.at, self.end) = (0, 0, 0);
        let body =
            read_reply(&self.message).ok().and_then(|reply| reply.body.get_binary(LAID).ok().flatten());
        self.laid = body.map(|entries| read_laid(entries.bytes).into()).unwrap_or_default();
        self.index = 0;
        Ok(())
    }

    /// Copy what the batch has into `target`, as much as fits; return how much.
    fn pour(&mut self, py: Python<'_>, target: &Bound<'_, ChunkTarget>) -> PyResult<usize> {
        let mut target = target.try_borrow_mut()?;
        let before = target.filled;
        while target.filled < target.size {
            if self.left() == 0 {
                if !self.advance(Some(&mut target)) {
                    break;
                }
                if self.left() == 0 {
                    continue;
                }
            }
            // SAFETY: the slice is dropped before the target is touched again.
            let room = unsafe { target.room() };
            let count = self.left().min(room.len());
            let source = &self.message[self.at..self.at + count];
            if count > LONG_COPY {
                py.detach(|| room[..count].copy_from_slice(source));
            } else {
                room[..count].copy_from_slice(source);
            }
            target.filled += count;
            self.hand_out(count);
        }
        Ok(target.filled - before)
    }

    /// Go to the next chunk of the batch, if nothing is left of the current one; return whether there is one.
    #[pyo3(name = "advance")]
    fn go_on(&mut self) -> bool {
        self.left() > 0 || self.advance(None)
    }

    /// Return what is left of the current chunk, or the next one of the batch, at most `limit` bytes; None when the
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

    /// Return the bytes up to a line's end, or `limit` of them; None when the current chunk does not hold so much.
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

    /// Move to `position` if the current batch reaches so far; return whether it does.
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

    /// Look at what the batch has behind the last chunk: an empty chunk is none, any other is a fault.
    fn check_rest(&mut self) {
        while self.fault.is_none()
            && let Some(found) = self.next_chunk_document()
        {
            let count = self.chunk_count();
            match found {
                Ok(chunk) if chunk.size() == 0 => {}
                Ok(chunk) => {
                    self.fault = Some(format!(
                        "extra chunk: expected {count} chunks, found chunk with n={} and {} bytes",
                        chunk.n,
                        chunk.size()
                    ));
                }
                Err(why) => self.fault = Some(format!("extra chunk behind the {count} expected: {why}")),
            }
        }
    }
}

/// Packs bytes into chunk documents and these into inserts.
#[pyclass(module = "mangonel._core")]
pub struct ChunkPacker {
    /// The element `files_id`, encoded.
    files_id: Vec<u8>,
    chunk_size: usize,
    batch_size: usize,
    codec: Py<Codec>,
    /// The section that the next insert will carry; empty before its first chunk.
    sequence: Vec<u8>,
    /// Where the chunk that is being filled starts in it, and where its data does.
    open: Option<(usize, usize)>,
    count: usize,
    next: i32,
    length: u64,
    ids: Vec<[u8; 12]>,
}

impl ChunkPacker {
    fn begin_chunk(&mut self, py: Python<'_>) -> PyResult<()> {
        if self.sequence.is_empty() {
            self.sequence = Command::begin_sequence("documents", self.batch_size + 4096);
            self.count = 0;
        }
        let id = codec::generate_object_id(py)?;
        let out = &mut self.sequence;
        let start = mangonel_bson::begin_document(out);
        mangonel_bson::append_object_id(out, "_id", mangonel_bson::ObjectId::from_bytes(id));
        out.extend_from_slice(&self.files_id);
        mangonel_bson::append_i32(out, "n", self.next);
        mangonel_bson::append_binary(out, "data", 0, &[]);
        self.open = Some((start, out.len()));
        self.next = self
            .next
            .checked_add(1)
            .ok_or_else(|| PyValueError::new_err("expected at most 2147483647 chunks, found more"))?;
        self.ids.push(id);
        Ok(())
    }

    fn end_chunk(&mut self) {
        if let Some((start, data)) = self.open.take() {
            let size = (self.sequence.len() - data) as i32;
            // The length stands before the subtype, which stands before the data.
            self.sequence[data - 5..data - 1].copy_from_slice(&size.to_le_bytes());
            mangonel_bson::end_document(&mut self.sequence, start);
            self.count += 1;
        }
    }
}

#[pymethods]
impl ChunkPacker {
    /// `files_id`: a document of nothing but that. `batch_size`: the bytes that one insert may carry; it carries one
    /// chunk at least.
    #[new]
    fn new(
        py: Python<'_>,
        files_id: &Bound<'_, PyAny>,
        codec: Py<Codec>,
        chunk_size: usize,
        batch_size: usize,
    ) -> PyResult<Self> {
        if chunk_size == 0 || chunk_size > i32::MAX as usize / 2 {
            return Err(PyValueError::new_err(format!("expected a chunk size above 0, found {chunk_size}")));
        }
        let mut encoded = Vec::new();
        codec::encode_document(py, files_id, codec.get(), false, &mut encoded)?;
        let files_id = encoded.get(4..encoded.len() - 1).unwrap_or_default().to_vec();
        Ok(ChunkPacker {
            files_id,
            chunk_size,
            batch_size: batch_size.max(chunk_size),
            codec,
            sequence: Vec::new(),
            open: None,
            count: 0,
            next: 0,
            length: 0,
            ids: Vec::new(),
        })
    }

    /// Whether the next insert is due.
    #[getter]
    fn is_full(&self) -> bool {
        self.open.is_none()
            && !self.sequence.is_empty()
            && self.sequence.len() + self.chunk_size > self.batch_size
    }

    /// How many bytes were packed so far.
    #[getter]
    fn length(&self) -> u64 {
        self.length
    }

    /// How many bytes complete the chunk that is being filled.
    #[getter]
    fn room(&self) -> usize {
        self.open.map_or(self.chunk_size, |(_, data)| self.chunk_size - (self.sequence.len() - data))
    }

    /// The `_id` of every chunk packed so far.
    #[getter]
    fn ids<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let ids = PyList::empty(py);
        for id in &self.ids {
            ids.append(codec::object_id_of(py, *id)?)?;
        }
        Ok(ids)
    }

    /// Pack `data` from `start` on, until it ends or an insert is due; return where it stopped.
    fn write(&mut self, py: Python<'_>, data: PyBuffer<u8>, start: usize) -> PyResult<usize> {
        if !data.is_c_contiguous() {
            return Err(PyBufferError::new_err("expected a buffer in one piece, found another"));
        }
        let address = data.buf_ptr().cast::<u8>();
        let bytes: &[u8] = if data.len_bytes() == 0 {
            &[]
        } else {
            // SAFETY: the view keeps the memory, in one piece, for the time of the call.
            unsafe { std::slice::from_raw_parts(address, data.len_bytes()) }
        };
        let mut at = start.min(bytes.len());
        while at < bytes.len() && !self.is_full() {
            if self.open.is_none() {
                self.begin_chunk(py)?;
            }
            let count = self.room().min(bytes.len() - at);
            let (sequence, part) = (&mut self.sequence, &bytes[at..at + count]);
            sequence.extend_from_slice(part);
            at += count;
            self.length += count as u64;
            if self.room() == 0 {
                self.end_chunk();
            }
        }
        Ok(at)
    }

    /// Return the insert of what was packed since the last one, the begun chunk too if `is_last`; None if nothing was.
    #[pyo3(signature = (database, command, kind, reading, is_last, session=None))]
    #[allow(clippy::too_many_arguments)] // As for Operation.
    fn next_operation(
        &mut self,
        py: Python<'_>,
        database: &str,
        command: &Bound<'_, PyAny>,
        kind: usize,
        reading: usize,
        is_last: bool,
        session: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Option<Operation>> {
        if is_last {
            self.end_chunk();
        }
        if self.open.is_some() {
            return Err(failure::bug(py, "expected whole chunks to send, found one that is being filled"));
        }
        if self.sequence.is_empty() {
            return Ok(None);
        }
        let plan = Plan::new(kind, reading, 0)?;
        let mut head = Command::begin();
        codec::encode_document(py, command, self.codec.get(), false, &mut head)?;
        let sequence = std::mem::take(&mut self.sequence);
        let codec = self.codec.clone_ref(py);
        Operation::assemble(py, database, head, sequence, codec, &plan, session_choice(session)?).map(Some)
    }
}
