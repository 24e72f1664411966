//! The state that all exchanges of a client share: the deployment, its pools, sessions and cluster time.
//! The owner keeps it behind a lock that is held for about a microsecond, never across I/O.
//! Spec: server-discovery-and-monitoring, server-selection, connection-monitoring-and-pooling.

mod connections;
mod counting;
mod drain;
mod pools;
mod sessions;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

pub(crate) use self::connections::ConnectionFacts;
use self::counting::Gone;
pub use self::counting::PoolSnapshot;
use crate::client_session::{ClientSession, ClusterTime, keep_newer};
use crate::error::ProtocolError;
use crate::events::{Event, EventQueue, Interests, PoolEvent};
use crate::hello::hello_command;
use crate::ids::{ExchangeId, IdMap, LinkId, SessionId, ShardId};
use crate::message::Command;
use crate::metrics::Metrics;
use crate::options::ClientOptions;
use crate::pool::Pool;
use crate::session::{IdSource, ServerSession, SessionPool};
use crate::srv;
use crate::time::Instant;
use crate::topology::HelloRequest;
use crate::topology::select::{self, Criteria, SelectionError};
use crate::topology::{
    Address, Effect, ServerDescription, ServerType, Topology, TopologyDescription, TopologyType,
};

/// Longer than any session lasts.
const ENDLESS: Duration = Duration::from_secs(100 * 365 * 24 * 3600);

/// An action of the face for the deployment, apart from the steps of exchanges.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Action {
    /// Start driving the monitor of this server.
    Watch(Address),
    /// Start driving the pinger of this server.
    Ping(Address),
    /// Let this server's monitor poll its step again.
    Wake(Address),
    /// Shut down the socket of this server's monitor.
    Interrupt(Address),
    /// Kill a session on this server, and with it a cursor that may be open there.
    KillSession(Address, [u8; 16]),
    /// Shut down the sockets of this server's monitor and pinger, and let both poll their steps again.
    Stop(Address),
    /// Call [`Client::keep_up`] soon, and every second or so from then on.
    KeepUp,
}

/// The pools of one server, one for each shard that used it.
#[derive(Default)]
struct Server {
    pools: BTreeMap<ShardId, Pool>,
    /// Whether the server was reached since its pools were cleared; for listeners only.
    is_ready: bool,
}

/// The state that all exchanges of one client share.
pub struct Client {
    pub(crate) options: ClientOptions,
    topology: Topology,
    servers: BTreeMap<Address, Server>,
    shards: BTreeSet<ShardId>,
    /// Exchanges that wait for a suitable server.
    selecting: Vec<ExchangeId>,
    woken: Vec<ExchangeId>,
    closing: Vec<LinkId>,
    /// The server and shard of each connection that a cursor or a transaction holds between two exchanges.
    pinned: IdMap<LinkId, (Address, ShardId)>,
    actions: Vec<Action>,
    events: EventQueue,
    connections: IdMap<LinkId, ConnectionFacts>,
    balanced_service: Option<Arc<ServerDescription>>,
    sessions: SessionPool,
    pub(crate) open_sessions: BTreeMap<SessionId, ClientSession>,
    pub(crate) next_session: u64,
    choices: IdSource,
    cluster_time: Option<ClusterTime>,
    /// The counts, if they were requested.
    pub(crate) metrics: Option<Box<Metrics>>,
    gone: Gone,
    next_exchange: u64,
    next_request: i32,
    next_link: u32,
    next_shard: u32,
    is_closed: bool,
}

impl Client {
    /// Makes a client that has contacted no server yet; its first actions wait until they are polled.
    /// `seed`: good randomness for session ids.
    pub fn new(options: ClientOptions, seed: [u8; 16], now: Instant) -> Self {
        Self::observed(options, Interests::default(), seed, now)
    }

