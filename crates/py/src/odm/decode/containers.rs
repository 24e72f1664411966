//! Values that contain or combine others: lists, tuples, maps, unions, dates, GeoJSON.
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDate, PyDict, PyFloat, PyInt, PyTuple, PyType};

use super::super::joining;
use super::*;
use crate::codec::fault::Problem;

impl<'py> Hydrator<'_, 'py> {
    pub(super) fn list(&mut self, inner: &'static Type, limit: usize) -> Made<'py> {
        let end = self.d.open(limit)?;
        let base = self.items.len();
        while self.d.position < end {
            let kind = self.d.data[self.d.position];
            self.d.position += 1;
            match self.d.skip_index(end).and_then(|()| self.value(inner, kind, end)) {
                Ok(made) => self.items.push(made),
                Err(fault) => {
                    let index = self.items.len() - base;
                    self.items.truncate(base);
                    return Err(within(fault, Step::Index(index)));
                }
            }
        }
        self.d.close();
        if let Op::Ref { make, .. } = &inner.op {
            for item in &mut self.items[base..] {
                *item = reference(self.siblings, &inner.op, make, item)?;
            }
        }
        make::list(self.py, self.items.drain(base..))
    }

    /// The `coordinates` of a GeoJSON object of this type, if it has no other key besides `type`.
    pub(super) fn coordinates(
        &mut self,
        name: &str,
        limit: usize,
    ) -> Result<Option<Bound<'py, PyAny>>, Fault> {
        let start = self.d.position;
        let end = self.d.open(limit)?;
        let plain = self.d.data[self.d.position..]
            .strip_prefix(b"\x02type\0")
            .and_then(|rest| {
                rest.get(4..)?.strip_prefix(name.as_bytes())?.strip_prefix(b"\0\x04coordinates\0")
            })
            .map(|rest| self.d.data.len() - rest.len());
        let made = match plain {
            Some(at) if at < end => {
                self.d.position = at;
                let made = self.d.value(0x04, end)?;
                (self.d.position == end && has_form(name, &made)).then_some(made)
            }
            _ => None,
        };
        self.d.position = end;
        self.d.close();
        if made.is_none() {
            self.d.position = start;
        }
        Ok(made)
    }

    /// Reads ids of other documents; a DBRef is read as its id.
    pub(super) fn refs(&mut self, inner: &'static Type, limit: usize) -> Made<'py> {
        let end = self.d.open(limit)?;
        let list = PyList::empty(self.py);
        while self.d.position < end {
            let kind = self.d.data[self.d.position];
            self.d.position += 1;
            self.d.skip_index(end)?;
            let index = list.len();
            if kind == 0x03 {
                let made = self.d.value(kind, end)?;
                let id = if made.get_type().name()? == "DBRef" {
                    made.getattr(pyo3::intern!(made.py(), "id")).map_err(Fault::from)
                } else {
                    self.compound_id(inner, &made)
                };
                list.append(id.map_err(|fault| within(fault, Step::Index(index)))?)?;
            } else {
                let made = self.value(inner, kind, end);
                list.append(made.map_err(|fault| within(fault, Step::Index(index)))?)?;
            }
        }
        self.d.close();
        Ok(list.into_any())
    }

    pub(super) fn tuple(&mut self, kind: &'static Type, inner: &'static [Type], limit: usize) -> Made<'py> {
        let end = self.d.open(limit)?;
        let mut items = Vec::with_capacity(inner.len());
        while self.d.position < end {
            let found_kind = self.d.data[self.d.position];
            self.d.position += 1;
            self.d.skip_index(end)?;
            let index = items.len();
            let Some(inner) = inner.get(index) else { break };
            let made = self.value(inner, found_kind, end);
            let mut made = made.map_err(|fault| within(fault, Step::Index(index)))?;
            if let Op::Ref { make, .. } = &inner.op {
                made = reference(self.siblings, &inner.op, make, &made)?;
            }
            items.push(made);
        }
        if items.len() != inner.len() || self.d.position < end {
            let got = if self.d.position < end { "more".to_owned() } else { items.len().to_string() };
            let what = format!("expected {} of {} elements, got {got}", value::label(kind), inner.len());
            return Err(found(Kind::Field, what, ""));
        }
        self.d.close();
        Ok(PyTuple::new(self.py, items)?.into_any())
    }

    pub(super) fn dict(&mut self, inner: &'static Type, limit: usize) -> Made<'py> {
        let end = self.d.open(limit)?;
        let dict = PyDict::new(self.py);
        while self.d.position < end {
            let kind = self.d.data[self.d.position];
            self.d.position += 1;
            let name_at = self.d.position;
            let key = self.d.key(end)?;
            let made = self.value(inner, kind, end);
            let mut made = made.map_err(|fault| self.d.within_field(fault, name_at))?;
            if let Op::Ref { make, .. } = &inner.op {
                made = reference(self.siblings, &inner.op, make, &made)?;
            }
            dict.set_item(key, made)?;
        }
        self.d.close();
        Ok(dict.into_any())
    }

    pub(super) fn union(
        &mut self,
        kind: &'static Type,
        union: &'static Union,
        found: u8,
        end: usize,
    ) -> Made<'py> {
        if found == 0x03 && !union.models.is_empty() {
            let start = self.d.position;
            let inner_end = self.d.open(end)?;
            let mut chosen = None;
            while self.d.position < inner_end {
                let tag_kind = self.d.data[self.d.position];
                let name_at = self.d.position + 1;
                let length = self.d.name_length(name_at, inner_end)?;
                let is_tag = self.d.data[name_at..name_at + length] == *union.tag;
                self.d.position = name_at + length;
                let value_at = self.d.position;
                self.skip(tag_kind, inner_end)?;
                if is_tag {
                    let value = &self.d.data[value_at..self.d.position];
                    let model = union
                        .models
                        .iter()
                        .find(|(tag, _)| tag.first() == Some(&tag_kind) && &tag[1..] == value);
                    chosen = model.map(|(_, model)| *model);
                    break;
                }
            }
            self.d.position = inner_end;
            self.d.close();
            self.d.position = start;
            // A union with a single embedded class needs no tag.
            let only = (union.models.len() == 1 && union.tag.len() == 1).then(|| union.models[0].1);
            if let Some(model) = chosen.or(only) {
                let plan = model.plan(self.py)?;
                return self.document(plan, end, false);
            }
        }
        let mut alternatives = union.others.iter().filter(|other| accepts(other, found)).peekable();
        // A date would lose the time of day, unless that is midnight.
        let is_moment = found == 0x09
            && self.d.data[self.d.position..end]
                .first_chunk()
                .is_some_and(|millis| i64::from_le_bytes(*millis) % DAY_MS != 0);
        let (start, base, forgives) = (self.d.mark(), self.items.len(), self.forgives);
        let mut refused = None;
        while let Some(other) = alternatives.next() {
            let is_last = alternatives.peek().is_none();
            if is_moment && !is_last && matches!(other.op, Op::Date) {
                continue;
            }
            if is_last && refused.is_none() {
                return self.value(other, found, end);
            }
            // A value of a wrong type belongs to the next alternative.
            self.forgives = false;
            let made = self.value(other, found, end);
            self.forgives = forgives;
            match made.map_err(|fault| *fault) {
                Ok(made) => return Ok(made),
                Err(problem @ Problem::Found { kind: Kind::Field, .. }) => {
                    refused = refused.or(Some(problem))
                }
                Err(problem) => return Err(Box::new(problem)),
            }
            self.d.go_back(start);
            self.items.truncate(base);
        }
        if let Some(problem) = refused.filter(|_| !forgives) {
            return Err(Box::new(problem));
        }
        // An int is read as a float if the union has no int.
        if matches!(found, 0x10 | 0x12)
            && let Some(other) = union.others.iter().find(|other| matches!(other.op, Op::Float))
        {
            return self.value(other, found, end);
        }
        let made = self.d.value(found, end)?;
        self.wrong(kind, made)
    }

    pub(super) fn date(&mut self, end: usize) -> Made<'py> {
        use crate::codec::datetime::{MAX_MILLIS, MIN_MILLIS, split};
        use crate::codec::options::DatetimeConversion;
        let millis = i64::from_le_bytes(self.d.take(end)?);
        let fields = match self.d.codec.dates {
            DatetimeConversion::Clamp => split(millis.clamp(MIN_MILLIS, MAX_MILLIS)),
            _ if (MIN_MILLIS..=MAX_MILLIS).contains(&millis) => split(millis),
            DatetimeConversion::Datetime => {
                return Err(found(Kind::Field, format!("expected date, got {millis} ms since 1970"), ""));
            }
            _ => return self.d.date(millis),
        };
        let made = PyDate::new(self.py, fields.year, fields.month, fields.day)?;
        Ok(made.into_any())
    }

    /// A GeoJSON object from its document, or a point from a legacy pair.
    pub(super) fn geo(
        &self,
        kind: &Type,
        class: &Py<PyType>,
        offset: usize,
        name: &str,
        made: &Bound<'py, PyAny>,
    ) -> Made<'py> {
        let (title, coordinates) = match made.cast::<PyDict>() {
            Ok(document) => (document.get_item("type")?, document.get_item("coordinates")?),
            Err(_) => (None, Some(made.clone())),
        };
        let is_of_type = title.is_none_or(|title| title.extract::<&str>().is_ok_and(|title| title == name));
        let Some(coordinates) = coordinates.filter(|found| is_of_type && has_form(name, found)) else {
            return self.wrong(kind, made.clone());
        };
        self.geometry(class, offset, coordinates)
    }

    /// Makes the object with these coordinates.
    pub(super) fn geometry(
        &self,
        class: &Py<PyType>,
        offset: usize,
        coordinates: Bound<'py, PyAny>,
    ) -> Made<'py> {
        let class = class.bind(self.py).as_type_ptr();
        // SAFETY: the class is one of our GeoJSON objects', and the field's description has the offset of their slot,
        // read from the member itself (`odm_offset`). In a new instance it is null, and takes the reference over.
        unsafe {
            let object = make::owned(self.py, ffi::PyType_GenericAlloc(class, 0))?;
            let slot = object.as_ptr().byte_add(offset).cast::<*mut ffi::PyObject>();
            slot.write(coordinates.into_ptr());
            Ok(object)
        }
    }
}

