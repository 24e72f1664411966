//! Field names seen before, as Python strings: the same name in a thousand documents is one object. For documents of
//! unknown shape; `shapes` is faster for shapes that repeat. Knows nothing about values.
use pyo3::ffi;
use pyo3::prelude::*;

use super::cell::GilCell;
use super::make::{Made, owned};
use super::name::{LONGEST, Name, hash};
use super::text;

const SLOTS: usize = 2048;

static KEYS: GilCell<KeyCache> = GilCell::new(KeyCache { slots: Vec::new() });

/// Returns the string of a name, the same object as last time if possible.
///
/// # Safety
/// They must be ASCII, 1 to `LONGEST`, with the only NUL at the end.
#[inline]
pub(super) unsafe fn string<'py>(py: Python<'py>, bytes: &[u8]) -> Made<'py> {
    // SAFETY: the GIL is held, as `py` shows, and the name is ASCII, as the caller found it to be. The cache is
    // borrowed for comparing bytes and making an exact str, which runs no Python code; the string gets a reference of
    // its own before the cache is given back. What it replaced is ours to release, which runs no Python code either,
    // and is done outside.
    unsafe {
        let (string, replaced) = KEYS.with(py, |keys| {
            let (string, replaced) = keys.find(bytes);
            ffi::Py_XINCREF(string);
            (string, replaced)
        });
        ffi::Py_XDECREF(replaced);
        owned(py, string)
    }
}

struct Slot {
    name: Name,
    /// Owned; null for an empty slot.
    string: *mut ffi::PyObject,
}

/// A direct-mapped table: a collision replaces the entry.
struct KeyCache {
    slots: Vec<Slot>,
}

impl KeyCache {
    /// Finds or makes the string of an ASCII name of 1 to `LONGEST` bytes, NUL included. Returns a borrowed string, or
    /// null with the error set, and the string it replaced (or null), which the caller releases when the table is no
    /// longer borrowed.
    ///
    /// # Safety
    /// The GIL must be held, and the name be ASCII.
    unsafe fn find(&mut self, bytes: &[u8]) -> (*mut ffi::PyObject, *mut ffi::PyObject) {
        debug_assert!(bytes.len() <= LONGEST);
        if self.slots.is_empty() {
            self.slots.resize_with(SLOTS, || Slot { name: Name::none(), string: std::ptr::null_mut() });
        }
        let slot = &mut self.slots[hash(bytes, 0) as usize % SLOTS];
        if slot.name.starts(bytes) {
            return (slot.string, std::ptr::null_mut());
        }
        // SAFETY: the GIL is held, and all bytes before the NUL are ASCII: both are asked of the caller.
        let made = unsafe { text::ascii(&bytes[..bytes.len() - 1]) };
        if made.is_null() {
            return (made, std::ptr::null_mut());
        }
        slot.name = Name::new(bytes);
        (made, std::mem::replace(&mut slot.string, made))
    }
}
