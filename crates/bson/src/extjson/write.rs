//! Documents to JSON text, element by element, with no tree in between: the hot path of `cursor.to_json()`.

use std::io::Write as _;

use super::base64;
use super::text::{push_bytes, push_string};
use crate::MAX_DEPTH;
use crate::binary::{self, RawBinary};
use crate::datetime::{is_relaxed, write_iso};
use crate::element::ElementType;
use crate::error::{Error, ErrorKind, Result};
use crate::object_id::{HEX, ObjectId};
use crate::reader::{Iter, RawArray, RawDocument, RawValue};

/// How much of BSON's types the text keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum JsonMode {
    /// Extended JSON that keeps every type.
    Canonical,
    /// Extended JSON with plain numbers and readable dates; the width of integers is lost.
    Relaxed,
    /// JSON as web clients expect it: ObjectIds, dates, decimals, UUIDs and binaries are strings, an infinite
    /// number or NaN is null. Not meant to be read back.
    Plain,
}

/// Appends the document as JSON, without white space.
///
/// Regular expression options are sorted, as the specification asks.
///
/// # Errors
/// [`ErrorKind::Malformed`] when an element cannot be read, [`ErrorKind::TooDeep`] beyond [`MAX_DEPTH`] documents
/// inside each other. `out` then ends in the middle of a document; cut it back to its old length.
pub fn write_json(document: RawDocument<'_>, mode: JsonMode, out: &mut Vec<u8>) -> Result<()> {
    match mode {
        JsonMode::Canonical => Writer::<CANONICAL> { out }.document(document, MAX_DEPTH),
        JsonMode::Relaxed => Writer::<RELAXED> { out }.document(document, MAX_DEPTH),
        JsonMode::Plain => Writer::<PLAIN> { out }.document(document, MAX_DEPTH),
    }
}

/// Appends one value as JSON; see [`write_json`].
///
/// # Errors
/// As for [`write_json`].
pub fn write_json_value(value: RawValue<'_>, mode: JsonMode, out: &mut Vec<u8>) -> Result<()> {
    match mode {
        JsonMode::Canonical => Writer::<CANONICAL> { out }.value(value),
        JsonMode::Relaxed => Writer::<RELAXED> { out }.value(value),
        JsonMode::Plain => Writer::<PLAIN> { out }.value(value),
    }
}

const CANONICAL: u8 = 0;
const RELAXED: u8 = 1;
const PLAIN: u8 = 2;

const DOUBLE: u8 = ElementType::Double as u8;
const STRING: u8 = ElementType::String as u8;
const DOCUMENT: u8 = ElementType::Document as u8;
const ARRAY: u8 = ElementType::Array as u8;
const OBJECT_ID: u8 = ElementType::ObjectId as u8;
const BOOLEAN: u8 = ElementType::Boolean as u8;
const DATE_TIME: u8 = ElementType::DateTime as u8;
const NULL: u8 = ElementType::Null as u8;
const INT32: u8 = ElementType::Int32 as u8;
const INT64: u8 = ElementType::Int64 as u8;

/// Compiled once per mode, since every value depends on the mode.
struct Writer<'o, const MODE: u8> {
    out: &'o mut Vec<u8>,
}

