//! Python objects of the simplest classes, and questions about any object, as safe functions: a result of the C API is
//! a `Bound`, which releases itself, or a `Fault`. pyo3's own constructors panic without memory. Knows no BSON.
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyType;

use super::fault::{Fault, raised};

/// A new object, or the reason why there is none.
pub(crate) type Made<'py> = Result<Bound<'py, PyAny>, Fault>;

/// Takes over the result of a call of the C API.
///
/// # Safety
/// `made` must be a reference that the caller owns and hands on, or null with the interpreter's error set.
#[inline(always)]
pub(crate) unsafe fn owned(py: Python<'_>, made: *mut ffi::PyObject) -> Made<'_> {
    // SAFETY: the caller hands over a reference of its own, which the `Bound` gives back once; null, which is no
    // object, becomes an error.
    match unsafe { Bound::from_owned_ptr_or_opt(py, made) } {
        Some(made) => Ok(made),
        None => Err(raised(py)),
    }
}

/// An int.
#[inline(always)]
pub(crate) fn int(py: Python<'_>, number: i64) -> Made<'_> {
    // SAFETY: the call takes any number, needs the GIL, which `py` shows, and returns a new reference or null.
    unsafe { owned(py, ffi::PyLong_FromLongLong(number)) }
}

/// An int of 32 bits.
#[inline(always)]
pub(crate) fn short_int(py: Python<'_>, number: i32) -> Made<'_> {
    // SAFETY: the call takes any `c_long`, needs the GIL, which `py` shows, and returns a new reference or null.
    unsafe { owned(py, ffi::PyLong_FromLong(number.into())) }
}

/// An unsigned int.
#[inline(always)]
pub(crate) fn natural(py: Python<'_>, number: u64) -> Made<'_> {
    // SAFETY: the call takes any `u64`, needs the GIL, which `py` shows, and returns a new reference or null.
    unsafe { owned(py, ffi::PyLong_FromUnsignedLongLong(number)) }
}

/// The number of an int, or of an object with `__index__`; None: it does not fit.
pub(crate) fn long_of(number: &Bound<'_, PyAny>) -> Result<Option<i64>, Fault> {
    let mut overflow = 0;
    // SAFETY: the object is alive; where it is no number, the interpreter's error is set.
    let found = unsafe { ffi::PyLong_AsLongLongAndOverflow(number.as_ptr(), &raw mut overflow) };
    if found == -1 && overflow == 0 && PyErr::occurred(number.py()) {
        return Err(raised(number.py()));
    }
    Ok((overflow == 0).then_some(found))
}

/// The value of an unsigned int; None: it is no such number, or does not fit.
pub(crate) fn natural_of(number: &Bound<'_, PyAny>) -> Option<u64> {
    // SAFETY: the object is alive; where it is no such number, the interpreter's error is set, and ignored.
    let found = unsafe { ffi::PyLong_AsUnsignedLongLong(number.as_ptr()) };
    (found != u64::MAX || PyErr::take(number.py()).is_none()).then_some(found)
}

/// A float.
#[inline(always)]
pub(crate) fn float(py: Python<'_>, number: f64) -> Made<'_> {
    // SAFETY: the call takes any `f64`, needs the GIL, which `py` shows, and returns a new reference or null.
    unsafe { owned(py, ffi::PyFloat_FromDouble(number)) }
}

/// The float of a number.
pub(crate) fn float_of<'py>(number: &Bound<'py, PyAny>) -> Made<'py> {
    // SAFETY: `number` is alive as long as its `Bound`; for any object, the result is a new reference or null.
    unsafe { owned(number.py(), ffi::PyNumber_Float(number.as_ptr())) }
}

/// A list of these objects, which it takes over.
#[inline(always)]
pub(crate) fn list<'py>(py: Python<'py>, items: std::vec::Drain<'_, Bound<'py, PyAny>>) -> Made<'py> {
    // SAFETY: nothing else refers to the new list, which has a place for each item: a drained vector tells its length
    // rightly.
    unsafe {
        let list = owned(py, ffi::PyList_New(items.len() as ffi::Py_ssize_t))?;
        for (index, item) in items.enumerate() {
            ffi::PyList_SET_ITEM(list.as_ptr(), index as ffi::Py_ssize_t, item.into_ptr());
        }
        Ok(list)
    }
}

/// True or False.
#[inline(always)]
pub(crate) fn bool(py: Python<'_>, is_true: bool) -> Bound<'_, PyAny> {
    pyo3::types::PyBool::new(py, is_true).to_owned().into_any()
}

/// An empty list.
pub(crate) fn empty_list(py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
    // SAFETY: needs the GIL alone, and returns a new reference or null with the error set.
    unsafe { Bound::from_owned_ptr_or_err(py, ffi::PyList_New(0)) }
}

/// An empty dict.
pub(crate) fn empty_dict(py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
    // SAFETY: needs the GIL alone, which `py` shows, and returns a new reference or null with the error set.
    unsafe { Bound::from_owned_ptr_or_err(py, ffi::PyDict_New()) }
}

/// A set of the items of an iterable.
pub(crate) fn set_of<'py>(items: &Bound<'py, PyAny>, is_frozen: bool) -> Made<'py> {
    // SAFETY: `items` is alive as long as its `Bound`; for any object, the result is a new reference or null.
    unsafe {
        let items_ptr = items.as_ptr();
        let made = if is_frozen { ffi::PyFrozenSet_New(items_ptr) } else { ffi::PySet_New(items_ptr) };
        owned(items.py(), made)
    }
}

/// Sets an item of a dict.
#[inline]
pub(crate) fn set_item(
    dict: &Bound<'_, PyAny>,
    key: &Bound<'_, PyAny>,
    value: &Bound<'_, PyAny>,
) -> Result<(), Fault> {
    // SAFETY: all three are alive as long as their `Bound`s, and the call refuses all but dicts.
    match unsafe { ffi::PyDict_SetItem(dict.as_ptr(), key.as_ptr(), value.as_ptr()) } {
        0 => Ok(()),
        _ => Err(raised(dict.py())),
    }
}

/// Returns whether an object is an instance of a class or of a subclass, ignoring its `__class__`.
#[inline(always)]
pub(crate) fn is_of(object: &Bound<'_, PyAny>, class: &Py<PyType>) -> bool {
    // SAFETY: both are alive as long as the references to them, and the second is a type: `Py<PyType>` says so.
    unsafe { ffi::PyObject_TypeCheck(object.as_ptr(), class.as_ptr().cast()) != 0 }
}

/// Returns whether the garbage collector tracks objects of this object's class.
#[inline(always)]
pub(crate) fn is_collected(object: &Bound<'_, PyAny>) -> bool {
    let class = object.get_type_ptr();
    // SAFETY: the object and with it its class are alive; both are only read. As `PyObject_IS_GC`, without its call.
    unsafe { ffi::PyType_IS_GC(class) != 0 && (*class).tp_is_gc.is_none_or(|ask| ask(object.as_ptr()) != 0) }
}
