//! One batch of a cursor in Rust memory, and the iterators that hand its documents out one by one. A document becomes a
//! Python object only when it is requested.

use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};

use mangonel_bson::{JsonMode, JsonWriter, RawDocument};
use mangonel_entries::entries;
use mangonel_proto::reply::CursorFacts;
use pyo3::exceptions::{PyMemoryError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PyTuple, PyType};
use pyo3::{PyTraverseError, PyVisit, ffi, intern};

use super::failure;
use super::open_cursor::OpenCursor;
use super::session::ImplicitSession;
use crate::codec::collector::Pause;
use crate::codec::document_shape::DocumentShape;
use crate::codec::{self, Codec};
use crate::thread_end::Entry;

/// No batch has this many documents.
const UNKNOWN: usize = usize::MAX;

/// A change and its resume token.
type Change = (Py<PyAny>, Option<Py<PyBytes>>);

/// The documents of one reply that are not handed out yet.
#[pyclass(module = "mangonel._core")]
pub struct Batch {
    _entry: Entry,
    message: Vec<u8>,
    /// The next element of the array, and the array's end without its terminator. Atomic, since decoding may run the
    /// user's code and other threads, so the batch must not be borrowed exclusively meanwhile.
    position: AtomicUsize,
    end: usize,
    /// Where the array's elements begin.
    start: usize,
    /// How many documents arrived, once counted; `UNKNOWN` before.
    size: AtomicUsize,
    codec: Py<Codec>,
    /// The server's cursor id; 0 when this is the last batch.
    #[pyo3(get)]
    id: i64,
    namespace: String,
    post_batch_resume_token: Option<Vec<u8>>,
    session: Option<Py<ImplicitSession>>,
    /// The number of the link for all later batches; None: any link.
    #[pyo3(get)]
    pinned: Option<u32>,
    /// Whether the batch is handed out as one bytes object instead of document by document.
    is_raw: bool,
    /// Whether more batches arrive without a request.
    #[pyo3(get)]
    pub(crate) is_streaming: bool,
    /// The server that has the cursor.
    pub(crate) server: String,
    /// The cursor that the batch opened, which is killed with the last reference; None if there is none, or another
    /// batch opened it.
    #[pyo3(get)]
    pub(crate) opened: Option<Py<OpenCursor>>,
    /// Makes the documents, instead of the codec's document class.
    shape: Option<Py<DocumentShape>>,
}

impl Batch {
    /// Takes over the message that holds a cursor; `offset` is where its body starts.
    pub fn new(
        message: Vec<u8>,
        offset: usize,
        cursor: &CursorFacts,
        codec: Py<Codec>,
        session: Option<Py<ImplicitSession>>,
        pinned: Option<u32>,
        is_raw: bool,
    ) -> Self {
        let body = message.get(offset..).unwrap_or_default();
        let namespace = cursor.namespace_in(body);
        let token =
            cursor.post_batch_resume_token.clone().and_then(|token| body.get(token)).map(<[u8]>::to_vec);
        let start = offset + cursor.batch.start + 4;
        Batch {
            _entry: Entry,
            start,
            size: AtomicUsize::new(UNKNOWN),
            position: AtomicUsize::new(start),
            end: offset + cursor.batch.end.saturating_sub(1),
            message,
            codec,
            id: cursor.id,
            namespace,
            post_batch_resume_token: token,
            session,
            pinned,
            is_raw,
            is_streaming: false,
            server: String::new(),
            opened: None,
            shape: None,
        }
    }

    fn position(&self) -> usize {
        self.position.load(Ordering::Relaxed)
    }

    fn move_to(&self, position: usize) {
        self.position.store(position, Ordering::Relaxed);
    }

    /// Returns the bytes of the next document, and moves past it.
    fn next_document(&self, py: Python<'_>) -> PyResult<Option<&[u8]>> {
        Ok(self.next_raw(py)?.map(|document| document.as_bytes()))
    }

