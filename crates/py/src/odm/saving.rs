//! The commands that store an instance: the whole document, the smallest update of its changes, the query
//! that finds it; and its state after the server's answer.

use mangonel_entries::entries;
use mangonel_proto::message::{Command, Replies};
use mangonel_proto::operation::{Kind, SessionChoice};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyString};
use pyo3::{PyTraverseError, PyVisit};

use super::encode::{Writer, is_unversioned};
use super::fields::{DELETED, EXTRA_SET, Fields, GUARDED, MODIFIES, NEW, SAVING, UNCERTAIN, release};
use super::guard::adopt;
use super::instance::watch;
use super::update::Update;
use super::value::{located, taken};
use super::{decode, raw, update};
use crate::codec::decode::Decoder;
use crate::codec::fault::{Kind as FaultKind, found, into_exception};
use crate::codec::object_id;
use crate::driver::exchange::Exchange;
use crate::driver::failure::thrown;
use crate::driver::lost::{Numbered, lost_write, numbered};
use crate::driver::operation::{Maker, Operation, Plan as OperationPlan, ReplyForm};
use crate::driver::source::too_large;

/// Return an instance as BSON.
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

/// Takes the changes of an update out of the pending ones, and marks the save as running.
///
/// Building an update runs the program's code, which may begin another save: so this is checked at the end.
fn begin(py: Python<'_>, fields: Fields<'_>, update: Update) -> PyResult<()> {
    alone(py, fields)?;
    let flags = fields.flags();
    let needs = needs_of(&update);
    fields.set_flags(flags & !(EXTRA_SET | GUARDED | MODIFIES) | SAVING | needs);
    fields.clear_dirty();
    let has_extra = flags & EXTRA_SET != 0;
    if !update.sent.is_empty() || !update.draft.is_empty() || needs & GUARDED != 0 || has_extra {
        let mut state = fields.state();
        if has_extra {
            state.sent_extra = Some(state.extra.clone());
        }
        state.sent = update.sent;
        state.draft = update.draft;
        state.guard = update.guard.into_bytes();
    }
    Ok(())
}

/// What an update needs, as flags: conditions on the stored document, and that it changes that.
#[inline]
fn needs_of(update: &Update) -> u64 {
    let guarded = if update.guard.is_empty() { 0 } else { GUARDED };
    guarded | if update.must_modify() { MODIFIES } else { 0 }
}

/// Reports that there is nothing to save; during another save, that this is unknown.
fn unchanged<T>(py: Python<'_>, fields: Fields<'_>) -> PyResult<Option<T>> {
    alone(py, fields)?;
    fields.clear_dirty();
    Ok(None)
}

/// Refuses during another save, so that any later error belongs to this save.
fn alone(py: Python<'_>, fields: Fields<'_>) -> PyResult<()> {
    if fields.flags() & SAVING != 0 { Err(parallel_save(py, fields)) } else { Ok(()) }
}

/// The error of a second save while one is running.
#[cold]
fn parallel_save(py: Python<'_>, fields: Fields<'_>) -> PyErr {
    let class = fields.plan.model.class.bind(py).name();
    let class = class.map_or_else(|_| "document".to_owned(), |name| name.to_string());
    let text = format!(
        "expected one save of a {class} at a time, got another while one is under way; wait for it, then save again"
    );
    let errors = py.import("mangonel.odm.errors");
    thrown(errors.and_then(|errors| errors.getattr("ParallelSaveError")?.call1((text,))))
}

/// Record that the whole instance is being stored; `odm_stored` or `odm_settle` must follow.
#[entries]
#[pyfunction]
pub(super) fn odm_begin(object: &Bound<'_, PyAny>) -> PyResult<()> {
    let fields = Fields::of(object)?;
    identify(object.py(), fields)?;
    begin(object.py(), fields, Update::of_whole(fields.dirty()))
}

/// Gives a new document whose id is None, as `id: ObjectId | None = None` declares it, its id: without one, the server
/// would choose an id that the instance does not know.
#[inline]
fn identify(py: Python<'_>, fields: Fields<'_>) -> PyResult<()> {
    let plan = fields.plan;
    let Some(index) = plan.id.filter(|index| plan.is_document && plan.fields[*index].omits_none) else {
        return Ok(());
    };
    if fields.flags() & NEW == 0
        || fields.was_null(index)
        || !fields.value(py, index).is_some_and(|id| id.is_none())
    {
        return Ok(());
    }
    let kind = &plan.fields[index].kind;
    let what = format!("expected {} for a new document, got None", kind.label);
    let made = object_id::fresh(py)
        .map_err(Into::into)
        .and_then(|id| taken(kind, &id))
        .and_then(|made| made.ok_or_else(|| found(FaultKind::Field, what, "set it before the first save")))
        .map_err(|fault| located(py, plan, index, fault))?;
    drop(fields.replace(index, made));
    Ok(())
}

