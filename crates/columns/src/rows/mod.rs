//! Converts columns of other libraries, in Apache Arrow's layout, to BSON documents: one for each row.
//! Lengths, offsets and indexes are checked here; the caller guarantees that each buffer is as long as its
//! array says.
//! Spec: Arrow columnar format, the format strings of the C data interface.

mod form;
mod values;
mod write;

pub use form::{Form, FormField, Moment, Width};
pub use values::{Layout, Source, Values};
pub use write::Rows;
