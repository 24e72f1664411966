//! Encodes rows of other libraries' tables directly into messages, with as few inserts as the server's limits allow.
//! Knows no Arrow structure; `import` does. Spec: bulk-write, crud ("batch splitting").
use std::sync::Arc;

use mangonel_bson::ObjectId;
use mangonel_columns::rows::{Form, Rows};
use mangonel_entries::entries;
use mangonel_proto::message::Command;
use pyo3::exceptions::{PyIndexError, PyMemoryError};
use pyo3::prelude::*;
use pyo3::types::{PyList, PySlice};

use super::import::{Array, Arrays};
use crate::codec::{self, IdRange};
use crate::driver::failure::thrown;
use crate::driver::operation::{Operation, WriteCommand};
use crate::driver::source::too_large;
use crate::thread_end::Entry;

/// Gives the rows of a table in parts.
///
/// Args: table: an object with `__arrow_c_stream__` or `__arrow_c_array__`. skips_nulls: leave null columns out of a
///     row's document.
#[pyclass(module = "mangonel._core")]
pub struct ArrowReader {
    _entry: Entry,
    form: Arc<Form>,
    arrays: Arrays,
    skips_nulls: bool,
    read: usize,
}

#[entries]
#[pymethods]
impl ArrowReader {
    #[new]
    fn new(table: &Bound<'_, PyAny>, skips_nulls: bool) -> PyResult<Self> {
        let (form, arrays) = Arrays::of(table)?;
        if !matches!(form, Form::Struct(_)) {
            return Err(pyo3::exceptions::PyTypeError::new_err(
                "expected a table or an array of documents, got an array of something else",
            ));
        }
        Ok(Self { _entry: Entry, form: Arc::new(form), arrays, skips_nulls, read: 0 })
    }

    /// Return the next rows, at least this many unless the table ends; None when there are none left.
    fn next_part(&mut self, py: Python<'_>, count: usize) -> PyResult<Option<ArrowRows>> {
        let mut arrays = Vec::new();
        let mut rows = 0;
        while rows < count {
            let Some(array) = self.arrays.next(py)? else { break };
            let length = array.len();
            let checked = Rows::read(&self.form, &array.source(), self.skips_nulls).map(|found| found.len());
            checked.map_err(|text| column_error(py, Refused::Column(text)))?;
            if length > 0 {
                arrays.push((rows, array));
                rows += length;
            }
        }
        if rows == 0 {
            return Ok(None);
        }
        let ids = codec::generate_object_ids(py, rows)?;
        let part =
            Part { form: self.form.clone(), arrays, skips_nulls: self.skips_nulls, ids, first: self.read };
        self.read += rows;
        Ok(Some(ArrowRows { _entry: Entry, part: Arc::new(part), start: 0, end: rows }))
    }
}

/// Arrays of one form, and the ids for their rows.
struct Part {
    form: Arc<Form>,
    /// The arrays, each with the number of its first row.
    arrays: Vec<(usize, Array)>,
    skips_nulls: bool,
    ids: IdRange,
    /// The number of the first row in the table.
    first: usize,
}

impl Part {
    /// Appends rows while `accepts` allows: it gets the start of each document, and returns false to remove
    ///     it.
    fn append(
        &self,
        mut row: usize,
        end: usize,
        out: &mut Vec<u8>,
        mut accepts: impl FnMut(&[u8], usize) -> bool,
    ) -> Result<usize, Refused> {
        let mut at = self.arrays.partition_point(|(first, _)| *first <= row).saturating_sub(1);
        while row < end {
            let Some((first, array)) = self.arrays.get(at) else { break };
            let rows = Rows::read(&self.form, &array.source(), self.skips_nulls).map_err(Refused::Column)?;
            while row < end && row - first < rows.len() {
                let start = out.len();
                let id = || ObjectId::from_bytes(self.ids.get(row));
                rows.append(row - first, id, out).map_err(|failure| {
                    let text = failure.to_string();
                    if failure.is_no_memory() {
                        return Refused::NoMemory(text);
                    }
                    // The caller does not know the row's index in the array.
                    let what = text.rsplit_once(" of row ").map_or(text.as_str(), |(what, _)| what);
                    Refused::Column(format!("{what} of row {}", self.first + row))
                })?;
                if !accepts(out, start) {
                    out.truncate(start);
                    return Ok(row);
                }
                row += 1;
            }
            at += 1;
        }
        Ok(row)
    }
}

