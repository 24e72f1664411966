//! Databases and collections without a constructor in Python: programs ask for the same names again and again, and
//! copying the fields of another object costs a fraction.

use mangonel_entries::entries;
use pyo3::exceptions::PyKeyError;
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PySet, PyString, PyType};
use pyo3::{ffi, intern};

use crate::thread_end::Entry;

/// What the databases of a client, or the collections of a database, have in common.
#[pyclass(frozen, module = "mangonel._core")]
struct ChildTemplate {
    _entry: Entry,
    /// None: the class makes its instances in its own way.
    kind: Option<Py<PyType>>,
    fields: Py<PyDict>,
    known_names: Py<PySet>,
    /// The owner's port when `fields` were read: once the owner has another port, it needs another template.
    #[pyo3(get)]
    port: Py<PyAny>,
}

/// The class of an instance, its fields and its owner's.
struct Begun<'a, 'py> {
    kind: &'a Bound<'py, PyType>,
    fields: Bound<'py, PyDict>,
    owner: Bound<'py, PyDict>,
}

type Part<'py> = Bound<'py, PyAny>;
/// `CollectionContext` of Python.
type Context<'py> = (Part<'py>, Part<'py>, Part<'py>, Part<'py>, Part<'py>, Part<'py>);

#[entries]
#[pymethods]
impl ChildTemplate {
    /// Instances of `kind` get a copy of `fields`. A class with another `__init__` than `constructor` has no instances
    /// here. `known_names` have passed their check.
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

    /// Make a database. None: its class has to make it.
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

    /// Make a collection. None: its class has to make it.
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
        let (port, _, _, codec, is_plain, concern) = context.extract::<Context<'_>>()?;
        let context = (port, database_name, name, codec, is_plain, concern).into_pyobject(py)?;
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

/// Make an instance of the class `kind` with a copy of `fields`. None if the class makes its instances in its own way,
/// by a `__new__`.
#[entries]
#[pyfunction]
fn made_like<'py>(
    kind: &Bound<'py, PyType>,
    fields: &Bound<'py, PyDict>,
) -> PyResult<Option<Bound<'py, PyAny>>> {
    with_fields(kind, &fields.copy()?)
}

/// Makes an instance whose fields these are.
fn with_fields<'py>(
    kind: &Bound<'py, PyType>,
    fields: &Bound<'py, PyDict>,
) -> PyResult<Option<Bound<'py, PyAny>>> {
    let py = kind.py();
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
        let name = intern!(py, "__dict__").as_ptr();
        if ffi::PyObject_GenericSetAttr(made.as_ptr(), name, fields.as_ptr()) < 0 {
            return Err(PyErr::fetch(py));
        }
        Ok(Some(made))
    }
}

/// Adds this module's class and function.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<ChildTemplate>()?;
    module.add_function(wrap_pyfunction!(made_like, module)?)
}