/// Milliseconds of a day.
const DAY_MS: i64 = 86_400_000;

/// Whether coordinates have the form for a GeoJSON object of this type: positions, in lists of the right depth.
fn has_form(name: &str, coordinates: &Bound<'_, PyAny>) -> bool {
    let depth = match name {
        "Point" => 0,
        "LineString" | "MultiPoint" => 1,
        "Polygon" | "MultiLineString" => 2,
        "MultiPolygon" => 3,
        _ => return coordinates.is_instance_of::<PyList>(),
    };
    are_positions(coordinates, depth)
}

fn are_positions(given: &Bound<'_, PyAny>, depth: usize) -> bool {
    let Ok(parts) = given.cast::<PyList>() else { return false };
    if depth > 0 {
        return parts.iter().all(|part| are_positions(&part, depth - 1));
    }
    let is_number = |part: &Bound<'_, PyAny>| {
        part.is_instance_of::<PyFloat>()
            || (part.is_instance_of::<PyInt>() && !part.is_instance_of::<PyBool>())
    };
    parts.len() >= 2 && parts.iter().all(|part| is_number(&part))
}

/// The reference for an id inside a container. It is made at once: unlike a field's slot, a container cannot make it
/// later.
fn reference<'py>(
    siblings: Option<&Bound<'py, Siblings>>,
    op: &Op,
    make: &Py<PyAny>,
    id: &Bound<'py, PyAny>,
) -> Made<'py> {
    let py = id.py();
    if id.is_none() {
        return Ok(id.clone());
    }
    if let Some(siblings) = siblings {
        siblings.borrow_mut().add(make, id.clone());
    }
    match joining::reference(op, id, siblings)? {
        Some(made) => Ok(made),
        None => Ok(make.bind(py).call1((id, siblings, py.None()))?),
    }
}
