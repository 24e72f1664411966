//! The shortcut to a single document: the queries that may take it, and its operation, which the port of the model's
//! collection runs. A `Request` in Python does everything else.

use std::ptr;

use mangonel_entries::entries;
use pyo3::exceptions::PyException;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyString, PyTuple, PyType};
use pyo3::{ffi, intern};

use super::plan::OdmModel;
use super::single::{Asked, Place, find_operation};
use crate::thread_end::Entry;

/// Reads single documents through the shortcut. Both methods return the document, or a coroutine for it; or `long_way`
/// if only a request can read it.
#[pyclass(frozen, module = "mangonel._core")]
pub(super) struct OdmShortWay {
    _entry: Entry,
    given: Given,
}

/// Objects of the mapper's modules, under their names there.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
struct Given {
    connections: Py<PyDict>,
    /// Context variables.
    overrides: Py<PyAny>,
    sessions: Py<PyAny>,
    bound: Py<PyList>,
    /// How many documents to request, by the terminal's name.
    most: Py<PyDict>,
    expr: Py<PyType>,
    /// Called for facts about a model that are not known yet.
    short_of: Py<PyAny>,
    connection: Py<PyAny>,
    default_place: Py<PyAny>,
    long_way: Py<PyAny>,
}

/// One call that reads a document.
struct Call<'a, 'py> {
    is_async: bool,
    terminal: &'a Bound<'py, PyString>,
}

#[entries]
#[pymethods]
impl OdmShortWay {
    #[new]
    fn new(given: Given) -> Self {
        OdmShortWay { _entry: Entry, given }
    }

    /// Read the model's document that meets the conditions.
    fn of_conditions<'py>(
        &self,
        model: &Bound<'py, PyAny>,
        conditions: &Bound<'py, PyTuple>,
        is_async: bool,
        terminal: &Bound<'py, PyString>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let call = Call { is_async, terminal };
        let found = match self.filter_of(conditions)? {
            Some(filter) => self.found(model, &self.short_of(model)?, filter, &call)?,
            None => None,
        };
        Ok(found.unwrap_or_else(|| self.given.long_way.bind(model.py()).clone()))
    }

    /// Read the model's document with this id.
    fn of_id<'py>(
        &self,
        model: &Bound<'py, PyAny>,
        id: &Bound<'py, PyAny>,
        is_async: bool,
        terminal: &Bound<'py, PyString>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = model.py();
        let short = self.short_of(model)?;
        let call = Call { is_async, terminal };
        let found = if short.get_borrowed_item(2)?.is(id.get_type()) {
            let filter = PyDict::new(py);
            filter.set_item(intern!(py, "_id"), id)?;
            self.found(model, &short, filter, &call)?
        } else {
            None
        };
        Ok(found.unwrap_or_else(|| self.given.long_way.bind(py).clone()))
    }
}

impl OdmShortWay {
    /// The only condition.
    fn filter_of<'py>(&self, conditions: &Bound<'py, PyTuple>) -> PyResult<Option<Bound<'py, PyDict>>> {
        if conditions.len() != 1 {
            return Ok(None);
        }
        let condition = conditions.get_item(0)?;
        if condition.get_type().is(&self.given.expr) {
            let filter = condition.getattr(intern!(condition.py(), "query"))?;
            return Ok(filter.cast_into_exact::<PyDict>().ok());
        }
        Ok(condition.cast_into_exact::<PyDict>().ok())
    }

    /// The facts for shortcuts in the model's plan: see `short_of` in `mangonel.odm.query.single`.
    fn short_of<'py>(&self, model: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyTuple>> {
        let py = model.py();
        let mut short = model.getattr(intern!(py, "__plan__"))?.getattr(intern!(py, "short"))?;
        if short.is_none() {
            short = self.given.short_of.bind(py).call1((model,))?;
        }
        Ok(short.cast_into::<PyTuple>()?)
    }

    fn found<'py>(
        &self,
        model: &Bound<'py, PyAny>,
        short: &Bound<'py, PyTuple>,
        filter: Bound<'py, PyDict>,
        call: &Call<'_, 'py>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let (py, given) = (model.py(), &self.given);
        let alias = short.get_item(0)?;
        if alias.is_none() || !given.bound.bind(py).is_empty() || is_set(given.sessions.bind(py))? {
            return Ok(None);
        }
        // For a command with other modifiers, the cursor makes it.
        if filter.contains(intern!(py, "$query"))? {
            return Ok(None);
        }
        let known = if is_set(given.overrides.bind(py))? {
            None
        } else {
            given.connections.bind(py).get_item(&alias)?
        };
        let connection = match known {
            Some(known) => known,
            None => given.connection.bind(py).call1((alias,))?,
        };
        let places = connection.getattr(intern!(py, "_places"))?.cast_into::<PyList>()?;
        let place =
            match places.get_item(usize::from(call.is_async))?.cast_into::<PyDict>()?.get_item(model)? {
                Some(place) => place,
                None => given.default_place.bind(py).call1((&connection, model, call.is_async))?,
            };
        let target = place.getattr(intern!(py, "read"))?;
        if target.is_none() {
            return Ok(None);
        }
        let asked = Asked {
            model: short.get_item(1)?.cast_into::<OdmModel>()?.unbind(),
            origin: connection.unbind(),
            limit: given.most.bind(py).as_any().get_item(call.terminal)?.extract()?,
            terminal: call.terminal.clone().unbind().into_any(),
            is_async: call.is_async,
        };
        let target: Place<'_> = target.extract()?;
        let port = target.3.clone();
        match find_operation(py, target, filter.into_any(), asked) {
            Ok(operation) => port.call_method1(intern!(py, "run"), (operation,)).map(Some),
            // The long way's error names the place in the whole command.
            Err(error) if error.is_instance_of::<PyException>(py) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// Whether a context variable, whose default is None, has another value in this context.
fn is_set(variable: &Bound<'_, PyAny>) -> PyResult<bool> {
    let py = variable.py();
    let mut value = ptr::null_mut();
    // SAFETY: a live object, which the call refuses if it is no context variable, and a place for the value, which gets a
    // new reference, or null for a variable without a value.
    let status = unsafe { ffi::PyContextVar_Get(variable.as_ptr(), ptr::null_mut(), &raw mut value) };
    if status < 0 {
        return Err(PyErr::fetch(py));
    }
    // SAFETY: null, or a new reference that is owned from here on.
    let value = unsafe { Bound::from_owned_ptr_or_opt(py, value) };
    Ok(value.is_some_and(|value| !value.is_none()))
}
