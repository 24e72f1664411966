//! Python objects to extended JSON text, as `json.dumps` lays it out. For values of this package's rare classes,
//! `_json_write.write` is called, and its result is written as plain JSON.
use mangonel_bson::datetime::{is_relaxed, write_iso};
use mangonel_bson::extjson::base64;
use mangonel_bson::extjson::python::{push_float, push_string};
use mangonel_bson::{Decimal128, ObjectId};
use pyo3::exceptions::PyMemoryError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList, PyString, PyTuple};

use super::super::layout::Fields;
use super::super::types::{Types, is_pattern, is_uuid, own_types};
use super::super::{datetime, make, object_id, text};
use super::{CANONICAL, Found, LEGACY, MAX_DEPTH, Stop, of_call};

/// The values of `DatetimeRepresentation`.
const LEGACY_DATE: i64 = 0;
const ISO8601: i64 = 2;

/// The layout of the text.
pub(super) struct Style<'s> {
    pub mode: i64,
    pub dates: i64,
    pub is_strict_long: bool,
    pub is_ascii: bool,
    pub between: &'s [u8],
    pub after_key: &'s [u8],
}

/// In texts below this length, every character is assumed to need an escape; none are counted.
const SHORT: usize = 1024;

/// Returns how many bytes a text takes at most.
fn most_of(text: &[u8], is_ascii: bool) -> usize {
    if text.len() <= SHORT {
        return text.len() * 6;
    }
    let escaped = |byte: &u8| match byte {
        b'"' | b'\\' => 2,
        0..0x20 | 0x7F => 6,
        0x80.. if !is_ascii => 1,
        // The first byte of a character counts for the whole character, as one or two units of UTF-16.
        0x80..0xC0 => 0,
        0xC0..0xF0 => 6,
        0xF0.. => 12,
        _ => 1,
    };
    text.iter().map(escaped).sum()
}

/// One text.
pub(super) struct Writer<'a, 'py> {
    py: Python<'py>,
    types: &'static Types,
    options: &'a Bound<'py, PyAny>,
    style: Style<'a>,
    out: &'a mut Vec<u8>,
    /// The most bytes around a value: keys of types, brackets and the user's separators.
    around: usize,
    object_id: *mut ffi::PyTypeObject,
    datetime: *mut ffi::PyTypeObject,
    utc: *mut ffi::PyObject,
}

impl<'a, 'py> Writer<'a, 'py> {
    pub(super) fn new(
        py: Python<'py>,
        types: &'static Types,
        options: &'a Bound<'py, PyAny>,
        style: Style<'a>,
        out: &'a mut Vec<u8>,
    ) -> Self {
        // SAFETY: `types` imported the C API of datetime, a static table.
        let (datetime, utc) =
            unsafe { ((*ffi::PyDateTimeAPI()).DateTimeType, (*ffi::PyDateTimeAPI()).TimeZone_UTC) };
        let around = 256 + 8 * (style.between.len() + style.after_key.len());
        Self { py, types, options, style, out, around, object_id: object_id::class_ptr(py), datetime, utc }
    }

    /// Makes room for this many bytes, and for those around a value.
    #[inline]
    fn room(&mut self, bytes: usize) -> Found<()> {
        let more = bytes + self.around;
        if self.out.capacity() - self.out.len() < more && self.out.try_reserve(more).is_err() {
            return Err(Stop::Raised(Box::new(PyMemoryError::new_err(format!(
                "no memory for {more} more bytes"
            )))));
        }
        Ok(())
    }

