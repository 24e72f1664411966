//! Descriptions of a server and of the whole deployment: plain values, made from hello replies and errors. Decides
//! nothing; see [`super::update`]. Spec: server-discovery-and-monitoring, "Data structures".

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use mangonel_bson::{ObjectId, RawDocument, RawValue};

use super::address::Address;
use crate::time::Instant;

/// The oldest supported wire version: MongoDB 4.4.
pub const MIN_WIRE_VERSION: i32 = 9;
/// The newest supported wire version.
pub const MAX_WIRE_VERSION: i32 = 29;
const MIN_SERVER_VERSION: &str = "4.4";
/// How many removed servers a description remembers.
pub const MOST_TURNED_AWAY: usize = 8;

/// The type of a server.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ServerType {
    /// Not reached yet, or the last check failed.
    Unknown,
    /// A mongod outside a replica set.
    Standalone,
    /// A router of a sharded cluster.
    Mongos,
    /// The member of a replica set that takes writes.
    RSPrimary,
    /// A member that replicates and answers reads.
    RSSecondary,
    /// A member that only votes.
    RSArbiter,
    /// A member that is hidden, starting up or recovering.
    RSOther,
    /// A member without a configuration, perhaps of this set.
    RSGhost,
    /// A load balancer before mongos servers.
    LoadBalancer,
}

impl ServerType {
    /// Returns the specification's name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Unknown => "Unknown",
            Self::Standalone => "Standalone",
            Self::Mongos => "Mongos",
            Self::RSPrimary => "RSPrimary",
            Self::RSSecondary => "RSSecondary",
            Self::RSArbiter => "RSArbiter",
            Self::RSOther => "RSOther",
            Self::RSGhost => "RSGhost",
            Self::LoadBalancer => "LoadBalancer",
        }
    }

    /// Returns whether a server of this type can answer reads.
    pub fn is_data_bearing(self) -> bool {
        matches!(
            self,
            Self::Standalone | Self::Mongos | Self::RSPrimary | Self::RSSecondary | Self::LoadBalancer
        )
    }

    /// Returns whether a server of this type takes writes.
    pub fn is_writable(self) -> bool {
        matches!(self, Self::Standalone | Self::Mongos | Self::RSPrimary | Self::LoadBalancer)
    }
}

/// The version of a server's view of the deployment: a counter that lives as long as the server's process.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TopologyVersion {
    /// Generated whenever the server starts.
    pub process_id: ObjectId,
    /// Incremented at each change.
    pub counter: i64,
}

impl TopologyVersion {
    /// Reads the `topologyVersion` of a reply, or `None` when it has no usable one.
    pub fn from_document(document: RawDocument<'_>) -> Option<TopologyVersion> {
        Some(TopologyVersion {
            process_id: document.get_object_id("processId").ok()??,
            counter: document.get_i64_lenient("counter").ok()??,
        })
    }

    /// Returns whether `current` is known to be later than `other`. Different processes cannot be compared.
    pub fn is_later(current: Option<TopologyVersion>, other: Option<TopologyVersion>) -> bool {
        matches!((current, other), (Some(a), Some(b)) if a.process_id == b.process_id && a.counter > b.counter)
    }

    /// Like [`TopologyVersion::is_later`], but also true for the same version.
    pub fn is_same_or_later(current: Option<TopologyVersion>, other: Option<TopologyVersion>) -> bool {
        matches!((current, other), (Some(a), Some(b)) if a.process_id == b.process_id && a.counter >= b.counter)
    }
}

