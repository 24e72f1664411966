//! The document mapper's core: compiled plans that write BSON's values straight into the slots of instances, and the
//! smallest update of what changed. Knows no sockets and no commands; `mangonel.odm` is its only user.
mod decode;
mod encode;
mod instance;
mod lifetime;
mod plan;
mod raw;
mod siblings;
mod update;
mod value;

use pyo3::exceptions::PyTypeError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList, PyString};

use crate::codec::decode::Decoder;
use crate::codec::fault::into_exception;
use crate::driver::batch::Batch;
use crate::driver::operation::{Operation, Plan as OperationPlan, Reading};
use decode::Hydrator;
use encode::Writer;
use instance::{DELETED, EXTRA_SET, Instance, NEW, PARTIAL, is_instance};
use mangonel_proto::message::{Command, Replies};
use mangonel_proto::operation::{Kind, SessionChoice};
pub use plan::OdmModel;
use plan::Plan;
use siblings::Siblings;

/// Adds the mapper's core to the module.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    instance::register(module)?;
    module.add_class::<Siblings>()?;
    module.add_function(wrap_pyfunction!(plan::odm_offset, module)?)?;
    module.add_function(wrap_pyfunction!(odm_decode_all, module)?)?;
    module.add_function(wrap_pyfunction!(odm_drain, module)?)?;
    module.add_function(wrap_pyfunction!(odm_encode, module)?)?;
    module.add_function(wrap_pyfunction!(odm_update, module)?)?;
    module.add_function(wrap_pyfunction!(odm_settle, module)?)?;
    module.add_function(wrap_pyfunction!(odm_stored, module)?)?;
    module.add_function(wrap_pyfunction!(odm_changes, module)?)?;
    module.add_function(wrap_pyfunction!(odm_flags, module)?)?;
    module.add_function(wrap_pyfunction!(odm_mark_deleted, module)?)?;
    module.add_function(wrap_pyfunction!(odm_raw, module)?)?;
    module.add_function(wrap_pyfunction!(odm_extra, module)?)?;
    module.add_function(wrap_pyfunction!(odm_set_extra, module)?)?;
    module.add_function(wrap_pyfunction!(odm_take, module)?)?;
    module.add_function(wrap_pyfunction!(odm_dump, module)?)?;
    module.add_function(wrap_pyfunction!(odm_filter, module)?)?;
    module.add_function(wrap_pyfunction!(odm_version, module)?)?;
    module.add_function(wrap_pyfunction!(odm_mark_new, module)?)?;
    module.add_function(wrap_pyfunction!(odm_mark_changed, module)?)?;
    module.add_function(wrap_pyfunction!(odm_save, module)?)?;
    module.add_function(wrap_pyfunction!(odm_json, module)?)?;
    module.add_function(wrap_pyfunction!(odm_finished, module)?)?;
    module.add_function(wrap_pyfunction!(odm_loaded, module)?)
}

/// What the documents of a driver's cursor become.
pub struct Shape {
    /// The model they are decoded as.
    pub model: Py<OdmModel>,
    /// Makes what is wanted of an instance; None: the instance itself.
    pub make: Option<Py<PyAny>>,
    /// Drop keys that the model does not know.
    pub ignores: bool,
}

impl Shape {
    /// Another reference to the same.
    pub fn clone_ref(&self, py: Python<'_>) -> Self {
        Shape {
            model: self.model.clone_ref(py),
            make: self.make.as_ref().map(|make| make.clone_ref(py)),
            ignores: self.ignores,
        }
    }

    /// Makes the object of one document.
    ///
    /// # Errors
    /// `ValidationError` with the path of a value that does not fit, `InvalidBSON`, or what the shape's class raises.
    pub fn make(&self, py: Python<'_>, bytes: &[u8]) -> PyResult<Py<PyAny>> {
        let plan = self.model.get().model.0.plan(py)?;
        let list = PyList::empty(py);
        let wish = Wish { is_lazy: false, only: None, ignores: self.ignores };
        hydrate(py, plan, bytes, std::slice::from_ref(&(0..bytes.len())), &wish, &list)?;
        let made = list.get_item(0)?;
        match &self.make {
            Some(make) => make.call1(py, (made,)),
            None => Ok(made.unbind()),
        }
    }
}

