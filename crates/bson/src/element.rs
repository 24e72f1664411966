//! The table of element types: code, name and how to find the end of a value. Reads no value itself.
//! Spec: bsonspec.org.

/// How many bytes a value takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Size {
    /// Always this many.
    Fixed(usize),
    /// An int32 counts the bytes after it, except for this many at the end.
    Prefixed(usize),
    /// An int32 counts all bytes, including its own four; this is the smallest valid count.
    Inclusive(usize),
    /// Two strings, each ended by a zero byte.
    TwoCStrings,
}

/// One row of [`ELEMENTS`].
#[derive(Clone, Copy, Debug)]
pub struct Element {
    /// The byte that starts an element of this type.
    pub code: u8,
    /// The type, when the reader has a name for it.
    pub kind: ElementType,
    /// The name that the server's `$type` operator and error messages use.
    pub name: &'static str,
    /// How to find the end of the value.
    pub size: Size,
}

/// The type of an element; the discriminant is its code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
#[expect(missing_docs, reason = "the names are the specification's")]
pub enum ElementType {
    Double = 0x01,
    String = 0x02,
    Document = 0x03,
    Array = 0x04,
    Binary = 0x05,
    Undefined = 0x06,
    ObjectId = 0x07,
    Boolean = 0x08,
    DateTime = 0x09,
    Null = 0x0A,
    Regex = 0x0B,
    DbPointer = 0x0C,
    JavaScript = 0x0D,
    Symbol = 0x0E,
    JavaScriptWithScope = 0x0F,
    Int32 = 0x10,
    Timestamp = 0x11,
    Int64 = 0x12,
    Decimal128 = 0x13,
    MaxKey = 0x7F,
    MinKey = 0xFF,
}

use ElementType as T;
use Size::{Fixed, Inclusive, Prefixed, TwoCStrings};

const fn row(kind: ElementType, name: &'static str, size: Size) -> Element {
    Element { code: kind as u8, kind, name, size }
}

/// Every element type.
pub const ELEMENTS: &[Element] = &[
    row(T::Double, "double", Fixed(8)),
    row(T::String, "string", Prefixed(0)),
    row(T::Document, "object", Inclusive(5)),
    row(T::Array, "array", Inclusive(5)),
    row(T::Binary, "binData", Prefixed(1)),
    row(T::Undefined, "undefined", Fixed(0)),
    row(T::ObjectId, "objectId", Fixed(12)),
    row(T::Boolean, "bool", Fixed(1)),
    row(T::DateTime, "date", Fixed(8)),
    row(T::Null, "null", Fixed(0)),
    row(T::Regex, "regex", TwoCStrings),
    row(T::DbPointer, "dbPointer", Prefixed(12)),
    row(T::JavaScript, "javascript", Prefixed(0)),
    row(T::Symbol, "symbol", Prefixed(0)),
    row(T::JavaScriptWithScope, "javascriptWithScope", Inclusive(14)),
    row(T::Int32, "int", Fixed(4)),
    row(T::Timestamp, "timestamp", Fixed(8)),
    row(T::Int64, "long", Fixed(8)),
    row(T::Decimal128, "decimal", Fixed(16)),
    row(T::MaxKey, "maxKey", Fixed(0)),
    row(T::MinKey, "minKey", Fixed(0)),
];

/// Row number by code; built at compile time so that a lookup is one load.
const BY_CODE: [u8; 256] = {
    let mut table = [u8::MAX; 256];
    let mut i = 0;
    while i < ELEMENTS.len() {
        table[ELEMENTS[i].code as usize] = i as u8;
        i += 1;
    }
    table
};

/// Returns the row of a type code, or `None` for a code that the specification does not define.
#[inline]
pub fn by_code(code: u8) -> Option<&'static Element> {
    ELEMENTS.get(BY_CODE[code as usize] as usize)
}

impl ElementType {
    /// Returns the name that the server's `$type` operator and error messages use.
    pub fn name(self) -> &'static str {
        by_code(self as u8).map_or("unknown", |row| row.name)
    }
}