    /// Writes a value; with `is_plain` it is JSON already, whose numbers stay as they are.
    pub(super) fn value(&mut self, value: &Bound<'py, PyAny>, depth: u32, is_plain: bool) -> Found<()> {
        self.room(0)?;
        // SAFETY: `value` is held by its `Bound`, and its type compared exactly before an accessor of that type is used.
        unsafe {
            let (object, class) = (value.as_ptr(), value.get_type_ptr());
            if class == &raw mut ffi::PyUnicode_Type {
                self.string(object)
            } else if class == &raw mut ffi::PyLong_Type {
                self.int(value, is_plain)
            } else if class == &raw mut ffi::PyFloat_Type {
                self.float(ffi::PyFloat_AS_DOUBLE(object));
                Ok(())
            } else if class == &raw mut ffi::PyDict_Type {
                self.dict(value.cast_unchecked(), depth, is_plain)
            } else if class == &raw mut ffi::PyList_Type {
                self.list(value.cast_unchecked(), depth, is_plain)
            } else if class == self.object_id {
                let hex = ObjectId::from_bytes(object_id::bytes_of(object)).hex_bytes();
                self.wrapped("$oid", &hex);
                Ok(())
            } else if object == ffi::Py_None() {
                self.raw(b"null")
            } else if class == &raw mut ffi::PyBool_Type {
                self.raw(if object == ffi::Py_True() { b"true" } else { b"false" })
            } else if class == self.datetime {
                let zone = ffi::PyDateTime_DATE_GET_TZINFO(object);
                // Any other zone must be asked for its offset, which may run the user's code.
                if zone != ffi::Py_None() && zone != self.types.utc.as_ptr() && zone != self.utc {
                    return Err(Stop::Unusual);
                }
                self.date(datetime::read(object).0);
                Ok(())
            } else if class == self.types.int64.as_ptr().cast() {
                self.int64(value)
            } else if class == &raw mut ffi::PyTuple_Type {
                self.tuple(value.cast_unchecked(), depth, is_plain)
            } else {
                self.rare(value, depth)
            }
        }
    }

    fn raw(&mut self, text: &[u8]) -> Found<()> {
        self.room(text.len())?;
        self.out.extend_from_slice(text);
        Ok(())
    }

    fn dict(&mut self, dict: &Bound<'py, PyDict>, depth: u32, is_plain: bool) -> Found<()> {
        if depth == MAX_DEPTH {
            return Err(Stop::Unusual);
        }
        self.out.push(b'{');
        // SAFETY: the caller's `Bound` keeps the dict alive for longer than this walk lasts.
        let mut fields = unsafe { Fields::of(self.py, dict.as_ptr()) };
        let mut is_first = true;
        // SAFETY: that `Bound` still keeps the dict alive. Each step reads its table again, so it does not matter what
        // writing a value did to it.
        while let Some((key, value)) = unsafe { fields.next() } {
            // SAFETY: the step has just found the value in the dict, and no code ran since that could have taken it
            // out. From here on this reference keeps it.
            let value = unsafe { Bound::from_borrowed_ptr(self.py, value) };
            // SAFETY: the key is still in the dict: no code ran since the step found it there. Its type alone is read.
            if unsafe { ffi::PyUnicode_CheckExact(key) } == 0 {
                return Err(Stop::Unusual);
            }
            if !is_first {
                self.out.extend_from_slice(self.style.between);
            }
            is_first = false;
            // SAFETY: an exact str, as was just compared. The dict still has it: taking a reference and adding bytes to
            // `out` ran no Python code, and `string` runs none before it is done with it.
            unsafe { self.string(key)? };
            self.out.extend_from_slice(self.style.after_key);
            self.value(&value, depth + 1, is_plain)?;
        }
        self.raw(b"}")
    }

    fn list(&mut self, list: &Bound<'py, PyList>, depth: u32, is_plain: bool) -> Found<()> {
        self.items(list.iter(), depth, is_plain)
    }

    fn tuple(&mut self, tuple: &Bound<'py, PyTuple>, depth: u32, is_plain: bool) -> Found<()> {
        self.items(tuple.iter(), depth, is_plain)
    }

    fn items(
        &mut self,
        items: impl Iterator<Item = Bound<'py, PyAny>>,
        depth: u32,
        is_plain: bool,
    ) -> Found<()> {
        if depth == MAX_DEPTH {
            return Err(Stop::Unusual);
        }
        self.out.push(b'[');
        for (index, value) in items.enumerate() {
            if index > 0 {
                self.out.extend_from_slice(self.style.between);
            }
            self.value(&value, depth + 1, is_plain)?;
        }
        self.raw(b"]")
    }

    /// Writes a string.
    ///
    /// # Safety
    /// `text` must be a live str.
    unsafe fn string(&mut self, text: *mut ffi::PyObject) -> Found<()> {
        // SAFETY: `text` is a live str, which the caller's dict or `Bound` keeps until this returns. What a str keeps
        // as UTF-8 is valid: one with half a surrogate pair has none, and is refused by `utf8`.
        let text = unsafe {
            let bytes = text::utf8(text).ok_or_else(|| PyErr::fetch(self.py))?;
            std::str::from_utf8_unchecked(bytes)
        };
        self.room(most_of(text.as_bytes(), self.style.is_ascii))?;
        push_string(text, self.style.is_ascii, self.out);
        Ok(())
    }

