//! Documents to JSON text, element by element, with no tree in between: the hot path of `cursor.to_json()`.

use std::collections::TryReserveError;
use std::io::Write as _;

use super::base64;
use super::keys::Keys;
use super::room::Room;
use super::text::push_string;
use crate::MAX_DEPTH;
use crate::binary::{self, RawBinary};
use crate::bytes::{cstring_end, fixed, read_bool, read_document, read_value, string_bounds};
use crate::datetime::{is_relaxed, iso, write_iso};
use crate::element::ElementType;
use crate::error::{Error, ErrorKind, Result};
use crate::object_id::{ObjectId, hex_pair};
use crate::reader::{RawArray, RawDocument, RawValue};

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
    JsonWriter::behind(out, mode, document.as_bytes().len()).document(document)
}

/// Appends documents as JSON to one buffer, which holds the text once this is dropped. Setup and finish, which
/// [`write_json`] repeats for each document, happen once.
pub struct JsonWriter<'o> {
    writer: InMode<'o>,
    is_first: bool,
    /// Of the second document, once there is one.
    keys: Option<Keys>,
}

enum InMode<'o> {
    Canonical(Writer<'o, CANONICAL>),
    Relaxed(Writer<'o, RELAXED>),
    Plain(Writer<'o, PLAIN>),
}

impl<'o> JsonWriter<'o> {
    /// Prepares to append to `out` the JSON of this many bytes of BSON.
    pub fn behind(out: &'o mut Vec<u8>, mode: JsonMode, length: usize) -> Self {
        let out = Room::behind(out, length);
        let writer = match mode {
            JsonMode::Canonical => InMode::Canonical(Writer { out }),
            JsonMode::Relaxed => InMode::Relaxed(Writer { out }),
            JsonMode::Plain => InMode::Plain(Writer { out }),
        };
        Self { writer, is_first: true, keys: None }
    }

    /// Reserves memory for this many bytes.
    ///
    /// # Errors
    /// There is none.
    #[inline]
    pub fn reserve(&mut self, length: usize) -> std::result::Result<(), TryReserveError> {
        self.room().reserve(length)
    }

    /// Appends a document, without white space.
    ///
    /// # Errors
    /// As for [`write_json`].
    // Not inline, so that other crates hold no second copy of the writers.
    pub fn document(&mut self, document: RawDocument<'_>) -> Result<()> {
        match &mut self.writer {
            InMode::Canonical(writer) => writer.document(document, MAX_DEPTH),
            InMode::Relaxed(writer) => writer.document(document, MAX_DEPTH),
            InMode::Plain(writer) if self.is_first => {
                self.is_first = false;
                writer.document(document, MAX_DEPTH)
            }
            InMode::Plain(writer) => {
                let keys = self.keys.get_or_insert_with(|| Keys::of(document));
                if keys.are_common() {
                    writer.document_with(keys, document)
                } else {
                    writer.document(document, MAX_DEPTH)
                }
            }
        }
    }

    /// Appends a byte that is ASCII.
    #[inline]
    pub fn byte(&mut self, byte: u8) {
        self.room().all(&[byte]);
    }

    #[inline]
    fn room(&mut self) -> &mut Room<'o> {
        match &mut self.writer {
            InMode::Canonical(writer) => &mut writer.out,
            InMode::Relaxed(writer) => &mut writer.out,
            InMode::Plain(writer) => &mut writer.out,
        }
    }
}

/// Appends one value as JSON; see [`write_json`].
///
/// # Errors
/// As for [`write_json`].
pub fn write_json_value(value: RawValue<'_>, mode: JsonMode, out: &mut Vec<u8>) -> Result<()> {
    let out = Room::behind(out, 0);
    match mode {
        JsonMode::Canonical => Writer::<CANONICAL> { out }.value(value),
        JsonMode::Relaxed => Writer::<RELAXED> { out }.value(value),
        JsonMode::Plain => Writer::<PLAIN> { out }.value(value),
    }
}

const CANONICAL: u8 = 0;
const RELAXED: u8 = 1;
const PLAIN: u8 = 2;

pub(super) const DOUBLE: u8 = ElementType::Double as u8;
pub(super) const STRING: u8 = ElementType::String as u8;
const DOCUMENT: u8 = ElementType::Document as u8;
const ARRAY: u8 = ElementType::Array as u8;
pub(super) const OBJECT_ID: u8 = ElementType::ObjectId as u8;
pub(super) const BOOLEAN: u8 = ElementType::Boolean as u8;
pub(super) const DATE_TIME: u8 = ElementType::DateTime as u8;
pub(super) const NULL: u8 = ElementType::Null as u8;
pub(super) const INT32: u8 = ElementType::Int32 as u8;
pub(super) const INT64: u8 = ElementType::Int64 as u8;

/// Compiled once per mode, since every value depends on the mode.
struct Writer<'o, const MODE: u8> {
    out: Room<'o>,
}

