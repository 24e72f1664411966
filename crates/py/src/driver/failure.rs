//! The core's failures as Python exceptions. None of this is hot, so classes are looked up when needed.

use std::fmt::Display;

use mangonel_proto::error::{Failure, ProtocolError};
use pyo3::IntoPyObjectExt;
use pyo3::exceptions::{PyAttributeError, PyConnectionResetError, PyMemoryError};
use pyo3::prelude::*;
use pyo3::types::IntoPyDict;

use super::interpreter;
use crate::codec::fault::{BSON_ERRORS, ErrorNames};
use crate::codec::{self, Codec};

static ERRORS: ErrorNames = ErrorNames::of("mangonel.errors");

/// Loads the classes early, for the time when imports no longer work.
pub fn keep_classes(py: Python<'_>) -> PyResult<()> {
    ERRORS.keep(py)?;
    BSON_ERRORS.keep(py)?;
    Ok(())
}

fn raise(py: Python<'_>, class: &str, message: &str) -> PyErr {
    raise_from(py, &ERRORS, class, message)
}

fn raise_from(py: Python<'_>, errors: &ErrorNames, class: &str, message: &str) -> PyErr {
    thrown(errors.get(py, class).and_then(|class| class.call1((message,))))
}

/// Returns the exception that was made; if that failed, the error.
pub fn thrown(made: PyResult<Bound<'_, PyAny>>) -> PyErr {
    made.map_or_else(|error| error, PyErr::from_value)
}

/// The exception when the peer broke the wire protocol.
pub fn protocol_error(py: Python<'_>, error: impl Display) -> PyErr {
    raise(py, "ProtocolError", &error.to_string())
}

/// Whether an error is of a class of `mangonel.errors`.
pub fn is_a(py: Python<'_>, error: &PyErr, class: &str) -> bool {
    ERRORS.get(py, class).is_ok_and(|class| error.is_instance(py, &class))
}

/// The exception when the received bytes are no message, or do not fit in memory.
pub fn broken_message(py: Python<'_>, error: &ProtocolError) -> PyErr {
    match error.is_out_of_memory() {
        true => PyMemoryError::new_err(error.to_string()),
        false => protocol_error(py, error),
    }
}

/// The exception for a wrong option or setting.
pub fn configuration(py: Python<'_>, message: &str) -> PyErr {
    raise(py, "ConfigurationError", message)
}

/// The exception when a document inside a reply is not valid BSON.
pub fn invalid_bson(py: Python<'_>, message: &str) -> PyErr {
    raise_from(py, &BSON_ERRORS, "InvalidBSON", message)
}

/// The exception for a document larger than the server stores.
pub fn document_too_large(py: Python<'_>, message: &str) -> PyErr {
    raise(py, "DocumentTooLarge", message)
}

/// The exception when the peer closed the connection; an `OSError`, like the socket module's own failures.
pub fn connection_closed(_py: Python<'_>) -> PyErr {
    PyConnectionResetError::new_err("the server closed the connection")
}

/// The exception when a closed client is used.
pub fn closed_client(py: Python<'_>) -> PyErr {
    raise(py, "InvalidOperation", "cannot use the client after close(); make a new one")
}

/// The exception for a call that the state of its object does not allow.
pub fn invalid_operation(py: Python<'_>, message: &str) -> PyErr {
    raise(py, "InvalidOperation", message)
}

/// The exception when the driver broke its own rules.
pub fn bug(py: Python<'_>, message: &str) -> PyErr {
    raise(py, "BugError", message)
}

/// Turns a failure into its exception, except `Failure::Command`, which needs the reply.
pub fn to_python(py: Python<'_>, failure: &Failure) -> PyErr {
    match failure {
        Failure::ServerSelection(message) => raise(py, "ServerSelectionTimeoutError", message),
        Failure::WaitQueue(message) => raise(py, "WaitQueueTimeoutError", message),
        Failure::TimeLimit(message) => time_limit(py, message),
        Failure::Network { message, timed_out: true } => raise(py, "NetworkTimeout", message),
        Failure::Network { message, timed_out: false } => raise(py, "AutoReconnect", message),
        Failure::Protocol(message) => raise(py, "ProtocolError", message),
        Failure::Configuration(message) => raise(py, "ConfigurationError", message),
        Failure::TooLarge(message) => raise(py, "DocumentTooLarge", message),
        Failure::Usage(message) => invalid_operation(py, message),
        Failure::Closed => closed_client(py),
        Failure::Authentication { message, code, reply } => refused_user(py, message, *code, reply),
        Failure::Unanswered => bug(py, "expected the reason why authentication ended, got none"),
        Failure::Command => bug(py, "expected a reply beside a command failure, got none"),
    }
}

