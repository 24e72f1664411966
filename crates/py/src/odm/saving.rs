//! What is sent to store an instance: the whole of it, the smallest update of what changed, the query it is found by; and
//! what holds once the server has answered.

use mangonel_entries::entries;
use mangonel_proto::message::{Command, Replies};
use mangonel_proto::operation::{Kind, SessionChoice};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};

use super::encode::Writer;
use super::fields::{DELETED, EXTRA_SET, Fields, NEW, release};
use super::value::located;
use super::{decode, raw, update};
use crate::codec::decode::Decoder;
use crate::codec::fault::into_exception;
use crate::driver::operation::{Operation, Plan as OperationPlan, Reading};
use crate::driver::source::too_large;

/// Return an instance as BSON. `draft`: remember the bytes for `odm_stored`.
#[entries]
#[pyfunction]
pub(super) fn odm_encode<'py>(object: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyBytes>> {
    let py = object.py();
    let fields = Fields::of(object)?;
    let mut out = Vec::new();
    let result = Writer::new(py, fields.plan, &mut out).document(fields);
    result.map_err(|fault| into_exception(py, fault, None))?;
    crate::codec::bytes_of(py, &out)
}

/// Return the smallest update that stores what changed, or None. `odm_settle` must follow once the server has answered.
#[entries]
#[pyfunction]
pub(super) fn odm_update<'py>(object: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyBytes>>> {
    let py = object.py();
    let Some(update) = update::build(py, Fields::of(object)?)? else { return Ok(None) };
    let mut out = Vec::with_capacity(128);
    update.write(&mut out);
    crate::codec::bytes_of(py, &out).map(Some)
}

/// End what `odm_update` began: the changes are stored, or they are changes again.
#[entries]
#[pyfunction]
pub(super) fn odm_settle(object: &Bound<'_, PyAny>, is_stored: bool) -> PyResult<()> {
    let py = object.py();
    let fields = Fields::of(object)?;
    let Some(mut state) = fields.known_mut() else { return Ok(()) };
    let sent = std::mem::take(&mut state.sent);
    let draft = std::mem::take(&mut state.draft);
    if !is_stored {
        drop(state);
        fields.set_dirty(fields.dirty().with(&sent));
        return Ok(());
    }
    for (index, value) in draft {
        state.keep(index, value);
    }
    let old = std::mem::take(&mut state.old);
    drop(state);
    fields.set_flags(fields.flags() & !EXTRA_SET);
    release(py, old);
    if let Some(index) = fields.plan.version {
        let next = match fields.value(py, index).filter(|current| !current.is_none()) {
            Some(current) => current.add(1)?,
            None => 1_i64.into_pyobject(py)?.into_any(),
        };
        drop(fields.replace(index, next));
    }
    Ok(())
}

/// Say that an instance is stored as these bytes (None of one that does not keep them), and where.
#[entries]
#[pyfunction]
#[pyo3(signature = (object, raw, origin))]
pub(super) fn odm_stored(
    object: &Bound<'_, PyAny>,
    raw: Option<&Bound<'_, PyBytes>>,
    origin: &Bound<'_, PyAny>,
) -> PyResult<()> {
    super::odm_set_origin(object, origin)?;
    let fields = Fields::of(object)?;
    fields.set_flags(fields.flags() & !(NEW | DELETED | EXTRA_SET));
    fields.clear_dirty();
    if fields.plan.keeps_raw {
        let mut state = fields.state();
        state.raw = raw.map(|raw| raw.as_bytes().to_vec()).unwrap_or_default();
        state.saved.clear();
    }
    fields.forget_old(object.py());
    Ok(())
}

