//! Borrowing, checked reader: walks a document's bytes and hands out values that point into them.
//!
//! Nothing is trusted: every length, terminator, type code and UTF-8 sequence is checked when it is reached.
//! An embedded document is only checked for its own length until someone walks it; `validate` checks all.
//! Offsets in errors count from the start of the document that was being walked.

use std::iter::FusedIterator;

use memchr::memchr;

use crate::binary::{OLD_BINARY, RawBinary};
use crate::decimal128::Decimal128;
use crate::element::{self, Size};
use crate::error::{Error, ErrorKind, Result};
use crate::object_id::ObjectId;
use crate::timestamp::Timestamp;

/// The smallest document: a length and a terminator.
const MIN_DOCUMENT: usize = 5;

/// A document inside a buffer. Its length and terminator are right; its elements are unchecked until walked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RawDocument<'a>(&'a [u8]);

/// One element of a document.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RawElement<'a> {
    /// The key; any text without a zero byte.
    pub key: &'a str,
    /// The value, pointing into the document.
    pub value: RawValue<'a>,
}

/// A value of any type, pointing into its document.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum RawValue<'a> {
    /// 64-bit floating point number.
    Double(f64),
    /// Text; may hold zero bytes.
    String(&'a str),
    /// Embedded document.
    Document(RawDocument<'a>),
    /// Array.
    Array(RawArray<'a>),
    /// Bytes with a subtype.
    Binary(RawBinary<'a>),
    /// Deprecated: a value that was never set.
    Undefined,
    /// Twelve-byte identifier.
    ObjectId(ObjectId),
    /// True or false.
    Boolean(bool),
    /// Milliseconds since 1970-01-01 UTC.
    DateTime(i64),
    /// Null.
    Null,
    /// Regular expression.
    Regex {
        /// The expression.
        pattern: &'a str,
        /// One letter per option, in the order stored.
        options: &'a str,
    },
    /// Deprecated: a reference into another collection.
    DbPointer {
        /// Database and collection.
        namespace: &'a str,
        /// The document referred to.
        id: ObjectId,
    },
    /// JavaScript code.
    JavaScript(&'a str),
    /// Deprecated: an interned name.
    Symbol(&'a str),
    /// Deprecated: JavaScript code and the variables it sees.
    JavaScriptWithScope {
        /// The code.
        code: &'a str,
        /// The variables.
        scope: RawDocument<'a>,
    },
    /// 32-bit integer.
    Int32(i32),
    /// A point in the oplog.
    Timestamp {
        /// Seconds since 1970-01-01 UTC.
        time: u32,
        /// Counts the operations of one second.
        increment: u32,
    },
    /// 64-bit integer.
    Int64(i64),
    /// Decimal number of 34 digits.
    Decimal128(Decimal128),
    /// Sorts before every other value.
    MinKey,
    /// Sorts after every other value.
    MaxKey,
}

impl<'a> RawDocument<'a> {
    /// Takes bytes that hold exactly one document.
    ///
    /// # Errors
    /// [`ErrorKind::Malformed`] when the length prefix is not the number of bytes, or the last byte is not zero.
    #[inline]
    pub fn from_bytes(bytes: &'a [u8]) -> Result<Self> {
        match Self::prefix(bytes)? {
            (document, []) => Ok(document),
            (document, rest) => Err(Error::malformed(
                0,
                format!(
                    "expected one document, found length {} and {} more bytes",
                    document.0.len(),
                    rest.len()
                ),
            )),
        }
    }

    /// Takes the document at the start of `bytes`, and returns what follows it too.
    ///
    /// # Errors
    /// [`ErrorKind::Malformed`] when the length prefix is below 5 or beyond the bytes, or the terminator is missing.
    #[inline]
    pub fn prefix(bytes: &'a [u8]) -> Result<(Self, &'a [u8])> {
        let length = document_length(bytes, 0)?;
        let (document, rest) = bytes.split_at(length);
        Ok((Self(document), rest))
    }

    /// Returns the whole document, length and terminator included.
    #[inline]
    pub fn as_bytes(&self) -> &'a [u8] {
        self.0
    }

    /// Tells whether there is no element.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.0.len() == MIN_DOCUMENT
    }

    /// Walks the elements in order; after an error there are no more.
    #[inline]
    pub fn iter(&self) -> Iter<'a> {
        Iter { body: &self.0[..self.0.len() - 1], at: 4 }
    }

    /// Finds the first element with this key, stepping over others without decoding their values.
    ///
    /// # Errors
    /// [`ErrorKind::Malformed`] when an element up to the wanted one cannot be read.
    pub fn get(&self, key: &str) -> Result<Option<RawValue<'a>>> {
        let mut iter = self.iter();
        let body = iter.body;
        while iter.at < body.len() {
            let code = body[iter.at];
            let start = iter.at + 1;
            let end = cstring_end(body, start)?;
            if &body[start..end] == key.as_bytes() {
                let (value, _) = read_value(body, code, end + 1).map_err(|e| e.under(key))?;
                return Ok(Some(value));
            }
            iter.at = value_end(body, code, end + 1)?;
        }
        Ok(None)
    }

    /// Finds an integer that may have been stored as int32, int64 or a double without a fraction.
    ///
    /// # Errors
    /// As [`RawDocument::get`], and [`ErrorKind::WrongType`] for any other value.
    pub fn get_i64_lenient(&self, key: &str) -> Result<Option<i64>> {
        self.get_as(key, "an integer", |value| value.as_i64_lenient())
    }

    /// Finds a truth value that may have been stored as a boolean or a number.
    ///
    /// # Errors
    /// As [`RawDocument::get`], and [`ErrorKind::WrongType`] for any other value.
    pub fn get_bool_lenient(&self, key: &str) -> Result<Option<bool>> {
        self.get_as(key, "a boolean or number", |value| value.as_bool_lenient())
    }

    /// Finds a string.
    ///
    /// # Errors
    /// As [`RawDocument::get`], and [`ErrorKind::WrongType`] for any other value.
    pub fn get_str(&self, key: &str) -> Result<Option<&'a str>> {
        self.get_as(key, "string", |value| match value {
            RawValue::String(text) => Some(text),
            _ => None,
        })
    }

    /// Finds an embedded document.
    ///
    /// # Errors
    /// As [`RawDocument::get`], and [`ErrorKind::WrongType`] for any other value.
    pub fn get_document(&self, key: &str) -> Result<Option<RawDocument<'a>>> {
        self.get_as(key, "object", |value| match value {
            RawValue::Document(document) => Some(document),
            _ => None,
        })
    }

    /// Finds an array.
    ///
    /// # Errors
    /// As [`RawDocument::get`], and [`ErrorKind::WrongType`] for any other value.
    pub fn get_array(&self, key: &str) -> Result<Option<RawArray<'a>>> {
        self.get_as(key, "array", |value| match value {
            RawValue::Array(array) => Some(array),
            _ => None,
        })
    }

    /// Finds an ObjectId.
    ///
    /// # Errors
    /// As [`RawDocument::get`], and [`ErrorKind::WrongType`] for any other value.
    pub fn get_object_id(&self, key: &str) -> Result<Option<ObjectId>> {
        self.get_as(key, "objectId", |value| match value {
            RawValue::ObjectId(id) => Some(id),
            _ => None,
        })
    }

    /// Finds a timestamp.
    ///
    /// # Errors
    /// As [`RawDocument::get`], and [`ErrorKind::WrongType`] for any other value.
    pub fn get_timestamp(&self, key: &str) -> Result<Option<Timestamp>> {
        self.get_as(key, "timestamp", |value| match value {
            RawValue::Timestamp { time, increment } => Some(Timestamp { time, increment }),
            _ => None,
        })
    }

    /// Finds a date, in milliseconds since 1970-01-01 UTC.
    ///
    /// # Errors
    /// As [`RawDocument::get`], and [`ErrorKind::WrongType`] for any other value.
    pub fn get_datetime(&self, key: &str) -> Result<Option<i64>> {
        self.get_as(key, "date", |value| match value {
            RawValue::DateTime(milliseconds) => Some(milliseconds),
            _ => None,
        })
    }

    /// Finds a binary value.
    ///
    /// # Errors
    /// As [`RawDocument::get`], and [`ErrorKind::WrongType`] for any other value.
    pub fn get_binary(&self, key: &str) -> Result<Option<RawBinary<'a>>> {
        self.get_as(key, "binData", |value| match value {
            RawValue::Binary(binary) => Some(binary),
            _ => None,
        })
    }

    fn get_as<T>(
        &self,
        key: &str,
        wanted: &str,
        convert: impl FnOnce(RawValue<'a>) -> Option<T>,
    ) -> Result<Option<T>> {
        let Some(value) = self.get(key)? else {
            return Ok(None);
        };
        match convert(value) {
            Some(value) => Ok(Some(value)),
            None => Err(Error::new(
                ErrorKind::WrongType,
                format!("expected {wanted} for \"{key}\", found {value}"),
            )),
        }
    }
}