/// The result of the last check of one server.
///
/// Equality follows the specification: it ignores round-trip times and the times of update and last write.
#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "each field carries the name of the hello reply's field")]
pub struct ServerDescription {
    pub address: Address,
    pub server_type: ServerType,
    /// The reason why the server is Unknown.
    pub error: Option<Arc<str>>,
    /// Moving average of the time hello takes, `None` before the first check.
    pub round_trip_time: Option<Duration>,
    /// The least of the last ten round-trip times, zero while there are fewer than two.
    pub min_round_trip_time: Duration,
    pub last_update_time: Instant,
    /// Milliseconds since 1970-01-01 UTC.
    pub last_write_date: Option<i64>,
    pub min_wire_version: i32,
    pub max_wire_version: i32,
    pub me: Option<Address>,
    pub hosts: Vec<Address>,
    pub passives: Vec<Address>,
    pub arbiters: Vec<Address>,
    pub tags: Vec<(String, String)>,
    pub set_name: Option<Arc<str>>,
    pub set_version: Option<i64>,
    pub election_id: Option<ObjectId>,
    pub primary: Option<Address>,
    pub logical_session_timeout_minutes: Option<i64>,
    pub topology_version: Option<TopologyVersion>,
    pub max_bson_object_size: i32,
    pub max_message_size_bytes: i32,
    pub max_write_batch_size: i32,
    pub hello_ok: bool,
}

impl PartialEq for ServerDescription {
    fn eq(&self, other: &Self) -> bool {
        self.address == other.address
            && self.server_type == other.server_type
            && self.error == other.error
            && self.min_wire_version == other.min_wire_version
            && self.max_wire_version == other.max_wire_version
            && self.me == other.me
            && self.hosts == other.hosts
            && self.passives == other.passives
            && self.arbiters == other.arbiters
            && self.tags == other.tags
            && self.set_name == other.set_name
            && self.set_version == other.set_version
            && self.election_id == other.election_id
            && self.primary == other.primary
            && self.logical_session_timeout_minutes == other.logical_session_timeout_minutes
            && self.topology_version == other.topology_version
    }
}

impl ServerDescription {
    /// Describes an unknown server.
    pub fn unknown(address: Address, now: Instant) -> ServerDescription {
        ServerDescription {
            address,
            server_type: ServerType::Unknown,
            error: None,
            round_trip_time: None,
            min_round_trip_time: Duration::ZERO,
            last_update_time: now,
            last_write_date: None,
            min_wire_version: 0,
            max_wire_version: 0,
            me: None,
            hosts: Vec::new(),
            passives: Vec::new(),
            arbiters: Vec::new(),
            tags: Vec::new(),
            set_name: None,
            set_version: None,
            election_id: None,
            primary: None,
            logical_session_timeout_minutes: None,
            topology_version: None,
            max_bson_object_size: 16 * 1024 * 1024,
            max_message_size_bytes: 48_000_000,
            max_write_batch_size: 100_000,
            hello_ok: false,
        }
    }

    /// Describes a server whose check or use failed.
    pub fn failed(address: Address, error: impl Into<Arc<str>>, now: Instant) -> ServerDescription {
        ServerDescription { error: Some(error.into()), ..ServerDescription::unknown(address, now) }
    }

    /// Describes a load balancer, which is never checked.
    pub fn load_balancer(address: Address, now: Instant) -> ServerDescription {
        ServerDescription {
            server_type: ServerType::LoadBalancer,
            ..ServerDescription::unknown(address, now)
        }
    }

    /// Describes the server that gave this hello reply. A reply with `ok: 0`, or an unreadable one, makes it Unknown,
    /// with the reason.
    pub fn from_hello(address: Address, reply: RawDocument<'_>, now: Instant) -> ServerDescription {
        let mut described = ServerDescription::unknown(address, now);
        let mut facts = Facts::default();
        for element in reply.iter() {
            let element = match element {
                Ok(element) => element,
                Err(error) => return Self::failed(described.address, error.to_string(), now),
            };
            described.take_hello_field(element.key, element.value, &mut facts);
        }
        if !facts.is_ok {
            let message = match facts.errmsg {
                Some(message) => format!("hello failed: {message}"),
                None => "expected ok: 1 in the hello reply, got neither that nor an errmsg".to_owned(),
            };
            return Self::failed(described.address, message, now);
        }
        described.server_type = match () {
            () if facts.is_mongos => ServerType::Mongos,
            () if facts.is_ghost => ServerType::RSGhost,
            () if described.set_name.is_none() => ServerType::Standalone,
            () if facts.is_hidden => ServerType::RSOther,
            () if facts.is_writable_primary => ServerType::RSPrimary,
            () if facts.is_secondary => ServerType::RSSecondary,
            () if facts.is_arbiter => ServerType::RSArbiter,
            () => ServerType::RSOther,
        };
        described
    }