/// How documents are to be decoded.
struct Wish {
    is_lazy: bool,
    only: Option<u128>,
    ignores: bool,
}

fn mask(only: Option<Vec<usize>>) -> Option<u128> {
    only.map(|only| {
        only.into_iter().filter(|index| *index < plan::MOST_FIELDS).fold(0, |mask, index| mask | 1 << index)
    })
}

/// Decodes documents that stand at these places of `data`, appending them to `list`.
fn hydrate(
    py: Python<'_>,
    plan: &'static Plan,
    data: &[u8],
    places: &[std::ops::Range<usize>],
    wish: &Wish,
    list: &Bound<'_, PyList>,
) -> PyResult<()> {
    let siblings = if plan.has_refs { Some(Bound::new(py, Siblings::new(py))?) } else { None };
    let mut hydrator = Hydrator::new(py, plan, data, siblings.as_ref());
    hydrator.is_lazy = wish.is_lazy;
    hydrator.only = wish.only;
    hydrator.ignores = wish.ignores;
    // The collector would walk over half-made instances again and again.
    let pause = Pause::new(py, places.len());
    for place in places {
        let made =
            hydrator.top(plan, place.start, place.end).map_err(|fault| into_exception(py, fault, None))?;
        // SAFETY: a new reference; the list takes its own.
        let status = unsafe {
            let status = ffi::PyList_Append(list.as_ptr(), made);
            ffi::Py_DECREF(made);
            status
        };
        if status < 0 {
            return Err(PyErr::fetch(py));
        }
    }
    drop(pause);
    Ok(())
}

/// Keeps the garbage collector off while many objects are made.
struct Pause<'py> {
    was_on: bool,
    _py: Python<'py>,
}

impl<'py> Pause<'py> {
    fn new(py: Python<'py>, count: usize) -> Self {
        // SAFETY: the GIL is held.
        Pause { was_on: count > 16 && unsafe { ffi::PyGC_Disable() } == 1, _py: py }
    }
}

impl Drop for Pause<'_> {
    fn drop(&mut self) {
        if self.was_on {
            // SAFETY: the GIL is held: `_py` says so.
            unsafe { ffi::PyGC_Enable() };
        }
    }
}

/// Decode the documents that stand one after another in `data`, as instances of a model.
#[pyfunction]
#[pyo3(signature = (model, data, lazy=false, only=None, ignores=false))]
fn odm_decode_all<'py>(
    py: Python<'py>,
    model: &Bound<'py, OdmModel>,
    data: &Bound<'py, PyBytes>,
    lazy: bool,
    only: Option<Vec<usize>>,
    ignores: bool,
) -> PyResult<Bound<'py, PyList>> {
    let plan = model.get().model.0.plan(py)?;
    let bytes = data.as_bytes();
    let mut places = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        let length = bytes[at..].first_chunk::<4>().map_or(0, |head| u32::from_le_bytes(*head) as usize);
        let end = at.saturating_add(length.max(5)).min(bytes.len());
        places.push(at..end);
        at = end;
    }
    let list = PyList::empty(py);
    hydrate(py, plan, bytes, &places, &Wish { is_lazy: lazy, only: mask(only), ignores }, &list)?;
    Ok(list)
}

/// Append the documents that are left in a batch to `documents`, at most `limit` of them, as instances of a model.
#[pyfunction]
#[pyo3(signature = (batch, model, documents, limit=None, lazy=false, only=None, ignores=false))]
#[allow(clippy::too_many_arguments)] // The mapper's one way in; called once for each batch.
fn odm_drain(
    py: Python<'_>,
    batch: &Bound<'_, Batch>,
    model: &Bound<'_, OdmModel>,
    documents: &Bound<'_, PyList>,
    limit: Option<usize>,
    lazy: bool,
    only: Option<Vec<usize>>,
    ignores: bool,
) -> PyResult<usize> {
    let plan = model.get().model.0.plan(py)?;
    let mut batch = batch.try_borrow_mut()?;
    let places = batch.take_ranges(py, limit)?;
    hydrate(
        py,
        plan,
        batch.message(),
        &places,
        &Wish { is_lazy: lazy, only: mask(only), ignores },
        documents,
    )?;
    Ok(places.len())
}