/// Return the smallest update that stores the changes, or None. `odm_settle` must follow once the server has answered.
#[entries]
#[pyfunction]
pub(super) fn odm_update<'py>(object: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyBytes>>> {
    let py = object.py();
    let fields = Fields::of(object)?;
    alone(py, fields)?;
    let Some(update) = update::build(py, fields)? else {
        return unchanged(py, fields);
    };
    let mut out = Vec::with_capacity(128);
    update.write(&mut out);
    begin(py, fields, update)?;
    crate::codec::bytes_of(py, &out).map(Some)
}

/// Return the conditions on the stored document that the running update needs, or None.
#[entries]
#[pyfunction]
pub(super) fn odm_guard<'py>(object: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyBytes>>> {
    let py = object.py();
    let fields = Fields::of(object)?;
    if fields.flags() & GUARDED == 0 {
        return Ok(None);
    }
    let mut out = Vec::new();
    let start = raw::open(&mut out);
    if let Some(state) = fields.known() {
        out.extend_from_slice(&state.guard);
    }
    raw::close(&mut out, start);
    crate::codec::bytes_of(py, &out).map(Some)
}

/// End the save that `odm_update` or `odm_begin` began: its changes are stored, or pending again. None: the outcome is
/// unknown; `lost`: the write, as `take_lost_write` returned it, until `odm_overtake`.
#[entries]
#[pyfunction]
#[pyo3(signature = (object, is_stored, lost=None))]
pub(super) fn odm_settle(
    object: &Bound<'_, PyAny>,
    is_stored: Option<bool>,
    lost: Option<([u8; 16], i64)>,
) -> PyResult<()> {
    let py = object.py();
    let fields = Fields::of(object)?;
    if let Some(lost) = lost {
        fields.state().lost = Some(Box::new(lost_write(lost)));
    }
    let uncertain = match is_stored {
        None => UNCERTAIN,
        Some(true) => 0,
        Some(false) => fields.flags() & UNCERTAIN,
    };
    fields.set_flags(fields.flags() & !(SAVING | UNCERTAIN | GUARDED | MODIFIES) | uncertain);
    let Some(mut state) = fields.known_mut() else { return Ok(()) };
    let sent = std::mem::take(&mut state.sent);
    let draft = std::mem::take(&mut state.draft);
    let extra = state.sent_extra.take();
    if is_stored != Some(true) {
        drop(state);
        fields.set_dirty(fields.dirty().with(&sent));
        if extra.is_some() {
            fields.add_flags(EXTRA_SET);
        }
        return Ok(());
    }
    for (index, value) in draft {
        state.keep(index, value);
    }
    if extra.is_some() {
        state.stored_extra = extra;
    }
    let old = std::mem::take(&mut state.old);
    drop(state);
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

/// Return the save whose outcome is unknown, if the server may still carry it out: its session's id and its number.
#[entries]
#[pyfunction]
pub(super) fn odm_lost<'py>(object: &Bound<'py, PyAny>) -> PyResult<Option<Numbered<'py>>> {
    let state = Fields::of(object)?.known();
    Ok(state.and_then(|state| state.lost.as_deref().copied()).map(|lost| numbered(object.py(), lost)))
}

/// Record that the server will no longer carry out the save whose outcome is unknown, if it has not done so.
#[entries]
#[pyfunction]
pub(super) fn odm_overtake(object: &Bound<'_, PyAny>) -> PyResult<()> {
    if let Some(mut state) = Fields::of(object)?.known_mut() {
        state.lost = None;
    }
    Ok(())
}

