//! State of the whole process that the GIL guards. Knows nothing of what it holds.
use std::cell::UnsafeCell;

use pyo3::prelude::*;

/// A value that only a holder of the GIL touches.
///
/// The module declares `gil_used`, so a free-threaded interpreter takes the GIL back when it imports it.
pub(crate) struct GilCell<T>(UnsafeCell<T>);

// SAFETY: every access proves with a `Python` token that the GIL is held, and `with` keeps accesses from nesting.
unsafe impl<T> Sync for GilCell<T> {}

impl<T> GilCell<T> {
    pub(crate) const fn new(value: T) -> Self {
        Self(UnsafeCell::new(value))
    }

    /// Runs `action` on the value.
    ///
    /// # Safety
    /// `action` must not run Python code, release the GIL or use the same cell again: another holder of the GIL would
    /// then see the value while it is borrowed.
    #[inline]
    pub(crate) unsafe fn with<R>(&self, _py: Python<'_>, action: impl FnOnce(&mut T) -> R) -> R {
        // SAFETY: the GIL is held and the caller promises that nothing else runs meanwhile.
        action(unsafe { &mut *self.0.get() })
    }
}
