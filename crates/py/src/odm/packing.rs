//! Keeps the embedded documents of a new document as BSON until they are read: most are only stored.
//!
//! A value is packed only if reading it gives the same result as making it at once: equal values of the same types,
//! which share nothing with the program's values. None of the program's code runs. `build` makes all other values at
//! once.
use pyo3::prelude::*;
use pyo3::types::{
    PyBool, PyBytes, PyDateTime, PyDict, PyFloat, PyInt, PyList, PyString, PyTimeAccess, PyTzInfoAccess,
};

use super::bits::Bits;
use super::build::index_of;
use super::fields::Fields;
use super::instance::is_made_plainly;
use super::plan::{Default, Field, Model, Op, Plan, Type};
use super::value::default_of;
use crate::codec::encode::{Encoder, Name, Named};
use crate::codec::fault::Fault;
use crate::codec::layout::Fields as Items;
use crate::codec::object_id;

/// Whether values of a type may be packed.
pub(super) fn is_packable(kind: &Type) -> bool {
    match &kind.op {
        Op::Embedded(_) => true,
        Op::List(inner) => matches!(inner.op, Op::Embedded(_)),
        _ => false,
    }
}

/// The packing of one document's values.
pub(super) struct Packer<'a, 'py> {
    py: Python<'py>,
    enc: Encoder<'a, 'py>,
    start: usize,
    /// The fields that were packed.
    pub packed: Bits,
}

impl<'a, 'py> Packer<'a, 'py> {
    /// Packs into `out`, which is empty.
    pub(super) fn new(py: Python<'py>, plan: &'static Plan, out: &'a mut Vec<u8>) -> Result<Self, Fault> {
        let mut enc = Encoder::new(py, plan.codec.get(), false, out);
        enc.make_room(plan.packed_size.get())?;
        let start = enc.enter()?;
        Ok(Packer { py, enc, start, packed: Bits::default() })
    }

    /// Packs the value of a field; false: it cannot be packed.
    pub(super) fn pack(&mut self, index: usize, field: &'static Field, given: &Bound<'py, PyAny>) -> bool {
        let (before, depth) = (self.enc.out.len(), self.enc.depth);
        let is_packed = !given.is_none() && self.value(&field.kind, &field.name, given).is_some();
        if is_packed {
            self.packed.add(index);
        } else {
            self.enc.out.truncate(before);
            self.enc.depth = depth;
        }
        is_packed
    }

    /// Ends the document; returns which fields it has.
    pub(super) fn finish(mut self) -> Result<Bits, Fault> {
        self.enc.leave(self.start)?;
        Ok(self.packed)
    }

    /// Appends an element; None if the value cannot be packed, and the output is then unusable.
    fn value(&mut self, kind: &'static Type, name: impl Named, given: &Bound<'py, PyAny>) -> Option<()> {
        if !kind.checks.is_empty() {
            return None;
        }
        if let Some(result) = self.scalar(kind, name, given) {
            return result.ok();
        }
        match &kind.op {
            Op::Embedded(model) if let Ok(values) = given.cast_exact::<PyDict>() => {
                // Held, since the model's first use runs the program's code.
                let values = values.clone();
                self.enc.head(0x03, name).ok()?;
                self.document(model, &values)
            }
            Op::List(inner)
                if is_packable(kind)
                    && let Ok(items) = given.cast_exact::<PyList>() =>
            {
                let items = items.clone();
                self.enc.head(0x04, name).ok()?;
                let start = self.enc.enter().ok()?;
                for (index, item) in items.iter().enumerate() {
                    self.value(inner, Name::Index(index), &item)?;
                }
                self.enc.leave(start).ok()
            }
            op if self.is_unchanged(op, given) || (kind.nullable && given.is_none()) => {
                self.enc.field(name, given).ok()
            }
            _ => None,
        }
    }

    /// Appends a text or an integer, the most frequent values; None: the value is neither.
    #[inline(always)]
    fn scalar(
        &mut self,
        kind: &Type,
        name: impl Named,
        given: &Bound<'py, PyAny>,
    ) -> Option<Result<(), Fault>> {
        if !kind.checks.is_empty() {
            return None;
        }
        match kind.op {
            Op::Str => given.cast_exact::<PyString>().ok().map(|text| {
                let text = self.enc.utf8_of(text)?;
                name.write_text(text, &mut self.enc)
            }),
            Op::Int if given.is_exact_instance_of::<PyInt>() => Some(self.enc.field(name, given)),
            _ => None,
        }
    }

