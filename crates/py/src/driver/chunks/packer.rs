//! Writing: bytes packed into chunk documents, and these into inserts.
//! Spec: gridfs.

use mangonel_entries::entries;
use mangonel_proto::message::Command;
use pyo3::buffer::PyBuffer;
use pyo3::exceptions::{PyBufferError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyList;

use crate::codec::{self, Codec};
use crate::driver::failure;
use crate::driver::operation::{Operation, WriteCommand};
use crate::thread_end::Entry;

/// Packs bytes into chunk documents and these into inserts.
#[pyclass(module = "mangonel._core")]
pub struct ChunkPacker {
    _entry: Entry,
    /// The element `files_id`, encoded.
    files_id: Vec<u8>,
    chunk_size: usize,
    batch_size: usize,
    /// The section that the next insert will carry; empty before its first chunk.
    sequence: Vec<u8>,
    /// Where the chunk being filled starts in the section, and where its data starts.
    open: Option<(usize, usize)>,
    count: usize,
    next: i32,
    /// How many bytes were packed so far.
    #[pyo3(get)]
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
            .ok_or_else(|| PyValueError::new_err("expected at most 2147483647 chunks, got more"))?;
        self.ids.push(id);
        Ok(())
    }

    fn end_chunk(&mut self) {
        if let Some((start, data)) = self.open.take() {
            let size = (self.sequence.len() - data) as i32;
            // The length precedes the subtype, which precedes the data.
            self.sequence[data - 5..data - 1].copy_from_slice(&size.to_le_bytes());
            mangonel_bson::end_document(&mut self.sequence, start);
            self.count += 1;
        }
    }
}

#[entries]
#[pymethods]
impl ChunkPacker {
    /// `files_id`: a document with only that field. `batch_size`: the bytes that one insert may carry; it carries one
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
            return Err(PyValueError::new_err(format!("expected a chunk size above 0, got {chunk_size}")));
        }
        let mut encoded = Vec::new();
        codec::encode_document(py, files_id, codec.get(), false, &mut encoded)?;
        let files_id = encoded.get(4..encoded.len() - 1).unwrap_or_default().to_vec();
        Ok(ChunkPacker {
            _entry: Entry,
            files_id,
            chunk_size,
            batch_size: batch_size.max(chunk_size),
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

    /// How many bytes are missing from the chunk being filled.
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
            return Err(PyBufferError::new_err("expected a buffer in one piece, got one with gaps"));
        }
        let address = data.buf_ptr().cast::<u8>();
        let bytes: &[u8] = if data.len_bytes() == 0 {
            &[]
        } else {
            // SAFETY: the view, which the caller holds for the time of the call, keeps the memory where it is, in one piece of
            // this length. A program that writes to it meanwhile sends what it wrote: all bytes are valid.
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

    /// Return the insert of the chunks packed since the last insert, with the unfinished chunk if `is_last`; None if
    /// there is none.
    fn next_operation(
        &mut self,
        py: Python<'_>,
        command: &Bound<'_, WriteCommand>,
        is_last: bool,
    ) -> PyResult<Option<Operation>> {
        if is_last {
            self.end_chunk();
        }
        if self.open.is_some() {
            return Err(failure::bug(py, "expected whole chunks to send, got one that is being filled"));
        }
        if self.sequence.is_empty() {
            return Ok(None);
        }
        command.get().with_documents(py, std::mem::take(&mut self.sequence)).map(Some)
    }
}
