//! The deployment as the client sees it: takes the results of monitors and operations, keeps one description,
//! and queues the effects for pools, faces and listeners. Opens no socket, keeps no clock, runs no command.
//! Spec: server-discovery-and-monitoring; load-balancers.
//!
//! The face drives a monitor of each server with [`Topology::poll_monitor`] and the `handle_monitor_*`
//! methods, and a pinger with [`Topology::poll_pinger`]. After any call, drain [`Topology::poll_effect`] and
//! [`Topology::poll_event`]. Clearing a pool while the topology's lock is held keeps both in step.

pub mod address;
pub mod description;
pub mod event;
pub mod failure;
mod hello_request;
pub mod monitor;
pub mod rtt;
pub mod select;
pub mod update;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use mangonel_bson::RawDocument;

pub use self::address::Address;
pub use self::description::{
    ServerDescription, ServerType, TopologyDescription, TopologyType, TopologyVersion,
};
pub use self::event::{Effect, Event};
use self::failure::Verdict;
pub use self::failure::{ApplicationError, Cause, Phase, is_state_change};
pub use self::hello_request::{HelloRequest, Step};
use self::monitor::{Check, Monitor};
pub use self::monitor::{Failure, MonitorSettings, ServerMonitoringMode};
use self::rtt::RttPinger;
use crate::time::Instant;

/// The user's settings for the deployment.
#[derive(Clone, Debug, Default)]
pub struct TopologySettings {
    /// The first addresses.
    pub seeds: Vec<Address>,
    /// The URI's `replicaSet`.
    pub set_name: Option<Arc<str>>,
    /// The URI's `directConnection`: use the one seed, regardless of its type.
    pub is_direct: bool,
    /// The URI's `loadBalanced`.
    pub is_load_balanced: bool,
    /// How servers are monitored.
    pub monitor: MonitorSettings,
    /// Whether there are listeners. Without listeners, no event is made.
    pub has_listeners: bool,
}

/// The monitor and pinger of one server.
#[derive(Debug)]
struct Watch {
    monitor: Monitor,
    pinger: Option<RttPinger>,
}

/// The state of one client's deployment.
#[derive(Debug)]
pub struct Topology {
    settings: TopologySettings,
    description: Arc<TopologyDescription>,
    watches: BTreeMap<Address, Watch>,
    effects: VecDeque<Effect>,
    events: VecDeque<Event>,
    /// How often the description has changed.
    changes: u64,
    is_closed: bool,
}

impl Topology {
    /// Begins with the settings. The first effects open a pool and start a monitor for each seed.
    pub fn new(settings: TopologySettings, now: Instant) -> Topology {
        let topology_type = match &settings {
            settings if settings.is_load_balanced => TopologyType::LoadBalanced,
            settings if settings.is_direct => TopologyType::Single,
            settings if settings.set_name.is_some() => TopologyType::ReplicaSetNoPrimary,
            _ => TopologyType::Unknown,
        };
        let empty = TopologyDescription::new(TopologyType::Unknown, None, [], now);
        let first = TopologyDescription::new(
            topology_type,
            settings.set_name.clone(),
            settings.seeds.iter().cloned(),
            now,
        );
        let mut topology = Topology {
            settings,
            description: Arc::new(empty),
            watches: BTreeMap::new(),
            effects: VecDeque::new(),
            events: VecDeque::new(),
            changes: 1,
            is_closed: false,
        };
        topology.publish(|| Event::TopologyOpening);
        let first = Arc::new(first);
        let previous = std::mem::replace(&mut topology.description, Arc::clone(&first));
        topology.publish(|| Event::TopologyDescriptionChanged { previous, new: Arc::clone(&first) });
        for address in first.servers.keys() {
            topology.open_server(address, now);
        }
        if topology_type == TopologyType::LoadBalanced {
            for address in first.servers.keys() {
                topology.change(ServerDescription::load_balancer(address.clone(), now), now);
                topology.effects.push_back(Effect::ReadyPool { address: address.clone() });
            }
        }
        topology
    }

    /// Returns the current description. The value never changes; ask again for a newer one.
    pub fn description(&self) -> &Arc<TopologyDescription> {
        &self.description
    }

    /// Returns how often the description has changed; listeners see each change, the first included.
    pub fn changes(&self) -> u64 {
        self.changes
    }

