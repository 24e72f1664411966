//! The types at each path of a cursor's documents, counted without the GIL.

use mangonel_bson::RawDocument;
use mangonel_columns::{Place, TypeCounts};
use mangonel_entries::entries;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};

use crate::driver::batch::{Batch, next_in};

/// Counts the types of the values at each path of documents.
#[pyclass(module = "mangonel._core")]
pub struct TypeCounter {
    /// None while documents are counted, and after invalid BSON.
    counts: Option<TypeCounts>,
}

#[entries]
#[pymethods]
impl TypeCounter {
    #[new]
    fn new() -> Self {
        Self { counts: Some(TypeCounts::default()) }
    }

    /// Count the documents that are left in a batch.
    fn add(&mut self, py: Python<'_>, batch: &Bound<'_, Batch>) -> PyResult<()> {
        let (message, start, end) = batch.try_borrow_mut()?.take_documents();
        self.count(py, |counts| {
            let mut position = start;
            while let Some(range) = next_in(&message, position, end)? {
                position = range.end;
                let (document, _) = RawDocument::prefix(&message[range]).map_err(said)?;
                counts.add(document).map_err(said)?;
            }
            Ok(())
        })
    }

    /// Count concatenated documents.
    fn add_bytes(&mut self, py: Python<'_>, data: &[u8]) -> PyResult<()> {
        self.count(py, |counts| {
            let mut rest = data;
            while !rest.is_empty() {
                let (document, after) = RawDocument::prefix(rest).map_err(said)?;
                counts.add(document).map_err(said)?;
                rest = after;
            }
            Ok(())
        })
    }

    /// How many values were not counted, because their path exceeded the limits.
    #[getter]
    fn left_out(&self) -> u64 {
        self.counts.as_ref().map_or(0, TypeCounts::left_out)
    }

    /// Return the counts of the documents, with those of nested values.
    fn found<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        match &self.counts {
            Some(counts) => told(py, counts.root()),
            None => Err(broken()),
        }
    }
}

impl TypeCounter {
    fn count(
        &mut self,
        py: Python<'_>,
        action: impl FnOnce(&mut TypeCounts) -> Result<(), String> + Send,
    ) -> PyResult<()> {
        let mut counts = self.counts.take().ok_or_else(broken)?;
        let (result, counts) = py.detach(move || (action(&mut counts), counts));
        if let Err(text) = result {
            let class = py.import("mangonel.arrow.errors")?.getattr("ColumnError")?;
            return Err(PyErr::from_value(class.call1((text,))?));
        }
        self.counts = Some(counts);
        Ok(())
    }
}

fn said(error: mangonel_bson::Error) -> String {
    format!("invalid BSON: {error}")
}

fn broken() -> PyErr {
    PyRuntimeError::new_err("an earlier document could not be read; count anew")
}

fn told<'py>(py: Python<'py>, place: &Place) -> PyResult<Bound<'py, PyAny>> {
    let types = PyDict::new(py);
    for (name, count) in place.types() {
        types.set_item(name, count)?;
    }
    let fields = PyList::empty(py);
    for (name, inner) in place.fields() {
        fields.append((name, told(py, inner)?))?;
    }
    let items = place.items().map(|items| told(py, items)).transpose()?;
    Ok((types, fields, items).into_pyobject(py)?.into_any())
}
