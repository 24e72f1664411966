//! Makes databases and collections without a Python constructor: programs request the same names again and again, and
//! copying another object's fields costs a fraction.

use mangonel_entries::entries;
use pyo3::exceptions::{PyKeyError, PyTypeError};
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PySet, PyString, PyType};
use pyo3::{ffi, intern};

use crate::native::instance_of;
use crate::thread_end::Entry;

/// The parts shared by all databases of a client, or all collections of a database.
#[pyclass(frozen, module = "mangonel._core")]
struct ChildTemplate {
    _entry: Entry,
    /// None: the class itself makes its instances.
    kind: Option<Py<PyType>>,
    fields: Py<PyDict>,
    known_names: Py<PySet>,
    /// The owner's port when `fields` were read; an owner with another port needs another template.
    #[pyo3(get)]
    port: Py<PyAny>,
}

/// The class of an instance, its fields and its owner's fields.
struct Begun<'a, 'py> {
    kind: &'a Bound<'py, PyType>,
    fields: Bound<'py, PyDict>,
    owner: Bound<'py, PyDict>,
}

type Part<'py> = Bound<'py, PyAny>;
/// Python's `CollectionContext`.
type Context<'py> = (Part<'py>, Part<'py>, Part<'py>, Part<'py>, Part<'py>, Part<'py>, Part<'py>);

#[entries]
#[pymethods]
impl ChildTemplate {
    /// Instances of `kind` get a copy of `fields`. A class with another `__init__` than `constructor` makes its own
    /// instances. `known_names` have passed their check.
    #[new]
    fn new(
        kind: &Bound<'_, PyType>,
        constructor: &Bound<'_, PyAny>,
        fields: &Bound<'_, PyDict>,
        known_names: &Bound<'_, PySet>,
    ) -> PyResult<Self> {
        let py = kind.py();
        let is_plain = kind.getattr(intern!(py, "__init__"))?.is(constructor);
        Ok(ChildTemplate {
            _entry: Entry,
            kind: is_plain.then(|| kind.clone().unbind()),
            fields: fields.clone().unbind(),
            known_names: known_names.clone().unbind(),
            port: field(fields, intern!(py, "_port"))?.unbind(),
        })
    }

    /// Make a database. None: its class must make it.
    fn database<'py>(
        &self,
        client: &Bound<'py, PyAny>,
        name: &Bound<'py, PyAny>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let Some(Begun { kind, fields, .. }) = self.begin(client, name)? else { return Ok(None) };
        let py = client.py();
        fields.set_item(intern!(py, "_client"), client)?;
        fields.set_item(intern!(py, "_database_name"), name)?;
        with_fields(kind, &fields)
    }

    /// Make a collection. None: its class must make it.
    fn collection<'py>(
        &self,
        database: &Bound<'py, PyAny>,
        name: &Bound<'py, PyAny>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let Some(Begun { kind, fields, owner }) = self.begin(database, name)? else { return Ok(None) };
        let py = database.py();
        let database_name = field(&owner, intern!(py, "_database_name"))?;
        fields.set_item(intern!(py, "_database"), database)?;
        fields.set_item(intern!(py, "_client"), field(&owner, intern!(py, "_client"))?)?;
        fields.set_item(intern!(py, "_database_name"), &database_name)?;
        fields.set_item(intern!(py, "_name"), name)?;
        let context = field(&fields, intern!(py, "_context"))?;
        let (port, _, _, codec, is_plain, concern, cursors) = context.extract::<Context<'_>>()?;
        let context = (port, database_name, name, codec, is_plain, concern, cursors).into_pyobject(py)?;
        fields.set_item(intern!(py, "_context"), context)?;
        with_fields(kind, &fields)
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.fields)?;
        visit.call(&self.port)
    }
}

impl ChildTemplate {
    /// Returns what an instance is made of; None if its class has to make it.
    fn begin<'a, 'py>(
        &'a self,
        owner: &Bound<'py, PyAny>,
        name: &Bound<'py, PyAny>,
    ) -> PyResult<Option<Begun<'a, 'py>>> {
        let py = owner.py();
        let Some(kind) = &self.kind else { return Ok(None) };
        if !name.is_exact_instance_of::<PyString>() || !self.known_names.bind(py).contains(name)? {
            return Ok(None);
        }
        // SAFETY: the owner is a live object; the answer is a new reference, or null with an exception.
        let owner = unsafe {
            Bound::from_owned_ptr_or_err(
                py,
                ffi::PyObject_GenericGetDict(owner.as_ptr(), std::ptr::null_mut()),
            )?
        };
        let owner = owner.cast_into::<PyDict>()?;
        if !field(&owner, intern!(py, "_port"))?.is(&self.port) {
            return Ok(None);
        }
        Ok(Some(Begun { kind: kind.bind(py), fields: self.fields.bind(py).copy()?, owner }))
    }
}

