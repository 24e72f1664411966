//! Reads the documents of a message or of plain bytes as instances of a model, or as JSON with their attributes' names.

use std::collections::HashSet;

use mangonel_bson::{RawDocument, RawValue};
use mangonel_entries::entries;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList};

use super::bits::Bits;
use super::decode::{Hydrator, codec_of, converting};
use super::joining::attach;
use super::json::Names;
use super::plan::{OdmModel, Op, Plan};
use super::siblings::Siblings;
use crate::codec::Codec;
use crate::codec::collector::Pause;
use crate::codec::document_shape::{DocumentShape, Shape};
use crate::codec::fault::{Fault, Kind, Problem, into_exception};
use crate::driver::batch::Batch;

/// The form in which a driver's cursor returns documents.
struct ModelShape {
    /// The model as which they are decoded.
    model: Py<OdmModel>,
    /// Converts each instance to the returned object; None: the instance itself is returned.
    make: Option<Py<PyAny>>,
    /// Drop keys that the model does not know.
    ignores: bool,
    /// Replaces the model's codec if the collection requires conversions.
    codec: Option<Py<Codec>>,
}

impl Shape for ModelShape {
    fn make(&self, py: Python<'_>, bytes: &[u8]) -> PyResult<Py<PyAny>> {
        let plan = self.model.get().model.0.plan(py)?;
        let list = PyList::empty(py);
        let codec = self.codec.as_ref();
        let wish = Wish { is_lazy: false, only: None, ignores: self.ignores, origin: None, codec };
        hydrate(py, plan, bytes, std::slice::from_ref(&(0..bytes.len())), &wish, &list)?;
        let made = list.get_item(0)?;
        match &self.make {
            Some(make) => make.call1(py, (made,)),
            None => Ok(made.unbind()),
        }
    }
}

/// Return the shape that makes documents instances of a model; `make`, if given, converts each. `ignores`: drop keys
/// that the model does not know. `conversions`: the codec options for instances without and with time zones, if the
/// collection requires conversions of dates or of invalid text.
#[entries]
#[pyfunction]
#[pyo3(signature = (model, make=None, ignores=false, conversions=None))]
pub(super) fn odm_shape(
    model: &Bound<'_, OdmModel>,
    make: Option<Py<PyAny>>,
    ignores: bool,
    conversions: Option<&Bound<'_, PyAny>>,
) -> PyResult<DocumentShape> {
    let plan = model.get().model.0.plan(model.py())?;
    let codec = conversions.map(|asked| converting(plan, asked)).transpose()?;
    Ok(DocumentShape::new(ModelShape { model: model.clone().unbind(), make, ignores, codec }))
}

/// Decode the documents that are concatenated in `data`, as instances of a model.
#[entries]
#[pyfunction]
#[pyo3(signature = (model, data, lazy=false, only=None, ignores=false, origin=None))]
pub(super) fn odm_decode_all<'py>(
    py: Python<'py>,
    model: &Bound<'py, OdmModel>,
    data: &Bound<'py, PyBytes>,
    lazy: bool,
    only: Option<Vec<usize>>,
    ignores: bool,
    origin: Option<Bound<'py, PyAny>>,
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
    let wish = Wish { is_lazy: lazy, only: mask(plan, only), ignores, origin: origin.as_ref(), codec: None };
    hydrate(py, plan, bytes, &places, &wish, &list)?;
    Ok(list)
}

/// Decodes the document at this place of `data`, completely.
pub(super) fn only_of<'py>(
    model: &Bound<'py, OdmModel>,
    data: &[u8],
    place: std::ops::Range<usize>,
    origin: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyAny>> {
    let py = model.py();
    let plan = model.get().model.0.plan(py)?;
    let list = PyList::empty(py);
    let wish = Wish { is_lazy: false, only: None, ignores: false, origin: Some(origin), codec: None };
    hydrate(py, plan, data, std::slice::from_ref(&place), &wish, &list)?;
    list.get_item(0)
}

/// Append the documents that are left in a batch to `documents`, at most `limit` of them, as instances of a model.
#[entries]
#[pyfunction]
#[pyo3(signature = (batch, model, documents, limit=None, lazy=false, only=None, ignores=false, origin=None))]
#[allow(clippy::too_many_arguments)] // The mapper's only entry for batches; called once for each batch.
pub(super) fn odm_drain(
    py: Python<'_>,
    batch: &Bound<'_, Batch>,
    model: &Bound<'_, OdmModel>,
    documents: &Bound<'_, PyList>,
    limit: Option<usize>,
    lazy: bool,
    only: Option<Vec<usize>>,
    ignores: bool,
    origin: Option<Bound<'_, PyAny>>,
) -> PyResult<usize> {
    let plan = model.get().model.0.plan(py)?;
    let batch = batch.try_borrow()?;
    let places = batch.take_ranges(py, limit)?;
    let wish = Wish { is_lazy: lazy, only: mask(plan, only), ignores, origin: origin.as_ref(), codec: None };
    hydrate(py, plan, batch.message(), &places, &wish, documents)?;
    Ok(places.len())
}

