//! An awaitable that is finished before it is awaited: the result of `__anext__` while a batch lasts. Also runs flows
//! that never suspend.
//!
//! `Finished` is a class of the C API, not a `pyclass`: with the `am_send` slot the interpreter takes the value without
//! raising and catching a StopIteration for every document. It has a coroutine's methods `send`, `throw` and `close`,
//! so that a task accepts it.

use std::ffi::CStr;
use std::os::raw::{c_int, c_void};
use std::ptr;

use mangonel_entries::entries;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyTuple, PyType};
use pyo3::{PyTraverseError, PyVisit, ffi, intern};

use super::failure;
use crate::native::{free, make_class, slot};
use crate::thread_end::Entry;

#[repr(C)]
struct Finished {
    head: ffi::PyObject,
    /// The value; null once it was taken.
    value: *mut ffi::PyObject,
}

static CLASS: PyOnceLock<Py<PyType>> = PyOnceLock::new();
static METHOD: PyOnceLock<Py<PyType>> = PyOnceLock::new();

/// Returns an awaitable whose result is `value`.
pub fn finished(py: Python<'_>, value: Py<PyAny>) -> PyResult<Py<PyAny>> {
    let class = CLASS.get_or_try_init(py, || make(py))?;
    // SAFETY: the class's instances are `Finished`. A new one has a null value, in whose place the reference is moved before
    // anyone else knows the instance.
    unsafe {
        let made = Bound::from_owned_ptr_or_err(py, ffi::PyType_GenericAlloc(class.as_ptr().cast(), 0))?;
        (*made.as_ptr().cast::<Finished>()).value = value.into_ptr();
        Ok(made.unbind())
    }
}

/// Adds the functions of this module.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(finished_with, module)?)?;
    module.add_function(wrap_pyfunction!(run_now, module)?)?;
    module.add_function(wrap_pyfunction!(blocking_method, module)?)
}

/// Return an awaitable that is finished, and whose result is `value`.
#[entries]
#[pyfunction]
fn finished_with(py: Python<'_>, value: Py<PyAny>) -> PyResult<Py<PyAny>> {
    finished(py, value)
}

/// Run a flow whose port never suspends, to its end; return its value.
///
/// Raises BugError if the flow awaits something that is not ready: the flow is at fault, not its caller.
#[entries]
#[pyfunction]
fn run_now(steps: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
    let py = steps.py();
    match send_to(steps, py.None().bind(py))? {
        Turn::Return(value) => return Ok(value),
        Turn::Wait(_) => steps.call_method0(intern!(py, "close"))?,
    };
    Err(failure::bug(
        py,
        "expected a blocking flow to run to its end, got it suspended; it awaits something foreign",
    ))
}

/// The outcome of a coroutine's step: a future that its task must wait for, or its result.
pub enum Turn {
    Wait(Py<PyAny>),
    Return(Py<PyAny>),
}

/// Sends a value into a coroutine or another iterator.
pub fn send_to(steps: &Bound<'_, PyAny>, value: &Bound<'_, PyAny>) -> PyResult<Turn> {
    let py = steps.py();
    let mut result = ptr::null_mut();
    // SAFETY: both live as long as their borrows, and the call checks what may be sent to. It gives a new reference, or
    // null where it raised.
    let (outcome, result) = unsafe {
        let outcome = ffi::PyIter_Send(steps.as_ptr(), value.as_ptr(), &raw mut result);
        (outcome, Bound::from_owned_ptr_or_err(py, result)?.unbind())
    };
    Ok(if outcome == ffi::PySendResult::PYGEN_RETURN { Turn::Return(result) } else { Turn::Wait(result) })
}

/// Return a method that calls a flow's function and runs the flow as `run_now` does, without its own frame.
#[entries]
#[pyfunction]
fn blocking_method(flow: Py<PyAny>) -> BlockingMethod {
    BlockingMethod { _entry: Entry, flow }
}