/// Returns the class name and the message of the exception of `to_python`, for display.
pub fn class_and_message(failure: &Failure) -> (&'static str, &str) {
    let message = match failure {
        Failure::ServerSelection(message)
        | Failure::WaitQueue(message)
        | Failure::TimeLimit(message)
        | Failure::Network { message, .. }
        | Failure::Protocol(message)
        | Failure::Configuration(message)
        | Failure::TooLarge(message)
        | Failure::Authentication { message, .. } => message.as_str(),
        Failure::Usage(message) => message,
        Failure::Closed => "the client was closed",
        Failure::Unanswered => "authentication ended for no reason",
        Failure::Command => "the server refused the command",
    };
    (failure.class(), message)
}

/// The exception when the server refused a user.
fn refused_user(py: Python<'_>, message: &str, code: Option<i64>, reply: &[u8]) -> PyErr {
    let make = || {
        let details = match reply {
            [] => py.None(),
            reply => codec::decode_document(py, reply, Codec::for_errors(py)?.get())?,
        };
        ERRORS.get(py, "OperationFailure")?.call1((message, code, details))
    };
    thrown(make())
}

/// The exception when the operation's time is over; 50 is the code that the server itself would send.
fn time_limit(py: Python<'_>, message: &str) -> PyErr {
    thrown(ERRORS.get(py, "ExecutionTimeout").and_then(|class| {
        let details =
            [("ok", 0.into_py_any(py)?), ("errmsg", message.into_py_any(py)?), ("code", 50.into_py_any(py)?)];
        class.call1((message, 50, details.into_py_dict(py)?))
    }))
}

/// Returns the error with a label that only the client can add; or the exception of a signal handler that interrupted
/// this, with the error as its context.
pub fn labelled(py: Python<'_>, error: PyErr, label: &str) -> PyErr {
    change_label(py, error, "_add_error_label", label)
}

/// Returns the error without a label.
pub fn unlabelled(py: Python<'_>, error: PyErr, label: &str) -> PyErr {
    change_label(py, error, "_remove_error_label", label)
}

fn change_label(py: Python<'_>, error: PyErr, method: &str, label: &str) -> PyErr {
    match error.value(py).call_method1(method, (label,)) {
        Ok(_) => error,
        // Only exceptions of `mangonel.errors` can take a label.
        Err(missing) if missing.is_instance_of::<PyAttributeError>(py) => error,
        Err(other) => interpreter::following(py, other, &error),
    }
}

/// The server's code for a time limit that is over.
const MAX_TIME_EXPIRED: i64 = 50;

/// The exception for a reply that says `ok: 0`, decoded; `limits` is called if a time limit is the reason.
pub fn refused<'py>(
    py: Python<'py>,
    reply: Py<PyAny>,
    limits: impl FnOnce() -> PyResult<Bound<'py, PyAny>>,
) -> PyErr {
    let code = reply.bind(py).get_item("code").and_then(|code| code.extract::<i64>());
    if !matches!(code, Ok(MAX_TIME_EXPIRED)) {
        return thrown(made_of_reply(py, "command_error", reply));
    }
    let command_error = ERRORS.get(py, "command_error");
    thrown(command_error.and_then(|command_error| command_error.call1((reply, py.None(), limits()?))))
}

/// The exception for a reply that did not arrive in time; it names the configured limits.
pub fn late<'py>(
    py: Python<'py>,
    message: &str,
    limits: impl FnOnce() -> PyResult<Bound<'py, PyAny>>,
) -> PyErr {
    let named = limits()
        .and_then(|limits| ERRORS.get(py, "format_timeouts")?.call1((limits,)))
        .and_then(|named| named.extract::<String>());
    match named {
        Ok(named) => raise(py, "NetworkTimeout", &format!("{message}{named}")),
        Err(error) => error,
    }
}

/// The exception for an operation that would have been retried after this error, but ran out of time.
pub fn out_of_time(py: Python<'_>, error: &PyErr) -> PyErr {
    thrown(ERRORS.get(py, "out_of_time").and_then(|out_of_time| out_of_time.call1((error.value(py),))))
}

/// The exception for the write errors in a decoded reply; None if there are none.
pub fn write_refused(py: Python<'_>, reply: Py<PyAny>) -> Option<PyErr> {
    found_in_reply(py, "write_error", reply)
}

/// The exception for the `writeConcernError` in a decoded reply; None if there is none.
pub fn not_confirmed(py: Python<'_>, reply: Py<PyAny>) -> Option<PyErr> {
    found_in_reply(py, "write_concern_error", reply)
}

fn found_in_reply(py: Python<'_>, reader: &str, reply: Py<PyAny>) -> Option<PyErr> {
    match made_of_reply(py, reader, reply) {
        Ok(error) => (!error.is_none()).then(|| PyErr::from_value(error)),
        Err(error) => Some(error),
    }
}

fn made_of_reply<'py>(py: Python<'py>, reader: &str, reply: Py<PyAny>) -> PyResult<Bound<'py, PyAny>> {
    ERRORS.get(py, reader)?.call1((reply,))
}