/// The reason why a row cannot become a document.
enum Refused {
    Column(String),
    NoMemory(String),
}

/// Some rows of a table, as a sequence of their documents.
#[pyclass(frozen, module = "mangonel._core")]
pub struct ArrowRows {
    _entry: Entry,
    part: Arc<Part>,
    start: usize,
    end: usize,
}

#[entries]
#[pymethods]
impl ArrowRows {
    fn __len__(&self) -> usize {
        self.end - self.start
    }

    /// A row's document, or the rows of a slice.
    fn __getitem__<'py>(&self, py: Python<'py>, index: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        if let Ok(slice) = index.cast::<PySlice>() {
            let found = slice.indices(self.__len__() as isize)?;
            let (start, length) = (found.start.max(0) as usize, found.slicelength);
            let rows = Self {
                _entry: Entry,
                part: self.part.clone(),
                start: self.start + start,
                end: self.start + start + length,
            };
            return Ok(Bound::new(py, rows)?.into_any());
        }
        let index: usize = index.extract()?;
        if index >= self.__len__() {
            return Err(PyIndexError::new_err("expected the number of a row, got a larger one"));
        }
        let mut bytes = Vec::new();
        let row = self.start + index;
        self.part
            .append(row, row + 1, &mut bytes, |_, _| true)
            .map_err(|refused| column_error(py, refused))?;
        py.import("mangonel.bson")?.call_method1("decode", (codec::bytes_of(py, &bytes)?,))
    }
}

/// Encodes rows while the commands that carry them are made; like `DocumentSource`.
#[pyclass(module = "mangonel._core")]
pub struct ArrowSource {
    _entry: Entry,
    rows: Py<ArrowRows>,
    max_document_size: usize,
    next: usize,
}

#[entries]
#[pymethods]
impl ArrowSource {
    #[new]
    fn new(rows: Py<ArrowRows>, max_document_size: usize) -> Self {
        Self { _entry: Entry, rows, max_document_size, next: 0 }
    }

    /// Always empty: the rows hold their ids.
    #[getter]
    fn ids<'py>(&self, py: Python<'py>) -> Bound<'py, PyList> {
        PyList::empty(py)
    }

    /// Encode the next command without the GIL; return it with the number of its documents, or None after the last one.
    fn next_operation(
        &mut self,
        py: Python<'_>,
        command: &Bound<'_, WriteCommand>,
        max_count: usize,
        max_size: usize,
    ) -> PyResult<Option<(Operation, usize)>> {
        let command = command.get();
        let max_size = command.room(max_size);
        let mut sequence = Command::begin_sequence("documents", 4096);
        let empty = sequence.len();
        let rows = self.rows.get();
        let first = rows.start + self.next;
        if first >= rows.end {
            return Ok(None);
        }
        let (end, largest) = (rows.end.min(first.saturating_add(max_count)), self.max_document_size);
        let mut oversized = None;
        let written = py.detach(|| {
            rows.part.append(first, end, &mut sequence, |out, start| {
                if out.len() - start > largest {
                    oversized = Some(out.len() - start);
                    return false;
                }
                out.len() - empty <= max_size || start == empty
            })
        });
        let next = written.map_err(|refused| column_error(py, refused))?;
        if let Some(size) = oversized {
            return Err(too_large(py, size, largest));
        }
        self.next += next - first;
        Ok(Some((command.with_documents(py, sequence)?, next - first)))
    }
}

fn column_error(py: Python<'_>, refused: Refused) -> PyErr {
    let text = match refused {
        Refused::NoMemory(text) => return PyMemoryError::new_err(text),
        Refused::Column(text) => text,
    };
    let errors = py.import("mangonel.arrow.errors");
    thrown(errors.and_then(|errors| errors.getattr("ColumnError")?.call1((text,))))
}
