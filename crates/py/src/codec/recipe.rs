//! Builds instances of a small Python class without running its `__init__`: allocates, then stores the arguments where
//! `__init__` would. A sample that the class itself made shows these places. If a class does anything else with its
//! arguments, it is called. Knows nothing about BSON.
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyString, PyTuple, PyType};

use super::fault::{Fault, raised};
use super::make::{Made, owned};
use super::slot;

/// The place where `__init__` stores one argument.
enum Place {
    /// A `__slots__` member at this offset of the instance.
    Offset(usize),
    /// An entry of the instance's `__dict__`.
    Attribute(Py<PyString>),
}

/// The base that allocates the instance.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Base {
    /// `object`: the base holds none of the arguments.
    Plain,
    /// `str` or `bytes`: the first argument is the base's value.
    Value,
}

/// A class and the way to build its instances.
pub(super) struct Recipe {
    class: Py<PyType>,
    /// None: call the class.
    places: Option<(Base, Vec<Place>)>,
}

impl Recipe {
    /// Makes a sample with these arguments, which must be distinct objects, and finds them again.
    pub(super) fn probe(class: Bound<'_, PyType>, arguments: &[Bound<'_, PyAny>]) -> PyResult<Self> {
        let tuple = PyTuple::new(class.py(), arguments)?;
        let sample = class.call1(tuple)?;
        Self::probe_made(class, &sample, arguments)
    }

    /// Like `probe`, with a sample made in another way.
    pub(super) fn probe_made(
        class: Bound<'_, PyType>,
        sample: &Bound<'_, PyAny>,
        arguments: &[Bound<'_, PyAny>],
    ) -> PyResult<Self> {
        let py = class.py();
        let is_value = class.is_subclass_of::<PyString>()? || class.is_subclass_of::<PyBytes>()?;
        let base = if is_value { Base::Value } else { Base::Plain };
        let stored = if is_value { &arguments[1..] } else { arguments };
        let slots = slots(&class, sample)?;
        let attributes = match sample.getattr_opt("__dict__")? {
            Some(found) => {
                found.cast_into::<PyDict>().map(|dict| dict.iter().collect::<Vec<_>>()).unwrap_or_default()
            }
            None => Vec::new(),
        };
        let mut places = Vec::with_capacity(stored.len());
        for argument in stored {
            let slot = slots.iter().find(|(_, value)| same(value, argument));
            let attribute = attributes.iter().find(|(_, value)| same(value, argument));
            places.push(match (slot, attribute) {
                (Some((offset, _)), _) => Place::Offset(*offset),
                (None, Some((name, _))) => {
                    let name = PyString::intern(py, &name.cast::<PyString>()?.to_string_lossy());
                    Place::Attribute(name.unbind())
                }
                (None, None) => return Ok(Self { class: class.unbind(), places: None }),
            });
        }
        // If a class keeps more than its arguments, its `__init__` must run.
        let known = slots.len() + attributes.len() == stored.len();
        Ok(Self { class: class.unbind(), places: known.then_some((base, places)) })
    }

    /// The class.
    pub(super) fn class<'py>(&self, py: Python<'py>) -> &Bound<'py, PyType> {
        self.class.bind(py)
    }

    /// Returns the argument `index` that an instance of exactly this class keeps in a slot.
    #[inline]
    pub(super) fn read<'py>(&self, object: &Bound<'py, PyAny>, index: usize) -> Option<Bound<'py, PyAny>> {
        if !std::ptr::eq(object.get_type_ptr().cast(), self.class.as_ptr()) {
            return None;
        }
        let Some(Place::Offset(offset)) = self.places.as_ref()?.1.get(index) else { return None };
        // SAFETY: an instance of the probed class, whose slot it is.
        unsafe { slot::read(object, *offset) }
    }

    /// Like `read`, for an argument in the instance's `__dict__`.
    pub(super) fn read_attribute<'py>(
        &self,
        object: &Bound<'py, PyAny>,
        index: usize,
    ) -> Option<Bound<'py, PyAny>> {
        if !std::ptr::eq(object.get_type_ptr().cast(), self.class.as_ptr()) {
            return None;
        }
        let Some(Place::Attribute(name)) = self.places.as_ref()?.1.get(index) else { return None };
        // SAFETY: both are alive; a missing attribute gives null and an error, which is ignored.
        unsafe {
            let found = ffi::PyObject_GenericGetAttr(object.as_ptr(), name.as_ptr());
            if found.is_null() {
                ffi::PyErr_Clear();
            }
            Bound::from_owned_ptr_or_opt(object.py(), found)
        }
    }

    /// Tells whether instances are built without calling the class.
    pub(super) fn is_direct(&self) -> bool {
        self.places.is_some()
    }

    /// Builds an instance.
    pub(super) fn build<'py, const N: usize>(
        &self,
        arguments: [Bound<'py, PyAny>; N],
        py: Python<'py>,
    ) -> Made<'py> {
        let class = self.class.bind(py);
        let Some((base, places)) = &self.places else {
            let pointers = arguments.each_ref().map(Bound::as_ptr);
            // SAFETY: the class and the arguments are alive for the time of the call, and there are N of them.
            return unsafe {
                owned(
                    py,
                    ffi::PyObject_Vectorcall(class.as_ptr(), pointers.as_ptr(), N, std::ptr::null_mut()),
                )
            };
        };
        let mut arguments = arguments.into_iter();
        let made = match (base, arguments.as_slice()) {
            (Base::Value, [value, ..]) => {
                let made = new_value(class, value)?;
                drop(arguments.next());
                made
            }
            _ => allocate(class)?,
        };
        for (place, argument) in places.iter().zip(arguments) {
            match place {
                // SAFETY: the probed class has an object pointer there, which is null in a new instance, and takes the
                // reference over. Nothing else refers to the instance.
                Place::Offset(offset) => unsafe {
                    made.as_ptr().byte_add(*offset).cast::<*mut ffi::PyObject>().write(argument.into_ptr());
                },
                Place::Attribute(name) => set_attribute(&made, name, &argument)?,
            }
        }
        Ok(made)
    }
}

