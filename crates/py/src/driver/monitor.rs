//! The monitor or the pinger of one server. To the port that drives it, it looks like an exchange that is never done.

use std::os::raw::c_int;
use std::time::Duration;

use mangonel_entries::entries;
use mangonel_proto::ids::LinkId;
use mangonel_proto::message::{Command, read_reply};
use mangonel_proto::topology::{Address, Failure, Step};
use pyo3::prelude::*;

use super::core::{Core, Role};
use super::exchange::{self, lend};
use super::failure;
use super::interpreter;
use super::link::Link;
use super::spare;
use super::tls::Tls;
use crate::thread_end::Entry;

/// Watches one server over a connection of its own, until the server leaves the topology.
#[pyclass(module = "mangonel._core")]
pub struct Monitor {
    _entry: Entry,
    core: Py<Core>,
    address: Address,
    role: Role,
    step: Step,
    link: Option<Py<Link>>,
    hello: Option<Command>,
    is_sent: bool,
}

impl Monitor {
    /// Gets the next step, and prepares its values.
    fn advance(&mut self, py: Python<'_>) {
        let (address, role) = (self.address.clone(), self.role);
        let core = self.core.clone_ref(py);
        let now = core.get().now();
        let (step, hello) = core.get().with(py, |state| {
            if state.is_dismissed {
                return (Step::Stop, None);
            }
            let step = state.client.with_topology(|topology| match role {
                Role::Watch => topology.poll_monitor(&address, now),
                Role::Ping => topology.poll_pinger(&address, now),
            });
            let hello = match step {
                Step::Write { hello, .. } => state.client.hello(&address, hello).ok(),
                _ => None,
            };
            (step, hello)
        });
        self.step = step;
        self.hello = hello;
        self.is_sent = false;
        if matches!(step, Step::Connect { .. } | Step::Stop) {
            self.hang_up(py);
        }
    }

    fn hang_up(&mut self, py: Python<'_>) {
        if let Some(link) = self.link.take() {
            Link::hang_up(&link, py);
        }
        self.core.get().with(py, |state| {
            let watcher = state.watchers.get_mut(&(self.address.clone(), self.role));
            watcher.and_then(|watcher| watcher.link.take())
        });
    }

    fn lost(&mut self, py: Python<'_>, message: &str, failure: Failure) {
        let (address, role) = (self.address.clone(), self.role);
        let message = format!("{address}: {message}");
        let now = self.core.get().now();
        self.hang_up(py);
        self.core.get().with(py, |state| {
            if state.is_dismissed {
                // It was interrupted for the interpreter's exit: later functions of `atexit` still use the servers.
                return;
            }
            state.client.with_topology(|topology| match role {
                Role::Watch => topology.handle_monitor_error(&address, &message, failure, now),
                Role::Ping => topology.handle_pinger_error(&address, now),
            });
        });
        self.advance(py);
    }

    fn read(&mut self, py: Python<'_>) -> PyResult<()> {
        let Some(link) = &self.link else { return Ok(()) };
        let link = link.bind(py);
        let (told, taken) = {
            let mut link = link.try_borrow_mut()?;
            link.check_not_lent()?;
            (link.note_reply(py), link.take_message(py))
        };
        let unpacked = taken.and_then(|message| Link::unpacked(py, message));
        let (message, _) = unpacked.map_err(|error| failure::broken_message(py, &error))?;
        spare::free_unneeded(py);
        if let Some(owner) = told {
            Tls::remember(&owner, py);
        }
        let reply = read_reply(&message).map_err(|error| failure::protocol_error(py, error))?;
        let (address, role) = (self.address.clone(), self.role);
        let now = self.core.get().now();
        self.core.get().with(py, |state| {
            state.client.with_topology(|topology| match role {
                Role::Watch => topology.handle_monitor_reply(&address, reply.body, reply.more_to_come, now),
                Role::Ping => topology.handle_pinger_reply(&address, now),
            });
        });
        if role == Role::Watch {
            self.core.get().check_listeners(py);
        }
        self.advance(py);
        Ok(())
    }
}

