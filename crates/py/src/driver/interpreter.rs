//! The state of the interpreter around a call: a pending exception, a signal handler's exception in the driver's own
//! calls, the interpreter's exit. Drops and threads check for these only through this module.

use std::os::raw::{c_int, c_void};

use pyo3::PyClass;
use pyo3::exceptions::PyRuntimeError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::pyclass::boolean_struct::True;

use crate::thread_end::never_unwind_this_thread;

/// An owner of Python work that a drop could not do.
pub trait Deliver {
    /// Does the pending work.
    fn deliver_rest(&self, py: Python<'_>);
}

/// Runs `body`, which may call Python, while an exception may be pending; that exception is pending again afterwards.
pub fn beside_pending_error(py: Python<'_>, body: impl FnOnce()) {
    let _pending = PendingError::take(py);
    body();
}

/// The pending exception, put back when this is dropped.
struct PendingError {
    #[cfg(Py_3_12)]
    error: *mut ffi::PyObject,
    #[cfg(not(Py_3_12))]
    error: [*mut ffi::PyObject; 3],
}

impl PendingError {
    #[cfg(Py_3_12)]
    fn take(_py: Python<'_>) -> Self {
        // SAFETY: the interpreter's lock is held, as `_py` shows; the reference is put back by the drop.
        PendingError { error: unsafe { ffi::PyErr_GetRaisedException() } }
    }

