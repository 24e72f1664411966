//! The future that an asyncio task awaits for its reply: it resumes the task at once when the socket is read.
//!
//! asyncio's own future puts the task into the loop's queue, which costs one more turn of the loop, with its poll, for
//! every reply. The reader callback runs outside any task, so the task can continue right there. So can a task that was
//! waiting for the connection that the first one gave back. Everywhere else another task may be running, so the loop's
//! queue is used. A task that would only send its request and wait again is not resumed: its operation sends for it.

use std::cell::RefCell;
use std::ffi::CStr;

use mangonel_entries::entries;
use pyo3::exceptions::PyRuntimeError;
use pyo3::exceptions::asyncio::{CancelledError, InvalidStateError};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{IntoPyDict, PyBool, PyType};
use pyo3::{PyTraverseError, PyVisit, ffi, intern};

use super::awaited::AwaitedOperation;
use super::interpreter;
use crate::thread_end::Entry;

/// A callback, and the context in which it runs.
type Callback = (Py<PyAny>, Option<Py<PyAny>>);

/// Nearly always a single callback.
#[derive(Default)]
struct Callbacks {
    first: Option<Callback>,
    others: Vec<Callback>,
}

impl Callbacks {
    fn push(&mut self, callback: Callback) {
        match self.first {
            None if self.others.is_empty() => self.first = Some(callback),
            _ => self.others.push(callback),
        }
    }

    fn iter(&self) -> impl Iterator<Item = &Callback> {
        self.first.iter().chain(&self.others)
    }

    fn take_all(self) -> impl Iterator<Item = Callback> {
        self.first.into_iter().chain(self.others)
    }
}

/// The loop whose reader callback is running a task, and the waits that ended meanwhile.
type Reading = (Py<PyAny>, Vec<Py<Waiter>>);

thread_local! {
    /// Set while a reader callback of this thread runs a task.
    static READING: RefCell<Option<Reading>> = const { RefCell::new(None) };
}

enum State {
    Pending,
    Arrived,
    Failed(Py<PyAny>),
    Cancelled(Option<Py<PyAny>>),
}

/// A future for one reply, with the methods that asyncio's tasks and `asyncio.wait` use.
#[pyclass(module = "mangonel._core", weakref)]
pub struct Waiter {
    _entry: Entry,
    event_loop: Py<PyAny>,
    state: State,
    callbacks: Callbacks,
    /// The operation that waits here for a connection.
    pub(super) asker: Option<Py<AwaitedOperation>>,
    /// asyncio's mark that an `await` yielded the object, which was no mistake.
    #[pyo3(get, set, name = "_asyncio_future_blocking")]
    is_blocking: bool,
}

impl Waiter {
    /// Makes a wait that has just begun.
    pub fn begin(event_loop: Py<PyAny>) -> Self {
        Waiter {
            _entry: Entry,
            event_loop,
            state: State::Pending,
            callbacks: Callbacks::default(),
            asker: None,
            is_blocking: false,
        }
    }

    /// Returns whether the wait ended without an error; if it has not ended, the task is about to get it from its
    /// coroutine.
    pub fn poll(slf: &Bound<'_, Self>) -> PyResult<bool> {
        let mut waiter = slf.try_borrow_mut()?;
        if !waiter.done() {
            waiter.is_blocking = true;
            return Ok(false);
        }
        waiter.result(slf.py()).map(|()| true)
    }

    /// Ends the wait and runs its callbacks now, then those of the waits for connections that this ended. Only for
    /// callers outside any task.
    pub fn resolve_now(slf: &Bound<'_, Self>, error: Option<PyErr>) -> PyResult<()> {
        let py = slf.py();
        let event_loop = slf.try_borrow()?.event_loop.clone_ref(py);
        let outer = READING.replace(Some((event_loop, Vec::new())));
        let mut result = Self::run(slf, Self::outcome(py, error));
        // Tasks that these callbacks wake go through the loop's queue; otherwise tasks that need no reply could
        // monopolise the loop.
        let woken = READING.replace(outer);
        for waiter in woken.map(|(_, waiters)| waiters).unwrap_or_default() {
            let waiter = waiter.bind(py);
            result = match result {
                Ok(()) => Self::grant(waiter),
                // The loop is about to stop; it may be run again.
                Err(error) => Err(match Self::schedule(waiter, State::Arrived) {
                    Ok(_) => error,
                    Err(later) => interpreter::following(py, later, &error),
                }),
            };
        }
        result
    }