#[entries]
#[pymethods]
impl Monitor {
    /// `role`: 0 to watch the server, 1 to measure its round-trip time.
    #[new]
    fn new(py: Python<'_>, core: Py<Core>, address: &str, role: u8) -> PyResult<Self> {
        let role = if role == 0 { Role::Watch } else { Role::Ping };
        let address = Address::spelled(address);
        let step = Step::Stop;
        let mut monitor =
            Monitor { _entry: Entry, core, address, role, step, link: None, hello: None, is_sent: false };
        monitor.advance(py);
        Ok(monitor)
    }

    /// What to do next, as for an exchange; DONE once the server is no longer watched.
    #[getter]
    fn step(&self) -> u8 {
        match self.step {
            Step::Connect { .. } => exchange::CONNECT,
            Step::Write { .. } if !self.is_sent => exchange::WRITE,
            Step::Write { .. } | Step::Read { .. } => exchange::READ,
            Step::Wait { .. } => exchange::WAIT,
            Step::Stop => exchange::DONE,
        }
    }

    /// Host and port of the server, or the path of its socket and None.
    #[getter]
    fn address(&self) -> (String, Option<u16>) {
        (self.address.host().to_owned(), self.address.port())
    }

    /// The connection it holds, or None.
    #[getter]
    fn link(&self, py: Python<'_>) -> Option<Py<Link>> {
        self.link.as_ref().map(|link| link.clone_ref(py))
    }

    /// Whether a reply to the message is expected: always.
    #[getter]
    fn expects_reply(&self) -> bool {
        true
    }

    /// False: each wait of a monitor has its own limit.
    #[getter]
    fn is_limited(&self) -> bool {
        false
    }

    /// Seconds that the current step may take, or None.
    #[getter]
    fn step_timeout(&self) -> Option<f64> {
        let (Step::Connect { timeout } | Step::Write { timeout, .. } | Step::Read { timeout }) = self.step
        else {
            return None;
        };
        timeout.as_ref().map(Duration::as_secs_f64)
    }

    /// Seconds until the next check is due, or None.
    #[getter]
    fn time_left(&self) -> Option<f64> {
        let Step::Wait { until } = self.step else { return None };
        Some(until.saturating_since(self.core.get().now()).as_secs_f64())
    }

    /// Call `waker` once, from any thread, when the step should be checked again.
    fn set_waker(&mut self, py: Python<'_>, waker: Py<PyAny>) {
        let key = (self.address.clone(), self.role);
        let _replaced =
            self.core.get().with(py, |state| state.watchers.entry(key).or_default().waker.replace(waker));
        // A wake-up before the waker was set must not be lost.
        self.advance(py);
        if !matches!(self.step, Step::Wait { .. }) {
            let key = (self.address.clone(), self.role);
            let waker =
                self.core.get().with(py, |state| state.watchers.get_mut(&key).and_then(|w| w.waker.take()));
            if let Some(Err(error)) = waker.map(|waker| waker.call0(py)) {
                interpreter::raise_soon(py, error, &py.None().into_bound(py));
            }
        }
    }

    /// Called when the proxy was reached and the SOCKS5 handshake begins; error messages mention it until it is over.
    fn handle_proxy(&self, py: Python<'_>, proxy: String) {
        if self.role == Role::Watch {
            self.core.get().with(py, |state| {
                state.client.with_topology(|topology| topology.handle_monitor_proxy(&self.address, proxy));
            });
        }
    }

    /// Called when the server was reached and the TLS handshake begins; error messages mention it until it is over.
    fn handle_securing(&self, py: Python<'_>) {
        if self.role == Role::Watch {
            self.core.get().with(py, |state| {
                state.client.with_topology(|topology| topology.handle_monitor_securing(&self.address));
            });
        }
    }

