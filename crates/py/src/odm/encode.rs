//! Encodes instances to BSON, field by field in the plan's order. Types are checked again, since a list or dict may
//! have changed since it was set.
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{
    PyBool, PyDate, PyDateAccess, PyDateTime, PyDict, PyFloat, PyFrozenSet, PyInt, PyList, PySet, PyString,
    PyTuple, PyTzInfoAccess,
};

use super::fields::{Fields, is_instance};
use super::plan::{Default, Field, Op, Plan, Type};
use super::raw::Elements;
use super::value;
use crate::codec::encode::{Encoder, Name, Named};
use crate::codec::fault::{Fault, Kind, found, within};
use crate::codec::make::is_of;
use crate::codec::types::is_datetime_ms;

/// One encoding of instances.
pub(super) struct Writer<'a, 'py> {
    py: Python<'py>,
    enc: Encoder<'a, 'py>,
    /// Whether values of other types are allowed: they were loaded, and are written back unchanged.
    forgives: bool,
}

impl<'a, 'py> Writer<'a, 'py> {
    pub(super) fn new(py: Python<'py>, plan: &'static Plan, out: &'a mut Vec<u8>) -> Self {
        Writer { py, enc: Encoder::new(py, plan.codec.get(), false, out), forgives: plan.forgives }
    }

    /// Writes a whole instance.
    pub(super) fn document(&mut self, fields: Fields<'_>) -> Result<(), Fault> {
        let plan = fields.plan;
        let start = self.enc.enter()?;
        // The end of the field that was last copied from the loaded bytes.
        let mut next = 0;
        for (index, field, value) in fields.each(self.py) {
            self.field(fields, index, field, value.as_ref(), &mut next)?;
            if index == 0 && plan.id == Some(0) {
                self.tag(fields)?;
            }
        }
        if plan.id != Some(0) {
            self.tag(fields)?;
        }
        if let Some(state) = fields.known() {
            self.enc.bytes(&state.extra)?;
        }
        self.enc.leave(start)?;
        Ok(())
    }

    /// Writes the tag of the instance's class, unless it was loaded with one that names no class: that is in `extra`.
    #[inline(always)]
    fn tag(&mut self, fields: Fields<'_>) -> Result<(), Fault> {
        let Some(tags) = &fields.plan.tags else { return Ok(()) };
        let is_kept = fields.known().is_some_and(|state| {
            !state.extra.is_empty() && Elements::bare(&state.extra).any(|element| tags.is_named(&element))
        });
        if !is_kept {
            self.enc.bytes(&tags.own)?;
        }
        Ok(())
    }

    #[inline(always)]
    fn field(
        &mut self,
        fields: Fields<'_>,
        index: usize,
        field: &'static Field,
        value: Option<&Bound<'py, PyAny>>,
        next: &mut usize,
    ) -> Result<(), Fault> {
        let Some(held) = value else {
            if let Some(state) = fields.known()
                && state.pending.has(index)
                && let Some(element) = super::raw::find(&state.raw, next, &field.key)
            {
                super::raw::append(self.enc.out, element.kind, &field.key, element.value);
            }
            return Ok(());
        };
        if held.is_none() && field.omits_none && !fields.was_null(index) {
            return Ok(());
        }
        let was_absent = fields.known().is_some_and(|state| state.absent.has(index));
        if was_absent && !fields.is_dirty(index) && is_bare(field, held) {
            // A version grows without being set.
            if fields.plan.version != Some(index) || is_unversioned(self.py, fields) {
                return Ok(());
            }
        }
        self.value(&field.kind, &field.name, held)
    }

