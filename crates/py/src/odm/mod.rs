//! The document mapper's core: compiled plans that write BSON values directly into the slots of instances, and the
//! smallest update for changed fields. Knows no sockets and no commands; `mangonel.odm` is its only user.
mod bits;
mod build;
mod comparing;
mod copying;
mod decode;
mod encode;
mod fields;
mod guard;
mod instance;
mod joining;
mod json;
mod keys;
mod lifetime;
mod maker;
mod packing;
mod plan;
mod raw;
mod reading;
mod saving;
mod short_way;
mod siblings;
mod single;
mod update;
mod value;

use mangonel_entries::entries;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyString};

use crate::codec::decode::Decoder;
use crate::codec::fault::{Fault, into_exception};
use encode::Writer;
use fields::{DELETED, EXTRA_SET, Fields, GUARDED, MODIFIES, NEW, PARTIAL, SAVING, UNCERTAIN};
pub use plan::OdmModel;
use siblings::Siblings;

/// Adds the mapper's core to the module.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    instance::register(module)?;
    module.add_class::<Siblings>()?;
    module.add_class::<maker::OdmMaker>()?;
    module.add_function(wrap_pyfunction!(plan::odm_offset, module)?)?;
    module.add_function(wrap_pyfunction!(lifetime::odm_adopt, module)?)?;
    module.add_function(wrap_pyfunction!(reading::odm_decode_all, module)?)?;
    module.add_function(wrap_pyfunction!(reading::odm_drain, module)?)?;
    module.add_function(wrap_pyfunction!(reading::odm_shape, module)?)?;
    module.add_function(wrap_pyfunction!(reading::odm_rows, module)?)?;
    module.add_function(wrap_pyfunction!(reading::odm_drain_joined, module)?)?;
    module.add_function(wrap_pyfunction!(joining::odm_siblings, module)?)?;
    module.add_function(wrap_pyfunction!(joining::odm_wanted, module)?)?;
    module.add_function(wrap_pyfunction!(joining::odm_grouped, module)?)?;
    module.add_function(wrap_pyfunction!(joining::odm_references, module)?)?;
    module.add_function(wrap_pyfunction!(build::odm_build, module)?)?;
    module.add_function(wrap_pyfunction!(saving::odm_encode, module)?)?;
    module.add_function(wrap_pyfunction!(saving::odm_insert, module)?)?;
    module.add_function(wrap_pyfunction!(saving::odm_begin, module)?)?;
    module.add_function(wrap_pyfunction!(saving::odm_update, module)?)?;
    module.add_function(wrap_pyfunction!(saving::odm_guard, module)?)?;
    module.add_function(wrap_pyfunction!(saving::odm_rebase, module)?)?;
    module.add_function(wrap_pyfunction!(saving::odm_settle, module)?)?;
    module.add_function(wrap_pyfunction!(saving::odm_lost, module)?)?;
    module.add_function(wrap_pyfunction!(saving::odm_overtake, module)?)?;
    module.add_function(wrap_pyfunction!(saving::odm_note, module)?)?;
    module.add_function(wrap_pyfunction!(saving::odm_stored, module)?)?;
    module.add_function(wrap_pyfunction!(saving::odm_changes, module)?)?;
    module.add_function(wrap_pyfunction!(odm_flags, module)?)?;
    module.add_function(wrap_pyfunction!(odm_mark_deleted, module)?)?;
    module.add_function(wrap_pyfunction!(odm_raw, module)?)?;
    module.add_function(wrap_pyfunction!(odm_extra, module)?)?;
    module.add_function(wrap_pyfunction!(odm_set_extra, module)?)?;
    module.add_function(wrap_pyfunction!(odm_take, module)?)?;
    module.add_function(wrap_pyfunction!(odm_dump, module)?)?;
    module.add_function(wrap_pyfunction!(comparing::odm_compared, module)?)?;
    module.add_class::<comparing::OdmPath>()?;
    module.add_function(wrap_pyfunction!(saving::odm_filter, module)?)?;
    module.add_function(wrap_pyfunction!(saving::odm_version, module)?)?;
    module.add_function(wrap_pyfunction!(copying::odm_pending, module)?)?;
    module.add_function(wrap_pyfunction!(copying::odm_resume, module)?)?;
    module.add_function(wrap_pyfunction!(odm_origin, module)?)?;
    module.add_function(wrap_pyfunction!(odm_set_origin, module)?)?;
    module.add_function(wrap_pyfunction!(instance::watch::odm_watch, module)?)?;
    module.add_function(wrap_pyfunction!(saving::odm_save, module)?)?;
    module.add_class::<single::OdmJoin>()?;
    module.add_class::<short_way::OdmShortWay>()?;
    module.add_function(wrap_pyfunction!(single::odm_lookup, module)?)?;
    module.add_function(wrap_pyfunction!(reading::odm_json, module)?)?;
    module.add_function(wrap_pyfunction!(odm_finished, module)?)?;
    module.add_function(wrap_pyfunction!(odm_loaded, module)?)
}

