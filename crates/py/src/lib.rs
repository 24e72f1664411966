//! The binding: Python to and from BSON, and the core's machines as Python classes. Makes no protocol decision.

pub mod codec;
mod columns;
mod driver;
mod native;
mod odm;
mod thread_end;

use pyo3::prelude::*;

/// The Rust half of mangonel; its public face is the `mangonel` package.
// The codec's caches are guarded by the GIL, so a free-threaded interpreter has to take it back.
#[pymodule(gil_used = true)]
fn _core(module: &Bound<'_, PyModule>) -> PyResult<()> {
    codec::register(module)?;
    driver::register(module)?;
    columns::register(module)?;
    odm::register(module)
}