    /// Writes one element: a value of this type.
    pub(super) fn value(
        &mut self,
        kind: &'static Type,
        name: impl Named,
        given: &Bound<'py, PyAny>,
    ) -> Result<(), Fault> {
        if kind.checks.is_empty() {
            if matches!(kind.op, Op::Str)
                && let Ok(text) = given.cast_exact::<PyString>()
            {
                let text = self.enc.utf8_of(text).map_err(|fault| place(fault, name))?;
                return name.write_text(text, &mut self.enc);
            }
            if is_exactly(kind, given) {
                return self.enc.field(name, given);
            }
        }
        if !kind.checks.is_empty() && !given.is_none() {
            value::check_all(self.py, &kind.checks, given).map_err(|fault| place(fault, name))?;
        }
        if given.is_none() && (kind.nullable || self.forgives) {
            return self.enc.field(name, given);
        }
        match &kind.op {
            Op::List(inner) => {
                if let Ok(list) = given.cast::<PyList>() {
                    return self.array(inner, name, list.iter());
                }
            }
            Op::Set(inner, _) => {
                if given.is_instance_of::<PySet>() || given.is_instance_of::<PyFrozenSet>() {
                    let items: Vec<_> = given.try_iter()?.collect::<PyResult<_>>()?;
                    return self.array(inner, name, items.into_iter());
                }
            }
            Op::TupleOf(inner) => {
                if let Ok(tuple) = given.cast::<PyTuple>() {
                    return self.array(inner, name, tuple.iter());
                }
            }
            Op::Tuple(inner) => {
                if let Ok(tuple) = given.cast::<PyTuple>()
                    && tuple.len() == inner.len()
                {
                    self.enc.head(0x04, name)?;
                    let start = self.enc.enter()?;
                    for (index, (item, inner)) in tuple.iter().zip(inner).enumerate() {
                        self.value(inner, Name::Index(index), &item).map_err(|fault| place(fault, name))?;
                    }
                    self.enc.leave(start)?;
                    return Ok(());
                }
            }
            Op::Dict(inner) => {
                if let Ok(dict) = given.cast::<PyDict>() {
                    self.enc.head(0x03, name)?;
                    let start = self.enc.enter()?;
                    for (key, item) in dict.iter() {
                        let Ok(text) = key.extract::<String>() else {
                            let what = format!("expected str as key, got {}", key.get_type().name()?);
                            return Err(place(found(Kind::Field, what, ""), name));
                        };
                        self.value(inner, Name::Text(text.as_bytes()), &item)
                            .map_err(|fault| place(fault, name))?;
                    }
                    self.enc.leave(start)?;
                    return Ok(());
                }
            }
            Op::Embedded(model) => {
                if is_of(given, &model.class) {
                    return self.embedded(name, given);
                }
            }
            Op::Union(union) => {
                if is_instance(given) {
                    if union.models.iter().any(|(_, model)| is_of(given, &model.class)) {
                        return self.embedded(name, given);
                    }
                } else {
                    for other in &union.others {
                        if let Ok(made) = value::coerce(other, given) {
                            return self.value(other, name, &made);
                        }
                    }
                }
            }
            Op::Date => {
                if value::is_plain(kind, given)? {
                    let date = given.cast::<PyDate>().map_err(PyErr::from)?;
                    let (year, month, day) = (date.get_year(), date.get_month(), date.get_day());
                    let midnight = PyDateTime::new(self.py, year, month, day, 0, 0, 0, 0, None)?;
                    return self.enc.field(name, &midnight);
                }
            }
            Op::Decimal => {
                if value::is_plain(kind, given)? {
                    let text = given.str()?;
                    let parsed = mangonel_bson::Decimal128::parse(text.to_str()?)
                        .map_err(|error| place(found(Kind::Field, error.to_string(), ""), name))?;
                    self.enc.head(0x13, name)?;
                    self.enc.bytes(&parsed.bytes())?;
                    return Ok(());
                }
            }
            Op::Enum(class, _) => {
                if given.is_instance(class.bind(self.py))? {
                    return self.enc.field(name, &given.getattr(pyo3::intern!(self.py, "value"))?);
                }
            }
            Op::Ref { make, class, inner, .. } => {
                if given.is_instance(class.bind(self.py))? {
                    let id = given.getattr(pyo3::intern!(self.py, "id"))?;
                    return self.value(inner, name, &id);
                }
                if is_instance(given) {
                    // A document that was put into a container unconverted.
                    let made = make.bind(self.py).call1((given, self.py.None(), self.py.None()))?;
                    return self.value(inner, name, &made.getattr(pyo3::intern!(self.py, "id"))?);
                }
                return self.value(inner, name, given);
            }
            Op::Refs { class, inner, .. } => {
                let ids = if given.is_instance(class.bind(self.py))? {
                    given.getattr(pyo3::intern!(self.py, "ids"))?
                } else {
                    given.clone()
                };
                if let Ok(list) = ids.cast::<PyList>() {
                    return self.array(inner, name, list.iter());
                }
            }
            Op::Custom { dump, .. } => {
                return self.enc.field(name, &dump.bind(self.py).call1((given,))?);
            }
            Op::Geo { class, name: title, offset } => {
                if given.is_instance(class.bind(self.py))? {
                    // SAFETY: an instance of the class, which has the slot there: the offset was read from the member
                    // itself (`odm_offset`). It holds null or an object; the reference taken keeps that alive.
                    let coordinates = unsafe {
                        let found = given.as_ptr().byte_add(*offset).cast::<*mut ffi::PyObject>().read();
                        Bound::from_borrowed_ptr_or_opt(self.py, found)
                    };
                    let Some(coordinates) = coordinates else {
                        return Err(place(found(Kind::Field, "expected coordinates, got none", ""), name));
                    };
                    self.enc.head(0x03, name)?;
                    let start = self.enc.enter()?;
                    self.enc.field(Name::Text(b"type"), &PyString::new(self.py, title))?;
                    self.enc.field(Name::Text(b"coordinates"), &coordinates)?;
                    self.enc.leave(start)?;
                    return Ok(());
                }
            }
            Op::Float if given.is_instance_of::<PyInt>() && !given.is_instance_of::<PyBool>() => {
                let number: f64 = given.extract()?;
                self.enc.head(0x01, name)?;
                self.enc.bytes(&number.to_le_bytes())?;
                return Ok(());
            }
            _ => {
                if value::is_plain(kind, given)? {
                    return self.enc.field(name, given);
                }
            }
        }
        // A connection may return dates as a type other than `datetime`.
        let is_date = matches!(kind.op, Op::Datetime | Op::AwareDatetime | Op::Date);
        if self.forgives || (is_date && is_datetime_ms(given)?) {
            return self.enc.field(name, given);
        }
        Err(place(value::mismatch(kind, given), name))
    }

