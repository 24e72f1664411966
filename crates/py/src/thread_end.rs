//! How a thread ends when the interpreter does before it.

#[cfg(all(target_os = "linux", target_env = "gnu", not(Py_3_14)))]
use std::os::raw::{c_int, c_void};

#[cfg(all(target_os = "linux", target_env = "gnu", not(Py_3_14)))]
use pyo3::ffi;

/// Keeps the calling thread from being unwound when the interpreter ends; to be called wherever Python code may run with
/// Rust's frames below it. Costs a look at a flag from the second time on.
///
/// Before 3.14 the interpreter ends a daemon thread that asks for its lock during finalization by `pthread_exit`. glibc
/// does that by unwinding the thread's stack, which must not cross Rust: the process would be aborted. A clean-up handler
/// runs before the first frame is left, and lets the thread sleep instead, as 3.14 does by itself.
#[cfg(all(target_os = "linux", target_env = "gnu", not(Py_3_14)))]
pub fn never_unwind_this_thread() {
    use std::cell::{Cell, UnsafeCell};
    use std::mem::MaybeUninit;

    /// glibc's `struct _pthread_cleanup_buffer`.
    #[repr(C)]
    struct CleanUp {
        routine: Option<extern "C" fn(*mut c_void)>,
        argument: *mut c_void,
        cancel_type: c_int,
        previous: *mut CleanUp,
    }

    unsafe extern "C" {
        fn _pthread_cleanup_push(
            buffer: *mut CleanUp,
            routine: extern "C" fn(*mut c_void),
            argument: *mut c_void,
        );
    }

    thread_local! {
        static IS_GUARDED: Cell<bool> = const { Cell::new(false) };
        static CLEAN_UP: UnsafeCell<MaybeUninit<CleanUp>> = const { UnsafeCell::new(MaybeUninit::uninit()) };
    }

    /// Sleeps for good when it is the interpreter that ends the thread; anybody else who does it may go on.
    extern "C" fn sleep_while_ending(_: *mut c_void) {
        // SAFETY: it only reads a flag, and asks for no lock.
        while unsafe { ffi::Py_IsInitialized() } == 0 {
            // SAFETY: it only waits for a signal.
            unsafe { libc::pause() };
        }
    }

    if !IS_GUARDED.replace(true) {
        CLEAN_UP.with(|place| {
            // SAFETY: the list that the buffer enters is this thread's own, and is forgotten when the thread returns from
            // its start function; so the buffer, which lives as long as the thread, outlives it. It lies outside of the
            // stack, so that glibc takes its frame for left at the first step of any unwinding, which is what is wanted.
            unsafe {
                _pthread_cleanup_push(place.get().cast(), sleep_while_ending, std::ptr::null_mut());
            }
        });
    }
}

/// Elsewhere a thread that is ended is not unwound.
#[cfg(not(all(target_os = "linux", target_env = "gnu", not(Py_3_14))))]
pub fn never_unwind_this_thread() {}