/// Makes a new, empty instance.
fn allocate<'py>(class: &Bound<'py, PyType>) -> Made<'py> {
    let raw = class.as_type_ptr();
    // SAFETY: a live class's own allocator, which gives a new reference or null.
    unsafe { owned(class.py(), (*raw).tp_alloc.unwrap_or(ffi::PyType_GenericAlloc)(raw, 0)) }
}

/// Makes an instance of a subclass of `str` or `bytes` with the base's constructor alone.
fn new_value<'py>(class: &Bound<'py, PyType>, value: &Bound<'py, PyAny>) -> Made<'py> {
    let py = class.py();
    let arguments = PyTuple::new(py, [value])?;
    let raw = class.as_type_ptr();
    // SAFETY: both bases are static types, whose `tp_new` takes a subclass and a tuple of one value, and gives a new
    // reference or null.
    unsafe {
        let is_text = ffi::PyType_IsSubtype(raw, &raw mut ffi::PyUnicode_Type) != 0;
        let base = if is_text { &raw mut ffi::PyUnicode_Type } else { &raw mut ffi::PyBytes_Type };
        match (*base).tp_new {
            Some(new) => owned(py, new(raw, arguments.as_ptr(), std::ptr::null_mut())),
            None => allocate(class),
        }
    }
}

/// Sets an attribute as `object` does, bypassing the class.
fn set_attribute(
    made: &Bound<'_, PyAny>,
    name: &Py<PyString>,
    value: &Bound<'_, PyAny>,
) -> Result<(), Fault> {
    // SAFETY: all three are alive as long as the references to them.
    match unsafe { ffi::PyObject_GenericSetAttr(made.as_ptr(), name.as_ptr(), value.as_ptr()) } {
        0 => Ok(()),
        _ => Err(raised(made.py())),
    }
}

fn same(value: &Bound<'_, PyAny>, argument: &Bound<'_, PyAny>) -> bool {
    value.is(argument) || (value.get_type().is(argument.get_type()) && value.eq(argument).unwrap_or(false))
}

/// The filled `__slots__` of a sample: offset and value.
fn slots<'py>(
    class: &Bound<'py, PyType>,
    sample: &Bound<'py, PyAny>,
) -> PyResult<Vec<(usize, Bound<'py, PyAny>)>> {
    let mut found = Vec::new();
    for base in class.mro() {
        let names = base.getattr("__dict__")?.call_method0("copy")?.cast_into::<PyDict>()?;
        for (_, member) in names.iter() {
            let Some(offset) = slot::offset(&member, Some(class)) else { continue };
            // SAFETY: a slot of `class`, of which `sample` is an instance.
            if let Some(value) = unsafe { slot::read(sample, offset) } {
                found.push((offset, value));
            }
        }
    }
    Ok(found)
}