/// A reference's field, by its index in the plan, and the model to which it refers.
pub(super) type Target = (usize, Py<OdmModel>);

/// Decodes the row at this place of `data`: a document, and arrays of the documents found for its references.
pub(super) fn joined_of<'py>(
    model: &Bound<'py, OdmModel>,
    data: &[u8],
    place: std::ops::Range<usize>,
    origin: &Bound<'py, PyAny>,
    targets: &[Target],
) -> PyResult<Bound<'py, PyAny>> {
    let py = model.py();
    let plan = model.get().model.0.plan(py)?;
    let list = PyList::empty(py);
    let wish = Wish { is_lazy: false, only: None, ignores: false, origin: Some(origin), codec: None };
    join(py, plan, data, std::slice::from_ref(&place), targets, &wish, &list)?;
    list.get_item(0)
}

/// Append the documents that are left in a batch to `documents`, as instances of a model, and attach the documents that
/// arrived with them to their references. Each row has a document, then for each of `targets` (a reference's field with
/// its model) an array of the documents found. A reference without a document records why.
#[entries]
#[pyfunction]
#[pyo3(signature = (batch, model, documents, targets, lazy, only, origin))]
#[allow(clippy::too_many_arguments)] // One call from Python for each batch.
pub(super) fn odm_drain_joined(
    py: Python<'_>,
    batch: &Bound<'_, Batch>,
    model: &Bound<'_, OdmModel>,
    documents: &Bound<'_, PyList>,
    targets: Vec<Target>,
    lazy: bool,
    only: Option<Vec<usize>>,
    origin: Option<Bound<'_, PyAny>>,
) -> PyResult<()> {
    let plan = model.get().model.0.plan(py)?;
    let batch = batch.try_borrow()?;
    let rows = batch.take_ranges(py, None)?;
    let wish =
        Wish { is_lazy: lazy, only: mask(plan, only), ignores: false, origin: origin.as_ref(), codec: None };
    join(py, plan, batch.message(), &rows, &targets, &wish, documents)
}

/// Decodes rows at these places of `message`, and appends their documents to `documents`.
fn join<'py>(
    py: Python<'py>,
    plan: &'static Plan,
    message: &[u8],
    rows: &[std::ops::Range<usize>],
    targets: &[Target],
    wish: &Wish<'_, 'py>,
    documents: &Bound<'py, PyList>,
) -> PyResult<()> {
    let broken = |error: mangonel_bson::Error| crate::driver::invalid_bson(py, &error.to_string());
    let place = |part: &[u8]| {
        let start = part.as_ptr() as usize - message.as_ptr() as usize;
        start..start + part.len()
    };
    let mut places = Vec::with_capacity(rows.len());
    // A document to which many refer arrives with each of them.
    let mut found = vec![(HashSet::new(), Vec::new()); targets.len()];
    for row in rows {
        let mut found = found.iter_mut();
        // Nested values are checked when they are decoded.
        for field in RawDocument::from_bytes(&message[row.clone()]).map_err(broken)?.fields() {
            match field.map_err(broken)?.1 {
                RawValue::Document(document) => places.push(place(document.as_bytes())),
                RawValue::Array(array) => {
                    let Some((seen, parts)) = found.next() else { continue };
                    for part in array {
                        if let RawValue::Document(part) = part.map_err(broken)?
                            && (rows.len() == 1 || seen.insert(part.as_bytes()))
                        {
                            parts.push(place(part.as_bytes()));
                        }
                    }
                }
                _ => {}
            }
        }
    }
    let before = documents.len();
    let Some(siblings) = hydrate(py, plan, message, &places, wish, documents)? else { return Ok(()) };
    let wish = Wish { is_lazy: true, only: None, ignores: false, origin: wish.origin, codec: None };
    for (number, ((index, target), (_, places))) in targets.iter().zip(found).enumerate() {
        let Some(field) = plan.fields.get(*index) else { continue };
        let (Op::Ref { make, .. } | Op::Refs { make, .. }) = &field.kind.op else { continue };
        let made = PyList::empty(py);
        hydrate(py, target.get().model.0.plan(py)?, message, &places, &wish, &made).map_err(|error| {
            // The error's document is none of the requested ones.
            match error.value(py).setattr("target", number) {
                Ok(()) => error,
                Err(other) => other,
            }
        })?;
        // An array of ids may still be undecoded, so the siblings have not seen them.
        let ids = match &field.kind.op {
            Op::Refs { .. } => {
                let ids = PyList::empty(py);
                for document in documents.iter().skip(before) {
                    let refs = document.getattr(&field.attribute)?;
                    for id in refs.getattr(intern!(py, "ids"))?.try_iter()? {
                        ids.append(id?)?;
                    }
                }
                ids
            }
            _ => siblings.borrow().ids(py, make.bind(py)),
        };
        attach(&siblings, make, &made, &ids)?;
    }
    Ok(())
}

