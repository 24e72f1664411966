//! The client's shared state as a Python class: the core behind its lock, and the Python side of links and wakers.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use mangonel_entries::entries;
use mangonel_proto::client::{Action, Client};
use mangonel_proto::events::{Event, Interests};
use mangonel_proto::ids::{ExchangeId, IdMap, LinkId, SessionId, ShardId};
use mangonel_proto::session::ServerSession;
use mangonel_proto::time::Instant;
use mangonel_proto::topology::{Address, ServerDescription, ServerType};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyList, PyTuple};

use super::clock::Clock;
use super::descriptions::{self, ServerLimits};
use super::failure;
use super::interpreter;
use super::link::Link;
use super::options::{client_options, encoded, option};
use super::pending::{DeploymentEvents, LostCursor, Pending};
use crate::thread_end::Entry;

/// The two observers of a server.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Role {
    /// The monitor, which checks the server.
    Watch,
    /// The pinger, which measures its round-trip time.
    Ping,
}

/// The role of the thread that maintains all pools.
pub(super) const KEEP_UP: u8 = 2;

/// The Python side of an observer while it runs.
#[derive(Default)]
pub struct Watcher {
    pub link: Option<Py<Link>>,
    pub waker: Option<Py<PyAny>>,
}

pub struct State {
    pub client: Client,
    pub links: IdMap<LinkId, Py<Link>>,
    pub wakers: IdMap<ExchangeId, Py<PyAny>>,
    pub watchers: HashMap<(Address, Role), Watcher>,
    /// Whether every observer must end, since the interpreter is about to exit.
    pub is_dismissed: bool,
    /// Called once when the pools need maintenance; set while the thread for it waits.
    keeper: Option<Py<PyAny>>,
    has_keeper: bool,
    /// What to call for more connections of a shard: a weak reference to its port.
    openers: HashMap<u32, Py<PyAny>>,
    /// Called once when the client's threads must end.
    enders: Vec<Py<PyAny>>,
    /// Called to start an observer, with an address, a role and a list, to which it adds the started thread.
    pub(super) starter: Option<Py<PyAny>>,
    /// The first is called with an address and a session's id, to kill the session there; the second with an address, a
    /// namespace and a cursor's id, to kill the cursor.
    pub(super) sweeper: Option<(Py<PyAny>, Py<PyAny>)>,
    /// Python work that drops have queued, for the next entry.
    left: Option<Box<Pending>>,
    /// The deployment's events that are not delivered yet.
    pub(super) deployment_events: DeploymentEvents,
}

impl State {
    /// Takes the pending Python work of the last call and earlier drops; cheap if there is none.
    fn take_pending(&mut self) -> Option<Pending> {
        if !self.client.has_pending() {
            return self.left.take().map(|left| *left);
        }
        let closing = self.client.poll_closing();
        let woken = self.client.poll_wakers();
        let mut events = self.client.poll_events();
        let has_deployment_events = events.iter().any(|event| matches!(event, Event::Topology(_)));
        if has_deployment_events {
            self.deployment_events.events.append(&mut events);
        }
        let mut pending = Pending {
            closing: closing.iter().filter_map(|link| self.links.remove(link)).collect(),
            waking: woken.iter().filter_map(|exchange| self.wakers.remove(exchange)).collect(),
            events,
            has_deployment_events,
            ..Pending::default()
        };
        for action in self.client.poll_actions() {
            match action {
                Action::Watch(address) => pending.starting.push((address, Role::Watch)),
                Action::Ping(address) => pending.starting.push((address, Role::Ping)),
                Action::KillSession(address, id) => pending.killing.push((address, id)),
                Action::Wake(address) => self.rouse(address, Role::Watch, &mut pending),
                Action::Interrupt(address) => self.interrupt(address, Role::Watch, &mut pending),
                Action::KeepUp => match self.keeper.take() {
                    Some(keeper) => pending.waking.push(keeper),
                    None if self.has_keeper => {}
                    None => {
                        self.has_keeper = true;
                        pending.is_upkeep_due = true;
                    }
                },
                Action::Stop(address) => {
                    for role in [Role::Watch, Role::Ping] {
                        self.interrupt(address.clone(), role, &mut pending);
                        self.rouse(address.clone(), role, &mut pending);
                    }
                }
            }
        }
        Some(match self.left.take() {
            Some(left) => left.followed_by(pending),
            None => pending,
        })
    }

