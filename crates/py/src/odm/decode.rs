//! Decodes BSON directly into the slots of instances: the next expected key is compared first, values are checked by
//! type, and no Python code runs for a model without load hooks. The codec's decoder handles everything outside the
//! plan.
use mangonel_bson::element::by_code;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList, PyString, PyType};

use super::bits::{Bits, WORD};
use super::build;
use super::fields::{Fields, NEW, PARTIAL, create};
use super::plan::{Default, Field, Op, Plan, Type, Union, Unknown};
use super::raw::value_length;
use super::siblings::Siblings;
use super::value::{self, class_name, default_of};
use crate::codec::Codec;
use crate::codec::decode::Decoder;
use crate::codec::fault::{Fault, Kind, Step, found, invalid, within};
use crate::codec::make::{self, Made};

mod containers;

/// The server's tags for finding encrypted values: only the server may write them, so instances do not hold them.
const SERVERS_OWN: &[u8] = b"__safeContent__\0";

/// The mark of a running migration: the program's models need not know it.
const MIGRATED: &[u8] = b"_migrated\0";

/// The decoding of one buffer into instances.
pub(super) struct Hydrator<'a, 'py> {
    py: Python<'py>,
    d: Decoder<'a, 'py>,
    /// Leave containers raw until they are read.
    pub is_lazy: bool,
    /// The requested fields; the others are not loaded.
    pub only: Option<Bits>,
    /// Drop unknown keys of the outermost document, overriding its plan.
    pub ignores: bool,
    forgives: bool,
    /// Whether the program itself makes the instances, which were never stored.
    is_new: bool,
    /// Elements of the open lists.
    items: Vec<Bound<'py, PyAny>>,
    siblings: Option<&'a Bound<'py, Siblings>>,
    /// Where the documents come from.
    pub(super) origin: Option<&'a Bound<'py, PyAny>>,
}

impl<'a, 'py> Hydrator<'a, 'py> {
    pub(super) fn new(
        py: Python<'py>,
        plan: &'static Plan,
        codec: &'a Codec,
        data: &'a [u8],
        siblings: Option<&'a Bound<'py, Siblings>>,
    ) -> Self {
        Hydrator {
            py,
            d: Decoder::new(py, codec, data),
            is_lazy: false,
            only: None,
            ignores: false,
            forgives: plan.forgives,
            is_new: false,
            items: Vec::new(),
            siblings,
            origin: None,
        }
    }

