//! BSON bytes to Python objects: the values that are rare or that call Python classes. Same rules as `decode`.
use std::ffi::c_void;

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyMemoryView, PySlice, PyString};

use super::datetime;
use super::decode::Decoder;
use super::fault::{Fault, Kind, as_invalid, found, invalid, raised, unknown_type};
use super::object_id;
use super::options::{Codec, DatetimeConversion, UuidRepresentation};
use super::text;
use super::types::uuid_types;

const UUID_LEGACY: u8 = 3;
const UUID: u8 = 4;
const OLD_BINARY: u8 = 2;

/// From this size on a raw document inside another is a view of it, as in PyMongo.
const RAW_VIEW_SIZE: usize = 4096;

impl Codec {
    /// Tells whether a date is not simply the `datetime` of these milliseconds.
    #[inline]
    pub(super) fn date_needs_care(&self, millis: i64) -> bool {
        millis < self.date_range.0 || millis > self.date_range.1 || self.dates == DatetimeConversion::Millis
    }
}

impl<'a, 'py> Decoder<'a, 'py> {
    #[inline(never)]
    pub(super) fn rare_value(&mut self, kind: u8, end: usize) -> Result<*mut ffi::PyObject, Fault> {
        let at = self.position;
        let types = self.codec.types;
        // SAFETY: the GIL is held; owned references are moved into what is built.
        let made = unsafe {
            match kind {
                0x05 => return self.binary(end),
                // Undefined.
                0x06 => self.py.None().into_ptr(),
                0x0B => {
                    let pattern = self.cstring(end)?;
                    let flags = match self.regex_flags(end) {
                        Ok(flags) => flags,
                        Err(fault) => {
                            ffi::Py_DECREF(pattern);
                            return Err(fault);
                        }
                    };
                    let flags = self.owned(ffi::PyLong_FromLong(flags))?;
                    types.regex.build([pattern, flags])
                }
                0x0C => {
                    let bytes = self.string_bytes(end)?;
                    let id = self.take(end)?;
                    let collection = Bound::from_owned_ptr(self.py, self.text(bytes, at)?);
                    let id = object_id::create(self.py, self.object_id, id);
                    let id = Bound::from_owned_ptr_or_err(self.py, id)?;
                    types.dbref.bind(self.py).call1((collection, id))?.into_ptr()
                }
                0x0D => {
                    let bytes = self.string_bytes(end)?;
                    let code = self.text(bytes, at)?;
                    types.code.build([code, self.py.None().into_ptr()])
                }
                // Symbol.
                0x0E => {
                    let bytes = self.string_bytes(end)?;
                    self.text(bytes, at)?
                }
                0x0F => return self.code_with_scope(end),
                0x11 => {
                    let inc = u32::from_le_bytes(self.take(end)?);
                    let time = u32::from_le_bytes(self.take(end)?);
                    let time = self.owned(ffi::PyLong_FromUnsignedLong(time.into()))?;
                    let inc = self.owned(ffi::PyLong_FromUnsignedLong(inc.into()))?;
                    types.timestamp.build([time, inc])
                }
                0x13 => {
                    let bytes = self.take::<16>(end)?;
                    if !types.decimal128.is_direct() {
                        let class = types.decimal128.class(self.py);
                        let bytes = super::bytes_of(self.py, &bytes)?;
                        return Ok(class.call_method1(&types.name.from_bid, (bytes,))?.into_ptr());
                    }
                    let number = u128::from_le_bytes(bytes);
                    let high = self.owned(ffi::PyLong_FromUnsignedLongLong((number >> 64) as u64))?;
                    let low = self.owned(ffi::PyLong_FromUnsignedLongLong(number as u64))?;
                    types.decimal128.build([high, low])
                }
                0x7F => types.max_key.clone_ref(self.py).into_ptr(),
                0xFF => types.min_key.clone_ref(self.py).into_ptr(),
                other => {
                    return Err(unknown_type(at, other));
                }
            }
        };
        if made.is_null() {
            return Err(as_invalid(self.py, PyErr::fetch(self.py), at));
        }
        Ok(made)
    }

    fn owned(&self, made: *mut ffi::PyObject) -> Result<*mut ffi::PyObject, Fault> {
        if made.is_null() { Err(raised(self.py)) } else { Ok(made) }
    }