/// Returns a field of an object's fields.
fn field<'py>(fields: &Bound<'py, PyDict>, name: &Bound<'py, PyString>) -> PyResult<Bound<'py, PyAny>> {
    fields.get_item(name)?.ok_or_else(|| PyKeyError::new_err(name.clone().unbind()))
}

/// Make an instance of the class `kind` with a copy of `fields`. None if the class makes its instances itself, with a
/// `__new__`.
#[entries]
#[pyfunction]
fn made_like<'py>(
    kind: &Bound<'py, PyType>,
    fields: &Bound<'py, PyDict>,
) -> PyResult<Option<Bound<'py, PyAny>>> {
    with_fields(kind, &fields.copy()?)
}

/// Make another instance of an object's class with the same values in its slots. Only for a Python class that has
/// nothing but slots.
#[entries]
#[pyfunction]
fn slots_like<'py>(object: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    let (py, class) = (object.py(), object.get_type_ptr());
    if !has_only_slots(class) {
        return Err(PyTypeError::new_err(
            "expected an instance of a class that has only slots, got another one",
        ));
    }
    // SAFETY: a live object, whose class makes its instances by the usual allocator, which gives a new reference to memory
    // of the class's size, zeroed behind its head; behind that both instances have slots and nothing else. A slot holds
    // null or a reference; the copy gets its own.
    unsafe {
        let made = Bound::from_owned_ptr_or_err(py, ffi::PyType_GenericAlloc(class, 0))?;
        let end = (*class).tp_basicsize as usize;
        for offset in (size_of::<ffi::PyObject>()..end).step_by(size_of::<*mut ffi::PyObject>()) {
            let value = object.as_ptr().byte_add(offset).cast::<*mut ffi::PyObject>().read();
            ffi::Py_XINCREF(value);
            made.as_ptr().byte_add(offset).cast::<*mut ffi::PyObject>().write(value);
        }
        Ok(made)
    }
}

/// Whether instances have nothing behind their heads but the slots of this class and its bases.
fn has_only_slots(class: *mut ffi::PyTypeObject) -> bool {
    let mut base = class;
    // SAFETY: a live class, and its bases, which it keeps alive. Only the fields of finished classes are read; of those made
    // on the heap there are more. A class statement sets `ht_slots` where it says `__slots__`; no other way does.
    unsafe {
        if (*class).tp_dictoffset != 0 || (*class).tp_weaklistoffset != 0 || (*class).tp_itemsize != 0 {
            return false;
        }
        while (*base).tp_basicsize as usize > size_of::<ffi::PyObject>() {
            let is_on_heap = ffi::PyType_HasFeature(base, ffi::Py_TPFLAGS_HEAPTYPE) != 0;
            if !is_on_heap || (*base.cast::<ffi::PyHeapTypeObject>()).ht_slots.is_null() {
                return false;
            }
            base = (*base).tp_base;
        }
    }
    true
}

/// Makes an instance with these fields.
fn with_fields<'py>(
    kind: &Bound<'py, PyType>,
    fields: &Bound<'py, PyDict>,
) -> PyResult<Option<Bound<'py, PyAny>>> {
    let py = kind.py();
    let Some(made) = instance_of(kind)? else { return Ok(None) };
    let name = intern!(py, "__dict__").as_ptr();
    // SAFETY: three live objects: a name and a value are set as `object.__setattr__` does. From CPython 3.13 on,
    // `PyObject_GenericSetDict` in its place leaves the fields inside the instance valid, and attributes are looked up
    // there, where none was set.
    if unsafe { ffi::PyObject_GenericSetAttr(made.as_ptr(), name, fields.as_ptr()) } < 0 {
        return Err(PyErr::fetch(py));
    }
    Ok(Some(made))
}

/// Adds this module's class and function.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<ChildTemplate>()?;
    module.add_function(wrap_pyfunction!(slots_like, module)?)?;
    module.add_function(wrap_pyfunction!(made_like, module)?)
}