/// Return whether an instance is new, was partly loaded, was deleted, is being saved, was saved with an unknown
/// outcome; and whether the running save depends on the stored document, and must change it: bits 1, 2, 4, 16, 32, 64
/// and 128.
#[entries]
#[pyfunction]
fn odm_flags(object: &Bound<'_, PyAny>) -> PyResult<u64> {
    Ok(Fields::of(object)?.flags() & (NEW | PARTIAL | DELETED | SAVING | UNCERTAIN | GUARDED | MODIFIES))
}

/// Mark an instance as no longer stored; it may be inserted again.
#[entries]
#[pyfunction]
fn odm_mark_deleted(object: &Bound<'_, PyAny>) -> PyResult<()> {
    Fields::of(object)?.add_flags(DELETED | NEW);
    Ok(())
}

/// Return the bytes from which an instance was loaded, if it keeps them.
#[entries]
#[pyfunction]
fn odm_raw<'py>(object: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyBytes>>> {
    let state = Fields::of(object)?.known().filter(|state| !state.raw.is_empty());
    Ok(state.map(|state| PyBytes::new(object.py(), &state.raw)))
}

/// Return the values of keys that no field has.
#[entries]
#[pyfunction]
fn odm_extra<'py>(object: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    let py = object.py();
    let fields = Fields::of(object)?;
    let mut document = Vec::new();
    let start = raw::open(&mut document);
    if let Some(state) = fields.known() {
        document.extend_from_slice(&state.extra);
    }
    raw::close(&mut document, start);
    let made = Decoder::new(py, fields.plan.codec.get(), &document).whole();
    made.map_err(|fault| into_exception(py, fault, None))
}

/// Set the values of keys that no field has.
#[entries]
#[pyfunction]
fn odm_set_extra(object: &Bound<'_, PyAny>, extra: &Bound<'_, PyDict>) -> PyResult<()> {
    let fields = Fields::of(object)?;
    let codec = fields.plan.codec.get();
    let mut document = Vec::new();
    crate::codec::encode_document(object.py(), extra.as_any(), codec, false, &mut document)?;
    document.pop();
    fields.state().extra = document.split_off(4);
    fields.add_flags(EXTRA_SET);
    Ok(())
}

/// Move the whole state of `other`, an instance of the same model that is not used afterwards, into `object`.
#[entries]
#[pyfunction]
fn odm_take(object: &Bound<'_, PyAny>, other: &Bound<'_, PyAny>) -> PyResult<()> {
    Fields::of(object)?.swap(Fields::of(other)?)
}

