//! The descriptor of a field whose slot may be NULL, and what a field's value is then.
use std::ffi::c_void;

use pyo3::exceptions::{PyAttributeError, PyTypeError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyString, PyType};

use super::super::siblings::Siblings;
use super::*;

/// The descriptor of fields whose slot may be NULL: it knows where the value is then.
#[repr(C)]
struct FieldDescriptor {
    head: ffi::PyObject,
    offset: usize,
    /// The attribute, interned; owned.
    name: *mut ffi::PyObject,
    /// Whether the slot holds an id that the program sees as a reference.
    wraps: bool,
    /// A class whose instances were found to have the slot; only compared, never followed.
    known: *const ffi::PyTypeObject,
}

unsafe extern "C" fn field_get(
    descriptor: *mut ffi::PyObject,
    object: *mut ffi::PyObject,
    _class: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    crate::thread_end::never_unwind_this_thread();
    // SAFETY: the descriptor is ours; `object` is null, or its class is checked before the slot is read.
    unsafe {
        let this = &mut *descriptor.cast::<FieldDescriptor>();
        if object.is_null() {
            ffi::Py_INCREF(descriptor);
            return descriptor;
        }
        // `__get__` may be called with anything.
        let class = ffi::Py_TYPE(object).cast_const();
        if class != this.known {
            let py = Python::assume_attached();
            let has_slot = is_instance(py, object)
                && (*class).tp_basicsize as usize >= this.offset + size_of::<*mut ffi::PyObject>();
            if !has_slot {
                return enter(std::ptr::null_mut(), |_| {
                    Err(PyTypeError::new_err("expected an instance of the field's model"))
                });
            }
            // Model classes live for ever (their registry and their plans hold them), so the address is not used again.
            this.known = class;
        }
        if watch::is_on() {
            let told = enter(-1, |py| watch::tell(py, object).map(|()| 0));
            if told < 0 {
                return std::ptr::null_mut();
            }
        }
        let found = *object.byte_add(this.offset).cast::<*mut ffi::PyObject>();
        if !found.is_null() && !this.wraps {
            ffi::Py_INCREF(found);
            return found;
        }
        enter(std::ptr::null_mut(), |py| {
            let object = Bound::from_borrowed_ptr(py, object);
            read(py, &object, this.name).map(Bound::into_ptr)
        })
    }
}

unsafe extern "C" fn field_dealloc(descriptor: *mut ffi::PyObject) {
    // SAFETY: ours; freed once.
    unsafe {
        ffi::Py_XDECREF((*descriptor.cast::<FieldDescriptor>()).name);
        let class = ffi::Py_TYPE(descriptor);
        ffi::PyObject_Free(descriptor.cast());
        ffi::Py_DECREF(class.cast());
    }
}

/// Reads a field whose slot is NULL or holds a reference's id.
#[cold]
fn read<'py>(
    py: Python<'py>,
    object: &Bound<'py, PyAny>,
    name: *mut ffi::PyObject,
) -> PyResult<Bound<'py, PyAny>> {
    // SAFETY: an instance, checked by the caller.
    let (plan, index) = unsafe {
        let plan = (*Instance::of(object.as_ptr()).model).plan_of(py)?;
        let Some(index) = plan.field_of(name) else {
            return Err(PyAttributeError::new_err("expected a field of the model"));
        };
        (plan, index)
    };
    value_of(py, object, plan, index)
}

/// A field's value, taken out of its raw bytes if it is still there.
pub(super) fn value_of<'py>(
    py: Python<'py>,
    object: &Bound<'py, PyAny>,
    plan: &'static Plan,
    index: usize,
) -> PyResult<Bound<'py, PyAny>> {
    let field = &plan.fields[index];
    // SAFETY: an instance of the plan; references into it end before Python code can run.
    unsafe {
        let mut found = *Instance::of(object.as_ptr()).slot(field.offset);
        if found.is_null() {
            let bit = 1_u128 << index;
            if Instance::of(object.as_ptr()).pending() & bit == 0 {
                return Err(absent(py, object, plan, index));
            }
            let made = decode::pending(py, object, plan, index)?;
            let instance = Instance::of(object.as_ptr());
            instance.state().pending &= !bit;
            put(instance.slot(field.offset), made);
            if ffi::PyObject_IS_GC(made) != 0 {
                track(object.as_ptr());
            }
            found = made;
        }
        let found = Bound::from_borrowed_ptr(py, found);
        let (Op::Ref { make, class, .. } | Op::Refs { make, class, .. }) = &field.kind.op else {
            return Ok(found);
        };
        if found.is_none() || found.get_type().is(class.bind(py)) {
            return Ok(found);
        }
        let siblings = Bound::from_borrowed_ptr_or_opt(py, Instance::of(object.as_ptr()).siblings)
            .filter(|company| company.is_instance_of::<Siblings>());
        let made = make.bind(py).call1((found, siblings, &field.attribute))?;
        ffi::Py_INCREF(made.as_ptr());
        put(Instance::of(object.as_ptr()).slot(field.offset), made.as_ptr());
        track(object.as_ptr());
        Ok(made)
    }
}

#[cold]
fn absent(py: Python<'_>, object: &Bound<'_, PyAny>, plan: &Plan, index: usize) -> PyErr {
    let name = plan.fields[index].attribute.bind(py);
    // SAFETY: an instance, by the caller.
    let is_partial = unsafe { Instance::of(object.as_ptr()).flags & PARTIAL != 0 };
    let class = class_name(plan.model.class);
    if is_partial {
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
#[pyfunction]
pub fn odm_field<'py>(
    py: Python<'py>,
    name: &str,
    offset: usize,
    wraps: bool,
) -> PyResult<Bound<'py, PyAny>> {
    let class = FIELD.get_or_try_init(py, || make_field_class(py))?;
    // SAFETY: an instance of our class, every field of which is set.
    unsafe {
        let made: *mut ffi::PyObject = ffi::PyType_GenericAlloc(class.as_ptr().cast(), 0);
        if made.is_null() {
            return Err(PyErr::fetch(py));
        }
        let this = &mut *made.cast::<FieldDescriptor>();
        this.offset = offset;
        this.name = PyString::intern(py, name).into_ptr();
        this.wraps = wraps;
        this.known = std::ptr::null();
        Ok(Bound::from_owned_ptr(py, made))
    }
}

pub(super) fn make_field_class(py: Python<'_>) -> PyResult<Py<PyType>> {
    let mut slots = [
        slot(ffi::Py_tp_descr_get, field_get as *mut c_void),
        slot(ffi::Py_tp_dealloc, field_dealloc as *mut c_void),
        slot(ffi::Py_tp_doc, c"Reads a field that may still be raw.".as_ptr().cast_mut().cast()),
        slot(0, std::ptr::null_mut()),
    ];
    make_type(
        py,
        c"mangonel._core.OdmField",
        size_of::<FieldDescriptor>(),
        ffi::Py_TPFLAGS_DEFAULT,
        &mut slots,
    )
}
