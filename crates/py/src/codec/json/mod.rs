//! Extended JSON between text and Python objects without a step in between, for exact builtin types and the
//! package's own. Anything else (a subclass, a document class, an error) gives NotImplemented: the Python
//! functions of `json_util` start over and report the error. So nothing here runs the user's code, and
//! nothing here raises. Spec: extended-json.
mod read;
mod write;

use mangonel_entries::entries;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyString};

use super::options::DocumentClass;
use super::text;
use super::types::types;
use read::Reader;
use write::{Style, Writer};

/// Beyond this nesting the Python functions take over, which stop at the interpreter's limit.
const MAX_DEPTH: u32 = 200;

/// The values of `JSONMode`.
const LEGACY: i64 = 0;
const CANONICAL: i64 = 2;

/// The reason why there is no result.
enum Stop {
    Unusual,
    /// The interpreter must stop, for example after Ctrl-C.
    Raised(Box<PyErr>),
}

impl From<PyErr> for Stop {
    fn from(_: PyErr) -> Self {
        Self::Unusual
    }
}

impl From<super::fault::Fault> for Stop {
    fn from(_: super::fault::Fault) -> Self {
        Self::Unusual
    }
}

type Found<T> = Result<T, Stop>;

/// Handles an error of one of this package's functions: the Python functions meet it again, unless the interpreter must
/// stop.
fn of_call(py: Python<'_>, error: PyErr) -> Stop {
    if error.is_instance_of::<pyo3::exceptions::PyException>(py) {
        Stop::Unusual
    } else {
        Stop::Raised(Box::new(error))
    }
}

fn answer<'py>(py: Python<'py>, made: Found<Bound<'py, PyAny>>) -> PyResult<Bound<'py, PyAny>> {
    match made {
        Ok(made) => Ok(made),
        Err(Stop::Raised(error)) => Err(*error),
        Err(Stop::Unusual) => Ok(py.NotImplemented().into_bound(py)),
    }
}

/// Return the value of `text`, a str or UTF-8 bytes; NotImplemented: use the Python functions.
#[entries]
#[pyfunction]
pub(super) fn json_loads<'py>(
    text: &Bound<'py, PyAny>,
    options: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyAny>> {
    let py = text.py();
    let codec = super::prepared(py, Some(options))?;
    let unusual = || Ok(py.NotImplemented().into_bound(py));
    if !matches!(codec.get().document_class, DocumentClass::Dict) {
        return unusual();
    }
    let characters = if let Ok(text) = text.cast_exact::<PyString>() {
        text.to_str().ok()
    } else if let Ok(bytes) = text.cast_exact::<PyBytes>() {
        let bytes = bytes.as_bytes();
        // Zeros among the first bytes mean another encoding.
        if bytes.iter().take(4).any(|byte| *byte == 0) {
            None
        } else {
            simdutf8::basic::from_utf8(bytes).ok()
        }
    } else {
        None
    };
    let Some(characters) = characters else { return unusual() };
    answer(py, Reader::new(py, codec.get(), options, characters).whole())
}

/// Return `value` as extended JSON; NotImplemented: use the Python functions.
#[entries]
#[pyfunction]
pub(super) fn json_dumps<'py>(
    value: &Bound<'py, PyAny>,
    options: &Bound<'py, PyAny>,
    is_ascii: bool,
    between: &str,
    after_key: &str,
) -> PyResult<Bound<'py, PyAny>> {
    let py = value.py();
    let number = |name: &Bound<'py, PyString>| options.getattr(name)?.extract::<i64>();
    let style = Style {
        mode: number(pyo3::intern!(py, "json_mode"))?,
        dates: number(pyo3::intern!(py, "datetime_representation"))?,
        is_strict_long: options.getattr(pyo3::intern!(py, "strict_number_long"))?.is_truthy()?,
        is_ascii,
        between: between.as_bytes(),
        after_key: after_key.as_bytes(),
    };
    if !between.is_ascii() || !after_key.is_ascii() {
        return Ok(py.NotImplemented().into_bound(py));
    }
    let mut out = super::SCRATCH.take(py);
    out.clear();
    let written = Writer::new(py, types(py)?, options, style, &mut out).value(value, 0, false);
    let made = written.and_then(|()| Ok(text::decode(py, &out, None)?));
    if out.capacity() <= super::SCRATCH_LIMIT {
        out.clear();
        drop(super::SCRATCH.replace(py, out));
    }
    answer(py, made)
}