    /// Writes `{"$key": "text"}`.
    fn wrapped(&mut self, key: &str, text: &[u8]) {
        self.open(key);
        self.quoted(text);
        self.out.push(b'}');
    }

    /// Writes `{"$key": `.
    fn open(&mut self, key: &str) {
        self.out.extend_from_slice(b"{\"");
        self.out.extend_from_slice(key.as_bytes());
        self.out.push(b'"');
        self.out.extend_from_slice(self.style.after_key);
    }

    fn quoted(&mut self, text: &[u8]) {
        self.out.push(b'"');
        self.out.extend_from_slice(text);
        self.out.push(b'"');
    }

    fn int(&mut self, value: &Bound<'py, PyAny>, is_plain: bool) -> Found<()> {
        let Some(number) = make::long_of(value)? else {
            let digits = value.str()?;
            let digits = digits.to_str()?.as_bytes();
            if self.style.mode == CANONICAL && !is_plain {
                self.room(digits.len())?;
                self.wrapped("$numberLong", digits);
                return Ok(());
            }
            return self.raw(digits);
        };
        if self.style.mode != CANONICAL || is_plain {
            return self.raw(itoa::Buffer::new().format(number).as_bytes());
        }
        let key = if i32::try_from(number).is_ok() { "$numberInt" } else { "$numberLong" };
        self.wrapped(key, itoa::Buffer::new().format(number).as_bytes());
        Ok(())
    }

    fn int64(&mut self, value: &Bound<'py, PyAny>) -> Found<()> {
        let Some(number) = make::long_of(value)? else { return Err(Stop::Unusual) };
        let mut buffer = itoa::Buffer::new();
        let digits = buffer.format(number).as_bytes();
        if self.style.is_strict_long {
            self.wrapped("$numberLong", digits);
            return Ok(());
        }
        self.raw(digits)
    }

    fn float(&mut self, number: f64) {
        let is_canonical = self.style.mode == CANONICAL;
        if number.is_finite() && !is_canonical {
            return push_float(number, self.out);
        }
        let is_legacy = self.style.mode == LEGACY;
        if !is_legacy {
            self.open("$numberDouble");
            self.out.push(b'"');
        }
        if number.is_nan() {
            self.out.extend_from_slice(b"NaN");
        } else if number.is_infinite() {
            let text: &[u8] = if number > 0.0 { b"Infinity" } else { b"-Infinity" };
            self.out.extend_from_slice(text);
        } else {
            push_float(number, self.out);
        }
        if !is_legacy {
            self.out.extend_from_slice(b"\"}");
        }
    }

    fn date(&mut self, millis: i64) {
        self.open("$date");
        if self.style.dates == ISO8601 && is_relaxed(millis) {
            self.out.push(b'"');
            write_iso(millis, false, self.out);
            self.out.push(b'"');
        } else {
            let mut buffer = itoa::Buffer::new();
            let digits = buffer.format(millis).as_bytes();
            if self.style.dates == LEGACY_DATE {
                self.out.extend_from_slice(digits);
            } else {
                self.wrapped("$numberLong", digits);
            }
        }
        self.out.push(b'}');
    }

    fn binary(&mut self, bytes: &[u8], subtype: u8) -> Found<()> {
        self.room(bytes.len().div_ceil(3) * 4)?;
        let is_legacy = self.style.mode == LEGACY;
        self.open("$binary");
        if !is_legacy {
            self.open("base64");
        }
        self.out.push(b'"');
        base64::encode(bytes, self.out);
        self.out.push(b'"');
        self.out.extend_from_slice(self.style.between);
        self.quoted(if is_legacy { b"$type" } else { b"subType" });
        self.out.extend_from_slice(self.style.after_key);
        self.quoted(format!("{subtype:02x}").as_bytes());
        self.out.extend_from_slice(if is_legacy { b"}" } else { b"}}" });
        Ok(())
    }

    /// Writes `, "key": `.
    fn next_key(&mut self, key: &str) {
        self.out.extend_from_slice(self.style.between);
        self.quoted(key.as_bytes());
        self.out.extend_from_slice(self.style.after_key);
    }