impl<'a> IntoIterator for RawDocument<'a> {
    type Item = Result<RawElement<'a>>;
    type IntoIter = Iter<'a>;

    fn into_iter(self) -> Iter<'a> {
        self.iter()
    }
}

/// An array inside a buffer: a document whose keys are positions, which nobody checks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RawArray<'a>(RawDocument<'a>);

impl<'a> RawArray<'a> {
    /// Takes a document as an array, whatever its keys.
    #[inline]
    pub fn from_document(document: RawDocument<'a>) -> Self {
        Self(document)
    }

    /// Returns the document that holds the values.
    #[inline]
    pub fn as_document(&self) -> RawDocument<'a> {
        self.0
    }

    /// Returns the whole array, length and terminator included.
    #[inline]
    pub fn as_bytes(&self) -> &'a [u8] {
        self.0.as_bytes()
    }

    /// Tells whether there is no value.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Walks the values in order, whatever their keys; after an error there are no more.
    #[inline]
    pub fn iter(&self) -> Values<'a> {
        Values(self.0.iter())
    }
}

impl<'a> IntoIterator for RawArray<'a> {
    type Item = Result<RawValue<'a>>;
    type IntoIter = Values<'a>;

    fn into_iter(self) -> Values<'a> {
        self.iter()
    }
}

