//! Makes new instances from dicts, embedded documents included, if the plan alone decides where each value goes; a
//! document's embedded documents stay BSON (`packing`) if possible. The Python half handles everything else (unknown
//! keys, tags, alternatives, the program's own constructors) and all errors.
use mangonel_entries::entries;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyString};

use super::fields::{Fields, NEW, create, is_instance};
use super::instance::{fill, is_made_plainly};
use super::packing::{self, Packer};
use super::plan::{Model, OdmModel, Op, Plan, Type};
use super::value::{coerce, is_exactly};
use crate::codec::fault::Fault;
use crate::codec::layout::Items;

/// Return a new instance with these values, given by attribute or key, or None if Python must handle them.
#[entries]
#[pyfunction]
pub(super) fn odm_build<'py>(
    model: &Bound<'py, OdmModel>,
    values: &Bound<'py, PyDict>,
) -> PyResult<Option<Bound<'py, PyAny>>> {
    // On an error, the Python half finds the same fault and reports it.
    Ok(instance(model.get().model.0, values).unwrap_or_default())
}

/// Returns a new instance with these values, or None if Python must handle them.
pub(super) fn instance<'py>(
    model: &'static Model,
    values: &Bound<'py, PyDict>,
) -> Result<Option<Bound<'py, PyAny>>, Fault> {
    let py = values.py();
    let plan = model.plan(py)?;
    if !is_made_plainly(py, model) {
        return Ok(None);
    }
    let made = create(py, plan, false)?;
    // SAFETY: `create` made it with this plan just now, and wrote its head; `made` keeps it alive.
    let fields = unsafe { Fields::of_new(&made, plan) };
    fields.set_flags(NEW);
    let mut raw = Vec::new();
    let mut packer = None;
    if !plan.packable.is_empty() {
        raw = std::mem::take(&mut fields.state().raw);
        packer = Some(Packer::new(py, plan, &mut raw)?);
    }
    let mut next = 0;
    for (key, given) in Items::of(values) {
        let Ok(key) = key.cast_into_exact::<PyString>() else { return Ok(None) };
        let Some(index) = index_of(plan, &key, next) else { return Ok(None) };
        next = index + 1;
        let kind = &plan.fields[index].kind;
        if is_exactly(kind, &given) {
            fields.put(index, given);
            continue;
        }
        if let Some(packer) = packer.as_mut().filter(|_| plan.packable.has(index)) {
            // Given twice, by key and by attribute: the last value counts.
            if packer.packed.has(index) {
                return Ok(None);
            }
            if !fields.has(index) && packer.pack(index, &plan.fields[index], &given) {
                continue;
            }
        }
        let Some(given) = part(kind, given)? else { return Ok(None) };
        fields.put(index, coerce(kind, &given)?);
    }
    if let Some(packer) = packer {
        let packed = packer.finish()?;
        packing::keep(fields, packed, raw);
    }
    fill(py, fields)?;
    fields.track();
    Ok(Some(made))
}

/// Returns the field with this attribute or, if none has it, with this key.
#[inline(always)]
pub(super) fn index_of(plan: &Plan, key: &Bound<'_, PyString>, next: usize) -> Option<usize> {
    plan.field_named(key, next).or_else(|| plan.field_of_key(key.to_str().ok()?.as_bytes()))
}

/// Returns a value with instances and geometries in place of their dicts; None if only the Python half can choose their
/// classes.
fn part<'py>(kind: &Type, given: Bound<'py, PyAny>) -> Result<Option<Bound<'py, PyAny>>, Fault> {
    if !has_embedded(kind) || given.is_none() || is_instance(&given) {
        return Ok(Some(given));
    }
    match &kind.op {
        Op::Embedded(model) => match given.cast_exact::<PyDict>() {
            Ok(values) => instance(model, values),
            Err(_) => Ok(None),
        },
        Op::List(inner) => {
            let Ok(items) = given.cast_exact::<PyList>() else { return Ok(None) };
            let made = PyList::empty(given.py());
            for item in items.iter() {
                let Some(item) = part(inner, item)? else { return Ok(None) };
                made.append(item)?;
            }
            Ok(Some(made.into_any()))
        }
        Op::Geo { class, .. } => {
            if given.cast_exact::<PyDict>().is_err() {
                return Ok(Some(given));
            }
            // The class refuses a value of another type, and one that is no geometry.
            Ok(Some(class.bind(given.py()).call_method1(intern!(given.py(), "from_geojson"), (given,))?))
        }
        _ => Ok(None),
    }
}

/// Whether a value of the type may contain embedded documents or geometries.
fn has_embedded(kind: &Type) -> bool {
    match &kind.op {
        Op::Embedded(_) | Op::Custom { .. } | Op::Geo { .. } => true,
        Op::List(inner) | Op::Set(inner, _) | Op::TupleOf(inner) | Op::Dict(inner) => has_embedded(inner),
        Op::Tuple(parts) => parts.iter().any(has_embedded),
        Op::Union(union) => !union.models.is_empty() || union.others.iter().any(has_embedded),
        _ => false,
    }
}
