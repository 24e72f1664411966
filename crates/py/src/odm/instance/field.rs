//! The descriptor of a field whose slot may be NULL, and the field's value in that case.
use std::ffi::c_void;

use mangonel_entries::entries;
use pyo3::exceptions::{PyAttributeError, PyTypeError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyString, PyType};

use super::super::decode;
use super::super::fields::{Fields, PARTIAL, is_instance};
use super::super::joining;
use super::super::plan::Op;
use super::super::siblings::Siblings;
use super::super::value::class_name;
use super::watch;
use crate::native::{enter, free, make_class, slot};

static CLASS: PyOnceLock<Py<PyType>> = PyOnceLock::new();

/// The class of the descriptors, made by the first call.
pub(super) fn class(py: Python<'_>) -> PyResult<&Bound<'_, PyType>> {
    CLASS.get_or_try_init(py, || make(py)).map(|class| class.bind(py))
}

/// Returns whether this type is a class of slot descriptors: this module's, or Python's own.
#[inline]
pub(super) fn is_slot(kind: *mut ffi::PyTypeObject) -> bool {
    let getter = field_get as ffi::descrgetfunc;
    // SAFETY: the caller's type is alive; the field is set when a type is made. Only our class has this getter, as it
    // has no subclasses.
    kind == &raw mut ffi::PyMemberDescr_Type
        || unsafe { (*kind).tp_descr_get }.is_some_and(|found| std::ptr::fn_addr_eq(found, getter))
}

/// The descriptor of fields whose slot may be NULL: it finds the value elsewhere then.
#[repr(C)]
struct FieldDescriptor {
    head: ffi::PyObject,
    offset: usize,
    /// The attribute, interned; owned.
    name: *mut ffi::PyObject,
    /// Whether the slot holds an id that the program sees as a reference.
    wraps: bool,
    /// A class whose instances are known to have the slot; only compared, never dereferenced.
    known: *const ffi::PyTypeObject,
}

/// # Safety
/// Called by the interpreter, the GIL held, with live objects of the types that the slot takes.
unsafe extern "C" fn field_get(
    descriptor: *mut ffi::PyObject,
    object: *mut ffi::PyObject,
    _class: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    // SAFETY: the interpreter passes a descriptor of ours, and null or any object, and keeps both alive. The object's class
    // is checked before the slot is read, and after the last call that could have run code. No reference to the
    // descriptor lasts over such a call; what is returned gets a reference of its own.
    unsafe {
        if object.is_null() {
            return ffi::Py_NewRef(descriptor);
        }
        let this = descriptor.cast::<FieldDescriptor>();
        let class = ffi::Py_TYPE(object).cast_const();
        if class != (*this).known {
            // `__get__` may be called with anything.
            let has_slot = enter(false, |py| {
                let end = (*this).offset + size_of::<*mut ffi::PyObject>();
                let object = Bound::from_borrowed_ptr(py, object);
                if is_instance(&object) && (*class).tp_basicsize as usize >= end {
                    return Ok(true);
                }
                let found = object.get_type().name()?;
                Err(PyTypeError::new_err(format!("expected an instance of the field's model, got {found}")))
            });
            if !has_slot {
                return std::ptr::null_mut();
            }
            // Model classes live for ever (their registry and their plans hold them), so the address is not used again.
            (*this).known = class;
        }
        if watch::is_on()
            && !enter(false, |py| watch::tell(&Bound::from_borrowed_ptr(py, object)).map(|()| true))
        {
            return std::ptr::null_mut();
        }
        let found = *object.byte_add((*this).offset).cast::<*mut ffi::PyObject>();
        if !found.is_null() && !(*this).wraps {
            return ffi::Py_NewRef(found);
        }
        enter(std::ptr::null_mut(), |py| read(py, Fields::at(py, object)?, (*this).name).map(Bound::into_ptr))
    }
}

/// # Safety
/// Called by the interpreter, the GIL held, with live objects of the types that the slot takes.
#[entries]
unsafe extern "C" fn field_dealloc(descriptor: *mut ffi::PyObject) {
    // SAFETY: called once, for a descriptor of ours without references; it owns its name.
    unsafe {
        ffi::Py_XDECREF((*descriptor.cast::<FieldDescriptor>()).name);
        free(descriptor);
    }
}

/// Reads a field whose slot is NULL or holds a reference's id. `name` is only compared.
#[cold]
fn read<'py>(py: Python<'py>, fields: Fields<'_>, name: *mut ffi::PyObject) -> PyResult<Bound<'py, PyAny>> {
    match fields.plan.field_of(name) {
        Some(index) => value_of(py, fields, index),
        None => Err(PyAttributeError::new_err("expected a field of the model")),
    }
}

/// A field's value, decoded from its raw bytes if it is still there.
pub(in crate::odm) fn value_of<'py>(
    py: Python<'py>,
    fields: Fields<'_>,
    index: usize,
) -> PyResult<Bound<'py, PyAny>> {
    let field = &fields.plan.fields[index];
    let found = match fields.value(py, index) {
        Some(found) => found,
        None => {
            if !fields.is_pending(index) {
                return Err(absent(py, fields, index));
            }
            let made = decode::pending(py, fields, index)?;
            fields.state().pending.remove(index);
            fields.put(index, made.clone());
            made
        }
    };
    let (Op::Ref { make, class, .. } | Op::Refs { make, class, .. }) = &field.kind.op else {
        return Ok(found);
    };
    if found.is_none() || found.get_type().is(class.bind(py)) {
        return Ok(found);
    }
    let siblings = fields.siblings(py).filter(|company| company.is_instance_of::<Siblings>());
    let company = siblings.as_ref().and_then(|company| company.cast::<Siblings>().ok());
    let made = match joining::reference(&field.kind.op, &found, company)? {
        Some(made) => made,
        None => make.bind(py).call1((found, siblings, &field.attribute))?,
    };
    drop(fields.replace(index, made.clone()));
    fields.track();
    Ok(made)
}

