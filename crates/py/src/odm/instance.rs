//! The classes below every model: the base with dirty bits on write, the metaclass, the reading of NULL slots.
use std::ffi::{c_int, c_void};

use mangonel_entries::entries;
use pyo3::exceptions::{PyAttributeError, PyTypeError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyString, PyType};

use super::fields::{BASE, Fields, Head, Instance, NEW, end};
use super::plan::{Default, Model, OdmModel, model_of};
use super::value::{class_name, coerce, default_of, located};
use crate::codec::layout::Items;
use crate::codec::make::is_collected;
use crate::native::{enter, free, make_class, slot};

mod field;
pub(super) mod watch;

pub(super) use field::value_of;

static META: PyOnceLock<Py<PyType>> = PyOnceLock::new();

/// # Safety
/// Called by the interpreter, the GIL held, with live objects of the types that the slot takes.
unsafe extern "C" fn tp_new(
    class: *mut ffi::PyTypeObject,
    _args: *mut ffi::PyObject,
    _kwargs: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    enter(std::ptr::null_mut(), |py| {
        // SAFETY: the interpreter passes a live class: this one or one made of it, so its instances begin with our head,
        // and one that the class's own allocator makes is zeroed behind that. Nothing else refers to it before it is
        // returned.
        unsafe {
            let model = model_of(&Bound::from_borrowed_ptr(py, class.cast()))?;
            model.plan(py)?;
            let object = Bound::from_owned_ptr_or_err(py, ffi::PyType_GenericAlloc(class, 0))?;
            Instance::begin(object.as_ptr(), model, NEW);
            Ok(object.into_ptr())
        }
    })
}

/// # Safety
/// Called by the interpreter, the GIL held, with live objects of the types that the slot takes.
unsafe extern "C" fn tp_init(
    object: *mut ffi::PyObject,
    args: *mut ffi::PyObject,
    kwargs: *mut ffi::PyObject,
) -> c_int {
    enter(-1, |py| {
        // SAFETY: the interpreter passes an instance, a tuple and a dict or null, and keeps them alive meanwhile.
        let (fields, has_positional, kwargs) = unsafe {
            let kwargs = Bound::from_borrowed_ptr_or_opt(py, kwargs);
            (Fields::at(py, object)?, ffi::PyTuple_GET_SIZE(args) > 0, kwargs)
        };
        let plan = fields.plan;
        let mut faults = Vec::new();
        let name = || class_name(plan.model.class.bind(py));
        if has_positional {
            let what = format!("expected fields of {} by name, got positional arguments", name());
            return Err(PyTypeError::new_err(what));
        }
        if let Some(kwargs) = kwargs {
            let mut next = 0;
            for (key, given) in Items::of(kwargs.cast::<PyDict>()?) {
                let key = key.cast_into::<PyString>()?;
                let Some(index) = plan.field_named(&key, next) else {
                    let what = format!("expected a field of {}, got {key:?}", name());
                    return Err(PyTypeError::new_err(what));
                };
                next = index + 1;
                match coerce(&plan.fields[index].kind, &given) {
                    Ok(made) => drop(fields.replace(index, made)),
                    Err(fault) => faults.push((index, located(py, plan, index, fault))),
                }
            }
        }
        if !faults.is_empty() {
            return Err(joined(py, fields, faults));
        }
        fill(py, fields)?;
        Ok(0)
    })
}

/// Whether a class makes its instances as the base does, so that none of the program's code runs.
pub(super) fn is_made_plainly(py: Python<'_>, model: &Model) -> bool {
    let class = model.class.bind(py).as_type_ptr();
    // SAFETY: live classes, whose slots do not change but with the class's methods, under the GIL.
    let (new, init, call, usual) = unsafe {
        ((*class).tp_new, (*class).tp_init, (*ffi::Py_TYPE(class.cast())).tp_call, ffi::PyType_Type.tp_call)
    };
    let is_call_usual = match (call, usual) {
        (Some(call), Some(usual)) => std::ptr::fn_addr_eq(call, usual),
        _ => false,
    };
    is_call_usual
        && new.is_some_and(|new| std::ptr::fn_addr_eq(new, tp_new as ffi::newfunc))
        && init.is_some_and(|init| std::ptr::fn_addr_eq(init, tp_init as ffi::initproc))
}

/// The required fields that are missing.
fn missing(fields: Fields<'_>) -> impl Iterator<Item = usize> {
    (0..fields.plan.fields.len()).filter(move |index| {
        !fields.has(*index)
            && !fields.is_pending(*index)
            && matches!(fields.plan.fields[*index].default, Default::Required)
    })
}