    /// Returns how often servers are checked; server selection needs it to judge staleness.
    pub fn heartbeat_frequency(&self) -> Duration {
        self.settings.monitor.heartbeat_frequency
    }

    /// Returns the next actions of pools and faces, in order.
    pub fn poll_effect(&mut self) -> Option<Effect> {
        self.effects.pop_front()
    }

    /// Returns the next events for listeners, in order.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// Starts or stops making events.
    pub fn set_listened(&mut self, is_listened: bool) {
        self.settings.has_listeners = is_listened;
    }

    /// Returns the next step of this server's monitor; [`Step::Stop`] once the server has left.
    pub fn poll_monitor(&mut self, address: &Address, now: Instant) -> Step {
        let Some(watch) = self.watches.get_mut(address) else { return Step::Stop };
        let step = watch.monitor.poll_step(now);
        self.publish_started(address);
        step
    }

    /// Describes the deployment in a line for error messages; for a server that has not answered yet, describes its
    /// first check.
    pub fn describe(&self, now: Instant) -> String {
        let mut line = String::new();
        let doing = |address: &Address| self.watches.get(address)?.monitor.doing(now);
        self.description.tell(&mut line, doing).expect("a String takes every text");
        line
    }

    /// Called when the monitor has reached the proxy; the SOCKS5 handshake begins now.
    pub fn handle_monitor_proxy(&mut self, address: &Address, proxy: String) {
        if let Some(watch) = self.watches.get_mut(address) {
            watch.monitor.handle_proxy(proxy);
        }
    }

    /// Called when the monitor has reached the server; the TLS handshake begins now.
    pub fn handle_monitor_securing(&mut self, address: &Address) {
        if let Some(watch) = self.watches.get_mut(address) {
            watch.monitor.handle_securing();
        }
    }

    /// Called when the monitor has connected.
    pub fn handle_monitor_connected(&mut self, address: &Address, now: Instant) {
        if let Some(watch) = self.watches.get_mut(address) {
            watch.monitor.handle_connected(now);
        }
    }

    /// Called when this server's monitor has read a hello reply; `is_more_to_come` is the message's flag.
    pub fn handle_monitor_reply(
        &mut self,
        address: &Address,
        reply: RawDocument<'_>,
        is_more_to_come: bool,
        now: Instant,
    ) {
        let Some(watch) = self.watches.get_mut(address) else { return };
        let Some(check) = watch.monitor.handle_reply(reply, is_more_to_come, now) else { return };
        if watch.monitor.has_streamed() && watch.pinger.is_none() {
            let settings = self.settings.monitor;
            let frequency = settings.heartbeat_frequency.max(settings.min_heartbeat);
            // The monitor's handshake was the first sample. The minimum, which time limits reserve for the round trip,
            // needs a second sample before the next reply.
            let first = now + frequency.min(rtt::FIRST_PING_DELAY);
            watch.pinger = Some(RttPinger::new(frequency, settings.connect_timeout, first));
            self.effects.push_back(Effect::StartPinger { address: address.clone() });
        }
        let Check { ref description, duration, is_awaited, .. } = check;
        let address = address.clone();
        match &description.error {
            None => {
                let reply = reply.as_bytes();
                self.publish(|| Event::HeartbeatSucceeded {
                    address,
                    duration,
                    reply: reply.to_vec(),
                    is_awaited,
                });
            }
            Some(error) => {
                let error = Arc::clone(error);
                self.publish(|| Event::HeartbeatFailed { address, duration, error, is_awaited });
            }
        }
        self.take_check(check, now);
    }

    /// Called when this server's monitor could not connect, write or read.
    pub fn handle_monitor_error(&mut self, address: &Address, message: &str, failure: Failure, now: Instant) {
        let was_known = self
            .description
            .servers
            .get(address)
            .is_some_and(|known| known.server_type != ServerType::Unknown);
        let Some(watch) = self.watches.get_mut(address) else { return };
        let Some(check) = watch.monitor.handle_network_error(message, failure, was_known, now) else {
            return;
        };
        let Check { duration, is_awaited, .. } = check;
        let address = address.clone();
        self.publish(|| Event::HeartbeatFailed { address, duration, error: message.into(), is_awaited });
        self.take_check(check, now);
    }