/// Return which fields of an instance have values here; `with_lazy`: also those whose values were not decoded yet.
#[entries]
#[pyfunction]
#[pyo3(signature = (object, with_lazy=true))]
fn odm_loaded<'py>(object: &Bound<'py, PyAny>, with_lazy: bool) -> PyResult<Vec<Bound<'py, PyString>>> {
    let fields = Fields::of(object)?;
    let names = fields.plan.fields.iter().enumerate();
    let loaded = names.filter(|(index, _)| fields.has(*index) || (with_lazy && fields.is_pending(*index)));
    Ok(loaded.map(|(_, field)| field.attribute.bind(object.py()).clone()).collect())
}

/// Return the BSON form of a field's value, for queries and updates. `is_element`: the value is one element of its
/// container.
#[entries]
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
    let field = field_of(plan, attribute)?;
    let made = self::value::coerce(type_of(field, is_element), value)
        .and_then(|made| stored(py, plan, field, is_element, &made));
    made.map_err(|fault| into_exception(py, fault, None))
}

/// Returns the field with this attribute.
fn field_of(plan: &'static plan::Plan, attribute: &Bound<'_, PyString>) -> PyResult<&'static plan::Field> {
    match plan.field_called(attribute) {
        Some(index) => Ok(&plan.fields[index]),
        None => Err(PyTypeError::new_err(format!("expected a field, got {attribute:?}"))),
    }
}

/// Returns the type of a field, or of its elements if it has any.
fn type_of(field: &plan::Field, is_element: bool) -> &plan::Type {
    use plan::Op;
    match &field.kind.op {
        Op::List(inner)
        | Op::Set(inner, _)
        | Op::TupleOf(inner)
        | Op::Dict(inner)
        | Op::Refs { inner, .. }
            if is_element =>
        {
            inner
        }
        _ => &field.kind,
    }
}

/// Encodes a value of the right type as a field or its elements do, and decodes its BSON form.
fn stored<'py>(
    py: Python<'py>,
    plan: &'static plan::Plan,
    field: &'static plan::Field,
    is_element: bool,
    value: &Bound<'py, PyAny>,
) -> Result<Bound<'py, PyAny>, Fault> {
    let mut document = Vec::new();
    let start = raw::open(&mut document);
    let name = &field.name;
    Writer::new(py, plan, &mut document).value(type_of(field, is_element), name, value)?;
    raw::close(&mut document, start);
    let made = Decoder::new(py, plan.codec.get(), &document).whole()?;
    Ok(made.get_item(PyString::new(py, &String::from_utf8_lossy(&field.key)))?)
}

/// Return the connection through which an instance was loaded or stored, or None.
#[entries]
#[pyfunction]
fn odm_origin<'py>(object: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyAny>>> {
    let Some(company) = Fields::of(object)?.siblings(object.py()) else { return Ok(None) };
    match company.cast::<Siblings>() {
        Ok(siblings) => {
            Ok(siblings.try_borrow()?.origin.as_ref().map(|origin| origin.bind(object.py()).clone()))
        }
        Err(_) => Ok(Some(company)),
    }
}

/// Set where an instance is stored; its siblings are forgotten if that is another place.
#[entries]
#[pyfunction]
fn odm_set_origin(object: &Bound<'_, PyAny>, origin: &Bound<'_, PyAny>) -> PyResult<()> {
    let py = object.py();
    if odm_origin(object)?.is_some_and(|known| known.is(origin)) {
        return Ok(());
    }
    let fields = Fields::of(object)?;
    let company = if fields.plan.has_refs {
        Bound::new(py, Siblings::new(py, Some(origin.clone().unbind())))?.into_any()
    } else {
        origin.clone()
    };
    // The former company is released last, since that may run code.
    let _former = fields.replace_siblings(py, Some(company));
    if fields.plan.has_refs {
        fields.track();
    }
    Ok(())
}

/// Return a finished awaitable whose result is `value`.
#[entries]
#[pyfunction]
fn odm_finished(value: Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
    let py = value.py();
    crate::driver::ready::finished(py, value.unbind())
}
