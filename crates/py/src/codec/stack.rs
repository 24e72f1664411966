//! The values of unfinished documents and lists, innermost last, until their dict or list takes them over.
//! Knows neither BSON nor JSON.
use pyo3::ffi;
use pyo3::prelude::*;

use super::cell::GilCell;
use super::fault::{Fault, no_memory};
use super::make::{Made, owned};
use super::shapes::{Node, fill};

/// The memory, kept between calls so that documents are decoded without allocating it.
static SPARE: GilCell<Vec<*mut ffi::PyObject>> = GilCell::new(Vec::new());

/// The most values that the spare memory has room for; larger memory is given back to the allocator.
const SPARE_LIMIT: usize = 1 << 14;

/// Owns its values.
pub(super) struct Stack<'py> {
    py: Python<'py>,
    values: Vec<*mut ffi::PyObject>,
}

impl Drop for Stack<'_> {
    fn drop(&mut self) {
        self.release(0);
        if self.values.capacity() <= SPARE_LIMIT {
            let values = std::mem::take(&mut self.values);
            // The replaced spare is empty too.
            drop(SPARE.replace(self.py, values));
        }
    }
}

impl<'py> Stack<'py> {
    pub(super) fn new(py: Python<'py>) -> Self {
        Self { py, values: SPARE.take(py) }
    }

    /// How many values there are.
    #[inline(always)]
    pub(super) fn height(&self) -> usize {
        self.values.len()
    }

    /// Puts a value on top.
    #[inline(always)]
    pub(super) fn keep(&mut self, value: Bound<'py, PyAny>) -> Result<(), Fault> {
        if self.values.len() == self.values.capacity() {
            self.grow()?;
        }
        self.values.push(value.into_ptr());
        Ok(())
    }

    #[cold]
    #[inline(never)]
    fn grow(&mut self) -> Result<(), Fault> {
        self.values.try_reserve(64).map_err(|_| no_memory(64 * size_of::<usize>()))
    }

    /// Releases the values above `base`.
    #[cold]
    pub(super) fn release(&mut self, base: usize) {
        while self.values.len() > base {
            if let Some(value) = self.values.pop() {
                // SAFETY: the stack owned it (`keep`), and does not any more. This may run Python code, which cannot reach us.
                unsafe { ffi::Py_DECREF(value) };
            }
        }
    }

    /// Makes a dict of the values above `base`. `is_container`: whether the garbage collector tracks one of them.
    ///
    /// # Safety
    /// A walk must keep `node`, and there be a value for each name that leads to it.
    #[inline(always)]
    pub(super) unsafe fn dict(&mut self, node: *mut Node, base: usize, is_container: bool) -> Made<'py> {
        // SAFETY: a walk keeps `node`, and each value above `base` is a reference that `keep` took over, one for each
        // name that leads there, as the caller counted. `build` takes them over in any case, so the stack forgets
        // them; it returns a new reference, or null with the error set.
        unsafe {
            let made = Node::build(self.py, node, self.values.get_unchecked(base..), is_container);
            self.values.set_len(base);
            owned(self.py, made)
        }
    }

    /// Makes a dict of the values above `base`, to which more entries will be added.
    ///
    /// # Safety
    /// As for `dict`.
    pub(super) unsafe fn open_dict(&mut self, node: *mut Node, base: usize) -> Made<'py> {
        // SAFETY: a walk keeps `node`, and there is one owned value above `base` for each name that leads there, as the
        // caller counted. `fill` takes them over even where the new dict is null, so the stack forgets them; it returns
        // a new reference, or null with the error set.
        unsafe {
            let made = fill(ffi::PyDict_New(), node, &self.values[base..]);
            self.values.set_len(base);
            owned(self.py, made)
        }
    }

    /// Makes a list of the values above `base`.
    #[inline(always)]
    pub(super) fn list(&mut self, base: usize) -> Made<'py> {
        // SAFETY: nothing else refers to the new list, which has a place for each value above `base`, and takes them
        // over.
        unsafe {
            let list = owned(self.py, ffi::PyList_New((self.values.len() - base) as _))?;
            for (index, value) in self.values.drain(base..).enumerate() {
                ffi::PyList_SET_ITEM(list.as_ptr(), index as _, value);
            }
            Ok(list)
        }
    }
}