    /// Returns the next step of this server's pinger; [`Step::Stop`] once the server has left.
    pub fn poll_pinger(&mut self, address: &Address, now: Instant) -> Step {
        match self.watches.get_mut(address).and_then(|watch| watch.pinger.as_mut()) {
            Some(pinger) => pinger.poll_step(now),
            None => Step::Stop,
        }
    }

    /// Called when the pinger has connected.
    pub fn handle_pinger_connected(&mut self, address: &Address, now: Instant) {
        if let Some(pinger) = self.watches.get_mut(address).and_then(|watch| watch.pinger.as_mut()) {
            pinger.handle_connected(now);
        }
    }

    /// Called when the pinger has read a hello reply.
    pub fn handle_pinger_reply(&mut self, address: &Address, now: Instant) {
        let Some(watch) = self.watches.get_mut(address) else { return };
        if let Some(sample) = watch.pinger.as_mut().and_then(|pinger| pinger.handle_reply(now)) {
            watch.monitor.rtt.add_sample(sample);
        }
    }

    /// Called when the pinger could not connect, write or read.
    pub fn handle_pinger_error(&mut self, address: &Address, now: Instant) {
        if let Some(pinger) = self.watches.get_mut(address).and_then(|watch| watch.pinger.as_mut()) {
            pinger.handle_network_error(now);
        }
    }

    /// Requests a check of every server as soon as possible: an operation found no suitable one.
    pub fn request_checks(&mut self, now: Instant) {
        for (address, watch) in &mut self.watches {
            // Each waiting operation requests checks again at each change; waking all monitors each time would be
            // quadratic.
            if watch.monitor.request_check(now) {
                self.effects.push_back(Effect::WakeMonitor { address: address.clone() });
            }
        }
    }

    /// Handles an operation's error. Stale errors, and those that say nothing about the server, change nothing.
    pub fn handle_application_error(&mut self, error: &ApplicationError<'_>, now: Instant) {
        let Some(known) = self.description.servers.get(error.address) else { return };
        if error.generation < error.pool_generation
            || TopologyVersion::is_same_or_later(known.topology_version, error.topology_version())
        {
            return;
        }
        let is_load_balanced = self.settings.is_load_balanced;
        // Before the hello reply, a connection's service is unknown.
        if is_load_balanced && error.service_id.is_none() {
            return;
        }
        let address = error.address.clone();
        let failed = ServerDescription::failed(address.clone(), error.message, now);
        let clear = Effect::ClearPool {
            address: address.clone(),
            service_id: if is_load_balanced { error.service_id } else { None },
            is_interrupting: false,
        };
        match error.verdict() {
            Verdict::Ignore => {}
            Verdict::StateChange { is_shutdown, topology_version } => {
                if is_shutdown {
                    self.effects.push_back(clear);
                }
                if !is_load_balanced {
                    self.change(ServerDescription { topology_version, ..failed }, now);
                    self.request_check(&address, now);
                }
            }
            Verdict::Lost => {
                self.effects.push_back(clear);
                if !is_load_balanced {
                    self.change(failed, now);
                    self.cancel_check(&address, now);
                }
            }
        }
    }

    /// Handles the addresses in the current SRV records. Only a deployment of routers follows them.
    pub fn handle_srv_addresses(&mut self, addresses: &[Address], now: Instant) {
        if addresses.is_empty()
            || !matches!(self.description.topology_type, TopologyType::Unknown | TopologyType::Sharded)
        {
            return;
        }
        let mut next = (*self.description).clone();
        next.servers.retain(|address, _| addresses.contains(address));
        for address in addresses {
            if !next.servers.contains_key(address) {
                next.put(ServerDescription::unknown(address.clone(), now));
            }
        }
        next.settle();
        self.replace(next, now);
    }

    /// Ends all monitors and closes all pools.
    pub fn close(&mut self, now: Instant) {
        if std::mem::replace(&mut self.is_closed, true) {
            return;
        }
        let mut next = TopologyDescription::new(TopologyType::Unknown, None, [], now);
        next.set_name.clone_from(&self.description.set_name);
        self.replace(next, now);
        self.publish(|| Event::TopologyClosed);
    }

