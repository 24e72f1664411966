//! Python objects to BSON bytes: BSON's own classes, foreign classes with a `_type_marker`, subclasses, mappings,
//! and the user's type encoders. Everything here may run Python code, so every object is held by a reference.
use std::ffi::c_long;

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{
    PyBool, PyBytes, PyDate, PyDateTime, PyDelta, PyDict, PyFloat, PyFrozenSet, PyInt, PyList, PySet,
    PyString, PyTime, PyTuple, PyTzInfoAccess,
};

use super::datetime;
use super::decode_rare::reorder;
use super::encode::{Encoder, Name};
use super::fault::{Fault, Kind, found, raised};
use super::make;
use super::options::UuidRepresentation;
use super::types::{is_decimal, is_pattern, is_uuid, known_uuid_types, own_types};

/// `_type_marker` of the BSON classes of this package and of other libraries.
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
    /// Writes a value, in most cases of one of this package's classes, whose fields are read directly.
    #[inline(never)]
    pub(super) fn own_value(&mut self, kind: usize, value: &Bound<'py, PyAny>) -> Result<(), Fault> {
        let types = own_types(self.py)?;
        if let Some(scope) = types.code.read(value, 0) {
            return self.code(kind, value, &scope);
        }
        // The slow path handles anything unusual, errors included, from the start.
        if let Some(subtype) = types.binary.read_attribute(value, 0)
            && let (Ok(subtype), Ok(bytes)) = (subtype.extract::<u8>(), value.cast::<PyBytes>())
        {
            self.out[kind] = 0x05;
            return self.binary(subtype, bytes.as_bytes());
        }
        if let Some(time) = types.timestamp.read(value, 0)
            && let Some(inc) = types.timestamp.read(value, 1)
            && let (Some(time), Some(inc)) = (short(&time), short(&inc))
        {
            return self.put(kind, 0x11, &(u64::from(inc) | u64::from(time) << 32).to_le_bytes());
        }
        if let Some(high) = types.decimal128.read(value, 0)
            && let Some(low) = types.decimal128.read(value, 1)
            && let (Some(high), Some(low)) = (make::natural_of(&high), make::natural_of(&low))
        {
            return self.put(kind, 0x13, &(u128::from(low) | u128::from(high) << 64).to_le_bytes());
        }
        if let Some(millis) = types.datetime_ms.read(value, 0)
            && let Ok(Some(millis)) = make::long_of(&millis)
        {
            return self.put(kind, 0x09, &millis.to_le_bytes());
        }
        if let Some(uuid) = known_uuid_types(self.py)
            && let Some(number) = uuid.class.read(value, 0)
        {
            return self.uuid(kind, &number);
        }
        if let Some(pattern) = types.regex.read(value, 0)
            && let Some(flags) = types.regex.read(value, 1)
        {
            return self.regex(kind, &pattern, &flags);
        }
        let class = value.get_type_ptr();
        if class == types.min_key.bind(self.py).get_type_ptr() {
            return self.put(kind, 0xFF, &[]);
        }
        if class == types.max_key.bind(self.py).get_type_ptr() {
            return self.put(kind, 0x7F, &[]);
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
            if let Some(number) = make::long_of(value)? {
                return match i32::try_from(number) {
                    Ok(number) => self.put(kind, 0x10, &number.to_le_bytes()),
                    Err(_) => self.put(kind, 0x12, &number.to_le_bytes()),
                };
            }
            // Too large: the type encoder or the fallback may handle it.
        } else if let Ok(number) = value.cast::<PyFloat>() {
            return self.put(kind, 0x01, &number.value().to_le_bytes());
        } else if value.is_none() {
            return self.put(kind, 0x0A, &[]);
        } else if let Ok(dict) = value.cast::<PyDict>() {
            self.out[kind] = 0x03;
            return self.dict(dict, false);
        } else if let Ok(list) = value.cast::<PyList>() {
            self.out[kind] = 0x04;
            return self.list(list);
        } else if let Ok(tuple) = value.cast::<PyTuple>() {
            self.out[kind] = 0x04;
            return self.tuple(tuple);
        } else if let Ok(bytes) = value.cast::<PyBytes>() {
            self.out[kind] = 0x05;
            return self.binary(0, bytes.as_bytes());
        } else if let Ok(text) = value.cast::<PyString>() {
            self.out[kind] = 0x02;
            return self.text(self.utf8_of(text)?);
        } else if let Ok(date) = value.cast::<PyDateTime>() {
            let millis = self.millis(date)?;
            return self.put(kind, 0x09, &millis.to_le_bytes());
        } else if is_pattern(value)? {
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

    /// Tries the user's encoders.
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

    /// Encodes an encoder's result; the encoder may have been called by another encoder's result.
    fn again(
        &mut self,
        kind: usize,
        value: &Bound<'py, PyAny>,
        was_converted: bool,
        was_fallback: bool,
    ) -> Result<(), Fault> {
        // SAFETY: `py` shows that the GIL is held; every path below leaves it again.
        if unsafe { ffi::Py_EnterRecursiveCall(c" while encoding an object to BSON".as_ptr()) } != 0 {
            return Err(raised(self.py));
        }
        let result = self.any_value(kind, value, was_converted, was_fallback);
        // SAFETY: `py` still shows that the GIL is held. The enter above succeeded, or this returned there, and no
        // return lies between, so it is left once.
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
                remedy(value),
            ),
            Err(error) => error.into(),
        }
    }

    /// Sets the type and writes the value.
    fn put(&mut self, kind: usize, code: u8, bytes: &[u8]) -> Result<(), Fault> {
        self.out[kind] = code;
        self.bytes(bytes)
    }

    /// Returns the `_type_marker`, if it is an int: a `__getattr__` may return anything for it.
    fn marker(&self, value: &Bound<'py, PyAny>) -> Result<Option<i64>, Fault> {
        let Some(marker) = value.getattr_opt(&self.codec.types.name.type_marker)? else { return Ok(None) };
        Ok(if marker.is_exact_instance_of::<PyInt>() { marker.extract().ok() } else { None })
    }

    /// Writes a value of a marked class; false if the marker is unknown.
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
                let Some(number) = make::long_of(value)? else { return Err(self.unknown(value)) };
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
        let text = self.utf8_of(value.cast::<PyString>().map_err(PyErr::from)?)?;
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
            Err(_) => self.utf8_of(pattern.cast::<PyString>().map_err(PyErr::from)?)?,
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

    fn millis(&self, date: &Bound<'py, PyDateTime>) -> Result<i64, Fault> {
        let is_utc = date.get_tzinfo().is_some_and(|zone| zone.is(&self.codec.types.utc));
        if is_utc && date.is_exact_instance_of::<PyDateTime>() {
            return Ok(datetime::read_utc(date).0);
        }
        Ok(datetime::to_millis(date)?)
    }

    /// Writes a document of any kind: a dict or a subclass, a raw document, or another mapping.
    pub(super) fn any_mapping(&mut self, document: &Bound<'py, PyAny>, is_top: bool) -> Result<(), Fault> {
        let Ok(dict) = document.cast::<PyDict>() else {
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
        };
        if is_top && self.marker(document)? == Some(marker::RAW) {
            return self.raw(document);
        }
        self.dict(dict, is_top)
    }

    /// Writes a mapping that is not a dict, through its iterator and its items.
    fn mapping(&mut self, mapping: &Bound<'py, PyAny>, is_top: bool) -> Result<(), Fault> {
        let start = self.enter()?;
        let id_name = self.codec.types.name.id.bind(self.py);
        let mut has_id = false;
        if is_top && mapping.contains(id_name)? {
            has_id = true;
            self.field(Name::Text(b"_id"), &mapping.get_item(id_name)?)?;
        }
        for key in mapping.try_iter()? {
            let key = key?;
            if has_id && key.eq(id_name)? {
                continue;
            }
            let value = mapping.get_item(&key)?;
            self.pair(&key, &value)?;
        }
        self.leave(start)
    }

    /// Writes the bytes of a raw document unchanged.
    fn raw(&mut self, document: &Bound<'py, PyAny>) -> Result<(), Fault> {
        let raw = document.getattr(&self.codec.types.name.raw)?;
        if let Ok(bytes) = raw.cast::<PyBytes>() {
            return self.bytes(bytes.as_bytes());
        }
        let view = pyo3::buffer::PyBuffer::<u8>::get(&raw)?;
        self.bytes(&view.to_vec(self.py)?)
    }
}

