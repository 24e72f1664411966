//! What is sent to store an instance: the whole of it, the smallest update of what changed, the query it is found by; and
//! what holds once the server has answered.

use mangonel_proto::message::{Command, Replies};
use mangonel_proto::operation::{Kind, SessionChoice};
use pyo3::exceptions::PyTypeError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};

use super::encode::Writer;
use super::instance::{self, DELETED, EXTRA_SET, Instance, NEW};
use super::plan::Plan;
use super::{checked, decode, raw, update};
use crate::codec::decode::Decoder;
use crate::codec::fault::into_exception;
use crate::driver::operation::{Operation, Plan as OperationPlan, Reading};

/// Return an instance as BSON. `draft`: remember the bytes for `odm_stored`.
#[pyfunction]
pub(super) fn odm_encode<'py>(object: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyBytes>> {
    let py = object.py();
    let plan = checked(object)?;
    let mut out = Vec::new();
    // SAFETY: an instance, held by the caller.
    let result = unsafe { Writer::new(py, plan, &mut out).document(object.as_ptr()) };
    result.map_err(|fault| into_exception(py, fault, None))?;
    crate::codec::bytes_of(py, &out)
}

/// Return the smallest update that stores what changed, or None. `odm_settle` must follow once the server has answered.
#[pyfunction]
pub(super) fn odm_update<'py>(object: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyBytes>>> {
    checked(object)?;
    let py = object.py();
    let Some(update) = update::build(py, object)? else { return Ok(None) };
    let mut out = Vec::with_capacity(128);
    update.write(&mut out);
    crate::codec::bytes_of(py, &out).map(Some)
}

/// End what `odm_update` began: the changes are stored, or they are changes again.
#[pyfunction]
pub(super) fn odm_settle(object: &Bound<'_, PyAny>, is_stored: bool) -> PyResult<()> {
    let plan = checked(object)?;
    // SAFETY: an instance; nothing below runs Python code before the borrow ends.
    let instance = unsafe { Instance::of(object.as_ptr()) };
    if instance.state.is_null() {
        return Ok(());
    }
    let state = instance.state();
    let sent = std::mem::take(&mut state.sent);
    let draft = std::mem::take(&mut state.draft);
    if !is_stored {
        instance.dirty[0] |= sent as u64;
        instance.dirty[1] |= (sent >> 64) as u64;
        return Ok(());
    }
    for (index, value) in draft {
        state.saved.retain(|(saved, _)| *saved != index);
        state.saved.push((index, value));
    }
    let old = std::mem::take(&mut state.old);
    let was_extra = instance.flags & EXTRA_SET != 0;
    instance.flags &= !EXTRA_SET;
    for (_, value) in old {
        // SAFETY: owned; taken out before anything can run.
        unsafe { ffi::Py_DECREF(value) };
    }
    let _ = was_extra;
    if let Some(index) = plan.version {
        let py = object.py();
        // SAFETY: a slot of the instance.
        let found = unsafe { Instance::of(object.as_ptr()).slot(plan.fields[index].offset) };
        // SAFETY: as above; the object is held while it is added to.
        unsafe {
            let current = Bound::from_borrowed_ptr_or_opt(py, *found);
            let next = match current {
                Some(current) if !current.is_none() => current.add(1)?,
                _ => 1_i64.into_pyobject(py)?.into_any(),
            };
            instance::put(found, next.into_ptr());
        }
    }
    Ok(())
}

/// Say that an instance is stored as these bytes.
#[pyfunction]
pub(super) fn odm_stored(object: &Bound<'_, PyAny>, raw: &Bound<'_, PyBytes>) -> PyResult<()> {
    let plan = checked(object)?;
    // SAFETY: an instance; the former values are released last.
    unsafe {
        let instance = Instance::of(object.as_ptr());
        instance.flags &= !(NEW | DELETED | EXTRA_SET);
        instance.dirty = [0; 2];
        if plan.keeps_raw {
            let state = instance.state();
            state.raw = raw.as_bytes().to_vec();
            state.saved.clear();
        }
        if !instance.state.is_null() {
            instance.state().forget_old();
        }
    }
    Ok(())
}