    fn take_check(&mut self, check: Check, now: Instant) {
        let description = check.description;
        let address = description.address.clone();
        let Some(known) = self.description.servers.get(&address) else { return };
        if TopologyVersion::is_later(known.topology_version, description.topology_version) {
            return self.publish_started(&address);
        }
        let is_usable = description.server_type.is_data_bearing();
        match check.failure {
            Some(failure) => self.effects.push_back(Effect::ClearPool {
                address: address.clone(),
                service_id: None,
                is_interrupting: failure == Failure::Timeout,
            }),
            None if is_usable || self.description.topology_type == TopologyType::Single => {
                self.effects.push_back(Effect::ReadyPool { address: address.clone() });
            }
            None => {}
        }
        self.change(description, now);
        // A stream's next heartbeat begins with the reply to the last one.
        self.publish_started(&address);
    }

    fn change(&mut self, server: ServerDescription, now: Instant) {
        let next = update::apply(&self.description, server.clone(), self.settings.seeds.len());
        if let Some(previous) = self.description.servers.get(&server.address) {
            // The update may have changed the server's description too: its set's name is wrong, or a newer primary is
            // known.
            let new = next.servers.get(&server.address).cloned().unwrap_or_else(|| Arc::new(server));
            if **previous != *new {
                let previous = Arc::clone(previous);
                self.publish(|| Event::ServerDescriptionChanged { previous, new });
            }
        }
        self.replace(next, now);
    }

    /// Stores a new description, and queues the effects of added, removed and demoted servers.
    fn replace(&mut self, next: TopologyDescription, now: Instant) {
        let previous = Arc::clone(&self.description);
        let next = Arc::new(next);
        self.description = Arc::clone(&next);
        for address in previous.servers.keys().filter(|address| !next.servers.contains_key(*address)) {
            self.watches.remove(address);
            self.publish(|| Event::ServerClosed { address: address.clone() });
            self.effects.push_back(Effect::StopMonitor { address: address.clone() });
            self.effects.push_back(Effect::ClosePool { address: address.clone() });
        }
        for (address, server) in &next.servers {
            match previous.servers.get(address) {
                None => self.open_server(address, now),
                // Replaced by a newer primary: check it again soon.
                Some(old) if old.server_type == ServerType::RSPrimary && is_marked_stale(server) => {
                    self.request_check(address, now);
                }
                Some(_) => {}
            }
        }
        if previous != next {
            self.changes += 1;
            self.publish(|| Event::TopologyDescriptionChanged { previous, new: next });
        }
        self.effects.push_back(Effect::WakeSelections);
    }

    fn open_server(&mut self, address: &Address, now: Instant) {
        self.publish(|| Event::ServerOpening { address: address.clone() });
        self.effects.push_back(Effect::OpenPool { address: address.clone() });
        if !self.settings.is_load_balanced {
            let monitor = Monitor::new(address.clone(), self.settings.monitor, now);
            self.watches.insert(address.clone(), Watch { monitor, pinger: None });
            self.effects.push_back(Effect::StartMonitor { address: address.clone() });
        }
    }

    fn request_check(&mut self, address: &Address, now: Instant) {
        if let Some(watch) = self.watches.get_mut(address)
            && watch.monitor.request_check(now)
        {
            self.effects.push_back(Effect::WakeMonitor { address: address.clone() });
        }
    }

    fn cancel_check(&mut self, address: &Address, now: Instant) {
        self.publish_started(address);
        let Some(watch) = self.watches.get_mut(address) else { return };
        let check = watch.monitor.check_under_way(now);
        if watch.monitor.cancel_check(now) {
            self.effects.push_back(Effect::InterruptMonitor { address: address.clone() });
        }
        if let Some((duration, is_awaited)) = check {
            let error = "the check was cancelled: an operation found the server broken";
            let address = address.clone();
            self.publish(|| Event::HeartbeatFailed { address, duration, error: error.into(), is_awaited });
        }
    }

    fn publish_started(&mut self, address: &Address) {
        let started = self.watches.get_mut(address).and_then(|watch| watch.monitor.poll_started());
        if let Some(is_awaited) = started {
            self.publish(|| Event::HeartbeatStarted { address: address.clone(), is_awaited });
        }
    }

    fn publish(&mut self, event: impl FnOnce() -> Event) {
        if self.settings.has_listeners {
            self.events.push_back(event());
        }
    }
}

fn is_marked_stale(server: &ServerDescription) -> bool {
    server.server_type == ServerType::Unknown
        && server.error.as_deref().is_some_and(|error| error.starts_with(update::STALE))
}
