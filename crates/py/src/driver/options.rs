//! Reads the options of a client, from `ClientOptions.core_options()`, for the core.

use std::time::Duration;

use mangonel_proto::compress::Compressor;
use mangonel_proto::options::{ClientOptions, PoolOptions};
use mangonel_proto::topology::monitor::MIN_HEARTBEAT;
use mangonel_proto::topology::{Address, MonitorSettings, ServerMonitoringMode, TopologySettings};
use pyo3::exceptions::{PyKeyError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use super::auth;
use crate::codec::{self, Codec};

pub(super) fn option<'py, T>(options: &Bound<'py, PyDict>, name: &str) -> PyResult<T>
where
    T: for<'a> FromPyObject<'a, 'py, Error: Into<PyErr>>,
{
    let value = options.get_item(name)?;
    let value =
        value.ok_or_else(|| PyKeyError::new_err(format!("expected the core option {name:?}, got none")))?;
    value.extract::<T>().map_err(Into::into)
}

fn milliseconds(options: &Bound<'_, PyDict>, name: &str) -> PyResult<Option<Duration>> {
    let value: Option<f64> = option(options, name)?;
    Ok(value.map(|ms| Duration::try_from_secs_f64(ms.max(0.0) / 1000.0).unwrap_or(Duration::MAX)))
}

pub(super) fn encoded(py: Python<'_>, document: &Bound<'_, PyAny>) -> PyResult<Vec<u8>> {
    let mut bytes = Vec::new();
    codec::encode_document(py, document, Codec::default_for(py)?.get(), false, &mut bytes)?;
    Ok(bytes)
}

/// The fields that every command carries if a server API version is declared; empty without one.
fn server_api(options: &Bound<'_, PyDict>) -> PyResult<Vec<u8>> {
    let mut fields = Vec::new();
    let Some(version) = option::<Option<String>>(options, "api_version")? else { return Ok(fields) };
    let start = mangonel_bson::begin_document(&mut fields);
    mangonel_bson::append_str(&mut fields, "apiVersion", &version);
    for (name, key) in [("api_strict", "apiStrict"), ("api_deprecation_errors", "apiDeprecationErrors")] {
        if let Some(flag) = option::<Option<bool>>(options, name)? {
            mangonel_bson::append_bool(&mut fields, key, flag);
        }
    }
    mangonel_bson::end_document(&mut fields, start);
    Ok(fields)
}

/// Reads the names of compressors, which are already checked.
fn compressors(options: &Bound<'_, PyDict>) -> PyResult<Vec<Compressor>> {
    let names: Vec<String> = option(options, "compressors")?;
    let level: i32 = option(options, "zlib_compression_level")?;
    Ok(names.iter().filter_map(|name| Compressor::from_name(name, level)).collect())
}

fn topology_settings(options: &Bound<'_, PyDict>) -> PyResult<TopologySettings> {
    let hosts: Vec<(String, Option<u16>)> = option(options, "hosts")?;
    let parse = |path: &str| Address::parse(path).map_err(|error| PyValueError::new_err(error.to_string()));
    let seeds = hosts.iter().map(|(host, port)| match port {
        Some(port) => Ok(Address::new(host, *port)),
        None => parse(host),
    });
    let mode: String = option(options, "server_monitoring_mode")?;
    Ok(TopologySettings {
        seeds: seeds.collect::<PyResult<_>>()?,
        set_name: option::<Option<String>>(options, "replica_set")?.map(Into::into),
        is_direct: option::<Option<bool>>(options, "direct_connection")?.unwrap_or(false),
        is_load_balanced: option(options, "load_balanced")?,
        monitor: MonitorSettings {
            heartbeat_frequency: milliseconds(options, "heartbeat_frequency_ms")?
                .unwrap_or(Duration::from_secs(10)),
            min_heartbeat: milliseconds(options, "min_heartbeat_ms")?.unwrap_or(MIN_HEARTBEAT),
            connect_timeout: milliseconds(options, "connect_timeout_ms")?,
            mode: match mode.as_str() {
                "stream" => ServerMonitoringMode::Stream,
                "poll" => ServerMonitoringMode::Poll,
                _ => ServerMonitoringMode::Auto,
            },
            is_faas: option(options, "is_faas")?,
        },
        has_listeners: false,
    })
}

pub(super) fn client_options(py: Python<'_>, options: &Bound<'_, PyDict>) -> PyResult<ClientOptions> {
    Ok(ClientOptions {
        topology: topology_settings(options)?,
        local_threshold: milliseconds(options, "local_threshold_ms")?.unwrap_or_default(),
        has_selector: !option::<Bound<'_, PyAny>>(options, "server_selector")?.is_none(),
        pool: PoolOptions {
            max_pool_size: option(options, "max_pool_size")?,
            min_pool_size: option(options, "min_pool_size")?,
            max_connecting: option(options, "max_connecting")?,
            max_idle_time: milliseconds(options, "max_idle_time_ms")?,
        },
        wait_queue_timeout: milliseconds(options, "wait_queue_timeout_ms")?,
        connect_timeout: milliseconds(options, "connect_timeout_ms")?,
        socket_timeout: milliseconds(options, "socket_timeout_ms")?,
        server_selection_timeout: milliseconds(options, "server_selection_timeout_ms")?
            .unwrap_or(Duration::from_secs(30)),
        retry_reads: option(options, "retry_reads")?,
        retry_writes: option(options, "retry_writes")?,
        max_adaptive_retries: option(options, "max_adaptive_retries")?,
        enable_overload_retargeting: option(options, "enable_overload_retargeting")?,
        timeout: milliseconds(options, "timeout_ms")?.filter(|timeout| !timeout.is_zero()),
        metadata: encoded(py, &option::<Bound<'_, PyAny>>(options, "metadata")?)?,
        server_api: server_api(options)?,
        login: auth::login(py, &option::<Bound<'_, PyAny>>(options, "credential")?)?,
        compressors: compressors(options)?,
    })
}