    #[cfg(not(Py_3_12))]
    fn take(_py: Python<'_>) -> Self {
        let mut error = [std::ptr::null_mut(); 3];
        let [class, value, traceback] = &mut error;
        // SAFETY: the interpreter's lock is held, as `_py` shows, and the three places are there to be written to; the
        // references in them are put back by the drop.
        unsafe { ffi::PyErr_Fetch(class, value, traceback) };
        PendingError { error }
    }
}

impl Drop for PendingError {
    fn drop(&mut self) {
        // SAFETY: made in `beside_pending_error` alone, so the lock is still held; what was fetched is handed back once.
        #[cfg(Py_3_12)]
        unsafe {
            ffi::PyErr_SetRaisedException(self.error);
        }
        // SAFETY: made in `beside_pending_error` alone, so the lock is still held; the three references that `take`
        // fetched, or nulls, are handed back once.
        #[cfg(not(Py_3_12))]
        unsafe {
            let [class, value, traceback] = self.error;
            ffi::PyErr_Restore(class, value, traceback);
        }
    }
}

/// Does a drop's pending work where Python code may run: in the main thread as a pending call, where exceptions of
/// signal handlers are raised; in other threads at once, since no signal handlers run there.
pub fn deliver_soon<T: Deliver + PyClass<Frozen = True> + Sync>(owner: &Py<T>) {
    never_unwind_this_thread();
    Python::try_attach(|py| {
        if is_main_thread() {
            // If too many calls are pending, the work stays with the owner, and the next entry does it.
            drop(call_soon(py, deliver_now::<T>, owner.clone_ref(py).into_any()));
        } else {
            beside_pending_error(py, || owner.get().deliver_rest(py));
        }
    });
}

/// Schedules a call of a function of this file with a reference, soon and in the main thread. Returns the reference if
/// too many calls are pending.
fn call_soon(
    py: Python<'_>,
    function: extern "C" fn(*mut c_void) -> c_int,
    object: Py<PyAny>,
) -> Option<Py<PyAny>> {
    let object = object.into_ptr();
    // SAFETY: the reference goes to the function, which takes it over, or nowhere: then it is ours as before.
    unsafe {
        let is_refused = ffi::Py_AddPendingCall(Some(function), object.cast()) != 0;
        is_refused.then(|| Bound::from_owned_ptr(py, object).unbind())
    }
}

/// The interpreter calls this with its lock held, no exception pending, and a reference to take over.
extern "C" fn deliver_now<T: Deliver + PyClass<Frozen = True> + Sync>(owner: *mut c_void) -> c_int {
    never_unwind_this_thread();
    // The interpreter also calls this during its exit. Nothing is left to do then, and the reference is not released.
    Python::try_attach(|py| {
        // SAFETY: the reference that `deliver_soon` handed on, once, with this function.
        let owner = unsafe { Bound::from_owned_ptr(py, owner.cast()) };
        if let Ok(owner) = owner.cast::<T>() {
            owner.get().deliver_rest(py);
        }
    });
    0
}

/// Raises the error of one of the driver's own calls soon, in the main thread. Such calls raise nothing themselves, so
/// it is a signal handler's exception, such as a `KeyboardInterrupt`, which would otherwise be lost.
pub fn raise_soon(py: Python<'_>, error: PyErr, object: &Bound<'_, PyAny>) {
    if is_of_a_signal_handler(py, &error) {
        let value = error.clone_ref(py).into_value(py).into_any();
        if call_soon(py, raise_now, value).is_none() {
            return;
        }
    }
    error.write_unraisable(py, Some(object));
}

/// How often one of the driver's own calls is made if exceptions of signal handlers interrupt it.
const TRIES: u32 = 3;

/// Runs queued work that nothing else will do. A signal handler's exception may interrupt a call before it did
/// anything, so the call is repeated and the exception raised afterwards.
pub fn insist(py: Python<'_>, object: &Bound<'_, PyAny>, mut call: impl FnMut() -> PyResult<()>) {
    let mut errors = Vec::new();
    for _ in 0..TRIES {
        let Err(error) = call() else { break };
        let is_foreign = is_of_a_signal_handler(py, &error);
        errors.push(error);
        if !is_foreign {
            break;
        }
    }
    for error in errors {
        raise_soon(py, error, object);
    }
}

/// Whether an error of such a call can only come from a signal handler; these run only in the main thread.
pub fn is_of_a_signal_handler(py: Python<'_>, error: &PyErr) -> bool {
    // A RuntimeError is the call's own: a lock released twice, or a closed loop. It is harmless.
    is_main_thread() && !error.get_type(py).is(py.get_type::<PyRuntimeError>())
}

/// The interpreter calls this with its lock held and a reference to an exception to take over.
extern "C" fn raise_now(error: *mut c_void) -> c_int {
    let error: *mut ffi::PyObject = error.cast();
    // SAFETY: only `raise_soon` hands this function on, with a live exception, whose class is alive with it; the
    // interpreter takes a reference of its own. What it replaces is put back behind the exception's own context.
    unsafe {
        let own = ffi::PyException_GetContext(error);
        // Makes the exception being handled the context, replacing an earlier one.
        ffi::PyErr_SetObject(ffi::Py_TYPE(error).cast(), error);
        if !own.is_null() {
            let handled = ffi::PyException_GetContext(error);
            ffi::PyException_SetContext(error, own);
            if !handled.is_null() {
                append_context(error, handled);
                ffi::Py_DECREF(handled);
            }
        }
        ffi::Py_DECREF(error);
    }
    -1
}

/// Returns the later one of two errors, with the earlier one at the end of its contexts, so that neither is lost.
pub fn following(py: Python<'_>, later: PyErr, earlier: &PyErr) -> PyErr {
    // SAFETY: both are exceptions, alive as long as the two errors, and `py` shows that the interpreter's lock is held.
    unsafe { append_context(later.value(py).as_ptr(), earlier.value(py).as_ptr()) };
    later
}

/// Puts `earlier` at the end of the contexts of `later`; not if it is already among them, or if that would make a
/// cycle.
///
/// # Safety
/// The interpreter's lock must be held; both must be live exceptions.
unsafe fn append_context(later: *mut ffi::PyObject, earlier: *mut ffi::PyObject) {
    // SAFETY: each is kept alive by the one before it, which is not changed on the way; only the last one is, and it takes a
    // reference of its own.
    unsafe {
        if is_in_contexts(earlier, later) {
            return;
        }
        let mut last = later;
        for _ in 0..MOST_CONTEXTS {
            let next = context_of(last);
            if next.is_null() || is_in_contexts(earlier, next) {
                ffi::Py_INCREF(earlier);
                ffi::PyException_SetContext(last, earlier);
                return;
            }
            last = next;
        }
    }
}

/// How many contexts are followed: a program may have made a cycle of them.
const MOST_CONTEXTS: u32 = 1_000;

/// Whether `wanted` is `error` or one of its contexts.
///
/// # Safety
/// As for `append_context`.
unsafe fn is_in_contexts(mut error: *mut ffi::PyObject, wanted: *mut ffi::PyObject) -> bool {
    for _ in 0..MOST_CONTEXTS {
        if error.is_null() || error == wanted {
            break;
        }
        // SAFETY: the first is kept alive by the caller, each other one by that before it, and under the lock nothing
        // runs here that could change them.
        error = unsafe { context_of(error) };
    }
    error == wanted
}

/// The context of an exception, or null; borrowed from it.
///
/// # Safety
/// As for `append_context`.
unsafe fn context_of(error: *mut ffi::PyObject) -> *mut ffi::PyObject {
    // SAFETY: `error` is a live exception, and the lock is held. The reference that the call returns is given back at
    // once: the exception goes on holding its context.
    unsafe {
        let context = ffi::PyException_GetContext(error);
        ffi::Py_XDECREF(context);
        context
    }
}

#[cfg(target_os = "linux")]
fn is_main_thread() -> bool {
    // SAFETY: both only read the numbers of the calling thread and its process.
    unsafe { libc::syscall(libc::SYS_gettid) == libc::c_long::from(libc::getpid()) }
}

#[cfg(target_os = "macos")]
fn is_main_thread() -> bool {
    // SAFETY: it only looks at the calling thread.
    unsafe { libc::pthread_main_np() != 0 }
}

#[cfg(not(any(target_os = "linux", target_os = "macos")))]
fn is_main_thread() -> bool {
    // SAFETY: it only reads the calling thread's number.
    MAIN_THREAD.get().is_none_or(|main| *main == unsafe { ffi::PyThread_get_thread_ident() })
}

/// Python's number of the main thread, for systems that do not tell which thread that is.
#[cfg(not(any(target_os = "linux", target_os = "macos")))]
static MAIN_THREAD: std::sync::OnceLock<std::ffi::c_ulong> = std::sync::OnceLock::new();

/// Records which thread is the main one, for systems where a thread cannot find out later.
pub fn register(_py: Python<'_>) -> PyResult<()> {
    #[cfg(not(any(target_os = "linux", target_os = "macos")))]
    {
        let main = match _py.import("_thread")?.getattr("_get_main_thread_ident") {
            Ok(ask) => ask.call0()?,
            // Before 3.13.
            Err(_) => _py.import("threading")?.call_method0("main_thread")?.getattr("ident")?,
        };
        let _ = MAIN_THREAD.set(main.extract()?);
    }
    Ok(())
}
