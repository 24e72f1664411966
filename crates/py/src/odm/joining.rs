//! Joins the documents of two queries by their references: which were loaded together, the ids they refer to, and which
//! documents refer to which.
use mangonel_entries::entries;
use pyo3::exceptions::PyAttributeError;
use pyo3::ffi;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyFrozenSet, PyInt, PyList, PySet, PyString, PyTuple, PyType};

use super::fields::{Fields, is_instance};
use super::instance::value_of;
use super::plan::Op;
use super::siblings::{Siblings, key_of};
use crate::codec::object_id;

/// The siblings of these documents, each once, in order. A document without siblings gets some.
#[entries]
#[pyfunction]
pub(super) fn odm_siblings<'py>(documents: &Bound<'py, PyList>) -> PyResult<Bound<'py, PyList>> {
    let py = documents.py();
    let found = PyList::empty(py);
    let mut last: Option<Bound<'py, Siblings>> = None;
    let mut fresh: Option<Bound<'py, Siblings>> = None;
    let mut seen = std::collections::HashSet::new();
    for document in documents {
        let fields = Fields::of(&document)?;
        let company = fields.siblings(py);
        if let (Some(company), Some(last)) = (&company, &last)
            && company.is(last)
        {
            continue;
        }
        let siblings = match company.as_ref().map(|company| company.cast::<Siblings>()) {
            Some(Ok(siblings)) => siblings.clone(),
            _ => {
                let made = match &fresh {
                    Some(made) => made.clone(),
                    None => Bound::new(py, Siblings::new(py, company.map(Bound::unbind)))?,
                };
                fresh = Some(made.clone());
                drop(fields.replace_siblings(py, Some(made.clone().into_any())));
                fields.track();
                made
            }
        };
        if seen.insert(siblings.as_ptr() as usize) {
            found.append(&siblings)?;
        }
        last = Some(siblings);
    }
    Ok(found)
}

/// The ids that siblings have in the field whose references `make` makes, each once.
#[entries]
#[pyfunction]
pub(super) fn odm_wanted<'py>(
    siblings: &Bound<'py, PyList>,
    make: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyList>> {
    let py = siblings.py();
    let seen = PySet::empty(py)?;
    let found = PyList::empty(py);
    for company in siblings {
        let ids = company.cast::<Siblings>()?.try_borrow()?.ids(py, make);
        take_once(&ids, &seen, &found)?;
    }
    Ok(found)
}

/// Appends each new id to `found`; `ids` has ids, lists of ids, and None for documents without one.
fn take_once<'py>(
    ids: &Bound<'py, PyList>,
    seen: &Bound<'py, PySet>,
    found: &Bound<'py, PyList>,
) -> PyResult<()> {
    for item in ids {
        if let Ok(items) = item.cast::<PyList>() {
            take_once(items, seen, found)?;
        } else if !item.is_none() {
            let before = seen.len();
            seen.add(key_of(&item)?)?;
            if seen.len() > before {
                found.append(item)?;
            }
        }
    }
    Ok(())
}

/// Attaches to the references that `make` makes the documents that a lookup found for these ids, and records why others
/// are missing.
pub(super) fn attach<'py>(
    siblings: &Bound<'py, Siblings>,
    make: &Py<PyAny>,
    documents: &Bound<'py, PyList>,
    ids: &Bound<'py, PyList>,
) -> PyResult<()> {
    let py = documents.py();
    let wanted = PyList::empty(py);
    // Every document was requested by its id, so unless there are more ids, none is missing.
    if ids.len() > documents.len() {
        take_once(ids, &PySet::empty(py)?, &wanted)?;
    }
    if documents.is_empty() && wanted.is_empty() {
        return Ok(());
    }
    let fetched = siblings.borrow().found(py, make)?;
    for document in documents {
        fetched.set_item(key_of(&document.getattr(intern!(py, "id"))?)?, document)?;
    }
    fetched.setattr(intern!(py, "is_included"), true)?;
    if wanted.len() > fetched.len() {
        fetched.call_method1(intern!(py, "note_absent"), (wanted,))?;
    }
    Ok(())
}