fn checked(object: &Bound<'_, PyAny>) -> PyResult<&'static Plan> {
    if !is_instance(object.py(), object.as_ptr()) {
        let found = object.get_type().name()?;
        return Err(PyTypeError::new_err(format!("expected an instance of a model, got {found}")));
    }
    // SAFETY: just checked.
    unsafe { (*Instance::of(object.as_ptr()).model).plan_of(object.py()) }
}

/// Return an instance as BSON. `draft`: remember the bytes for `odm_stored`.
#[pyfunction]
fn odm_encode<'py>(object: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyBytes>> {
    let py = object.py();
    let plan = checked(object)?;
    let mut out = Vec::new();
    // SAFETY: an instance, held by the caller.
    let result = unsafe { Writer::new(py, plan, &mut out).document(object.as_ptr()) };
    result.map_err(|fault| into_exception(py, fault, None))?;
    Ok(PyBytes::new(py, &out))
}

/// Return the smallest update that stores what changed, or None. `odm_settle` must follow once the server has answered.
#[pyfunction]
fn odm_update<'py>(object: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyBytes>>> {
    checked(object)?;
    let py = object.py();
    let Some(update) = update::build(py, object)? else { return Ok(None) };
    let mut out = Vec::with_capacity(128);
    update.write(&mut out);
    Ok(Some(PyBytes::new(py, &out)))
}

/// End what `odm_update` began: the changes are stored, or they are changes again.
#[pyfunction]
fn odm_settle(object: &Bound<'_, PyAny>, is_stored: bool) -> PyResult<()> {
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
fn odm_stored(object: &Bound<'_, PyAny>, raw: &Bound<'_, PyBytes>) -> PyResult<()> {
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
fn odm_changes<'py>(object: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyDict>> {
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

/// Return whether an instance is new, was partly loaded, was deleted: bits 1, 2 and 4.
#[pyfunction]
fn odm_flags(object: &Bound<'_, PyAny>) -> PyResult<u64> {
    checked(object)?;
    // SAFETY: an instance.
    Ok(unsafe { Instance::of(object.as_ptr()).flags & (NEW | PARTIAL | DELETED) })
}

/// Say that an instance is not stored any more; inserting it again is allowed.
#[pyfunction]
fn odm_mark_deleted(object: &Bound<'_, PyAny>) -> PyResult<()> {
    checked(object)?;
    // SAFETY: an instance.
    unsafe { Instance::of(object.as_ptr()).flags |= DELETED | NEW };
    Ok(())
}

/// Return the bytes an instance was loaded from, where it keeps them.
#[pyfunction]
fn odm_raw<'py>(object: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyBytes>>> {
    checked(object)?;
    // SAFETY: an instance.
    let state = unsafe { Instance::of(object.as_ptr()).known() };
    let raw = state.map(|state| state.raw.as_slice()).filter(|raw| !raw.is_empty());
    Ok(raw.map(|raw| PyBytes::new(object.py(), raw)))
}

/// Return the values of keys that no field has.
#[pyfunction]
fn odm_extra<'py>(object: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    let py = object.py();
    let plan = checked(object)?;
    let mut document = Vec::new();
    let start = raw::open(&mut document);
    // SAFETY: an instance; the bytes are copied.
    if let Some(state) = unsafe { Instance::of(object.as_ptr()).known() } {
        document.extend_from_slice(&state.extra);
    }
    raw::close(&mut document, start);
    let made = Decoder::new(py, plan.codec.get(), &document).whole();
    made.map_err(|fault| into_exception(py, fault, None))
}