/// Return the names of the fields that differ from what is stored, each with its former value (if known).
#[pyfunction]
pub(super) fn odm_changes<'py>(object: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyDict>> {
    let py = object.py();
    let plan = checked(object)?;
    let changes = PyDict::new(py);
    // SAFETY: an instance.
    let (dirty, flags) =
        unsafe { (Instance::of(object.as_ptr()).dirty(), Instance::of(object.as_ptr()).flags) };
    if flags & NEW != 0 {
        return Ok(changes);
    }
    // What is under way is not cleared by looking.
    let update = update::build(py, object)?;
    // SAFETY: as above; objects are held before anything runs.
    unsafe {
        let instance = Instance::of(object.as_ptr());
        instance.dirty = [dirty as u64, (dirty >> 64) as u64];
        if update.is_none() {
            return Ok(changes);
        }
        let drafts: Vec<usize> = match instance.state.as_mut() {
            Some(state) => {
                state.sent = 0;
                std::mem::take(&mut state.draft).into_iter().map(|(index, _)| index).collect()
            }
            None => Vec::new(),
        };
        for (index, field) in plan.fields.iter().enumerate() {
            let is_changed = if plan.keeps_raw { drafts.contains(&index) } else { dirty & 1 << index != 0 };
            if !is_changed || plan.version == Some(index) {
                continue;
            }
            let instance = Instance::of(object.as_ptr());
            let old = instance.known().and_then(|state| state.old.iter().find(|(old, _)| *old == index));
            let old = match old {
                Some((_, value)) if !field.is_mutable => Bound::from_borrowed_ptr(py, *value),
                _ => stored_value(py, object, plan, index)?,
            };
            changes.set_item(&field.attribute, old)?;
        }
    }
    Ok(changes)
}

/// A field's value as it is stored, decoded anew.
fn stored_value<'py>(
    py: Python<'py>,
    object: &Bound<'py, PyAny>,
    plan: &'static Plan,
    index: usize,
) -> PyResult<Bound<'py, PyAny>> {
    let field = &plan.fields[index];
    // SAFETY: an instance; the bytes are copied before anything runs.
    let document = unsafe {
        let Some(state) = Instance::of(object.as_ptr()).known() else { return Ok(py.None().into_bound(py)) };
        match state.saved.iter().find(|(saved, _)| *saved == index) {
            Some((_, None)) => return Ok(py.None().into_bound(py)),
            Some((_, Some(saved))) => {
                let mut document = Vec::new();
                let start = raw::open(&mut document);
                raw::append(&mut document, saved[0], &field.key, &saved[1..]);
                raw::close(&mut document, start);
                document
            }
            None => state.raw.clone(),
        }
    };
    match decode::decode_field(py, plan, field, &document) {
        // SAFETY: a new reference.
        Ok(Some(made)) => Ok(unsafe { Bound::from_owned_ptr(py, made) }),
        Ok(None) => Ok(py.None().into_bound(py)),
        Err(fault) => Err(instance::located(py, plan, index, fault)),
    }
}

/// Return the query of the stored document: its id, and the version that was loaded.
#[pyfunction]
pub(super) fn odm_filter<'py>(object: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyDict>> {
    let py = object.py();
    let plan = checked(object)?;
    let mut bytes = Vec::new();
    let start = raw::open(&mut bytes);
    write_filter(py, object, plan, &mut bytes)?;
    raw::close(&mut bytes, start);
    let made = Decoder::new(py, plan.codec.get(), &bytes).whole();
    Ok(made.map_err(|fault| into_exception(py, fault, None))?.cast_into::<PyDict>()?)
}