    /// Called when a connection was granted: sends, or ends the wait.
    fn grant(slf: &Bound<'_, Self>) -> PyResult<()> {
        let py = slf.py();
        let asker = slf.try_borrow_mut()?.asker.take();
        match asker.map_or(Ok(false), |asker| AwaitedOperation::send_ahead(asker.bind(py), slf)) {
            Ok(true) => Ok(()),
            Ok(false) => Self::run(slf, State::Arrived),
            Err(error) => Self::run(slf, Self::outcome(py, Some(error))),
        }
    }

    /// Ends the wait and runs the callbacks.
    fn run(slf: &Bound<'_, Self>, state: State) -> PyResult<()> {
        let py = slf.py();
        let is_good = matches!(state, State::Arrived);
        let Some(callbacks) = Self::finish(slf, state)? else { return Ok(()) };
        for (callback, context) in callbacks.take_all() {
            let callback = callback.bind(py);
            let done = if is_good && wakes_task(callback) { done_future(py) } else { None };
            let future = done.unwrap_or(slf.as_any());
            match context {
                Some(context) => call_in(context.bind(py), callback, future)?,
                None => callback.call1((future,)).map(drop)?,
            }
        }
        Ok(())
    }

    fn outcome(py: Python<'_>, error: Option<PyErr>) -> State {
        error.map_or(State::Arrived, |error| State::Failed(error.into_value(py).into_any()))
    }

    /// Returns the callbacks to run, or `None` if the wait had already ended.
    fn finish(slf: &Bound<'_, Self>, state: State) -> PyResult<Option<Callbacks>> {
        let mut waiter = slf.try_borrow_mut()?;
        if !matches!(waiter.state, State::Pending) {
            return Ok(None);
        }
        waiter.state = state;
        let callbacks = std::mem::take(&mut waiter.callbacks);
        let asker = waiter.asker.take();
        // Objects that are dropped here may use the waiter again.
        drop(waiter);
        drop(asker);
        Ok(Some(callbacks))
    }

    fn schedule(slf: &Bound<'_, Self>, state: State) -> PyResult<bool> {
        let Some(callbacks) = Self::finish(slf, state)? else { return Ok(false) };
        for (callback, context) in callbacks.take_all() {
            Self::call_soon(slf, &callback, context.as_ref())?;
        }
        Ok(true)
    }

    fn call_soon(slf: &Bound<'_, Self>, callback: &Py<PyAny>, context: Option<&Py<PyAny>>) -> PyResult<()> {
        let py = slf.py();
        let event_loop = slf.try_borrow()?.event_loop.clone_ref(py);
        let named = pyo3::types::PyDict::new(py);
        named.set_item(intern!(py, "context"), context)?;
        event_loop.bind(py).call_method(intern!(py, "call_soon"), (callback, slf), Some(&named))?;
        Ok(())
    }
}

/// Calls a function in a context, as the context's `run` does, without looking up that method.
fn call_in(
    context: &Bound<'_, PyAny>,
    callback: &Bound<'_, PyAny>,
    future: &Bound<'_, PyAny>,
) -> PyResult<()> {
    let py = context.py();
    let checked = |status| if status == 0 { Ok(()) } else { Err(PyErr::fetch(py)) };
    // SAFETY: the call checks that it is a context, which is alive as long as the borrow.
    checked(unsafe { ffi::PyContext_Enter(context.as_ptr()) })?;
    let called = callback.call1((future,)).map(drop);
    // SAFETY: as above; no exception is pending, since `called` holds it.
    called.and(checked(unsafe { ffi::PyContext_Exit(context.as_ptr()) }))
}