    /// Appends the rest of an embedded document, whose values are in the order of its fields; some may be missing.
    fn document(&mut self, model: &'static Model, values: &Bound<'py, PyDict>) -> Option<()> {
        let plan = model.plan(self.py).ok()?;
        // A tag in the values may choose another class.
        if plan.tags.is_some() || !is_made_plainly(self.py, model) {
            return None;
        }
        let start = self.enc.enter().ok()?;
        let mut next = 0;
        // SAFETY: the dict outlives the walk.
        let mut items = unsafe { Items::of(self.py, values.as_ptr()) };
        // SAFETY: as before. The key is used, and the value held, before any code runs that could take them out of there.
        while let Some((key, given)) = unsafe { items.next() } {
            // SAFETY: live objects of the dict.
            let (key, given) =
                unsafe { (Borrowed::from_ptr(self.py, key), Borrowed::from_ptr(self.py, given)) };
            let key = key.cast_exact::<PyString>().ok()?;
            if let Some(field) = plan.fields.get(next)
                && field.is_called(&key)
                && let Some(result) = self.scalar(&field.kind, &field.name, &given)
            {
                result.ok()?;
                next += 1;
                continue;
            }
            // Held, since defaults may be made for missing fields.
            let given = given.to_owned();
            let index = index_of(plan, &key, next)?;
            // None: an earlier field was given twice, or out of order.
            for left_out in plan.fields.get(next..index)? {
                self.default(left_out)?;
            }
            self.field(&plan.fields[index], &given)?;
            next = index + 1;
        }
        for left_out in &plan.fields[next..] {
            self.default(left_out)?;
        }
        self.enc.leave(start).ok()
    }

    #[inline]
    fn field(&mut self, field: &'static Field, given: &Bound<'py, PyAny>) -> Option<()> {
        if given.is_none() && field.omits_none {
            return Some(());
        }
        self.value(&field.kind, &field.name, given)
    }

    /// Appends a field's default, unless the program's code makes it.
    fn default(&mut self, field: &'static Field) -> Option<()> {
        let empty = match (&field.default, &field.kind.op) {
            (Default::Value(_) | Default::ObjectId, _) => {
                let made = default_of(self.py, &field.default).ok()??;
                return self.field(field, &made);
            }
            (Default::List, Op::List(_)) => 0x04,
            (Default::Dict, Op::Dict(_)) => 0x03,
            _ => return None,
        };
        if !field.kind.checks.is_empty() {
            return None;
        }
        self.enc.head(empty, &field.name).ok()?;
        let start = self.enc.enter().ok()?;
        self.enc.leave(start).ok()
    }

    /// Whether an immutable value is read back from BSON unchanged.
    #[inline]
    fn is_unchanged(&self, op: &Op, given: &Bound<'py, PyAny>) -> bool {
        match op {
            // A NaN is equal only to itself as an object.
            Op::Float => given.cast_exact::<PyFloat>().is_ok_and(|number| !number.value().is_nan()),
            Op::Bool => given.is_exact_instance_of::<PyBool>(),
            Op::Bytes => given.is_exact_instance_of::<PyBytes>(),
            Op::ObjectId => object_id::known_class(self.py).is_some_and(|class| given.get_type().is(class)),
            // A date with a time zone is read back with another zone object. The outermost document's codec decides.
            Op::Datetime => {
                let is_whole = |date: &Bound<'_, PyDateTime>| {
                    date.get_tzinfo().is_none()
                        && !date.get_fold()
                        && date.get_microsecond().is_multiple_of(1000)
                };
                !self.enc.codec.tz_aware && given.cast_exact().is_ok_and(is_whole)
            }
            _ => false,
        }
    }
}

/// Keeps the packed values as those of fields that are still to be read.
pub(super) fn keep(fields: Fields<'_>, packed: Bits, raw: Vec<u8>) {
    let mut state = fields.state();
    fields.plan.packed_size.set(raw.len());
    state.raw = raw;
    state.is_packed = !packed.is_empty();
    if state.is_packed {
        state.pending = packed;
    } else {
        state.raw.clear();
    }
}
