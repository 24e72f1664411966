//! Functions shared by the classes written against the C API: they make a class, run a slot's body, and free an
//! instance's memory. Knows none of the classes.
use std::ffi::{CStr, c_int, c_ulong, c_void};

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyType;

use crate::thread_end::never_unwind_this_thread;

/// One slot of a class.
pub(crate) fn slot(number: c_int, function: *mut c_void) -> ffi::PyType_Slot {
    ffi::PyType_Slot { slot: number, pfunc: function }
}

/// Makes a class whose instances are `size` bytes long (0: as long as its base's). The last of `slots` is 0.
pub(crate) fn make_class(
    py: Python<'_>,
    name: &'static CStr,
    size: usize,
    flags: c_ulong,
    slots: &mut [ffi::PyType_Slot],
) -> PyResult<Py<PyType>> {
    assert!(slots.last().is_some_and(|last| last.slot == 0), "the slots end with a zero");
    let mut spec = ffi::PyType_Spec {
        name: name.as_ptr(),
        basicsize: size as c_int,
        itemsize: 0,
        flags: flags as _,
        slots: slots.as_mut_ptr(),
    };
    // SAFETY: the specification and the slots outlive the call, which copies what it keeps; they end with a zero, and
    // what they point to is static: functions of this crate, each of the type that its slot's number asks for, and text.
    let class = unsafe { Bound::from_owned_ptr_or_err(py, ffi::PyType_FromSpec(&raw mut spec))? };
    Ok(class.cast_into::<PyType>()?.unbind())
}

/// Runs the body of a slot or a method; on an error, sets the interpreter's exception and returns `failed`. For
/// functions that only the interpreter calls.
pub(crate) fn enter<T>(failed: T, body: impl FnOnce(Python<'_>) -> PyResult<T>) -> T {
    never_unwind_this_thread();
    // SAFETY: the interpreter calls slots and methods with the GIL held, and keeps it held until they return.
    let py = unsafe { Python::assume_attached() };
    match body(py) {
        Ok(value) => value,
        Err(error) => {
            restore(py, error);
            failed
        }
    }
}

/// Runs the body where pyo3 knows that the GIL is held: it counts only its own entries, and would otherwise release
/// references only at the next one.
pub(crate) fn counted<T>(py: Python<'_>, body: impl FnOnce(Python<'_>) -> T) -> T {
    never_unwind_this_thread();
    let mut body = Some(body);
    let result = Python::try_attach(|py| body.take().map(|body| body(py))).flatten();
    match (result, body) {
        (Some(result), _) => result,
        // pyo3 does not enter an interpreter that is exiting, but its finalizers still call this.
        (None, Some(body)) => body(py),
        (None, None) => unreachable!("the body was run and returned nothing"),
    }
}

/// Not inlined: moving an error into pyo3's entry and out again takes up to 15 kB in a slot.
#[cold]
#[inline(never)]
fn restore(py: Python<'_>, error: PyErr) {
    counted(py, |py| error.restore(py));
}

/// Makes an instance as `object.__new__` does; None if the class makes its instances itself, with a `__new__`.
pub(crate) fn instance_of<'py>(class: &Bound<'py, PyType>) -> PyResult<Option<Bound<'py, PyAny>>> {
    let raw = class.as_type_ptr();
    // SAFETY: a live class and the base of all; both fields are only read. A class that has `object`'s `tp_new` is made
    // by its allocator alone, as `object.__new__` does; it gives a new reference or null.
    unsafe {
        let usual = ffi::PyBaseObject_Type.tp_new.map(|new| new as usize);
        if (*raw).tp_new.map(|new| new as usize) != usual {
            return Ok(None);
        }
        let allocate = (*raw).tp_alloc.unwrap_or(ffi::PyType_GenericAlloc);
        Bound::from_owned_ptr_or_err(class.py(), allocate(raw, 0)).map(Some)
    }
}

/// Frees an instance's memory, and releases its reference to its class.
///
/// # Safety
/// For the end of a `tp_dealloc`: nothing refers to `object` any more, and its resources are released.
pub(crate) unsafe fn free(object: *mut ffi::PyObject) {
    // SAFETY: nothing refers to the object any more, so its memory is read here for the last time; `tp_free` belongs to
    // the allocator that it came from. Instances of heap types own a reference to their class, which so outlives the
    // call.
    unsafe {
        let class = ffi::Py_TYPE(object);
        match (*class).tp_free {
            Some(free) => free(object.cast()),
            None if ffi::PyType_IS_GC(class) != 0 => ffi::PyObject_GC_Del(object.cast()),
            None => ffi::PyObject_Free(object.cast()),
        }
        ffi::Py_DECREF(class.cast());
    }
}