    fn regex(&mut self, pattern: &Bound<'py, PyString>, flags: i64) -> Found<()> {
        let is_legacy = self.style.mode == LEGACY;
        if is_legacy {
            self.open("$regex");
        } else {
            self.open("$regularExpression");
            self.open("pattern");
        }
        // SAFETY: a str, which its `Bound` holds.
        unsafe { self.string(pattern.as_ptr())? };
        self.next_key(if is_legacy { "$options" } else { "options" });
        self.out.push(b'"');
        let letters = [(2, b'i'), (4, b'l'), (8, b'm'), (16, b's'), (32, b'u'), (64, b'x')];
        self.out.extend(letters.iter().filter(|(bit, _)| flags & bit != 0).map(|(_, letter)| letter));
        self.raw(if is_legacy { b"\"}" } else { b"\"}}" })
    }

    /// Writes values of this package's classes, of `re` and `uuid`.
    #[inline(never)]
    fn rare(&mut self, value: &Bound<'py, PyAny>, depth: u32) -> Found<()> {
        if let Ok(bytes) = value.cast_exact::<PyBytes>() {
            return self.binary(bytes.as_bytes(), 0);
        }
        let types = own_types(self.py)?;
        if let Some(subtype) = types.binary.read_attribute(value, 0)
            && let (Ok(subtype), Ok(bytes)) = (subtype.extract::<u8>(), value.cast::<PyBytes>())
        {
            return self.binary(bytes.as_bytes(), subtype);
        }
        if let Some(high) = types.decimal128.read(value, 0)
            && let Some(low) = types.decimal128.read(value, 1)
            && let (Some(high), Some(low)) = (make::natural_of(&high), make::natural_of(&low))
        {
            let bytes = (u128::from(low) | u128::from(high) << 64).to_le_bytes();
            self.wrapped("$numberDecimal", Decimal128::from_bytes(bytes).to_string().as_bytes());
            return Ok(());
        }
        if let Some(millis) = types.datetime_ms.read(value, 0)
            && let Ok(Some(millis)) = make::long_of(&millis)
        {
            self.date(millis);
            return Ok(());
        }
        if let Some(time) = types.timestamp.read(value, 0)
            && let Some(inc) = types.timestamp.read(value, 1)
        {
            self.open("$timestamp");
            self.open("t");
            self.int(&time, true)?;
            self.out.extend_from_slice(self.style.between);
            self.quoted(b"i");
            self.out.extend_from_slice(self.style.after_key);
            self.int(&inc, true)?;
            return self.raw(b"}}");
        }
        if let Some(scope) = types.code.read(value, 0) {
            self.open("$code");
            // SAFETY: `Code` is a subclass of str, and `read` took it for exactly that class.
            unsafe { self.string(value.as_ptr())? };
            if !scope.is_none() {
                self.next_key("$scope");
                self.dict(scope.cast_exact::<PyDict>().map_err(|_| Stop::Unusual)?, depth + 1, false)?;
            }
            return self.raw(b"}");
        }
        if let Some(pattern) = types.regex.read(value, 0)
            && let Some(flags) = types.regex.read(value, 1)
            && let (Ok(pattern), Ok(flags)) = (pattern.cast_exact::<PyString>(), flags.extract::<i64>())
        {
            return self.regex(pattern, flags);
        }
        let class = value.get_type();
        if class.is(types.min_key.bind(self.py).get_type()) {
            self.open("$minKey");
            return self.raw(b"1}");
        }
        if class.is(types.max_key.bind(self.py).get_type()) {
            self.open("$maxKey");
            return self.raw(b"1}");
        }
        if class.is(types.dbref.bind(self.py)) {
            let document =
                value.call_method0(&self.types.name.as_doc).map_err(|error| of_call(self.py, error))?;
            // A SON, which adds nothing to a dict.
            return self.dict(document.cast::<PyDict>().map_err(|_| Stop::Unusual)?, depth, false);
        }
        let is_known = class.is(types.regex.class(self.py))
            || is_pattern(value)?
            || (is_uuid(value)? && class.is(super::super::types::uuid_types(self.py)?.class.class(self.py)));
        if !is_known {
            return Err(Stop::Unusual);
        }
        let module = self.py.import(pyo3::intern!(self.py, "mangonel.bson._json_write"))?;
        let write = module.getattr(pyo3::intern!(self.py, "write"))?;
        let made = write.call1((value, self.options)).map_err(|error| of_call(self.py, error))?;
        self.value(&made, depth, true)
    }
}
