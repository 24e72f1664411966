//! Errors of encoding and decoding before they become Python exceptions: a class, a sentence, and the path of the
//! offending value, which is built only while an error is passed up. Knows the exception classes by name.
use std::fmt::Write;

use pyo3::exceptions::{
    PyAttributeError, PyException, PyMemoryError, PyOverflowError, PyRecursionError, PyValueError,
};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyDict;

/// Nesting both directions accept. The server stops at 100 levels (200 inside its own commands); the bound keeps the
/// recursion far from the end of a small thread stack.
pub(crate) const MAX_DEPTH: u32 = 500;

/// The longest path an error names; deeper ones are cut in the middle.
const MAX_PATH: usize = 24;

/// One step of the path from the document to the offending value.
pub(crate) enum Step {
    Key(String),
    Index(usize),
}

/// The exception class an error ends as.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Document,
    StringData,
    Bson,
    /// A type code that BSON does not have: InvalidBSON, which names the field as well.
    UnknownType,
    Overflow,
    /// A document that no BSON length can hold.
    Size,
    Recursion,
    /// A value that a model's field does not accept.
    Field,
}

/// An error that is being passed up.
pub(crate) enum Problem {
    /// Raised by the interpreter or by the user's code; passed on unchanged.
    Python(PyErr),
    /// Found by the codec. The path starts with the innermost step.
    Found { kind: Kind, what: String, tail: String, path: Vec<Step> },
}

/// Boxed, so that the happy path returns two registers.
pub(crate) type Fault = Box<Problem>;

impl From<PyErr> for Fault {
    fn from(error: PyErr) -> Self {
        Box::new(Problem::Python(error))
    }
}

/// The error the interpreter has set.
#[cold]
#[inline(never)]
pub(crate) fn raised(py: Python<'_>) -> Fault {
    Box::new(Problem::Python(PyErr::fetch(py)))
}

/// An error found by the codec: `what` names the failure, `tail` its reason and the remedy.
#[cold]
#[inline(never)]
pub(crate) fn found(kind: Kind, what: impl Into<String>, tail: impl Into<String>) -> Fault {
    Box::new(Problem::Found { kind, what: what.into(), tail: tail.into(), path: Vec::new() })
}

/// The error for bytes that do not fit in memory.
#[cold]
#[inline(never)]
pub(crate) fn no_memory(more: usize) -> Fault {
    PyMemoryError::new_err(format!("no memory for {more} more bytes")).into()
}

/// Bytes that are not BSON, at this offset of the input.
#[cold]
#[inline(never)]
pub(crate) fn invalid(at: usize, what: impl AsRef<str>) -> Fault {
    found(Kind::Bson, format!("invalid BSON at byte {at}: {}", what.as_ref()), "")
}

/// A type code that BSON does not have, at this offset of the input.
#[cold]
#[inline(never)]
pub(crate) fn unknown_type(at: usize, code: u8) -> Fault {
    let what = format!("invalid BSON at byte {at}: Detected unknown BSON type b'\\x{code:02x}'");
    found(Kind::UnknownType, what, "Are you using the latest driver version?")
}

/// Adds the step that led to the value, while an error is passed up.
#[cold]
#[inline(never)]
pub(crate) fn within(mut fault: Fault, step: Step) -> Fault {
    if let Problem::Found { path, .. } = &mut *fault {
        path.push(step);
    }
    fault
}

/// Converts an interpreter error during decoding as PyMongo does: any exception but an exit becomes InvalidBSON.
#[cold]
#[inline(never)]
pub(crate) fn as_invalid(py: Python<'_>, error: PyErr, at: usize) -> Fault {
    if !error.is_instance_of::<PyException>(py) || error.is_instance_of::<pyo3::exceptions::PyMemoryError>(py)
    {
        return error.into();
    }
    match error_class(py, "InvalidBSON") {
        Ok(class) if error.matches(py, &class).unwrap_or(false) => error.into(),
        Ok(_) => invalid(at, error.value(py).to_string()),
        Err(other) => other.into(),
    }
}

/// Looks up an exception class of `mangonel.bson.errors`.
pub(crate) fn error_class<'py>(py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyAny>> {
    BSON_ERRORS.get(py, name)
}

