//! Reports one operation to the tracer: its start, each command sent and answered, its end. The tracer is
//! `_observe/tracing.py`. Without one, nothing here runs; an operation that is not recorded costs one call.

use mangonel_proto::events::{CommandEnd, CommandFailure};
use mangonel_proto::exchange::{Exchange as CoreExchange, Step};
use mangonel_proto::metrics::collection_of;
use mangonel_proto::operation::{Operation, SessionChoice};
use pyo3::exceptions::PyException;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyString};

use super::core::Core;
use super::descriptions::address_of;
use super::{failure, interpreter};

/// The tracer's object for an operation that it records.
pub struct Traced(Py<PyAny>);

impl Traced {
    /// Tells the tracer that an operation begins; `None` when it does not record it.
    pub fn begin(py: Python<'_>, core: &Core, tracer: &Py<PyAny>, asked: &Operation) -> Option<Traced> {
        if asked.is_silent
            || (asked.kind.end().is_some() && core.peek(|state| state.client.ends_nothing(asked)))
        {
            return None;
        }
        let collection = collection_of(asked.command.body_elements());
        let collection = collection.map(|collection| PyString::intern(py, collection));
        let session = match &asked.session {
            SessionChoice::Explicit(session) => Some(session.0),
            _ => None,
        };
        let name = PyString::intern(py, asked.command.name());
        let arguments = (name, &*asked.database, collection, session, asked.group);
        let traced = tracer.bind(py).call_method1(intern!(py, "operation_started"), arguments);
        match traced {
            Ok(traced) => (!traced.is_none()).then(|| Traced(traced.unbind())),
            Err(error) => {
                show(py, error, tracer.bind(py));
                None
            }
        }
    }

    /// Reports everything since the last call. `refused`: the caller's error if a command was answered but its writes
    /// failed.
    pub fn follow(&self, py: Python<'_>, core: &Core, inner: &mut CoreExchange, refused: Option<PyErr>) {
        if let Some(facts) = inner.take_command_start() {
            let session = core.peek(|state| inner.stamped_session(&state.client));
            self.tell(py, |traced| {
                let (id, number) = session.map_or((None, None), |(id, number)| (Some(id), number));
                let shows = traced.getattr(intern!(py, "shows_commands"))?.is_truthy()?;
                let text = shows.then(|| PyBytes::new(py, &inner.sent_document()));
                let arguments = (
                    PyString::intern(py, &facts.name),
                    facts.link.0,
                    address_of(&facts.address),
                    facts.server_connection_id,
                    id.as_ref().map(uuid_text),
                    number,
                    text,
                );
                traced.call_method1(intern!(py, "command_started"), arguments).map(drop)
            });
        }
        let is_over = inner.step() == Step::Done;
        match inner.take_command_end() {
            None => {}
            Some(CommandEnd::Answered { cursor })
                if is_over && inner.failure().is_none() && refused.is_none() =>
            {
                self.tell(py, |traced| traced.call_method1(intern!(py, "answered"), (cursor,)).map(drop));
                return;
            }
            Some(CommandEnd::Answered { cursor }) => self.tell(py, |traced| {
                traced.call_method1(intern!(py, "command_succeeded"), (cursor,)).map(drop)
            }),
            Some(CommandEnd::Refused { code, message }) => self.tell(py, |traced| {
                traced
                    .call_method1(intern!(py, "command_failed"), ("OperationFailure", &*message, code))
                    .map(drop)
            }),
            Some(CommandEnd::Failed(reason)) => self.tell(py, |traced| {
                let (class, message) = class_and_message(&reason);
                let code: Option<i64> = None;
                traced.call_method1(intern!(py, "command_failed"), (class, message, code)).map(drop)
            }),
        }
        if let Some(error) = refused {
            self.tell(py, |traced| {
                let value = error.value(py);
                let told = value.to_string();
                // The error's details contain the user's documents.
                let message = told.split(", full error: ").next().unwrap_or_default();
                let failure = (error.get_type(py).name()?, message, value.getattr_opt(intern!(py, "code"))?);
                traced.call_method1(intern!(py, "operation_ended"), (failure,)).map(drop)
            });
        } else if is_over {
            self.tell(py, |traced| {
                let failure = inner.failure().map(failure::class_and_message);
                traced.call_method1(intern!(py, "operation_ended"), (failure,)).map(drop)
            });
        }
    }

    /// Returns the function to call later if the operation was given up where no Python code may run.
    pub fn into_ending(self) -> Py<PyAny> {
        self.0
    }

    fn tell(&self, py: Python<'_>, call: impl FnOnce(&Bound<'_, PyAny>) -> PyResult<()>) {
        let traced = self.0.bind(py);
        if let Err(error) = call(traced) {
            show(py, error, traced);
        }
    }
}

/// Prints an exception of an exporter or a sampler, since it is not the operation's fault. Exceptions outside
/// `Exception`, such as `KeyboardInterrupt`, are raised soon.
fn show(py: Python<'_>, error: PyErr, object: &Bound<'_, PyAny>) {
    match error.is_instance_of::<PyException>(py) {
        true => error.write_unraisable(py, Some(object)),
        false => interpreter::raise_soon(py, error, object),
    }
}

/// The class and the message of the exception for a command without an answer.
pub fn class_and_message(reason: &CommandFailure) -> (&'static str, &str) {
    match reason {
        // Such a failure has a reply, which is more informative.
        CommandFailure::Reply(_) => ("OperationFailure", ""),
        CommandFailure::Network(message) => ("AutoReconnect", message),
        CommandFailure::Timeout(message) => ("NetworkTimeout", message),
        CommandFailure::Protocol(message) => ("ProtocolError", message),
        CommandFailure::Cancelled(message) => ("CancelledError", message),
    }
}

/// Writes a session's id in the usual form of UUIDs.
fn uuid_text(id: &[u8; 16]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut text = String::with_capacity(36);
    for (place, byte) in id.iter().enumerate() {
        if matches!(place, 4 | 6 | 8 | 10) {
            text.push('-');
        }
        text.push(char::from(DIGITS[usize::from(byte >> 4)]));
        text.push(char::from(DIGITS[usize::from(byte & 15)]));
    }
    text
}