/// Say that these fields are stored as a document has them. Others keep their changes, and their former values.
#[entries]
#[pyfunction]
pub(super) fn odm_note(object: &Bound<'_, PyAny>, stored: &[u8]) -> PyResult<()> {
    let py = object.py();
    let fields = Fields::of(object)?;
    let plan = fields.plan;
    for element in raw::Elements::of(stored) {
        let Some(index) = plan.field_of_key(element.key) else { continue };
        let field = &plan.fields[index];
        let made = decode::decode_field(py, plan, field, stored, None)
            .map_err(|fault| located(py, plan, index, fault))?;
        let Some(made) = made else { continue };
        drop(fields.replace(index, made));
        let mut dirty = fields.dirty();
        dirty.remove(index);
        fields.set_dirty(dirty);
        let Some(mut state) = fields.known_mut() else { continue };
        state.pending.remove(index);
        if plan.keeps_raw {
            let mut kept = vec![element.kind];
            kept.extend_from_slice(element.value);
            state.keep(index, Some(kept));
        }
        let (former, others) = state.old.drain(..).partition(|(old, _)| *old == index);
        state.old = others;
        drop(state);
        release(py, former);
    }
    Ok(())
}

/// Return the names of the fields that differ from what is stored, each with its former value (if known).
#[entries]
#[pyfunction]
pub(super) fn odm_changes<'py>(object: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyDict>> {
    let py = object.py();
    let fields = Fields::of(object)?;
    let plan = fields.plan;
    let changes = PyDict::new(py);
    let dirty = fields.dirty();
    if fields.flags() & NEW != 0 {
        return Ok(changes);
    }
    // What is under way is not cleared by looking.
    let update = update::build(py, fields)?;
    fields.set_dirty(dirty.clone());
    if update.is_none() {
        return Ok(changes);
    }
    let drafts: Vec<usize> = match fields.known_mut() {
        Some(mut state) => {
            state.sent.clear();
            std::mem::take(&mut state.draft).into_iter().map(|(index, _)| index).collect()
        }
        None => Vec::new(),
    };
    for (index, field) in plan.fields.iter().enumerate() {
        let is_changed = if plan.keeps_raw { drafts.contains(&index) } else { dirty.has(index) };
        if !is_changed || plan.version == Some(index) {
            continue;
        }
        let old = match fields.known() {
            Some(state) if !field.is_mutable => {
                let old = state.old.iter().find(|(old, _)| *old == index);
                old.map(|(_, value)| value.bind(py).clone())
            }
            _ => None,
        };
        let old = match old {
            Some(old) => old,
            None => stored_value(py, fields, index)?,
        };
        changes.set_item(&field.attribute, old)?;
    }
    Ok(changes)
}

/// A field's value as it is stored, decoded anew.
fn stored_value<'py>(py: Python<'py>, fields: Fields<'_>, index: usize) -> PyResult<Bound<'py, PyAny>> {
    let field = &fields.plan.fields[index];
    // The bytes are copied, since decoding may run code that changes them.
    let document = fields.known().and_then(|state| match state.kept(index) {
        Some(saved) => saved.as_ref().map(|saved| {
            let mut document = Vec::new();
            let start = raw::open(&mut document);
            raw::append(&mut document, saved[0], &field.key, &saved[1..]);
            raw::close(&mut document, start);
            document
        }),
        None => Some(state.raw.clone()),
    });
    let Some(document) = document else { return Ok(py.None().into_bound(py)) };
    match decode::decode_field(py, fields.plan, field, &document, None) {
        Ok(made) => Ok(made.unwrap_or_else(|| py.None().into_bound(py))),
        Err(fault) => Err(located(py, fields.plan, index, fault)),
    }
}

/// Return the query of the stored document: its id, and the version that was loaded.
#[entries]
#[pyfunction]
pub(super) fn odm_filter<'py>(object: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyDict>> {
    let py = object.py();
    let fields = Fields::of(object)?;
    let mut bytes = Vec::new();
    let start = raw::open(&mut bytes);
    write_filter(py, fields, &mut bytes)?;
    raw::close(&mut bytes, start);
    let made = Decoder::new(py, fields.plan.codec.get(), &bytes).whole();
    Ok(made.map_err(|fault| into_exception(py, fault, None))?.cast_into::<PyDict>()?)
}

