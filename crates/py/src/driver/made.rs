//! Databases and collections without a constructor in Python: programs ask for the same names again and again, and
//! copying the fields of another object costs a fraction. Knows no field.

use mangonel_entries::entries;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple, PyType};

/// Make an instance of the class `kind` with a copy of `fields`, and with `own`, which are names and values in turn. None if the
/// class makes its instances in its own way: by a `__new__`, or by another `__init__` than `constructor`.
#[entries]
#[pyfunction]
#[pyo3(signature = (kind, constructor, fields, *own))]
fn made_like<'py>(
    kind: &Bound<'py, PyType>,
    constructor: Option<&Bound<'py, PyAny>>,
    fields: &Bound<'py, PyDict>,
    own: &Bound<'py, PyTuple>,
) -> PyResult<Option<Bound<'py, PyAny>>> {
    let py = kind.py();
    if let Some(constructor) = constructor
        && !kind.getattr(pyo3::intern!(py, "__init__"))?.is(constructor)
    {
        return Ok(None);
    }
    let copy = fields.copy()?;
    for at in (1..own.len()).step_by(2) {
        copy.set_item(own.get_borrowed_item(at - 1)?, own.get_borrowed_item(at)?)?;
    }
    let raw = kind.as_type_ptr();
    // SAFETY: a live class and the base of all; both fields are only read. A class that has `object`'s `tp_new` is made
    // by its allocator alone, as `object.__new__` does; it gives a new reference or null. A name and a value are set as
    // `object.__setattr__` does. From CPython 3.13 on, `PyObject_GenericSetDict` in its place leaves the fields inside the
    // instance valid, and attributes are looked up there, where none was set.
    unsafe {
        let is_plain =
            (*raw).tp_new.map(|new| new as usize) == ffi::PyBaseObject_Type.tp_new.map(|new| new as usize);
        if !is_plain {
            return Ok(None);
        }
        let allocate = (*raw).tp_alloc.unwrap_or(ffi::PyType_GenericAlloc);
        let made = Bound::from_owned_ptr_or_err(py, allocate(raw, 0))?;
        let name = pyo3::intern!(py, "__dict__").as_ptr();
        if ffi::PyObject_GenericSetAttr(made.as_ptr(), name, copy.as_ptr()) < 0 {
            return Err(PyErr::fetch(py));
        }
        Ok(Some(made))
    }
}

/// Adds this module's function.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(made_like, module)?)
}