    // A field of the wrong type counts as absent: servers of other vendors are careless.
    fn take_hello_field(&mut self, key: &str, value: RawValue<'_>, facts: &mut Facts) {
        let truth = || value.as_bool_lenient().unwrap_or(false);
        let int = || value.as_i64_lenient();
        let small = |otherwise: i32| int().and_then(|n| i32::try_from(n).ok()).unwrap_or(otherwise);
        match key {
            "ok" => facts.is_ok = truth(),
            "errmsg" => facts.errmsg = text(value).map(str::to_owned),
            "isWritablePrimary" | "ismaster" => facts.is_writable_primary |= truth(),
            "secondary" => facts.is_secondary = truth(),
            "hidden" => facts.is_hidden = truth(),
            "arbiterOnly" => facts.is_arbiter = truth(),
            "isreplicaset" => facts.is_ghost = truth(),
            "msg" => facts.is_mongos = text(value) == Some("isdbgrid"),
            "helloOk" => self.hello_ok = truth(),
            "minWireVersion" => self.min_wire_version = small(0),
            "maxWireVersion" => self.max_wire_version = small(0),
            "maxBsonObjectSize" => self.max_bson_object_size = small(self.max_bson_object_size),
            "maxMessageSizeBytes" => self.max_message_size_bytes = small(self.max_message_size_bytes),
            "maxWriteBatchSize" => self.max_write_batch_size = small(self.max_write_batch_size),
            "me" => self.me = address(value),
            "primary" => self.primary = address(value),
            "hosts" => self.hosts = addresses(value),
            "passives" => self.passives = addresses(value),
            "arbiters" => self.arbiters = addresses(value),
            "setName" => self.set_name = text(value).map(Arc::from),
            "setVersion" => self.set_version = int(),
            "logicalSessionTimeoutMinutes" => self.logical_session_timeout_minutes = int(),
            "electionId" => {
                self.election_id = match value {
                    RawValue::ObjectId(id) => Some(id),
                    _ => None,
                }
            }
            "tags" => {
                if let RawValue::Document(tags) = value {
                    let tag = |(key, value): (&str, _)| Some((key.to_owned(), text(value)?.to_owned()));
                    self.tags =
                        tags.iter().flatten().filter_map(|tagged| tag((tagged.key, tagged.value))).collect();
                }
            }
            "topologyVersion" => {
                if let RawValue::Document(version) = value {
                    self.topology_version = TopologyVersion::from_document(version);
                }
            }
            "lastWrite" => {
                if let RawValue::Document(last_write) = value {
                    self.last_write_date = last_write.get_datetime("lastWriteDate").unwrap_or(None);
                }
            }
            _ => {}
        }
    }

    /// Walks all members of the replica set that the server named.
    pub fn all_hosts(&self) -> impl Iterator<Item = &Address> {
        self.hosts.iter().chain(&self.passives).chain(&self.arbiters)
    }

    /// Returns the reason why this client and the server cannot work together; `None` when they can, or nothing is
    /// known of the server.
    pub fn incompatibility(&self) -> Option<String> {
        if matches!(self.server_type, ServerType::Unknown | ServerType::LoadBalancer) {
            return None;
        }
        if self.min_wire_version > MAX_WIRE_VERSION {
            return Some(format!(
                "server at {} requires wire version {}, but this version of mangonel supports up to {}",
                self.address, self.min_wire_version, MAX_WIRE_VERSION
            ));
        }
        if self.max_wire_version < MIN_WIRE_VERSION {
            return Some(format!(
                "server at {} reports wire version {}, but this version of mangonel requires at least {} \
                 (MongoDB {MIN_SERVER_VERSION})",
                self.address, self.max_wire_version, MIN_WIRE_VERSION
            ));
        }
        None
    }
}

/// Parts of a hello reply that only determine the server's type.
#[derive(Default)]
struct Facts {
    is_ok: bool,
    errmsg: Option<String>,
    is_writable_primary: bool,
    is_secondary: bool,
    is_hidden: bool,
    is_arbiter: bool,
    is_ghost: bool,
    is_mongos: bool,
}