    /// Makes a client as [`new`](Self::new) does, which records events of these kinds for
    /// [`poll_events`](Self::poll_events).
    pub fn observed(mut options: ClientOptions, interests: Interests, seed: [u8; 16], now: Instant) -> Self {
        options.topology.has_listeners = interests.contains(Interests::TOPOLOGY);
        let mut ids = IdSource::new(seed);
        let choices = IdSource::new(ids.next_uuid());
        // Request ids start at a random number, so that the log of a proxy distinguishes two clients.
        let next_request = (ids.next_u64() >> 34) as i32;
        let topology = Topology::new(options.topology.clone(), now);
        let mut client = Client {
            options,
            topology,
            servers: BTreeMap::new(),
            shards: BTreeSet::new(),
            selecting: Vec::new(),
            woken: Vec::new(),
            closing: Vec::new(),
            pinned: IdMap::default(),
            actions: Vec::new(),
            events: EventQueue::new(interests),
            connections: IdMap::default(),
            balanced_service: None,
            sessions: SessionPool::new(ids),
            open_sessions: BTreeMap::new(),
            next_session: 0,
            choices,
            cluster_time: None,
            metrics: None,
            gone: Gone::default(),
            next_exchange: 0,
            next_request,
            next_link: 0,
            next_shard: 0,
            is_closed: false,
        };
        client.settle();
        client
    }

    /// Returns the options of the client.
    pub fn options(&self) -> &ClientOptions {
        &self.options
    }

    /// Replaces the `client` document of later handshakes; one that is being written keeps the old document.
    pub fn set_metadata(&mut self, metadata: Vec<u8>) {
        self.options.metadata = metadata;
    }

    /// Returns the description of the deployment.
    pub fn description(&self) -> &Arc<TopologyDescription> {
        self.topology.description()
    }

    /// Describes the deployment in a line for error messages.
    pub fn describe(&self, now: Instant) -> String {
        self.topology.describe(now)
    }

    /// Returns whether [`close`](Self::close) was called.
    pub fn is_closed(&self) -> bool {
        self.is_closed
    }

    /// Closes the client: every later exchange fails, every waiter is woken, every link is closed.
    pub fn close(&mut self, now: Instant) {
        self.is_closed = true;
        self.topology.close(now);
        self.settle();
        self.woken.append(&mut self.selecting);
    }

    /// Starts over in a forked child: no connections, nothing known, another seed for ids.
    pub fn restart_in_child(&mut self, seed: [u8; 16], now: Instant) {
        self.servers.clear();
        self.selecting.clear();
        self.woken.clear();
        self.closing.clear();
        self.pinned.clear();
        self.actions.clear();
        self.events.clear();
        self.connections.clear();
        self.sessions.restart(IdSource::new(seed));
        self.open_sessions.clear();
        self.choices = IdSource::new(seed);
        self.cluster_time = None;
        self.metrics = self.metrics.as_ref().map(|_| Box::default());
        self.gone.clear();
        if let Some(login) = &mut self.options.login {
            login.restart_in_child(seed);
        }
        if !self.is_closed {
            self.topology = Topology::new(self.options.topology.clone(), now);
            self.settle();
        }
    }

    /// Starts over with other options; only before the first operation.
    pub fn reconfigure(&mut self, mut options: ClientOptions, now: Instant) {
        options.topology.has_listeners = self.options.topology.has_listeners;
        self.options = options;
        self.servers.clear();
        self.actions.clear();
        self.events.clear();
        self.topology = Topology::new(self.options.topology.clone(), now);
        self.settle();
    }

    /// Takes the SRV records of a deployment: the hosts and their time to live, or `None` for no answer.
    /// Returns when to ask again; `None` for never.
    pub fn follow_srv(
        &mut self,
        answer: Option<(Vec<Address>, Duration)>,
        max_hosts: usize,
        now: Instant,
    ) -> Option<Duration> {
        let is_followed = |client: &Client| {
            let kind = client.description().topology_type;
            !client.is_closed && matches!(kind, TopologyType::Unknown | TopologyType::Sharded)
        };
        if !is_followed(self) {
            return None;
        }
        let heartbeat = self.topology.heartbeat_frequency();
        // An answer without a usable host counts as none.
        let Some((named, ttl)) = answer.filter(|(named, _)| !named.is_empty()) else {
            return Some(srv::poll_interval(None, heartbeat));
        };
        let in_use: Vec<Address> = self.description().servers.keys().cloned().collect();
        let choices = &mut self.choices;
        let hosts = srv::choose_hosts(&in_use, &named, Some(max_hosts), || choices.next_u64());
        self.with_topology(|topology| topology.handle_srv_addresses(&hosts, now));
        is_followed(self).then(|| srv::poll_interval(Some(ttl), heartbeat))
    }