/// One error for all faults of an instance's values; `faults` lists each.
#[cold]
fn joined(py: Python<'_>, fields: Fields<'_>, mut faults: Vec<(usize, PyErr)>) -> PyErr {
    // An error that the program's own code raised is not combined with others.
    let class = faults[0].1.get_type(py);
    if let Some(at) = faults.iter().position(|(_, fault)| !fault.get_type(py).is(&class)) {
        return faults.swap_remove(at).1;
    }
    let wrong: Vec<usize> = faults.iter().map(|(index, _)| *index).collect();
    let mut texts: Vec<String> = faults.iter().map(|(_, fault)| fault.value(py).to_string()).collect();
    for index in missing(fields).filter(|index| !wrong.contains(index)) {
        texts.push(format!("expected a value, got none at $.{}", fields.plan.fields[index].attribute));
    }
    if texts.len() == 1 {
        return faults.swap_remove(0).1;
    }
    let text = format!("{}; also {}", texts[0], texts[1..].join("; "));
    match class.call1((text,)).and_then(|made| made.setattr("faults", texts).map(|()| made)) {
        Ok(made) => PyErr::from_value(made),
        Err(error) => error,
    }
}

/// Fills empty slots with defaults.
pub(super) fn fill(py: Python<'_>, fields: Fields<'_>) -> PyResult<()> {
    let plan = fields.plan;
    for (index, field) in plan.fields.iter().enumerate() {
        if fields.has(index) || fields.is_pending(index) {
            continue;
        }
        if let Some(made) = default_of(py, &field.default)? {
            drop(fields.replace(index, made));
            continue;
        }
        let missing: Vec<_> = missing(fields).map(|index| plan.fields[index].attribute.to_string()).collect();
        let name = class_name(plan.model.class.bind(py));
        return Err(PyTypeError::new_err(format!(
            "expected {} to make a {name}, got no value for it",
            missing.join(", ")
        )));
    }
    Ok(())
}

/// # Safety
/// Called by the interpreter, the GIL held, with live objects of the types that the slot takes.
unsafe extern "C" fn tp_setattro(
    object: *mut ffi::PyObject,
    name: *mut ffi::PyObject,
    given: *mut ffi::PyObject,
) -> c_int {
    enter(-1, |py| {
        // SAFETY: the interpreter passes an instance, and a value or null, and keeps them alive until this returns. The
        // name may be any object, as `__setattr__` can be called by hand: it is only compared by address.
        let (fields, given) =
            unsafe { (Fields::at(py, object)?, Bound::from_borrowed_ptr_or_opt(py, given)) };
        let Some(index) = fields.plan.field_of(name) else {
            if given.as_ref().is_some_and(is_collected) {
                // A private attribute may lead back to the instance.
                fields.track();
            }
            let given = given.as_ref().map_or(std::ptr::null_mut(), Bound::as_ptr);
            // SAFETY: all three are alive until this returns, and the call refuses a name that is no str.
            return match unsafe { ffi::PyObject_GenericSetAttr(object, name, given) } {
                0 => Ok(0),
                _ => Err(PyErr::fetch(py)),
            };
        };
        if watch::is_on() && given.is_some() {
            // SAFETY: the interpreter passed the instance, and keeps it alive until this returns; the `Bound` has a
            // reference of its own.
            watch::tell(&unsafe { Bound::from_borrowed_ptr(py, object) })?;
        }
        set(py, fields, index, given)
    })
}

/// Sets a field and its dirty bit.
fn set(py: Python<'_>, fields: Fields<'_>, index: usize, given: Option<Bound<'_, PyAny>>) -> PyResult<c_int> {
    let plan = fields.plan;
    let field = &plan.fields[index];
    let Some(given) = given else {
        let name = field.attribute.bind(py);
        return Err(PyAttributeError::new_err(format!("cannot delete the field {name:?}; set it to None")));
    };
    let is_new = fields.flags() & NEW != 0;
    if field.is_frozen && !is_new {
        let name = field.attribute.bind(py);
        return Err(PyAttributeError::new_err(format!(
            "cannot set the frozen field {name:?} of a stored document"
        )));
    }
    let made = coerce(&field.kind, &given).map_err(|fault| located(py, plan, index, fault))?;
    let was_dirty = fields.is_dirty(index);
    fields.add_dirty(index);
    if let Some(mut state) = fields.known_mut() {
        state.pending.remove(index);
    }
    if is_collected(&made) {
        fields.track();
    }
    if let Some(former) = fields.replace(index, made)
        && plan.is_document
        && !is_new
        && !was_dirty
    {
        fields.state().old.push((index, former.unbind()));
    }
    Ok(0)
}

/// # Safety
/// Called by the interpreter, the GIL held, with live objects of the types that the slot takes.
unsafe extern "C" fn tp_traverse(
    object: *mut ffi::PyObject,
    visit: ffi::visitproc,
    argument: *mut c_void,
) -> c_int {
    // SAFETY: the collector passes a live instance with the GIL held, and what `visit` takes. What is visited is owned by
    // the instance. References that are not visited, because the state is borrowed, only keep their objects alive.
    unsafe {
        let head = Head::of(object);
        let status = head.siblings_ptr().map_or(0, |siblings| visit(siblings, argument));
        if status != 0 {
            return status;
        }
        if let Some(state) = head.idle_state() {
            for (_, value) in &state.old {
                let status = visit(value.as_ptr(), argument);
                if status != 0 {
                    return status;
                }
            }
        }
        // Instances of classes made by a specification own a reference to their class; Python's own subclasses of them
        // visit it themselves.
        0
    }
}

