//! Python objects to BSON bytes: BSON's own classes, foreign classes with a `_type_marker`, subclasses, mappings,
//! and the user's type encoders. Everything here may run Python code, so every object is held by a reference.
use std::ffi::c_long;

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyDateTime, PyDict, PyFloat, PyInt, PyList, PyString, PyTuple};

use super::datetime;
use super::decode_rare::reorder;
use super::encode::{Encoder, Name};
use super::fault::{Fault, Kind, found, raised};
use super::options::UuidRepresentation;
use super::types::{is_uuid, known_uuid_types};

/// `_type_marker` of the BSON classes, ours and other libraries'.
mod marker {
    pub(super) const BINARY: i64 = 5;
    pub(super) const OBJECT_ID: i64 = 7;
    pub(super) const DATETIME_MS: i64 = 9;
    pub(super) const REGEX: i64 = 11;
    pub(super) const CODE: i64 = 13;
    pub(super) const TIMESTAMP: i64 = 17;
    pub(super) const INT64: i64 = 18;
    pub(super) const DECIMAL128: i64 = 19;
    pub(super) const DBREF: i64 = 100;
    pub(super) const RAW: i64 = 101;
    pub(super) const MAX_KEY: i64 = 127;
    pub(super) const MIN_KEY: i64 = 255;
}

