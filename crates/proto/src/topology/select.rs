//! Server selection: which servers are suitable for an operation, which of them are within the latency window, which
//! one it gets. Waits for nothing and calls no server. Spec: server-selection; max-staleness.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::address::Address;
use super::description::{ServerDescription, ServerType, TopologyDescription, TopologyType};
use crate::read_preference::{Mode, ReadPreference, TagSet};

/// The longest an idle primary goes without a write of its own.
const IDLE_WRITE_PERIOD: Duration = Duration::from_secs(10);
/// The smallest limit on staleness that can be met.
const SMALLEST_MAX_STALENESS: Duration = Duration::from_secs(90);
/// How much slower than the fastest server another one may be, by default.
pub const DEFAULT_LOCAL_THRESHOLD: Duration = Duration::from_millis(15);

/// The server that an operation requires.
#[derive(Clone, Copy, Debug)]
pub enum Criteria<'a> {
    /// One that takes writes.
    Writable,
    /// One that the read preference allows.
    Readable(&'a ReadPreference),
}

/// The reason why no server can ever be selected. If one may still appear, the result is no server and no error.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum SelectionError {
    /// A server is too old or too new for this client.
    Incompatible(Arc<str>),
    /// The limit on staleness is too small to be met.
    MaxStaleness {
        /// The requested limit, in seconds.
        found: u64,
        /// The smallest limit that can be met with these heartbeats.
        least: Duration,
    },
}

impl fmt::Display for SelectionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SelectionError::Incompatible(message) => f.write_str(message),
            SelectionError::MaxStaleness { found, least } => write!(
                f,
                "expected maxStalenessSeconds to be at least {}, got {found}",
                least.as_secs_f64().ceil()
            ),
        }
    }
}

impl std::error::Error for SelectionError {}

type Servers = Vec<Arc<ServerDescription>>;

/// Returns one server for an operation, or `None` if none is suitable now.
///
/// `random` decides between equally suitable servers; `operation_count` returns how many operations each server has in
/// progress. A server in `deprioritized` is used only if no other is suitable.
pub fn select(
    topology: &TopologyDescription,
    criteria: Criteria<'_>,
    deprioritized: &[Address],
    heartbeat_frequency: Duration,
    local_threshold: Duration,
    operation_count: impl Fn(&Address) -> u64,
    random: u64,
) -> Result<Option<Arc<ServerDescription>>, SelectionError> {
    let mut servers = suitable(topology, criteria, deprioritized, heartbeat_frequency)?;
    keep_near(&mut servers, local_threshold);
    Ok(choose(&servers, operation_count, random).cloned())
}

/// Returns the servers that are suitable for an operation, at any latency.
///
/// The user's `server_selector` runs after this and before [`keep_near`].
pub fn suitable(
    topology: &TopologyDescription,
    criteria: Criteria<'_>,
    deprioritized: &[Address],
    heartbeat_frequency: Duration,
) -> Result<Servers, SelectionError> {
    if let Some(message) = &topology.compatibility_error {
        return Err(SelectionError::Incompatible(Arc::clone(message)));
    }
    if !deprioritized.is_empty() {
        let preferred = suitable_among(topology, criteria, deprioritized, heartbeat_frequency)?;
        if !preferred.is_empty() {
            return Ok(preferred);
        }
    }
    suitable_among(topology, criteria, &[], heartbeat_frequency)
}

fn suitable_among(
    topology: &TopologyDescription,
    criteria: Criteria<'_>,
    excluded: &[Address],
    heartbeat_frequency: Duration,
) -> Result<Servers, SelectionError> {
    let of_type = |wanted: &[ServerType]| -> Servers {
        let is_wanted = |server: &&Arc<ServerDescription>| {
            wanted.contains(&server.server_type) && !excluded.contains(&server.address)
        };
        topology.servers.values().filter(is_wanted).cloned().collect()
    };
    Ok(match (topology.topology_type, criteria) {
        (TopologyType::Unknown, _) => Vec::new(),
        // A direct connection uses any server; the server refuses commands that it cannot run.
        (TopologyType::Single, _) => {
            let is_known = |server: &&Arc<ServerDescription>| server.server_type != ServerType::Unknown;
            topology.servers.values().filter(is_known).cloned().collect()
        }
        (TopologyType::LoadBalanced, _) => of_type(&[ServerType::LoadBalancer]),
        (TopologyType::Sharded, _) => of_type(&[ServerType::Mongos]),
        (_, Criteria::Writable) => of_type(&[ServerType::RSPrimary]),
        (_, Criteria::Readable(preference)) => {
            check_max_staleness(preference, heartbeat_frequency)?;
            let narrow =
                |servers| match_tags(fresh(topology, servers, preference, heartbeat_frequency), preference);
            let primary = || of_type(&[ServerType::RSPrimary]);
            let secondaries = || narrow(of_type(&[ServerType::RSSecondary]));
            match preference.mode() {
                Mode::Primary => primary(),
                Mode::PrimaryPreferred => first_not_empty(primary(), secondaries),
                Mode::Secondary => secondaries(),
                Mode::SecondaryPreferred => first_not_empty(secondaries(), primary),
                Mode::Nearest => narrow(of_type(&[ServerType::RSPrimary, ServerType::RSSecondary])),
            }
        }
    })
}