fn text(value: RawValue<'_>) -> Option<&str> {
    match value {
        RawValue::String(text) => Some(text),
        _ => None,
    }
}

fn address(value: RawValue<'_>) -> Option<Address> {
    Address::parse(text(value)?).ok()
}

fn addresses(value: RawValue<'_>) -> Vec<Address> {
    match value {
        RawValue::Array(array) => array.iter().flatten().filter_map(address).collect(),
        _ => Vec::new(),
    }
}

/// The type of a deployment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TopologyType {
    /// Not known yet.
    Unknown,
    /// One server, used regardless of its type.
    Single,
    /// A replica set without a known primary.
    ReplicaSetNoPrimary,
    /// A replica set with a primary.
    ReplicaSetWithPrimary,
    /// Routers of a sharded cluster.
    Sharded,
    /// One load balancer.
    LoadBalanced,
}

impl TopologyType {
    /// Returns the specification's name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Unknown => "Unknown",
            Self::Single => "Single",
            Self::ReplicaSetNoPrimary => "ReplicaSetNoPrimary",
            Self::ReplicaSetWithPrimary => "ReplicaSetWithPrimary",
            Self::Sharded => "Sharded",
            Self::LoadBalanced => "LoadBalanced",
        }
    }
}

/// The description of the whole deployment.
#[derive(Clone, PartialEq, Debug)]
pub struct TopologyDescription {
    /// Its type.
    pub topology_type: TopologyType,
    /// The replica set's name: given by the user, or taken from the first known member.
    pub set_name: Option<Arc<str>>,
    /// The greatest setVersion a primary reported.
    pub max_set_version: Option<i64>,
    /// The greatest electionId a primary reported.
    pub max_election_id: Option<ObjectId>,
    /// The servers, by address.
    pub servers: BTreeMap<Address, Arc<ServerDescription>>,
    /// The least timeout of all data-bearing servers, `None` if one of them reports none.
    pub logical_session_timeout_minutes: Option<i64>,
    /// The reason why no operation can run: a server is too old or too new.
    pub compatibility_error: Option<Arc<str>>,
    /// The last [`MOST_TURNED_AWAY`] servers that turned out not to belong here, and their types. An error names them
    /// when no server is left: they show which option is wrong.
    pub turned_away: Vec<(Address, Arc<str>)>,
}

impl TopologyDescription {
    /// Describes a deployment from its type, the name of its set and some addresses.
    pub fn new(
        topology_type: TopologyType,
        set_name: Option<Arc<str>>,
        seeds: impl IntoIterator<Item = Address>,
        now: Instant,
    ) -> TopologyDescription {
        let describe = |seed: Address| (seed.clone(), Arc::new(ServerDescription::unknown(seed, now)));
        TopologyDescription {
            topology_type,
            set_name,
            max_set_version: None,
            max_election_id: None,
            servers: seeds.into_iter().map(describe).collect(),
            logical_session_timeout_minutes: None,
            compatibility_error: None,
            turned_away: Vec::new(),
        }
    }

    /// Returns the primary of a replica set, while one is known.
    pub fn primary(&self) -> Option<&Arc<ServerDescription>> {
        self.servers.values().find(|server| server.server_type == ServerType::RSPrimary)
    }

    /// Stores a server's new description.
    pub(super) fn put(&mut self, server: ServerDescription) {
        self.servers.insert(server.address.clone(), Arc::new(server));
    }

    /// Removes a server of an unexpected type, and records that type.
    pub(super) fn turn_away(&mut self, address: &Address, what: String) {
        self.servers.remove(address);
        self.turned_away.retain(|(known, _)| known != address);
        if self.turned_away.len() == MOST_TURNED_AWAY {
            self.turned_away.remove(0);
        }
        self.turned_away.push((address.clone(), Arc::from(what)));
    }

    /// Recomputes the values that depend on all servers.
    pub(super) fn settle(&mut self) {
        self.compatibility_error =
            self.servers.values().find_map(|server| server.incompatibility()).map(Arc::from);
        let mut bearing = self
            .servers
            .values()
            .filter(|server| server.server_type.is_data_bearing())
            .map(|server| server.logical_session_timeout_minutes);
        self.logical_session_timeout_minutes = bearing
            .next()
            .and_then(|first| bearing.try_fold(first?, |least, next| next.map(|n| n.min(least))));
    }
}

