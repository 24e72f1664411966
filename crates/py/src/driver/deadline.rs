//! The time limit of the block in which an operation begins: context variables, so that every task and thread has its
//! own.
//! Spec: client-side-operations-timeout.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use mangonel_entries::entries;
use mangonel_proto::operation::Limit;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyTuple;

use crate::thread_end::Entry;

/// The variables of the innermost block: its deadline, and its limit in seconds.
static VARIABLES: PyOnceLock<(Py<PyAny>, Py<PyAny>)> = PyOnceLock::new();

/// Set when the first block is entered; programs without blocks pay only for reading this.
static IS_USED: AtomicBool = AtomicBool::new(false);

/// Adds the class and the function of this module.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Block>()?;
    module.add_function(wrap_pyfunction!(use_limit_variables, module)?)
}

/// Use these context variables for blocks. Their values: None, or a reading of `time.monotonic()`, infinite for no limit;
/// and None, or seconds.
#[entries]
#[pyfunction]
fn use_limit_variables(py: Python<'_>, deadline: Py<PyAny>, seconds: Py<PyAny>) {
    VARIABLES.get_or_init(py, || (deadline, seconds));
}

/// Returns the limit of the running context; `is_anew`: as if its block began now.
pub fn current(py: Python<'_>, is_anew: bool) -> PyResult<Limit> {
    if !IS_USED.load(Ordering::Relaxed) {
        return Ok(Limit::OfClient);
    }
    let (deadline, seconds) = variables(py)?;
    let value = |variable: &Py<PyAny>| variable.bind(py).call_method0("get")?.extract::<Option<f64>>();
    let left = match (is_anew, value(if is_anew { seconds } else { deadline })?) {
        (_, None) => return Ok(Limit::OfClient),
        (true, Some(0.0)) => return Ok(Limit::None),
        (true, Some(seconds)) => seconds,
        (false, Some(deadline)) if deadline.is_infinite() => return Ok(Limit::None),
        (false, Some(deadline)) => deadline - monotonic(py)?,
    };
    Ok(Limit::Within(Duration::try_from_secs_f64(left).unwrap_or_default()))
}

fn variables(py: Python<'_>) -> PyResult<&(Py<PyAny>, Py<PyAny>)> {
    VARIABLES.get(py).ok_or_else(|| PyRuntimeError::new_err("expected the variables of limits to be set"))
}

fn monotonic(py: Python<'_>) -> PyResult<f64> {
    py.import("time")?.call_method0("monotonic")?.extract()
}

/// One `with` block with a time limit; it cannot be entered again before it has ended.
///
/// In Rust, since in Python a signal handler may raise inside `__enter__` or before `__exit__`: the limit would stay,
/// and once its time is over, every later operation of the thread would fail.
///
/// `seconds`: the limit; 0: none. None: the limit of the surrounding blocks. `is_nested`: it also applies inside
/// another block, whose limit it can only shorten. `is_anew`: ignore the deadlines of the surrounding blocks. `until`:
/// a deadline that began earlier, a reading of `time.monotonic()`. None: it begins now.
#[pyclass(module = "mangonel._core", name = "Limit")]
pub struct Block {
    _entry: Entry,
    seconds: Option<f64>,
    is_nested: bool,
    is_anew: bool,
    until: Option<f64>,
    tokens: Option<(Py<PyAny>, Py<PyAny>)>,
}

#[entries]
#[pymethods]
impl Block {
    #[new]
    #[pyo3(signature = (seconds, *, is_nested=true, is_anew=false, until=None))]
    fn new(seconds: Option<f64>, is_nested: bool, is_anew: bool, until: Option<f64>) -> Self {
        Block { _entry: Entry, seconds, is_nested, is_anew, until, tokens: None }
    }

    fn __enter__(&mut self, py: Python<'_>) -> PyResult<()> {
        let (deadline, limit) = variables(py)?;
        let (deadline, limit) = (deadline.bind(py), limit.bind(py));
        IS_USED.store(true, Ordering::Relaxed);
        let outer: Option<f64> = if self.is_anew { None } else { deadline.call_method0("get")?.extract()? };
        if outer.is_some() && !self.is_nested {
            return Ok(());
        }
        let ends = match self.seconds {
            None => outer,
            Some(seconds) => {
                let own = match self.until {
                    Some(until) => until,
                    None if seconds == 0.0 => f64::INFINITY,
                    None => monotonic(py)? + seconds,
                };
                Some(outer.map_or(own, |outer| outer.min(own)))
            }
        };
        let first = deadline.call_method1("set", (ends,))?;
        match limit.call_method1("set", (self.seconds,)) {
            Ok(second) => self.tokens = Some((first.unbind(), second.unbind())),
            Err(error) => {
                deadline.call_method1("reset", (first,))?;
                return Err(error);
            }
        }
        Ok(())
    }

    #[pyo3(signature = (*_error))]
    fn __exit__(&mut self, py: Python<'_>, _error: &Bound<'_, PyTuple>) -> PyResult<()> {
        let Some((first, second)) = self.tokens.take() else { return Ok(()) };
        let (deadline, limit) = variables(py)?;
        deadline.call_method1(py, "reset", (first,))?;
        limit.call_method1(py, "reset", (second,))?;
        Ok(())
    }
}