/// Take over the stored bytes of values equal to the known ones, such as a document whose keys are in another order;
/// return the running update, built again for them, or None if no byte differs. `is_uncertain`: it may have been stored.
#[entries]
#[pyfunction]
pub(super) fn odm_rebase<'py>(
    object: &Bound<'py, PyAny>,
    stored: &[u8],
    is_uncertain: bool,
) -> PyResult<Option<Bound<'py, PyBytes>>> {
    let fields = Fields::of(object)?;
    let plan = fields.plan;
    let mut is_other = false;
    for element in raw::Elements::of(stored) {
        let Some(index) = plan.field_of_key(element.key).filter(|index| plan.fields[*index].is_mutable)
        else {
            continue;
        };
        let Some(mut state) = fields.known_mut() else { continue };
        let known = match state.kept(index) {
            Some(kept) => kept.clone(),
            None => raw::Elements::of(&state.raw).find(|known| known.key == element.key).map(|known| {
                let mut kept = vec![known.kind];
                kept.extend_from_slice(known.value);
                kept
            }),
        };
        let Some(known) = known else { continue };
        let known = raw::Element { kind: known[0], key: element.key, value: &known[1..] };
        if let Some((kind, value)) = adopt(&known, &element) {
            is_other = true;
            let mut kept = vec![kind];
            kept.extend_from_slice(&value);
            state.keep(index, Some(kept));
        }
    }
    if !is_other {
        return Ok(None);
    }
    let is_uncertain = is_uncertain || fields.flags() & UNCERTAIN != 0;
    let Some(update) = update::rebuild(object.py(), fields, is_uncertain) else { return Ok(None) };
    let mut out = Vec::new();
    update.write(&mut out);
    fields.set_flags(fields.flags() & !(GUARDED | MODIFIES) | needs_of(&update));
    fields.state().guard = update.guard.into_bytes();
    crate::codec::bytes_of(object.py(), &out).map(Some)
}

/// Record that an instance is stored as these bytes (None if it does not keep them), and where; this ends the save that
/// `odm_begin` or `odm_insert` began.
#[entries]
#[pyfunction]
#[pyo3(signature = (object, raw, origin))]
pub(super) fn odm_stored(
    object: &Bound<'_, PyAny>,
    raw: Option<&Bound<'_, PyBytes>>,
    origin: &Bound<'_, PyAny>,
) -> PyResult<()> {
    stored(object, raw.map(|raw| raw.as_bytes().to_vec()), origin)
}

/// Implements `odm_stored`.
fn stored(object: &Bound<'_, PyAny>, raw: Option<Vec<u8>>, origin: &Bound<'_, PyAny>) -> PyResult<()> {
    super::odm_set_origin(object, origin)?;
    let fields = Fields::of(object)?;
    // Fields set since the save began are changes.
    fields.set_flags(fields.flags() & !(NEW | DELETED | SAVING | UNCERTAIN | GUARDED | MODIFIES));
    if let Some(mut state) = fields.known_mut() {
        state.sent.clear();
        state.sent_extra = None;
        state.stored_extra = None;
    }
    if fields.plan.keeps_raw {
        let mut state = fields.state();
        state.raw = raw.unwrap_or_default();
        state.saved.clear();
    }
    fields.forget_old(object.py());
    Ok(())
}