    /// Decodes the document at this offset, which must end before `limit`, as an instance of the plan's model or of one
    /// of its subclasses.
    pub(super) fn top(&mut self, plan: &'static Plan, at: usize, limit: usize) -> Made<'py> {
        self.d.position = at;
        self.document(plan, limit, true)
    }

    fn document(&mut self, plan: &'static Plan, limit: usize, is_top: bool) -> Made<'py> {
        let start = self.d.position;
        let end = self.d.open(limit)?;
        let plan = if plan.tags.is_some() { self.resolve(plan, end)? } else { plan };
        let object = create(self.py, plan, self.only.is_some())?;
        // SAFETY: `create` made it with this plan just now, and `object` keeps it alive. On an error, the values in its
        // slots are released with it.
        let fields = unsafe { Fields::of_new(&object, plan) };
        let seen = self.fields(fields, end, is_top)?;
        self.d.close();
        self.finish(&object, fields, &seen, is_top, start)?;
        Ok(object)
    }

    /// Reads the fields up to `end`; returns which were present, lazy ones included.
    #[inline]
    fn fields(&mut self, object: Fields<'_>, end: usize, is_top: bool) -> Result<Bits, Fault> {
        let plan = object.plan;
        let mut seen = Bits::default();
        let mut is_container = false;
        let mut next = 0;
        let fields = plan.fields.as_slice();
        while self.d.position < end {
            let kind = self.d.data[self.d.position];
            let name_at = self.d.position + 1;
            let input = &self.d.data[name_at..];
            let index = match fields.get(next) {
                Some(field) if field.name.starts(input) => next,
                _ => match plan.field_at(input, next) {
                    Some(index) => index,
                    None => {
                        self.unknown(object, name_at, end, is_top)?;
                        continue;
                    }
                },
            };
            let field = &fields[index];
            let length = field.name.length();
            if length > end - name_at {
                return Err(invalid(name_at, "bad object or element length: field name has no end"));
            }
            self.d.position = name_at + length;
            next = index + 1;
            if is_top && self.stays_raw(field, kind) {
                self.skip(kind, end).map_err(|fault| within(fault, step(field)))?;
                seen.add(index);
                object.state().pending.add(index);
                continue;
            }
            let made = match self.value(&field.kind, kind, end) {
                Ok(made) => made,
                Err(fault) => return Err(within(fault, step(field))),
            };
            seen.add(index);
            is_container |= kind == 0x03 || kind == 0x04 || field.is_mutable;
            if kind == 0x0A && field.omits_none {
                object.add_null(index);
            }
            if let (Some(siblings), Op::Ref { make, .. } | Op::Refs { make, .. }) =
                (self.siblings, &field.kind.op)
            {
                siblings.borrow_mut().add(make, made.clone());
            }
            // SAFETY: `field` is one of the instance's own plan, so its offset is that of a slot. What a key that came
            // before put there is dropped.
            drop(unsafe { object.replace_at(field.offset, made) });
        }
        if is_container {
            object.track();
        }
        Ok(seen)
    }

    #[inline]
    fn stays_raw(&self, field: &Field, kind: u8) -> bool {
        (self.is_lazy && field.lazy != 0 || field.lazy == 2) && kind != 0x0A
    }

    /// Fills missing fields, and keeps the data for later reads and saves.
    #[inline]
    fn finish(
        &mut self,
        object: &Bound<'py, PyAny>,
        fields: Fields<'_>,
        seen: &Bits,
        is_top: bool,
        start: usize,
    ) -> Result<(), Fault> {
        let plan = fields.plan;
        if let Some(only) = &self.only {
            fields.add_flags(PARTIAL);
            if is_top {
                let missing = only.without(seen);
                self.fill(fields, &missing)?;
            }
        } else if !seen.covers(&plan.all) {
            self.fill(fields, &plan.all.without(seen))?;
        }
        if is_top && plan.keeps_raw {
            let raw = &self.d.data[start..self.d.position];
            let mut state = fields.state();
            state.raw.clear();
            state.raw.extend_from_slice(raw);
        }
        if plan.has_refs
            && let Some(siblings) = self.siblings
        {
            fields.replace_siblings(self.py, Some(siblings.as_any().clone()));
            fields.track();
        } else if is_top && let Some(origin) = self.origin {
            fields.replace_siblings(self.py, Some(origin.clone()));
        }
        if self.is_new {
            fields.add_flags(NEW);
        } else if let Some(hook) = &plan.after_load {
            hook.bind(self.py).call1((object,))?;
        }
        Ok(())
    }

    /// Gives missing fields their defaults.
    #[inline(never)]
    fn fill(&mut self, fields: Fields<'_>, missing: &Bits) -> Result<(), Fault> {
        let plan = fields.plan;
        for at in 0..missing.words() {
            let mut left = missing.word(at);
            while left != 0 {
                let index = at * WORD + left.trailing_zeros() as usize;
                left &= left - 1;
                let field = &plan.fields[index];
                let made = match default_of(self.py, &field.default)? {
                    Some(made) => made,
                    None if self.forgives => self.py.None().into_bound(self.py),
                    None => {
                        let what = format!("expected {}, got no value", value::label(&field.kind));
                        return Err(within(found(Kind::Field, what, ""), step(field)));
                    }
                };
                let is_plain =
                    matches!(field.default, Default::Value(_) | Default::List | Default::Dict | Default::Set);
                let is_noted = !plan.is_document || plan.version == Some(index);
                if is_noted && is_plain && !field.omits_none {
                    fields.state().absent.add(index);
                }
                drop(fields.replace(index, made));
                if !matches!(field.default, Default::Value(_) | Default::ObjectId) {
                    fields.track();
                }
            }
        }
        Ok(())
    }

    /// The plan of the subclass that the document's tag names.
    fn resolve(&mut self, plan: &'static Plan, end: usize) -> Result<&'static Plan, Fault> {
        let Some(tags) = &plan.tags else { return Ok(plan) };
        let start = self.d.position;
        let mut chosen = plan;
        while self.d.position < end {
            let kind = self.d.data[self.d.position];
            let name_at = self.d.position + 1;
            let is_tag = tags.name.starts(&self.d.data[name_at..]);
            self.d.position = name_at + self.d.name_length(name_at, end)?;
            let value_at = self.d.position;
            self.skip(kind, end)?;
            if is_tag {
                let value = &self.d.data[value_at..self.d.position];
                let model = tags.models.iter().find(|(tag, _)| tag[0] == kind && &tag[1..] == value);
                if let Some((_, model)) = model {
                    chosen = model.plan(self.py)?;
                }
                break;
            }
        }
        self.d.position = start;
        Ok(chosen)
    }

    /// Handles a key that no field has.
    #[inline(never)]
    fn unknown(&mut self, object: Fields<'_>, name_at: usize, end: usize, is_top: bool) -> Result<(), Fault> {
        let plan = object.plan;
        let at = name_at - 1;
        let kind = self.d.data[at];
        let length = self.d.name_length(name_at, end)?;
        self.d.position = name_at + length;
        self.skip(kind, end)?;
        if let Some(tags) = plan.tags.as_ref().filter(|tags| tags.name.starts(&self.d.data[name_at..])) {
            let element = &self.d.data[at..self.d.position];
            // A newer program's class is unknown here; its tag stays stored, as its keys do.
            if tags.own != element && plan.unknown != Unknown::Ignore && !(is_top && self.ignores) {
                object.state().extra.extend_from_slice(element);
            }
            return Ok(());
        }
        if &self.d.data[name_at..name_at + length] == SERVERS_OWN {
            return Ok(());
        }
        match plan.unknown {
            Unknown::Forbid if is_top && &self.d.data[name_at..name_at + length] == MIGRATED => Ok(()),
            Unknown::Forbid if !(is_top && self.ignores) => {
                let name = String::from_utf8_lossy(&self.d.data[name_at..name_at + length - 1]).into_owned();
                let class = class_name(plan.model.class.bind(self.py));
                let what = format!("expected a field of {class}, got an unknown key");
                Err(within(found(Kind::Field, what, ""), Step::Key(name)))
            }
            Unknown::Keep if !(is_top && self.ignores) => {
                let element = &self.d.data[at..self.d.position];
                object.state().extra.extend_from_slice(element);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Steps over a value.
    fn skip(&mut self, kind: u8, end: usize) -> Result<(), Fault> {
        let bytes = &self.d.data[self.d.position..end];
        let left = bytes.len();
        let length = match value_length(kind, bytes) {
            Some(length) if matches!(kind, 0x03 | 0x04 | 0x0F) => length.max(5),
            Some(length) => length,
            None if by_code(kind).is_some() => left + 1,
            None => {
                let what = format!("Detected unknown BSON type b'\\x{kind:02x}'");
                return Err(invalid(self.d.position, what));
            }
        };
        if length > left {
            return Err(invalid(self.d.position, format!("value of {length} bytes, with {left} left")));
        }
        self.d.position += length;
        Ok(())
    }

    /// Converts an id of several fields, which was read as a dict.
    fn compound_id(&self, inner: &'static Type, made: &Bound<'py, PyAny>) -> Made<'py> {
        if let (Op::Embedded(model), Ok(values)) = (&inner.op, made.cast_exact::<PyDict>())
            && let Some(id) = build::instance(model, values)?
        {
            return Ok(id);
        }
        value::coerce(inner, made)
    }

    /// A value of this type.
    #[inline]
    fn value(&mut self, kind: &'static Type, found: u8, end: usize) -> Made<'py> {
        match (&kind.op, found) {
            (Op::Str, 0x02) => self.d.string(end),
            (Op::Int, 0x10) => make::short_int(self.py, i32::from_le_bytes(self.d.take(end)?)),
            (Op::Int, 0x12) => make::int(self.py, i64::from_le_bytes(self.d.take(end)?)),
            (Op::Float, 0x01) => make::float(self.py, f64::from_le_bytes(self.d.take(end)?)),
            (Op::ObjectId, 0x07) => self.d.object_id(end),
            (Op::Datetime | Op::AwareDatetime, 0x09) => {
                let millis = i64::from_le_bytes(self.d.take(end)?);
                self.d.date(millis)
            }
            (Op::Bool, 0x08) | (Op::Any, _) => self.d.value(found, end),
            (_, 0x0A) if kind.nullable => Ok(self.py.None().into_bound(self.py)),
            _ => self.other(kind, found, end),
        }
    }

    /// A value of a rarer or unexpected type.
    #[inline(never)]
    fn other(&mut self, kind: &'static Type, found: u8, end: usize) -> Made<'py> {
        match (&kind.op, found) {
            (Op::Embedded(model), 0x03) => {
                let plan = model.plan(self.py)?;
                self.document(plan, end, false)
            }
            (Op::List(inner), 0x04) => self.list(inner, end),
            (Op::Set(inner, is_frozen), 0x04) => {
                let list = self.list(inner, end)?;
                make::set_of(&list, *is_frozen)
            }
            (Op::TupleOf(inner), 0x04) => {
                let list = self.list(inner, end)?;
                Ok(list.cast::<PyList>().map_err(PyErr::from)?.to_tuple().into_any())
            }
            (Op::Tuple(inner), 0x04) => self.tuple(kind, inner, end),
            (Op::Dict(inner), 0x03) => self.dict(inner, end),
            (Op::Union(union), _) => self.union(kind, union, found, end),
            (Op::Float, 0x10) => {
                let number = i32::from_le_bytes(self.d.take(end)?);
                make::float(self.py, number.into())
            }
            (Op::Float, 0x12) => {
                let number = i64::from_le_bytes(self.d.take(end)?);
                make::float(self.py, number as f64)
            }
            (Op::Date, 0x09) => self.date(end),
            (Op::Decimal, 0x13) => {
                let bytes = self.d.take::<16>(end)?;
                let text = mangonel_bson::Decimal128::from_bytes(bytes).text();
                let text = PyString::new(self.py, text.as_str());
                Ok(value::decimal_class(self.py)?.call1((text,))?)
            }
            (Op::Geo { class, offset, name }, 0x03 | 0x04) => {
                if found == 0x03
                    && let Some(made) = self.coordinates(name, end)?
                {
                    return self.geometry(class, *offset, made);
                }
                let made = self.d.value(found, end)?;
                self.geo(kind, class, *offset, name, &made)
            }
            (Op::Ref { inner, .. }, 0x03) => {
                let made = self.d.value(found, end)?;
                match made.getattr_opt("id")? {
                    // A DBRef, as other mappers write it.
                    Some(id) if made.get_type().name()? == "DBRef" => Ok(id),
                    _ => self.compound_id(inner, &made),
                }
            }
            (Op::Ref { inner, .. }, _) if found != 0x0A => self.value(inner, found, end),
            (Op::Refs { inner, .. }, 0x04) => self.refs(inner, end),
            (Op::Custom { load, .. }, _) => {
                let made = self.d.value(found, end)?;
                match load.bind(self.py).call1((&made,)) {
                    Ok(loaded) => Ok(loaded),
                    Err(error) if error.is_instance_of::<pyo3::exceptions::PyValueError>(self.py) => {
                        self.wrong(kind, made)
                    }
                    Err(error) => Err(error.into()),
                }
            }
            (Op::Enum(class, members), _) => {
                let made = self.d.value(found, end)?;
                if let Ok(Some(member)) = members.bind(self.py).get_item(&made) {
                    return Ok(member);
                }
                // Combined flags, and what the class's `_missing_` finds.
                let plain = if found == 0x12 { made.pos()? } else { made };
                match class.bind(self.py).call1((&plain,)) {
                    Ok(member) => Ok(member),
                    Err(error)
                        if error.is_instance_of::<PyValueError>(self.py)
                            || error.is_instance_of::<PyTypeError>(self.py) =>
                    {
                        self.wrong_value(kind, plain)
                    }
                    Err(error) => Err(error.into()),
                }
            }
            (Op::Literal(_), _) => {
                let made = self.d.value(found, end)?;
                // BSON's 64-bit integers have their own class; literals are ints.
                let made = if found == 0x12 { made.pos()? } else { made };
                if value::is_plain(kind, &made)? {
                    return Ok(made);
                }
                self.wrong_value(kind, made)
            }
            _ => {
                let made = self.d.value(found, end)?;
                if value::is_plain(kind, &made)? {
                    return Ok(made);
                }
                // The codec reads binary data of subtype 0 as bytes; a field may require a `Binary`.
                if let Op::Instance(class) = &kind.op
                    && made.is_exact_instance_of::<PyBytes>()
                    && class
                        .bind(self.py)
                        .cast::<PyType>()
                        .map_err(PyErr::from)?
                        .is_subclass_of::<PyBytes>()?
                {
                    return Ok(class.bind(self.py).call1((made,))?);
                }
                self.wrong(kind, made)
            }
        }
    }

    /// Handles a value of another type than the field's: casts it, returns it unchanged, or refuses it.
    #[cold]
    fn wrong(&self, kind: &Type, made: Bound<'py, PyAny>) -> Made<'py> {
        if kind.cast.is_some()
            && let Ok(cast) = value::coerce(kind, &made)
        {
            return Ok(cast);
        }
        if self.forgives {
            return Ok(made);
        }
        Err(value::mismatch(kind, &made))
    }

    /// Does the same for a value that matches no alternative.
    #[cold]
    fn wrong_value(&self, kind: &Type, made: Bound<'py, PyAny>) -> Made<'py> {
        if kind.cast.is_some()
            && let Ok(cast) = value::coerce(kind, &made)
        {
            return Ok(cast);
        }
        if self.forgives {
            return Ok(made);
        }
        let shown = made.repr()?.to_string();
        Err(found(Kind::Field, format!("expected {}, got {shown}", value::label(kind)), ""))
    }
}

fn step(field: &Field) -> Step {
    Step::Key(String::from_utf8_lossy(&field.key).into_owned())
}

/// Whether a type accepts values of this BSON type unchanged.
fn accepts(kind: &Type, found: u8) -> bool {
    match &kind.op {
        Op::Any => true,
        Op::Str => found == 0x02,
        Op::Int => matches!(found, 0x10 | 0x12),
        Op::Float => found == 0x01,
        Op::Bool => found == 0x08,
        Op::Bytes => found == 0x05,
        Op::Datetime | Op::AwareDatetime | Op::Date => found == 0x09,
        Op::ObjectId => found == 0x07,
        Op::Decimal => found == 0x13,
        Op::None => found == 0x0A,
        Op::List(_) | Op::Set(..) | Op::TupleOf(_) | Op::Tuple(_) | Op::Refs { .. } => found == 0x04,
        Op::Dict(_) | Op::Embedded(_) | Op::Geo { .. } => found == 0x03,
        Op::Instance(_) => matches!(found, 0x05 | 0x0B..=0x0F | 0x11..=0x13 | 0x7F | 0xFF),
        Op::Literal(_) => matches!(found, 0x02 | 0x10 | 0x12 | 0x08),
        Op::Enum(..) | Op::Custom { .. } | Op::Ref { .. } | Op::Union(_) => true,
    }
}

/// Returns the type of a key's element in a document, and the position of its value. None: there is none, or the bytes
/// are invalid.
pub(super) fn element<'a>(document: &'a [u8], key: &[u8]) -> Option<(u8, &'a [u8])> {
    super::raw::Elements::of(document)
        .find(|element| element.key == key)
        .map(|element| (element.kind, element.value))
}

/// Decodes a field that is still raw.
pub(super) fn pending<'py>(py: Python<'py>, fields: Fields<'_>, index: usize) -> PyResult<Bound<'py, PyAny>> {
    let plan = fields.plan;
    let field = &plan.fields[index];
    // The bytes are moved out and back: hooks of the values may use the instance.
    let mut state = fields.state();
    let (raw, is_packed) = (std::mem::take(&mut state.raw), state.is_packed);
    drop(state);
    let company = fields.siblings(py);
    let siblings = company.as_ref().and_then(|company| company.cast::<Siblings>().ok());
    let origin = match siblings {
        Some(siblings) => siblings.borrow().origin.as_ref().map(|origin| origin.bind(py).clone()),
        None => company.clone(),
    };
    let result = codec_of(py, plan, origin.as_ref().filter(|_| !is_packed))
        .map_err(Fault::from)
        .and_then(|codec| decode_field(py, plan, codec.get(), field, &raw, siblings, is_packed));
    let mut state = fields.state();
    if state.raw.is_empty() {
        state.raw = raw;
    }
    drop(state);
    match result {
        Ok(Some(made)) => Ok(made),
        Ok(None) => Ok(default_of(py, &field.default)?.unwrap_or_else(|| py.None().into_bound(py))),
        Err(fault) => {
            let error = value::located(py, plan, index, fault);
            let raw = PyBytes::new(py, &fields.state().raw);
            Err(placed(py, plan, &raw, error))
        }
    }
}

/// The error of a field that is decoded after its document was loaded, with the document's place.
#[cold]
fn placed(py: Python<'_>, plan: &Plan, raw: &Bound<'_, PyBytes>, error: PyErr) -> PyErr {
    let made = py
        .import("mangonel.odm.model.invalid")
        .and_then(|module| module.getattr("of_pending"))
        .and_then(|of_pending| of_pending.call1((error.value(py), plan.model.class.bind(py), raw)));
    made.map_or_else(|other| other, PyErr::from_value)
}

/// Decodes one field out of a whole document.
pub(super) fn decode_field<'py>(
    py: Python<'py>,
    plan: &'static Plan,
    codec: &Codec,
    field: &'static Field,
    raw: &[u8],
    siblings: Option<&Bound<'py, Siblings>>,
    is_new: bool,
) -> Result<Option<Bound<'py, PyAny>>, Fault> {
    let Some((kind, value)) = element(raw, &field.key) else { return Ok(None) };
    let mut hydrator = Hydrator::new(py, plan, codec, value, siblings);
    hydrator.is_new = is_new;
    hydrator.value(&field.kind, kind, value.len()).map(Some)
}

/// The codec for documents of a plan's model, with the conversions that their connection requires, if any.
pub(super) fn codec_of(
    py: Python<'_>,
    plan: &'static Plan,
    origin: Option<&Bound<'_, PyAny>>,
) -> PyResult<Py<Codec>> {
    if let Some(origin) = origin {
        let asked = origin.getattr_opt(intern!(py, "conversions"))?.filter(|asked| !asked.is_none());
        if let Some(asked) = asked {
            return converting(plan, &asked);
        }
    }
    Ok(plan.codec.clone_ref(py))
}

/// The codec for documents of a plan's model, made from the codec options for instances without and with time zones.
pub(super) fn converting(plan: &'static Plan, asked: &Bound<'_, PyAny>) -> PyResult<Py<Codec>> {
    Codec::from_options(&asked.get_item(usize::from(plan.codec.get().tz_aware))?)
}
