//! BSON without Python, sockets or MongoDB: elements, a checked reader, a writer, extended JSON.
//! Spec: bsonspec.org, bson-corpus, extended-json.
#![forbid(unsafe_code)]

pub mod binary;
mod bytes;
pub mod datetime;
pub mod decimal128;
pub mod element;
pub mod error;
pub mod extjson;
pub mod object_id;
pub mod reader;
pub mod timestamp;
mod validate;
mod value;
pub mod writer;

pub use binary::RawBinary;
pub use decimal128::Decimal128;
pub use element::ElementType;
pub use error::{Error, ErrorKind, Result};
pub use extjson::{JsonMode, JsonWriter, parse_json, parse_json_distinct, write_json};
pub use object_id::ObjectId;
pub use reader::{Iter, RawArray, RawDocument, RawElement, RawValue, Values};
pub use timestamp::Timestamp;
pub use validate::validate;
pub use writer::*;

/// The nesting that the JSON writer and the JSON parser accept by default.
///
/// Servers refuse documents nested deeper than about 180 levels; this leaves room for the enclosing command.
pub const MAX_DEPTH: usize = 256;