    /// Returns the description of the writable server, or of any known one.
    fn writable_or_known(&self) -> Option<&Arc<ServerDescription>> {
        let description = self.client.description();
        let known = || description.servers.values().find(|server| server.server_type != ServerType::Unknown);
        self.client.balanced_service().or_else(|| description.primary()).or_else(known)
    }

    fn rouse(&mut self, address: Address, role: Role, pending: &mut Pending) {
        let watcher = self.watchers.get_mut(&(address, role));
        pending.waking.extend(watcher.and_then(|watcher| watcher.waker.take()));
    }

    fn interrupt(&mut self, address: Address, role: Role, pending: &mut Pending) {
        // Taken out, not copied: without the GIL a reference count cannot be raised.
        let watcher = self.watchers.get_mut(&(address, role));
        pending.interrupting.extend(watcher.and_then(|watcher| watcher.link.take()));
    }
}

/// A connection to open: its opener, its shard, and its server.
type Opening = (Py<PyAny>, u32, String);

/// How many more exchanges may hold a connection between two calls, so that each pool keeps one for others.
pub(crate) struct Ahead(Arc<AtomicUsize>);

/// The place of one of those exchanges, until it is dropped.
pub(crate) struct Place(Arc<AtomicUsize>);

impl Ahead {
    fn new(max_pool_size: usize) -> Self {
        // 0: no limit.
        Ahead(Arc::new(AtomicUsize::new(max_pool_size.wrapping_sub(1))))
    }

