//! An operation that a task of asyncio awaits. It sends, and waits for a reply or a free connection, without a Python
//! coroutine; a coroutine of the port does everything else. Opens nothing and knows no timer.

use std::mem;
use std::ptr;

use mangonel_entries::entries;
use pyo3::exceptions::{PyBaseException, PyOSError, PyRuntimeError, PyStopIteration, PyTimeoutError};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyTuple;
use pyo3::{PyTraverseError, PyVisit, ffi, intern};

use super::core::Core;
use super::exchange::{DONE, Exchange, WAIT, WRITE};
use super::failure;
use super::operation::Operation;
use super::ready::{Turn, send_to};
use super::transfer::{Asked, ask};
use super::waiter::Waiter;
use crate::native::{counted, enter};
use crate::thread_end::Entry;

/// Adds the classes.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<LoopPort>()?;
    module.add_class::<AwaitedOperation>()?;
    let class = module.py().get_type::<AwaitedOperation>();
    // SAFETY: the class was just made, and its `tp_as_async` is its own, as it has `__await__`. A result returned
    // through this slot needs no StopIteration; the interpreter reads the slot whenever it sends.
    unsafe { (*(*class.as_type_ptr()).tp_as_async).am_send = Some(send) };
    Ok(())
}

/// The base of asyncio's port: runs operations on the loop on which the port was last used.
#[pyclass(subclass, module = "mangonel._core")]
pub struct LoopPort {
    _entry: Entry,
    core: Py<Core>,
    home: Option<Home>,
}

/// A loop, its shard, and the port's own state for it.
struct Home {
    event_loop: Py<PyAny>,
    shard: u32,
    state: Py<PyAny>,
}

#[entries]
#[pymethods]
impl LoopPort {
    #[new]
    fn new(core: Py<Core>) -> Self {
        LoopPort { _entry: Entry, core, home: None }
    }

    /// The port's state for the loop on which it was last used: it has `loop`, `shard` and `expire(future, seconds)`.
    #[getter]
    fn _home(&self, py: Python<'_>) -> Option<Py<PyAny>> {
        self.home.as_ref().map(|home| home.state.clone_ref(py))
    }

    #[setter(_home)]
    fn set_home(&mut self, state: Option<Bound<'_, PyAny>>) -> PyResult<()> {
        let made = |state: Bound<'_, PyAny>| -> PyResult<Home> {
            let event_loop = state.getattr("loop")?.unbind();
            Ok(Home { event_loop, shard: state.getattr("shard")?.extract()?, state: state.unbind() })
        };
        self.home = state.map(made).transpose()?;
        Ok(())
    }

    /// Return an awaitable that runs an operation from its first step on; its result is the operation's result.
    fn arun(slf: Bound<'_, Self>, operation: Py<Operation>) -> AwaitedOperation {
        let stage = Stage::New(operation);
        AwaitedOperation { _entry: Entry, port: slf.unbind(), stage, running: None }
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        if let Some(home) = &self.home {
            visit.call(&home.event_loop)?;
            visit.call(&home.state)?;
        }
        visit.call(&self.core)
    }

    fn __clear__(&mut self) {
        self.home = None;
    }
}

/// One operation, for one await; behaves like a coroutine.
#[pyclass(module = "mangonel._core", weakref)]
pub struct AwaitedOperation {
    _entry: Entry,
    port: Py<LoopPort>,
    stage: Stage,
    /// Set from the first step of the exchange to its end.
    running: Option<Running>,
}

enum Stage {
    New(Py<Operation>),
    /// A coroutine of the port makes it ready for the running loop.
    Entering(Py<Operation>, Py<PyAny>),
    /// The message was sent; waiting for its reply.
    Asked(Py<Waiter>),
    /// Waiting for a free connection.
    Queued(Py<Waiter>),
    /// A coroutine of the port does one step.
    Stepping(Py<PyAny>),
    Over,
}

struct Running {
    exchange: Py<Exchange>,
    event_loop: Py<PyAny>,
    /// The port's state for that loop.
    home: Py<PyAny>,
}

