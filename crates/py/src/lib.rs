//! The binding: Python to and from BSON, and the core's machines as Python classes. Makes no protocol decision.
use pyo3::prelude::*;

/// The Rust half of mangonel; its public face is the `mangonel` package.
#[pymodule]
fn _core(_module: &Bound<'_, PyModule>) -> PyResult<()> {
    Ok(())
}