/// Return the remaining documents of a batch, each as a list of its fields: a document as its bytes, an array of
/// documents as a list of their bytes. Fields of other types are left out.
#[entries]
#[pyfunction]
pub(super) fn odm_rows<'py>(batch: &Bound<'py, Batch>) -> PyResult<Bound<'py, PyList>> {
    let py = batch.py();
    let batch = batch.try_borrow()?;
    let broken = |error: mangonel_bson::Error| crate::driver::invalid_bson(py, &error.to_string());
    let rows = PyList::empty(py);
    for place in batch.take_ranges(py, None)? {
        let row = PyList::empty(py);
        // Nested values are checked when they are decoded, with an error that names their document.
        for field in RawDocument::from_bytes(&batch.message()[place]).map_err(broken)?.fields() {
            match field.map_err(broken)?.1 {
                RawValue::Document(document) => {
                    row.append(crate::codec::bytes_of(py, document.as_bytes())?)?
                }
                RawValue::Array(array) => {
                    let parts = PyList::empty(py);
                    for part in array {
                        if let RawValue::Document(part) = part.map_err(broken)? {
                            parts.append(crate::codec::bytes_of(py, part.as_bytes())?)?;
                        }
                    }
                    row.append(parts)?;
                }
                _ => {}
            }
        }
        rows.append(row)?;
    }
    Ok(rows)
}

/// Return the remaining documents of a batch as JSON, separated by commas; attributes name the values. `only`: the
/// requested fields.
#[entries]
#[pyfunction]
#[pyo3(signature = (batch, model, only=None))]
pub(super) fn odm_json<'py>(
    py: Python<'py>,
    batch: &Bound<'py, Batch>,
    model: &Bound<'py, OdmModel>,
    only: Option<Vec<usize>>,
) -> PyResult<Bound<'py, PyBytes>> {
    let plan = model.get().model.0.plan(py)?;
    let batch = batch.try_borrow()?;
    let places = batch.take_ranges(py, None)?;
    let names = Names::of(py, plan)?;
    let only = mask(plan, only);
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
            names.rename(document, only.as_ref(), &mut renamed);
            mangonel_bson::RawDocument::from_bytes(&renamed)
                .and_then(|document| {
                    mangonel_bson::write_json(document, mangonel_bson::JsonMode::Plain, &mut text)
                })
                .map_err(|error| error.to_string())?;
        }
        Ok(text)
    });
    let text = text.map_err(|error| crate::driver::invalid_bson(py, &error))?;
    crate::codec::bytes_of(py, &text)
}

/// How to decode documents.
struct Wish<'a, 'py> {
    is_lazy: bool,
    only: Option<Bits>,
    ignores: bool,
    /// Their connection, which each document keeps for Python.
    origin: Option<&'a Bound<'py, PyAny>>,
    /// Replaces the codec that the origin requires.
    codec: Option<&'a Py<Codec>>,
}

fn mask(plan: &Plan, only: Option<Vec<usize>>) -> Option<Bits> {
    only.map(|only| only.into_iter().filter(|index| *index < plan.fields.len()).collect())
}

/// Makes the error for a stored document: bytes without a Python value are treated like a value of a wrong type.
fn of_document(mut fault: Fault) -> Fault {
    if let Problem::Found { kind: kind @ (Kind::Bson | Kind::UnknownType), tail, .. } = &mut *fault {
        *kind = Kind::Field;
        // That text says how the driver itself would read the value.
        tail.clear();
    }
    fault
}

/// Decodes documents at these places of `data`, and appends them to `list`; returns the siblings that their references
/// share.
fn hydrate<'py>(
    py: Python<'py>,
    plan: &'static Plan,
    data: &[u8],
    places: &[std::ops::Range<usize>],
    wish: &Wish<'_, 'py>,
    list: &Bound<'py, PyList>,
) -> PyResult<Option<Bound<'py, Siblings>>> {
    let origin = wish.origin.map(|origin| origin.clone().unbind());
    let siblings = if plan.has_refs { Some(Bound::new(py, Siblings::new(py, origin))?) } else { None };
    let codec = match wish.codec {
        Some(codec) => codec.clone_ref(py),
        None => codec_of(py, plan, wish.origin)?,
    };
    let mut hydrator = Hydrator::new(py, plan, codec.get(), data, siblings.as_ref());
    hydrator.is_lazy = wish.is_lazy;
    hydrator.only = wish.only.clone();
    hydrator.ignores = wish.ignores;
    hydrator.origin = wish.origin;
    // Otherwise the collector would scan unfinished instances again and again.
    let pause = (places.len() > 16).then(|| Pause::new(py));
    for place in places {
        match hydrator.top(plan, place.start, place.end) {
            Ok(made) => list.append(made)?,
            Err(fault) => {
                let error = into_exception(py, of_document(fault), None);
                // The error report names the document by its id.
                error.value(py).setattr("document", PyBytes::new(py, &data[place.clone()]))?;
                return Err(error);
            }
        }
    }
    drop(pause);
    Ok(siblings)
}