/// Walks the elements of a document.
#[derive(Clone, Debug)]
pub struct Iter<'a> {
    /// The document without its terminator, so that no value can claim it.
    body: &'a [u8],
    /// The next element's type code; the body's length when there is none.
    at: usize,
}

impl Iter<'_> {
    /// Returns where the next element starts, counted from the start of the document.
    #[inline]
    pub fn offset(&self) -> usize {
        self.at
    }
}

/// For the JSON writer, which checks UTF-8 while it looks for bytes to escape and decides by type code once instead
/// of twice. After [`Iter::head`] exactly one of the others must follow, the one for that code; after an error, none.
impl<'a> Iter<'a> {
    /// Takes the next element's type code and its key, which may be no UTF-8.
    #[inline]
    pub(crate) fn head(&mut self) -> Option<Result<(u8, &'a [u8])>> {
        let body = self.body;
        let code = *body.get(self.at)?;
        let start = self.at + 1;
        match cstring_end(body, start) {
            Ok(end) => {
                self.at = end + 1;
                Some(Ok((code, &body[start..end])))
            }
            Err(error) => Some(Err(error)),
        }
    }

    /// Takes a string's text, which may be no UTF-8.
    #[inline]
    pub(crate) fn text(&mut self) -> Result<&'a [u8]> {
        let (start, last) = string_bounds(self.body, self.at)?;
        self.at = last + 1;
        Ok(&self.body[start..last])
    }

    /// Takes the bytes of a value of fixed size.
    #[inline]
    pub(crate) fn fixed<const N: usize>(&mut self) -> Result<[u8; N]> {
        let bytes = fixed(self.body, self.at)?;
        self.at += N;
        Ok(bytes)
    }

    /// Takes a boolean.
    #[inline]
    pub(crate) fn boolean(&mut self) -> Result<bool> {
        let value = read_bool(self.body, self.at)?;
        self.at += 1;
        Ok(value)
    }

    /// Takes a document or an array.
    #[inline]
    pub(crate) fn document(&mut self) -> Result<RawDocument<'a>> {
        let (document, end) = read_document(self.body, self.at)?;
        self.at = end;
        Ok(document)
    }

    /// Takes a value of any type.
    pub(crate) fn value(&mut self, code: u8) -> Result<RawValue<'a>> {
        let (value, end) = read_value(self.body, code, self.at)?;
        self.at = end;
        Ok(value)
    }
}