/// The names of a module of exceptions. They are kept, since a finalizer at the interpreter's exit may need them when
/// imports no longer work. The module itself is not kept: the interpreter empties modules that are still alive at exit.
pub(crate) struct ErrorNames {
    module: &'static str,
    names: PyOnceLock<Py<PyDict>>,
}

impl ErrorNames {
    pub(crate) const fn of(module: &'static str) -> Self {
        ErrorNames { module, names: PyOnceLock::new() }
    }

    /// Loads the module, unless it is loaded.
    pub(crate) fn keep<'py>(&self, py: Python<'py>) -> PyResult<&Bound<'py, PyDict>> {
        let load = || Ok::<_, PyErr>(py.import(self.module)?.dict().unbind());
        Ok(self.names.get_or_try_init(py, load)?.bind(py))
    }

    pub(crate) fn get<'py>(&self, py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyAny>> {
        let found = self.keep(py)?.get_item(name)?;
        found.ok_or_else(|| PyAttributeError::new_err(name.to_owned()))
    }
}

pub(crate) static BSON_ERRORS: ErrorNames = ErrorNames::of("mangonel.bson.errors");

/// Turns an error into the Python exception, which holds the document if its class has a place for it.
#[cold]
#[expect(clippy::boxed_local, reason = "errors travel boxed, so every caller has it so")]
pub(crate) fn into_exception(py: Python<'_>, fault: Fault, document: Option<&Bound<'_, PyAny>>) -> PyErr {
    let (kind, what, tail, path) = match *fault {
        Problem::Python(error) => return error,
        Problem::Found { kind, what, tail, path } => (kind, what, tail, path),
    };
    // Programs written for PyMongo look for these beginnings.
    let mut text = if kind == Kind::Document { format!("Invalid document: {what}") } else { what };
    if let (Kind::UnknownType, Some(name)) = (kind, field_name(&path)) {
        // Writing to a String cannot fail.
        let _ = write!(text, " for fieldname '{name}'");
    }
    if !path.is_empty() {
        text.push_str(" at ");
        write_path(&mut text, &path);
    }
    if !tail.is_empty() {
        text.push_str(": ");
        text.push_str(&tail);
    }
    let class = match kind {
        Kind::Overflow => return PyOverflowError::new_err(text),
        Kind::Size => return PyValueError::new_err(text),
        Kind::Recursion => return PyRecursionError::new_err(text),
        Kind::Document => "InvalidDocument",
        Kind::StringData => "InvalidStringData",
        Kind::Bson | Kind::UnknownType => "InvalidBSON",
        Kind::Field => return field_error(py, text),
    };
    let made = error_class(py, class).and_then(|class| match (kind, document) {
        (Kind::Document, Some(document)) => class.call1((text, document)),
        _ => class.call1((text,)),
    });
    match made {
        Ok(exception) => PyErr::from_value(exception),
        Err(error) => error,
    }
}

/// The mapper's own exception.
fn field_error(py: Python<'_>, text: String) -> PyErr {
    let class = py.import("mangonel.odm.errors").and_then(|errors| errors.getattr("ValidationError"));
    match class.and_then(|class| class.call1((text,))) {
        Ok(exception) => PyErr::from_value(exception),
        Err(error) => error,
    }
}

/// The innermost key of a path whose steps go outwards.
fn field_name(path: &[Step]) -> Option<&str> {
    path.iter().find_map(|step| match step {
        Step::Key(key) => Some(key.as_str()),
        Step::Index(_) => None,
    })
}

fn write_path(text: &mut String, path: &[Step]) {
    text.push('$');
    let cut = path.len() > MAX_PATH;
    for (index, step) in path.iter().rev().enumerate() {
        if cut && index >= MAX_PATH / 2 && index < path.len() - MAX_PATH / 2 {
            if index == MAX_PATH / 2 {
                text.push_str(".(…)");
            }
            continue;
        }
        // Writing to a String cannot fail.
        let _ = match step {
            Step::Key(key) => write!(text, ".{key}"),
            Step::Index(index) => write!(text, "[{index}]"),
        };
    }
}