impl<const MODE: u8> Writer<'_, MODE> {
    fn document(&mut self, document: RawDocument<'_>, depth: usize) -> Result<()> {
        let depth = depth.checked_sub(1).ok_or_else(too_deep)?;
        let mut before = b'{';
        let mut iter = document.iter();
        while let Some(head) = iter.head() {
            let (code, key) = head?;
            self.raw(&[before, b'"']);
            before = b',';
            let at = iter.offset() - key.len() - 1;
            push_bytes(key, self.out).map_err(|e| e.shift(at))?;
            self.raw(b"\":");
            self.element(code, &mut iter, depth).map_err(|e| under(e, key))?;
        }
        self.close(before, b"{}");
        Ok(())
    }

    /// Appends a value of a frequent type, which is read and written in one step.
    #[inline]
    fn element(&mut self, code: u8, iter: &mut Iter<'_>, depth: usize) -> Result<()> {
        match code {
            STRING => {
                let text = iter.text()?;
                let at = iter.offset() - text.len() - 1;
                self.raw(b"\"");
                push_bytes(text, self.out).map_err(|e| e.shift(at))?;
                self.raw(b"\"");
            }
            INT32 => self.int32(i32::from_le_bytes(iter.fixed()?)),
            INT64 => self.int64(i64::from_le_bytes(iter.fixed()?)),
            DOUBLE => self.double(f64::from_le_bytes(iter.fixed()?)),
            DOCUMENT => self.document(iter.document()?, depth)?,
            ARRAY => self.array(RawArray::from_document(iter.document()?), depth)?,
            OBJECT_ID => self.object_id(ObjectId::from_bytes(iter.fixed()?)),
            DATE_TIME => self.datetime(i64::from_le_bytes(iter.fixed()?)),
            BOOLEAN => self.raw(if iter.boolean()? { b"true" } else { b"false" }),
            NULL => self.raw(b"null"),
            _ => self.rare(iter.value(code)?, depth)?,
        }
        Ok(())
    }

    fn value(&mut self, value: RawValue<'_>) -> Result<()> {
        match value {
            RawValue::Null => self.raw(b"null"),
            RawValue::Boolean(value) => self.raw(if value { b"true" } else { b"false" }),
            RawValue::Int32(value) => self.int32(value),
            RawValue::Int64(value) => self.int64(value),
            RawValue::Double(value) => self.double(value),
            RawValue::String(text) => push_string(text, self.out),
            RawValue::ObjectId(id) => self.object_id(id),
            RawValue::DateTime(milliseconds) => self.datetime(milliseconds),
            RawValue::Document(document) => self.document(document, MAX_DEPTH)?,
            RawValue::Array(array) => self.array(array, MAX_DEPTH)?,
            other => self.rare(other, MAX_DEPTH)?,
        }
        Ok(())
    }

    fn array(&mut self, array: RawArray<'_>, depth: usize) -> Result<()> {
        let depth = depth.checked_sub(1).ok_or_else(too_deep)?;
        let mut before = b'[';
        let mut iter = array.as_document().iter();
        while let Some(head) = iter.head() {
            let (code, index) = head?;
            self.raw(&[before]);
            before = b',';
            self.element(code, &mut iter, depth).map_err(|e| under(e, index))?;
        }
        self.close(before, b"[]");
        Ok(())
    }

    /// Ends a container; `before` is still the opening bracket if it is empty.
    #[inline]
    fn close(&mut self, before: u8, brackets: &[u8; 2]) {
        let from = usize::from(before == b',');
        self.out.extend_from_slice(&brackets[from..]);
    }

    /// Appends a value of a rare type; kept out of the loop's code.
    #[inline(never)]
    fn rare(&mut self, value: RawValue<'_>, depth: usize) -> Result<()> {
        match value {
            RawValue::Binary(binary) => self.binary(binary),
            RawValue::Decimal128(value) if MODE == PLAIN => {
                let _ = write!(self.out, "\"{value}\"");
            }
            RawValue::Decimal128(value) => {
                let _ = write!(self.out, "{{\"$numberDecimal\":\"{value}\"}}");
            }
            RawValue::Regex { pattern, options } => self.regex(pattern, options),
            RawValue::Timestamp { time, increment } if MODE == PLAIN => {
                let _ = write!(self.out, "{{\"t\":{time},\"i\":{increment}}}");
            }
            RawValue::Timestamp { time, increment } => {
                let _ = write!(self.out, "{{\"$timestamp\":{{\"t\":{time},\"i\":{increment}}}}}");
            }
            RawValue::JavaScript(code) => self.string_or(b"$code", code),
            RawValue::Symbol(symbol) => self.string_or(b"$symbol", symbol),
            RawValue::JavaScriptWithScope { code, scope } => {
                let [open, middle] = if MODE == PLAIN {
                    [&b"{\"code\":"[..], b",\"scope\":"]
                } else {
                    [&b"{\"$code\":"[..], b",\"$scope\":"]
                };
                self.raw(open);
                push_string(code, self.out);
                self.raw(middle);
                self.document(scope, depth)?;
                self.raw(b"}");
            }
            RawValue::DbPointer { namespace, id } => {
                self.raw(if MODE == PLAIN { b"" } else { b"{\"$dbPointer\":" });
                self.raw(b"{\"$ref\":");
                push_string(namespace, self.out);
                self.raw(b",\"$id\":");
                self.object_id(id);
                self.raw(if MODE == PLAIN { b"}" } else { b"}}" });
            }
            RawValue::Undefined if MODE == PLAIN => self.raw(b"null"),
            RawValue::Undefined => self.raw(b"{\"$undefined\":true}"),
            RawValue::MinKey => self.raw(b"{\"$minKey\":1}"),
            RawValue::MaxKey => self.raw(b"{\"$maxKey\":1}"),
            // The rest is handled by `element`.
            _ => {}
        }
        Ok(())
    }

    #[inline]
    fn raw(&mut self, text: &[u8]) {
        self.out.extend_from_slice(text);
    }

    #[inline]
    fn integer(&mut self, value: impl itoa::Integer) {
        self.raw(itoa::Buffer::new().format(value).as_bytes());
    }

    fn int32(&mut self, value: i32) {
        if MODE != CANONICAL {
            return self.integer(value);
        }
        self.raw(b"{\"$numberInt\":\"");
        self.integer(value);
        self.raw(b"\"}");
    }

    fn int64(&mut self, value: i64) {
        if MODE != CANONICAL {
            return self.integer(value);
        }
        self.number_long(value);
    }

    fn number_long(&mut self, value: i64) {
        self.raw(b"{\"$numberLong\":\"");
        self.integer(value);
        self.raw(b"\"}");
    }

    fn double(&mut self, value: f64) {
        let mut buffer = zmij::Buffer::new();
        let text = if value.is_finite() {
            buffer.format_finite(value)
        } else if MODE == PLAIN {
            return self.raw(b"null");
        } else if value.is_nan() {
            "NaN"
        } else if value > 0.0 {
            "Infinity"
        } else {
            "-Infinity"
        };
        if MODE == CANONICAL || !value.is_finite() {
            self.raw(b"{\"$numberDouble\":\"");
            self.raw(text.as_bytes());
            self.raw(b"\"}");
        } else {
            self.raw(text.as_bytes());
        }
    }

    #[inline]
    fn object_id(&mut self, id: ObjectId) {
        if MODE == PLAIN {
            self.raw(b"\"");
            self.raw(&id.hex_bytes());
            self.raw(b"\"");
        } else {
            self.raw(b"{\"$oid\":\"");
            self.raw(&id.hex_bytes());
            self.raw(b"\"}");
        }
    }

    fn datetime(&mut self, ms: i64) {
        if MODE == PLAIN {
            self.raw(b"\"");
            write_iso(ms, true, self.out);
            self.raw(b"\"");
        } else if MODE == RELAXED && is_relaxed(ms) {
            self.raw(b"{\"$date\":\"");
            write_iso(ms, false, self.out);
            self.raw(b"\"}");
        } else {
            self.raw(b"{\"$date\":");
            self.number_long(ms);
            self.raw(b"}");
        }
    }

    fn binary(&mut self, value: RawBinary<'_>) {
        if MODE != PLAIN {
            self.raw(b"{\"$binary\":{\"base64\":\"");
            base64::encode(value.bytes, self.out);
            self.raw(b"\",\"subType\":\"");
            let high = HEX[usize::from(value.subtype >> 4)];
            let low = HEX[usize::from(value.subtype & 15)];
            self.raw(&[high, low]);
            return self.raw(b"\"}}");
        }
        self.raw(b"\"");
        match value.bytes.first_chunk::<16>() {
            Some(uuid) if value.subtype == binary::UUID && value.bytes.len() == 16 => {
                for (i, byte) in uuid.iter().enumerate() {
                    if matches!(i, 4 | 6 | 8 | 10) {
                        self.raw(b"-");
                    }
                    self.raw(&[HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]]);
                }
            }
            _ => base64::encode(value.bytes, self.out),
        }
        self.raw(b"\"");
    }

    fn regex(&mut self, pattern: &str, options: &str) {
        if MODE == PLAIN {
            return push_string(&format!("/{pattern}/{options}"), self.out);
        }
        self.raw(b"{\"$regularExpression\":{\"pattern\":");
        push_string(pattern, self.out);
        self.raw(b",\"options\":");
        push_string(&sorted(options), self.out);
        self.raw(b"}}");
    }

    fn string_or(&mut self, key: &[u8], text: &str) {
        if MODE == PLAIN {
            return push_string(text, self.out);
        }
        self.raw(b"{\"");
        self.raw(key);
        self.raw(b"\":");
        push_string(text, self.out);
        self.raw(b"}");
    }
}

/// Puts the options of a regular expression into the order that BSON asks for.
pub(super) fn sorted(options: &str) -> String {
    let mut letters: Vec<char> = options.chars().collect();
    letters.sort_unstable();
    letters.into_iter().collect()
}

#[cold]
fn under(error: Error, key: &[u8]) -> Error {
    error.under(&String::from_utf8_lossy(key))
}

#[cold]
pub(super) fn too_deep() -> Error {
    Error::new(
        ErrorKind::TooDeep,
        format!("expected at most {MAX_DEPTH} documents inside each other, got more"),
    )
}
