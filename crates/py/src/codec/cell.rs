//! Process-wide state that the GIL guards. Knows nothing of its values.
use std::cell::UnsafeCell;

use pyo3::prelude::*;

/// A value that only a holder of the GIL touches.
///
/// The module declares `gil_used`, so a free-threaded interpreter turns the GIL on when it imports the module.
pub(crate) struct GilCell<T>(UnsafeCell<T>);

// SAFETY: every access proves with a `Python` token that the GIL is held, and `with` keeps accesses from nesting.
// Values that are not `Send` (raw pointers) are used only by holders of the GIL, on any thread.
unsafe impl<T> Sync for GilCell<T> {}

impl<T> GilCell<T> {
    pub(crate) const fn new(value: T) -> Self {
        Self(UnsafeCell::new(value))
    }

    /// Replaces the value. No other code runs in between.
    #[inline]
    pub(crate) fn replace(&self, _py: Python<'_>, value: T) -> T {
        // SAFETY: the GIL is held, and moving two values runs nothing that could release it or come here again.
        unsafe { self.0.get().replace(value) }
    }

    /// A copy of the value.
    #[inline]
    pub(crate) fn get(&self, _py: Python<'_>) -> T
    where
        T: Copy,
    {
        // SAFETY: the GIL is held, and copying runs nothing.
        unsafe { self.0.get().read() }
    }

    /// Takes the value out, which leaves the default.
    #[inline]
    pub(crate) fn take(&self, py: Python<'_>) -> T
    where
        T: Default,
    {
        self.replace(py, T::default())
    }

    /// Runs `action` on the value.
    ///
    /// # Safety
    /// `action` must not run Python code, release the GIL or use the same cell again: another holder of the GIL would
    /// then see the value while it is borrowed.
    #[inline]
    pub(crate) unsafe fn with<R>(&self, _py: Python<'_>, action: impl FnOnce(&mut T) -> R) -> R {
        // SAFETY: `_py` shows that the GIL is held. `action` neither releases it nor re-enters this cell, so nothing
        // else has a reference to the value until it returns.
        action(unsafe { &mut *self.0.get() })
    }
}
