//! The core's events handed to Python, once the lock is released: one call of the publisher's method for each.
//! The publisher is floor 7's; it knows who listens.

use mangonel_bson::ObjectId;
use mangonel_proto::events::{CommandFacts, CommandFailure, Event};
use mangonel_proto::topology::Address;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyString, PyTuple};

/// Calls the publisher for one event. What listeners raise, the publisher has dealt with.
pub fn publish(py: Python<'_>, publisher: &Bound<'_, PyAny>, event: &Event) {
    if let Err(error) = call(py, publisher, event) {
        error.write_unraisable(py, Some(publisher));
    }
}

fn call(py: Python<'_>, publisher: &Bound<'_, PyAny>, event: &Event) -> PyResult<()> {
    match event {
        Event::CommandStarted { facts, command } => {
            let facts = facts_of(py, facts)?;
            publisher.call_method1(intern!(py, "command_started"), (facts, PyBytes::new(py, command)))?;
        }
        Event::CommandSucceeded { facts, duration, reply } => {
            let (facts, micros) = (facts_of(py, facts)?, micros(*duration));
            let reply = PyBytes::new(py, reply);
            publisher.call_method1(intern!(py, "command_succeeded"), (facts, micros, reply))?;
        }
        Event::CommandFailed { facts, duration, failure } => {
            let (facts, micros) = (facts_of(py, facts)?, micros(*duration));
            let failure = match failure {
                CommandFailure::Reply(reply) => PyBytes::new(py, reply).into_any(),
                CommandFailure::Network(message) => described(py, "AutoReconnect", message)?,
                CommandFailure::Timeout(message) => described(py, "NetworkTimeout", message)?,
                CommandFailure::Protocol(message) => described(py, "ProtocolError", message)?,
                CommandFailure::Cancelled(message) => described(py, "CancelledError", message)?,
            };
            publisher.call_method1(intern!(py, "command_failed"), (facts, micros, failure))?;
        }
        Event::Topology(_) => {}
    }
    Ok(())
}

/// The class and the message of an exception that was never raised.
fn described<'py>(py: Python<'py>, class: &str, message: &str) -> PyResult<Bound<'py, PyAny>> {
    Ok((class, message).into_pyobject(py)?.into_any())
}

fn micros(duration: std::time::Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

fn facts_of<'py>(py: Python<'py>, facts: &CommandFacts) -> PyResult<Bound<'py, PyTuple>> {
    let service_id = facts.service_id.map(|id| object_id(py, id)).transpose()?;
    (
        PyString::intern(py, &facts.name),
        &*facts.database,
        facts.request_id,
        facts.operation_id,
        address_of(&facts.address),
        facts.server_connection_id,
        service_id,
        facts.link.0,
        facts.is_sensitive,
    )
        .into_pyobject(py)
}

fn object_id<'py>(py: Python<'py>, id: ObjectId) -> PyResult<Bound<'py, PyAny>> {
    py.import("mangonel._core")?.getattr("ObjectId")?.call1((PyBytes::new(py, &id.bytes()),))
}

/// Host and port, or the path of a socket and None.
pub fn address_of(address: &Address) -> (&str, Option<u16>) {
    (address.host(), address.port())
}
