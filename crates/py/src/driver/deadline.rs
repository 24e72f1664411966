//! The time limit of the block that an operation is begun in. The block itself is Python's: a context variable, so that
//! every task and thread has its own. Spec: client-side-operations-timeout.

use std::time::Duration;

use mangonel_entries::entries;
use mangonel_proto::operation::Limit;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;

/// Set when the first block is entered; programs without blocks only pay for reading it.
static DEADLINE: PyOnceLock<Py<PyAny>> = PyOnceLock::new();

/// Adds the function of this module.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(watch_deadline, module)?)
}

/// Read the context variable `deadline` whenever an operation begins from now on. Its value: None, or a
/// reading of `time.monotonic()`, infinite for no limit.
#[entries]
#[pyfunction]
fn watch_deadline(py: Python<'_>, deadline: Py<PyAny>) {
    DEADLINE.get_or_init(py, || deadline);
}

/// Returns the limit of the running context.
pub fn current(py: Python<'_>) -> PyResult<Limit> {
    let Some(variable) = DEADLINE.get(py) else { return Ok(Limit::OfClient) };
    let Some(deadline) = variable.bind(py).call_method0("get")?.extract::<Option<f64>>()? else {
        return Ok(Limit::OfClient);
    };
    if deadline.is_infinite() {
        return Ok(Limit::None);
    }
    let now: f64 = py.import("time")?.call_method0("monotonic")?.extract()?;
    Ok(Limit::Within(Duration::try_from_secs_f64(deadline - now).unwrap_or_default()))
}
