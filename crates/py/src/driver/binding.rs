//! Blocks of a session. Operations of a bound block use it by default: a context variable, so that every task and thread
//! has its own.

use mangonel_entries::entries;
use pyo3::prelude::*;
use pyo3::types::{PyList, PyTuple};
use pyo3::{PyTraverseError, PyVisit, intern};

use super::session::Session;
use crate::thread_end::Entry;

/// One `with` block that ends the transaction of a session, unless that has ended already.
#[pyclass(frozen, subclass, module = "mangonel._core")]
pub struct Transaction {
    _entry: Entry,
    session: Py<PyAny>,
}

#[entries]
#[pymethods]
impl Transaction {
    #[new]
    fn new(session: Py<PyAny>) -> Self {
        Transaction { _entry: Entry, session }
    }

    fn __enter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    fn __exit__(
        &self,
        py: Python<'_>,
        kind: &Bound<'_, PyAny>,
        _error: &Bound<'_, PyAny>,
        _trace: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let session = self.session.bind(py);
        if session.getattr(intern!(py, "_handle"))?.cast::<Session>()?.get().in_transaction() {
            let name = if kind.is_none() {
                intern!(py, "commit_transaction")
            } else {
                intern!(py, "abort_transaction")
            };
            session.call_method0(name)?;
        }
        Ok(())
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.session)
    }
}

/// One `with` block that binds a session; in Rust for the same reason as `Limit`.
///
/// `variable`: the context variable. `open`: the list of the open blocks.
/// `ends`: the session ends with the block.
#[pyclass(module = "mangonel._core")]
pub struct Binding {
    _entry: Entry,
    session: Py<PyAny>,
    variable: Py<PyAny>,
    open: Py<PyList>,
    ends: bool,
    token: Option<Py<PyAny>>,
}

#[entries]
#[pymethods]
impl Binding {
    #[new]
    fn new(session: Py<PyAny>, variable: Py<PyAny>, open: Py<PyList>, ends: bool) -> Self {
        Binding { _entry: Entry, session, variable, open, ends, token: None }
    }

    fn __enter__(&mut self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        self.token = Some(self.variable.call_method1(py, "set", (&self.session,))?);
        self.open.bind(py).append(py.None())?;
        Ok(self.session.clone_ref(py))
    }

    #[pyo3(signature = (*_error))]
    fn __exit__(&mut self, py: Python<'_>, _error: &Bound<'_, PyTuple>) -> PyResult<()> {
        if let Some(token) = self.token.take() {
            self.open.bind(py).del_item(0)?;
            self.variable.call_method1(py, "reset", (token,))?;
        }
        if self.ends {
            self.session.call_method0(py, "end_session")?;
        }
        Ok(())
    }
}