    /// Returns the next document, and moves past it.
    #[inline(always)]
    fn next_raw(&self, py: Python<'_>) -> PyResult<Option<RawDocument<'_>>> {
        match element_at(&self.message, self.position(), self.end) {
            Ok(Some((start, document))) => {
                self.move_to(start + document.as_bytes().len());
                Ok(Some(document))
            }
            Ok(None) => Ok(None),
            Err(found) => Err(self.broken(py, &found)),
        }
    }

    #[cold]
    fn broken(&self, py: Python<'_>, found: &str) -> PyErr {
        self.move_to(self.end);
        failure::protocol_error(py, format!("expected a batch of documents, got {found}"))
    }

    /// Stores how many documents were taken from a position on, if those are all.
    fn keep_size(&self, from: usize, taken: usize) {
        if from == self.start && self.is_empty() && !self.is_raw {
            self.size.store(taken, Ordering::Relaxed);
        }
    }

    /// Counts the documents from a position on, up to an invalid one.
    fn count_from(&self, mut position: usize) -> usize {
        let mut count = 0;
        while let Ok(Some((start, document))) = element_at(&self.message, position, self.end) {
            position = start + document.as_bytes().len();
            count += 1;
        }
        count
    }

    /// Takes the documents out: the message, the position of the next one, and the end of the last.
    pub fn take_documents(&mut self) -> (Vec<u8>, usize, usize) {
        self.size();
        let position = self.position();
        self.move_to(self.end);
        (std::mem::take(&mut self.message), position, self.end)
    }

    /// Moves past the next documents, at most `limit` of them, and returns their ranges in `message`.
    pub(crate) fn take_ranges(
        &self,
        py: Python<'_>,
        limit: Option<usize>,
    ) -> PyResult<Vec<std::ops::Range<usize>>> {
        let from = self.position();
        let mut ranges = Vec::new();
        while limit.is_none_or(|limit| ranges.len() < limit) {
            let Some(length) = self.next_document(py)?.map(<[u8]>::len) else { break };
            ranges.push(self.position() - length..self.position());
        }
        self.keep_size(from, ranges.len());
        Ok(ranges)
    }

    /// The whole message that holds the batch.
    pub(crate) fn message(&self) -> &[u8] {
        &self.message
    }

    /// Decodes the next document; for a raw batch, returns all remaining documents as bytes.
    pub fn next(&self, py: Python<'_>) -> PyResult<Option<Py<PyAny>>> {
        if self.is_raw {
            let bytes = if self.is_empty() { None } else { Some(self.raw(py)?) };
            return Ok(bytes.map(|bytes| bytes.into_any().unbind()));
        }
        if let Some(shape) = &self.shape {
            return self.next_document(py)?.map(|bytes| shape.get().make(py, bytes)).transpose();
        }
        match self.next_document(py)? {
            Some(bytes) => codec::decode_document(py, bytes, self.codec.get()).map(Some),
            None => Ok(None),
        }
    }
}

#[entries]
#[pymethods]
impl Batch {
    /// The namespace of the cursor, `database.collection`.
    #[getter]
    pub(crate) fn namespace(&self) -> &str {
        &self.namespace
    }

    /// The session the cursor was opened in, or None.
    #[getter]
    fn session(&self, py: Python<'_>) -> Option<Py<ImplicitSession>> {
        self.session.as_ref().map(|session| session.clone_ref(py))
    }

    /// The address of the server that has the cursor.
    #[getter]
    fn server(&self) -> &str {
        &self.server
    }

    /// The resume token after this batch, as BSON, or None.
    #[getter]
    fn post_batch_resume_token<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyBytes>> {
        self.post_batch_resume_token.as_ref().map(|token| PyBytes::new(py, token))
    }

    /// Whether every document is handed out.
    #[getter]
    fn is_empty(&self) -> bool {
        self.position() >= self.end
    }

    /// How many documents arrived. The first call walks over them.
    #[getter]
    fn size(&self) -> usize {
        let known = self.size.load(Ordering::Relaxed);
        if known != UNKNOWN {
            return known;
        }
        let counted = self.count_from(self.start);
        self.size.store(counted, Ordering::Relaxed);
        counted
    }

