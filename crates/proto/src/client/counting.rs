//! The counts of the client, and copies of them. Operations are counted only on request; opened and closed
//! connections, which are rare, always.

use std::collections::BTreeMap;

use super::Client;
use crate::metrics::{Metrics, PoolCounts};
use crate::pool::Pool;
use crate::topology::Address;

/// The connections of one server over all shards: the current ones, and the counts.
#[derive(Clone, Debug, Default)]
pub struct PoolSnapshot {
    /// Connections that are idle.
    pub idle: usize,
    /// Connections in use.
    pub in_use: usize,
    /// Connections being opened.
    pub pending: usize,
    /// Exchanges that wait for a connection.
    pub waiting: usize,
    /// The counts.
    pub counts: PoolCounts,
}

impl Client {
    /// Counts from now on. A second call changes nothing.
    pub fn begin_counting(&mut self) {
        self.metrics.get_or_insert_default();
    }

    /// Returns the counts; `None` if the client does not count.
    pub fn metrics(&self) -> Option<&Metrics> {
        self.metrics.as_deref()
    }

    /// Returns how often the deployment's description has changed since the client was made.
    pub fn topology_changes(&self) -> u64 {
        self.topology.changes()
    }

    /// Counts messages that were sent and received whole, in bytes on the wire.
    #[inline]
    pub fn count_bytes(&mut self, sent: usize, received: usize) {
        if let Some(metrics) = &mut self.metrics {
            metrics.bytes_sent += sent as u64;
            metrics.bytes_received += received as u64;
        }
    }

    /// Returns the connections of every known or former server.
    pub fn pool_snapshots(&self) -> BTreeMap<Address, PoolSnapshot> {
        let mut found: BTreeMap<Address, PoolSnapshot> = BTreeMap::new();
        for (address, counts) in &self.gone {
            found.entry(address.clone()).or_default().counts.merge(counts);
        }
        for (address, server) in &self.servers {
            let snapshot = found.entry(address.clone()).or_default();
            for pool in server.pools.values() {
                let (idle, in_use, pending) = pool.sizes();
                snapshot.idle += idle;
                snapshot.in_use += in_use;
                snapshot.pending += pending;
                snapshot.waiting += pool.waiting();
                snapshot.counts.merge(pool.counts());
            }
        }
        found
    }

    pub(super) fn keep_counts(&mut self, address: &Address, pool: &Pool) {
        self.gone.entry(address.clone()).or_default().merge(pool.counts());
    }

    /// Counts for a server whose pool is gone.
    pub(crate) fn count_gone(&mut self, address: &Address, count: impl FnOnce(&mut PoolCounts)) {
        count(self.gone.entry(address.clone()).or_default());
    }
}
