//! The kinds of columns, and which kind holds the values of two others.

use mangonel_bson::{RawValue, binary};

/// The kind of a column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Nothing but nulls.
    Null,
    /// True and false.
    Bool,
    /// Integers of 32 bits.
    Int32,
    /// Integers of 64 bits.
    Int64,
    /// Floating point numbers of 64 bits.
    Double,
    /// Milliseconds since 1970 UTC, with the zone UTC or without a zone.
    Date {
        /// Whether the column names the zone.
        has_zone: bool,
    },
    /// Twelve bytes.
    ObjectId,
    /// Sixteen bytes of subtype 4.
    Uuid,
    /// Decimal numbers of a fixed scale.
    Decimal {
        /// Digits, at most 38.
        precision: u8,
        /// How many of them are after the point.
        scale: u8,
    },
    /// UTF-8; values that have no other kind are extended JSON.
    Text,
    /// Repeated UTF-8: indexes into texts that are stored once.
    Category,
    /// Bytes of any subtype.
    Binary,
    /// Arrays.
    List(Box<Kind>),
    /// Documents.
    Struct(Vec<Field>),
}

/// A named column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    /// The key.
    pub name: String,
    /// The kind of its values.
    pub kind: Kind,
}

impl Kind {
    /// Returns the inferred kind of a value. Lists and structs begin empty.
    pub(crate) fn of(value: &RawValue<'_>) -> Self {
        match value {
            RawValue::Null | RawValue::Undefined => Self::Null,
            RawValue::Boolean(_) => Self::Bool,
            RawValue::Int32(_) => Self::Int32,
            RawValue::Int64(_) => Self::Int64,
            RawValue::Double(_) => Self::Double,
            RawValue::DateTime(_) => Self::Date { has_zone: true },
            RawValue::ObjectId(_) => Self::ObjectId,
            RawValue::Binary(found) if found.subtype == binary::UUID && found.bytes.len() == 16 => Self::Uuid,
            RawValue::Binary(_) => Self::Binary,
            RawValue::Array(_) => Self::List(Box::new(Self::Null)),
            RawValue::Document(_) => Self::Struct(Vec::new()),
            _ => Self::Text,
        }
    }

    /// Returns the kind that holds the values of both; `None`: only text does.
    pub(crate) fn joined(&self, other: &Self) -> Option<Self> {
        use Kind::{Binary, Double, Int32, Int64, Null, Uuid};
        Some(match (self, other) {
            (Null, kind) | (kind, Null) => kind.clone(),
            (Int32, Int64) | (Int64, Int32) => Int64,
            (Int32 | Int64, Double) | (Double, Int32 | Int64) => Double,
            (Binary, Uuid) | (Uuid, Binary) => Binary,
            _ => return None,
        })
    }

    /// Its name in errors.
    pub fn name(&self) -> String {
        match self {
            Self::Null => "null".into(),
            Self::Bool => "bool".into(),
            Self::Int32 => "int32".into(),
            Self::Int64 => "int64".into(),
            Self::Double => "double".into(),
            Self::Date { .. } => "timestamp[ms]".into(),
            Self::ObjectId => "ObjectId".into(),
            Self::Uuid => "UUID".into(),
            Self::Decimal { precision, scale } => format!("decimal128({precision}, {scale})"),
            Self::Text => "string".into(),
            Self::Category => "category".into(),
            Self::Binary => "binary".into(),
            Self::List(_) => "list".into(),
            Self::Struct(_) => "struct".into(),
        }
    }
}