fn first_not_empty(servers: Servers, otherwise: impl FnOnce() -> Servers) -> Servers {
    if servers.is_empty() { otherwise() } else { servers }
}

fn check_max_staleness(
    preference: &ReadPreference,
    heartbeat_frequency: Duration,
) -> Result<(), SelectionError> {
    let Some(found) = preference.max_staleness_seconds() else { return Ok(()) };
    let least = SMALLEST_MAX_STALENESS.max(heartbeat_frequency + IDLE_WRITE_PERIOD);
    if Duration::from_secs(found) < least {
        return Err(SelectionError::MaxStaleness { found, least });
    }
    Ok(())
}

/// Drops the secondaries that are further behind than the preference allows.
fn fresh(
    topology: &TopologyDescription,
    mut servers: Servers,
    preference: &ReadPreference,
    heartbeat_frequency: Duration,
) -> Servers {
    let Some(limit) = preference.max_staleness_seconds() else { return servers };
    let limit = i128::from(limit) * 1000;
    let heartbeat = milliseconds(heartbeat_frequency);
    let last_write = |server: &ServerDescription| i128::from(server.last_write_date.unwrap_or(0));
    // The age of a server's last write when the server reported it.
    let lag = |server: &ServerDescription| milliseconds(server.last_update_time.0) - last_write(server);
    let newest = |servers: &mut dyn Iterator<Item = &Arc<ServerDescription>>| {
        servers.map(|server| last_write(server)).max().unwrap_or(0)
    };
    match topology.primary() {
        Some(primary) => {
            let primary = lag(primary);
            servers.retain(|server| {
                server.server_type != ServerType::RSSecondary || lag(server) - primary + heartbeat <= limit
            });
        }
        None => {
            let is_secondary =
                |server: &&Arc<ServerDescription>| server.server_type == ServerType::RSSecondary;
            let newest = newest(&mut topology.servers.values().filter(is_secondary));
            servers.retain(|server| newest - last_write(server) + heartbeat <= limit);
        }
    }
    servers
}

fn milliseconds(duration: Duration) -> i128 {
    i128::try_from(duration.as_millis()).unwrap_or(i128::MAX)
}

/// Keeps the servers that match the first tag set matched by any of them.
fn match_tags(servers: Servers, preference: &ReadPreference) -> Servers {
    if preference.tag_sets().is_empty() {
        return servers;
    }
    let carrying = |set: &TagSet| -> Servers {
        servers.iter().filter(|server| set.is_matched_by(&server.tags)).cloned().collect()
    };
    preference.tag_sets().iter().map(carrying).find(|found| !found.is_empty()).unwrap_or_default()
}

/// Drops the servers that are more than `local_threshold` slower than the fastest.
pub fn keep_near(servers: &mut Servers, local_threshold: Duration) {
    if servers.len() < 2 {
        return;
    }
    // A server without a round-trip time counts as the slowest.
    let time = |server: &ServerDescription| server.round_trip_time.unwrap_or(Duration::MAX);
    let Some(fastest) = servers.iter().map(|server| time(server)).min() else { return };
    let limit = fastest.saturating_add(local_threshold);
    servers.retain(|server| time(server) <= limit);
}

/// Returns the less busy of two random servers, or `None` when there are none.
///
/// Choosing from two random servers keeps many clients from rushing to the server that was idle a moment ago.
pub fn choose<T: AsRef<ServerDescription>>(
    servers: &[T],
    operation_count: impl Fn(&Address) -> u64,
    random: u64,
) -> Option<&T> {
    let count = servers.len() as u64;
    if count < 2 {
        return servers.first();
    }
    // The low half picks the first, the high half one of the others; `count` is small, so the bias is too.
    let first = (random & 0xFFFF_FFFF) % count;
    let other = (random >> 32) % (count - 1);
    let second = if other >= first { other + 1 } else { other };
    let (first, second) = (servers.get(first as usize)?, servers.get(second as usize)?);
    let busy = |server: &T| operation_count(&server.as_ref().address);
    Some(if busy(first) <= busy(second) { first } else { second })
}
