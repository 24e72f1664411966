//! A target of decoding other than the codec's document class: the mapper implements it, the driver's batches use it.

use crate::thread_end::Entry;
use pyo3::prelude::*;

/// Makes one object from one document.
pub trait Shape: Send + Sync {
    /// Returns the object made from a document.
    ///
    /// # Errors
    /// A value does not fit, the bytes are no BSON, or an exception of the object's class.
    fn make(&self, py: Python<'_>, document: &[u8]) -> PyResult<Py<PyAny>>;
}

/// A shape, passed from its maker to the batch that uses it.
#[pyclass(frozen, module = "mangonel._core")]
pub struct DocumentShape(Entry, Box<dyn Shape>);

impl DocumentShape {
    /// Wraps a shape for Python.
    pub fn new(shape: impl Shape + 'static) -> Self {
        DocumentShape(Entry, Box::new(shape))
    }

    /// Returns the object made from a document, as [`Shape::make`] does.
    pub fn make(&self, py: Python<'_>, document: &[u8]) -> PyResult<Py<PyAny>> {
        self.1.make(py, document)
    }
}
