//! Values that hold others, and those made of several: lists, tuples, maps, unions, dates, GeoJSON.
use pyo3::ffi;
use pyo3::prelude::*;

use super::*;

impl<'py> Hydrator<'_, 'py> {
    pub(super) fn list(&mut self, inner: &'static Type, limit: usize) -> Result<*mut ffi::PyObject, Fault> {
        let end = self.d.open(limit)?;
        let base = self.items.len();
        while self.d.position < end {
            let kind = self.d.data[self.d.position];
            self.d.position += 1;
            match self.d.skip_index(end).and_then(|()| self.value(inner, kind, end)) {
                Ok(made) => self.items.push(made),
                Err(fault) => {
                    let index = self.items.len() - base;
                    for item in self.items.split_off(base) {
                        // SAFETY: owned.
                        unsafe { ffi::Py_DECREF(item) };
                    }
                    return Err(within(fault, Step::Index(index)));
                }
            }
        }
        self.d.close();
        // SAFETY: the list has a place for each item, and takes them over.
        unsafe {
            let list = ffi::PyList_New((self.items.len() - base) as _);
            if list.is_null() {
                for item in self.items.split_off(base) {
                    ffi::Py_DECREF(item);
                }
                return Err(raised(self.py));
            }
            for (index, item) in self.items.drain(base..).enumerate() {
                ffi::PyList_SET_ITEM(list, index as _, item);
            }
            Ok(list)
        }
    }

    /// The `coordinates` of a GeoJSON object of this type, if that is all it has beside its type.
    pub(super) fn coordinates(
        &mut self,
        name: &str,
        limit: usize,
    ) -> Result<Option<*mut ffi::PyObject>, Fault> {
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
                if self.d.position == end {
                    Some(made)
                } else {
                    // SAFETY: owned.
                    unsafe { ffi::Py_DECREF(made) };
                    None
                }
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

    /// Ids of other documents; one stored as a DBRef gives its id.
    pub(super) fn refs(&mut self, inner: &'static Type, limit: usize) -> Result<*mut ffi::PyObject, Fault> {
        let end = self.d.open(limit)?;
        let list = pyo3::types::PyList::empty(self.py);
        while self.d.position < end {
            let kind = self.d.data[self.d.position];
            self.d.position += 1;
            self.d.skip_index(end)?;
            let index = list.len();
            if kind == 0x03 {
                let made = self.owned(|this| this.d.value(kind, end))?;
                let id = if made.get_type().name()? == "DBRef" { made.getattr("id")? } else { made };
                list.append(id)?;
            } else {
                let made = self.owned(|this| this.value(inner, kind, end));
                list.append(made.map_err(|fault| within(fault, Step::Index(index)))?)?;
            }
        }
        self.d.close();
        Ok(list.into_ptr())
    }

    pub(super) fn tuple(
        &mut self,
        kind: &'static Type,
        inner: &'static [Type],
        limit: usize,
    ) -> Result<*mut ffi::PyObject, Fault> {
        let end = self.d.open(limit)?;
        let mut items = Vec::with_capacity(inner.len());
        while self.d.position < end {
            let found_kind = self.d.data[self.d.position];
            self.d.position += 1;
            self.d.skip_index(end)?;
            let index = items.len();
            let Some(inner) = inner.get(index) else { break };
            let made = self.owned(|this| this.value(inner, found_kind, end));
            items.push(made.map_err(|fault| within(fault, Step::Index(index)))?);
        }
        if items.len() != inner.len() || self.d.position < end {
            let what = format!("expected {} of {} elements", value::label(kind), inner.len());
            return Err(found(Kind::Field, what, "the array has another length"));
        }
        self.d.close();
        Ok(pyo3::types::PyTuple::new(self.py, items)?.into_ptr())
    }

    pub(super) fn dict(&mut self, inner: &'static Type, limit: usize) -> Result<*mut ffi::PyObject, Fault> {
        let end = self.d.open(limit)?;
        let dict = pyo3::types::PyDict::new(self.py);
        while self.d.position < end {
            let kind = self.d.data[self.d.position];
            self.d.position += 1;
            let name_at = self.d.position;
            let key = self.owned(|this| this.d.key(end))?;
            let made = self.owned(|this| this.value(inner, kind, end));
            dict.set_item(key, made.map_err(|fault| self.d.within_field(fault, name_at))?)?;
        }
        self.d.close();
        Ok(dict.into_ptr())
    }

    pub(super) fn union(
        &mut self,
        kind: &'static Type,
        union: &'static Union,
        found: u8,
        end: usize,
    ) -> Result<*mut ffi::PyObject, Fault> {
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
            // A union with one embedded class needs no tag.
            let only = (union.models.len() == 1 && union.tag.len() == 1).then(|| union.models[0].1);
            if let Some(model) = chosen.or(only) {
                let plan = model.plan(self.py)?;
                return self.document(plan, end, false);
            }
        }
        for other in &union.others {
            if accepts(other, found) {
                return self.value(other, found, end);
            }
        }
        // An int serves as a float where there is no int to be.
        if matches!(found, 0x10 | 0x12)
            && let Some(other) = union.others.iter().find(|other| matches!(other.op, Op::Float))
        {
            return self.value(other, found, end);
        }
        let made = self.owned(|this| this.d.value(found, end))?;
        self.wrong(kind, made)
    }

    pub(super) fn date(&mut self, end: usize) -> Result<*mut ffi::PyObject, Fault> {
        use crate::codec::datetime::{MAX_MILLIS, MIN_MILLIS, split};
        let millis = i64::from_le_bytes(self.d.take(end)?);
        if !(MIN_MILLIS..=MAX_MILLIS).contains(&millis) {
            return Err(found(Kind::Field, format!("expected date, got {millis} ms since 1970"), ""));
        }
        let fields = split(millis);
        let made = pyo3::types::PyDate::new(self.py, fields.year, fields.month, fields.day)?;
        Ok(made.into_ptr())
    }

    /// A GeoJSON object from its document, or a point from a legacy pair.
    pub(super) fn geo(
        &self,
        kind: &Type,
        class: &Py<pyo3::types::PyType>,
        offset: usize,
        made: &Bound<'py, PyAny>,
    ) -> Result<*mut ffi::PyObject, Fault> {
        let coordinates = match made.cast::<pyo3::types::PyDict>() {
            Ok(document) => document.get_item("coordinates")?,
            Err(_) => Some(made.clone()),
        };
        let Some(coordinates) = coordinates.filter(|found| found.is_instance_of::<pyo3::types::PyList>())
        else {
            return self.wrong(kind, made.clone());
        };
        self.geometry(class, offset, coordinates.into_ptr())
    }

    /// The object of these coordinates, which are taken over.
    pub(super) fn geometry(
        &self,
        class: &Py<pyo3::types::PyType>,
        offset: usize,
        coordinates: *mut ffi::PyObject,
    ) -> Result<*mut ffi::PyObject, Fault> {
        // SAFETY: an instance of a class of ours that has a slot at this offset, which is empty.
        unsafe {
            let class = class.as_ptr().cast::<ffi::PyTypeObject>();
            let object: *mut ffi::PyObject = ffi::PyType_GenericAlloc(class, 0);
            if object.is_null() {
                ffi::Py_DECREF(coordinates);
                return Err(raised(self.py));
            }
            object.byte_add(offset).cast::<*mut ffi::PyObject>().write(coordinates);
            Ok(object)
        }
    }
}