/// Writes the elements of the query for a stored document.
fn write_filter(py: Python<'_>, fields: Fields<'_>, out: &mut Vec<u8>) -> PyResult<()> {
    let plan = fields.plan;
    for index in [plan.id, plan.version].into_iter().flatten() {
        let field = &plan.fields[index];
        let Some(held) = fields.value(py, index) else {
            if plan.version == Some(index) {
                continue;
            }
            return Err(PyTypeError::new_err("expected a document with an id, got one loaded without"));
        };
        Writer::new(py, plan, out)
            .value(&field.kind, crate::codec::encode::Name::Text(&field.key), &held)
            .map_err(|fault| into_exception(py, fault, None))?;
    }
    Ok(())
}

/// Return the key and the value of the version that was loaded, or None.
#[entries]
#[pyfunction]
pub(super) fn odm_version<'py>(object: &Bound<'py, PyAny>) -> PyResult<Option<(String, Bound<'py, PyAny>)>> {
    let fields = Fields::of(object)?;
    let Some(index) = fields.plan.version else { return Ok(None) };
    let key = &fields.plan.fields[index].key;
    let found = fields.value(object.py(), index);
    Ok(found.map(|found| (String::from_utf8_lossy(key).into_owned(), found)))
}

/// Build the operation that saves what changed, or None. `concern`: the write concern's document, or None.
#[entries]
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
    let fields = Fields::of(object)?;
    let mut filter = Vec::with_capacity(32);
    let start = raw::open(&mut filter);
    write_filter(py, fields, &mut filter)?;
    raw::close(&mut filter, start);
    let Some(update) = update::build(py, fields)? else { return Ok(None) };
    let (mut head, start) = head_of(b"update", collection, &codec, concern)?;
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

/// Build the operation that stores a new instance; return it with the bytes that `odm_stored` wants, if any.
/// `concern`: the write concern's document, or None.
#[entries]
#[pyfunction]
#[pyo3(signature = (object, database, collection, codec, concern, max_size))]
pub(super) fn odm_insert<'py>(
    object: &Bound<'py, PyAny>,
    database: &str,
    collection: &str,
    codec: Py<crate::codec::Codec>,
    concern: Option<&Bound<'_, PyAny>>,
    max_size: usize,
) -> PyResult<(Operation, Option<Bound<'py, PyBytes>>)> {
    let py = object.py();
    let fields = Fields::of(object)?;
    let (mut head, start) = head_of(b"insert", collection, &codec, concern)?;
    raw::close(&mut head, start);
    let mut sequence = Command::begin_sequence("documents", 512);
    let empty = sequence.len();
    let result = Writer::new(py, fields.plan, &mut sequence).document(fields);
    result.map_err(|fault| into_exception(py, fault, None))?;
    let document = sequence.get(empty..).unwrap_or_default();
    if document.len() > max_size {
        return Err(too_large(py, document.len(), max_size));
    }
    let kept = fields.plan.keeps_raw.then(|| crate::codec::bytes_of(py, document)).transpose()?;
    let steps = OperationPlan { kind: Kind::RetryableWrite, reading: Reading::Answer, replies: Replies::One };
    let made = Operation::assemble(py, database, head, sequence, codec, &steps, SessionChoice::Implicit)?;
    Ok((made, kept))
}

/// Begins the command of a write; returns where the document that it is has to be closed.
fn head_of(
    name: &[u8],
    collection: &str,
    codec: &Py<crate::codec::Codec>,
    concern: Option<&Bound<'_, PyAny>>,
) -> PyResult<(Vec<u8>, usize)> {
    let mut head = Command::begin();
    let start = raw::open(&mut head);
    string(&mut head, name, collection);
    raw::append(&mut head, 0x08, b"ordered", &[1]);
    if let Some(concern) = concern {
        head.extend_from_slice(b"\x03writeConcern\0");
        crate::codec::encode_document(concern.py(), concern, codec.get(), false, &mut head)?;
    }
    Ok((head, start))
}

fn string(out: &mut Vec<u8>, key: &[u8], text: &str) {
    out.push(0x02);
    out.extend_from_slice(key);
    out.push(0);
    out.extend_from_slice(&(text.len() as u32 + 1).to_le_bytes());
    out.extend_from_slice(text.as_bytes());
    out.push(0);
}
