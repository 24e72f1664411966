//! What was loaded together: the ids in each reference field of one batch, so that asking for one fetches all.
use crate::thread_end::Entry;
use mangonel_entries::entries;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};
use pyo3::{PyTraverseError, PyVisit};

/// The references of the documents of one batch.
#[pyclass(module = "mangonel._core", name = "OdmSiblings")]
pub struct Siblings {
    _entry: Entry,
    /// Ids by the maker of the field's references.
    groups: Vec<(Py<PyAny>, Py<PyList>)>,
    /// Documents that were fetched, for the program half of this.
    loaded: Py<PyDict>,
    /// Where they were loaded from, as the program half calls it.
    pub(super) origin: Option<Py<PyAny>>,
}

impl Siblings {
    /// Takes an id, or a list of them, of the field whose references `make` makes.
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
        // Appending an object to a list of ours fails only without memory; the id is then fetched alone.
        let _ = group.bind(py).append(id);
    }

    /// Takes a document that references lead to which `make` makes.
    pub(super) fn keep(
        &self,
        make: &Py<PyAny>,
        id: Bound<'_, PyAny>,
        document: Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let py = id.py();
        let loaded = self.loaded.bind(py);
        match id.hash() {
            Ok(_) => loaded.set_item((make, id), document),
            // As the program half calls an id of several fields.
            Err(_) => loaded.set_item((make, id.repr()?), document),
        }
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

    /// Where they were loaded from; None if unknown.
    #[getter]
    fn origin(&self, py: Python<'_>) -> Option<Py<PyAny>> {
        self.origin.as_ref().map(|origin| origin.clone_ref(py))
    }

    /// The ids of one field: a list of ids, or of lists of them; None for those that have none.
    fn ids<'py>(&self, py: Python<'py>, make: &Bound<'py, PyAny>) -> Bound<'py, PyList> {
        match self.groups.iter().find(|(known, _)| known.is(make)) {
            Some((_, group)) => group.bind(py).clone(),
            None => PyList::empty(py),
        }
    }

    /// What was fetched for them.
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