/// Returns whether a callback resumes a task of asyncio's C code. Such a callback only reads its future's result.
fn wakes_task(callback: &Bound<'_, PyAny>) -> bool {
    static TASK: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    let py = callback.py();
    // SAFETY: both are read only after the check that it is a builtin function, whose definition is static and named, and
    // whose `self`, if it has one, it keeps alive.
    let (name, task) = unsafe {
        if ffi::PyCFunction_CheckExact(callback.as_ptr()) == 0 {
            return false;
        }
        let function = callback.as_ptr().cast::<ffi::PyCFunctionObject>();
        let name = CStr::from_ptr((*(*function).m_ml).ml_name);
        (name, Bound::from_borrowed_ptr_or_opt(py, (*function).m_self))
    };
    name == c"task_wakeup"
        && task.is_some_and(|task| {
            TASK.import(py, "asyncio", "Task").is_ok_and(|class| task.is_instance(class).unwrap_or(false))
        })
}

/// Returns a done future of asyncio's own class with the result None. A task reads it directly; on any other class it
/// calls `result`, and makes and looks up that name each time: 1 400 instructions.
fn done_future(py: Python<'_>) -> Option<&Bound<'_, PyAny>> {
    static DONE: PyOnceLock<Option<Py<PyAny>>> = PyOnceLock::new();
    let make = || -> PyResult<Py<PyAny>> {
        // A real loop would be kept alive. A finished future uses only `get_debug` of its loop, so this replaces it.
        let idle = [("get_debug", py.get_type::<PyBool>())].into_py_dict(py)?;
        let idle = py.import("types")?.getattr("SimpleNamespace")?.call((), Some(&idle))?;
        let named = [("loop", idle)].into_py_dict(py)?;
        let future = py.import("asyncio")?.getattr("Future")?.call((), Some(&named))?;
        future.call_method1("set_result", (py.None(),))?;
        Ok(future.unbind())
    };
    // Without it, tasks take the slower way.
    DONE.get_or_init(py, || make().ok()).as_ref().map(|future| future.bind(py))
}

#[entries]
#[pymethods]
impl Waiter {
    #[new]
    fn new(event_loop: Py<PyAny>) -> Self {
        Self::begin(event_loop)
    }

    /// End the wait, from any thread.
    fn __call__(slf: &Bound<'_, Self>) -> PyResult<()> {
        static RUNNING: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
        let py = slf.py();
        let event_loop = slf.try_borrow()?.event_loop.clone_ref(py);
        let is_put_by = READING.with_borrow_mut(|reading| match reading {
            Some((reading, woken)) if reading.is(&event_loop) => {
                woken.push(slf.clone().unbind());
                true
            }
            _ => false,
        });
        if is_put_by {
            return Ok(());
        }
        let running = RUNNING.import(py, "asyncio", "_get_running_loop")?.call0()?;
        if running.is(&event_loop) {
            return Self::schedule(slf, State::Arrived).map(drop);
        }
        let arrive = slf.getattr(intern!(py, "_arrive"))?;
        match event_loop.call_method1(py, intern!(py, "call_soon_threadsafe"), (arrive,)) {
            // A closed loop has no waiters.
            Err(error) if error.is_instance_of::<PyRuntimeError>(py) => Ok(()),
            other => other.map(drop),
        }
    }

    /// End the wait, in the loop's own thread.
    fn _arrive(slf: &Bound<'_, Self>) -> PyResult<()> {
        Self::schedule(slf, State::Arrived).map(drop)
    }

    /// Return the loop that the awaiting task must run on.
    fn get_loop(&self, py: Python<'_>) -> Py<PyAny> {
        self.event_loop.clone_ref(py)
    }

    /// Return whether the wait has ended, in any way.
    pub fn done(&self) -> bool {
        !matches!(self.state, State::Pending)
    }

    /// Return whether the wait was cancelled.
    fn cancelled(&self) -> bool {
        matches!(self.state, State::Cancelled(_))
    }

    /// Return None if the reply has arrived; otherwise raise the error that ended the wait.
    fn result(&self, py: Python<'_>) -> PyResult<()> {
        match &self.state {
            State::Arrived => Ok(()),
            State::Failed(error) => Err(PyErr::from_value(error.bind(py).clone())),
            State::Cancelled(None) => Err(CancelledError::new_err(())),
            State::Cancelled(Some(message)) => Err(CancelledError::new_err((message.clone_ref(py),))),
            State::Pending => Err(InvalidStateError::new_err("the reply has not arrived yet")),
        }
    }

    /// Return the error that ended the wait, or None if the reply has arrived.
    fn exception(&self, py: Python<'_>) -> PyResult<Option<Py<PyAny>>> {
        match &self.state {
            State::Failed(error) => Ok(Some(error.clone_ref(py))),
            _ => self.result(py).map(|()| None),
        }
    }

    /// End the wait, from any code: its task continues in the loop's next turn.
    fn set_exception(slf: &Bound<'_, Self>, error: Py<PyAny>) -> PyResult<()> {
        Self::schedule(slf, State::Failed(error)).map(drop)
    }

    /// Cancel the wait; return whether it had not ended yet.
    #[pyo3(signature = (msg=None))]
    fn cancel(slf: &Bound<'_, Self>, msg: Option<Py<PyAny>>) -> PyResult<bool> {
        Self::schedule(slf, State::Cancelled(msg))
    }

    /// Call `callback` with this object once the wait has ended.
    #[pyo3(signature = (callback, *, context=None))]
    fn add_done_callback(
        slf: &Bound<'_, Self>,
        callback: Py<PyAny>,
        context: Option<Py<PyAny>>,
    ) -> PyResult<()> {
        {
            let mut waiter = slf.try_borrow_mut()?;
            if matches!(waiter.state, State::Pending) {
                waiter.callbacks.push((callback, context));
                return Ok(());
            }
        }
        Self::call_soon(slf, &callback, context.as_ref())
    }

    /// Forget a callback; return how often it had been added.
    fn remove_done_callback(slf: &Bound<'_, Self>, callback: &Bound<'_, PyAny>) -> PyResult<usize> {
        let py = slf.py();
        // Comparing may run any code, which may use this waiter again.
        let callbacks = std::mem::take(&mut slf.try_borrow_mut()?.callbacks);
        let (mut before, mut kept) = (0, Callbacks::default());
        let mut result = Ok(());
        for (known, context) in callbacks.take_all() {
            before += 1;
            let is_meant = result.is_ok()
                && known.bind(py).eq(callback).unwrap_or_else(|error| {
                    result = Err(error);
                    false
                });
            if !is_meant {
                kept.push((known, context));
            }
        }
        let removed = before - kept.iter().count();
        let mut waiter = slf.try_borrow_mut()?;
        for added in std::mem::take(&mut waiter.callbacks).take_all() {
            kept.push(added);
        }
        waiter.callbacks = kept;
        result.map(|()| removed)
    }

    fn __await__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    fn __iter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    fn __next__(slf: Bound<'_, Self>) -> PyResult<Option<Bound<'_, Self>>> {
        Ok(if Self::poll(&slf)? { None } else { Some(slf) })
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.event_loop)?;
        match &self.state {
            State::Failed(held) | State::Cancelled(Some(held)) => visit.call(held)?,
            _ => {}
        }
        visit.call(&self.asker)?;
        for (callback, context) in self.callbacks.iter() {
            visit.call(callback)?;
            visit.call(context)?;
        }
        Ok(())
    }

    fn __clear__(&mut self) {
        self.callbacks = Callbacks::default();
        self.asker = None;
    }
}
