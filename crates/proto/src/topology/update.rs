//! How one server's new description changes the description of the deployment: a pure function around a table.
//! Knows no monitor, no pool and no event. Spec: server-discovery-and-monitoring, "Updating the TopologyDescription".
//!
//! Laws, held by every update:
//! 1. A server that is not in the topology changes nothing.
//! 2. Single and LoadBalanced stay what they are, with the same one server.
//! 3. ReplicaSetWithPrimary means exactly one RSPrimary; every other type means none outside Single.
//! 4. Once known, the set's name stays, and every member that reports another name is removed.
//! 5. In Sharded, a server found to be anything but Mongos or Unknown is removed.
//! 6. Only a primary removes servers other than itself; only a member of the set adds any.

use std::sync::Arc;

use super::description::{ServerDescription, ServerType, TopologyDescription, TopologyType};
use crate::time::Instant;

/// The action after the new description has replaced the old one.
#[derive(Clone, Copy)]
enum Action {
    /// Nothing more.
    Keep,
    /// Check whether the primary is still there.
    Check,
    /// Drop the server, then check whether the primary is still there.
    Remove,
    /// A lone seed makes the topology Single; one of several is dropped.
    Standalone,
    /// The topology is Sharded.
    Sharded,
    /// Trust the primary, unless it is stale.
    FromPrimary,
    /// A member replied while no primary is known.
    WithoutPrimary,
    /// A member replied while a primary is known.
    WithPrimary,
}

use Action::{Check, FromPrimary, Keep, Remove, Sharded, Standalone, WithPrimary, WithoutPrimary};

/// More members than any replica set has (the server allows 50): each of them would need a monitor thread.
const MOST_MEMBERS: usize = 100;

/// The beginning of a stale primary's error.
pub(super) const STALE: &str = "primary marked stale";

/// The specification's "TopologyType table". Columns: Unknown, Sharded, ReplicaSetNoPrimary, ReplicaSetWithPrimary.
const TRANSITIONS: &[(ServerType, [Action; 4])] = &[
    (ServerType::Unknown, [Keep, Keep, Keep, Check]),
    (ServerType::Standalone, [Standalone, Remove, Remove, Remove]),
    (ServerType::Mongos, [Sharded, Keep, Remove, Remove]),
    (ServerType::RSPrimary, [FromPrimary, Remove, FromPrimary, FromPrimary]),
    (ServerType::RSSecondary, [WithoutPrimary, Remove, WithoutPrimary, WithPrimary]),
    (ServerType::RSArbiter, [WithoutPrimary, Remove, WithoutPrimary, WithPrimary]),
    (ServerType::RSOther, [WithoutPrimary, Remove, WithoutPrimary, WithPrimary]),
    (ServerType::RSGhost, [Keep, Remove, Keep, Check]),
];

fn action(topology_type: TopologyType, server_type: ServerType) -> Action {
    let column = match topology_type {
        TopologyType::Unknown => 0,
        TopologyType::Sharded => 1,
        TopologyType::ReplicaSetNoPrimary => 2,
        TopologyType::ReplicaSetWithPrimary => 3,
        TopologyType::Single | TopologyType::LoadBalanced => return Keep,
    };
    let row = TRANSITIONS.iter().find(|(row, _)| *row == server_type);
    row.map_or(Keep, |(_, columns)| columns[column])
}

/// Returns the deployment's description after the check of `server`.
///
/// `seeds` is the number of addresses the client was given.
pub fn apply(
    current: &TopologyDescription,
    mut server: ServerDescription,
    seeds: usize,
) -> TopologyDescription {
    let mut next = current.clone();
    let is_balancer = server.server_type == ServerType::LoadBalancer;
    if !next.servers.contains_key(&server.address)
        || is_balancer != (next.topology_type == TopologyType::LoadBalanced)
    {
        return next;
    }
    if next.topology_type == TopologyType::Single
        && server.server_type != ServerType::Unknown
        && next.set_name.is_some()
        && server.set_name != next.set_name
    {
        server = wrong_set_name(&server, next.set_name.as_deref());
    }
    let members = server.all_hosts().count();
    if members > MOST_MEMBERS {
        server = too_many_members(&server, members);
    }
    next.put(server.clone());
    match action(next.topology_type, server.server_type) {
        Keep => {}
        Check => check_primary(&mut next),
        Remove => remove(&mut next, &server),
        Standalone if seeds == 1 => next.topology_type = TopologyType::Single,
        Standalone => remove(&mut next, &server),
        Sharded => next.topology_type = TopologyType::Sharded,
        FromPrimary => update_from_primary(&mut next, &server),
        WithoutPrimary => update_without_primary(&mut next, &server),
        WithPrimary => update_with_primary(&mut next, &server),
    }
    next.settle();
    next
}

fn too_many_members(server: &ServerDescription, found: usize) -> ServerDescription {
    let message = format!("expected a replica set of at most {MOST_MEMBERS} members, got {found}");
    ServerDescription::failed(server.address.clone(), message, server.last_update_time)
}

