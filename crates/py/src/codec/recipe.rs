//! How to build an instance of a small Python class without running its `__init__`: allocate, then store the arguments
//! where `__init__` would. Where that is, is read from a sample made by the class itself; a class that does anything
//! else with its arguments is simply called. Knows nothing about BSON.
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyString, PyType};

/// Where `__init__` stores one argument.
enum Place {
    /// A `__slots__` member at this offset of the instance.
    Offset(usize),
    /// An entry of the instance's `__dict__`.
    Attribute(Py<PyString>),
}

/// What the instance is allocated with.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Base {
    /// `object`: nothing of the arguments lives in the base.
    Plain,
    /// `str` or `bytes`: the first argument is the base's value.
    Value,
}

/// A class and how its instances are built.
pub(super) struct Recipe {
    class: Py<PyType>,
    /// None: call the class.
    places: Option<(Base, Vec<Place>)>,
}

impl Recipe {
    /// Makes a sample with these arguments, which must be distinct objects, and finds them again.
    pub(super) fn probe(class: Bound<'_, PyType>, arguments: &[Bound<'_, PyAny>]) -> PyResult<Self> {
        let tuple = pyo3::types::PyTuple::new(class.py(), arguments)?;
        let sample = class.call1(tuple)?;
        Self::probe_made(class, &sample, arguments)
    }

    /// The same, with a sample made in another way.
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
                    // SAFETY: interning only needs the GIL and a str, which keys of `__dict__` are.
                    let name = PyString::intern(py, &name.cast::<PyString>()?.to_string_lossy());
                    Place::Attribute(name.unbind())
                }
                (None, None) => return Ok(Self { class: class.unbind(), places: None }),
            });
        }
        // A class that keeps more than its arguments has an `__init__` worth running.
        let known = slots.len() + attributes.len() == stored.len();
        Ok(Self { class: class.unbind(), places: known.then_some((base, places)) })
    }

    /// The class.
    pub(super) fn class<'py>(&self, py: Python<'py>) -> &Bound<'py, PyType> {
        self.class.bind(py)
    }

    /// Tells whether instances of exactly this class keep the stored argument `index` in a slot; then the borrowed value.
    ///
    /// # Safety
    /// `object` must be a live object of class `class`.
    #[inline]
    pub(super) unsafe fn read(
        &self,
        class: *mut ffi::PyTypeObject,
        object: *mut ffi::PyObject,
        index: usize,
    ) -> Option<*mut ffi::PyObject> {
        if !std::ptr::eq(class.cast(), self.class.as_ptr()) {
            return None;
        }
        let Some(Place::Offset(offset)) = self.places.as_ref()?.1.get(index) else { return None };
        // SAFETY: an instance of the probed class has an object pointer there, or null when it was deleted.
        let value = unsafe { object.byte_add(*offset).cast::<*mut ffi::PyObject>().read() };
        (!value.is_null()).then_some(value)
    }

    /// The same for one that is kept in the instance's `__dict__`; a new reference.
    pub(super) fn read_attribute<'py>(
        &self,
        object: &Bound<'py, PyAny>,
        index: usize,
    ) -> Option<Bound<'py, PyAny>> {
        if !object.get_type().is(&self.class) {
            return None;
        }
        let Some(Place::Attribute(name)) = self.places.as_ref()?.1.get(index) else { return None };
        // SAFETY: both are live; a missing attribute gives null and an error, which nobody needs.
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

    /// Builds an instance. Takes over the references in `arguments`, also on failure; returns a new reference, or null
    /// with the interpreter's error set.
    ///
    /// # Safety
    /// The GIL must be held and every argument be an owned, non-null reference.
    pub(super) unsafe fn build<const N: usize>(
        &self,
        arguments: [*mut ffi::PyObject; N],
    ) -> *mut ffi::PyObject {
        let class = self.class.as_ptr().cast::<ffi::PyTypeObject>();
        // SAFETY: `class` is a live type whose instances have object pointers at the probed offsets, null after
        // allocation; references are moved in exactly once, and the rest is released below.
        unsafe {
            let Some((base, places)) = &self.places else {
                let made =
                    ffi::PyObject_Vectorcall(class.cast(), arguments.as_ptr(), N, std::ptr::null_mut());
                for argument in arguments {
                    ffi::Py_DECREF(argument);
                }
                return made;
            };
            let (made, rest) = match base {
                Base::Plain => {
                    let allocate = (*class).tp_alloc.unwrap_or(ffi::PyType_GenericAlloc);
                    (allocate(class, 0), &arguments[..])
                }
                Base::Value => {
                    let value_type = if ffi::PyType_IsSubtype(class, &raw mut ffi::PyUnicode_Type) != 0 {
                        &raw mut ffi::PyUnicode_Type
                    } else {
                        &raw mut ffi::PyBytes_Type
                    };
                    let tuple = ffi::PyTuple_New(1);
                    if tuple.is_null() {
                        ffi::Py_DECREF(arguments[0]);
                        (tuple, &arguments[1..])
                    } else {
                        ffi::PyTuple_SET_ITEM(tuple, 0, arguments[0]);
                        let made = match (*value_type).tp_new {
                            Some(new) => new(class, tuple, std::ptr::null_mut()),
                            None => std::ptr::null_mut(),
                        };
                        ffi::Py_DECREF(tuple);
                        (made, &arguments[1..])
                    }
                }
            };
            let mut failed = made.is_null();
            for (place, &argument) in places.iter().zip(rest) {
                match place {
                    _ if failed => ffi::Py_DECREF(argument),
                    Place::Offset(offset) => {
                        made.byte_add(*offset).cast::<*mut ffi::PyObject>().write(argument)
                    }
                    Place::Attribute(name) => {
                        failed = ffi::PyObject_GenericSetAttr(made, name.as_ptr(), argument) < 0;
                        ffi::Py_DECREF(argument);
                    }
                }
            }
            if failed && !made.is_null() {
                ffi::Py_DECREF(made);
                return std::ptr::null_mut();
            }
            made
        }
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
    let py = class.py();
    let mut found = Vec::new();
    for base in class.mro() {
        let names = base.getattr("__dict__")?.call_method0("copy")?.cast_into::<PyDict>()?;
        for (_, member) in names.iter() {
            // SAFETY: the type check makes the cast right; `d_member` lives as long as the descriptor.
            let (kind, offset) = unsafe {
                if ffi::Py_TYPE(member.as_ptr()) != &raw mut ffi::PyMemberDescr_Type {
                    continue;
                }
                let descriptor = member.as_ptr().cast::<ffi::PyMemberDescrObject>();
                let definition = (*descriptor).d_member;
                ((*definition).type_code, (*definition).offset)
            };
            if kind != ffi::Py_T_OBJECT_EX || offset <= 0 {
                continue;
            }
            // SAFETY: `sample` is an instance of `base`, which has an object pointer at this offset, or null.
            let value = unsafe {
                let place = sample.as_ptr().byte_add(offset as usize).cast::<*mut ffi::PyObject>().read();
                Bound::from_borrowed_ptr_or_opt(py, place)
            };
            if let Some(value) = value {
                found.push((offset as usize, value));
            }
        }
    }
    Ok(found)
}
