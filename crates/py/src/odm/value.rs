//! Whether a Python value is what a field's annotation says, and what it becomes when it is set. Knows no bytes.
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyList, PyTuple};

use super::instance::{class_name, is_instance};
use super::plan::{Check, CheckKind, Op, Type};
use crate::codec::fault::{Fault, Kind, Step, found, raised, within};
use crate::codec::object_id;

/// An owned object, or an error.
type Made = Result<*mut ffi::PyObject, Fault>;

static DECIMAL: PyOnceLock<Py<PyAny>> = PyOnceLock::new();

/// `decimal.Decimal`.
pub(super) fn decimal_class(py: Python<'_>) -> PyResult<&Bound<'_, PyAny>> {
    let class =
        DECIMAL.get_or_try_init(py, || Ok::<_, PyErr>(py.import("decimal")?.getattr("Decimal")?.unbind()))?;
    Ok(class.bind(py))
}

/// The error of a value of the wrong type.
#[cold]
pub(super) fn mismatch(kind: &Type, given: *mut ffi::PyObject) -> Fault {
    // SAFETY: a live object.
    let name =
        unsafe { if given == ffi::Py_None() { "None".to_owned() } else { class_name(ffi::Py_TYPE(given)) } };
    found(Kind::Field, format!("expected {}, got {name}", label(kind)), "")
}

/// How a type is called.
pub(super) fn label(kind: &Type) -> String {
    if kind.nullable { format!("{} or None", kind.label) } else { kind.label.clone() }
}

/// Checks a value and returns what is to be stored: mostly the value itself.
///
/// # Safety is the callers': `given` must be a live object.
pub(super) fn coerce(py: Python<'_>, kind: &Type, given: *mut ffi::PyObject) -> Made {
    let made = match fits(py, kind, given)? {
        Some(made) => made,
        None => {
            let Some(cast) = &kind.cast else { return Err(mismatch(kind, given)) };
            // SAFETY: a live object.
            let given = unsafe { Bound::from_borrowed_ptr(py, given) };
            let converted = match cast.bind(py).call1((&given,)) {
                Ok(converted) => converted,
                Err(error)
                    if error.is_instance_of::<PyValueError>(py)
                        || error.is_instance_of::<PyTypeError>(py) =>
                {
                    return Err(mismatch(kind, given.as_ptr()));
                }
                Err(error) => return Err(error.into()),
            };
            match fits(py, kind, converted.as_ptr())? {
                Some(made) => made,
                None => return Err(mismatch(kind, given.as_ptr())),
            }
        }
    };
    // SAFETY: `fits` returns a new reference, released here when a check fails.
    let made = unsafe { Bound::from_owned_ptr(py, made) };
    if !kind.checks.is_empty() && !made.is_none() {
        check_all(py, &kind.checks, &made)?;
    }
    Ok(made.into_ptr())
}

/// The value, owned, if it is of the type; None if it is not.
#[inline]
fn fits(py: Python<'_>, kind: &Type, given: *mut ffi::PyObject) -> Result<Option<*mut ffi::PyObject>, Fault> {
    // SAFETY: `given` is a live object throughout: the caller holds it.
    unsafe {
        if given == ffi::Py_None() {
            let is_taken = kind.nullable || matches!(kind.op, Op::Any | Op::None);
            return Ok(is_taken.then(|| same(given)));
        }
        let is_it = match &kind.op {
            Op::Int => ffi::PyLong_Check(given) != 0 && ffi::PyBool_Check(given) == 0,
            Op::Float => {
                if ffi::PyFloat_Check(given) == 0
                    && ffi::PyLong_Check(given) != 0
                    && ffi::PyBool_Check(given) == 0
                {
                    let made = ffi::PyNumber_Float(given);
                    return if made.is_null() { Err(raised(py)) } else { Ok(Some(made)) };
                }
                ffi::PyFloat_Check(given) != 0
            }
            Op::List(inner) => {
                if ffi::PyList_Check(given) == 0 {
                    return Ok(None);
                }
                return list(py, inner, given).map(Some);
            }
            Op::Dict(inner) => {
                if ffi::PyDict_Check(given) == 0 {
                    return Ok(None);
                }
                return dict(py, inner, given).map(Some);
            }
            Op::Set(inner, is_frozen) => {
                let is_it = if *is_frozen {
                    ffi::PyFrozenSet_Check(given) != 0
                } else {
                    ffi::PySet_Check(given) != 0
                };
                if is_it {
                    let given = Bound::from_borrowed_ptr(py, given);
                    for item in given.try_iter()? {
                        release(py, coerce(py, inner, item?.as_ptr())?);
                    }
                }
                is_it
            }
            Op::TupleOf(_) | Op::Tuple(_) => {
                if ffi::PyTuple_Check(given) == 0 {
                    return Ok(None);
                }
                return tuple(py, kind, given);
            }
            Op::Union(union) => {
                for (_, model) in &union.models {
                    if ffi::PyObject_TypeCheck(given, model.class) != 0 {
                        return Ok(Some(same(given)));
                    }
                }
                for other in &union.others {
                    // An int is a float only where no alternative takes it as it is.
                    if !matches!(other.op, Op::Float)
                        && let Ok(Some(made)) = fits(py, other, given)
                    {
                        return Ok(Some(made));
                    }
                }
                for other in &union.others {
                    if matches!(other.op, Op::Float)
                        && let Some(made) = fits(py, other, given)?
                    {
                        return Ok(Some(made));
                    }
                }
                false
            }
            Op::Ref { make, class, inner } | Op::Refs { make, class, inner } => {
                let value = Bound::from_borrowed_ptr(py, given);
                if value.is_instance(class.bind(py))? {
                    true
                } else if is_instance(py, given) || matches!(kind.op, Op::Refs { .. }) {
                    return Ok(Some(make.bind(py).call1((value, py.None(), py.None()))?.into_ptr()));
                } else {
                    return fits(py, inner, given);
                }
            }
            _ => is_plain(py, kind, given)?,
        };
        Ok(is_it.then(|| same(given)))
    }
}

/// Whether a value is of a type that has no parts.
///
/// # Safety
/// `given` must be a live object.
pub(super) unsafe fn is_plain(py: Python<'_>, kind: &Type, given: *mut ffi::PyObject) -> Result<bool, Fault> {
    // SAFETY: by the caller's promise; the C API of datetime was imported with the codec.
    unsafe {
        let is_instance_of = |class: &Py<PyAny>| -> Result<bool, Fault> {
            match ffi::PyObject_IsInstance(given, class.as_ptr()) {
                -1 => Err(raised(py)),
                answer => Ok(answer == 1),
            }
        };
        Ok(match &kind.op {
            Op::Any => true,
            Op::Str => ffi::PyUnicode_Check(given) != 0,
            Op::Int => ffi::PyLong_Check(given) != 0 && ffi::PyBool_Check(given) == 0,
            Op::Float => ffi::PyFloat_Check(given) != 0,
            Op::Bool => ffi::PyBool_Check(given) != 0,
            Op::Bytes => ffi::PyBytes_Check(given) != 0,
            Op::Datetime => ffi::PyDateTime_Check(given) != 0,
            Op::Date => ffi::PyDate_Check(given) != 0 && ffi::PyDateTime_Check(given) == 0,
            Op::ObjectId => ffi::PyObject_TypeCheck(given, object_id::class_ptr(py)) != 0,
            Op::Decimal => Bound::from_borrowed_ptr(py, given).is_instance(decimal_class(py)?)?,
            Op::None => given == ffi::Py_None(),
            Op::Instance(class) | Op::Enum(class, _) => is_instance_of(class)?,
            Op::Literal(values) => {
                let given = Bound::from_borrowed_ptr(py, given);
                let mut is_one = false;
                for value in values.bind(py).iter() {
                    is_one |= value.get_type().is(given.get_type()) && value.eq(&given)?;
                }
                is_one
            }
            Op::Embedded(model) => ffi::PyObject_TypeCheck(given, model.class) != 0,
            Op::Geo { class, .. } => ffi::PyObject_TypeCheck(given, class.as_ptr().cast()) != 0,
            Op::Custom { class, .. } => class.is_none(py) || is_instance_of(class)?,
            _ => false,
        })
    }
}

/// One more reference to an object.
unsafe fn same(object: *mut ffi::PyObject) -> *mut ffi::PyObject {
    // SAFETY: a live object.
    unsafe { ffi::Py_INCREF(object) };
    object
}

fn release(py: Python<'_>, object: *mut ffi::PyObject) {
    // SAFETY: owned by the caller.
    drop(unsafe { Bound::from_owned_ptr(py, object) });
}

/// A list whose elements fit: itself, or a copy when some had to become others.
fn list(py: Python<'_>, inner: &Type, given: *mut ffi::PyObject) -> Made {
    // SAFETY: a list, held by the caller; a reference to each element is taken before anything runs.
    let list: Bound<'_, PyList> = unsafe { Bound::from_borrowed_ptr(py, given).cast_into_unchecked() };
    if matches!(inner.op, Op::Any) {
        return Ok(list.into_ptr());
    }
    let mut copy: Option<Bound<'_, PyList>> = None;
    for (index, item) in list.iter().enumerate() {
        let made = coerce(py, inner, item.as_ptr()).map_err(|fault| within(fault, Step::Index(index)))?;
        // SAFETY: `coerce` returns a new reference.
        let made = unsafe { Bound::from_owned_ptr(py, made) };
        if !made.is(&item) {
            let copy = match &copy {
                Some(copy) => copy,
                None => copy.insert(PyList::new(py, list.iter())?),
            };
            copy.set_item(index, made)?;
        }
    }
    Ok(copy.unwrap_or(list).into_ptr())
}

fn dict(py: Python<'_>, inner: &Type, given: *mut ffi::PyObject) -> Made {
    // SAFETY: a dict, held by the caller; `iter` takes references.
    let dict: Bound<'_, PyDict> = unsafe { Bound::from_borrowed_ptr(py, given).cast_into_unchecked() };
    let mut copy: Option<Bound<'_, PyDict>> = None;
    for (key, item) in dict.iter() {
        let Ok(name) = key.extract::<String>() else {
            let what = format!("expected str as key, got {}", class_name(key.get_type_ptr()));
            return Err(found(Kind::Field, what, ""));
        };
        let made = coerce(py, inner, item.as_ptr()).map_err(|fault| within(fault, Step::Key(name)))?;
        // SAFETY: `coerce` returns a new reference.
        let made = unsafe { Bound::from_owned_ptr(py, made) };
        if !made.is(&item) {
            let copy = match &copy {
                Some(copy) => copy,
                None => copy.insert(dict.copy()?),
            };
            copy.set_item(key, made)?;
        }
    }
    Ok(copy.unwrap_or(dict).into_ptr())
}

fn tuple(
    py: Python<'_>,
    kind: &Type,
    given: *mut ffi::PyObject,
) -> Result<Option<*mut ffi::PyObject>, Fault> {
    // SAFETY: a tuple, held by the caller, and tuples do not change.
    let tuple: Bound<'_, PyTuple> = unsafe { Bound::from_borrowed_ptr(py, given).cast_into_unchecked() };
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
        let item = coerce(py, inner, item.as_ptr()).map_err(|fault| within(fault, Step::Index(index)))?;
        // SAFETY: `coerce` returns a new reference.
        made.push(unsafe { Bound::from_owned_ptr(py, item) });
    }
    if made.iter().zip(tuple.iter()).all(|(made, item)| made.is(&item)) {
        return Ok(Some(tuple.into_ptr()));
    }
    Ok(Some(PyTuple::new(py, made)?.into_ptr()))
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