/// A flow of a class as a method that returns its value.
#[pyclass(frozen, module = "mangonel._core")]
struct BlockingMethod {
    _entry: Entry,
    /// The function that makes the flow; `inspect.signature` reads it.
    #[pyo3(get, name = "__wrapped__")]
    flow: Py<PyAny>,
}

#[entries]
#[pymethods]
impl BlockingMethod {
    #[pyo3(signature = (*arguments, **options))]
    fn __call__(
        &self,
        py: Python<'_>,
        arguments: &Bound<'_, PyTuple>,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Py<PyAny>> {
        run_now(&self.flow.bind(py).call(arguments, options)?)
    }

    /// Binds it to an instance, as functions do.
    fn __get__<'py>(
        this: Bound<'py, Self>,
        instance: &Bound<'py, PyAny>,
        _class: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        if instance.is_none() {
            return Ok(this.into_any());
        }
        METHOD.import(this.py(), "types", "MethodType")?.call1((this, instance))
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.flow)
    }
}

/// A table that the interpreter reads and never writes.
struct Methods([ffi::PyMethodDef; 4]);

// SAFETY: the pointers in it are to functions and to static text, which never change.
unsafe impl Sync for Methods {}

static METHODS: Methods = Methods([
    method(
        c"send",
        c"Return what was waited for, as StopIteration.",
        ffi::METH_O,
        ffi::PyMethodDefPointer { PyCFunction: send_method },
    ),
    method(
        c"throw",
        c"Raise the thrown exception.",
        ffi::METH_VARARGS,
        ffi::PyMethodDefPointer { PyCFunction: throw },
    ),
    method(c"close", c"Forget the value.", ffi::METH_NOARGS, ffi::PyMethodDefPointer { PyCFunction: close }),
    ffi::PyMethodDef::zeroed(),
]);

const fn method(
    name: &'static CStr,
    doc: &'static CStr,
    flags: c_int,
    function: ffi::PyMethodDefPointer,
) -> ffi::PyMethodDef {
    ffi::PyMethodDef { ml_name: name.as_ptr(), ml_meth: function, ml_flags: flags, ml_doc: doc.as_ptr() }
}

fn make(py: Python<'_>) -> PyResult<Py<PyType>> {
    let itself = ffi::PyObject_SelfIter as *mut c_void;
    let mut slots = [
        slot(ffi::Py_tp_methods, METHODS.0.as_ptr().cast_mut().cast()),
        slot(ffi::Py_tp_dealloc, dealloc as *mut c_void),
        slot(ffi::Py_am_await, itself),
        slot(ffi::Py_am_send, send as *mut c_void),
        slot(ffi::Py_tp_iter, itself),
        slot(ffi::Py_tp_iternext, next as *mut c_void),
        slot(0, ptr::null_mut()),
    ];
    let flags = ffi::Py_TPFLAGS_DEFAULT | ffi::Py_TPFLAGS_DISALLOW_INSTANTIATION;
    make_class(py, c"mangonel._core.Finished", size_of::<Finished>(), flags, &mut slots)
}

/// # Safety
/// Called by the interpreter with a `Finished`.
#[entries]
unsafe extern "C" fn dealloc(this: *mut ffi::PyObject) {
    // SAFETY: called once, for a `Finished` without references; it owns its value. Its memory goes last.
    unsafe {
        ffi::Py_CLEAR(&raw mut (*this.cast::<Finished>()).value);
        free(this);
    }
}

/// # Safety
/// Called by the interpreter with a `Finished`.
unsafe fn take(this: *mut ffi::PyObject) -> *mut ffi::PyObject {
    // SAFETY: `this` is a live `Finished`, as only its own slots and methods call this, and the interpreter's lock
    // keeps others away. The reference it owned, if it still had it, is the caller's now.
    unsafe { ptr::replace(&raw mut (*this.cast::<Finished>()).value, ptr::null_mut()) }
}