/// Writes the deployment as a line for error messages: `rs0 has a:27017 (RSSecondary), b:27017 (Unknown: timed out)`,
/// `rs0 has no servers, turned away: a:27017 (a member of replica set "rs1")`.
impl fmt::Display for TopologyDescription {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.tell(f, |_| None)
    }
}

impl TopologyDescription {
    /// Writes the line. `under_way`: the current activity of a server's unfinished first check.
    pub(super) fn tell(
        &self,
        out: &mut impl fmt::Write,
        under_way: impl Fn(&Address) -> Option<String>,
    ) -> fmt::Result {
        out.write_str(self.set_name.as_deref().unwrap_or("the deployment"))?;
        if self.servers.is_empty() {
            out.write_str(" has no servers")?;
            for (index, (address, what)) in self.turned_away.iter().enumerate() {
                let before = if index == 0 { ", turned away:" } else { "," };
                write!(out, "{before} {address} ({what})")?;
            }
            return Ok(());
        }
        for (index, server) in self.servers.values().enumerate() {
            let before = if index == 0 { " has" } else { "," };
            write!(out, "{before} {} ({}", server.address, server.server_type.name())?;
            let is_unknown = server.server_type == ServerType::Unknown;
            match &server.error {
                Some(error) => write!(out, ": {error})")?,
                None => match under_way(&server.address).filter(|_| is_unknown) {
                    Some(doing) => write!(out, ": {doing})")?,
                    None => out.write_str(")")?,
                },
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_message_names_every_server_and_what_is_wrong_with_it() {
        let now = Instant(Duration::ZERO);
        let name = Some(Arc::from("rs0"));
        let a = Address::new("a", 1);
        let mut topology =
            TopologyDescription::new(TopologyType::ReplicaSetNoPrimary, name, [a, Address::new("b", 2)], now);
        topology.put(ServerDescription::failed(Address::new("b", 2), "connection refused", now));
        assert_eq!(topology.to_string(), "rs0 has a:1 (Unknown), b:2 (Unknown: connection refused)");
        topology.servers.clear();
        topology.set_name = None;
        assert_eq!(topology.to_string(), "the deployment has no servers");
    }

    #[test]
    fn a_deployment_that_turned_every_server_away_says_what_they_are() {
        let now = Instant(Duration::ZERO);
        let seeds = (0..10).map(|n| Address::new("a", n));
        let mut topology =
            TopologyDescription::new(TopologyType::ReplicaSetNoPrimary, Some(Arc::from("rs0")), seeds, now);
        for port in 0..10 {
            let mut server = ServerDescription::unknown(Address::new("a", port), now);
            server.server_type = if port == 8 { ServerType::Standalone } else { ServerType::RSSecondary };
            server.set_name = (port != 8).then(|| Arc::from("rs1"));
            topology = super::super::update::apply(&topology, server, 10);
        }
        let message = topology.to_string();
        assert!(
            message.starts_with(r#"rs0 has no servers, turned away: a:2 (a member of replica set "rs1"), "#)
        );
        assert!(
            message
                .ends_with(r#"a:8 (a standalone, in no replica set), a:9 (a member of replica set "rs1")"#)
        );
        assert_eq!(topology.turned_away.len(), MOST_TURNED_AWAY);
    }

    #[test]
    fn versions_of_different_processes_cannot_be_compared() {
        let of = |process, counter| {
            Some(TopologyVersion { process_id: ObjectId::from_bytes([process; 12]), counter })
        };
        assert!(TopologyVersion::is_later(of(1, 2), of(1, 1)));
        assert!(!TopologyVersion::is_later(of(1, 2), of(1, 2)));
        assert!(TopologyVersion::is_same_or_later(of(1, 2), of(1, 2)));
        for (a, b) in [(of(1, 2), of(2, 1)), (None, of(1, 1)), (of(1, 1), None), (None, None)] {
            assert!(!TopologyVersion::is_later(a, b) && !TopologyVersion::is_same_or_later(a, b));
        }
    }
}