    fn text(&self, bytes: &[u8], at: usize) -> Result<*mut ffi::PyObject, Fault> {
        // SAFETY: the GIL is held.
        let made = unsafe { text::decode(bytes, self.codec.unicode_errors.as_deref()) };
        if made.is_null() { Err(as_invalid(self.py, PyErr::fetch(self.py), at)) } else { Ok(made) }
    }

    /// The bytes up to the next NUL, which is stepped over.
    fn cstring_bytes(&mut self, end: usize) -> Result<&'a [u8], Fault> {
        let rest = &self.data[self.position..end];
        let Some(length) = memchr::memchr(0, rest) else {
            return Err(invalid(self.position, "text has no end"));
        };
        self.position += length + 1;
        Ok(&rest[..length])
    }

    fn cstring(&mut self, end: usize) -> Result<*mut ffi::PyObject, Fault> {
        let at = self.position;
        let bytes = self.cstring_bytes(end)?;
        self.text(bytes, at)
    }

    fn binary(&mut self, end: usize) -> Result<*mut ffi::PyObject, Fault> {
        let at = self.position;
        let length = self.length(end)?;
        let [subtype] = self.take(end)?;
        if length > end - self.position {
            return Err(invalid(
                at,
                format!(
                    "invalid length or type code: binary length {length}, with {} bytes left",
                    end - self.position
                ),
            ));
        }
        let mut bytes = &self.data[self.position..self.position + length];
        self.position += length;
        if subtype == OLD_BINARY {
            let Some((inner, rest)) = bytes.split_first_chunk::<4>() else {
                return Err(invalid(at, "binary of subtype 2 has no inner length"));
            };
            let inner = u32::from_le_bytes(*inner) as usize;
            if inner != rest.len() {
                let expected = rest.len();
                return Err(invalid(
                    at,
                    format!("binary of subtype 2: inner length {inner}, expected {expected}"),
                ));
            }
            bytes = rest;
        }
        if subtype == UUID_LEGACY || subtype == UUID {
            let whole = <[u8; 16]>::try_from(bytes);
            let is_wanted = uuid_value(whole.unwrap_or_default(), subtype, self.codec.uuid);
            match (whole, is_wanted) {
                (Ok(_), Some(value)) => return self.uuid(value),
                (Err(_), Some(_)) => return Err(invalid(at, format!("UUID of {length} bytes, expected 16"))),
                // Other drivers store any length under this subtype; as `Binary` it can be read.
                (_, None) => {}
            }
        }
        // SAFETY: the GIL is held; owned references are moved into what is built.
        unsafe {
            let data = ffi::PyBytes_FromStringAndSize(bytes.as_ptr().cast(), bytes.len() as _);
            let data = self.owned(data)?;
            if subtype == 0 {
                return Ok(data);
            }
            let subtype = ffi::PyLong_FromLong(subtype.into());
            if subtype.is_null() {
                ffi::Py_DECREF(data);
                return Err(raised(self.py));
            }
            let made = self.codec.types.binary.build([data, subtype]);
            self.owned(made)
        }
    }

    fn regex_flags(&mut self, end: usize) -> Result<std::ffi::c_long, Fault> {
        let at = self.position;
        let letters = self.cstring_bytes(end)?;
        if !letters.is_ascii() && std::str::from_utf8(letters).is_err() {
            return Err(invalid(at, "options of a regular expression that are not UTF-8"));
        }
        Ok(regex_flags(letters))
    }

    fn uuid(&self, value: u128) -> Result<*mut ffi::PyObject, Fault> {
        let uuid = uuid_types(self.py)?;
        let number = value.into_pyobject(self.py).map_err(PyErr::from)?.into_ptr();
        if !uuid.class.is_direct() {
            // SAFETY: `number` is owned.
            let number = unsafe { Bound::from_owned_ptr(self.py, number) };
            let keywords = PyDict::new(self.py);
            keywords.set_item(&self.codec.types.name.int, number)?;
            return Ok(uuid.class.class(self.py).call((), Some(&keywords))?.into_ptr());
        }
        // SAFETY: both references are owned.
        let made = unsafe { uuid.class.build([number, uuid.safe_unknown.clone_ref(self.py).into_ptr()]) };
        self.owned(made)
    }

    fn code_with_scope(&mut self, limit: usize) -> Result<*mut ffi::PyObject, Fault> {
        let start = self.position;
        let length = self.length(limit)?;
        if length < 4 || length > limit - start {
            return Err(invalid(
                start,
                format!(
                    "invalid length or type code: code length {length}, with {} bytes left",
                    limit - start
                ),
            ));
        }
        let end = start + length;
        let at = self.position;
        let bytes = self.string_bytes(end)?;
        let code = self.text(bytes, at)?;
        match self.document(end) {
            // SAFETY: both references are owned.
            Ok(scope) if self.position == end => unsafe {
                let made = self.codec.types.code.build([code, scope]);
                self.owned(made)
            },
            Ok(scope) => {
                // SAFETY: both references are owned.
                unsafe {
                    ffi::Py_DECREF(code);
                    ffi::Py_DECREF(scope);
                }
                Err(invalid(self.position, "scope ends before its code does"))
            }
            Err(fault) => {
                // SAFETY: `code` is owned.
                unsafe { ffi::Py_DECREF(code) };
                Err(fault)
            }
        }
    }

    /// `RawBSONDocument` keeps the bytes: the caller's own object, a view of a large part of it, or a copy.
    pub(super) fn raw(
        &mut self,
        class: &Py<PyAny>,
        start: usize,
        end: usize,
    ) -> Result<*mut ffi::PyObject, Fault> {
        self.position = end;
        let (py, size) = (self.py, end + 1 - start);
        let bytes = match self.owner {
            Some(owner) if size == self.data.len() && owner.is_exact_instance_of::<PyBytes>() => {
                owner.clone()
            }
            Some(owner) if size >= RAW_VIEW_SIZE && size < self.data.len() => {
                // Neither index is over isize::MAX, which no object exceeds.
                let range = PySlice::new(py, start as isize, end as isize + 1, 1);
                PyMemoryView::from(owner)?.get_item(range)?
            }
            _ => super::bytes_of(py, &self.data[start..=end])?.into_any(),
        };
        let made = class.bind(py).call1((bytes, &self.codec.options))?;
        Ok(made.into_ptr())
    }

    /// Turns a document with `$ref` and `$id` into a DBRef, unless their types say that it is none. Takes over `made`.
    #[inline(never)]
    pub(super) fn dbref(&self, made: *mut ffi::PyObject) -> Result<*mut ffi::PyObject, Fault> {
        let types = self.codec.types;
        let name = &types.name;
        // SAFETY: `made` is owned.
        let made = unsafe { Bound::from_owned_ptr(self.py, made) };
        let collection = made.get_item(&name.dollar_ref)?;
        let id = made.get_item(&name.dollar_id)?;
        let has_database = made.contains(&name.dollar_db)?;
        let database =
            if has_database { made.get_item(&name.dollar_db)? } else { self.py.None().into_bound(self.py) };
        if !collection.is_instance_of::<PyString>()
            || !(database.is_none() || database.is_instance_of::<PyString>())
        {
            return Ok(made.into_ptr());
        }
        made.del_item(&name.dollar_ref)?;
        made.del_item(&name.dollar_id)?;
        if has_database {
            made.del_item(&name.dollar_db)?;
        }
        Ok(types.dbref.bind(self.py).call1((collection, id, database, made))?.into_ptr())
    }

    /// Dates that are aware, out of range or wanted as `DatetimeMS`.
    #[inline(never)]
    pub(super) fn rare_date(&self, mut millis: i64) -> Result<*mut ffi::PyObject, Fault> {
        let codec = self.codec;
        let (first, last) = codec.date_range;
        let is_outside = millis < first || millis > last;
        let as_millis = match codec.dates {
            DatetimeConversion::Millis => true,
            DatetimeConversion::Auto => is_outside,
            DatetimeConversion::Clamp => {
                millis = millis.clamp(first, last);
                false
            }
            DatetimeConversion::Datetime if is_outside => return Err(out_of_range(millis)),
            DatetimeConversion::Datetime => false,
        };
        // SAFETY: the GIL is held, `millis` is in range where a datetime is made, and `types` imported the C API.
        unsafe {
            if as_millis {
                let number = self.owned(ffi::PyLong_FromLongLong(millis))?;
                return self.owned(codec.types.datetime_ms.build([number]));
            }
            if !codec.tz_aware {
                return self.owned(datetime::create(millis, ffi::Py_None()));
            }
            let aware = self.owned(datetime::create(millis, codec.types.utc.as_ptr()))?;
            let Some(tzinfo) = &codec.tzinfo else { return Ok(aware) };
            let aware = Bound::from_owned_ptr(self.py, aware);
            match aware.call_method1(&codec.types.name.astimezone, (tzinfo,)) {
                Ok(local) => Ok(local.into_ptr()),
                Err(error) if error.is_instance_of::<pyo3::exceptions::PyOverflowError>(self.py) => {
                    Err(out_of_range(millis))
                }
                Err(error) => Err(error.into()),
            }
        }
    }

    /// Hands the value to the user's type decoder for its type, if there is one. Takes over `value`.
    #[inline(never)]
    pub(super) fn convert(&self, value: *mut ffi::PyObject) -> Result<*mut ffi::PyObject, Fault> {
        let Some(decoders) = &self.codec.decoders else { return Ok(value) };
        // SAFETY: `value` is owned; the converter is kept alive while it runs.
        unsafe {
            let value = Bound::from_owned_ptr(self.py, value);
            let converter =
                ffi::PyDict_GetItemWithError(decoders.as_ptr(), ffi::Py_TYPE(value.as_ptr()).cast());
            if converter.is_null() {
                if !ffi::PyErr_Occurred().is_null() {
                    return Err(raised(self.py));
                }
                return Ok(value.into_ptr());
            }
            let converter = Bound::from_borrowed_ptr(self.py, converter);
            Ok(converter.call1((value,))?.into_ptr())
        }
    }

    /// Creates an `Int64`: a new reference, or null with the error set.
    #[inline]
    pub(super) fn int64(&self, value: i64) -> *mut ffi::PyObject {
        let class = self.codec.types.int64.as_ptr().cast::<ffi::PyTypeObject>();
        // SAFETY: the GIL is held; `int.__new__` takes a subclass of int and a tuple, which is released.
        unsafe {
            let plain = ffi::PyLong_FromLongLong(value);
            if plain.is_null() {
                return plain;
            }
            let arguments = ffi::PyTuple_New(1);
            if arguments.is_null() {
                ffi::Py_DECREF(plain);
                return arguments;
            }
            ffi::PyTuple_SET_ITEM(arguments, 0, plain);
            let made = match ffi::PyLong_Type.tp_new {
                Some(new) => new(class, arguments, std::ptr::null_mut::<c_void>().cast()),
                None => std::ptr::null_mut(),
            };
            ffi::Py_DECREF(arguments);
            made
        }
    }
}

