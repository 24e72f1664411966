//! Checks and converts a Python value by a field's annotation when it is set, and provides a field's default. Knows no
//! bytes.
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{
    PyBool, PyBytes, PyDate, PyDateTime, PyDict, PyFloat, PyFrozenSet, PyInt, PyList, PySet, PyString,
    PyTuple, PyType, PyTzInfoAccess,
};

use super::fields::is_instance;
use super::plan::{Check, CheckKind, Default, Op, Plan, Type};
use crate::codec::fault::{Fault, Kind, Step, found, into_exception, within};
use crate::codec::make::{self, Made, is_of};
use crate::codec::object_id;

static DECIMAL: PyOnceLock<Py<PyAny>> = PyOnceLock::new();

/// `decimal.Decimal`.
pub(super) fn decimal_class(py: Python<'_>) -> PyResult<&Bound<'_, PyAny>> {
    let class =
        DECIMAL.get_or_try_init(py, || Ok::<_, PyErr>(py.import("decimal")?.getattr("Decimal")?.unbind()))?;
    Ok(class.bind(py))
}

/// A class's name, for messages.
pub(super) fn class_name(class: &Bound<'_, PyType>) -> String {
    class.name().map_or_else(|_| "an object".to_owned(), |name| name.to_string())
}

/// An error of a field's value, with its path.
pub(super) fn located(py: Python<'_>, plan: &Plan, index: usize, fault: Fault) -> PyErr {
    let name = plan.fields[index].attribute.bind(py).to_string();
    into_exception(py, within(fault, Step::Key(name)), None)
}

/// The error of a value of the wrong type.
#[cold]
pub(super) fn mismatch(kind: &Type, given: &Bound<'_, PyAny>) -> Fault {
    if let (Op::Tuple(inner), Ok(given)) = (&kind.op, given.cast::<PyTuple>()) {
        let what = format!("expected {} of {} elements, got {}", label(kind), inner.len(), given.len());
        return found(Kind::Field, what, "");
    }
    let name = match &kind.op {
        _ if given.is_none() => "None".to_owned(),
        Op::AwareDatetime if given.is_instance_of::<PyDateTime>() => "one without".to_owned(),
        _ => class_name(&given.get_type()),
    };
    found(Kind::Field, format!("expected {}, got {name}", label(kind)), remedy(&kind.op, given))
}

/// The remedy for a value of a type that is often confused with the right one.
fn remedy(op: &Op, given: &Bound<'_, PyAny>) -> &'static str {
    let is_moment = given.is_instance_of::<PyDateTime>();
    let is_set = given.is_instance_of::<PySet>() || given.is_instance_of::<PyFrozenSet>();
    let is_tuple = given.is_instance_of::<PyTuple>();
    let is_list = given.is_instance_of::<PyList>();
    match op {
        Op::List(_) if is_set || is_tuple => "use a list",
        Op::Set(_, false) if is_list || is_tuple || is_set => "use a set",
        Op::Set(_, true) if is_list || is_tuple || is_set => "use a frozenset",
        Op::TupleOf(_) | Op::Tuple(_) if is_list || is_set => "use a tuple",
        Op::Datetime | Op::AwareDatetime if given.is_instance_of::<PyDate>() && !is_moment => {
            "use datetime.datetime"
        }
        Op::Date if is_moment => "use its date()",
        _ => "",
    }
}

/// The name of a type in errors.
pub(super) fn label(kind: &Type) -> String {
    if kind.nullable { format!("{} or None", kind.label) } else { kind.label.clone() }
}

/// A field's default; None if the key is required.
pub(super) fn default_of<'py>(py: Python<'py>, default: &Default) -> PyResult<Option<Bound<'py, PyAny>>> {
    Ok(Some(match default {
        Default::Required => return Ok(None),
        Default::Value(value) => value.bind(py).clone(),
        Default::List => make::empty_list(py)?,
        Default::Dict => make::empty_dict(py)?,
        Default::Set => PySet::empty(py)?.into_any(),
        Default::ObjectId => object_id::fresh(py)?,
        Default::Factory(factory) => factory.bind(py).call0()?,
    }))
}