/// The input from the task: a value, or the arguments of `throw`.
enum Passed<'a, 'py> {
    Value(&'a Bound<'py, PyAny>),
    Thrown(&'a Bound<'py, PyTuple>),
}

impl AwaitedOperation {
    /// Runs until there is something to wait for, or to the end.
    fn resume(slf: &Bound<'_, Self>, passed: &Passed<'_, '_>) -> PyResult<Turn> {
        let py = slf.py();
        let mut this = slf.try_borrow_mut()?;
        let turn = this.turn(py, passed);
        if turn.is_err() {
            this.give_up(py)?;
        } else if let Stage::Queued(waiter) = &this.stage {
            waiter.bind(py).try_borrow_mut()?.asker = Some(slf.clone().unbind());
        }
        turn
    }

    /// Takes the connection that `waiter` was granted, and sends. Returns whether `waiter` now waits for the reply; if
    /// not, the task must be resumed, as it continues after a wait.
    ///
    /// # Errors
    /// The task must be resumed with this error.
    pub fn send_ahead(slf: &Bound<'_, Self>, waiter: &Bound<'_, Waiter>) -> PyResult<bool> {
        let py = slf.py();
        let Ok(mut this) = slf.try_borrow_mut() else { return Ok(false) };
        // A wait that was cancelled is over.
        if waiter.try_borrow()?.done() || !matches!(&this.stage, Stage::Queued(queued) if queued.is(waiter)) {
            return Ok(false);
        }
        let exchange = this.running.as_ref().map(|running| running.exchange.clone_ref(py));
        let exchange = exchange.ok_or_else(|| lacks_exchange(py))?;
        let mut held = exchange.bind(py).try_borrow_mut()?;
        // The waiter may still have the timer of the wait, and a time limit for the reply needs the loop.
        if held.time_left().is_some() || !held.is_unobserved(py) {
            return Ok(false);
        }
        held.handle_wake(py);
        if held.step() != WRITE || held.step_timeout().is_some() {
            return Ok(false);
        }
        let asked = ask(py, &mut held, || Ok(waiter.clone().unbind()));
        drop(held);
        match asked {
            Ok(Asked::All(waiter)) => this.stage = Stage::Asked(waiter),
            Ok(Asked::Next | Asked::Part(0)) => return Ok(false),
            Ok(Asked::Part(sent)) => {
                this.stage = this.step_on(py, sent)?;
                return Ok(false);
            }
            Err(error) => {
                this.stage = Stage::Asked(waiter.clone().unbind());
                return Err(error);
            }
        }
        Ok(true)
    }

    fn give_up(&mut self, py: Python<'_>) -> PyResult<()> {
        self.stage = Stage::Over;
        if let Some(running) = self.running.take() {
            running.exchange.bind(py).try_borrow_mut()?.close(py);
        }
        Ok(())
    }

    fn turn(&mut self, py: Python<'_>, passed: &Passed<'_, '_>) -> PyResult<Turn> {
        match mem::replace(&mut self.stage, Stage::Over) {
            Stage::New(operation) => {
                passed.check()?;
                self.begin(py, operation)
            }
            Stage::Entering(operation, coroutine) => {
                let turn = passed.on_to(coroutine.bind(py))?;
                if let Turn::Return(_) = turn {
                    return self.begin(py, operation);
                }
                self.stage = Stage::Entering(operation, coroutine);
                Ok(turn)
            }
            Stage::Asked(waiter) => {
                match passed.after(waiter.bind(py)) {
                    Ok(false) => {
                        self.stage = Stage::Asked(waiter.clone_ref(py));
                        return Ok(Turn::Wait(waiter.into_any()));
                    }
                    Ok(true) => self.exchange(py)?.take_reply(py)?,
                    Err(error) => self.lose(py, error)?,
                }
                self.advance(py)
            }
            Stage::Queued(waiter) => {
                match passed.after(waiter.bind(py)) {
                    Ok(false) => {
                        self.stage = Stage::Queued(waiter.clone_ref(py));
                        return Ok(Turn::Wait(waiter.into_any()));
                    }
                    Ok(true) => self.exchange(py)?.handle_wake(py),
                    Err(error) if error.is_instance_of::<PyTimeoutError>(py) => {
                        self.exchange(py)?.handle_timeout(py);
                    }
                    Err(error) => return Err(error),
                }
                self.advance(py)
            }
            Stage::Stepping(coroutine) => {
                match passed.on_to(coroutine.bind(py)) {
                    Ok(Turn::Return(_)) => {}
                    Ok(waiting) => {
                        self.stage = Stage::Stepping(coroutine);
                        return Ok(waiting);
                    }
                    Err(error) => self.lose(py, error)?,
                }
                self.advance(py)
            }
            Stage::Over => {
                passed.check()?;
                Err(PyRuntimeError::new_err("cannot reuse already awaited operation"))
            }
        }
    }

