//! Converts BSON documents to columns in Apache Arrow's layout: typed builders, kinds that are given or
//! inferred and widened, a policy for values that do not fit. Knows no Python, no I/O and no C interface.
//! Spec: Arrow columnar format.
#![forbid(unsafe_code)]

mod bits;
mod builder;
mod categories;
mod column;
mod fields;
mod kind;
mod names;
mod null_paths;
mod problem;
pub mod rows;
mod text;
mod type_counts;
mod widen;

pub use bits::Bits;
pub use builder::{Builder, Chunk, Table};
pub use categories::Categories;
pub use column::{Column, Data, Texts};
pub use fields::Fields;
pub use kind::{Field, Kind};
pub use null_paths::NULL_PATHS;
pub use problem::{Failure, OnInvalid};
pub use type_counts::{MAX_PATHS, Place, TypeCounts};

/// The most levels of nested documents and arrays that become columns.
pub const MAX_DEPTH: usize = 100;

/// The most columns that inference makes, including those inside structs.
pub const MAX_COLUMNS: usize = 2_000;
