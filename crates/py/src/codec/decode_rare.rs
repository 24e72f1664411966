//! BSON bytes to Python objects: the values that are rare or that call Python classes. The rules are those of `decode`.
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyMemoryView, PySlice, PyString, PyTuple};

use super::datetime;
use super::decode::Decoder;
use super::fault::{Fault, Kind, Problem, as_invalid, found, invalid, unknown_type};
use super::make::{self, Made, owned};
use super::object_id;
use super::options::{Codec, DatetimeConversion, UuidRepresentation};
use super::types::{own_types, uuid_types};

const UUID_LEGACY: u8 = 3;
const UUID: u8 = 4;
const OLD_BINARY: u8 = 2;

/// From this size on, a raw document inside another is a view of the outer one, as in PyMongo.
const RAW_VIEW_SIZE: usize = 4096;

impl Codec {
    /// Returns whether a date needs more than the plain `datetime` of these milliseconds.
    #[inline]
    pub(super) fn date_needs_care(&self, millis: i64) -> bool {
        millis < self.date_range.0 || millis > self.date_range.1 || self.dates == DatetimeConversion::Millis
    }
}

impl<'a, 'py> Decoder<'a, 'py> {
    #[inline(never)]
    pub(super) fn rare_value(&mut self, kind: u8, end: usize) -> Made<'py> {
        let (py, at) = (self.py, self.position);
        // Types without a class of their own first.
        match kind {
            0x05 => return self.binary(end),
            // Undefined.
            0x06 => return Ok(py.None().into_bound(py)),
            // Symbol.
            0x0E => {
                let bytes = self.string_bytes(end)?;
                return self.text(bytes, at);
            }
            0x0F => return self.code_with_scope(end),
            _ => {}
        }
        let types = own_types(py)?;
        let made = match kind {
            0x0B => {
                let pattern = self.cstring(end)?;
                let flags = self.regex_flags(end)?;
                types.regex.build([pattern, make::int(py, flags)?], py)
            }
            0x0C => {
                let bytes = self.string_bytes(end)?;
                let id = self.take(end)?;
                let collection = self.text(bytes, at)?;
                let id = object_id::of_bytes(py, id)?;
                return Ok(types.dbref.bind(py).call1((collection, id))?);
            }
            0x0D => {
                let bytes = self.string_bytes(end)?;
                let code = self.text(bytes, at)?;
                types.code.build([code, py.None().into_bound(py)], py)
            }
            0x11 => {
                let inc = u32::from_le_bytes(self.take(end)?);
                let time = u32::from_le_bytes(self.take(end)?);
                types.timestamp.build([make::natural(py, time.into())?, make::natural(py, inc.into())?], py)
            }
            0x13 => {
                let bytes = self.take::<16>(end)?;
                if !types.decimal128.is_direct() {
                    let class = types.decimal128.class(py);
                    let bytes = super::bytes_of(py, &bytes)?;
                    return Ok(class.call_method1(&self.codec.types.name.from_bid, (bytes,))?);
                }
                let number = u128::from_le_bytes(bytes);
                let (high, low) = ((number >> 64) as u64, number as u64);
                types.decimal128.build([make::natural(py, high)?, make::natural(py, low)?], py)
            }
            0x7F => Ok(types.max_key.bind(py).clone()),
            0xFF => Ok(types.min_key.bind(py).clone()),
            other => return Err(unknown_type(at, other)),
        };
        made.map_err(|fault| self.invalid_value(fault, at))
    }

    /// Turns an error of the interpreter or of a class into an error of the bytes at this offset.
    #[cold]
    #[inline(never)]
    #[expect(clippy::boxed_local, reason = "errors travel boxed, so every caller has it so")]
    pub(super) fn invalid_value(&self, fault: Fault, at: usize) -> Fault {
        match *fault {
            Problem::Python(error) => as_invalid(self.py, error, at),
            found => Box::new(found),
        }
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

    fn cstring(&mut self, end: usize) -> Made<'py> {
        let at = self.position;
        let bytes = self.cstring_bytes(end)?;
        self.text(bytes, at)
    }

    fn binary(&mut self, end: usize) -> Made<'py> {
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
                    format!("expected inner length {expected} in binary of subtype 2, got {inner}"),
                ));
            }
            bytes = rest;
        }
        if subtype == UUID_LEGACY || subtype == UUID {
            let whole = <[u8; 16]>::try_from(bytes);
            let is_wanted = uuid_value(whole.unwrap_or_default(), subtype, self.codec.uuid);
            match (whole, is_wanted) {
                (Ok(_), Some(value)) => return self.uuid(value),
                (Err(_), Some(_)) => {
                    return Err(invalid(at, format!("expected 16 bytes of a UUID, got {length}")));
                }
                // Other drivers store any length under this subtype; `Binary` can hold it.
                (_, None) => {}
            }
        }
        let data = super::bytes_of(self.py, bytes)?.into_any();
        if subtype == 0 {
            return Ok(data);
        }
        let subtype = make::short_int(self.py, subtype.into())?;
        own_types(self.py)?.binary.build([data, subtype], self.py)
    }

    fn regex_flags(&mut self, end: usize) -> Result<i64, Fault> {
        let at = self.position;
        let letters = self.cstring_bytes(end)?;
        if !letters.is_ascii() {
            // Decoded only for the error, or for the handler that accepts it: options are ASCII.
            self.text(letters, at)?;
        }
        Ok(regex_flags(letters))
    }

    fn uuid(&self, value: u128) -> Made<'py> {
        let py = self.py;
        let uuid = uuid_types(py)?;
        let number = value.into_pyobject(py).map_err(PyErr::from)?.into_any();
        if !uuid.class.is_direct() {
            let keywords = PyDict::new(py);
            keywords.set_item(&self.codec.types.name.int, number)?;
            return Ok(uuid.class.class(py).call((), Some(&keywords))?);
        }
        uuid.class.build([number, uuid.safe_unknown.bind(py).clone()], py)
    }

    fn code_with_scope(&mut self, limit: usize) -> Made<'py> {
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
        let scope = self.next(end)?;
        if self.position != end {
            return Err(invalid(self.position, "scope ends before its code does"));
        }
        own_types(self.py)?.code.build([code, scope], self.py)
    }

    /// `RawBSONDocument` keeps the bytes: the caller's own object, a view of a large part of it, or a copy.
    pub(super) fn raw(&mut self, class: &Py<PyAny>, start: usize, end: usize) -> Made<'py> {
        self.position = end;
        let (py, size) = (self.py, end + 1 - start);
        let bytes = match self.owner {
            Some(owner) if size == self.data.len() && owner.is_exact_instance_of::<PyBytes>() => {
                owner.clone()
            }
            Some(owner) if size >= RAW_VIEW_SIZE && size < self.data.len() => {
                // Neither index exceeds isize::MAX, since no object does.
                let range = PySlice::new(py, start as isize, end as isize + 1, 1);
                PyMemoryView::from(owner)?.get_item(range)?
            }
            _ => super::bytes_of(py, &self.data[start..=end])?.into_any(),
        };
        Ok(class.bind(py).call1((bytes, &self.codec.options))?)
    }

    /// Turns a document with `$ref` and `$id` into a DBRef, unless their types show that it is not one.
    #[inline(never)]
    pub(super) fn dbref(&self, made: Bound<'py, PyAny>) -> Made<'py> {
        let name = &self.codec.types.name;
        let collection = made.get_item(&name.dollar_ref)?;
        let id = made.get_item(&name.dollar_id)?;
        let has_database = made.contains(&name.dollar_db)?;
        let database =
            if has_database { made.get_item(&name.dollar_db)? } else { self.py.None().into_bound(self.py) };
        if !collection.is_instance_of::<PyString>()
            || !(database.is_none() || database.is_instance_of::<PyString>())
        {
            return Ok(made);
        }
        made.del_item(&name.dollar_ref)?;
        made.del_item(&name.dollar_id)?;
        if has_database {
            made.del_item(&name.dollar_db)?;
        }
        Ok(own_types(self.py)?.dbref.bind(self.py).call1((collection, id, database, made))?)
    }

    /// Makes dates that are aware, out of range or requested as `DatetimeMS`.
    #[inline(never)]
    pub(super) fn rare_date(&self, mut millis: i64) -> Made<'py> {
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
        if as_millis {
            return own_types(self.py)?.datetime_ms.build([make::int(self.py, millis)?], self.py);
        }
        let none = self.py.None();
        let zone = if codec.tz_aware { &codec.types.utc } else { &none };
        // SAFETY: the milliseconds are in range, or they were refused above; `types` imported the C API of datetime; the
        // zone is alive meanwhile.
        let made = unsafe { owned(self.py, datetime::create(millis, zone.as_ptr()))? };
        let Some(tzinfo) = codec.tzinfo.as_ref().filter(|_| codec.tz_aware) else { return Ok(made) };
        match made.call_method1(&codec.types.name.astimezone, (tzinfo,)) {
            Ok(local) => Ok(local),
            Err(error) if error.is_instance_of::<pyo3::exceptions::PyOverflowError>(self.py) => {
                Err(out_of_range(millis))
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Hands the value to the user's type decoder for its type, if there is one.
    #[inline(never)]
    pub(super) fn convert(&self, value: Bound<'py, PyAny>) -> Made<'py> {
        let Some(decoders) = &self.codec.decoders else { return Ok(value) };
        match decoders.bind(self.py).get_item(value.get_type())? {
            Some(converter) => Ok(converter.call1((value,))?),
            None => Ok(value),
        }
    }

    /// Creates an `Int64`.
    #[inline]
    pub(super) fn int64(&self, value: i64) -> Made<'py> {
        let class = self.codec.types.int64.bind(self.py).as_type_ptr();
        let arguments = PyTuple::new(self.py, [make::int(self.py, value)?])?;
        // SAFETY: `int.__new__` takes a subclass of int, which the class is, and a tuple, which outlives the call; it gives a
        // new reference or null with the error set.
        unsafe {
            match ffi::PyLong_Type.tp_new {
                Some(new) => owned(self.py, new(class, arguments.as_ptr(), std::ptr::null_mut())),
                None => Ok(arguments.get_item(0)?),
            }
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

fn regex_flags(letters: &[u8]) -> i64 {
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

/// Returns the UUID of sixteen bytes, or None if the representation keeps them as `Binary`.
fn uuid_value(mut bytes: [u8; 16], subtype: u8, representation: UuidRepresentation) -> Option<u128> {
    match (representation, subtype) {
        (UuidRepresentation::Standard, UUID) | (UuidRepresentation::PythonLegacy, UUID_LEGACY) => {}
        (other, UUID_LEGACY) if reorder(&mut bytes, other) => {}
        _ => return None,
    }
    Some(u128::from_be_bytes(bytes))
}

/// Converts a UUID's bytes to and from the byte order of the old Java or C# driver; false for other representations.
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
