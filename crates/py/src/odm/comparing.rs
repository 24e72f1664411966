//! The BSON form of query operands, and the conditions made of them.

use mangonel_entries::entries;
use pyo3::exceptions::PyTypeError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyFloat, PyInt, PyNotImplemented, PyString, PyType};

use super::plan::{Field, OdmModel, Op, Plan, Type};
use super::{field_of, stored, type_of, value};
use crate::codec::fault::{Kind, Problem, into_exception};
use crate::codec::object_id;
use crate::native::instance_of;
use crate::thread_end::Entry;

/// Return the BSON form of a query operand: a value of the field, as by `odm_dump`, or of its elements. `NotImplemented` if
/// it is neither, since an exception would take ten times as long.
#[entries]
#[pyfunction]
#[pyo3(signature = (model, attribute, value, is_element=false))]
pub(super) fn odm_compared<'py>(
    py: Python<'py>,
    model: &Bound<'py, OdmModel>,
    attribute: &Bound<'py, PyString>,
    value: &Bound<'py, PyAny>,
    is_element: bool,
) -> PyResult<Bound<'py, PyAny>> {
    let plan = model.get().model.0.plan(py)?;
    let found = compared(plan, field_of(plan, attribute)?, value, is_element)?;
    Ok(found.unwrap_or_else(|| PyNotImplemented::get(py).to_owned().into_any()))
}

/// Does what `odm_compared` says; None: it is neither.
fn compared<'py>(
    plan: &'static Plan,
    field: &'static Field,
    value: &Bound<'py, PyAny>,
    is_element: bool,
) -> PyResult<Option<Bound<'py, PyAny>>> {
    let py = value.py();
    let has_elements = !std::ptr::eq(type_of(field, false), type_of(field, true));
    let mut raised = None;
    for is_element in [is_element, !is_element].into_iter().take(1 + usize::from(has_elements)) {
        let made = match value::taken(type_of(field, is_element), value) {
            Ok(Some(made)) => stored(py, plan, field, is_element, &made),
            Ok(None) => continue,
            Err(fault) => Err(fault),
        };
        match made.map_err(|fault| *fault) {
            Ok(made) => return Ok(Some(made)),
            Err(Problem::Found { kind: Kind::Field, .. }) => {}
            Err(Problem::Python(error)) => raised = Some(error),
            Err(problem) => return Err(into_exception(py, Box::new(problem), None)),
        }
    }
    raised.map_or(Ok(None), Err)
}

/// Makes the conditions of a field and a value, where the value is one that goes into BSON as it is.
#[pyclass(frozen, module = "mangonel._core")]
pub(super) struct OdmComparison {
    _entry: Entry,
    model: Py<OdmModel>,
    attribute: Py<PyString>,
    is_element: bool,
    /// The path in the database.
    key: Py<PyString>,
    /// The class of conditions, which have a `query`.
    class: Py<PyType>,
}

#[entries]
#[pymethods]
impl OdmComparison {
    #[new]
    fn new(
        model: Py<OdmModel>,
        attribute: Py<PyString>,
        is_element: bool,
        key: Py<PyString>,
        class: Py<PyType>,
    ) -> Self {
        OdmComparison { _entry: Entry, model, attribute, is_element, key, class }
    }

    /// Return the condition that the field equals the value, or compares with it by an operator of the server;
    /// `NotImplemented`: Python has to look at the value.
    #[pyo3(signature = (value, operator=None))]
    fn __call__<'py>(
        &self,
        value: &Bound<'py, PyAny>,
        operator: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = value.py();
        let plan = self.model.get().model.0.plan(py)?;
        let kind = type_of(field_of(plan, self.attribute.bind(py))?, self.is_element);
        if !goes_as_it_is(py, kind, value) {
            return Ok(PyNotImplemented::get(py).to_owned().into_any());
        }
        let query = PyDict::new(py);
        match operator {
            None => query.set_item(&self.key, value)?,
            Some(operator) => {
                let inner = PyDict::new(py);
                inner.set_item(operator, value)?;
                query.set_item(&self.key, inner)?;
            }
        }
        condition(self.class.bind(py), &query)
    }
}

/// Whether a value without parts is exactly of the type, and comes back from BSON as it was.
fn goes_as_it_is(py: Python<'_>, kind: &Type, value: &Bound<'_, PyAny>) -> bool {
    match kind.op {
        _ if !kind.checks.is_empty() => false,
        Op::Str => value.cast_exact::<PyString>().is_ok_and(|text| text.to_str().is_ok()),
        // A larger one is an `Int64` then.
        Op::Int => value.is_exact_instance_of::<PyInt>() && value.extract::<i32>().is_ok(),
        Op::Float => value.is_exact_instance_of::<PyFloat>(),
        Op::Bool => value.is_exact_instance_of::<PyBool>(),
        Op::ObjectId => object_id::known_class(py).is_some_and(|class| value.get_type().is(class)),
        _ => false,
    }
}

/// Makes a condition without a call of its constructor, which would copy the query.
fn condition<'py>(class: &Bound<'py, PyType>, query: &Bound<'py, PyDict>) -> PyResult<Bound<'py, PyAny>> {
    let made = instance_of(class)?
        .ok_or_else(|| PyTypeError::new_err("expected a class of conditions that has no __new__"))?;
    made.setattr(intern!(class.py(), "query"), query)?;
    Ok(made)
}
