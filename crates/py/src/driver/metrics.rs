//! The core's counts as one tuple for Python: copied under the lock, converted without it.

use mangonel_proto::metrics::{CHECK_OUT_FAILURES, CLOSE_REASONS, Histogram};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyTuple};

use super::core::Core;
use super::descriptions::address_of;

/// Returns operations, pools, selections, and the single numbers; None when operations are not counted.
pub fn snapshot<'py>(core: &Core, py: Python<'py>) -> PyResult<Option<Bound<'py, PyTuple>>> {
    let copied = core.peek(|state| {
        let client = &state.client;
        let metrics = client.metrics()?;
        let numbers = (
            metrics.selection_timeouts,
            metrics.retries,
            metrics.bytes_sent,
            metrics.bytes_received,
            metrics.open_cursors(),
            client.topology_changes(),
        );
        Some((metrics.operations().to_vec(), client.pool_snapshots(), metrics.selections, numbers))
    });
    let Some((series, pools, selections, numbers)) = copied else { return Ok(None) };
    let operations = PyList::empty(py);
    for one in &series {
        let key = &one.key;
        let facts = (&*key.name, &*key.database, &*key.collection, key.error, key.code);
        operations.append((facts, histogram(&one.durations)))?;
    }
    let servers = PyList::empty(py);
    for (address, pool) in &pools {
        let sizes = (pool.idle, pool.in_use, pool.pending, pool.waiting);
        let closed = PyDict::new(py);
        for (reason, count) in CLOSE_REASONS.iter().zip(pool.counts.closed) {
            closed.set_item(reason.name(), count)?;
        }
        let failed = PyDict::new(py);
        for (reason, count) in CHECK_OUT_FAILURES.iter().zip(pool.counts.failed) {
            failed.set_item(reason.name(), count)?;
        }
        let histograms = (histogram(&pool.counts.waits), histogram(&pool.counts.openings));
        servers.append((address_of(address), sizes, pool.counts.created, closed, failed, histograms))?;
    }
    (operations, servers, histogram(&selections), numbers).into_pyobject(py).map(Some)
}

/// The counts of the buckets, and the nanoseconds in each.
fn histogram(durations: &Histogram) -> (Vec<u64>, Vec<u64>) {
    (durations.counts.to_vec(), durations.nanos.to_vec())
}