/// An unsigned number of 32 bits.
fn short(number: &Bound<'_, PyAny>) -> Option<u32> {
    make::long_of(number).ok()?.and_then(|number| u32::try_from(number).ok())
}

fn fixed_bytes<const N: usize>(value: &Bound<'_, PyAny>, attribute: &str) -> Result<[u8; N], Fault> {
    let bytes = value.cast::<PyBytes>().map_err(PyErr::from)?.as_bytes();
    bytes.try_into().map_err(|_| {
        found(Kind::Document, format!("{attribute} of {} bytes", bytes.len()), format!("expected {N} bytes"))
    })
}

/// A repr, shortened to fit into a message.
fn shortened(text: &str) -> String {
    const LIMIT: usize = 300;
    match text.char_indices().nth(LIMIT) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// Suggests how to store a value that BSON has no type for.
#[cold]
fn remedy(value: &Bound<'_, PyAny>) -> &'static str {
    if value.is_instance_of::<PySet>() || value.is_instance_of::<PyFrozenSet>() {
        "BSON has no sets; use a list"
    } else if value.is_instance_of::<PyDate>() {
        "BSON has no dates without a time; use datetime.datetime"
    } else if value.is_instance_of::<PyTime>() || value.is_instance_of::<PyDelta>() {
        "BSON has moments only; use a number of seconds, or text"
    } else if is_decimal(value).unwrap_or(false) {
        "use Decimal128"
    } else {
        "use a type that BSON has, or give the codec options an encoder for this one"
    }
}