    /// Called when a connection was opened.
    fn handle_connected(&mut self, py: Python<'_>, transport: Py<PyAny>, fd: i32) -> PyResult<Py<Link>> {
        let _ = fd;
        // No descriptor: monitors use the socket object, so that no other thread closes it during their system call.
        let link = Py::new(py, Link::new(LinkId(0), u32::MAX, transport, -1, self.core.get().clock.clone()))?;
        self.link = Some(link.clone_ref(py));
        let (address, role, kept) = (self.address.clone(), self.role, link.clone_ref(py));
        let now = self.core.get().now();
        let _replaced = self.core.get().with(py, |state| {
            state.client.with_topology(|topology| match role {
                Role::Watch => topology.handle_monitor_connected(&address, now),
                Role::Ping => topology.handle_pinger_connected(&address, now),
            });
            state.watchers.entry((address, role)).or_default().link.replace(kept)
        });
        self.advance(py);
        Ok(link)
    }

    /// Called when the hello is about to be sent.
    fn handle_sending(&self) {}

    /// Called when the hello was sent.
    fn handle_sent(&mut self) {
        self.is_sent = true;
    }

    /// Called when a whole message has arrived.
    fn handle_reply(&mut self, py: Python<'_>) -> PyResult<()> {
        match self.read(py) {
            Err(error) if error.is_instance_of::<pyo3::exceptions::PyException>(py) => {
                let message = error.value(py).to_string();
                self.lost(py, &message, Failure::Network);
                Ok(())
            }
            outcome => outcome,
        }
    }

    /// Called when the received bytes cannot be a message.
    fn handle_protocol_error(&mut self, py: Python<'_>, message: &str) {
        self.lost(py, message, Failure::Network);
    }

    /// Called when the connection broke, could not be opened, or (`timed_out`) did not answer in time.
    #[pyo3(signature = (error, timed_out=false))]
    fn handle_network_error(&mut self, error: &Bound<'_, PyAny>, timed_out: bool) {
        let (py, failure) = (error.py(), if timed_out { Failure::Timeout } else { Failure::Network });
        let link = self.link.as_ref().and_then(|link| link.try_borrow(py).ok());
        let message = link
            .map_or_else(|| error.to_string(), |link| link.describe(py, &PyErr::from_value(error.clone())));
        self.lost(py, &message, failure);
    }

    /// Called when the server closed the connection between two checks.
    fn handle_link_lost(&mut self, py: Python<'_>) {
        self.lost(py, "the server closed the connection", Failure::Network);
    }

    /// Called after a wake-up: check the step again.
    fn handle_wake(&mut self, py: Python<'_>) {
        self.advance(py);
    }

    /// Called when the time of `time_left` is over.
    fn handle_timeout(&mut self, py: Python<'_>) {
        self.advance(py);
    }

    /// Return nothing: a monitor has no answer.
    fn result(&self) {}

    /// Close the connection and forget the monitor.
    fn close(&mut self, py: Python<'_>) {
        self.hang_up(py);
        let key = (self.address.clone(), self.role);
        let _watcher = self.core.get().with(py, |state| state.watchers.remove(&key));
    }

    fn __len__(&self) -> usize {
        self.hello.as_ref().map_or(0, |hello| hello.outbound().len())
    }

    /// Lends the hello to send.
    ///
    /// # Safety
    /// Called by the interpreter with a valid view.
    unsafe fn __getbuffer__(
        slf: Bound<'_, Self>,
        view: *mut pyo3::ffi::Py_buffer,
        flags: c_int,
    ) -> PyResult<()> {
        let monitor = slf.try_borrow()?;
        let outbound = monitor.hello.as_ref().map(Command::outbound).unwrap_or_default();
        // SAFETY: the hello stays where it is until the next `handle_*`; the one thread that drives this monitor calls
        // those only after `sendall` gave the view back, and the view holds a reference to the monitor.
        unsafe { lend(slf.as_any(), outbound, view, flags) }
    }
}
