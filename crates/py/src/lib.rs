//! The binding: Python to and from BSON, and the core's machines as Python classes. Makes no protocol decision.

// A C long has 32 bits on Windows, and 64 elsewhere.
#![cfg_attr(windows, allow(clippy::useless_conversion))]

pub mod codec;
mod columns;
mod crypto;
mod driver;
mod native;
mod odm;
mod thread_end;

use pyo3::exceptions::PyImportError;
use pyo3::ffi;
use pyo3::prelude::*;

/// The Rust half of mangonel; its public face is the `mangonel` package.
// The codec's caches are guarded by the GIL, so a free-threaded interpreter must turn it on. tools/core_rules.py names
// what would have to change.
#[pymodule(gil_used = true)]
fn _core(module: &Bound<'_, PyModule>) -> PyResult<()> {
    insist_on_main_interpreter()?;
    if cfg!(Py_GIL_DISABLED) {
        insist_on_gil(module.py())?;
    }
    codec::register(module)?;
    driver::register(module)?;
    columns::register(module)?;
    crypto::register(module)?;
    odm::register(module)
}

/// Refuses a sub-interpreter: the classes and caches of this module belong to the process, and the end of an interpreter
/// whose threads still run aborts it.
fn insist_on_main_interpreter() -> PyResult<()> {
    // SAFETY: this thread is attached to the interpreter.
    let id = unsafe { ffi::PyInterpreterState_GetID(ffi::PyInterpreterState_Get()) };
    if id == 0 {
        return Ok(());
    }
    Err(PyImportError::new_err(format!(
        "expected the main interpreter, got sub-interpreter {id}; use a process in its place, and under mod_wsgi \
         WSGIApplicationGroup %{{GLOBAL}}"
    )))
}

/// Refuses a free-threaded interpreter that is configured to keep the GIL off, regardless of modules.
fn insist_on_gil(py: Python<'_>) -> PyResult<()> {
    if py.import("sys")?.call_method0("_is_gil_enabled")?.extract()? {
        return Ok(());
    }
    Err(PyImportError::new_err(
        "expected the interpreter's lock to be on, got it switched off; start Python without PYTHON_GIL=0 and -X gil=0",
    ))
}