impl<const MODE: u8> Writer<'_, MODE> {
    fn document(&mut self, document: RawDocument<'_>, depth: usize) -> Result<()> {
        let depth = depth.checked_sub(1).ok_or_else(too_deep)?;
        let body = document.body();
        let mut before = b'{';
        let mut at = 4;
        while let Some(&code) = body.get(at) {
            let start = at + 1;
            let end = self.out.key(before, body, start)?;
            before = b',';
            at = self.element(b':', body, code, end + 1, depth).map_err(|e| under(e, &body[start..end]))?;
        }
        self.close(before, *b"{}");
        Ok(())
    }

    /// Appends a document that may have these keys.
    fn document_with(&mut self, keys: &mut Keys, document: RawDocument<'_>) -> Result<()> {
        let body = document.body();
        let (mut place, mut before, mut at) = (0, b'{', 4);
        while at < body.len() {
            at = match keys.write(&mut place, before, &body[at..], self.out.piece()) {
                Some((length, text_length)) => {
                    self.out.skip(text_length);
                    at + length
                }
                None => self.single(before, body, at)?,
            };
            before = b',';
        }
        keys.end(place);
        self.close(before, *b"{}");
        Ok(())
    }

    /// Appends the element at `at` of the outermost document; returns where the next one starts.
    #[inline(never)]
    fn single(&mut self, before: u8, body: &[u8], at: usize) -> Result<usize> {
        let (code, start) = (body[at], at + 1);
        let end = self.out.key(before, body, start)?;
        self.element(b':', body, code, end + 1, MAX_DEPTH - 1).map_err(|e| under(e, &body[start..end]))
    }

    fn array(&mut self, array: RawArray<'_>, depth: usize) -> Result<()> {
        let depth = depth.checked_sub(1).ok_or_else(too_deep)?;
        let body = array.as_document().body();
        let mut before = b'[';
        let mut at = 4;
        while let Some(&code) = body.get(at) {
            let start = at + 1;
            let end = cstring_end(body, start)?;
            at = self.element(before, body, code, end + 1, depth).map_err(|e| under(e, &body[start..end]))?;
            before = b',';
        }
        self.close(before, *b"[]");
        Ok(())
    }

    /// Ends a container; `before` is still the opening bracket if it is empty.
    #[inline(always)]
    fn close(&mut self, before: u8, [open, end]: [u8; 2]) {
        if before == b',' { self.out.all(&[end]) } else { self.out.all(&[open, end]) }
    }

    /// Appends `before` and the value of type `code` at `at`, frequent types without making a [`RawValue`]; returns
    /// where the next element starts.
    #[inline(always)]
    fn element(&mut self, before: u8, body: &[u8], code: u8, at: usize, depth: usize) -> Result<usize> {
        if code == STRING {
            let (start, last) = string_bounds(body, at)?;
            self.out.text(before, body, start, last)?;
            return Ok(last + 1);
        }
        self.other(before, body, code, at, depth)
    }

    fn other(&mut self, before: u8, body: &[u8], code: u8, at: usize, depth: usize) -> Result<usize> {
        // Both have one piece of room for everything; this is one test for all others.
        const FIXED: u32 = 1 << OBJECT_ID | 1 << DATE_TIME;
        if MODE == PLAIN && FIXED.wrapping_shr(code.into()) & 1 != 0 {
            if code == OBJECT_ID {
                self.out.quoted(before, ObjectId::from_bytes(fixed(body, at)?).hex_bytes());
                return Ok(at + 12);
            }
            if code == DATE_TIME
                && let Some((text, _)) = iso(i64::from_le_bytes(fixed(body, at)?), true)
            {
                self.out.quoted(before, text);
                return Ok(at + 8);
            }
        }
        self.out.all(&[before]);
        Ok(match code {
            INT32 => {
                self.int32(i32::from_le_bytes(fixed(body, at)?));
                at + 4
            }
            INT64 => {
                self.int64(i64::from_le_bytes(fixed(body, at)?));
                at + 8
            }
            DOUBLE => {
                self.double(f64::from_le_bytes(fixed(body, at)?));
                at + 8
            }
            DOCUMENT => {
                let (document, end) = read_document(body, at)?;
                self.document(document, depth)?;
                end
            }
            ARRAY => {
                let (document, end) = read_document(body, at)?;
                self.array(RawArray::from_document(document), depth)?;
                end
            }
            OBJECT_ID => {
                self.object_id(ObjectId::from_bytes(fixed(body, at)?));
                at + 12
            }
            DATE_TIME => {
                self.datetime(i64::from_le_bytes(fixed(body, at)?));
                at + 8
            }
            BOOLEAN => {
                self.boolean(read_bool(body, at)?);
                at + 1
            }
            NULL => {
                self.out.all(b"null");
                at
            }
            _ => {
                let (value, end) = read_value(body, code, at)?;
                self.rare(value, depth)?;
                end
            }
        })
    }

    fn value(&mut self, value: RawValue<'_>) -> Result<()> {
        match value {
            RawValue::Null => self.out.all(b"null"),
            RawValue::Boolean(value) => self.boolean(value),
            RawValue::Int32(value) => self.int32(value),
            RawValue::Int64(value) => self.int64(value),
            RawValue::Double(value) => self.double(value),
            RawValue::String(text) => self.string(text),
            RawValue::ObjectId(id) => self.object_id(id),
            RawValue::DateTime(milliseconds) => self.datetime(milliseconds),
            RawValue::Document(document) => self.document(document, MAX_DEPTH)?,
            RawValue::Array(array) => self.array(array, MAX_DEPTH)?,
            other => self.rare(other, MAX_DEPTH)?,
        }
        Ok(())
    }

    /// Appends a value of a rare type; kept out of the loop's code.
    #[inline(never)]
    fn rare(&mut self, value: RawValue<'_>, depth: usize) -> Result<()> {
        match value {
            RawValue::Binary(binary) => self.binary(binary),
            RawValue::Decimal128(value) if MODE == PLAIN => {
                self.format(format_args!("\"{value}\""));
            }
            RawValue::Decimal128(value) => {
                self.format(format_args!("{{\"$numberDecimal\":\"{value}\"}}"));
            }
            RawValue::Regex { pattern, options } => self.regex(pattern, options),
            RawValue::Timestamp { time, increment } if MODE == PLAIN => {
                self.format(format_args!("{{\"t\":{time},\"i\":{increment}}}"));
            }
            RawValue::Timestamp { time, increment } => {
                self.format(format_args!("{{\"$timestamp\":{{\"t\":{time},\"i\":{increment}}}}}"));
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
                self.string(code);
                self.raw(middle);
                self.document(scope, depth)?;
                self.out.all(b"}");
            }
            RawValue::DbPointer { namespace, id } => {
                self.raw(if MODE == PLAIN { b"" } else { b"{\"$dbPointer\":" });
                self.out.all(b"{\"$ref\":");
                self.string(namespace);
                self.out.all(b",\"$id\":");
                self.object_id(id);
                self.raw(if MODE == PLAIN { b"}" } else { b"}}" });
            }
            RawValue::Undefined if MODE == PLAIN => self.out.all(b"null"),
            RawValue::Undefined => self.out.all(b"{\"$undefined\":true}"),
            RawValue::MinKey => self.out.all(b"{\"$minKey\":1}"),
            RawValue::MaxKey => self.out.all(b"{\"$maxKey\":1}"),
            // The rest is handled by `element`.
            _ => {}
        }
        Ok(())
    }

    #[inline]
    fn raw(&mut self, text: &[u8]) {
        self.out.push(text);
    }

    fn format(&mut self, text: std::fmt::Arguments<'_>) {
        // Writing to memory cannot fail.
        self.out.with(|out| drop(out.write_fmt(text)));
    }

    fn string(&mut self, text: &str) {
        self.out.with(|out| push_string(text, out));
    }

    #[inline]
    fn boolean(&mut self, value: bool) {
        if value { self.out.all(b"true") } else { self.out.all(b"false") }
    }

    #[inline]
    fn integer(&mut self, value: impl itoa::Integer) {
        self.out.number(itoa::Buffer::new().format(value));
    }

    fn int32(&mut self, value: i32) {
        if MODE != CANONICAL {
            return self.integer(value);
        }
        self.out.all(b"{\"$numberInt\":\"");
        self.integer(value);
        self.out.all(b"\"}");
    }

    fn int64(&mut self, value: i64) {
        if MODE != CANONICAL {
            return self.integer(value);
        }
        self.number_long(value);
    }

    fn number_long(&mut self, value: i64) {
        self.out.all(b"{\"$numberLong\":\"");
        self.integer(value);
        self.out.all(b"\"}");
    }

    fn double(&mut self, value: f64) {
        let mut buffer = zmij::Buffer::new();
        let text = if value.is_finite() {
            buffer.format_finite(value)
        } else if MODE == PLAIN {
            return self.out.all(b"null");
        } else if value.is_nan() {
            "NaN"
        } else if value > 0.0 {
            "Infinity"
        } else {
            "-Infinity"
        };
        if MODE == CANONICAL || !value.is_finite() {
            self.out.all(b"{\"$numberDouble\":\"");
            self.out.number(text);
            self.out.all(b"\"}");
        } else {
            self.out.number(text);
        }
    }

    #[inline]
    fn object_id(&mut self, id: ObjectId) {
        if MODE == PLAIN {
            self.out.all(b"\"");
            self.out.all(&id.hex_bytes());
            self.out.all(b"\"");
        } else {
            self.out.all(b"{\"$oid\":\"");
            self.out.all(&id.hex_bytes());
            self.out.all(b"\"}");
        }
    }

    fn datetime(&mut self, ms: i64) {
        if MODE == PLAIN {
            self.out.all(b"\"");
            self.out.with(|out| write_iso(ms, true, out));
            self.out.all(b"\"");
        } else if MODE == RELAXED
            && is_relaxed(ms)
            && let Some((text, length)) = iso(ms, false)
        {
            self.out.all(b"{\"$date\":\"");
            self.out.put(text, length);
            self.out.all(b"\"}");
        } else {
            self.out.all(b"{\"$date\":");
            self.number_long(ms);
            self.out.all(b"}");
        }
    }

    fn binary(&mut self, value: RawBinary<'_>) {
        if MODE != PLAIN {
            self.out.all(b"{\"$binary\":{\"base64\":\"");
            self.out.with(|out| base64::encode(value.bytes, out));
            self.out.all(b"\",\"subType\":\"");
            self.out.all(&hex_pair(value.subtype));
            return self.out.all(b"\"}}");
        }
        self.out.all(b"\"");
        match value.bytes.first_chunk::<16>() {
            Some(uuid) if value.subtype == binary::UUID && value.bytes.len() == 16 => {
                for (i, byte) in uuid.iter().enumerate() {
                    if matches!(i, 4 | 6 | 8 | 10) {
                        self.out.all(b"-");
                    }
                    self.out.all(&hex_pair(*byte));
                }
            }
            _ => self.out.with(|out| base64::encode(value.bytes, out)),
        }
        self.out.all(b"\"");
    }

    fn regex(&mut self, pattern: &str, options: &str) {
        if MODE == PLAIN {
            return self.string(&format!("/{pattern}/{options}"));
        }
        self.out.all(b"{\"$regularExpression\":{\"pattern\":");
        self.string(pattern);
        self.out.all(b",\"options\":");
        self.string(&sorted(options));
        self.out.all(b"}}");
    }

    fn string_or(&mut self, key: &[u8], text: &str) {
        if MODE == PLAIN {
            return self.string(text);
        }
        self.out.all(b"{\"");
        self.raw(key);
        self.out.all(b"\":");
        self.string(text);
        self.out.all(b"}");
    }
}

/// Sorts the options of a regular expression, as BSON requires.
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
