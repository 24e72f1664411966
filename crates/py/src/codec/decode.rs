//! BSON bytes to Python objects, hot path: documents, arrays and the common values. Every length is checked against the
//! end of the enclosing document before it is used, so any bytes give a value or `InvalidBSON`.
//! Spec: bsonspec.org. The rarer values live in `decode_rare`.
use pyo3::ffi;
use pyo3::prelude::*;

use super::fault::{Fault, Kind, MAX_DEPTH, Step, as_invalid, found, invalid, raised, within};
use super::key_cache::{KeyCache, LONGEST};
use super::options::{Codec, DocumentClass};
use super::{cell::GilCell, datetime, object_id, text};

static KEYS: GilCell<KeyCache> = GilCell::new(KeyCache::new());

/// Seen while reading the names of a document: both bits make it a DBRef.
pub(super) const HAS_REF: u8 = 1;
pub(super) const HAS_ID: u8 = 2;

/// The shortest document: a length and a NUL.
const SHORTEST: usize = 5;

/// One decoding of one buffer.
pub(super) struct Decoder<'a, 'py> {
    pub(super) py: Python<'py>,
    pub(super) codec: &'a Codec,
    pub(super) data: &'a [u8],
    /// 0 <= position <= end of the enclosing document <= data.len()
    pub(super) position: usize,
    depth: u32,
    /// The key cache's slot of the last name.
    slot: u16,
    /// Values of the open arrays, owned.
    values: Vec<*mut ffi::PyObject>,
    pub(super) object_id: *mut ffi::PyTypeObject,
}

impl Drop for Decoder<'_, '_> {
    fn drop(&mut self) {
        for value in self.values.drain(..) {
            // SAFETY: the values are owned and the GIL is held.
            unsafe { ffi::Py_DECREF(value) };
        }
    }
}

impl<'a, 'py> Decoder<'a, 'py> {
    pub(super) fn new(py: Python<'py>, codec: &'a Codec, data: &'a [u8]) -> Self {
        let object_id = object_id::class_ptr(py);
        Self { py, codec, data, position: 0, depth: 0, slot: 0, values: Vec::new(), object_id }
    }

