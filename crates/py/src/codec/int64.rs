//! The class of ints that are always stored in 64 bits: an int refers to nothing, so its instances omit the garbage
//! collector's head, which instances of every class made in Python have.
use mangonel_entries::entries;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString, PyType};

use crate::native::{make_class, slot};

/// Return a subclass of int with the attributes of this one; the garbage collector ignores its instances.
#[entries]
#[pyfunction]
#[pyo3(signature = (class, /))]
pub(super) fn plain_int_class<'py>(class: &Bound<'py, PyType>) -> PyResult<Bound<'py, PyType>> {
    let py = class.py();
    let mut slots =
        [slot(ffi::Py_tp_base, (&raw mut ffi::PyLong_Type).cast()), slot(0, std::ptr::null_mut())];
    let flags = ffi::Py_TPFLAGS_DEFAULT | ffi::Py_TPFLAGS_BASETYPE;
    let made = make_class(py, c"mangonel.bson.int64.Int64", 0, flags, &mut slots)?.into_bound(py);
    for (name, value) in class.getattr("__dict__")?.call_method0("copy")?.cast_into::<PyDict>()?.iter() {
        made.setattr(name.cast::<PyString>()?, value)?;
    }
    Ok(made)
}
