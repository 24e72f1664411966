//! The core's Python work for the time when its lock is released: connections to close, threads to wake and to start,
//! events to publish.

use std::collections::VecDeque;
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};

use mangonel_proto::events::Event;
use mangonel_proto::topology::Address;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList};

use super::core::{Core, KEEP_UP, Role};
use super::link::Link;
use super::{events, interpreter};

/// Python work to do once the lock is released.
#[derive(Default)]
pub struct Pending {
    pub closing: Vec<Py<Link>>,
    pub interrupting: Vec<Py<Link>>,
    pub waking: Vec<Py<PyAny>>,
    pub starting: Vec<(Address, Role)>,
    /// Whether the thread that maintains the pools must be started.
    pub is_upkeep_due: bool,
    pub killing: Vec<(Address, [u8; 16])>,
    /// Cursors of batches that were dropped before a cursor object took them over.
    pub lost_cursors: Vec<LostCursor>,
    /// Events that need no order between threads: a command's, a pool's.
    pub events: VecDeque<Event>,
    /// Whether `State::deployment_events` holds events.
    pub has_deployment_events: bool,
}

/// A cursor open on a server that no object will kill: server, namespace, id and pinned link.
pub struct LostCursor {
    pub server: String,
    pub namespace: String,
    pub id: i64,
    pub pinned: Option<u32>,
}

/// The deployment's events in the order in which listeners see them.
#[derive(Default)]
pub struct DeploymentEvents {
    pub events: VecDeque<Event>,
    /// The thread that is calling the listeners; only one at a time, to keep the order.
    teller: Option<ThreadId>,
}

/// How long a thread waits for another thread that is calling the listeners, so that `close()` returns after all
/// events. Limited, since a listener in the other thread may wait for something that this thread holds.
const LONGEST_WAIT: Duration = Duration::from_secs(1);

/// The pause between two checks.
const LOOK_AGAIN: Duration = Duration::from_millis(1);

impl Pending {
    pub fn followed_by(mut self, mut later: Pending) -> Pending {
        self.closing.append(&mut later.closing);
        self.interrupting.append(&mut later.interrupting);
        self.waking.append(&mut later.waking);
        self.starting.append(&mut later.starting);
        self.is_upkeep_due |= later.is_upkeep_due;
        self.killing.append(&mut later.killing);
        self.lost_cursors.append(&mut later.lost_cursors);
        self.events.append(&mut later.events);
        self.has_deployment_events |= later.has_deployment_events;
        self
    }

    /// Closes, wakes and starts. An error in one task must not prevent the others.
    pub fn deliver(self, core: &Core, py: Python<'_>) {
        // Events first, so that none can follow the effects of a woken waiter.
        if !self.events.is_empty()
            && let Some(publisher) = core.publisher(py)
        {
            self.events.iter().for_each(|event| events::publish(py, publisher.bind(py), event));
        }
        if self.has_deployment_events {
            tell(core, py);
        }
        for link in self.closing {
            Link::hang_up(&link, py);
        }
        for link in self.interrupting {
            let transport = link.try_borrow(py).ok().and_then(|link| link.transport_of(py));
            Link::finish(py, transport.map(|transport| (transport, "interrupt")));
        }
        for waker in self.waking {
            interpreter::insist(py, waker.bind(py), || waker.call0(py).map(drop));
        }
        if !self.killing.is_empty() || !self.lost_cursors.is_empty() {
            let sweeper = core.peek(|state| {
                let (sessions, cursors) = state.sweeper.as_ref()?;
                Some((sessions.clone_ref(py), cursors.clone_ref(py)))
            });
            if let Some((sessions, cursors)) = sweeper {
                for (address, id) in &self.killing {
                    let task = (address.as_str(), PyBytes::new(py, id));
                    interpreter::insist(py, sessions.bind(py), || sessions.call1(py, task.clone()).map(drop));
                }
                for LostCursor { server, namespace, id, pinned } in &self.lost_cursors {
                    let task = (server, namespace, id, pinned);
                    interpreter::insist(py, cursors.bind(py), || cursors.call1(py, task).map(drop));
                }
            }
        }
        if !self.starting.is_empty() || self.is_upkeep_due {
            let starter = core.peek(|state| state.starter.as_ref().map(|starter| starter.clone_ref(py)));
            if let Some(starter) = starter {
                let observers = self.starting.iter().map(|(address, role)| (address.as_str(), *role as u8));
                for (address, role) in observers.chain(self.is_upkeep_due.then_some(("", KEEP_UP))) {
                    start(py, starter.bind(py), address, role);
                }
            }
        }
    }
}

/// Has the faces start a thread; a failure is reported and affects no other. They add the started thread to a list,
/// which shows whether an interrupt came before or after.
fn start(py: Python<'_>, starter: &Bound<'_, PyAny>, address: &str, role: u8) {
    let started = PyList::empty(py);
    interpreter::insist(py, starter, || {
        if started.is_empty() { starter.call1((address, role, &started)).map(drop) } else { Ok(()) }
    });
}

/// Delivers the deployment's pending events. Events that arrive during a listener's call are delivered after it, by the
/// same thread.
fn tell(core: &Core, py: Python<'_>) {
    let this_thread = thread::current().id();
    let end = Instant::now() + LONGEST_WAIT;
    loop {
        let mut state = core.lock();
        let told = match state.deployment_events.teller {
            None if state.deployment_events.events.is_empty() => return,
            None => {
                state.deployment_events.teller = Some(this_thread);
                std::mem::take(&mut state.deployment_events.events)
            }
            Some(teller) if teller == this_thread || Instant::now() >= end => return,
            Some(_) => {
                drop(state);
                // Not a condition variable: that takes the lock without the GIL, and if another thread forked
                // meanwhile, the child would wait for the lock for ever.
                py.detach(|| thread::sleep(LOOK_AGAIN));
                continue;
            }
        };
        drop(state);
        if let Some(publisher) = core.publisher(py) {
            told.iter().for_each(|event| events::publish(py, publisher.bind(py), event));
        }
        core.lock().deployment_events.teller = None;
    }
}