/// # Safety
/// Called by the interpreter with a `Finished`.
#[entries]
unsafe extern "C" fn send(
    this: *mut ffi::PyObject,
    _sent: *mut ffi::PyObject,
    result: *mut *mut ffi::PyObject,
) -> ffi::PySendResult {
    // SAFETY: the interpreter passes a live `Finished`, and a place that takes one reference over.
    unsafe {
        let value = take(this);
        if value.is_null() {
            *result = ptr::null_mut();
            ffi::PyErr_SetString(ffi::PyExc_RuntimeError, c"cannot await the same document twice".as_ptr());
            return ffi::PySendResult::PYGEN_ERROR;
        }
        *result = value;
        ffi::PySendResult::PYGEN_RETURN
    }
}

/// # Safety
/// Called by the interpreter with a `Finished`.
#[entries]
unsafe extern "C" fn next(this: *mut ffi::PyObject) -> *mut ffi::PyObject {
    // SAFETY: the interpreter passes a live `Finished`. The value is ours from `take` on; the exception takes its own
    // reference to it, so ours is released. So is ours to the exception: `PyErr_SetObject` takes its own.
    unsafe {
        let value = take(this);
        if value.is_null() {
            ffi::PyErr_SetString(ffi::PyExc_RuntimeError, c"cannot await the same document twice".as_ptr());
            return ptr::null_mut();
        }
        // A tuple or an exception as the only argument would be unpacked; inside an instance it is not.
        let stop = ffi::PyObject_CallOneArg(ffi::PyExc_StopIteration, value);
        ffi::Py_DECREF(value);
        if !stop.is_null() {
            ffi::PyErr_SetObject(ffi::PyExc_StopIteration, stop);
            ffi::Py_DECREF(stop);
        }
        ptr::null_mut()
    }
}

/// # Safety
/// Called by the interpreter with a `Finished`.
unsafe extern "C" fn send_method(this: *mut ffi::PyObject, _sent: *mut ffi::PyObject) -> *mut ffi::PyObject {
    // SAFETY: `next` asks for what the interpreter passed here.
    unsafe { next(this) }
}

/// # Safety
/// Called by the interpreter with a `Finished` and a tuple of arguments.
#[entries]
unsafe extern "C" fn throw(this: *mut ffi::PyObject, arguments: *mut ffi::PyObject) -> *mut ffi::PyObject {
    // SAFETY: METH_VARARGS: the interpreter passes a live `Finished` and a tuple, and keeps both alive; what is borrowed of the
    // tuple is looked at after its length, and lives as long. The value, ours from `take` on, is released.
    unsafe {
        ffi::Py_XDECREF(take(this));
        if ffi::PyTuple_GET_SIZE(arguments) == 0 {
            ffi::PyErr_SetString(ffi::PyExc_TypeError, c"expected an exception to throw, got none".as_ptr());
            return ptr::null_mut();
        }
        let thrown = ffi::PyTuple_GET_ITEM(arguments, 0);
        if ffi::PyExceptionInstance_Check(thrown) != 0 {
            ffi::PyErr_SetObject(ffi::Py_TYPE(thrown).cast(), thrown);
        } else if ffi::PyExceptionClass_Check(thrown) != 0 {
            ffi::PyErr_SetNone(thrown);
        } else {
            ffi::PyErr_SetString(
                ffi::PyExc_TypeError,
                c"expected an exception to throw, got another object".as_ptr(),
            );
        }
        ptr::null_mut()
    }
}

/// # Safety
/// Called by the interpreter with a `Finished`.
#[entries]
unsafe extern "C" fn close(this: *mut ffi::PyObject, _none: *mut ffi::PyObject) -> *mut ffi::PyObject {
    // SAFETY: the interpreter passes a live `Finished` and keeps it alive. The value is ours from `take` on; releasing it may
    // run any code, which finds none in the instance.
    unsafe {
        ffi::Py_XDECREF(take(this));
        ffi::Py_NewRef(ffi::Py_None())
    }
}