    fn begin(&mut self, py: Python<'_>, operation: Py<Operation>) -> PyResult<Turn> {
        static RUNNING_LOOP: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
        let port = self.port.bind(py);
        let event_loop = match RUNNING_LOOP.import(py, "asyncio", "get_running_loop")?.call0() {
            Ok(event_loop) => event_loop,
            // Raises an error that names the remedy.
            Err(_) => port.call_method0(intern!(py, "_require_loop"))?,
        };
        // Not while borrowed: the core may wait for its lock while another loop's thread enters the port.
        let found = {
            let port = port.try_borrow()?;
            let home = port.home.as_ref().filter(|home| home.event_loop.is(&event_loop));
            home.map(|home| (port.core.clone_ref(py), home.shard, home.state.clone_ref(py)))
        };
        let Some((core, shard, home)) = found else {
            let coroutine = port.call_method1(intern!(py, "_arrive"), (event_loop,))?;
            self.stage = Stage::Entering(operation, coroutine.unbind());
            return self.turn_again(py);
        };
        let exchange = Py::new(py, Exchange::begin(core.bind(py), operation.bind(py), shard)?)?;
        self.running = Some(Running { exchange, event_loop: event_loop.unbind(), home });
        self.advance(py)
    }

    fn turn_again(&mut self, py: Python<'_>) -> PyResult<Turn> {
        self.turn(py, &Passed::Value(py.None().bind(py)))
    }

    /// Does the steps of the exchange until one must wait.
    fn advance(&mut self, py: Python<'_>) -> PyResult<Turn> {
        loop {
            let running = self.running.as_ref().ok_or_else(|| lacks_exchange(py))?;
            let mut exchange = running.exchange.bind(py).try_borrow_mut()?;
            let mut sent = 0;
            match exchange.step() {
                WRITE => match ask(py, &mut exchange, || running.waiter(py)) {
                    Ok(Asked::All(waiter)) => {
                        let limit = exchange.step_timeout();
                        drop(exchange);
                        running.limit(py, &waiter, limit)?;
                        self.stage = Stage::Asked(waiter);
                        return self.turn_again(py);
                    }
                    Ok(Asked::Next) => continue,
                    Ok(Asked::Part(part)) => sent = part,
                    Err(error) => {
                        drop(exchange);
                        self.lose(py, error)?;
                        continue;
                    }
                },
                WAIT => {
                    let waiter = running.waiter(py)?;
                    exchange.set_waker(py, waiter.clone_ref(py).into_any())?;
                    let limit = exchange.time_left();
                    drop(exchange);
                    running.limit(py, &waiter, limit)?;
                    self.stage = Stage::Queued(waiter);
                    return self.turn_again(py);
                }
                DONE => {
                    drop(exchange);
                    return self.result(py);
                }
                _ => {}
            }
            drop(exchange);
            self.stage = self.step_on(py, sent)?;
            return self.turn_again(py);
        }
    }