    /// Returns a place if one is left.
    pub(crate) fn take(&self) -> Option<Place> {
        let less = |left: usize| left.checked_sub(1);
        let taken = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
        taken.ok().map(|_| Place(self.0.clone()))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// The state that all exchanges of one client share.
#[pyclass(frozen, module = "mangonel._core", weakref)]
pub struct Core {
    _entry: Entry,
    state: Mutex<State>,
    /// Whether some of its connections may compress; checked for every message.
    pub(crate) compresses: bool,
    /// The responder of a mechanism that is implemented in Python.
    pub(crate) responder: Option<Py<PyAny>>,
    pub(super) clock: Arc<Clock>,
    /// The publisher, whose methods are called with the events; None without listeners.
    publisher: Mutex<Option<Py<PyAny>>>,
    /// Called at each check of a server, to find new listeners.
    listeners: Py<PyAny>,
    /// Whether operations are counted.
    counts: AtomicBool,
    forks: AtomicU32,
    /// The places for exchanges that hold a connection between two calls.
    pub(crate) ahead: Ahead,
    /// Makes spans of operations.
    pub(crate) tracer: Option<Py<PyAny>>,
    /// The user's function that narrows the suitable servers.
    pub(crate) selector: Option<Py<PyAny>>,
    /// How the faces secure connections; None for plain ones.
    security: PyOnceLock<Py<PyAny>>,
    /// The proxy that the faces connect through; None to connect directly.
    proxy: PyOnceLock<Py<PyAny>>,
}

impl interpreter::Deliver for Core {
    fn deliver_rest(&self, py: Python<'_>) {
        self.with(py, |_| ());
    }
}

impl Core {
    /// Reads the clock.
    pub fn now(&self) -> Instant {
        self.clock.now()
    }

    /// Runs `change` under the lock, then does the pending Python work.
    pub fn with<T>(&self, py: Python<'_>, change: impl FnOnce(&mut State) -> T) -> T {
        let (result, pending) = {
            let mut state = self.lock();
            let result = change(&mut state);
            (result, state.take_pending())
        };
        if let Some(pending) = pending {
            pending.deliver(self, py);
        }
        result
    }

    /// Returns the publisher of events.
    pub(super) fn publisher(&self, py: Python<'_>) -> Option<Py<PyAny>> {
        let held = self.publisher.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        held.as_ref().map(|publisher| publisher.clone_ref(py))
    }

    /// How many forks lie between the process that made it and this one.
    pub(super) fn forks(&self) -> u32 {
        self.forks.load(Ordering::Relaxed)
    }

    /// Whether operations are counted.
    #[inline]
    pub(super) fn is_counting(&self) -> bool {
        self.counts.load(Ordering::Relaxed)
    }

    /// Requests a check for new listeners.
    pub fn check_listeners(&self, py: Python<'_>) {
        if let Err(error) = self.listeners.call0(py) {
            interpreter::raise_soon(py, error, self.listeners.bind(py));
        }
    }

    /// Reads the state under the lock.
    pub fn peek<T>(&self, look: impl FnOnce(&State) -> T) -> T {
        look(&self.lock())
    }

    /// Runs `change` under the lock in a drop, where an exception may be pending and no Python code may run.
    /// Pending Python work is done by a later call. The result of `change` is dropped without the lock.
    pub fn change_in_drop<T>(slf: &Py<Self>, change: impl FnOnce(&mut State, Instant) -> T) {
        let now = slf.get().now();
        let (_changed, is_anything_left) = {
            let mut state = slf.get().lock();
            let changed = change(&mut state, now);
            state.left = state.take_pending().map(Box::new);
            (changed, state.left.is_some())
        };
        if is_anything_left {
            interpreter::deliver_soon(slf);
        }
    }

    /// Queues `callback` from a drop, where no Python code may run; a later call runs it.
    pub fn call_soon(slf: &Py<Self>, callback: Py<PyAny>) {
        {
            let mut state = slf.get().lock();
            state.left.get_or_insert_default().waking.push(callback);
        }
        interpreter::deliver_soon(slf);
    }

    /// Has a cursor killed, from a drop; a streaming cursor ends with its pinned connection.
    pub fn end_lost(slf: &Py<Self>, cursor: LostCursor, is_streaming: bool) {
        Self::change_in_drop(slf, |state, now| match cursor.pinned {
            Some(link) if is_streaming => state.client.release_pinned(LinkId(link), false, now),
            _ => state.left.get_or_insert_default().lost_cursors.push(cursor),
        });
    }

    /// Takes a session back from a drop.
    pub fn give_back(slf: &Py<Self>, session: ServerSession) {
        Self::change_in_drop(slf, |state, now| state.client.give_back_session(session, now));
    }

    /// Ends an explicit session, from a drop.
    pub fn end_session(slf: &Py<Self>, session: SessionId) {
        Self::change_in_drop(slf, |state, now| state.client.end_session(session, now));
    }

    pub(super) fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        // After a panic under the lock the client continues: an unfinished change does less harm than a dead client.
        self.state.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

#[entries]
#[pymethods]
impl Core {
    /// Make the shared state of a client. `options`: from `ClientOptions.core_options()`; `seed`: 16 random bytes;
    /// `listeners`: holds the first publisher, its interests and the tracer; called at each check of a server.
    #[new]
    fn new(
        py: Python<'_>,
        options: &Bound<'_, PyDict>,
        seed: [u8; 16],
        listeners: &Bound<'_, PyAny>,
    ) -> PyResult<Self> {
        failure::keep_classes(py)?;
        let credential: Bound<'_, PyAny> = option(options, "credential")?;
        let responder = if credential.is_none() {
            None
        } else {
            credential.getattr("responder")?.extract::<Option<Py<PyAny>>>()?
        };
        let made = client_options(py, options)?;
        let compresses = !made.compressors.is_empty();
        let clock = Clock::new();
        let state = State {
            client: Client::observed(
                made,
                Interests(listeners.getattr("interests")?.extract()?),
                seed,
                clock.now(),
            ),
            links: IdMap::default(),
            wakers: IdMap::default(),
            watchers: HashMap::new(),
            is_dismissed: false,
            starter: None,
            keeper: None,
            has_keeper: false,
            openers: HashMap::new(),
            enders: Vec::new(),
            sweeper: None,
            left: None,
            deployment_events: DeploymentEvents::default(),
        };
        Ok(Core {
            _entry: Entry,
            state: Mutex::new(state),
            compresses,
            responder,
            clock: Arc::new(clock),
            publisher: Mutex::new(listeners.getattr("publisher")?.extract()?),
            listeners: listeners.clone().unbind(),
            counts: AtomicBool::new(false),
            forks: AtomicU32::new(0),
            ahead: Ahead::new(option(options, "max_pool_size")?),
            tracer: listeners.getattr("tracer")?.extract()?,
            selector: option::<Option<Py<PyAny>>>(options, "server_selector")?,
            security: PyOnceLock::new(),
            proxy: PyOnceLock::new(),
        })
    }

    /// Count operations from now on; connections and servers are always counted.
    fn count(&self) {
        self.lock().client.begin_counting();
        self.counts.store(true, Ordering::Relaxed);
    }

    /// Return the counts in the form of `_observe/metrics.py`; None if operations are not counted.
    fn metrics<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyTuple>>> {
        super::metrics::snapshot(self, py)
    }

    /// Call `publisher` with the events of these kinds from now on.
    fn set_publisher(&self, publisher: Py<PyAny>, interests: u8) {
        let _replaced = {
            let mut held = self.publisher.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            held.replace(publisher)
        };
        self.lock().client.set_interests(Interests(interests));
    }

    /// Call `starter` whenever a thread must start: with a server's address, a role (0: watch, 1: ping; 2, without an
    /// address: maintain the pools) and a list, to which it adds the thread. If it is interrupted before that, it is
    /// called again.
    fn set_starter(&self, starter: Py<PyAny>) {
        // Not `with`: the first observers start with the first operation, not before.
        let _replaced = self.lock().starter.replace(starter);
    }

    /// Stop the client's clock `seconds` after its start, until it is set again. For tests, which move time.
    fn set_clock(&self, seconds: f64) -> PyResult<()> {
        let time = Duration::try_from_secs_f64(seconds);
        self.clock.set(time.map_err(|error| PyValueError::new_err(error.to_string()))?);
        Ok(())
    }

    /// Call `callback` once when the client is closed or must end its threads.
    fn on_end(&self, py: Python<'_>, callback: Py<PyAny>) -> PyResult<()> {
        let refused = {
            let mut state = self.lock();
            if state.is_dismissed || state.client.is_closed() {
                Some(callback)
            } else {
                state.enders.push(callback);
                None
            }
        };
        refused.map_or(Ok(()), |callback| callback.call0(py).map(drop))
    }

    /// Begin again with other options, from `ClientOptions.core_options()`; only before the first operation.
    fn configure(&self, py: Python<'_>, options: &Bound<'_, PyDict>) -> PyResult<()> {
        let options = client_options(py, options)?;
        let now = self.now();
        self.lock().client.reconfigure(options, now);
        Ok(())
    }

    /// Take the hosts that SRV records name now, of which at most `max_hosts` (0: all) are used, and their time to live
    /// in seconds; None if DNS gave no answer. Return in how many seconds to query again; None: never.
    fn follow_srv(
        &self,
        py: Python<'_>,
        answer: Option<(Vec<(String, u16)>, f64)>,
        max_hosts: usize,
    ) -> Option<f64> {
        let now = self.now();
        let answer = answer.map(|(hosts, ttl)| {
            let hosts = hosts.iter().map(|(host, port)| Address::new(host, *port)).collect::<Vec<_>>();
            (hosts, Duration::try_from_secs_f64(ttl.max(0.0)).unwrap_or_default())
        });
        let pause = self.with(py, |state| {
            if state.is_dismissed { None } else { state.client.follow_srv(answer, max_hosts, now) }
        });
        pause.map(|pause| pause.as_secs_f64())
    }

    /// Set the functions that kill cursors without an owner: `sessions` with a server's address and the id of a
    /// session, `cursors` with the address, the namespace and the id of a cursor, and its pinned link or None.
    fn set_sweeper(&self, sessions: Py<PyAny>, cursors: Py<PyAny>) {
        let _replaced = self.lock().sweeper.replace((sessions, cursors));
    }

    /// Set the object with which the faces secure every connection; once, before the first connection.
    fn set_security(&self, py: Python<'_>, security: Py<PyAny>) {
        let _refused = self.security.set(py, security);
    }

    /// Set the proxy through which the faces connect; once, before the first connection.
    fn set_proxy(&self, py: Python<'_>, proxy: Py<PyAny>) {
        let _refused = self.proxy.set(py, proxy);
    }

    /// Whether its messages may be compressed.
    #[getter(compresses)]
    fn may_compress(&self) -> bool {
        self.compresses
    }

    /// The argument of `set_security`, or None.
    #[getter]
    fn security(&self, py: Python<'_>) -> Option<Py<PyAny>> {
        self.security.get(py).map(|security| security.clone_ref(py))
    }

    /// The argument of `set_proxy`, or None.
    #[getter]
    fn proxy(&self, py: Python<'_>) -> Option<Py<PyAny>> {
        self.proxy.get(py).map(|proxy| proxy.clone_ref(py))
    }

    /// Seconds that an operation may take, all attempts included, or None for no limit.
    #[getter]
    fn timeout(&self) -> Option<f64> {
        self.peek(|state| state.client.options().timeout).map(|timeout| timeout.as_secs_f64())
    }

    /// Open a separate pool for a face or an event loop; return its number. `opener`: a weak reference to the object
    /// that keeps it filled; None: it is not kept filled.
    #[pyo3(signature = (opener=None))]
    fn open_shard(&self, opener: Option<Py<PyAny>>) -> u32 {
        let mut state = self.lock();
        let shard = state.client.open_shard().0;
        if let Some(opener) = opener {
            state.openers.insert(shard, opener);
        }
        shard
    }

    /// Close connections that were idle for too long. Returns the connections to open as (opener, shard, address)
    /// triples, and keeps `waker`, which is called when there may be more to open; None if the client is closed.
    fn keep_up(&self, py: Python<'_>, waker: Py<PyAny>) -> Option<Vec<Opening>> {
        let now = self.now();
        let found = self.with(py, |state| {
            let shards: Vec<ShardId> = state.openers.keys().copied().map(ShardId).collect();
            let missing = if state.is_dismissed { None } else { state.client.keep_up(&shards, now) };
            let missing = missing?;
            let replaced = state.keeper.replace(waker);
            let openers = missing
                .iter()
                .map(|(shard, ..)| state.openers.get(&shard.0).map(|opener| opener.clone_ref(py)));
            let openers: Vec<_> = openers.collect();
            Some((missing, openers, replaced))
        });
        let (missing, openers, _replaced) = found?;
        let mut openings = Vec::new();
        for ((shard, address, count), opener) in missing.into_iter().zip(openers) {
            let Some(opener) = opener else { continue };
            for _ in 0..count {
                openings.push((opener.clone_ref(py), shard.0, address.to_string()));
            }
        }
        Some(openings)
    }

    /// Close a shard with all its connections, without events.
    fn close_shard(&self, py: Python<'_>, shard: u32) {
        let _opener = self.lock().openers.remove(&shard);
        self.with(py, |state| {
            let links = state.client.close_shard(ShardId(shard));
            links.iter().filter_map(|link| state.links.remove(link)).collect::<Vec<_>>()
        })
        .into_iter()
        .for_each(|link| Pending { closing: vec![link], ..Pending::default() }.deliver(self, py));
    }

    /// End every monitor at interpreter exit: their results are no longer needed. Operations continue.
    fn dismiss_watchers(&self, py: Python<'_>) {
        let pending = {
            let mut state = self.lock();
            state.is_dismissed = true;
            let mut pending = Pending::default();
            for watcher in state.watchers.values_mut() {
                pending.interrupting.extend(watcher.link.take());
                pending.waking.extend(watcher.waker.take());
            }
            pending.waking.append(&mut state.enders);
            pending.waking.extend(state.keeper.take());
            pending
        };
        pending.deliver(self, py);
    }

    /// Close every connection and refuse every later operation.
    fn close(&self, py: Python<'_>) {
        let now = self.now();
        let enders = self.with(py, |state| {
            state.client.close(now);
            let mut enders = std::mem::take(&mut state.enders);
            enders.extend(state.keeper.take());
            enders
        });
        Pending { waking: enders, ..Pending::default() }.deliver(self, py);
    }

    /// Reset the state in a forked child: no connection, no session, other ids. Return the parent's links, whose
    /// sockets the child must close without sending anything.
    fn restart_in_child(&self, py: Python<'_>, seed: [u8; 16]) -> PyResult<Py<PyList>> {
        let now = self.now();
        self.forks.fetch_add(1, Ordering::Relaxed);
        let (links, _wakers, _enders) = {
            let mut state = self.lock();
            state.client.restart_in_child(seed, now);
            let mut links: Vec<_> = state.links.drain().map(|(_, link)| link).collect();
            links.extend(state.watchers.drain().filter_map(|(_, watcher)| watcher.link));
            state.has_keeper = false;
            state.deployment_events = DeploymentEvents::default();
            let threads = (state.keeper.take(), std::mem::take(&mut state.enders));
            (links, std::mem::take(&mut state.wakers), threads)
        };
        Ok(PyList::new(py, links)?.unbind())
    }

    /// Close an idle connection that the server closed.
    fn link_lost(&self, py: Python<'_>, link: &Bound<'_, Link>) -> PyResult<()> {
        let (id, shard) = {
            let link = link.try_borrow()?;
            (link.id, link.shard)
        };
        self.with(py, |state| state.client.link_lost(ShardId(shard), id, self.now()));
        Ok(())
    }

    /// Give back the connection of an exhaust cursor: into the pool if no reply is outstanding, otherwise it is closed.
    fn release_pinned(&self, py: Python<'_>, link: u32, is_drained: bool) {
        self.with(py, |state| {
            state.client.release_pinned(LinkId(link), is_drained, self.now());
        });
    }

    /// Return the opener of a link's shard, as given to `open_shard`, and the shard; None if either is gone.
    fn opener_of(&self, py: Python<'_>, link: u32) -> Option<(Py<PyAny>, u32)> {
        let link = self.peek(|state| state.links.get(&LinkId(link)).map(|link| link.clone_ref(py)))?;
        let shard = link.try_borrow(py).ok()?.shard;
        let opener = self.peek(|state| state.openers.get(&shard).map(|opener| opener.clone_ref(py)))?;
        Some((opener, shard))
    }

    /// Introduce the client to the server with this document from the next connection on.
    fn set_metadata(&self, py: Python<'_>, metadata: &Bound<'_, PyAny>) -> PyResult<()> {
        let metadata = encoded(py, metadata)?;
        self.lock().client.set_metadata(metadata);
        Ok(())
    }

    /// Take the ids of all idle server sessions, to end them.
    fn drain_sessions(&self) -> Vec<[u8; 16]> {
        self.lock().client.drain_sessions()
    }

    /// Whether `close()` was called.
    #[getter]
    fn is_closed(&self) -> bool {
        self.lock().client.is_closed()
    }

    /// Return how many connections of a shard are idle, in use and being opened, and how many exchanges wait.
    fn pool_sizes(&self, py: Python<'_>, shard: u32) -> PyResult<(usize, usize, usize, usize)> {
        let sizes = self.lock().client.pool_sizes(ShardId(shard));
        sizes.ok_or_else(|| failure::bug(py, "expected an open shard"))
    }

    /// The hello reply of the primary, or of the first known server; None before the first reply.
    fn hello<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyDict>>> {
        // Copied, so that the lock is free: making the dict may collect garbage, and finalizers may need the lock.
        let Some(server) = self.peek(|state| state.writable_or_known().cloned()) else { return Ok(None) };
        let facts = PyDict::new(py);
        facts.set_item("max_wire_version", server.max_wire_version)?;
        facts.set_item("min_wire_version", server.min_wire_version)?;
        facts.set_item("max_bson_size", server.max_bson_object_size)?;
        facts.set_item("max_message_size", server.max_message_size_bytes)?;
        facts.set_item("max_write_batch_size", server.max_write_batch_size)?;
        facts.set_item("replica_set_name", server.set_name.as_deref())?;
        facts.set_item("is_mongos", server.server_type == ServerType::Mongos)?;
        facts.set_item("is_writable", server.server_type.is_writable())?;
        facts.set_item("is_secondary", server.server_type == ServerType::RSSecondary)?;
        Ok(Some(facts))
    }

    /// The size limits of the writable server, or of any known one; None while no server is known.
    fn limits(&self) -> Option<ServerLimits> {
        self.peek(|state| state.writable_or_known().map(|server| ServerLimits::of(server)))
    }

    /// The least round trip to any known server in seconds; 0 while none is measured. The first measurement counts
    /// half, since it includes the server's work for a new connection.
    #[getter]
    fn least_round_trip(&self) -> f64 {
        self.peek(|state| {
            let servers = state.client.description().servers.values();
            let least = servers.filter_map(|server| match server.min_round_trip_time {
                time if time.is_zero() => server.round_trip_time.map(|first| first / 2),
                time => Some(time),
            });
            least.min().map_or(0.0, |time| time.as_secs_f64())
        })
    }

    /// The servers that are known, as (address, type) pairs with the specification's names of types.
    fn servers(&self) -> Vec<(String, &'static str)> {
        let description = self.lock().client.description().clone();
        description
            .servers
            .values()
            .map(|server| (server.address.as_str().to_owned(), server.server_type.name()))
            .collect()
    }

    /// The description of the deployment, in the form of `topology_description.topology_described`.
    fn topology<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        // The lock is released before any Python object is made.
        let description = self.lock().client.description().clone();
        descriptions::topology(py, &description)
    }

    /// The description of the deployment in one line.
    fn __str__(&self) -> String {
        let description = self.lock().client.description().clone();
        description.to_string()
    }
}