    /// Lets a monitor or pinger change the topology, then applies the effects to the pools.
    pub fn with_topology<T>(&mut self, change: impl FnOnce(&mut Topology) -> T) -> T {
        let result = change(&mut self.topology);
        self.settle();
        result
    }

    /// Applies the topology's effects to pools and waiters, and queues those for the face.
    fn settle(&mut self) {
        while let Some(event) = self.topology.poll_event() {
            self.events.push(Event::Topology(event));
        }
        while let Some(effect) = self.topology.poll_effect() {
            match effect {
                Effect::OpenPool { address } => {
                    self.publish_pool(&address, || PoolEvent::Created);
                    self.servers.insert(address, Server::default());
                }
                // An unknown server is never selected, so its pools need no check here.
                Effect::ReadyPool { address } => {
                    let server = self.servers.get_mut(&address);
                    if server.is_some_and(|server| !std::mem::replace(&mut server.is_ready, true)) {
                        self.ask_for_upkeep();
                        self.publish_pool(&address, || PoolEvent::Ready);
                    }
                }
                Effect::ClearPool { address, service_id, is_interrupting } => {
                    let is_balanced = self.options.topology.is_load_balanced;
                    let server = self.servers.get_mut(&address);
                    // Behind a load balancer no pool is ever paused.
                    if server.is_some_and(|server| std::mem::replace(&mut server.is_ready, is_balanced)) {
                        self.publish_pool(&address, || PoolEvent::Cleared { service_id, is_interrupting });
                    }
                    let server = self.servers.get_mut(&address);
                    let pools = server.into_iter().flat_map(|server| server.pools.values_mut());
                    pools.for_each(|pool| match service_id {
                        Some(service) => pool.clear_service(service, is_interrupting),
                        None => pool.pause(is_interrupting),
                    });
                    self.ask_for_upkeep();
                }
                Effect::ClosePool { address } => {
                    for (_, mut pool) in self.servers.remove(&address).unwrap_or_default().pools {
                        pool.close();
                        self.keep_counts(&address, &pool);
                        self.closing.append(&mut pool.poll_closing());
                        self.woken.append(&mut pool.poll_woken());
                        self.events.push_log(&address, pool.take_log());
                    }
                    self.publish_pool(&address, || PoolEvent::Closed);
                }
                Effect::StartMonitor { address } => self.actions.push(Action::Watch(address)),
                Effect::StartPinger { address } => self.actions.push(Action::Ping(address)),
                Effect::WakeMonitor { address } => self.actions.push(Action::Wake(address)),
                Effect::InterruptMonitor { address } => self.actions.push(Action::Interrupt(address)),
                Effect::StopMonitor { address } => self.actions.push(Action::Stop(address)),
                Effect::WakeSelections => self.woken.append(&mut self.selecting),
            }
        }
    }

    /// Chooses a server for an operation; `None` if none is suitable now.
    pub(crate) fn select(
        &mut self,
        criteria: Criteria<'_>,
        deprioritized: &[Address],
    ) -> Result<Option<Arc<ServerDescription>>, SelectionError> {
        let random = self.choices.next_u64();
        select::select(
            self.topology.description(),
            criteria,
            deprioritized,
            self.topology.heartbeat_frequency(),
            self.options.local_threshold,
            |address| self.operation_count(address),
            random,
        )
    }

    /// Returns the suitable servers for an operation, if the user set a `server_selector`; else `None`.
    pub(crate) fn candidates(
        &self,
        criteria: Criteria<'_>,
        deprioritized: &[Address],
    ) -> Result<Option<Vec<Arc<ServerDescription>>>, SelectionError> {
        let kind = self.description().topology_type;
        if !self.options.has_selector || matches!(kind, TopologyType::Single | TopologyType::LoadBalanced) {
            return Ok(None);
        }
        let (topology, frequency) = (self.topology.description(), self.topology.heartbeat_frequency());
        select::suitable(topology, criteria, deprioritized, frequency).map(Some)
    }

    /// Chooses one of these servers, by latency and at random.
    pub(crate) fn choose(
        &mut self,
        mut among: Vec<Arc<ServerDescription>>,
    ) -> Option<Arc<ServerDescription>> {
        let random = self.choices.next_u64();
        select::keep_near(&mut among, self.options.local_threshold);
        select::choose(&among, |address| self.operation_count(address), random).cloned()
    }

    /// Whether the deployment is a load balancer.
    pub(crate) fn is_load_balanced(&self) -> bool {
        self.options.topology.is_load_balanced
    }