fn wrong_set_name(server: &ServerDescription, wanted: Option<&str>) -> ServerDescription {
    let found = server.set_name.as_deref().unwrap_or("no replica set");
    let message = format!("expected a member of replica set {:?}, got {found:?}", wanted.unwrap_or_default());
    ServerDescription::failed(server.address.clone(), message, server.last_update_time)
}

fn remove(topology: &mut TopologyDescription, server: &ServerDescription) {
    topology.turn_away(&server.address, what_it_is(server));
    if topology.topology_type == TopologyType::ReplicaSetWithPrimary {
        check_primary(topology);
    }
}

/// Describes a server that does not belong to the deployment, for the error of a deployment without servers.
fn what_it_is(server: &ServerDescription) -> String {
    match (server.server_type, &server.set_name, &server.me) {
        (ServerType::Standalone, ..) => "a standalone, in no replica set".to_owned(),
        (ServerType::Mongos, ..) => "a mongos, in no replica set".to_owned(),
        (ServerType::RSGhost, ..) => "not initiated as a member of a replica set".to_owned(),
        (_, Some(name), Some(me)) if *me != server.address => {
            format!("a member of replica set {name:?} by the name of {me}")
        }
        (_, Some(name), _) => format!("a member of replica set {name:?}"),
        (other, None, _) => other.name().to_owned(),
    }
}

fn check_primary(topology: &mut TopologyDescription) {
    topology.topology_type = match topology.primary() {
        Some(_) => TopologyType::ReplicaSetWithPrimary,
        None => TopologyType::ReplicaSetNoPrimary,
    };
}

/// Takes over or compares the set's name; returns whether the server belongs to the set.
fn is_of_our_set(topology: &mut TopologyDescription, server: &ServerDescription) -> bool {
    if topology.set_name.is_none() {
        topology.set_name.clone_from(&server.set_name);
    }
    topology.set_name == server.set_name
}

fn add_new_members(topology: &mut TopologyDescription, server: &ServerDescription) {
    for address in server.all_hosts() {
        if !topology.servers.contains_key(address) {
            topology.put(ServerDescription::unknown(address.clone(), server.last_update_time));
        }
    }
}

fn is_misaddressed(server: &ServerDescription) -> bool {
    server.me.as_ref().is_some_and(|me| *me != server.address)
}

fn update_without_primary(topology: &mut TopologyDescription, server: &ServerDescription) {
    topology.topology_type = TopologyType::ReplicaSetNoPrimary;
    if !is_of_our_set(topology, server) {
        return remove(topology, server);
    }
    add_new_members(topology, server);
    if is_misaddressed(server) {
        remove(topology, server);
    }
}

fn update_with_primary(topology: &mut TopologyDescription, server: &ServerDescription) {
    if topology.set_name != server.set_name || is_misaddressed(server) {
        return remove(topology, server);
    }
    check_primary(topology);
}

fn update_from_primary(topology: &mut TopologyDescription, server: &ServerDescription) {
    topology.topology_type = TopologyType::ReplicaSetWithPrimary;
    if !is_of_our_set(topology, server) {
        return remove(topology, server);
    }
    if let Err(field) = accept_election(topology, server) {
        let message = format!("{STALE} due to electionId/setVersion mismatch: {field} is behind");
        topology.put(stale(server, message, server.last_update_time));
        return check_primary(topology);
    }
    // The old primary is stepping down, or has not noticed yet that it was replaced.
    let old: Vec<Arc<ServerDescription>> = topology
        .servers
        .values()
        .filter(|other| other.server_type == ServerType::RSPrimary && other.address != server.address)
        .cloned()
        .collect();
    for other in old {
        let message = format!("{STALE} due to discovery of newer primary {}", server.address);
        topology.put(stale(&other, message, server.last_update_time));
    }
    add_new_members(topology, server);
    topology.servers.retain(|address, _| server.all_hosts().any(|host| host == address));
    check_primary(topology);
}

fn stale(server: &ServerDescription, message: impl Into<Arc<str>>, now: Instant) -> ServerDescription {
    ServerDescription::failed(server.address.clone(), message, now)
}

/// Compares a primary's election with the latest one known and takes it over, or names the field that is behind.
///
/// Since MongoDB 6.0 (wire version 17) the electionId decides and setVersion breaks ties, and a missing value
/// is less than any other. Older primaries compare setVersion first, and only when everything is known.
fn accept_election(
    topology: &mut TopologyDescription,
    server: &ServerDescription,
) -> Result<(), &'static str> {
    if server.max_wire_version >= 17 {
        // `None` sorts before every `Some`.
        if server.election_id < topology.max_election_id {
            return Err("electionId");
        }
        if server.election_id == topology.max_election_id && server.set_version < topology.max_set_version {
            return Err("setVersion");
        }
        topology.max_election_id = server.election_id;
        topology.max_set_version = server.set_version;
        return Ok(());
    }
    if let (Some(set), Some(election)) = (server.set_version, server.election_id) {
        if let (Some(max_set), Some(max_election)) = (topology.max_set_version, topology.max_election_id) {
            if max_set > set {
                return Err("setVersion");
            }
            if max_set == set && max_election > election {
                return Err("electionId");
            }
        }
        topology.max_election_id = Some(election);
    }
    if server.set_version > topology.max_set_version {
        topology.max_set_version = server.set_version;
    }
    Ok(())
}