    /// How many documents are left. Walks over them, at some nanoseconds each.
    fn __len__(&self, py: Python<'_>) -> PyResult<usize> {
        let start = self.position();
        let mut count = 0;
        while self.next_document(py)?.is_some() {
            count += 1;
        }
        self.move_to(start);
        Ok(count)
    }

    /// The next document of a change stream and its resume token, the document `_id`, as BSON; None at the end.
    fn next_change(&self, py: Python<'_>) -> PyResult<Option<Change>> {
        let Some(bytes) = self.next_document(py)? else { return Ok(None) };
        let id = RawDocument::from_bytes(bytes).and_then(|change| change.get_document("_id"));
        // An `_id` that is not a document is not a token.
        let token = id.ok().flatten().map(|token| PyBytes::new(py, token.as_bytes()).unbind());
        Ok(Some((codec::decode_document(py, bytes, self.codec.get())?, token)))
    }

    /// The documents that are left, one after the other, as bytes.
    fn raw<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let mut joined = Vec::new();
        make_room(&mut joined, self.end.saturating_sub(self.position()))?;
        while let Some(document) = self.next_document(py)? {
            joined.extend_from_slice(document);
        }
        codec::bytes_of(py, &joined)
    }

    /// The documents that are left as JSON, with this byte between them (a comma). `mode`: 0 canonical and 1 relaxed
    /// extended JSON, 2 plain.
    #[pyo3(signature = (mode, separator = b','))]
    fn json<'py>(&self, py: Python<'py>, mode: u8, separator: u8) -> PyResult<Bound<'py, PyBytes>> {
        self.text(py, mode, separator, false)
    }

    /// The documents that are left as a JSON array; `mode` is as for `json`.
    fn json_array<'py>(&self, py: Python<'py>, mode: u8) -> PyResult<Bound<'py, PyBytes>> {
        self.text(py, mode, b',', true)
    }

    /// Make the documents with the shape.
    fn r#become(&mut self, shape: Py<DocumentShape>) {
        self.shape = Some(shape);
    }

    /// Append the documents that are left to `documents`, at most `limit` of them.
    #[pyo3(signature = (documents, limit=None))]
    fn drain_into(&self, documents: &Bound<'_, PyList>, limit: Option<usize>) -> PyResult<usize> {
        let py = documents.py();
        // The collector tracks instances of classes from the start, and would scan them again and again.
        let _pause = self.shape.is_some().then(|| Pause::new(py));
        let from = self.position();
        let mut count = 0;
        while limit.is_none_or(|limit| count < limit) {
            let Some(document) = self.next(py)? else { break };
            documents.append(document)?;
            count += 1;
        }
        self.keep_size(from, count);
        Ok(count)
    }

    fn __next__(&self, py: Python<'_>) -> PyResult<Option<Py<PyAny>>> {
        self.next(py)
    }

    fn __iter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }
}

#[entries]
#[pymethods]
impl DocumentShape {
    /// The next document of a batch, or None: the answer of a read that wants one document.
    fn __call__(&self, batch: &Bound<'_, Batch>) -> PyResult<Option<Py<PyAny>>> {
        let py = batch.py();
        batch.try_borrow()?.next_document(py)?.map(|bytes| self.make(py, bytes)).transpose()
    }
}

impl Batch {
    /// Writes the documents that are left as JSON, with brackets around them for an array.
    fn text<'py>(
        &self,
        py: Python<'py>,
        mode: u8,
        separator: u8,
        is_array: bool,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let mode = match mode {
            0 => JsonMode::Canonical,
            1 => JsonMode::Relaxed,
            _ => JsonMode::Plain,
        };
        let from = self.position();
        let left = self.end.saturating_sub(from);
        let mut text = Vec::new();
        make_room(&mut text, 2 * left + 2)?;
        let mut writer = JsonWriter::behind(&mut text, mode, left);
        if is_array {
            writer.byte(b'[');
        }
        let (mut at, mut count) = (from, 0);
        while let Some((start, document)) =
            element_at(&self.message, at, self.end).map_err(|found| self.broken(py, &found))?
        {
            at = start + document.as_bytes().len();
            // Rarely too little; then memory left from other documents is enough, or little is missing.
            let most = 4 * document.as_bytes().len();
            writer.reserve(most).map_err(|_| no_memory(most))?;
            if count > 0 {
                writer.byte(separator);
            }
            count += 1;
            writer.document(document).map_err(|error| {
                self.move_to(at);
                failure::invalid_bson(py, &error.to_string())
            })?;
        }
        self.move_to(at);
        if is_array {
            writer.byte(b']');
        }
        drop(writer);
        self.keep_size(from, count);
        codec::bytes_of(py, &text)
    }
}