/// Record that these fields are stored with a document's values. Others keep their changes and former values.
#[entries]
#[pyfunction]
pub(super) fn odm_note(object: &Bound<'_, PyAny>, stored: &[u8]) -> PyResult<()> {
    let py = object.py();
    let fields = Fields::of(object)?;
    let plan = fields.plan;
    for element in raw::Elements::of(stored) {
        let Some(index) = plan.field_of_key(element.key) else { continue };
        let field = &plan.fields[index];
        let made = decode::decode_field(py, plan, plan.codec.get(), field, stored, None, false)
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

/// Return the names of the fields that differ from the stored document, each with its former value (if known).
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
    let Some(update) = update::build(py, fields)? else { return Ok(changes) };
    let drafts: Vec<usize> = update.draft.into_iter().map(|(index, _)| index).collect();
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

/// A field's stored value, decoded again.
pub(super) fn stored_value<'py>(
    py: Python<'py>,
    fields: Fields<'_>,
    index: usize,
) -> PyResult<Bound<'py, PyAny>> {
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
    match decode::decode_field(py, fields.plan, fields.plan.codec.get(), field, &document, None, false) {
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
        if plan.version == Some(index) && is_unversioned(py, fields) {
            // Null finds documents without the key.
            raw::append(out, 0x0A, &field.key, &[]);
            continue;
        }
        Writer::new(py, plan, out)
            .value(&field.kind, &field.name, &held)
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

/// The result of an update: how many documents the server matched and modified.
struct Counts;

impl Maker for Counts {
    fn make(self: Box<Self>, exchange: &mut Exchange, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let (matched, modified) = exchange.counts(py)?;
        Ok((matched, modified).into_pyobject(py)?.into_any().unbind())
    }

    fn traverse(&self, _visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        Ok(())
    }
}

/// Build the operation that saves the changes, or None; its result is how many documents the server matched and
/// modified. `target`: as for `odm_insert`.
#[entries]
#[pyfunction]
#[pyo3(signature = (object, target))]
pub(super) fn odm_save(object: &Bound<'_, PyAny>, target: Target<'_>) -> PyResult<Option<Operation>> {
    let py = object.py();
    let fields = Fields::of(object)?;
    alone(py, fields)?;
    let mut filter = Vec::with_capacity(32);
    let start = raw::open(&mut filter);
    write_filter(py, fields, &mut filter)?;
    let Some(update) = update::build(py, fields)? else {
        return unchanged(py, fields);
    };
    filter.extend_from_slice(update.guard.bytes());
    raw::close(&mut filter, start);
    let (database, collection, codec, concern) = target;
    let (mut head, start) = head_of(b"update", collection.to_str()?, &codec, concern.as_ref())?;
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
    let steps = OperationPlan { kind: Kind::RetryableWrite, reading: ReplyForm::Made, replies: Replies::One };
    let database = database.to_str()?;
    let mut made =
        Operation::assemble(py, database, head, Vec::new(), codec, &steps, SessionChoice::Implicit)?;
    made.maker = Some(Box::new(Counts));
    begin(py, fields, update)?;
    Ok(Some(made))
}

/// The place of an instance, for a command.
type Target<'py> =
    (Bound<'py, PyString>, Bound<'py, PyString>, Py<crate::codec::Codec>, Option<Bound<'py, PyAny>>);

/// The result of an insert: the instance, which is then stored.
struct Inserted {
    object: Py<PyAny>,
    /// Its bytes, if it keeps them.
    raw: Option<Vec<u8>>,
    /// None: `odm_stored` must follow, and the bytes are the result.
    origin: Option<Py<PyAny>>,
}

impl Maker for Inserted {
    fn make(self: Box<Self>, _exchange: &mut Exchange, py: Python<'_>) -> PyResult<Py<PyAny>> {
        match self.origin {
            Some(origin) => {
                stored(self.object.bind(py), self.raw, origin.bind(py))?;
                Ok(self.object)
            }
            None => {
                let raw = self.raw.map(|raw| crate::codec::bytes_of(py, &raw)).transpose()?;
                Ok(raw.map_or_else(|| py.None(), |raw| raw.into_any().unbind()))
            }
        }
    }

    fn traverse(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.object)?;
        visit.call(&self.origin)
    }
}

/// Build the operation that stores an instance; None: a transaction may have to record it first. Its result is the
/// instance, stored at `origin`; without `origin`, the bytes for `odm_stored`, if any. `target`: the names of database
/// and collection, its codec, and the write concern's document or None.
#[entries]
#[pyfunction]
#[pyo3(signature = (object, target, max_size, origin))]
pub(super) fn odm_insert(
    object: &Bound<'_, PyAny>,
    target: Target<'_>,
    max_size: usize,
    origin: Option<Py<PyAny>>,
) -> PyResult<Option<Operation>> {
    let py = object.py();
    let fields = Fields::of(object)?;
    alone(py, fields)?;
    identify(py, fields)?;
    if watch::is_on() {
        return Ok(None);
    }
    let (database, collection, codec, concern) = target;
    let (mut head, start) = head_of(b"insert", collection.to_str()?, &codec, concern.as_ref())?;
    raw::close(&mut head, start);
    let packed = fields.known().map_or(0, |state| state.raw.len());
    let mut sequence = Command::begin_sequence("documents", 512 + packed);
    let empty = sequence.len();
    let result = Writer::new(py, fields.plan, &mut sequence).document(fields);
    result.map_err(|fault| into_exception(py, fault, None))?;
    let document = sequence.get(empty..).unwrap_or_default();
    if document.len() > max_size {
        return Err(too_large(py, document.len(), max_size));
    }
    let raw = fields.plan.keeps_raw.then(|| document.to_vec());
    let steps = OperationPlan { kind: Kind::RetryableWrite, reading: ReplyForm::Made, replies: Replies::One };
    let database = database.to_str()?;
    let mut made = Operation::assemble(py, database, head, sequence, codec, &steps, SessionChoice::Implicit)?;
    made.maker = Some(Box::new(Inserted { object: object.clone().unbind(), raw, origin }));
    begin(py, fields, Update::of_whole(fields.dirty()))?;
    Ok(Some(made))
}

/// Begins the command of a write; returns the start of its document, to be closed later.
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

pub(super) fn string(out: &mut Vec<u8>, key: &[u8], text: &str) {
    out.push(0x02);
    out.extend_from_slice(key);
    out.push(0);
    out.extend_from_slice(&(text.len() as u32 + 1).to_le_bytes());
    out.extend_from_slice(text.as_bytes());
    out.push(0);
}
