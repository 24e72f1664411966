//! Documents loaded together: the ids in each reference field of one batch, so that fetching one reference fetches all.
use crate::thread_end::Entry;
use mangonel_entries::entries;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyList, PyType};
use pyo3::{PyTraverseError, PyVisit};

/// The references of the documents of one batch.
#[pyclass(module = "mangonel._core", name = "OdmSiblings")]
pub struct Siblings {
    _entry: Entry,
    /// Ids by the maker of the field's references.
    groups: Vec<(Py<PyAny>, Py<PyList>)>,
    /// Fetched documents: for each maker of a field's references, a dict by id.
    loaded: Py<PyDict>,
    /// The connection through which they were loaded.
    pub(super) origin: Option<Py<PyAny>>,
}

impl Siblings {
    /// Adds an id, or a list of ids, of the field whose references `make` makes.
    pub(super) fn add(&mut self, make: &Py<PyAny>, id: Bound<'_, PyAny>) {
        let py = id.py();
        let group = match self.groups.iter().find(|(known, _)| known.is(make)) {
            Some((_, group)) => group,
            None => {
                self.groups.push((make.clone_ref(py), PyList::empty(py).unbind()));
                match self.groups.last() {
                    Some((_, group)) => group,
                    None => return,
                }
            }
        };
        // Appending to this list fails only without memory; the id is then fetched alone.
        let _ = group.bind(py).append(id);
    }

    /// The documents fetched for references made by `make`, by their ids.
    pub(super) fn found<'py>(&self, py: Python<'py>, make: &Py<PyAny>) -> PyResult<Bound<'py, PyDict>> {
        let loaded = self.loaded.bind(py);
        if let Some(found) = loaded.get_item(make)? {
            return Ok(found.cast_into::<PyDict>()?);
        }
        let made =
            FETCHED.import(py, "mangonel.odm.model.refs", "Fetched")?.call0()?.cast_into::<PyDict>()?;
        loaded.set_item(make, &made)?;
        Ok(made)
    }

    /// The document of a reference made by `make`, if it was fetched.
    pub(super) fn document<'py>(
        &self,
        make: &Py<PyAny>,
        id: &Bound<'py, PyAny>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let loaded = self.loaded.bind(id.py());
        if loaded.is_empty() {
            return Ok(None);
        }
        match loaded.get_item(make)? {
            Some(found) => found.cast::<PyDict>()?.get_item(key_of(id)?),
            None => Ok(None),
        }
    }
}

/// The class of the documents fetched for one field's references.
static FETCHED: PyOnceLock<Py<PyType>> = PyOnceLock::new();

/// An id as a dict key; an id of several fields cannot be hashed, so its text is used.
pub(super) fn key_of<'py>(id: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    match id.hash() {
        Ok(_) => Ok(id.clone()),
        Err(_) => Ok(id.repr()?.into_any()),
    }
}

#[entries]
#[pymethods]
impl Siblings {
    #[new]
    #[pyo3(signature = (origin=None))]
    pub(super) fn new(py: Python<'_>, origin: Option<Py<PyAny>>) -> Self {
        Siblings { _entry: Entry, groups: Vec::new(), loaded: PyDict::new(py).unbind(), origin }
    }

    /// The connection through which they were loaded; None if unknown.
    #[getter]
    fn origin(&self, py: Python<'_>) -> Option<Py<PyAny>> {
        self.origin.as_ref().map(|origin| origin.clone_ref(py))
    }

    /// The ids of one field: a list of ids or of lists of ids; None for documents without one.
    pub(super) fn ids<'py>(&self, py: Python<'py>, make: &Bound<'py, PyAny>) -> Bound<'py, PyList> {
        match self.groups.iter().find(|(known, _)| known.is(make)) {
            Some((_, group)) => group.bind(py).clone(),
            None => PyList::empty(py),
        }
    }

    /// The documents fetched for these ids.
    #[getter]
    fn loaded<'py>(&self, py: Python<'py>) -> Bound<'py, PyDict> {
        self.loaded.bind(py).clone()
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        for (make, group) in &self.groups {
            visit.call(make)?;
            visit.call(group)?;
        }
        if let Some(origin) = &self.origin {
            visit.call(origin)?;
        }
        visit.call(&self.loaded)
    }

    fn __clear__(&mut self) {
        self.groups.clear();
        self.origin = None;
    }
}
