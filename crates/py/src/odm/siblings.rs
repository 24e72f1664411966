//! What was loaded together: the ids in each reference field of one batch, so that asking for one fetches all.
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};
use pyo3::{PyTraverseError, PyVisit};

/// The references of the documents of one batch.
#[pyclass(module = "mangonel._core", name = "OdmSiblings")]
pub struct Siblings {
    /// Ids by the maker of the field's references.
    groups: Vec<(Py<PyAny>, Py<PyList>)>,
    /// Documents that were fetched, for the program half of this.
    loaded: Py<PyDict>,
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
}

#[pymethods]
impl Siblings {
    #[new]
    pub(super) fn new(py: Python<'_>) -> Self {
        Siblings { groups: Vec::new(), loaded: PyDict::new(py).unbind() }
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
        visit.call(&self.loaded)
    }

    fn __clear__(&mut self) {
        self.groups.clear();
    }
}