impl<'a> Iterator for Iter<'a> {
    type Item = Result<RawElement<'a>>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let code = *self.body.get(self.at)?;
        match read_element(self.body, code, self.at + 1) {
            Ok((element, end)) => {
                self.at = end;
                Some(Ok(element))
            }
            Err(error) => {
                self.at = self.body.len();
                Some(Err(error))
            }
        }
    }
}

impl FusedIterator for Iter<'_> {}

/// Walks the values of an array.
#[derive(Clone, Debug)]
pub struct Values<'a>(Iter<'a>);

impl<'a> Iterator for Values<'a> {
    type Item = Result<RawValue<'a>>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let body = self.0.body;
        let code = *body.get(self.0.at)?;
        let read = cstring_end(body, self.0.at + 1).and_then(|end| read_value(body, code, end + 1));
        match read {
            Ok((value, end)) => {
                self.0.at = end;
                Some(Ok(value))
            }
            Err(error) => {
                self.0.at = body.len();
                Some(Err(error))
            }
        }
    }
}

impl FusedIterator for Values<'_> {}

#[inline]
fn read_element<'a>(body: &'a [u8], code: u8, at: usize) -> Result<(RawElement<'a>, usize)> {
    let end = cstring_end(body, at)?;
    let key = utf8(body, at, end)?;
    match read_value(body, code, end + 1) {
        Ok((value, end)) => Ok((RawElement { key, value }, end)),
        Err(error) => Err(error.under(key)),
    }
}

/// Reads the value of type `code` at `at`; returns it and where the next element starts.
#[inline]
fn read_value<'a>(body: &'a [u8], code: u8, at: usize) -> Result<(RawValue<'a>, usize)> {
    Ok(match code {
        0x01 => (RawValue::Double(f64::from_le_bytes(fixed(body, at)?)), at + 8),
        0x02 => {
            let (text, end) = read_string(body, at)?;
            (RawValue::String(text), end)
        }
        0x03 => {
            let (document, end) = read_document(body, at)?;
            (RawValue::Document(document), end)
        }
        0x04 => {
            let (document, end) = read_document(body, at)?;
            (RawValue::Array(RawArray(document)), end)
        }
        0x05 => {
            let (binary, end) = read_binary(body, at)?;
            (RawValue::Binary(binary), end)
        }
        0x06 => (RawValue::Undefined, at),
        0x07 => {
            let id = ObjectId::from_bytes(fixed(body, at)?);
            (RawValue::ObjectId(id), at + 12)
        }
        0x08 => (RawValue::Boolean(read_bool(body, at)?), at + 1),
        0x09 => (RawValue::DateTime(i64::from_le_bytes(fixed(body, at)?)), at + 8),
        0x0A => (RawValue::Null, at),
        0x0B => {
            let middle = cstring_end(body, at)?;
            let end = cstring_end(body, middle + 1)?;
            let pattern = utf8(body, at, middle)?;
            let options = utf8(body, middle + 1, end)?;
            (RawValue::Regex { pattern, options }, end + 1)
        }
        0x0C => {
            let (namespace, end) = read_string(body, at)?;
            let id = ObjectId::from_bytes(fixed(body, end)?);
            (RawValue::DbPointer { namespace, id }, end + 12)
        }
        0x0D => {
            let (code, end) = read_string(body, at)?;
            (RawValue::JavaScript(code), end)
        }
        0x0E => {
            let (symbol, end) = read_string(body, at)?;
            (RawValue::Symbol(symbol), end)
        }
        0x0F => read_javascript_with_scope(body, at)?,
        0x10 => (RawValue::Int32(i32::from_le_bytes(fixed(body, at)?)), at + 4),
        0x11 => {
            let Timestamp { time, increment } = Timestamp::from_u64(u64::from_le_bytes(fixed(body, at)?));
            (RawValue::Timestamp { time, increment }, at + 8)
        }
        0x12 => (RawValue::Int64(i64::from_le_bytes(fixed(body, at)?)), at + 8),
        0x13 => {
            let decimal = Decimal128::from_bytes(fixed(body, at)?);
            (RawValue::Decimal128(decimal), at + 16)
        }
        0x7F => (RawValue::MaxKey, at),
        0xFF => (RawValue::MinKey, at),
        _ => return Err(unknown_type(code, at)),
    })
}

