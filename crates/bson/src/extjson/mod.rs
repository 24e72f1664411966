//! Extended JSON: documents to text and back. Knows no Python and no files.
//! Spec: extended-json.

pub mod base64;
mod convert;
mod keys;
mod parse;
pub mod python;
mod room;
mod short;
mod text;
mod write;

pub use convert::{parse_json, parse_json_distinct};
pub use write::{JsonMode, JsonWriter, write_json, write_json_value};
