//! Moves a file's chunks between messages and memory: from a batch directly into the caller's memory, and from there
//! directly into inserts. Makes no Python object per chunk; knows no command and waits for nothing.
//! Spec: gridfs.

mod packer;
mod reader;
mod target;

use pyo3::prelude::*;

use self::packer::ChunkPacker;
use self::reader::ChunkReader;
pub use self::target::ChunkTarget;

/// Adds this module's classes.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<ChunkTarget>()?;
    module.add_class::<ChunkReader>()?;
    module.add_class::<ChunkPacker>()
}
