//! Pauses the garbage collector while it is not needed.
use pyo3::ffi;
use pyo3::prelude::*;

/// Turns the garbage collector off while many objects are made, none of which can be garbage yet.
pub(crate) struct Pause<'py> {
    was_on: bool,
    _py: Python<'py>,
}

impl<'py> Pause<'py> {
    pub(crate) fn new(py: Python<'py>) -> Self {
        // SAFETY: `py` shows that the GIL is held; the call sets a flag of the collector.
        Pause { was_on: unsafe { ffi::PyGC_Disable() } == 1, _py: py }
    }
}

impl Drop for Pause<'_> {
    fn drop(&mut self) {
        if self.was_on {
            // SAFETY: `_py` shows that the GIL is still held. The call sets a flag of the collector, which was set
            // before `new`.
            unsafe { ffi::PyGC_Enable() };
        }
    }
}