fn make_room(out: &mut Vec<u8>, more: usize) -> PyResult<()> {
    out.try_reserve(more).map_err(|_| no_memory(more))
}

#[cold]
fn no_memory(more: usize) -> PyErr {
    PyMemoryError::new_err(format!("no memory for {more} more bytes"))
}

/// Finds the next document among an array's elements; the error names the element found instead.
pub fn next_in(message: &[u8], position: usize, end: usize) -> Result<Option<Range<usize>>, String> {
    let found = element_at(message, position, end)?;
    Ok(found.map(|(start, document)| start..start + document.as_bytes().len()))
}

/// Finds the document that is the array's element at a position, and where it starts; the error is as for [`next_in`].
#[inline(always)]
fn element_at(
    message: &[u8],
    position: usize,
    end: usize,
) -> Result<Option<(usize, RawDocument<'_>)>, String> {
    let elements = message.get(position..end).unwrap_or_default();
    let Some((kind, rest)) = elements.split_first() else { return Ok(None) };
    if *kind != 0x03 {
        return Err(other_type(*kind));
    }
    // An index is short, so its bytes are compared one by one.
    let key_end = rest.iter().position(|byte| *byte == 0);
    match key_end.map(|end| (end, RawDocument::prefix(&rest[end + 1..]))) {
        Some((key_end, Ok((document, _)))) => Ok(Some((position + 1 + key_end + 1, document))),
        _ => Err("a document that reaches beyond it".to_owned()),
    }
}

#[cold]
fn other_type(kind: u8) -> String {
    format!("an element of type {kind:#04x}")
}

/// The base of both faces' cursors: it keeps the current batch.
#[pyclass(subclass, module = "mangonel._core")]
#[derive(Default)]
pub struct BatchCursor {
    _entry: Entry,
    /// The current batch.
    #[pyo3(get)]
    _batch: Option<Py<Batch>>,
    /// How many documents arrived in earlier batches.
    before: usize,
}

impl BatchCursor {
    fn next_of(slf: &Bound<'_, Self>) -> PyResult<Option<Py<PyAny>>> {
        let py = slf.py();
        let batch = slf.try_borrow()?._batch.as_ref().map(|batch| batch.clone_ref(py));
        match batch {
            Some(batch) => batch.bind(py).try_borrow()?.next(py),
            None => Ok(None),
        }
    }
}

#[entries]
#[pymethods]
impl BatchCursor {
    #[new]
    #[pyo3(signature = (*_args, **_kwargs))]
    fn new(_args: &Bound<'_, PyAny>, _kwargs: Option<&Bound<'_, PyAny>>) -> Self {
        BatchCursor::default()
    }

    #[setter(_batch)]
    fn set_batch(slf: &Bound<'_, Self>, batch: Option<Bound<'_, Batch>>) -> PyResult<()> {
        // Dropped once nothing is borrowed.
        let replaced = std::mem::replace(&mut slf.try_borrow_mut()?._batch, batch.map(Bound::unbind));
        if let Some(replaced) = &replaced {
            let size = replaced.bind(slf.py()).try_borrow()?.size();
            slf.try_borrow_mut()?.before += size;
        }
        Ok(())
    }

    /// How many documents arrived so far. The batch is counted only when this is read.
    #[getter]
    fn _retrieved(&self, py: Python<'_>) -> PyResult<usize> {
        let size = self._batch.as_ref().map(|batch| Ok(batch.bind(py).try_borrow()?.size()));
        Ok(self.before + size.unwrap_or(PyResult::Ok(0))?)
    }