/// Finds the end of the value of type `code` at `at` from its size alone.
fn value_end(body: &[u8], code: u8, at: usize) -> Result<usize> {
    let Some(row) = element::by_code(code) else {
        return Err(unknown_type(code, at));
    };
    let length = match row.size {
        Size::Fixed(length) => length,
        Size::Prefixed(more) => 4 + more + read_length(body, at, 0)?,
        Size::Inclusive(min) => read_length(body, at, min)?,
        Size::TwoCStrings => {
            let middle = cstring_end(body, at)?;
            cstring_end(body, middle + 1)? + 1 - at
        }
    };
    if length > body.len() - at {
        return Err(truncated(body, at, length));
    }
    Ok(at + length)
}

#[inline]
fn read_string(body: &[u8], at: usize) -> Result<(&str, usize)> {
    let (start, last) = string_bounds(body, at)?;
    Ok((utf8(body, start, last)?, last + 1))
}

/// Checks the length and the terminator of the string at `at`; returns where its text starts and ends.
#[inline]
fn string_bounds(body: &[u8], at: usize) -> Result<(usize, usize)> {
    let length = read_length(body, at, 1)?;
    let start = at + 4;
    if length > body.len() - start {
        return Err(truncated(body, start, length));
    }
    let last = start + length - 1;
    if body[last] != 0 {
        return Err(unterminated(body, last, "string"));
    }
    Ok((start, last))
}

#[inline]
fn read_document(body: &[u8], at: usize) -> Result<(RawDocument<'_>, usize)> {
    let length = document_length(body, at)?;
    Ok((RawDocument(&body[at..at + length]), at + length))
}

#[inline]
fn read_binary(body: &[u8], at: usize) -> Result<(RawBinary<'_>, usize)> {
    let length = read_length(body, at, 0)?;
    let start = at + 5;
    if start > body.len() || length > body.len() - start {
        return Err(truncated(body, at + 4, length + 1));
    }
    let subtype = body[at + 4];
    let mut bytes = &body[start..start + length];
    if subtype == OLD_BINARY {
        let inner = read_length(bytes, 0, 0).map_err(|e| e.shift(start))?;
        if inner != length - 4 {
            return Err(Error::malformed(
                start,
                format!("expected inner length {} in binary subtype 2, found {inner}", length - 4),
            ));
        }
        bytes = &bytes[4..];
    }
    Ok((RawBinary { subtype, bytes }, start + length))
}

#[inline]
fn read_bool(body: &[u8], at: usize) -> Result<bool> {
    match body.get(at) {
        Some(0) => Ok(false),
        Some(1) => Ok(true),
        Some(byte) => Err(Error::malformed(at, format!("expected 0 or 1 for a boolean, found {byte}"))),
        None => Err(truncated(body, at, 1)),
    }
}