/// Set the values of keys that no field has.
#[pyfunction]
fn odm_set_extra(object: &Bound<'_, PyAny>, extra: &Bound<'_, PyDict>) -> PyResult<()> {
    let py = object.py();
    let plan = checked(object)?;
    let mut document = Vec::new();
    crate::codec::encode_document(py, extra.as_any(), plan.codec.get(), false, &mut document)?;
    document.pop();
    // SAFETY: an instance; nothing runs meanwhile.
    unsafe {
        let instance = Instance::of(object.as_ptr());
        instance.state().extra = document.split_off(4);
        instance.flags |= EXTRA_SET;
    }
    Ok(())
}

/// Let `object` become what `other`, an instance of the same model that is not used afterwards, is.
#[pyfunction]
fn odm_take(object: &Bound<'_, PyAny>, other: &Bound<'_, PyAny>) -> PyResult<()> {
    let plan = checked(object)?;
    if !std::ptr::eq(plan, checked(other)?) {
        return Err(PyTypeError::new_err("expected two instances of the same model"));
    }
    // SAFETY: two instances of one plan: heads and slots are exchanged whole, references included.
    unsafe {
        let (one, two) = (Instance::of(object.as_ptr()), Instance::of(other.as_ptr()));
        std::mem::swap(&mut one.dirty, &mut two.dirty);
        std::mem::swap(&mut one.flags, &mut two.flags);
        std::mem::swap(&mut one.state, &mut two.state);
        std::mem::swap(&mut one.siblings, &mut two.siblings);
        for field in &plan.fields {
            std::ptr::swap(one.slot(field.offset), two.slot(field.offset));
        }
        instance::track(object.as_ptr());
        instance::track(other.as_ptr());
    }
    Ok(())
}

/// Return which fields of an instance have values here, lazy ones included.
#[pyfunction]
fn odm_loaded<'py>(object: &Bound<'py, PyAny>) -> PyResult<Vec<Bound<'py, PyString>>> {
    let py = object.py();
    let plan = checked(object)?;
    let mut names = Vec::new();
    for (index, field) in plan.fields.iter().enumerate() {
        // SAFETY: an instance of the plan.
        let is_there = unsafe {
            let instance = Instance::of(object.as_ptr());
            !(*instance.slot(field.offset)).is_null() || instance.pending() & 1 << index != 0
        };
        if is_there {
            names.push(field.attribute.bind(py).clone());
        }
    }
    Ok(names)
}

/// Return what BSON has of a field's value, for queries and updates. `is_element`: of one element of its container.
#[pyfunction]
#[pyo3(signature = (model, attribute, value, is_element=false))]
fn odm_dump<'py>(
    py: Python<'py>,
    model: &Bound<'py, OdmModel>,
    attribute: &Bound<'py, PyString>,
    value: &Bound<'py, PyAny>,
    is_element: bool,
) -> PyResult<Bound<'py, PyAny>> {
    let plan = model.get().model.0.plan(py)?;
    let name = attribute.to_str()?;
    let field =
        plan.fields.iter().find(|field| field.attribute.bind(py).to_str().is_ok_and(|known| known == name));
    let Some(field) = field else {
        return Err(PyTypeError::new_err(format!("expected a field, got {name:?}")));
    };
    let mut kind = &field.kind;
    if is_element {
        use plan::Op;
        if let Op::List(inner) | Op::Set(inner, _) | Op::TupleOf(inner) | Op::Dict(inner) = &kind.op {
            kind = inner;
        } else if let Op::Refs { inner, .. } = &kind.op {
            kind = inner;
        }
    }
    let mut document = Vec::new();
    let start = raw::open(&mut document);
    let step = |fault| instance::located(py, plan, 0, fault);
    let made = self::value::coerce(py, kind, value.as_ptr()).map_err(step)?;
    // SAFETY: `coerce` returns a new reference.
    let made = unsafe { Bound::from_owned_ptr(py, made) };
    Writer::new(py, plan, &mut document)
        .value(kind, crate::codec::encode::Name::Text(&field.key), &made)
        .map_err(|fault| into_exception(py, fault, None))?;
    raw::close(&mut document, start);
    let made = Decoder::new(py, plan.codec.get(), &document).whole();
    let made = made.map_err(|fault| into_exception(py, fault, None))?;
    made.get_item(PyString::new(py, &String::from_utf8_lossy(&field.key)))
}

