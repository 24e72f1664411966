//! A value of any type, and questions that need no walk through it. Reads no bytes.

use std::fmt;

use crate::binary::RawBinary;
use crate::decimal128::Decimal128;
use crate::element::ElementType as T;
use crate::object_id::ObjectId;
use crate::reader::{RawArray, RawDocument};

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

impl RawValue<'_> {
    /// Returns the type.
    pub fn element_type(&self) -> T {
        match self {
            Self::Double(_) => T::Double,
            Self::String(_) => T::String,
            Self::Document(_) => T::Document,
            Self::Array(_) => T::Array,
            Self::Binary(_) => T::Binary,
            Self::Undefined => T::Undefined,
            Self::ObjectId(_) => T::ObjectId,
            Self::Boolean(_) => T::Boolean,
            Self::DateTime(_) => T::DateTime,
            Self::Null => T::Null,
            Self::Regex { .. } => T::Regex,
            Self::DbPointer { .. } => T::DbPointer,
            Self::JavaScript(_) => T::JavaScript,
            Self::Symbol(_) => T::Symbol,
            Self::JavaScriptWithScope { .. } => T::JavaScriptWithScope,
            Self::Int32(_) => T::Int32,
            Self::Timestamp { .. } => T::Timestamp,
            Self::Int64(_) => T::Int64,
            Self::Decimal128(_) => T::Decimal128,
            Self::MinKey => T::MinKey,
            Self::MaxKey => T::MaxKey,
        }
    }

    /// Returns an integer stored as int32, int64 or a double without a fraction, or `None`.
    pub fn as_i64_lenient(&self) -> Option<i64> {
        // Every integer of this magnitude is exact as a double; 2^63 itself does not fit an i64.
        const LIMIT: f64 = 9_223_372_036_854_775_808.0;
        match *self {
            Self::Int32(value) => Some(i64::from(value)),
            Self::Int64(value) => Some(value),
            Self::Double(value) if value.fract() == 0.0 && (-LIMIT..LIMIT).contains(&value) => {
                Some(value as i64)
            }
            _ => None,
        }
    }

    /// Returns a truth value stored as a boolean or a number (anything but zero is true), or `None`.
    pub fn as_bool_lenient(&self) -> Option<bool> {
        match *self {
            Self::Boolean(value) => Some(value),
            Self::Int32(value) => Some(value != 0),
            Self::Int64(value) => Some(value != 0),
            Self::Double(value) => Some(value != 0.0),
            _ => None,
        }
    }
}

/// For error messages: the type, and the value when it is a number.
impl fmt::Display for RawValue<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.element_type().name();
        match self {
            Self::Int32(value) => write!(f, "{name} {value}"),
            Self::Int64(value) => write!(f, "{name} {value}"),
            Self::Double(value) => write!(f, "{name} {value}"),
            Self::Boolean(value) => write!(f, "{name} {value}"),
            _ => f.write_str(name),
        }
    }
}