/// Whether a value's class is exactly that of a scalar type, so that it is stored unchanged.
#[inline]
pub(super) fn is_exactly(kind: &Type, given: &Bound<'_, PyAny>) -> bool {
    kind.checks.is_empty()
        && match &kind.op {
            Op::Str => given.is_exact_instance_of::<PyString>(),
            Op::Int => given.is_exact_instance_of::<PyInt>(),
            Op::Float => given.is_exact_instance_of::<PyFloat>(),
            Op::Bool => given.is_exact_instance_of::<PyBool>(),
            Op::Bytes => given.is_exact_instance_of::<PyBytes>(),
            _ => false,
        }
}

/// Checks a value and returns the value to store: usually the same one.
pub(super) fn coerce<'py>(kind: &Type, given: &Bound<'py, PyAny>) -> Made<'py> {
    if is_exactly(kind, given) {
        return Ok(given.clone());
    }
    taken(kind, given)?.ok_or_else(|| mismatch(kind, given))
}

/// Like `coerce`, but returns None for a value of another type.
#[inline]
pub(super) fn taken<'py>(kind: &Type, given: &Bound<'py, PyAny>) -> Result<Option<Bound<'py, PyAny>>, Fault> {
    let py = given.py();
    let made = match fits(kind, given)? {
        Some(made) => made,
        None => {
            let Some(cast) = &kind.cast else { return Ok(None) };
            let converted = match cast.bind(py).call1((given,)) {
                Ok(converted) => converted,
                Err(error)
                    if error.is_instance_of::<PyValueError>(py)
                        || error.is_instance_of::<PyTypeError>(py) =>
                {
                    return Ok(None);
                }
                Err(error) => return Err(error.into()),
            };
            match fits(kind, &converted)? {
                Some(made) => made,
                None => return Ok(None),
            }
        }
    };
    if !kind.checks.is_empty() && !made.is_none() {
        check_all(py, &kind.checks, &made)?;
    }
    Ok(Some(made))
}

#[inline]
fn is_int(given: &Bound<'_, PyAny>) -> bool {
    given.is_instance_of::<PyInt>() && !given.is_instance_of::<PyBool>()
}

/// The value if it is of the type; None if it is not.
#[inline]
fn fits<'py>(kind: &Type, given: &Bound<'py, PyAny>) -> Result<Option<Bound<'py, PyAny>>, Fault> {
    let py = given.py();
    if given.is_none() {
        let is_taken = kind.nullable || matches!(kind.op, Op::Any | Op::None);
        return Ok(is_taken.then(|| given.clone()));
    }
    let is_it = match &kind.op {
        Op::Int => is_int(given),
        Op::Float => {
            let is_float = given.is_instance_of::<PyFloat>();
            if !is_float && is_int(given) {
                return make::float_of(given).map(Some);
            }
            is_float
        }
        Op::Decimal if is_int(given) => {
            return Ok(Some(decimal_class(py)?.call1((given,))?));
        }
        Op::List(inner) => {
            return given.cast::<PyList>().ok().map(|given| list(inner, given)).transpose();
        }
        Op::Dict(inner) => {
            return given.cast::<PyDict>().ok().map(|given| dict(inner, given)).transpose();
        }
        Op::Set(inner, is_frozen) => {
            let is_it = if *is_frozen {
                given.is_instance_of::<PyFrozenSet>()
            } else {
                given.is_instance_of::<PySet>()
            };
            if is_it {
                return set(inner, *is_frozen, given).map(Some);
            }
            false
        }
        Op::TupleOf(_) | Op::Tuple(_) => {
            let Ok(given) = given.cast::<PyTuple>() else { return Ok(None) };
            return tuple(kind, given);
        }
        Op::Union(union) => {
            if union.models.iter().any(|(_, model)| is_of(given, &model.class)) {
                return Ok(Some(given.clone()));
            }
            for other in &union.others {
                // An int becomes a float only if no alternative takes ints.
                if !matches!(other.op, Op::Float)
                    && let Ok(Some(made)) = fits(other, given)
                {
                    return Ok(Some(made));
                }
            }
            for other in &union.others {
                if matches!(other.op, Op::Float)
                    && let Some(made) = fits(other, given)?
                {
                    return Ok(Some(made));
                }
            }
            false
        }
        Op::Ref { make, class, inner, .. } | Op::Refs { make, class, inner } => {
            let is_reference = given.is_instance(class.bind(py))?;
            if is_reference || is_instance(given) || matches!(kind.op, Op::Refs { .. }) {
                return Ok(Some(make.bind(py).call1((given, py.None(), py.None()))?));
            } else {
                return fits(inner, given);
            }
        }
        _ => is_plain(kind, given)?,
    };
    Ok(is_it.then(|| given.clone()))
}

