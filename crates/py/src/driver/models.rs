//! The models of bulk writes, made without their `__init__` if they have no options: one call for each write of a bulk.
//! `mangonel.operations` tells which slots an instance has.

use std::ffi::c_uint;

use mangonel_entries::entries;
use pyo3::exceptions::PyTypeError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyString, PyTuple, PyType};

use crate::codec::slot;
use crate::native::{counted, enter};

/// A class, and the offsets of its slots.
struct Model {
    class: Py<PyType>,
    /// Changes whenever the class or a base does, for example if its `__init__` is replaced.
    version: c_uint,
    /// Filled with the arguments.
    given: Vec<usize>,
    /// Filled with None.
    unset: Vec<usize>,
    /// Whether the first argument is a filter, which `__init__` checks unless it is a dict.
    has_filter: bool,
}

type Names<'py> = Vec<Bound<'py, PyString>>;

static MODELS: PyOnceLock<Vec<Model>> = PyOnceLock::new();

/// Adds the function of this module.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(make_directly, module)?)
}

/// Make plain instances of these classes directly from now on: a class, the slots of its positional arguments, and those
/// that are None without options.
#[entries]
#[pyfunction]
fn make_directly(py: Python<'_>, classes: Vec<(Bound<'_, PyType>, Names<'_>, Names<'_>)>) -> PyResult<()> {
    let mut models = Vec::new();
    for (class, given, unset) in classes {
        let offsets = |names: &Names<'_>| -> PyResult<Vec<usize>> {
            let offset =
                |name| slot::offset(&class.getattr(name)?, Some(&class)).ok_or_else(|| no_slot(name));
            names.iter().map(offset).collect()
        };
        let has_filter = given.first().is_some_and(|name| name == "_filter");
        let (given, unset) = (offsets(&given)?, offsets(&unset)?);
        // SAFETY: a live class. The look-ups above have given it a version, if it can have one.
        let version = unsafe { (*class.as_type_ptr()).tp_version_tag };
        models.push(Model { class: class.unbind(), version, given, unset, has_filter });
    }
    for model in MODELS.get_or_init(py, || models) {
        // SAFETY: a live class made by a class statement, whose calls so far go through its metaclass's `tp_call`. The
        // slot is not inherited; `make` does for all arguments what `tp_call` does.
        unsafe { (*model.class.bind(py).as_type_ptr()).tp_vectorcall = Some(make) };
    }
    Ok(())
}

#[cold]
fn no_slot(name: &Bound<'_, PyString>) -> PyErr {
    PyTypeError::new_err(format!("expected a slot, got {name}"))
}

/// Makes an instance of one of the classes.
///
/// # Safety
/// Only the interpreter may call it: for a class that has it as its slot, with `count` arguments and the names' values.
unsafe extern "C" fn make(
    class: *mut ffi::PyObject,
    arguments: *const *mut ffi::PyObject,
    count: usize,
    names: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    enter(std::ptr::null_mut(), |py| {
        // SAFETY: the interpreter passes a class with this slot, so many live arguments, and their names or null. The
        // offsets are of this class: a new instance has null there, in whose place a new reference is put before anyone
        // else knows the instance.
        unsafe {
            let count = ffi::PyVectorcall_NARGS(count) as usize;
            let model = MODELS.get(py).and_then(|all| all.iter().find(|model| model.class.as_ptr() == class));
            let Some(model) = model.filter(|model| {
                names.is_null()
                    && count == model.given.len()
                    && model.version != 0
                    && model.version == (*class.cast::<ffi::PyTypeObject>()).tp_version_tag
                    && (!model.has_filter || ffi::PyDict_CheckExact(*arguments) != 0)
            }) else {
                return counted(py, |py| make_by_init(py, class, arguments, count, names));
            };
            let made = ffi::PyType_GenericAlloc(class.cast(), 0);
            if made.is_null() {
                return Err(PyErr::fetch(py));
            }
            for (index, offset) in model.given.iter().enumerate() {
                let value = *arguments.add(index);
                ffi::Py_INCREF(value);
                made.byte_add(*offset).cast::<*mut ffi::PyObject>().write(value);
            }
            for offset in &model.unset {
                let none = ffi::Py_None();
                ffi::Py_INCREF(none);
                made.byte_add(*offset).cast::<*mut ffi::PyObject>().write(none);
            }
            Ok(made)
        }
    })
}

/// Makes an instance as any class does, with `__new__` and `__init__`.
///
/// # Safety
/// As the interpreter calls `make`; `count`: of the positional arguments.
#[cold]
unsafe fn make_by_init(
    py: Python<'_>,
    class: *mut ffi::PyObject,
    arguments: *const *mut ffi::PyObject,
    count: usize,
    names: *mut ffi::PyObject,
) -> PyResult<*mut ffi::PyObject> {
    // SAFETY: by the caller's promise; the values of the names follow the positional arguments. Every class's metaclass
    // has a `tp_call`.
    unsafe {
        let value = |index: usize| Bound::from_borrowed_ptr(py, *arguments.add(index));
        let positional = PyTuple::new(py, (0..count).map(value))?;
        let options = PyDict::new(py);
        if let Some(names) = Bound::from_borrowed_ptr_or_opt(py, names) {
            for (index, name) in names.cast::<PyTuple>()?.iter().enumerate() {
                options.set_item(name, value(count + index))?;
            }
        }
        let call = (*ffi::Py_TYPE(class)).tp_call;
        let call = call.ok_or_else(|| PyTypeError::new_err("expected a class that can be called"))?;
        let made = call(class, positional.as_ptr(), options.as_ptr());
        Ok(Bound::from_owned_ptr_or_err(py, made)?.into_ptr())
    }
}