    /// Take a batch over if it is the last: the server has no cursor, and no connection is kept for it. Return whether
    /// it has documents; None if it is not the last.
    fn _take_last(slf: &Bound<'_, Self>, batch: Bound<'_, Batch>) -> PyResult<Option<bool>> {
        let (is_last, is_empty) = {
            let batch = batch.try_borrow()?;
            (batch.id == 0 && batch.pinned.is_none(), batch.is_empty())
        };
        if !is_last {
            return Ok(None);
        }
        Self::set_batch(slf, Some(batch))?;
        Ok(Some(!is_empty))
    }

    /// Restart the count.
    #[setter(_retrieved)]
    fn set_retrieved(&mut self, before: usize) {
        self.before = before;
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self._batch)
    }

    fn __clear__(&mut self) {
        self._batch = None;
    }
}

/// Make a cursor of the class `kind` without calling its constructor.
#[entries]
#[pyfunction]
fn bare_cursor<'py>(kind: &Bound<'py, PyType>) -> PyResult<Bound<'py, PyAny>> {
    let (py, raw) = (kind.py(), kind.as_type_ptr());
    // SAFETY: two live classes, which are only read.
    let new = unsafe {
        let is_cursor = ffi::PyType_IsSubtype(raw, py.get_type::<BatchCursor>().as_type_ptr()) != 0;
        if is_cursor { (*raw).tp_new } else { None }
    };
    let new = new.ok_or_else(|| PyTypeError::new_err("expected a class of cursors, got another one"))?;
    // SAFETY: called as the interpreter does, with the class itself, a tuple and no dict; it gives a new reference, or null
    // with an exception.
    unsafe { Bound::from_owned_ptr_or_err(py, new(raw, PyTuple::empty(py).as_ptr(), std::ptr::null_mut())) }
}

/// Adds this module's function.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(bare_cursor, module)?)
}

/// The blocking face's cursor base: `next()` decodes, and calls `_refill()` when the batch is used up.
#[pyclass(extends = BatchCursor, subclass, module = "mangonel._core")]
pub struct BlockingCursor;

#[entries]
#[pymethods]
impl BlockingCursor {
    #[new]
    #[pyo3(signature = (*_args, **_kwargs))]
    fn new(_args: &Bound<'_, PyAny>, _kwargs: Option<&Bound<'_, PyAny>>) -> PyClassInitializer<Self> {
        PyClassInitializer::from(BatchCursor::default()).add_subclass(BlockingCursor)
    }

    fn __iter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    fn __next__(slf: &Bound<'_, Self>) -> PyResult<Option<Py<PyAny>>> {
        let py = slf.py();
        loop {
            if let Some(document) = BatchCursor::next_of(slf.as_super())? {
                return Ok(Some(document));
            }
            if !slf.call_method0(intern!(py, "_refill"))?.is_truthy()? {
                return Ok(None);
            }
        }
    }
}

/// The asyncio face's cursor base: `__anext__` returns an awaitable that is already done, as long as the batch lasts.
#[pyclass(extends = BatchCursor, subclass, module = "mangonel._core")]
pub struct AsyncCursorBase;

#[entries]
#[pymethods]
impl AsyncCursorBase {
    #[new]
    #[pyo3(signature = (*_args, **_kwargs))]
    fn new(_args: &Bound<'_, PyAny>, _kwargs: Option<&Bound<'_, PyAny>>) -> PyClassInitializer<Self> {
        PyClassInitializer::from(BatchCursor::default()).add_subclass(AsyncCursorBase)
    }

    fn __aiter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    fn __anext__(slf: &Bound<'_, Self>) -> PyResult<Option<Py<PyAny>>> {
        let py = slf.py();
        if let Some(document) = BatchCursor::next_of(slf.as_super())? {
            return super::ready::finished(py, document).map(Some);
        }
        slf.call_method0(intern!(py, "_next_flow")).map(|coroutine| Some(coroutine.unbind()))
    }
}
