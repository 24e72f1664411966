//! Descriptions of servers and the deployment, as the tuples from which `mangonel.server_description` and
//! `mangonel.topology_description` make objects.

use mangonel_bson::ObjectId;
use mangonel_proto::topology::{Address, ServerDescription, TopologyDescription};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList, PyTuple};

/// Returns a Python ObjectId.
pub fn object_id<'py>(py: Python<'py>, id: ObjectId) -> PyResult<Bound<'py, PyAny>> {
    py.import("mangonel._core")?.getattr("ObjectId")?.call1((PyBytes::new(py, &id.bytes()),))
}

/// Host and port, or the path of a socket and None.
pub fn address_of(address: &Address) -> (&str, Option<u16>) {
    (address.host(), address.port())
}

/// The arguments of `server_description.described`.
pub fn server<'py>(py: Python<'py>, known: &ServerDescription) -> PyResult<Bound<'py, PyTuple>> {
    let facts = PyDict::new(py);
    facts.set_item("all_hosts", known.all_hosts().map(address_of).collect::<Vec<_>>())?;
    facts.set_item("tags", known.tags.clone())?;
    facts.set_item("replica_set_name", known.set_name.as_deref())?;
    facts.set_item("primary", known.primary.as_ref().map(address_of))?;
    facts.set_item("me", known.me.as_ref().map(address_of))?;
    facts.set_item("max_bson_size", known.max_bson_object_size)?;
    facts.set_item("max_message_size", known.max_message_size_bytes)?;
    facts.set_item("max_write_batch_size", known.max_write_batch_size)?;
    facts.set_item("min_wire_version", known.min_wire_version)?;
    facts.set_item("max_wire_version", known.max_wire_version)?;
    facts.set_item("set_version", known.set_version)?;
    facts.set_item("election_id", known.election_id.map(|id| object_id(py, id)).transpose()?)?;
    facts.set_item("logical_session_timeout_minutes", known.logical_session_timeout_minutes)?;
    #[allow(clippy::cast_precision_loss)] // Milliseconds of dates fit.
    facts.set_item(
        "last_write_date",
        known.last_write_date.map(|milliseconds| milliseconds as f64 / 1000.0),
    )?;
    if let Some(version) = known.topology_version {
        let pair = PyDict::new(py);
        pair.set_item("processId", object_id(py, version.process_id)?)?;
        pair.set_item("counter", version.counter)?;
        facts.set_item("topology_version", pair)?;
    }
    (
        address_of(&known.address),
        known.server_type.name(),
        known.round_trip_time.map(|time| time.as_secs_f64()),
        known.min_round_trip_time.as_secs_f64(),
        known.error.as_deref(),
        facts,
    )
        .into_pyobject(py)
}

/// The arguments of `topology_description.topology_described`, except the last.
pub fn topology<'py>(py: Python<'py>, known: &TopologyDescription) -> PyResult<Bound<'py, PyTuple>> {
    let servers = PyList::empty(py);
    for description in known.servers.values() {
        servers.append(server(py, description)?)?;
    }
    (
        known.topology_type.name(),
        known.set_name.as_deref(),
        known.max_set_version,
        known.max_election_id.map(|id| object_id(py, id)).transpose()?,
        servers,
    )
        .into_pyobject(py)
}

/// The sizes that a server accepts.
#[pyclass(frozen, get_all, module = "mangonel._core")]
pub struct ServerLimits {
    max_wire_version: i32,
    max_bson_size: i32,
    max_message_size: i32,
    max_write_batch_size: i32,
}

impl ServerLimits {
    /// Reads the limits from a server's description.
    pub fn of(server: &ServerDescription) -> Self {
        ServerLimits {
            max_wire_version: server.max_wire_version,
            max_bson_size: server.max_bson_object_size,
            max_message_size: server.max_message_size_bytes,
            max_write_batch_size: server.max_write_batch_size,
        }
    }
}