    /// Has a coroutine of the port do the current step; `sent`: the bytes of its message already sent.
    fn step_on(&self, py: Python<'_>, sent: usize) -> PyResult<Stage> {
        let running = self.running.as_ref().ok_or_else(|| lacks_exchange(py))?;
        let arguments = (&running.home, &running.exchange, sent);
        let coroutine = self.port.bind(py).call_method1(intern!(py, "_take_step"), arguments)?;
        Ok(Stage::Stepping(coroutine.unbind()))
    }

    fn result(&mut self, py: Python<'_>) -> PyResult<Turn> {
        let exchange = self.running.take().ok_or_else(|| lacks_exchange(py))?.exchange;
        let outcome = {
            let mut exchange = exchange.bind(py).try_borrow_mut()?;
            let outcome = exchange.outcome(py);
            exchange.close(py);
            outcome
        };
        // If the reply is withheld, the exchange itself is the result.
        outcome.map_or_else(|| Ok(Turn::Return(exchange.into_any())), |outcome| outcome.map(Turn::Return))
    }

    /// Reports the error that ended a step; returns it if the connection is not the cause.
    fn lose(&self, py: Python<'_>, error: PyErr) -> PyResult<()> {
        let is_broken = failure::is_a(py, &error, "ProtocolError");
        if !is_broken && !error.is_instance_of::<PyOSError>(py) {
            return Err(error);
        }
        let mut exchange = self.exchange(py)?;
        if let Some(link) = &exchange.link {
            link.bind(py).try_borrow_mut()?.waiter = None;
        }
        if is_broken {
            exchange.handle_protocol_error(py, &error.value(py).to_string());
        } else {
            exchange.network_error(py, &error, error.is_instance_of::<PyTimeoutError>(py));
        }
        Ok(())
    }

    fn exchange<'py>(&self, py: Python<'py>) -> PyResult<PyRefMut<'py, Exchange>> {
        let running = self.running.as_ref().ok_or_else(|| lacks_exchange(py))?;
        Ok(running.exchange.bind(py).try_borrow_mut()?)
    }
}

impl Running {
    /// Begins a wait.
    fn waiter(&self, py: Python<'_>) -> PyResult<Py<Waiter>> {
        Py::new(py, Waiter::begin(self.event_loop.clone_ref(py)))
    }

    /// Makes a wait fail after this many seconds.
    fn limit(&self, py: Python<'_>, waiter: &Py<Waiter>, seconds: Option<f64>) -> PyResult<()> {
        let Some(seconds) = seconds else { return Ok(()) };
        self.home.call_method1(py, intern!(py, "expire"), (waiter, seconds)).map(drop)
    }
}

impl Passed<'_, '_> {
    /// Fails if the task throws an exception.
    fn check(&self) -> PyResult<()> {
        match self {
            Passed::Value(_) => Ok(()),
            Passed::Thrown(thrown) => Err(exception(thrown)?),
        }
    }

    /// Returns whether a wait has ended without an error.
    fn after(&self, waiter: &Bound<'_, Waiter>) -> PyResult<bool> {
        self.check()?;
        Waiter::poll(waiter)
    }

    fn on_to(&self, coroutine: &Bound<'_, PyAny>) -> PyResult<Turn> {
        match self {
            Passed::Value(value) => send_to(coroutine, value),
            Passed::Thrown(thrown) => throw_into(coroutine, thrown),
        }
    }
}

fn throw_into(coroutine: &Bound<'_, PyAny>, thrown: &Bound<'_, PyTuple>) -> PyResult<Turn> {
    let py = coroutine.py();
    match coroutine.call_method1(intern!(py, "throw"), thrown) {
        Ok(future) => Ok(Turn::Wait(future.unbind())),
        Err(error) if error.is_instance_of::<PyStopIteration>(py) => {
            Ok(Turn::Return(error.value(py).getattr(intern!(py, "value"))?.unbind()))
        }
        Err(error) => Err(error),
    }
}