fn read_javascript_with_scope(body: &[u8], at: usize) -> Result<(RawValue<'_>, usize)> {
    let length = read_length(body, at, 14)?;
    if length > body.len() - at {
        return Err(truncated(body, at, length));
    }
    let whole = &body[..at + length];
    let (code, end) = read_string(whole, at + 4)?;
    let (scope, end) = read_document(whole, end)?;
    if end != whole.len() {
        return Err(Error::malformed(
            at,
            format!("expected length {} for code with scope, found {length}", end - at),
        ));
    }
    Ok((RawValue::JavaScriptWithScope { code, scope }, end))
}

/// Reads and checks the length of the document at `at`: within `bytes`, and ended by a zero byte.
#[inline]
fn document_length(bytes: &[u8], at: usize) -> Result<usize> {
    let length = read_length(bytes, at, MIN_DOCUMENT)?;
    if length > bytes.len() - at {
        return Err(truncated(bytes, at, length));
    }
    let last = at + length - 1;
    if bytes[last] != 0 {
        return Err(unterminated(bytes, last, "document"));
    }
    Ok(length)
}

#[inline]
fn read_length(bytes: &[u8], at: usize, min: usize) -> Result<usize> {
    let length = i32::from_le_bytes(fixed(bytes, at)?);
    match usize::try_from(length) {
        Ok(length) if length >= min => Ok(length),
        _ => Err(Error::malformed(at, format!("expected a length of at least {min}, found {length}"))),
    }
}

#[inline]
fn fixed<const N: usize>(bytes: &[u8], at: usize) -> Result<[u8; N]> {
    match bytes.get(at..).and_then(|rest| rest.first_chunk::<N>()) {
        Some(chunk) => Ok(*chunk),
        None => Err(truncated(bytes, at, N)),
    }
}

/// Finds the zero byte that ends the text at `at`.
///
/// Keys are short: eight bytes at a time beat the set-up of a vector search until 32 bytes are passed.
#[inline]
fn cstring_end(bytes: &[u8], at: usize) -> Result<usize> {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const HIGHS: u64 = 0x8080_8080_8080_8080;
    let mut next = at;
    while next < at + 32 {
        let Some(chunk) = bytes.get(next..).and_then(|rest| rest.first_chunk::<8>()) else {
            break;
        };
        let word = u64::from_le_bytes(*chunk);
        // The lowest set bit marks the first zero byte; marks above it may be false.
        let zeros = word.wrapping_sub(ONES) & !word & HIGHS;
        if zeros != 0 {
            return Ok(next + (zeros.trailing_zeros() / 8) as usize);
        }
        next += 8;
    }
    match memchr(0, bytes.get(next..).unwrap_or_default()) {
        Some(more) => Ok(next + more),
        None => Err(Error::malformed(
            at,
            "expected a zero byte after a key or expression, found the document's end",
        )),
    }
}

#[inline]
fn utf8(bytes: &[u8], start: usize, end: usize) -> Result<&str> {
    match simdutf8::basic::from_utf8(&bytes[start..end]) {
        Ok(text) => Ok(text),
        Err(_) => Err(not_utf8(bytes, start, end)),
    }
}

#[cold]
fn not_utf8(bytes: &[u8], start: usize, end: usize) -> Error {
    not_utf8_text(&bytes[start..end]).shift(start)
}

/// The error for text that is no UTF-8, its offset counted from the text's start.
#[cold]
pub(crate) fn not_utf8_text(text: &[u8]) -> Error {
    let valid = match std::str::from_utf8(text) {
        Ok(_) => 0,
        Err(error) => error.valid_up_to(),
    };
    Error::malformed(valid, "expected UTF-8, found another byte")
}

#[cold]
fn truncated(bytes: &[u8], at: usize, wanted: usize) -> Error {
    let left = bytes.len().saturating_sub(at);
    Error::malformed(at, format!("expected {wanted} bytes, found {left}"))
}

#[cold]
fn unterminated(bytes: &[u8], at: usize, what: &str) -> Error {
    Error::malformed(at, format!("expected a zero byte after a {what}, found 0x{:02X}", bytes[at]))
}

#[cold]
fn unknown_type(code: u8, at: usize) -> Error {
    Error::malformed(at, format!("expected an element type, found 0x{code:02X} for the value"))
}
