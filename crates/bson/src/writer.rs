//! Appends elements to a byte buffer. Checks only bytes that would corrupt the document; the caller keeps key order.
//!
//! To write a document, call `begin_document`, any number of `append_*`, `end_document`. Keys must not hold a zero
//! byte; keys that come from users go through [`check_key`] first.

use memchr::memchr;

use crate::binary::OLD_BINARY;
use crate::decimal128::Decimal128;
use crate::element::ElementType as T;
use crate::error::{Error, Result};
use crate::object_id::ObjectId;
use crate::reader::{RawArray, RawDocument, RawValue};

/// Starts a document at the end of `out` and returns its start, for [`end_document`].
#[inline]
pub fn begin_document(out: &mut Vec<u8>) -> usize {
    let start = out.len();
    out.extend_from_slice(&[0; 4]);
    start
}

/// Ends the document or array that starts at `start`: writes the terminator and the length.
#[inline]
pub fn end_document(out: &mut Vec<u8>, start: usize) {
    out.push(0);
    patch_length(out, start);
}

/// Starts an embedded document; end it with [`end_document`].
#[inline]
pub fn begin_subdocument(out: &mut Vec<u8>, key: &str) -> usize {
    append_key(out, T::Document, key);
    begin_document(out)
}

/// Starts an array, whose keys are "0", "1" and so on; end it with [`end_document`].
#[inline]
pub fn begin_array(out: &mut Vec<u8>, key: &str) -> usize {
    append_key(out, T::Array, key);
    begin_document(out)
}

/// Refuses a key that BSON cannot hold.
///
/// # Errors
/// [`crate::ErrorKind::OutOfRange`] when the key holds a zero byte.
#[inline]
pub fn check_key(key: &str) -> Result<()> {
    match memchr(0, key.as_bytes()) {
        None => Ok(()),
        Some(at) => Err(Error::range(format!(
            "expected a key without zero bytes, got one at position {at} of {key:?}"
        ))),
    }
}

/// Appends a double.
#[inline]
pub fn append_double(out: &mut Vec<u8>, key: &str, value: f64) {
    append_key(out, T::Double, key);
    out.extend_from_slice(&value.to_le_bytes());
}

/// Appends a string.
#[inline]
pub fn append_str(out: &mut Vec<u8>, key: &str, value: &str) {
    append_key(out, T::String, key);
    push_string(out, value);
}

/// Appends a binary value; the inner length of subtype 2 is added here.
#[inline]
pub fn append_binary(out: &mut Vec<u8>, key: &str, subtype: u8, bytes: &[u8]) {
    append_key(out, T::Binary, key);
    if subtype == OLD_BINARY {
        push_length(out, bytes.len() + 4);
        out.push(subtype);
        push_length(out, bytes.len());
    } else {
        push_length(out, bytes.len());
        out.push(subtype);
    }
    out.extend_from_slice(bytes);
}

/// Appends the deprecated undefined value.
#[inline]
pub fn append_undefined(out: &mut Vec<u8>, key: &str) {
    append_key(out, T::Undefined, key);
}

/// Appends an ObjectId.
#[inline]
pub fn append_object_id(out: &mut Vec<u8>, key: &str, value: ObjectId) {
    append_key(out, T::ObjectId, key);
    out.extend_from_slice(&value.bytes());
}

/// Appends a boolean.
#[inline]
pub fn append_bool(out: &mut Vec<u8>, key: &str, value: bool) {
    append_key(out, T::Boolean, key);
    out.push(u8::from(value));
}

/// Appends a date, in milliseconds since 1970-01-01 UTC.
#[inline]
pub fn append_datetime(out: &mut Vec<u8>, key: &str, milliseconds: i64) {
    append_key(out, T::DateTime, key);
    out.extend_from_slice(&milliseconds.to_le_bytes());
}

/// Appends null.
#[inline]
pub fn append_null(out: &mut Vec<u8>, key: &str) {
    append_key(out, T::Null, key);
}

/// Appends a regular expression; neither part may hold a zero byte, options are written in the order given.
#[inline]
pub fn append_regex(out: &mut Vec<u8>, key: &str, pattern: &str, options: &str) {
    append_key(out, T::Regex, key);
    push_cstring(out, pattern);
    push_cstring(out, options);
}

/// Appends the deprecated pointer into another collection.
#[inline]
pub fn append_db_pointer(out: &mut Vec<u8>, key: &str, namespace: &str, id: ObjectId) {
    append_key(out, T::DbPointer, key);
    push_string(out, namespace);
    out.extend_from_slice(&id.bytes());
}

/// Appends JavaScript code without a scope.
#[inline]
pub fn append_javascript(out: &mut Vec<u8>, key: &str, code: &str) {
    append_key(out, T::JavaScript, key);
    push_string(out, code);
}

/// Appends the deprecated symbol.
#[inline]
pub fn append_symbol(out: &mut Vec<u8>, key: &str, symbol: &str) {
    append_key(out, T::Symbol, key);
    push_string(out, symbol);
}

/// Starts JavaScript code with a scope and returns two starts: end the scope with [`end_document`] on the
/// second, then the value with [`end_javascript_with_scope`] on the first.
#[inline]
pub fn begin_javascript_with_scope(out: &mut Vec<u8>, key: &str, code: &str) -> (usize, usize) {
    append_key(out, T::JavaScriptWithScope, key);
    let start = begin_document(out);
    push_string(out, code);
    (start, begin_document(out))
}