    /// Returns the hello of the last service connected to; only behind a load balancer, where there is no
    /// monitoring.
    pub fn balanced_service(&self) -> Option<&Arc<ServerDescription>> {
        self.balanced_service.as_ref()
    }

    /// Returns a random number.
    pub(crate) fn chance(&mut self) -> u64 {
        self.choices.next_u64()
    }

    /// Returns the server of this address if it is known and compatible.
    pub(crate) fn known_server(&self, address: &Address) -> Option<Arc<ServerDescription>> {
        let server = self.description().servers.get(address)?;
        (server.server_type != ServerType::Unknown).then(|| Arc::clone(server))
    }

    /// Returns a hello for one of its servers, ready to be sent.
    ///
    /// # Errors
    /// When the client's metadata is no BSON document.
    pub fn hello(&mut self, server: &Address, request: HelloRequest) -> Result<Command, ProtocolError> {
        let hello_ok = self.description().servers.get(server).is_some_and(|server| server.hello_ok);
        let request_id = self.next_request();
        hello_command(&self.options, request, hello_ok, request_id, |_| {})
    }

    /// Wakes an exchange at the next change of the deployment, and requests checks of the servers.
    pub(crate) fn wait_for_change(&mut self, exchange: ExchangeId, now: Instant) {
        self.selecting.push(exchange);
        self.topology.request_checks(now);
        self.settle();
    }

    /// Forgets an exchange that waited for a change.
    pub(crate) fn stop_waiting(&mut self, exchange: ExchangeId) {
        self.selecting.retain(|waiting| *waiting != exchange);
    }

    /// Returns the `$clusterTime` document to gossip, if one is known and the deployment accepts it. `session`: the
    /// cluster time of the command's session, which may be newer.
    pub(crate) fn cluster_time<'a>(
        &'a self,
        server: &ServerDescription,
        session: Option<&'a ClusterTime>,
    ) -> Option<&'a [u8]> {
        let gossips = matches!(server.server_type, ServerType::Mongos | ServerType::LoadBalancer)
            || server.set_name.is_some();
        let newest = match (&self.cluster_time, session) {
            (Some(known), Some(seen)) if seen.0 > known.0 => Some(seen),
            (known, seen) => known.as_ref().or(seen),
        };
        newest.filter(|_| gossips).map(|(_, document)| document.as_slice())
    }

    /// Keeps the newer of the known cluster time and the one in `document`.
    pub(crate) fn advance_cluster_time(&mut self, document: &[u8]) {
        keep_newer(&mut self.cluster_time, document);
    }

    pub(crate) fn next_exchange(&mut self) -> ExchangeId {
        self.next_exchange += 1;
        ExchangeId(self.next_exchange)
    }

    pub(crate) fn next_request(&mut self) -> i32 {
        self.next_request = self.next_request.wrapping_add(1) & i32::MAX;
        self.next_request
    }

    /// Returns the name for a connection that is about to be opened.
    pub fn next_link(&mut self) -> LinkId {
        self.next_link = self.next_link.wrapping_add(1);
        LinkId(self.next_link)
    }

    /// Returns a session to use now.
    pub(crate) fn take_session(&mut self, now: Instant) -> ServerSession {
        let timeout = self.session_timeout();
        self.sessions.take(timeout, now)
    }

    /// Takes back a session that a cursor held.
    pub fn give_back_session(&mut self, session: ServerSession, now: Instant) {
        if let (true, Some(server)) = (self.sessions.is_own(&session), &session.left_cursor_at) {
            self.actions.push(Action::KillSession(server.clone(), session.id));
        }
        let timeout = self.session_timeout();
        self.sessions.give_back(session, timeout, now);
    }

    /// Takes the ids of all idle sessions, to end them.
    pub fn drain_sessions(&mut self) -> Vec<[u8; 16]> {
        self.sessions.drain()
    }

    /// Returns how long the deployment keeps idle sessions; `None` if it has no sessions or is not known yet.
    pub fn session_timeout(&self) -> Option<Duration> {
        if self.is_load_balanced() {
            // Not known; if a service has forgotten a session, it starts it again.
            return Some(ENDLESS);
        }
        let minutes = self.description().logical_session_timeout_minutes?;
        Some(Duration::from_secs(60 * u64::try_from(minutes).ok()?))
    }
}
