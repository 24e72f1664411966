//! Questions that can be asked of a value without walking it. Reads no bytes.

use std::fmt;

use crate::element::ElementType as T;
use crate::reader::RawValue;

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
