//! The counts of the client, and copies of them. Operations are counted only on request; opened and closed connections
//! are rare and always counted.

use std::collections::BTreeMap;

use super::Client;
use crate::metrics::{Metrics, PoolCounts};
use crate::pool::Pool;
use crate::topology::Address;

/// The most former servers that are counted one by one.
const MOST_GONE: usize = 200;

/// The host under which further former servers are counted together, with port 0.
const REST: &str = "_other";

/// The counts of closed pools, kept for a bounded number of former servers.
#[derive(Default)]
pub(super) struct Gone(BTreeMap<Address, PoolCounts>);

/// The connections of one server over all shards: how many there are now, and what was counted.
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

    /// Counts messages that were sent and received completely, in bytes on the wire.
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
        for (address, counts) in &self.gone.0 {
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
        self.count_gone(address, |counts| counts.merge(pool.counts()));
    }

    /// Counts for a server whose pool is gone.
    pub(crate) fn count_gone(&mut self, address: &Address, count: impl FnOnce(&mut PoolCounts)) {
        count(self.gone.of(address, |known| self.servers.contains_key(known)));
    }
}

impl Gone {
    /// Returns the counts of a server, for changing. `is_known`: whether the deployment includes an address.
    fn of(&mut self, address: &Address, is_known: impl Fn(&Address) -> bool) -> &mut PoolCounts {
        if self.0.len() >= MOST_GONE && !self.0.contains_key(address) {
            let rest = Address::new(REST, 0);
            let former = self.0.keys().find(|known| !is_known(known) && **known != rest).cloned();
            if let Some(counts) = former.and_then(|former| self.0.remove(&former)) {
                self.0.entry(rest).or_default().merge(&counts);
            }
        }
        self.0.entry(address.clone()).or_default()
    }

    /// Forgets everything.
    pub(super) fn clear(&mut self) {
        self.0.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn former_servers_beyond_a_bound_are_counted_together() {
        let mut gone = Gone::default();
        let pod = |number: usize| Address::new(&format!("pod-{number}.example"), 27017);
        for number in 0..3 * MOST_GONE {
            gone.of(&pod(number), |known| *known == pod(0)).created += 1;
        }
        assert_eq!(gone.0.len(), MOST_GONE + 1);
        assert_eq!(gone.0.values().map(|counts| counts.created).sum::<u64>(), 3 * MOST_GONE as u64);
        assert_eq!(gone.0[&pod(0)].created, 1);
    }
}
