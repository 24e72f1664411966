//! The observer that is called before a document is touched: transactions restore their documents when they
//!     are aborted.
use std::sync::atomic::{AtomicPtr, Ordering};

use mangonel_entries::entries;
use pyo3::ffi;
use pyo3::prelude::*;

use super::super::fields::Fields;

/// A callable, owned; null without an observer, the usual case.
static WATCHER: AtomicPtr<ffi::PyObject> = AtomicPtr::new(std::ptr::null_mut());

/// Whether there is an observer.
#[inline]
pub(in crate::odm) fn is_on() -> bool {
    !WATCHER.load(Ordering::Relaxed).is_null()
}

/// Calls the observer with a document whose field is about to be set, or that returns a value that may change.
#[cold]
pub(in crate::odm) fn tell(object: &Bound<'_, PyAny>) -> PyResult<()> {
    let py = object.py();
    if !Fields::of(object)?.plan.is_document {
        return Ok(());
    }
    let watcher = WATCHER.load(Ordering::Acquire);
    // SAFETY: the static owns a reference to it, and it is replaced only under the GIL, which is held; a reference of our
    // own keeps it alive while it runs.
    if let Some(watcher) = unsafe { Bound::from_borrowed_ptr_or_opt(py, watcher) } {
        watcher.call1((object,))?;
    }
    Ok(())
}

/// Call this with each document before a field is set or a mutable value is read; None: no observer.
#[entries]
#[pyfunction]
#[pyo3(signature = (watcher))]
pub(in crate::odm) fn odm_watch(py: Python<'_>, watcher: Option<Py<PyAny>>) {
    let next = watcher.map_or(std::ptr::null_mut(), Py::into_ptr);
    let former = WATCHER.swap(next, Ordering::AcqRel);
    // SAFETY: the reference that the static owned, or null: the exchange made it ours.
    drop(unsafe { Bound::from_owned_ptr_or_opt(py, former) });
}