#[cold]
fn out_of_range(millis: i64) -> Fault {
    found(
        Kind::Bson,
        format!("date value out of range: {millis} ms"),
        "a datetime holds the years 1 to 9999; use CodecOptions(datetime_conversion=DatetimeConversion.DATETIME_AUTO) \
         or MongoClient(datetime_conversion='DATETIME_AUTO')",
    )
}

fn regex_flags(letters: &[u8]) -> std::ffi::c_long {
    letters.iter().fold(0, |flags, letter| {
        flags
            | match letter {
                b'i' => 2,
                b'l' => 4,
                b'm' => 8,
                b's' => 16,
                b'u' => 32,
                b'x' => 64,
                _ => 0,
            }
    })
}

/// The UUID of sixteen bytes, or None where the representation wants them as `Binary`.
fn uuid_value(mut bytes: [u8; 16], subtype: u8, representation: UuidRepresentation) -> Option<u128> {
    match (representation, subtype) {
        (UuidRepresentation::Standard, UUID) | (UuidRepresentation::PythonLegacy, UUID_LEGACY) => {}
        (other, UUID_LEGACY) if reorder(&mut bytes, other) => {}
        _ => return None,
    }
    Some(u128::from_be_bytes(bytes))
}

/// Swaps between a UUID's bytes and the order of the old Java or C# driver; false for other representations.
pub(super) fn reorder(bytes: &mut [u8; 16], representation: UuidRepresentation) -> bool {
    match representation {
        UuidRepresentation::JavaLegacy => {
            bytes[..8].reverse();
            bytes[8..].reverse();
        }
        UuidRepresentation::CsharpLegacy => {
            bytes[..4].reverse();
            bytes[4..6].reverse();
            bytes[6..8].reverse();
        }
        _ => return false,
    }
    true
}