/// Writes the elements of the query for a stored document.
fn write_filter(
    py: Python<'_>,
    object: &Bound<'_, PyAny>,
    plan: &'static Plan,
    out: &mut Vec<u8>,
) -> PyResult<()> {
    for index in [plan.id, plan.version].into_iter().flatten() {
        let field = &plan.fields[index];
        // SAFETY: an instance of the plan.
        let found = unsafe { *Instance::of(object.as_ptr()).slot(field.offset) };
        if found.is_null() {
            if plan.version == Some(index) {
                continue;
            }
            return Err(PyTypeError::new_err("expected a document with an id, found one loaded without"));
        }
        // SAFETY: a live object.
        let held = unsafe { Bound::from_borrowed_ptr(py, found) };
        Writer::new(py, plan, out)
            .value(&field.kind, crate::codec::encode::Name::Text(&field.key), &held)
            .map_err(|fault| into_exception(py, fault, None))?;
    }
    Ok(())
}

/// Return the key and the value of the version that was loaded, or None.
#[pyfunction]
pub(super) fn odm_version<'py>(object: &Bound<'py, PyAny>) -> PyResult<Option<(String, Bound<'py, PyAny>)>> {
    let plan = checked(object)?;
    let Some(index) = plan.version else { return Ok(None) };
    let field = &plan.fields[index];
    // SAFETY: an instance of the plan.
    let found = unsafe {
        let found = *Instance::of(object.as_ptr()).slot(field.offset);
        Bound::from_borrowed_ptr_or_opt(object.py(), found)
    };
    Ok(found.map(|found| (String::from_utf8_lossy(&field.key).into_owned(), found)))
}

/// Build the operation that saves what changed, or None. `concern`: the write concern's document, or None.
#[pyfunction]
#[pyo3(signature = (object, database, collection, codec, concern, answer))]
pub(super) fn odm_save(
    object: &Bound<'_, PyAny>,
    database: &str,
    collection: &str,
    codec: Py<crate::codec::Codec>,
    concern: Option<&Bound<'_, PyAny>>,
    answer: Py<PyAny>,
) -> PyResult<Option<Operation>> {
    let py = object.py();
    let plan = checked(object)?;
    let mut filter = Vec::with_capacity(32);
    let start = raw::open(&mut filter);
    write_filter(py, object, plan, &mut filter)?;
    raw::close(&mut filter, start);
    let Some(update) = update::build(py, object)? else { return Ok(None) };
    let mut head = Command::begin();
    let start = raw::open(&mut head);
    string(&mut head, b"update", collection);
    raw::append(&mut head, 0x08, b"ordered", &[1]);
    if let Some(concern) = concern {
        head.extend_from_slice(b"\x03writeConcern\0");
        crate::codec::encode_document(py, concern, codec.get(), false, &mut head)?;
    }
    head.extend_from_slice(b"\x04updates\0");
    let array = raw::open(&mut head);
    head.extend_from_slice(b"\x030\0");
    let statement = raw::open(&mut head);
    raw::append(&mut head, 0x03, b"q", &filter);
    head.extend_from_slice(b"\x03u\0");
    update.write(&mut head);
    raw::close(&mut head, statement);
    raw::close(&mut head, array);
    raw::close(&mut head, start);
    let reading = Reading::Apply;
    let steps = OperationPlan { kind: Kind::RetryableWrite, reading, replies: Replies::One };
    let mut made =
        Operation::assemble(py, database, head, Vec::new(), codec, &steps, SessionChoice::Implicit)?;
    made.answer = Some(answer);
    Ok(Some(made))
}

fn string(out: &mut Vec<u8>, key: &[u8], text: &str) {
    out.push(0x02);
    out.extend_from_slice(key);
    out.push(0);
    out.extend_from_slice(&(text.len() as u32 + 1).to_le_bytes());
    out.extend_from_slice(text.as_bytes());
    out.push(0);
}