/// Whether a value is of a scalar type.
pub(super) fn is_plain(kind: &Type, given: &Bound<'_, PyAny>) -> Result<bool, Fault> {
    let py = given.py();
    Ok(match &kind.op {
        Op::Any => true,
        Op::Str => given.is_instance_of::<PyString>(),
        Op::Int => is_int(given),
        Op::Float => given.is_instance_of::<PyFloat>(),
        Op::Bool => given.is_instance_of::<PyBool>(),
        Op::Bytes => given.is_instance_of::<PyBytes>(),
        Op::Datetime => given.is_instance_of::<PyDateTime>(),
        Op::AwareDatetime => given.cast::<PyDateTime>().is_ok_and(|date| date.get_tzinfo().is_some()),
        Op::Date => given.is_instance_of::<PyDate>() && !given.is_instance_of::<PyDateTime>(),
        Op::ObjectId => object_id::known_class(py).is_some_and(|class| is_of(given, class)),
        Op::Decimal => given.is_instance(decimal_class(py)?)?,
        Op::None => given.is_none(),
        Op::Instance(class) | Op::Enum(class, _) => given.is_instance(class.bind(py))?,
        Op::Literal(values) => {
            let mut is_one = false;
            for value in values.bind(py).iter() {
                is_one |= value.get_type().is(given.get_type()) && value.eq(given)?;
            }
            is_one
        }
        Op::Embedded(model) => is_of(given, &model.class),
        Op::Geo { class, .. } => is_of(given, class),
        Op::Custom { class, .. } => class.is_none(py) || given.is_instance(class.bind(py))?,
        _ => false,
    })
}

/// Returns a container's element if its type is right. An id becomes a reference, since none is made when the element
/// is read.
fn element<'py>(inner: &Type, item: &Bound<'py, PyAny>) -> Made<'py> {
    let made = coerce(inner, item)?;
    let py = made.py();
    match &inner.op {
        Op::Ref { make, class, .. } if !made.is_none() && !made.is_instance(class.bind(py))? => {
            Ok(make.bind(py).call1((made, py.None(), py.None()))?)
        }
        _ => Ok(made),
    }
}

/// Returns a set whose elements have the right types: the same set, or a copy if some were converted.
fn set<'py>(inner: &Type, is_frozen: bool, set: &Bound<'py, PyAny>) -> Made<'py> {
    let mut items = Vec::new();
    let mut is_same = true;
    for item in set.try_iter()? {
        let item = item?;
        let made = element(inner, &item)?;
        is_same &= made.is(&item);
        items.push(made);
    }
    if is_same {
        return Ok(set.clone());
    }
    make::set_of(&PyList::new(set.py(), items)?.into_any(), is_frozen)
}

/// Returns a list whose elements have the right types: the same list, or a copy if some were converted.
fn list<'py>(inner: &Type, list: &Bound<'py, PyList>) -> Made<'py> {
    if matches!(inner.op, Op::Any) {
        return Ok(list.as_any().clone());
    }
    let mut copy: Option<Bound<'_, PyList>> = None;
    for (index, item) in list.iter().enumerate() {
        let made = element(inner, &item).map_err(|fault| within(fault, Step::Index(index)))?;
        if !made.is(&item) {
            let copy = match &copy {
                Some(copy) => copy,
                None => copy.insert(PyList::new(list.py(), list.iter())?),
            };
            copy.set_item(index, made)?;
        }
    }
    Ok(copy.unwrap_or_else(|| list.clone()).into_any())
}

