//! Reads values at a position in a document's bytes, with bounds checked. Knows nothing of iteration.
//!
//! `body` is a document without its terminator; positions count from the document's start. A function returns what it
//! read and, when that has no fixed size, where it ends.

use memchr::memchr;

use crate::binary::{OLD_BINARY, RawBinary};
use crate::decimal128::Decimal128;
use crate::element::{self, Size};
use crate::error::{Error, Result};
use crate::object_id::ObjectId;
use crate::reader::{RawArray, RawDocument};
use crate::timestamp::Timestamp;
use crate::value::RawValue;

/// The smallest document: a length and a terminator.
pub(crate) const MIN_DOCUMENT: usize = 5;

/// Reads the value of type `code` at `at`; returns it and where the next element starts.
#[inline]
pub(crate) fn read_value<'a>(body: &'a [u8], code: u8, at: usize) -> Result<(RawValue<'a>, usize)> {
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
            (RawValue::Array(RawArray::from_document(document)), end)
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
pub(crate) fn value_end(body: &[u8], code: u8, at: usize) -> Result<usize> {
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
#[inline(always)]
pub(crate) fn string_bounds(body: &[u8], at: usize) -> Result<(usize, usize)> {
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
pub(crate) fn read_document(body: &[u8], at: usize) -> Result<(RawDocument<'_>, usize)> {
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
                format!("expected inner length {} in binary subtype 2, got {inner}", length - 4),
            ));
        }
        bytes = &bytes[4..];
    }
    Ok((RawBinary { subtype, bytes }, start + length))
}

#[inline]
pub(crate) fn read_bool(body: &[u8], at: usize) -> Result<bool> {
    match body.get(at) {
        Some(0) => Ok(false),
        Some(1) => Ok(true),
        Some(byte) => Err(Error::malformed(at, format!("expected 0 or 1 for a boolean, got {byte}"))),
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
            format!("expected length {} for code with scope, got {length}", end - at),
        ));
    }
    Ok((RawValue::JavaScriptWithScope { code, scope }, end))
}

/// Reads and checks the length of the document at `at`: within `bytes`, and ended by a zero byte.
#[inline]
pub(crate) fn document_length(bytes: &[u8], at: usize) -> Result<usize> {
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
        _ => Err(bad_length(at, min, length)),
    }
}

#[cold]
fn bad_length(at: usize, min: usize, length: i32) -> Error {
    Error::malformed(at, format!("expected a length of at least {min}, got {length}"))
}

#[inline]
pub(crate) fn fixed<const N: usize>(bytes: &[u8], at: usize) -> Result<[u8; N]> {
    match bytes.get(at..).and_then(|rest| rest.first_chunk::<N>()) {
        Some(chunk) => Ok(*chunk),
        None => Err(truncated(bytes, at, N)),
    }
}

/// Finds the zero byte that ends the text at `at`.
///
/// Keys are short: below 32 bytes, eight bytes at a time beat the set-up of a vector search.
#[inline]
pub(crate) fn cstring_end(bytes: &[u8], at: usize) -> Result<usize> {
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
            "expected a zero byte after a key or expression, got the document's end",
        )),
    }
}

#[inline]
pub(crate) fn utf8(bytes: &[u8], start: usize, end: usize) -> Result<&str> {
    match simdutf8::basic::from_utf8(&bytes[start..end]) {
        Ok(text) => Ok(text),
        Err(_) => Err(not_utf8(bytes, start, end)),
    }
}

#[cold]
fn not_utf8(bytes: &[u8], start: usize, end: usize) -> Error {
    not_utf8_text(&bytes[start..end]).shift(start)
}

/// The error for text that is not UTF-8, its offset counted from the text's start.
#[cold]
pub(crate) fn not_utf8_text(text: &[u8]) -> Error {
    let valid = match std::str::from_utf8(text) {
        Ok(_) => 0,
        Err(error) => error.valid_up_to(),
    };
    Error::malformed(valid, "expected UTF-8, got another byte")
}

#[cold]
fn truncated(bytes: &[u8], at: usize, wanted: usize) -> Error {
    let left = bytes.len().saturating_sub(at);
    Error::malformed(at, format!("expected {wanted} bytes, got {left}"))
}

#[cold]
fn unterminated(bytes: &[u8], at: usize, what: &str) -> Error {
    Error::malformed(at, format!("expected a zero byte after a {what}, got 0x{:02X}", bytes[at]))
}

#[cold]
fn unknown_type(code: u8, at: usize) -> Error {
    Error::malformed(at, format!("expected an element type, got 0x{code:02X} for the value"))
}
