//! Extended JSON: documents to text and back. Knows no Python and no files.
//! Spec: extended-json.

mod base64;
mod convert;
mod parse;
mod text;
mod write;

pub use convert::parse_json;
pub use write::{JsonMode, write_json};
