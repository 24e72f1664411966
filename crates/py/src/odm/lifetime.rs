//! Releases instances and reuses their memory. For each instance, Python's own `subtype_dealloc` walks the bases of the
//! class and its members; for a class whose members are known, one loop is enough.
use mangonel_entries::entries;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyType;

use super::fields::{Head, end};
use super::plan::OdmModel;
use crate::codec::cell::GilCell;
use crate::native::free;

/// Released instances kept for each model.
const KEPT: usize = 1024;

/// How deep releases may nest before the rest is postponed: a chain of embedded documents may be of any length.
const DEEPEST: usize = 100;

struct Later {
    depth: usize,
    waiting: Vec<*mut ffi::PyObject>,
}

static LATER: GilCell<Later> = GilCell::new(Later { depth: 0, waiting: Vec::new() });

/// Take over the release of a class's instances, unless the class changes it; `slots` are the offsets of its members.
#[entries]
#[pyfunction]
pub(super) fn odm_adopt(model: &Bound<'_, OdmModel>, owner: &Bound<'_, PyType>, slots: Vec<usize>) {
    let model = model.get().model.0;
    let class = owner.as_type_ptr();
    let _ = model.slots.set(slots);
    // SAFETY: a live heap type without instances yet, so nothing runs in the changed slot; the
    // GIL keeps others away. `slots` are its members' offsets: the metaclass asked `odm_offset` for each.
    unsafe {
        let has_finalizer = (*class).tp_finalize.is_some() || (*class).tp_del.is_some();
        let is_gc = (*class).tp_flags & ffi::Py_TPFLAGS_HAVE_GC != 0;
        if !has_finalizer && is_gc && (*class).tp_dictoffset == 0 {
            (*class).tp_dealloc = Some(dealloc);
        }
    }
}

/// # Safety
/// Called by the interpreter, the GIL held, with live objects of the types that the slot takes.
#[entries]
unsafe extern "C" fn dealloc(object: *mut ffi::PyObject) {
    // SAFETY: called by the interpreter with the GIL held, once, when nothing refers to the object any more.
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
        finish(py, object);
        loop {
            let next = LATER.with(py, |later| {
                if later.depth == 1 {
                    return later.waiting.pop();
                }
                None
            });
            let Some(next) = next else { break };
            finish(py, next);
        }
        LATER.with(py, |later| later.depth -= 1);
    }
}

/// Releases the objects that an instance refers to, then its memory.
///
/// # Safety
/// As for `dealloc`.
unsafe fn finish(py: Python<'_>, object: *mut ffi::PyObject) {
    // SAFETY: an instance of an adopted class, whose members' offsets its model has. Each reference is taken out before it
    // is released, as that may run Python code; that cannot find the instance any more, nor does anything after the last
    // line, which gives the memory back.
    unsafe {
        let class = ffi::Py_TYPE(object);
        let offset = (*class).tp_weaklistoffset;
        if offset < 0 || (offset > 0 && !(*object.byte_offset(offset).cast::<*mut ffi::PyObject>()).is_null())
        {
            ffi::PyObject_ClearWeakRefs(object);
        }
        let head = Head::of(object);
        let model = head.model();
        for offset in model.slots.get().into_iter().flatten() {
            drop(head.take_slot(py, *offset));
        }
        let siblings = head.replace_siblings(py, None);
        if let Some(state) = head.take_state() {
            end(py, state);
        }
        drop(siblings);
        let is_kept = class.cast() == model.class.as_ptr()
            && model.free.try_borrow_mut().is_ok_and(|mut free| {
                let has_room = free.len() < KEPT;
                if has_room {
                    free.push(object);
                }
                has_room
            });
        if !is_kept {
            free(object);
        }
    }
}
