//! Passes the core's events to Python after releasing the lock: one call of the publisher's method for each. The
//! publisher, `_observe/publisher.py`, knows the listeners.

use mangonel_bson::{
    JsonMode, RawDocument, RawValue, append_str, append_value, begin_array, begin_document,
    begin_subdocument, end_document, write_json,
};
use mangonel_entries::entries;
use mangonel_proto::events::{CommandFacts, CommandFailure, Event, PoolEvent, SelectionEvent};
use mangonel_proto::topology::{Address, Event as TopologyEvent};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyString, PyTuple};

use super::descriptions::{address_of, object_id, server, topology};
use super::tracing::class_and_message;
use super::{failure, interpreter};

/// Adds the functions of this module.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(shown_json, module)?)
}

/// Return a document as relaxed extended JSON; text longer than `longest` bytes ends in "...". `hidden`: the keys to
/// leave out. Without `values`, "?" replaces each value of a command, and only the first item of an array is shown.
#[entries]
#[pyfunction]
#[pyo3(signature = (document, longest, hidden=Vec::new(), values=true))]
fn shown_json(
    py: Python<'_>,
    document: &[u8],
    longest: usize,
    hidden: Vec<String>,
    values: bool,
) -> PyResult<String> {
    let mut text = Vec::new();
    let mut kept = Vec::new();
    RawDocument::from_bytes(document)
        .and_then(|document| {
            if hidden.is_empty() && values {
                return write_json(document, JsonMode::Relaxed, &mut text);
            }
            let start = begin_document(&mut kept);
            let mut place = Place::First;
            for element in document.iter() {
                let element = element?;
                if hidden.iter().any(|key| key == element.key) {
                    continue;
                }
                if values {
                    append_value(&mut kept, element.key, element.value);
                } else {
                    append_shape(&mut kept, element.key, element.value, place)?;
                }
                place = Place::Top;
            }
            end_document(&mut kept, start);
            write_json(RawDocument::from_bytes(&kept)?, JsonMode::Relaxed, &mut text)
        })
        .map_err(|error| failure::invalid_bson(py, &error.to_string()))?;
    let mut text = String::from_utf8_lossy(&text).into_owned();
    if text.len() > longest {
        // A character that does not fit completely is left out.
        let end = (0..=longest).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
        text.truncate(end);
        text.push_str("...");
    }
    Ok(text)
}

/// The position of a value in a command.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    /// Its first field, whose key is the command's name.
    First,
    /// Another top-level field.
    Top,
    /// A statement of a write command, except the parts from the user.
    Statement,
    /// Inside a part from the user, with the number of levels that may follow.
    Inside(u8),
}

/// Fields of commands and of their statements whose numbers and flags reveal nothing of the user's data.
const SHOWN: &[&str] = &["batchSize", "limit", "multi", "ordered", "singleBatch", "skip", "upsert"];

/// Deeper documents are shown as "?".
const DEEPEST: u8 = 50;

/// Appends the field with "?" in place of values.
fn append_shape(
    out: &mut Vec<u8>,
    key: &str,
    value: RawValue<'_>,
    place: Place,
) -> mangonel_bson::Result<()> {
    let below = match place {
        Place::Inside(0) => None,
        Place::Inside(left) => Some(Place::Inside(left - 1)),
        Place::Top if matches!(key, "updates" | "deletes") => Some(Place::Statement),
        _ => Some(Place::Inside(DEEPEST)),
    };
    match (value, below) {
        (RawValue::String(_), _) if place == Place::First || place == Place::Top && key == "collection" => {
            append_value(out, key, value);
        }
        (RawValue::Boolean(_) | RawValue::Int32(_) | RawValue::Int64(_) | RawValue::Double(_), _)
            if matches!(place, Place::Top | Place::Statement) && SHOWN.contains(&key) =>
        {
            append_value(out, key, value);
        }
        (RawValue::Document(document), Some(below)) => {
            let start = begin_subdocument(out, key);
            for element in document.iter() {
                let element = element?;
                append_shape(out, element.key, element.value, below)?;
            }
            end_document(out, start);
        }
        (RawValue::Array(items), Some(below)) => {
            let start = begin_array(out, key);
            if let Some(first) = items.iter().next() {
                // The documents of a write, or the items of an `$in`, share a shape, so the first represents all.
                let item = first?;
                match (item, place) {
                    (RawValue::Document(statement), Place::Top) if below == Place::Statement => {
                        let inner = begin_subdocument(out, "0");
                        for element in statement.iter() {
                            let element = element?;
                            append_shape(out, element.key, element.value, Place::Statement)?;
                        }
                        end_document(out, inner);
                    }
                    _ => append_shape(out, "0", item, below)?,
                }
            }
            end_document(out, start);
        }
        _ => append_str(out, key, "?"),
    }
    Ok(())
}