    /// Decodes the document that fills the whole buffer.
    pub(super) fn whole(&mut self) -> Result<Bound<'py, PyAny>, Fault> {
        let length = self.data.len();
        let made = self.next(length)?;
        if self.position == length {
            return Ok(made);
        }
        Err(invalid(self.position, format!("{} bytes left after the document", length - self.position)))
    }

    /// Decodes the document at the position, which ends before `limit`.
    pub(super) fn next(&mut self, limit: usize) -> Result<Bound<'py, PyAny>, Fault> {
        let made = self.document(limit)?;
        // SAFETY: `document` returns a new reference.
        Ok(unsafe { Bound::from_owned_ptr(self.py, made) })
    }

    /// Decodes the fields of the document that fills the buffer into a dict, whatever the document class is.
    pub(super) fn fields(&mut self) -> Result<Bound<'py, PyAny>, Fault> {
        let length = self.data.len();
        let end = self.open(length)?;
        let (made, _) = self.dict(end)?;
        self.close();
        // SAFETY: `dict` returns a new reference.
        let made = unsafe { Bound::from_owned_ptr(self.py, made) };
        if self.position == length {
            return Ok(made);
        }
        Err(invalid(self.position, format!("{} bytes left after the document", length - self.position)))
    }

    /// A document as the document class: a new reference.
    pub(super) fn document(&mut self, limit: usize) -> Result<*mut ffi::PyObject, Fault> {
        let start = self.position;
        let end = self.open(limit)?;
        let made = match &self.codec.document_class {
            DocumentClass::Dict => self.dict(end)?.0,
            DocumentClass::Mapping(class) => self.mapping(class, end)?.0,
            DocumentClass::Raw(class) => self.raw(class, start, end)?,
        };
        self.close();
        Ok(made)
    }

    /// An embedded document: as above, but one with `$ref` and `$id` is a DBRef.
    #[inline]
    fn embedded(&mut self, limit: usize) -> Result<*mut ffi::PyObject, Fault> {
        let start = self.position;
        let end = self.open(limit)?;
        let (made, marks) = match &self.codec.document_class {
            DocumentClass::Dict => self.dict(end)?,
            DocumentClass::Mapping(class) => self.mapping(class, end)?,
            DocumentClass::Raw(class) => (self.raw(class, start, end)?, 0),
        };
        self.close();
        if marks == HAS_REF | HAS_ID {
            return self.dbref(made);
        }
        Ok(made)
    }

    /// Checks the length at the position and steps into the document; returns where its final NUL is.
    #[inline]
    fn open(&mut self, limit: usize) -> Result<usize, Fault> {
        let start = self.position;
        let length = self.length(limit)?;
        if length < SHORTEST || length > limit - start {
            return Err(invalid(
                start,
                format!("document length {length}, with {} bytes left", limit - start),
            ));
        }
        let end = start + length - 1;
        if self.data[end] != 0 {
            return Err(invalid(end, "document does not end in NUL"));
        }
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(found(
                Kind::Bson,
                format!("invalid BSON: nested deeper than {MAX_DEPTH} levels"),
                "",
            ));
        }
        Ok(end)
    }

    /// Steps over the final NUL.
    #[inline]
    fn close(&mut self) {
        self.position += 1;
        self.depth -= 1;
    }

    #[inline]
    fn dict(&mut self, end: usize) -> Result<(*mut ffi::PyObject, u8), Fault> {
        // SAFETY: the GIL is held; `dict`, `key` and `value` are owned until they are released or returned.
        unsafe {
            let dict = ffi::PyDict_New();
            if dict.is_null() {
                return Err(raised(self.py));
            }
            let mut marks = 0;
            while self.position < end {
                let (key, value) = match self.field(end, &mut marks) {
                    Ok(field) => field,
                    Err(fault) => {
                        ffi::Py_DECREF(dict);
                        return Err(fault);
                    }
                };
                let status = ffi::PyDict_SetItem(dict, key, value);
                ffi::Py_DECREF(key);
                ffi::Py_DECREF(value);
                if status < 0 {
                    ffi::Py_DECREF(dict);
                    return Err(raised(self.py));
                }
            }
            Ok((dict, marks))
        }
    }

    /// The document class is the user's: anything may happen in its `__init__` and `__setitem__`.
    fn mapping(&mut self, class: &Py<PyAny>, end: usize) -> Result<(*mut ffi::PyObject, u8), Fault> {
        let made = class.bind(self.py).call0()?;
        let mut marks = 0;
        while self.position < end {
            let (key, value) = self.field(end, &mut marks)?;
            // SAFETY: the GIL is held; `key` and `value` are owned and released here.
            unsafe {
                let status = ffi::PyObject_SetItem(made.as_ptr(), key, value);
                ffi::Py_DECREF(key);
                ffi::Py_DECREF(value);
                if status < 0 {
                    return Err(raised(self.py));
                }
            }
        }
        Ok((made.into_ptr(), marks))
    }

    /// The next name and value, both owned.
    #[inline]
    fn field(
        &mut self,
        end: usize,
        marks: &mut u8,
    ) -> Result<(*mut ffi::PyObject, *mut ffi::PyObject), Fault> {
        let kind = self.data[self.position];
        self.position += 1;
        let name_at = self.position;
        let key = self.key(end)?;
        if self.data[name_at] == b'$' {
            match &self.data[name_at..self.position] {
                b"$ref\0" => *marks |= HAS_REF,
                b"$id\0" => *marks |= HAS_ID,
                _ => {}
            }
        }
        match self.value(kind, end) {
            Ok(value) => Ok((key, value)),
            Err(fault) => {
                // SAFETY: `key` is owned.
                unsafe { ffi::Py_DECREF(key) };
                Err(self.within_field(fault, name_at))
            }
        }
    }

    #[cold]
    fn within_field(&self, fault: Fault, name_at: usize) -> Fault {
        let name = self.data[name_at..].split(|byte| *byte == 0).next().unwrap_or_default();
        within(fault, Step::Key(String::from_utf8_lossy(name).into_owned()))
    }

    /// The name at the position: an owned string.
    #[inline]
    fn key(&mut self, end: usize) -> Result<*mut ffi::PyObject, Fault> {
        let input = &self.data[self.position..end];
        let slot = self.slot;
        // SAFETY: the cache is borrowed for comparing bytes and taking a reference, which run no Python code.
        let found = unsafe {
            KEYS.with(self.py, |keys| {
                let found = keys.predicted(slot, input);
                if let Some((string, ..)) = found {
                    ffi::Py_INCREF(string);
                }
                found
            })
        };
        if let Some((string, slot, length)) = found {
            self.slot = slot;
            self.position += length;
            return Ok(string);
        }
        self.key_by_hash(end)
    }

    fn key_by_hash(&mut self, end: usize) -> Result<*mut ffi::PyObject, Fault> {
        let at = self.position;
        let Some(length) = memchr::memchr(0, &self.data[at..end]) else {
            return Err(invalid(at, "field name has no end"));
        };
        let bytes = &self.data[at..=at + length];
        self.position += bytes.len();
        let name = &bytes[..length];
        if bytes.len() <= LONGEST && name.is_ascii() {
            let previous = self.slot;
            // SAFETY: the cache is borrowed for comparing bytes and making an exact str, which runs no Python code; the
            // replaced string, whose release runs none either, is dropped outside.
            unsafe {
                let found = KEYS.with(self.py, |keys| {
                    let found = keys.find(previous, bytes);
                    if let Some((string, ..)) = found {
                        ffi::Py_INCREF(string);
                    }
                    found
                });
                let Some((string, slot, replaced)) = found else { return Err(raised(self.py)) };
                ffi::Py_XDECREF(replaced);
                self.slot = slot;
                return Ok(string);
            }
        }
        // SAFETY: the GIL is held.
        let made = unsafe { text::decode(name, self.codec.unicode_errors.as_deref()) };
        if made.is_null() {
            return Err(as_invalid(self.py, PyErr::fetch(self.py), at));
        }
        Ok(made)
    }

    /// The value at the position: a new reference, converted by the user's type decoder if there is one.
    #[inline]
    pub(super) fn value(&mut self, kind: u8, end: usize) -> Result<*mut ffi::PyObject, Fault> {
        let made = self.plain_value(kind, end)?;
        if self.codec.decoders.is_some() {
            return self.convert(made);
        }
        Ok(made)
    }

    #[inline]
    fn plain_value(&mut self, kind: u8, end: usize) -> Result<*mut ffi::PyObject, Fault> {
        // SAFETY: the GIL is held; every branch returns a new reference or null with the error set.
        let made = unsafe {
            match kind {
                0x01 => ffi::PyFloat_FromDouble(f64::from_le_bytes(self.take(end)?)),
                0x02 => return self.string(end),
                0x03 => return self.embedded(end),
                0x04 => return self.array(end),
                0x07 => {
                    let bytes = self.take(end)?;
                    object_id::create(self.py, self.object_id, bytes)
                }
                0x08 => match self.take::<1>(end)? {
                    [0] => ffi::PyBool_FromLong(0),
                    [1] => ffi::PyBool_FromLong(1),
                    [other] => {
                        return Err(invalid(
                            self.position - 1,
                            format!("boolean is {other:#04x}, not 0 or 1"),
                        ));
                    }
                },
                0x09 => {
                    let millis = i64::from_le_bytes(self.take(end)?);
                    return self.date(millis);
                }
                0x0A => {
                    let none = ffi::Py_None();
                    ffi::Py_INCREF(none);
                    none
                }
                0x10 => ffi::PyLong_FromLong(i32::from_le_bytes(self.take(end)?).into()),
                0x12 => {
                    let value = i64::from_le_bytes(self.take(end)?);
                    self.int64(value)
                }
                _ => return self.rare_value(kind, end),
            }
        };
        if made.is_null() {
            return Err(raised(self.py));
        }
        Ok(made)
    }

    fn array(&mut self, limit: usize) -> Result<*mut ffi::PyObject, Fault> {
        let end = self.open(limit)?;
        let base = self.values.len();
        while self.position < end {
            let kind = self.data[self.position];
            self.position += 1;
            self.skip_index(end)?;
            match self.value(kind, end) {
                Ok(value) => self.values.push(value),
                Err(fault) => return Err(within(fault, Step::Index(self.values.len() - base))),
            }
        }
        self.close();
        // SAFETY: the list has a place for each value, and takes them over.
        unsafe {
            let count = self.values.len() - base;
            let list = ffi::PyList_New(count as _);
            if list.is_null() {
                return Err(raised(self.py));
            }
            for (index, value) in self.values.drain(base..).enumerate() {
                ffi::PyList_SET_ITEM(list, index as _, value);
            }
            Ok(list)
        }
    }

    /// Steps over an array's index, which is in order and not looked at.
    #[inline]
    fn skip_index(&mut self, end: usize) -> Result<(), Fault> {
        for (offset, byte) in self.data[self.position..end].iter().enumerate() {
            if *byte == 0 {
                self.position += offset + 1;
                return Ok(());
            }
        }
        Err(invalid(self.position, "array index has no end"))
    }

    #[inline]
    fn string(&mut self, end: usize) -> Result<*mut ffi::PyObject, Fault> {
        let at = self.position;
        let bytes = self.string_bytes(end)?;
        // SAFETY: the GIL is held.
        let made = unsafe { text::decode(bytes, self.codec.unicode_errors.as_deref()) };
        if made.is_null() {
            return Err(as_invalid(self.py, PyErr::fetch(self.py), at));
        }
        Ok(made)
    }

    /// The bytes of a length-prefixed string, without its NUL.
    #[inline]
    pub(super) fn string_bytes(&mut self, end: usize) -> Result<&'a [u8], Fault> {
        let at = self.position;
        let length = self.length(end)?;
        if length == 0 || length > end - self.position {
            return Err(invalid(
                at,
                format!("string length {length}, with {} bytes left", end - self.position),
            ));
        }
        let bytes = &self.data[self.position..self.position + length];
        if bytes[length - 1] != 0 {
            return Err(invalid(self.position + length - 1, "string does not end in NUL"));
        }
        self.position += length;
        Ok(&bytes[..length - 1])
    }

    #[inline]
    fn date(&mut self, millis: i64) -> Result<*mut ffi::PyObject, Fault> {
        if self.codec.tz_aware || self.codec.date_needs_care(millis) {
            return self.rare_date(millis);
        }
        // SAFETY: in range; `types` imported the C API.
        let made = unsafe { datetime::create(millis, ffi::Py_None()) };
        if made.is_null() {
            return Err(raised(self.py));
        }
        Ok(made)
    }

    /// The next N bytes.
    #[inline]
    pub(super) fn take<const N: usize>(&mut self, end: usize) -> Result<[u8; N], Fault> {
        if N > end - self.position {
            return Err(self.short(N, end));
        }
        // SAFETY: position + N <= end <= data.len().
        let bytes = unsafe { self.data.as_ptr().add(self.position).cast::<[u8; N]>().read_unaligned() };
        self.position += N;
        Ok(bytes)
    }

    #[cold]
    fn short(&self, needed: usize, end: usize) -> Fault {
        invalid(self.position, format!("value of {needed} bytes, with {} left", end - self.position))
    }

    /// A length prefix. A negative one comes out larger than any buffer.
    #[inline]
    pub(super) fn length(&mut self, end: usize) -> Result<usize, Fault> {
        Ok(u32::from_le_bytes(self.take(end)?) as usize)
    }
}