/// Return these documents grouped by the ids in their field with this attribute: a list for each id, in order.
#[entries]
#[pyfunction]
pub(super) fn odm_grouped<'py>(
    documents: &Bound<'py, PyList>,
    attribute: &Bound<'py, PyString>,
) -> PyResult<Bound<'py, PyDict>> {
    let py = documents.py();
    let found = PyDict::new(py);
    let take = |id: &Bound<'py, PyAny>, document: &Bound<'py, PyAny>| -> PyResult<()> {
        if id.is_none() {
            return Ok(());
        }
        let key = key_of(id)?;
        match found.get_item(&key)? {
            Some(group) => group.cast_into::<PyList>()?.append(document),
            None => found.set_item(key, PyList::new(py, [document])?),
        }
    };
    for document in documents {
        let fields = Fields::of(&document)?;
        let index = fields.plan.field_of(attribute.as_ptr());
        let value = match index.and_then(|index| fields.value(py, index)) {
            Some(value) => value,
            // The value is still raw, or was not loaded.
            None => document.getattr(attribute)?,
        };
        let op = index.map(|index| &fields.plan.fields[index].kind.op);
        let value = match op {
            Some(Op::Ref { class, .. }) if value.get_type().is(class.bind(py)) => {
                value.getattr(intern!(py, "id"))?
            }
            Some(Op::Refs { class, .. }) if value.get_type().is(class.bind(py)) => {
                value.getattr(intern!(py, "ids"))?
            }
            _ => value,
        };
        match value.cast::<PyList>() {
            Ok(ids) => ids.iter().try_for_each(|id| take(&id, &document))?,
            Err(_) => take(&value, &document)?,
        }
    }
    Ok(found)
}

/// The references found by following these attributes one after another, also through lists, maps and embedded
/// documents. `classes`: the classes of references. Values that were not loaded are left out.
#[entries]
#[pyfunction]
pub(super) fn odm_references<'py>(
    documents: &Bound<'py, PyList>,
    names: Vec<Bound<'py, PyString>>,
    classes: (Bound<'py, PyType>, Bound<'py, PyType>),
) -> PyResult<Bound<'py, PyList>> {
    let py = documents.py();
    let mut level: Vec<_> = documents.iter().collect();
    for name in names {
        let mut following = Vec::with_capacity(level.len());
        for item in level {
            let Some(value) = held(&item, &name)? else { continue };
            if value.is_none() {
                continue;
            }
            if let Ok(list) = value.cast::<PyList>() {
                following.extend(list.iter().filter(|part| !part.is_none()));
            } else if let Ok(dict) = value.cast::<PyDict>() {
                following.extend(dict.values());
            } else if value.is_instance_of::<PyTuple>()
                || value.is_instance_of::<PySet>()
                || value.is_instance_of::<PyFrozenSet>()
            {
                for part in value.try_iter()? {
                    let part = part?;
                    if !part.is_none() {
                        following.push(part);
                    }
                }
            } else {
                following.push(value);
            }
        }
        level = following;
    }
    let found = PyList::empty(py);
    for item in level {
        if item.is_instance(&classes.0)? || item.is_instance(&classes.1)? {
            found.append(item)?;
        }
    }
    Ok(found)
}

/// The value of an attribute, with a reference where the program sees a document; None if it was not loaded.
fn held<'py>(item: &Bound<'py, PyAny>, name: &Bound<'py, PyString>) -> PyResult<Option<Bound<'py, PyAny>>> {
    let py = item.py();
    if is_instance(item) {
        let fields = Fields::of(item)?;
        if let Some(index) = fields.plan.field_of(name.as_ptr()) {
            return match value_of(py, fields, index) {
                Ok(value) => Ok(Some(value)),
                Err(error) if error.is_instance_of::<PyAttributeError>(py) => Ok(None),
                Err(error) => Err(error),
            };
        }
    }
    item.getattr_opt(name)
}

/// The reference of an id, made without Python if Python would only store it, and with its document if that was
/// fetched. None: Python must handle the id.
pub(super) fn reference<'py>(
    op: &Op,
    id: &Bound<'py, PyAny>,
    siblings: Option<&Bound<'py, Siblings>>,
) -> PyResult<Option<Bound<'py, PyAny>>> {
    let Op::Ref { make, class, slots, .. } = op else { return Ok(None) };
    let py = id.py();
    let is_plain = id.is_exact_instance_of::<PyInt>()
        || id.is_exact_instance_of::<PyString>()
        || object_id::known_class(py).is_some_and(|class| id.get_type().is(class));
    if !is_plain {
        return Ok(None);
    }
    let document = match siblings {
        Some(siblings) => siblings.try_borrow()?.document(make, id)?,
        None => None,
    };
    let none = || py.None().into_bound(py);
    let values = [
        document.unwrap_or_else(none),
        make.bind(py).clone(),
        siblings.map_or_else(none, |siblings| siblings.as_any().clone()),
        id.clone(),
    ];
    let class = class.bind(py).cast::<PyType>()?.as_type_ptr();
    // SAFETY: the class is the mapper's own `Ref`, and the field's description has the offsets of its slots, read from
    // the members themselves (`odm_offset`). In a new instance they are null, and take the references over.
    unsafe {
        let object = Bound::from_owned_ptr_or_err(py, ffi::PyType_GenericAlloc(class, 0))?;
        for (offset, value) in slots.iter().zip(values) {
            object.as_ptr().byte_add(*offset).cast::<*mut ffi::PyObject>().write(value.into_ptr());
        }
        Ok(Some(object))
    }
}