/// Ends JavaScript code with a scope: writes the length of the whole.
#[inline]
pub fn end_javascript_with_scope(out: &mut [u8], start: usize) {
    patch_length(out, start);
}

/// Appends a 32-bit integer.
#[inline]
pub fn append_i32(out: &mut Vec<u8>, key: &str, value: i32) {
    append_key(out, T::Int32, key);
    out.extend_from_slice(&value.to_le_bytes());
}

/// Appends a timestamp: seconds since 1970, and a counter.
#[inline]
pub fn append_timestamp(out: &mut Vec<u8>, key: &str, time: u32, increment: u32) {
    append_key(out, T::Timestamp, key);
    out.extend_from_slice(&increment.to_le_bytes());
    out.extend_from_slice(&time.to_le_bytes());
}

/// Appends a 64-bit integer.
#[inline]
pub fn append_i64(out: &mut Vec<u8>, key: &str, value: i64) {
    append_key(out, T::Int64, key);
    out.extend_from_slice(&value.to_le_bytes());
}

/// Appends a decimal.
#[inline]
pub fn append_decimal128(out: &mut Vec<u8>, key: &str, value: Decimal128) {
    append_key(out, T::Decimal128, key);
    out.extend_from_slice(&value.bytes());
}

/// Appends the value that sorts before all others.
#[inline]
pub fn append_min_key(out: &mut Vec<u8>, key: &str) {
    append_key(out, T::MinKey, key);
}

/// Appends the value that sorts after all others.
#[inline]
pub fn append_max_key(out: &mut Vec<u8>, key: &str) {
    append_key(out, T::MaxKey, key);
}

/// Appends a whole document as an embedded one.
#[inline]
pub fn append_raw_document(out: &mut Vec<u8>, key: &str, document: RawDocument<'_>) {
    append_key(out, T::Document, key);
    out.extend_from_slice(document.as_bytes());
}

/// Appends a whole array.
#[inline]
pub fn append_raw_array(out: &mut Vec<u8>, key: &str, array: RawArray<'_>) {
    append_key(out, T::Array, key);
    out.extend_from_slice(array.as_bytes());
}

/// Appends any value.
pub fn append_value(out: &mut Vec<u8>, key: &str, value: RawValue<'_>) {
    match value {
        RawValue::Double(value) => append_double(out, key, value),
        RawValue::String(value) => append_str(out, key, value),
        RawValue::Document(value) => append_raw_document(out, key, value),
        RawValue::Array(value) => append_raw_array(out, key, value),
        RawValue::Binary(value) => append_binary(out, key, value.subtype, value.bytes),
        RawValue::Undefined => append_undefined(out, key),
        RawValue::ObjectId(value) => append_object_id(out, key, value),
        RawValue::Boolean(value) => append_bool(out, key, value),
        RawValue::DateTime(value) => append_datetime(out, key, value),
        RawValue::Null => append_null(out, key),
        RawValue::Regex { pattern, options } => append_regex(out, key, pattern, options),
        RawValue::DbPointer { namespace, id } => append_db_pointer(out, key, namespace, id),
        RawValue::JavaScript(code) => append_javascript(out, key, code),
        RawValue::Symbol(symbol) => append_symbol(out, key, symbol),
        RawValue::JavaScriptWithScope { code, scope } => {
            append_key(out, T::JavaScriptWithScope, key);
            let start = begin_document(out);
            push_string(out, code);
            out.extend_from_slice(scope.as_bytes());
            end_javascript_with_scope(out, start);
        }
        RawValue::Int32(value) => append_i32(out, key, value),
        RawValue::Timestamp { time, increment } => append_timestamp(out, key, time, increment),
        RawValue::Int64(value) => append_i64(out, key, value),
        RawValue::Decimal128(value) => append_decimal128(out, key, value),
        RawValue::MinKey => append_min_key(out, key),
        RawValue::MaxKey => append_max_key(out, key),
    }
}

/// Writes type code and key; a value of that type must follow.
#[inline]
fn append_key(out: &mut Vec<u8>, kind: T, key: &str) {
    out.push(kind as u8);
    push_cstring(out, key);
}

/// Writes up to the first zero byte, so that an unchecked zero byte cannot change the structure of the document.
#[inline]
fn push_cstring(out: &mut Vec<u8>, text: &str) {
    let bytes = text.as_bytes();
    let end = memchr(0, bytes).unwrap_or(bytes.len());
    debug_assert_eq!(end, bytes.len(), "a cstring with a zero byte: {text:?}");
    out.extend_from_slice(&bytes[..end]);
    out.push(0);
}

#[inline]
fn push_string(out: &mut Vec<u8>, text: &str) {
    push_length(out, text.len() + 1);
    out.extend_from_slice(text.as_bytes());
    out.push(0);
}

#[inline]
fn push_length(out: &mut Vec<u8>, length: usize) {
    out.extend_from_slice(&length_bytes(length));
}

/// Writes the length of `out[start..]` at `start`.
#[inline]
fn patch_length(out: &mut [u8], start: usize) {
    let length = length_bytes(out.len() - start);
    out[start..start + 4].copy_from_slice(&length);
}

/// A length above 2 GiB cannot be written; -1 is one that every reader refuses.
#[inline]
fn length_bytes(length: usize) -> [u8; 4] {
    i32::try_from(length).unwrap_or(-1).to_le_bytes()
}