/// # Safety
/// Called by the interpreter, the GIL held, with live objects of the types that the slot takes.
#[entries]
unsafe extern "C" fn tp_clear(object: *mut ffi::PyObject) -> c_int {
    // SAFETY: the collector passes a live instance, with the GIL held.
    let (py, head) = unsafe { (Python::assume_attached(), Head::of(object)) };
    let siblings = head.replace_siblings(py, None);
    head.forget_old(py);
    drop(siblings);
    0
}

/// # Safety
/// Called by the interpreter, the GIL held, with live objects of the types that the slot takes.
#[entries]
unsafe extern "C" fn tp_dealloc(object: *mut ffi::PyObject) {
    // SAFETY: called once, by `subtype_dealloc`, after the slots were cleared, with the GIL held; nothing refers to the
    // instance any more, and its memory is given back last.
    unsafe {
        let py = Python::assume_attached();
        ffi::PyObject_GC_UnTrack(object.cast());
        let head = Head::of(object);
        drop(head.replace_siblings(py, None));
        if let Some(state) = head.take_state() {
            end(py, state);
        }
        free(object);
    }
}

/// # Safety
/// Called by the interpreter, the GIL held, with live objects of the types that the slot takes.
#[entries]
unsafe extern "C" fn meta_getattro(
    class: *mut ffi::PyObject,
    name: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    // SAFETY: the interpreter passes a live class and any object for a name, and keeps them alive. `type`'s own slot is
    // there, refuses names that are no str, reads any class in the same way, and returns a new reference or
    // null with the error set.
    unsafe {
        let Some(get) = ffi::PyType_Type.tp_getattro else { return std::ptr::null_mut() };
        let found = get(class, name);
        if found.is_null() || !field::is_slot(ffi::Py_TYPE(found)) {
            return found;
        }
        enter(std::ptr::null_mut(), |py| {
            let found = Bound::from_owned_ptr(py, found);
            let table = get(class, pyo3::intern!(py, "__expressions__").as_ptr());
            let Some(table) = Bound::from_owned_ptr_or_opt(py, table) else {
                ffi::PyErr_Clear();
                return Ok(found.into_ptr());
            };
            let expression = match table.cast::<PyDict>() {
                Ok(table) => table.get_item(Bound::from_borrowed_ptr(py, name))?,
                Err(_) => None,
            };
            Ok(expression.unwrap_or(found).into_ptr())
        })
    }
}

fn make_base(py: Python<'_>) -> PyResult<Py<PyType>> {
    let mut slots = [
        slot(ffi::Py_tp_new, tp_new as *mut c_void),
        slot(ffi::Py_tp_init, tp_init as *mut c_void),
        slot(ffi::Py_tp_setattro, tp_setattro as *mut c_void),
        slot(ffi::Py_tp_traverse, tp_traverse as *mut c_void),
        slot(ffi::Py_tp_clear, tp_clear as *mut c_void),
        slot(ffi::Py_tp_dealloc, tp_dealloc as *mut c_void),
        slot(ffi::Py_tp_doc, c"The base of models: slots, dirty bits, raw parts.".as_ptr().cast_mut().cast()),
        slot(0, std::ptr::null_mut()),
    ];
    let flags = ffi::Py_TPFLAGS_DEFAULT | ffi::Py_TPFLAGS_BASETYPE | ffi::Py_TPFLAGS_HAVE_GC;
    make_class(py, c"mangonel._core.OdmBase", size_of::<Instance>(), flags, &mut slots)
}

fn make_meta(py: Python<'_>) -> PyResult<Py<PyType>> {
    let mut slots = [
        slot(ffi::Py_tp_base, (&raw mut ffi::PyType_Type).cast()),
        slot(ffi::Py_tp_getattro, meta_getattro as *mut c_void),
        slot(
            ffi::Py_tp_doc,
            c"The class of models: fields read from it are expressions.".as_ptr().cast_mut().cast(),
        ),
        slot(0, std::ptr::null_mut()),
    ];
    let flags = ffi::Py_TPFLAGS_DEFAULT | ffi::Py_TPFLAGS_BASETYPE;
    make_class(py, c"mangonel._core.OdmMeta", 0, flags, &mut slots)
}

/// Adds the classes to the module.
pub(super) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let py = module.py();
    field::class(py)?;
    module.add("OdmBase", BASE.get_or_try_init(py, || make_base(py))?)?;
    module.add("OdmMeta", META.get_or_try_init(py, || make_meta(py))?)?;
    module.add_class::<OdmModel>()?;
    module.add_function(wrap_pyfunction!(field::odm_field, module)?)
}
