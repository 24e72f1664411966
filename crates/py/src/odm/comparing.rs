//! The BSON form of query operands, and the conditions made from them.

use std::sync::OnceLock;

use mangonel_entries::entries;
use pyo3::basic::CompareOp;
use pyo3::exceptions::PyTypeError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyFloat, PyInt, PyNotImplemented, PyString, PyTuple, PyType};

use super::plan::{Field, OdmModel, Op, Plan, Type};
use super::{field_of, stored, type_of, value};
use crate::codec::fault::{Kind, Problem, into_exception};
use crate::codec::object_id;
use crate::native::instance_of;
use crate::thread_end::Entry;

/// Return the BSON form of a query operand: a value of the field, as `odm_dump` does, or of its elements.
/// `NotImplemented` if it is neither, since an exception would take ten times as long.
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

/// Implements `odm_compared`; None: the operand is neither.
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

/// The base of fields as class attributes: compares them with values that BSON stores unchanged. For every other value,
/// it calls `_compare` of the field's own class.
#[pyclass(frozen, subclass, module = "mangonel._core")]
pub(super) struct OdmPath {
    _entry: Entry,
    comparison: OnceLock<Comparison>,
}

#[entries]
#[pymethods]
impl OdmPath {
    /// The arguments belong to the subclass.
    #[new]
    #[pyo3(signature = (*_arguments, **_keywords))]
    fn new(_arguments: &Bound<'_, PyTuple>, _keywords: Option<&Bound<'_, PyDict>>) -> Self {
        OdmPath { _entry: Entry, comparison: OnceLock::new() }
    }

    fn __richcmp__<'py>(
        slf: &Bound<'py, Self>,
        value: &Bound<'py, PyAny>,
        operator: CompareOp,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = slf.py();
        let comparison = match slf.get().comparison.get() {
            Some(known) => known,
            None => {
                let made = slf.call_method0(intern!(py, "_comparing"))?.extract()?;
                slf.get().comparison.get_or_init(|| made)
            }
        };
        let operator = match operator {
            CompareOp::Eq => None,
            CompareOp::Ne => Some(intern!(py, "$ne")),
            CompareOp::Lt => Some(intern!(py, "$lt")),
            CompareOp::Le => Some(intern!(py, "$lte")),
            CompareOp::Gt => Some(intern!(py, "$gt")),
            CompareOp::Ge => Some(intern!(py, "$gte")),
        };
        match comparison.condition(value, operator)? {
            Some(made) => Ok(made),
            None => slf.call_method1(intern!(py, "_compare"), (value, operator)),
        }
    }
}

/// The parts from which a condition on a field is made.
#[derive(FromPyObject)]
struct Comparison(
    /// The field's model.
    Py<OdmModel>,
    /// The field's attribute.
    Py<PyString>,
    /// Whether the condition is on an element of the field's value.
    bool,
    /// The path in the database.
    Py<PyString>,
    /// The class of conditions, which have a `query`.
    Py<PyType>,
);

impl Comparison {
    /// The condition that the field equals the value, or compares with it through a server operator; None: Python must
    /// handle the value.
    fn condition<'py>(
        &self,
        value: &Bound<'py, PyAny>,
        operator: Option<&Bound<'py, PyString>>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let Comparison(model, attribute, is_element, key, class) = self;
        let py = value.py();
        let plan = model.get().model.0.plan(py)?;
        let kind = type_of(field_of(plan, attribute.bind(py))?, *is_element);
        if !goes_as_it_is(py, kind, value) {
            return Ok(None);
        }
        let query = PyDict::new(py);
        match operator {
            None => query.set_item(key, value)?,
            Some(operator) => {
                let inner = PyDict::new(py);
                inner.set_item(operator, value)?;
                query.set_item(key, inner)?;
            }
        }
        condition(class.bind(py), &query).map(Some)
    }
}

/// Whether a scalar is exactly of the type, and is read back from BSON unchanged.
fn goes_as_it_is(py: Python<'_>, kind: &Type, value: &Bound<'_, PyAny>) -> bool {
    match &kind.op {
        _ if !kind.checks.is_empty() => false,
        Op::Str => value.cast_exact::<PyString>().is_ok_and(|text| text.to_str().is_ok()),
        // A larger int is read back as an `Int64`.
        Op::Int => value.is_exact_instance_of::<PyInt>() && value.extract::<i32>().is_ok(),
        Op::Float => value.is_exact_instance_of::<PyFloat>(),
        Op::Bool => value.is_exact_instance_of::<PyBool>(),
        Op::ObjectId => object_id::known_class(py).is_some_and(|class| value.get_type().is(class)),
        Op::Ref { inner, .. } => goes_as_it_is(py, inner, value),
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
