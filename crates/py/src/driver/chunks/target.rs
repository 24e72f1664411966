//! The memory that a stored file's bytes are read into. Knows no chunks.

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use crate::thread_end::Entry;
use mangonel_entries::entries;
use pyo3::exceptions::{PyBufferError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use pyo3::{buffer::PyBuffer, ffi};

/// Results of at least this size use huge pages if the system has them: most of the cost of a large read is the kernel
/// zeroing its pages.
#[cfg(target_os = "linux")]
const HUGE_RESULT: usize = 4 * 1024 * 1024;

/// Memory that receives file bytes: a new bytes object, or the caller's writable buffer.
#[pyclass(module = "mangonel._core")]
pub struct ChunkTarget {
    _entry: Entry,
    bytes: Option<Py<PyBytes>>,
    buffer: Option<PyBuffer<u8>>,
    whole: Option<Py<ChunkTarget>>,
    /// Address of the memory that one of the three above keeps alive.
    start: usize,
    /// How many bytes it has room for in all.
    #[pyo3(get)]
    pub(super) size: usize,
    /// How many bytes were read into it.
    #[pyo3(get)]
    pub(super) filled: usize,
    /// End of the directly received bytes. The receiver shares this.
    pub(super) landed: Arc<AtomicUsize>,
    is_shared: bool,
}

impl ChunkTarget {
    /// Returns the memory's address and size, and the counter of how far it was written. The memory stays in place for
    /// as long as the caller keeps the counter.
    pub fn memory(&self) -> (usize, usize, Arc<AtomicUsize>) {
        (self.start, self.size, Arc::clone(&self.landed))
    }

    /// Returns the unfilled part.
    pub(super) fn room(&self) -> Room {
        Room {
            start: self.start + self.filled,
            size: self.size - self.filled,
            _memory: Arc::clone(&self.landed),
        }
    }
}

/// The unfilled part of a target's memory. The memory stays in place for as long as this exists.
pub struct Room {
    start: usize,
    size: usize,
    _memory: Arc<AtomicUsize>,
}

impl Room {
    /// Copies `source` to its start, as much as fits.
    pub(super) fn fill(&self, source: &[u8]) {
        let count = source.len().min(self.size);
        // SAFETY: `start` lies in the memory of a target's `bytes` or `buffer`, which has `size` bytes from there on, and
        // which the target keeps while `_memory` is shared. Nothing else has the bytes object before `finish`; a caller
        // may change its own buffer while it is filled, which spoils that buffer alone: no message is part of it.
        unsafe {
            let start = std::ptr::with_exposed_provenance_mut::<u8>(self.start);
            std::ptr::copy_nonoverlapping(source.as_ptr(), start, count);
        }
    }
}

#[entries]
#[pymethods]
impl ChunkTarget {
    /// `memory`: the size of a new bytes object, or a writable buffer.
    #[new]
    fn new(memory: &Bound<'_, PyAny>) -> PyResult<Self> {
        let py = memory.py();
        if let Ok(size) = memory.extract::<usize>() {
            let length = ffi::Py_ssize_t::try_from(size)?;
            // SAFETY: creates an uninitialised bytes object, which is hidden until it is filled.
            let made = unsafe { ffi::PyBytes_FromStringAndSize(std::ptr::null(), length) };
            // SAFETY: what the call returned, taken over once: a new reference, or null with an exception set.
            let bytes = unsafe { Bound::from_owned_ptr_or_err(py, made) }?.cast_into::<PyBytes>()?;
            // SAFETY: a bytes object, which `bytes` keeps alive; where its bytes begin does not change.
            let start = unsafe { ffi::PyBytes_AS_STRING(made) }.cast_mut().cast::<u8>();
            ask_for_huge_pages(start.expose_provenance(), size);
            return Ok(ChunkTarget {
                _entry: Entry,
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
            let got = if buffer.readonly() { "a read-only one" } else { "one with gaps" };
            return Err(PyBufferError::new_err(format!(
                "expected a writable buffer in one piece, got {got}"
            )));
        }
        let landed = Arc::default();
        Ok(ChunkTarget {
            _entry: Entry,
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

    /// Return targets for parts of its memory, each from the previous end in `ends` to the next.
    fn split(slf: &Bound<'_, Self>, ends: Vec<usize>) -> PyResult<Vec<Self>> {
        let whole = slf.try_borrow()?;
        let mut begin = 0;
        let mut parts = Vec::with_capacity(ends.len());
        for end in ends {
            if end < begin || end > whole.size {
                return Err(PyValueError::new_err(format!(
                    "expected ends from {begin} to {} in order, got {end}",
                    whole.size
                )));
            }
            parts.push(ChunkTarget {
                _entry: Entry,
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

    /// Count the bytes in `parts`, which `split` returned, as filled, up to the first part that is not full; release
    /// the parts.
    fn join(&mut self, parts: Vec<PyRefMut<'_, Self>>) -> PyResult<()> {
        for mut part in parts {
            // A connection that still receives into the part keeps the whole memory in use.
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

    /// Return the bytes object, or the number of bytes read into the caller's buffer, and release both.
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
            // Bytes that were not written must not be visible.
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