fn dict<'py>(inner: &Type, dict: &Bound<'py, PyDict>) -> Made<'py> {
    let mut copy: Option<Bound<'_, PyDict>> = None;
    for (key, item) in dict.iter() {
        let Ok(name) = key.extract::<String>() else {
            let what = format!("expected str as key, got {}", class_name(&key.get_type()));
            return Err(found(Kind::Field, what, ""));
        };
        let made = element(inner, &item).map_err(|fault| within(fault, Step::Key(name)))?;
        if !made.is(&item) {
            let copy = match &copy {
                Some(copy) => copy,
                None => copy.insert(dict.copy()?),
            };
            copy.set_item(key, made)?;
        }
    }
    Ok(copy.unwrap_or_else(|| dict.clone()).into_any())
}

fn tuple<'py>(kind: &Type, tuple: &Bound<'py, PyTuple>) -> Result<Option<Bound<'py, PyAny>>, Fault> {
    let inner_of = |index: usize| match &kind.op {
        Op::Tuple(inner) => inner.get(index),
        Op::TupleOf(inner) => Some(&**inner),
        _ => None,
    };
    if let Op::Tuple(inner) = &kind.op
        && inner.len() != tuple.len()
    {
        return Ok(None);
    }
    let mut made = Vec::with_capacity(tuple.len());
    for (index, item) in tuple.iter().enumerate() {
        let Some(inner) = inner_of(index) else { return Ok(None) };
        made.push(element(inner, &item).map_err(|fault| within(fault, Step::Index(index)))?);
    }
    if made.iter().zip(tuple.iter()).all(|(made, item)| made.is(&item)) {
        return Ok(Some(tuple.as_any().clone()));
    }
    Ok(Some(PyTuple::new(tuple.py(), made)?.into_any()))
}

/// Runs the checks of a type on a value.
pub(super) fn check_all(py: Python<'_>, checks: &[Check], value: &Bound<'_, PyAny>) -> Result<(), Fault> {
    for check in checks {
        let bound = check.bound.bind(py);
        let (is_met, wish) = match check.kind {
            CheckKind::Ge => (value.ge(bound)?, ">="),
            CheckKind::Gt => (value.gt(bound)?, ">"),
            CheckKind::Le => (value.le(bound)?, "<="),
            CheckKind::Lt => (value.lt(bound)?, "<"),
            CheckKind::MinLength => (value.len()? >= bound.extract()?, "a length of at least"),
            CheckKind::MaxLength => (value.len()? <= bound.extract()?, "a length of at most"),
            CheckKind::MultipleOf => (!value.rem(bound)?.is_truthy()?, "a multiple of"),
            CheckKind::Pattern => (!bound.call1((value,))?.is_none(), "a match of"),
            CheckKind::Predicate => match bound.call1((value,)) {
                Ok(answer) => (answer.is_none() || answer.is_truthy()?, "a value that satisfies"),
                Err(error) if error.is_instance_of::<PyValueError>(py) => {
                    return Err(found(Kind::Field, error.value(py).to_string(), ""));
                }
                Err(error) => return Err(error.into()),
            },
        };
        if is_met {
            continue;
        }
        let shown = match check.kind {
            CheckKind::Pattern => bound.getattr("__self__")?.getattr("pattern")?.repr()?.to_string(),
            CheckKind::Predicate => match bound.getattr_opt("__name__")? {
                Some(name) => name.to_string(),
                None => bound.repr()?.to_string(),
            },
            _ => bound.repr()?.to_string(),
        };
        let mut given = match check.kind {
            CheckKind::MinLength | CheckKind::MaxLength => value.len()?.to_string(),
            _ => value.repr()?.to_string(),
        };
        if let Some((end, _)) = given.char_indices().nth(80) {
            given.truncate(end);
            given.push('…');
        }
        return Err(found(Kind::Field, format!("expected {wish} {shown}, got {given}"), ""));
    }
    Ok(())
}