impl<'py> Encoder<'_, 'py> {
    /// Writes a value that is mostly of one of our own classes: those are read without their attributes. `class` is the
    /// value's.
    #[inline(never)]
    pub(super) fn own_value(
        &mut self,
        kind: usize,
        class: *mut ffi::PyTypeObject,
        value: &Bound<'py, PyAny>,
    ) -> Result<(), Fault> {
        let types = self.codec.types;
        let object = value.as_ptr();
        // SAFETY: `class` is the class of `value`, which is held; the slots of a value are read while nothing else runs.
        unsafe {
            if let Some(scope) = types.code.read(class, object, 0) {
                let scope = Bound::from_borrowed_ptr(self.py, scope);
                return self.code(kind, value, &scope);
            }
            if let Some(subtype) = types.binary.read_attribute(value, 0) {
                let subtype = ffi::PyLong_AsLong(subtype.as_ptr());
                if let Ok(subtype) = u8::try_from(subtype) {
                    self.out[kind] = 0x05;
                    let data = ffi::PyBytes_AS_STRING(object).cast::<u8>();
                    let bytes = std::slice::from_raw_parts(data, ffi::Py_SIZE(object) as usize);
                    return self.binary(subtype, bytes);
                }
                ffi::PyErr_Clear();
            }
            if let Some(time) = types.timestamp.read(class, object, 0)
                && let Some(inc) = types.timestamp.read(class, object, 1)
            {
                let time = ffi::PyLong_AsLongLong(time);
                let inc = ffi::PyLong_AsLongLong(inc);
                // Anything unusual, errors included, is for the slow path to find again.
                if let (Ok(time), Ok(inc)) = (u32::try_from(time), u32::try_from(inc)) {
                    return self.put(kind, 0x11, &(u64::from(inc) | u64::from(time) << 32).to_le_bytes());
                }
                ffi::PyErr_Clear();
            }
            if let Some(high) = types.decimal128.read(class, object, 0)
                && let Some(low) = types.decimal128.read(class, object, 1)
            {
                let high = ffi::PyLong_AsUnsignedLongLong(high);
                let low = ffi::PyLong_AsUnsignedLongLong(low);
                if ffi::PyErr_Occurred().is_null() {
                    return self.put(kind, 0x13, &(u128::from(low) | u128::from(high) << 64).to_le_bytes());
                }
                ffi::PyErr_Clear();
            }
            if let Some(millis) = types.datetime_ms.read(class, object, 0) {
                let mut overflow = 0;
                let number = ffi::PyLong_AsLongLongAndOverflow(millis, &mut overflow);
                if overflow == 0 && ffi::PyErr_Occurred().is_null() {
                    return self.put(kind, 0x09, &number.to_le_bytes());
                }
                ffi::PyErr_Clear();
            }
            if let Some(uuid) = known_uuid_types(self.py)
                && let Some(number) = uuid.class.read(class, object, 0)
            {
                let number = Bound::from_borrowed_ptr(self.py, number);
                return self.uuid(kind, &number);
            }
            if let Some(pattern) = types.regex.read(class, object, 0)
                && let Some(flags) = types.regex.read(class, object, 1)
            {
                let pattern = Bound::from_borrowed_ptr(self.py, pattern);
                let flags = Bound::from_borrowed_ptr(self.py, flags);
                return self.regex(kind, &pattern, &flags);
            }
            if class == types.min_key.bind(self.py).get_type_ptr() {
                return self.put(kind, 0xFF, &[]);
            }
            if class == types.max_key.bind(self.py).get_type_ptr() {
                return self.put(kind, 0x7F, &[]);
            }
        }
        self.any_value(kind, value, false, false)
    }

    /// Writes a value of any class and its type, for which `kind` is reserved.
    pub(super) fn any_value(
        &mut self,
        kind: usize,
        value: &Bound<'py, PyAny>,
        was_converted: bool,
        was_fallback: bool,
    ) -> Result<(), Fault> {
        if let Some(marker) = self.marker(value)?
            && self.marked(kind, value, marker)?
        {
            return Ok(());
        }
        if value.is_instance_of::<PyBool>() {
            let is_true = value.is_truthy()?;
            return self.put(kind, 0x08, &[u8::from(is_true)]);
        }
        if value.is_instance_of::<PyInt>() {
            let mut overflow = 0;
            // SAFETY: `value` is an int.
            let number = unsafe { ffi::PyLong_AsLongLongAndOverflow(value.as_ptr(), &mut overflow) };
            if overflow == 0 {
                return match i32::try_from(number) {
                    Ok(number) => self.put(kind, 0x10, &number.to_le_bytes()),
                    Err(_) => self.put(kind, 0x12, &number.to_le_bytes()),
                };
            }
            // Too large: the type encoder or the fallback may know better.
        } else if let Ok(number) = value.cast::<PyFloat>() {
            return self.put(kind, 0x01, &number.value().to_le_bytes());
        } else if value.is_none() {
            return self.put(kind, 0x0A, &[]);
        } else if value.is_instance_of::<PyDict>() {
            self.out[kind] = 0x03;
            // SAFETY: a dict, held by `value`.
            return unsafe { self.dict(value.as_ptr(), false) };
        } else if value.is_instance_of::<PyList>() || value.is_instance_of::<PyTuple>() {
            self.out[kind] = 0x04;
            // SAFETY: a list or tuple, held by `value`.
            return unsafe { self.array(value.as_ptr()) };
        } else if let Ok(bytes) = value.cast::<PyBytes>() {
            self.out[kind] = 0x05;
            return self.binary(0, bytes.as_bytes());
        } else if value.is_instance_of::<PyString>() {
            self.out[kind] = 0x02;
            // SAFETY: a str, held by `value`.
            let text = unsafe { self.utf8(value.as_ptr())? };
            return self.text(text);
        } else if value.is_instance_of::<PyDateTime>() {
            let millis = self.millis(value)?;
            return self.put(kind, 0x09, &millis.to_le_bytes());
        } else if value.is_instance(self.codec.types.pattern.bind(self.py))? {
            let name = &self.codec.types.name;
            return self.regex(kind, &value.getattr(&name.pattern)?, &value.getattr(&name.flags)?);
        } else if is_uuid(value)? {
            return self.uuid(kind, &value.getattr(&self.codec.types.name.int)?);
        } else if value.is_instance(self.codec.types.mapping.bind(self.py))? {
            self.out[kind] = 0x03;
            return self.mapping(value, false);
        }
        self.converted(kind, value, was_converted, was_fallback)
    }

    /// Asks the user's encoders.
    fn converted(
        &mut self,
        kind: usize,
        value: &Bound<'py, PyAny>,
        was_converted: bool,
        was_fallback: bool,
    ) -> Result<(), Fault> {
        if let Some(encoders) = self.codec.encoders.as_ref().filter(|_| !was_converted)
            && let Some(encoder) = encoders.bind(self.py).get_item(value.get_type())?
        {
            let other = encoder.call1((value,))?;
            return self.again(kind, &other, true, false);
        }
        if let Some(fallback) = self.codec.fallback.as_ref().filter(|_| !was_fallback) {
            let other = fallback.bind(self.py).call1((value,))?;
            return self.again(kind, &other, false, true);
        }
        Err(self.unknown(value))
    }

    /// Encodes what an encoder returned; the encoder may have been called from an encoder.
    fn again(
        &mut self,
        kind: usize,
        value: &Bound<'py, PyAny>,
        was_converted: bool,
        was_fallback: bool,
    ) -> Result<(), Fault> {
        // SAFETY: the GIL is held; every successful enter is left.
        if unsafe { ffi::Py_EnterRecursiveCall(c" while encoding an object to BSON".as_ptr()) } != 0 {
            return Err(raised(self.py));
        }
        let result = self.any_value(kind, value, was_converted, was_fallback);
        // SAFETY: as above.
        unsafe { ffi::Py_LeaveRecursiveCall() };
        result
    }

    #[cold]
    fn unknown(&self, value: &Bound<'py, PyAny>) -> Fault {
        if value.is_instance_of::<PyInt>() {
            return match value.str() {
                Ok(number) => found(
                    Kind::Overflow,
                    format!("cannot encode {}", shortened(&number.to_string_lossy())),
                    "MongoDB can only handle up to 8-byte ints; use Decimal128",
                ),
                // Python refuses to print ints of thousands of digits.
                Err(_) => {
                    found(Kind::Overflow, "cannot encode an int", "MongoDB can only handle up to 8-byte ints")
                }
            };
        }
        match value.repr() {
            Ok(repr) => found(
                Kind::Document,
                format!(
                    "cannot encode object: {}, of type: {}",
                    shortened(&repr.to_string_lossy()),
                    value.get_type()
                ),
                "",
            ),
            Err(error) => error.into(),
        }
    }

    /// Sets the type and writes the value.
    fn put(&mut self, kind: usize, code: u8, bytes: &[u8]) -> Result<(), Fault> {
        self.out[kind] = code;
        self.bytes(bytes)
    }

    /// The `_type_marker`, if it is an int: classes with a `__getattr__` that answers anything are not ours.
    fn marker(&self, value: &Bound<'py, PyAny>) -> Result<Option<i64>, Fault> {
        let Some(marker) = value.getattr_opt(&self.codec.types.name.type_marker)? else { return Ok(None) };
        // SAFETY: only the type is looked at.
        if unsafe { ffi::PyLong_CheckExact(marker.as_ptr()) } == 0 {
            return Ok(None);
        }
        Ok(marker.extract().ok())
    }

    /// Writes a value of a marked class; false when the marker is none of ours.
    fn marked(&mut self, kind: usize, value: &Bound<'py, PyAny>, marker: i64) -> Result<bool, Fault> {
        let name = &self.codec.types.name;
        match marker {
            marker::BINARY => {
                let subtype: u8 = value.getattr(&name.subtype)?.extract()?;
                self.out[kind] = 0x05;
                self.binary(subtype, value.cast::<PyBytes>().map_err(PyErr::from)?.as_bytes())?;
            }
            marker::OBJECT_ID => {
                let id = value.getattr(&name.binary)?;
                let id: [u8; 12] = fixed_bytes(&id, "binary")?;
                self.put(kind, 0x07, &id)?;
            }
            marker::DATETIME_MS => {
                let millis: i64 = value.call_method0("__int__")?.extract()?;
                self.put(kind, 0x09, &millis.to_le_bytes())?;
            }
            marker::REGEX => {
                self.regex(kind, &value.getattr(&name.pattern)?, &value.getattr(&name.flags)?)?
            }
            marker::CODE => {
                let scope = value.getattr(&name.scope)?;
                self.code(kind, value, &scope)?;
            }
            marker::TIMESTAMP => {
                let inc: u32 = value.getattr(&name.inc)?.extract()?;
                let time: u32 = value.getattr(&name.time)?.extract()?;
                self.put(kind, 0x11, &(u64::from(inc) | u64::from(time) << 32).to_le_bytes())?;
            }
            marker::INT64 => {
                let mut overflow = 0;
                // SAFETY: a live object; something that is no int sets an error.
                let number = unsafe { ffi::PyLong_AsLongLongAndOverflow(value.as_ptr(), &mut overflow) };
                if overflow != 0 {
                    return Err(self.unknown(value));
                }
                if number == -1 && PyErr::occurred(self.py) {
                    return Err(raised(self.py));
                }
                self.put(kind, 0x12, &number.to_le_bytes())?;
            }
            marker::DECIMAL128 => {
                let bid = value.getattr(&name.bid)?;
                let bid: [u8; 16] = fixed_bytes(&bid, "bid")?;
                self.put(kind, 0x13, &bid)?;
            }
            marker::DBREF => {
                let document = value.call_method0(&name.as_doc)?;
                self.out[kind] = 0x03;
                let check_keys = std::mem::replace(&mut self.check_keys, false);
                let result = self.any_mapping(&document, false);
                self.check_keys = check_keys;
                result?;
            }
            marker::RAW => {
                self.out[kind] = 0x03;
                self.raw(value)?;
            }
            marker::MAX_KEY => self.put(kind, 0x7F, &[])?,
            marker::MIN_KEY => self.put(kind, 0xFF, &[])?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn code(
        &mut self,
        kind: usize,
        value: &Bound<'py, PyAny>,
        scope: &Bound<'py, PyAny>,
    ) -> Result<(), Fault> {
        let text = value.cast::<PyString>().map_err(PyErr::from)?;
        // SAFETY: a str, held by `value`.
        let text = unsafe { self.utf8(text.as_ptr())? };
        if scope.is_none() {
            self.out[kind] = 0x0D;
            return self.text(text);
        }
        self.out[kind] = 0x0F;
        let start = self.out.len();
        self.out.extend_from_slice(&[0; 4]);
        self.text(text)?;
        let check_keys = std::mem::replace(&mut self.check_keys, false);
        let result = self.any_mapping(scope, false);
        self.check_keys = check_keys;
        result?;
        let length = (self.out.len() - start) as u32;
        self.out[start..start + 4].copy_from_slice(&length.to_le_bytes());
        Ok(())
    }

    /// Writes `bson.Regex` or `re.Pattern`: both have `pattern` and `flags`.
    fn regex(
        &mut self,
        kind: usize,
        pattern: &Bound<'py, PyAny>,
        flags: &Bound<'py, PyAny>,
    ) -> Result<(), Fault> {
        let flags: c_long = flags.extract()?;
        let bytes = match pattern.cast::<PyBytes>() {
            Ok(bytes) => {
                if std::str::from_utf8(bytes.as_bytes()).is_err() {
                    return Err(found(Kind::StringData, "regex patterns must be valid UTF-8", ""));
                }
                bytes.as_bytes()
            }
            // SAFETY: a str, held by `pattern`.
            Err(_) => unsafe { self.utf8(pattern.cast::<PyString>().map_err(PyErr::from)?.as_ptr())? },
        };
        if bytes.contains(&0) {
            return Err(found(Kind::Document, "regex patterns must not contain a NUL character", ""));
        }
        self.out[kind] = 0x0B;
        self.bytes(bytes)?;
        self.out.push(0);
        for (bit, letter) in [(2, b'i'), (4, b'l'), (8, b'm'), (16, b's'), (32, b'u'), (64, b'x')] {
            if flags & bit != 0 {
                self.out.push(letter);
            }
        }
        self.out.push(0);
        Ok(())
    }

    /// Writes the UUID of this number.
    fn uuid(&mut self, kind: usize, number: &Bound<'py, PyAny>) -> Result<(), Fault> {
        let number: u128 = number.extract()?;
        let mut bytes = number.to_be_bytes();
        let subtype = match self.codec.uuid {
            UuidRepresentation::Unspecified => {
                return Err(PyValueError::new_err(
                    "cannot encode native uuid.UUID with UuidRepresentation.UNSPECIFIED. UUIDs can be manually \
                     converted to bson.Binary instances using bson.Binary.from_uuid() or a different \
                     UuidRepresentation can be configured. See the documentation for UuidRepresentation for more \
                     information.",
                )
                .into());
            }
            UuidRepresentation::Standard => 4,
            other => {
                reorder(&mut bytes, other);
                3
            }
        };
        self.out[kind] = 0x05;
        self.binary(subtype, &bytes)
    }

    fn millis(&self, value: &Bound<'py, PyAny>) -> Result<i64, Fault> {
        // SAFETY: the caller checked that it is a datetime.
        unsafe {
            let is_utc = ffi::PyDateTime_DATE_GET_TZINFO(value.as_ptr()) == self.codec.types.utc.as_ptr();
            if is_utc && ffi::Py_TYPE(value.as_ptr()) == (*ffi::PyDateTimeAPI()).DateTimeType {
                return Ok(datetime::read(value.as_ptr()).0);
            }
        }
        Ok(datetime::to_millis(value)?)
    }

    /// Writes a document of any kind: a dict or a subclass, a raw document, or another mapping.
    pub(super) fn any_mapping(&mut self, document: &Bound<'py, PyAny>, is_top: bool) -> Result<(), Fault> {
        if !document.is_instance_of::<PyDict>() {
            if self.marker(document)? == Some(marker::RAW) {
                return self.raw(document);
            }
            if !document.is_instance(self.codec.types.mapping.bind(self.py))? {
                let repr = document.repr()?;
                return Err(
                    PyTypeError::new_err(format!("encoder expected a mapping type but got: {repr}")).into()
                );
            }
            return self.mapping(document, is_top);
        }
        if is_top && self.marker(document)? == Some(marker::RAW) {
            return self.raw(document);
        }
        // SAFETY: a dict, held by `document`.
        unsafe { self.dict(document.as_ptr(), is_top) }
    }

    /// Writes a mapping that is no dict, through its iterator and its items.
    fn mapping(&mut self, mapping: &Bound<'py, PyAny>, is_top: bool) -> Result<(), Fault> {
        let start = self.enter()?;
        let id_name = self.codec.types.name.id.bind(self.py);
        let mut has_id = false;
        if is_top && mapping.contains(id_name)? {
            has_id = true;
            let id = mapping.get_item(id_name)?;
            // SAFETY: held by `id`.
            unsafe { self.element(Name::Text(b"_id"), id.as_ptr())? };
        }
        for key in mapping.try_iter()? {
            let key = key?;
            if has_id && key.eq(id_name)? {
                continue;
            }
            let value = mapping.get_item(&key)?;
            // SAFETY: held by `key` and `value`.
            unsafe { self.pair(key.as_ptr(), value.as_ptr())? };
        }
        self.leave(start)
    }

    /// Writes the bytes of a raw document as they are.
    fn raw(&mut self, document: &Bound<'py, PyAny>) -> Result<(), Fault> {
        let raw = document.getattr(&self.codec.types.name.raw)?;
        if let Ok(bytes) = raw.cast::<PyBytes>() {
            return self.bytes(bytes.as_bytes());
        }
        let view = pyo3::buffer::PyBuffer::<u8>::get(&raw)?;
        self.bytes(&view.to_vec(self.py)?)
    }
}

fn fixed_bytes<const N: usize>(value: &Bound<'_, PyAny>, attribute: &str) -> Result<[u8; N], Fault> {
    let bytes = value.cast::<PyBytes>().map_err(PyErr::from)?.as_bytes();
    bytes.try_into().map_err(|_| {
        found(Kind::Document, format!("{attribute} of {} bytes", bytes.len()), format!("expected {N} bytes"))
    })
}

/// A repr cut to what a message can carry.
fn shortened(text: &str) -> String {
    const LIMIT: usize = 300;
    match text.char_indices().nth(LIMIT) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}