    /// Writes an instance as the value of an element.
    fn embedded(&mut self, name: impl Named, given: &Bound<'py, PyAny>) -> Result<(), Fault> {
        // SAFETY: the callers compared its class with that of a model; the reference that is borrowed keeps it alive.
        let fields = unsafe { Fields::at(self.py, given.as_ptr())? };
        self.enc.head(0x03, name)?;
        self.document(fields).map_err(|fault| place(fault, name))
    }

    fn array(
        &mut self,
        inner: &'static Type,
        name: impl Named,
        items: impl Iterator<Item = Bound<'py, PyAny>>,
    ) -> Result<(), Fault> {
        self.enc.head(0x04, name)?;
        let start = self.enc.enter()?;
        for (index, item) in items.enumerate() {
            self.value(inner, Name::Index(index), &item).map_err(|fault| place(fault, name))?;
        }
        self.enc.leave(start)?;
        Ok(())
    }
}

/// Whether a value is exactly of the type's plain class; false means nothing.
#[inline]
fn is_exactly(kind: &Type, given: &Bound<'_, PyAny>) -> bool {
    match kind.op {
        Op::Int => given.is_exact_instance_of::<PyInt>(),
        Op::Float => given.is_exact_instance_of::<PyFloat>(),
        Op::Bool => given.is_exact_instance_of::<PyBool>(),
        Op::Datetime => given.is_exact_instance_of::<PyDateTime>(),
        Op::AwareDatetime => given.cast_exact::<PyDateTime>().is_ok_and(|date| date.get_tzinfo().is_some()),
        _ => false,
    }
}

/// Whether the stored document has no version: it is older than the field, and has the field's default.
pub(super) fn is_unversioned(py: Python<'_>, fields: Fields<'_>) -> bool {
    let Some(index) = fields.plan.version else { return false };
    if !fields.known().is_some_and(|state| state.absent.has(index)) {
        return false;
    }
    let Default::Value(first) = &fields.plan.fields[index].default else { return false };
    fields.value(py, index).is_some_and(|held| held.eq(first.bind(py)).unwrap_or(false))
}

/// Whether a default that was never stored is unchanged.
fn is_bare(field: &Field, found: &Bound<'_, PyAny>) -> bool {
    match &field.default {
        Default::Value(_) => true,
        Default::List => found.cast_exact::<PyList>().is_ok_and(|list| list.is_empty()),
        Default::Dict => found.cast_exact::<PyDict>().is_ok_and(|dict| dict.is_empty()),
        Default::Set => {
            found.cast_exact::<PySet>().is_ok_and(|set| set.is_empty())
                || found.cast_exact::<PyFrozenSet>().is_ok_and(|set| set.is_empty())
        }
        _ => false,
    }
}

/// Adds the element to an error's path.
#[cold]
fn place(fault: Fault, name: impl Named) -> Fault {
    within(fault, name.step())
}
