//! Makes objects of one of the program's classes from a hidden model's instances, with a value for each field.
use mangonel_entries::entries;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyString, PyTuple, PyType};

use super::fields::Fields;
use super::instance::value_of;
use super::plan::odm_offset;
use crate::thread_end::Entry;

/// Where a made object stores the value of a field.
enum Place {
    /// At this offset.
    Slot(usize),
    /// In an attribute, as `object.__setattr__` sets it.
    Attribute(Py<PyString>),
}

/// Makes an object of a class from an instance of the hidden model with the same fields.
#[pyclass(frozen, module = "mangonel._core")]
pub(super) struct OdmMaker {
    _entry: Entry,
    class: Py<PyType>,
    /// A place for each field in the plan's order; None: the class is called with the values in that order.
    places: Option<Vec<Place>>,
}

#[entries]
#[pymethods]
impl OdmMaker {
    /// `places`: for each field in the model's order the member of a slot of the class, or the name of an attribute.
    /// Objects are then made without `__init__`, which must do nothing but set these. None: the class is called.
    #[new]
    #[pyo3(signature = (class, places=None))]
    fn new(class: &Bound<'_, PyType>, places: Option<Vec<Bound<'_, PyAny>>>) -> PyResult<Self> {
        let place = |found: Bound<'_, PyAny>| match found.cast_into::<PyString>() {
            Ok(name) => Ok(Place::Attribute(name.unbind())),
            Err(other) => slot_of(class, &other.into_inner()).map(Place::Slot),
        };
        let places =
            places.map(|places| places.into_iter().map(place).collect::<PyResult<_>>()).transpose()?;
        Ok(OdmMaker { _entry: Entry, class: class.clone().unbind(), places })
    }

    fn __call__<'py>(&self, instance: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let py = instance.py();
        let fields = Fields::of(instance)?;
        let count = fields.plan.fields.len();
        let Some(places) = &self.places else {
            let values = (0..count).map(|index| value_of(py, fields, index)).collect::<PyResult<Vec<_>>>()?;
            let given: Vec<_> = values.iter().map(Bound::as_ptr).collect();
            // SAFETY: `values` keeps what is given alive, and null stands for no keywords. The result is owned.
            return unsafe {
                let made = ffi::PyObject_Vectorcall(
                    self.class.as_ptr(),
                    given.as_ptr(),
                    count,
                    std::ptr::null_mut(),
                );
                Bound::from_owned_ptr_or_err(py, made)
            };
        };
        if places.len() != count {
            return Err(PyValueError::new_err(format!("expected {count} places, got {}", places.len())));
        }
        let made = self.begun(py)?;
        for (index, place) in places.iter().enumerate() {
            let value = value_of(py, fields, index)?;
            // SAFETY: `made` is an instance of the class, none of whose attributes anything has seen. `slot_of` found
            // that its instances have the slot; its old reference, if any, is released once the new one is there.
            unsafe {
                match place {
                    Place::Slot(offset) => {
                        let slot = made.as_ptr().byte_add(*offset).cast::<*mut ffi::PyObject>();
                        drop(Bound::from_owned_ptr_or_opt(py, slot.replace(value.into_ptr())));
                    }
                    Place::Attribute(name) => {
                        let name = name.as_ptr();
                        if ffi::PyObject_GenericSetAttr(made.as_ptr(), name, value.as_ptr()) < 0 {
                            return Err(PyErr::fetch(py));
                        }
                    }
                }
            }
        }
        Ok(made)
    }
}

impl OdmMaker {
    /// Makes a new object with the class's `__new__`: `object`'s own refuses abstract classes.
    fn begun<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let class = self.class.bind(py).as_type_ptr();
        // SAFETY: a live class and a tuple; null stands for no keywords. The result is owned, or an error is set.
        let made = unsafe {
            let new =
                (*class).tp_new.ok_or_else(|| PyTypeError::new_err("expected a class with instances"))?;
            let nothing = PyTuple::empty(py);
            Bound::from_owned_ptr_or_err(py, new(class, nothing.as_ptr(), std::ptr::null_mut()))?
        };
        if made.get_type_ptr() == class {
            return Ok(made);
        }
        Err(PyTypeError::new_err(format!("expected __new__ to make a {}, got {made}", self.class)))
    }
}

/// Returns the offset of this member's slot in instances of the class.
fn slot_of(class: &Bound<'_, PyType>, member: &Bound<'_, PyAny>) -> PyResult<usize> {
    let offset = odm_offset(member)?;
    let owner = member.getattr("__objclass__")?.cast_into::<PyType>()?;
    // SAFETY: two live classes. Not `issubclass`, which a metaclass may answer.
    if unsafe { ffi::PyType_IsSubtype(class.as_type_ptr(), owner.as_type_ptr()) } != 0 {
        return Ok(offset);
    }
    Err(PyTypeError::new_err(format!("expected a slot of {class}, got {member}")))
}
