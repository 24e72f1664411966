//! The state that a copy or a pickle of an instance takes over besides the values: the known stored document and the
//! pending changes. So a copy sends the same update as its original.
use mangonel_entries::entries;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyString};

use super::fields::{DELETED, EXTRA_SET, Fields, NEW, PARTIAL, SAVING, UNCERTAIN};
use super::plan::{Op, Plan};
use super::raw::{Element, Elements, append, close, open};
use crate::driver::lost::{Numbered, lost_write, numbered};

/// Flags, the names of set fields, former values by name, the stored document, and a save whose outcome is unknown.
type Pending<'py> =
    (u64, Vec<Bound<'py, PyString>>, Bound<'py, PyDict>, Option<Bound<'py, PyBytes>>, Option<Numbered<'py>>);

/// Return the flags of an instance, the fields set since it was stored, their former values if it remembers them, the
/// known stored document (None if it keeps no bytes), and a save with an unknown outcome, as `odm_lost` does. The
/// changes that a running save sends count as pending, with an unknown outcome.
#[entries]
#[pyfunction]
pub(super) fn odm_pending<'py>(object: &Bound<'py, PyAny>) -> PyResult<Pending<'py>> {
    let py = object.py();
    let fields = Fields::of(object)?;
    let plan = fields.plan;
    let mut flags = fields.flags() & (NEW | PARTIAL | DELETED | EXTRA_SET | UNCERTAIN);
    let old = PyDict::new(py);
    if fields.flags() & NEW != 0 {
        return Ok((flags, Vec::new(), old, None, None));
    }
    let mut set = fields.dirty();
    if let Some(state) = fields.known().filter(|_| fields.flags() & SAVING != 0) {
        set = set.with(&state.sent);
        flags |= UNCERTAIN | if state.sent_extra.is_some() { EXTRA_SET } else { 0 };
    }
    for (index, value) in fields.known().iter().flat_map(|state| &state.old) {
        old.set_item(&plan.fields[*index].attribute, value)?;
    }
    let names = plan.fields.iter().enumerate().filter(|(index, _)| set.has(*index));
    let names = names.map(|(_, field)| field.attribute.bind(py).clone()).collect();
    let lost = fields.known().and_then(|state| state.lost.as_deref().copied());
    let stored = stored(fields, plan).map(|bytes| PyBytes::new(py, &bytes));
    Ok((flags, names, old, stored, lost.map(|lost| numbered(py, lost))))
}

/// Give the state that `odm_pending` returned for one instance to another, made from the whole document.
#[entries]
#[pyfunction]
#[pyo3(signature = (object, flags, names, old, stored, lost=None))]
pub(super) fn odm_resume(
    object: &Bound<'_, PyAny>,
    flags: u64,
    names: Vec<String>,
    old: &Bound<'_, PyDict>,
    stored: Option<&[u8]>,
    lost: Option<([u8; 16], i64)>,
) -> PyResult<()> {
    let py = object.py();
    let fields = Fields::of(object)?;
    fields.add_flags(flags & (NEW | DELETED | EXTRA_SET | UNCERTAIN));
    let mut set = fields.dirty();
    set.clear();
    for (index, field) in fields.plan.fields.iter().enumerate() {
        let attribute = field.attribute.bind(py).to_str()?;
        if names.iter().any(|name| name == attribute) {
            set.add(index);
        }
        if let Some(former) = old.get_item(attribute)? {
            fields.state().old.push((index, former.unbind()));
        }
        // A flat embedded document is compared with the stored bytes only if the program has read it.
        if matches!(field.kind.op, Op::Embedded(_))
            && let Some(embedded) = fields.value(py, index)
            && let Ok(embedded) = Fields::of(&embedded)
            && !embedded.plan.fields.is_empty()
        {
            embedded.add_dirty(0);
        }
    }
    fields.set_dirty(set);
    if let Some(stored) = stored {
        fields.state().raw = stored.to_vec();
    }
    if let Some(lost) = lost {
        fields.state().lost = Some(Box::new(lost_write(lost)));
    }
    Ok(())
}

/// The loaded document, with the values saved since then in their places.
fn stored(fields: Fields<'_>, plan: &Plan) -> Option<Vec<u8>> {
    let state = fields.known().filter(|_| plan.keeps_raw)?;
    let is_tag = |element: &Element<'_>| plan.tags.as_ref().is_some_and(|tags| tags.is_own(element));
    let mut document = Vec::with_capacity(state.raw.len());
    let start = open(&mut document);
    for element in Elements::of(&state.raw) {
        let is_newer = match plan.field_of_key(element.key) {
            Some(index) => state.kept(index).is_some(),
            None => state.stored_extra.is_some() && !is_tag(&element),
        };
        if !is_newer {
            append(&mut document, element.kind, element.key, element.value);
        }
    }
    for (index, saved) in &state.saved {
        if let Some(saved) = saved {
            append(&mut document, saved[0], &plan.fields[*index].key, &saved[1..]);
        }
    }
    document.extend_from_slice(state.stored_extra.as_deref().unwrap_or_default());
    close(&mut document, start);
    Some(document)
}
