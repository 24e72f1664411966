//! How instances end, and how their memory is used again. Python's own `subtype_dealloc` walks the bases of the class and
//! its members for each instance; for a class whose members are known all of that is one loop.
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyType;

use super::instance::Instance;
use super::plan::Model;
use crate::codec::cell::GilCell;

/// Released instances kept for each model.
const KEPT: usize = 1024;

/// Releases inside releases before the rest is put off: a chain of embedded documents may be of any length.
const DEEPEST: usize = 100;

struct Later {
    depth: usize,
    waiting: Vec<*mut ffi::PyObject>,
}

static LATER: GilCell<Later> = GilCell::new(Later { depth: 0, waiting: Vec::new() });

/// Takes over the release of a class's instances, unless the class has a say in it.
pub(super) fn adopt(model: &'static Model, class: &Bound<'_, PyType>, slots: Vec<usize>) {
    let class = class.as_ptr().cast::<ffi::PyTypeObject>();
    let _ = model.slots.set(slots);
    // SAFETY: a heap type that nobody has instances of yet; its members were given by the metaclass.
    unsafe {
        let has_finalizer = (*class).tp_finalize.is_some() || (*class).tp_del.is_some();
        let is_gc = (*class).tp_flags & ffi::Py_TPFLAGS_HAVE_GC != 0;
        if !has_finalizer && is_gc && (*class).tp_dictoffset == 0 {
            (*class).tp_dealloc = Some(dealloc);
        }
    }
}

/// Memory of a released instance, empty: a new reference.
///
/// # Safety
/// The GIL must be held.
#[inline]
pub(super) unsafe fn reuse(model: &'static Model) -> Option<*mut ffi::PyObject> {
    let object = model.free.try_borrow_mut().ok()?.pop()?;
    // SAFETY: whole but for its reference count of 0; every slot is null and it owns a reference to its class.
    unsafe {
        // From 0 to 1.
        ffi::Py_INCREF(object);
        let instance = Instance::of(object);
        instance.model = model;
        instance.dirty = [0; 2];
        instance.flags = 0;
    }
    Some(object)
}

unsafe extern "C" fn dealloc(object: *mut ffi::PyObject) {
    // SAFETY: called by the interpreter with the GIL held, once, when nobody refers to the object any more.
    unsafe {
        let py = Python::assume_attached();
        ffi::PyObject_GC_UnTrack(object.cast());
        let is_deep = LATER.with(py, |later| {
            let is_deep = later.depth >= DEEPEST;
            if is_deep {
                later.waiting.push(object);
            } else {
                later.depth += 1;
            }
            is_deep
        });
        if is_deep {
            return;
        }
        end(py, object);
        loop {
            let next = LATER.with(py, |later| {
                if later.depth == 1 {
                    return later.waiting.pop();
                }
                None
            });
            let Some(next) = next else { break };
            end(py, next);
        }
        LATER.with(py, |later| later.depth -= 1);
    }
}

/// Releases what an instance refers to, then its memory.
///
/// # Safety
/// As for `dealloc`.
unsafe fn end(py: Python<'_>, object: *mut ffi::PyObject) {
    // SAFETY: an instance; each pointer is taken out before it is released, as that may run Python code.
    unsafe {
        let class = ffi::Py_TYPE(object);
        let offset = (*class).tp_weaklistoffset;
        if offset < 0 || (offset > 0 && !(*object.byte_offset(offset).cast::<*mut ffi::PyObject>()).is_null())
        {
            ffi::PyObject_ClearWeakRefs(object);
        }
        let model: &'static Model = &*Instance::of(object).model;
        for offset in model.slots.get().into_iter().flatten() {
            let slot = object.byte_add(*offset).cast::<*mut ffi::PyObject>();
            let found = slot.replace(std::ptr::null_mut());
            ffi::Py_XDECREF(found);
        }
        let instance = Instance::of(object);
        let siblings = std::mem::replace(&mut instance.siblings, std::ptr::null_mut());
        let state = std::mem::replace(&mut instance.state, std::ptr::null_mut());
        if !state.is_null() {
            Box::from_raw(state).end();
        }
        ffi::Py_XDECREF(siblings);
        let is_kept = class == model.class
            && model.free.try_borrow_mut().is_ok_and(|mut free| {
                let has_room = free.len() < KEPT;
                if has_room {
                    free.push(object);
                }
                has_room
            });
        if !is_kept {
            match (*class).tp_free {
                Some(free) => free(object.cast()),
                None => ffi::PyObject_GC_Del(object.cast()),
            }
            ffi::Py_DECREF(class.cast());
        }
        let _ = py;
    }
}