/// Calls the publisher for one event. The publisher handles exceptions of listeners.
pub fn publish(py: Python<'_>, publisher: &Bound<'_, PyAny>, event: &Event) {
    if let Err(error) = call(py, publisher, event) {
        // The publisher has already reported errors of listeners.
        interpreter::raise_soon(py, error, publisher);
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
                reason => class_and_message(reason).into_pyobject(py)?.into_any(),
            };
            publisher.call_method1(intern!(py, "command_failed"), (facts, micros, failure))?;
        }
        Event::Pool { address, event } => call_pool(py, publisher, address, event)?,
        Event::Selection { operation, operation_id, selector, description, event } => {
            let (name, detail) = match event {
                SelectionEvent::Started => ("started", py.None().into_bound(py)),
                SelectionEvent::Waiting { remaining } => {
                    ("waiting", remaining.as_secs_f64().into_pyobject(py)?.into_any())
                }
                SelectionEvent::Succeeded { address } => {
                    ("succeeded", address_of(address).into_pyobject(py)?.into_any())
                }
                SelectionEvent::Failed { message } => ("failed", message.into_pyobject(py)?.into_any()),
            };
            let description = description.to_string();
            let arguments = (name, &**operation, operation_id, selector, description, detail);
            publisher.call_method1(intern!(py, "selection"), arguments)?;
        }
        Event::Topology(event) => call_topology(py, publisher, event)?,
    }
    Ok(())
}

fn call_pool(
    py: Python<'_>,
    publisher: &Bound<'_, PyAny>,
    address: &Address,
    event: &PoolEvent,
) -> PyResult<()> {
    let address = address_of(address);
    match event {
        PoolEvent::Created => publisher.call_method1(intern!(py, "pool_created"), (address,)),
        PoolEvent::Ready => publisher.call_method1(intern!(py, "pool_ready"), (address,)),
        PoolEvent::Cleared { service_id, is_interrupting } => {
            let service_id = service_id.map(|id| object_id(py, id)).transpose()?;
            publisher.call_method1(intern!(py, "pool_cleared"), (address, service_id, is_interrupting))
        }
        PoolEvent::Closed => publisher.call_method1(intern!(py, "pool_closed"), (address,)),
        PoolEvent::ConnectionCreated { link } => {
            publisher.call_method1(intern!(py, "connection_created"), (address, link.0))
        }
        PoolEvent::ConnectionReady { link, duration } => {
            publisher.call_method1(intern!(py, "connection_ready"), (address, link.0, duration.as_secs_f64()))
        }
        PoolEvent::ConnectionClosed { link, reason } => {
            publisher.call_method1(intern!(py, "connection_closed"), (address, link.0, reason.name()))
        }
        PoolEvent::CheckOutStarted => {
            publisher.call_method1(intern!(py, "connection_check_out_started"), (address,))
        }
        PoolEvent::CheckOutFailed { reason, error, duration } => publisher.call_method1(
            intern!(py, "connection_check_out_failed"),
            (address, reason.name(), error.as_deref(), duration.as_secs_f64()),
        ),
        PoolEvent::CheckedOut { link, duration } => publisher
            .call_method1(intern!(py, "connection_checked_out"), (address, link.0, duration.as_secs_f64())),
        PoolEvent::CheckedIn { link } => {
            publisher.call_method1(intern!(py, "connection_checked_in"), (address, link.0))
        }
    }
    .map(drop)
}

fn call_topology(py: Python<'_>, publisher: &Bound<'_, PyAny>, event: &TopologyEvent) -> PyResult<()> {
    match event {
        TopologyEvent::TopologyOpening => publisher.call_method0(intern!(py, "topology_opened")),
        TopologyEvent::TopologyDescriptionChanged { previous, new } => publisher.call_method1(
            intern!(py, "topology_description_changed"),
            (topology(py, previous)?, topology(py, new)?),
        ),
        TopologyEvent::TopologyClosed => publisher.call_method0(intern!(py, "topology_closed")),
        TopologyEvent::ServerOpening { address } => {
            publisher.call_method1(intern!(py, "server_opened"), (address_of(address),))
        }
        TopologyEvent::ServerDescriptionChanged { previous, new } => publisher.call_method1(
            intern!(py, "server_description_changed"),
            (address_of(&new.address), server(py, previous)?, server(py, new)?),
        ),
        TopologyEvent::ServerClosed { address } => {
            publisher.call_method1(intern!(py, "server_closed"), (address_of(address),))
        }
        TopologyEvent::HeartbeatStarted { address, is_awaited } => {
            publisher.call_method1(intern!(py, "heartbeat_started"), (address_of(address), is_awaited))
        }
        TopologyEvent::HeartbeatSucceeded { address, duration, reply, is_awaited } => publisher.call_method1(
            intern!(py, "heartbeat_succeeded"),
            (address_of(address), duration.as_secs_f64(), PyBytes::new(py, reply), is_awaited),
        ),
        TopologyEvent::HeartbeatFailed { address, duration, error, is_awaited } => publisher.call_method1(
            intern!(py, "heartbeat_failed"),
            (address_of(address), duration.as_secs_f64(), &**error, is_awaited),
        ),
    }
    .map(drop)
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
        facts.reply_shape as u8,
    )
        .into_pyobject(py)
}