#[cold]
fn absent(py: Python<'_>, fields: Fields<'_>, index: usize) -> PyErr {
    let name = fields.plan.fields[index].attribute.bind(py);
    let class = class_name(fields.plan.model.class.bind(py));
    if fields.flags() & PARTIAL != 0 {
        let errors = py.import("mangonel.odm.errors").and_then(|errors| errors.getattr("NotLoaded"));
        let text = format!("{class}.{name} was not loaded; name it in only(), or reload the document");
        return match errors.and_then(|error| error.call1((text,))) {
            Ok(error) => PyErr::from_value(error),
            Err(error) => error,
        };
    }
    PyAttributeError::new_err(format!("this {class} has no value for {name:?}"))
}

/// Make the descriptor of a field whose slot may be NULL.
#[entries]
#[pyfunction]
pub(in crate::odm) fn odm_field<'py>(
    py: Python<'py>,
    name: &str,
    offset: usize,
    wraps: bool,
) -> PyResult<Bound<'py, PyAny>> {
    let class = class(py)?;
    // SAFETY: a new instance of our class, long enough for the fields after its head; nothing else refers to it.
    unsafe {
        let made = Bound::from_owned_ptr_or_err(py, ffi::PyType_GenericAlloc(class.as_type_ptr(), 0))?;
        let this = made.as_ptr().cast::<FieldDescriptor>();
        (&raw mut (*this).offset).write(offset);
        (&raw mut (*this).name).write(PyString::intern(py, name).into_ptr());
        (&raw mut (*this).wraps).write(wraps);
        (&raw mut (*this).known).write(std::ptr::null());
        Ok(made)
    }
}

fn make(py: Python<'_>) -> PyResult<Py<PyType>> {
    let mut slots = [
        slot(ffi::Py_tp_descr_get, field_get as *mut c_void),
        slot(ffi::Py_tp_dealloc, field_dealloc as *mut c_void),
        slot(ffi::Py_tp_doc, c"Reads a field that may still be raw.".as_ptr().cast_mut().cast()),
        slot(0, std::ptr::null_mut()),
    ];
    let size = size_of::<FieldDescriptor>();
    make_class(py, c"mangonel._core.OdmField", size, ffi::Py_TPFLAGS_DEFAULT, &mut slots)
}