/// Return the query of the stored document: its id, and the version that was loaded.
#[pyfunction]
fn odm_filter<'py>(object: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyDict>> {
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
fn odm_version<'py>(object: &Bound<'py, PyAny>) -> PyResult<Option<(String, Bound<'py, PyAny>)>> {
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

/// Say that fields of an instance differ from what is stored, whatever that is.
#[pyfunction]
fn odm_mark_changed(object: &Bound<'_, PyAny>, names: Vec<String>) -> PyResult<()> {
    let py = object.py();
    let plan = checked(object)?;
    for (index, field) in plan.fields.iter().enumerate() {
        let attribute = field.attribute.bind(py).to_str()?;
        if names.iter().any(|name| name == attribute) {
            // SAFETY: an instance; nothing runs meanwhile.
            let instance = unsafe { Instance::of(object.as_ptr()) };
            instance.set_dirty(index);
            if plan.keeps_raw {
                instance.state().saved.push((index, None));
            }
        }
    }
    Ok(())
}

/// Say that an instance was never stored.
#[pyfunction]
fn odm_mark_new(object: &Bound<'_, PyAny>) -> PyResult<()> {
    checked(object)?;
    // SAFETY: an instance.
    unsafe {
        let instance = Instance::of(object.as_ptr());
        instance.flags |= NEW;
        instance.dirty = [0; 2];
    }
    Ok(())
}

/// Build the operation that saves what changed, or None. `concern`: the write concern's document, or None.
#[pyfunction]
#[pyo3(signature = (object, database, collection, codec, concern, answer))]
fn odm_save(
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

/// The documents that are left in a batch as JSON, separated by commas; attributes name the values.
#[pyfunction]
fn odm_json<'py>(
    py: Python<'py>,
    batch: &Bound<'py, Batch>,
    model: &Bound<'py, OdmModel>,
) -> PyResult<Bound<'py, PyBytes>> {
    let plan = model.get().model.0.plan(py)?;
    let mut batch = batch.try_borrow_mut()?;
    let places = batch.take_ranges(py, None)?;
    let names: Vec<(Vec<u8>, String)> = plan
        .fields
        .iter()
        .map(|field| (field.key.clone(), field.attribute.bind(py).to_string()))
        .filter(|(key, name)| key != name.as_bytes())
        .collect();
    let tag = plan.tags.as_ref().map(|tags| tags.key[..tags.key.len() - 1].to_vec());
    let message = batch.message();
    let text = py.detach(|| -> Result<Vec<u8>, String> {
        let mut text = Vec::with_capacity(message.len());
        let mut renamed = Vec::new();
        for place in places {
            if !text.is_empty() {
                text.push(b',');
            }
            let document = &message[place];
            mangonel_bson::validate(document, mangonel_bson::MAX_DEPTH).map_err(|error| error.to_string())?;
            renamed.clear();
            let start = raw::open(&mut renamed);
            for element in raw::Elements::of(document) {
                if tag.as_deref() == Some(element.key) {
                    continue;
                }
                let name = names.iter().find(|(key, _)| key == element.key);
                let name = name.map_or(element.key, |(_, name)| name.as_bytes());
                raw::append(&mut renamed, element.kind, name, element.value);
            }
            raw::close(&mut renamed, start);
            mangonel_bson::RawDocument::from_bytes(&renamed)
                .and_then(|document| {
                    mangonel_bson::write_json(document, mangonel_bson::JsonMode::Plain, &mut text)
                })
                .map_err(|error| error.to_string())?;
        }
        Ok(text)
    });
    let text = text.map_err(|error| crate::driver::invalid_bson(py, &error))?;
    Ok(PyBytes::new(py, &text))
}

/// An awaitable that is finished and gives `value`.
#[pyfunction]
fn odm_finished(value: Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
    let py = value.py();
    crate::driver::ready::finished(py, value.unbind())
}