/// Returns the exception for the arguments of `throw`.
fn exception(thrown: &Bound<'_, PyTuple>) -> PyResult<PyErr> {
    let class = thrown.get_item(0)?;
    Ok(match thrown.get_item(1).ok().filter(|value| !value.is_none()) {
        None => PyErr::from_value(class),
        Some(value) if value.is_instance_of::<PyBaseException>() => PyErr::from_value(value),
        Some(value) => PyErr::from_value(class.call1((value,))?),
    })
}

fn lacks_exchange(py: Python<'_>) -> PyErr {
    failure::bug(py, "expected an awaited operation to hold its exchange, got none")
}

#[entries]
#[pymethods]
impl AwaitedOperation {
    fn __await__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    fn __next__(slf: &Bound<'_, Self>) -> PyResult<Py<PyAny>> {
        Self::send(slf, slf.py().None().bind(slf.py()))
    }

    /// Run until there is something to wait for, and return that; raise StopIteration with the result.
    fn send(slf: &Bound<'_, Self>, value: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        yielded(Self::resume(slf, &Passed::Value(value))?)
    }

    /// End the wait with an exception: a class, or an instance, or both and a traceback.
    #[pyo3(signature = (*thrown))]
    fn throw(slf: &Bound<'_, Self>, thrown: &Bound<'_, PyTuple>) -> PyResult<Py<PyAny>> {
        yielded(Self::resume(slf, &Passed::Thrown(thrown))?)
    }

    /// Give the operation up.
    fn close(&mut self, py: Python<'_>) -> PyResult<()> {
        let stage = mem::replace(&mut self.stage, Stage::Over);
        let closed = match stage {
            Stage::Entering(_, coroutine) | Stage::Stepping(coroutine) => {
                coroutine.call_method0(py, intern!(py, "close")).map(drop)
            }
            _ => Ok(()),
        };
        self.give_up(py).and(closed)
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.port)?;
        match &self.stage {
            Stage::New(operation) => visit.call(operation)?,
            Stage::Entering(operation, coroutine) => {
                visit.call(operation)?;
                visit.call(coroutine)?;
            }
            Stage::Asked(waiter) | Stage::Queued(waiter) => visit.call(waiter)?,
            Stage::Stepping(coroutine) => visit.call(coroutine)?,
            Stage::Over => {}
        }
        if let Some(running) = &self.running {
            visit.call(&running.exchange)?;
            visit.call(&running.event_loop)?;
            visit.call(&running.home)?;
        }
        Ok(())
    }

    fn __clear__(&mut self) {
        self.stage = Stage::Over;
        // Dropping it gives the exchange up.
        self.running = None;
    }
}

/// Returns a turn in the way of a coroutine's methods.
fn yielded(turn: Turn) -> PyResult<Py<PyAny>> {
    match turn {
        Turn::Wait(future) => Ok(future),
        // In a tuple, since a tuple as the only argument would be unpacked.
        Turn::Return(value) => Err(PyStopIteration::new_err((value,))),
    }
}

/// The slot `am_send`.
///
/// # Safety
/// Called by the interpreter with an `AwaitedOperation`, a value and a place for the result.
unsafe extern "C" fn send(
    this: *mut ffi::PyObject,
    sent: *mut ffi::PyObject,
    result: *mut *mut ffi::PyObject,
) -> ffi::PySendResult {
    enter(ffi::PySendResult::PYGEN_ERROR, |py| {
        counted(py, |py| {
            // SAFETY: the interpreter passes a live instance of the class whose slot this is, a live value, and a place
            // that takes one reference over, or null with the exception set.
            unsafe {
                *result = ptr::null_mut();
                let this = Bound::from_borrowed_ptr(py, this);
                let sent = Bound::from_borrowed_ptr(py, sent);
                let (value, outcome) = match AwaitedOperation::resume(this.cast()?, &Passed::Value(&sent))? {
                    Turn::Wait(future) => (future, ffi::PySendResult::PYGEN_NEXT),
                    Turn::Return(value) => (value, ffi::PySendResult::PYGEN_RETURN),
                };
                *result = value.into_ptr();
                Ok(outcome)
            }
        })
    })
}
