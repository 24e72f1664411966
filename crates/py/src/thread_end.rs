//! The end of a thread that outlives the interpreter.
//!
//! Each function through which Python enters this module begins with [`never_unwind_this_thread`]: `#[entries]` writes
//! it into methods and functions, `native::enter` and `native::counted` call it for the slots of the other classes. A
//! thread that has entered none of these may still release the last reference to an instance; [`Entry`] covers that.

/// The first field of each class whose other fields hold references: dropping an instance may drop its references,
/// which may run any code in any thread.
#[derive(Default)]
pub struct Entry;

impl Drop for Entry {
    fn drop(&mut self) {
        never_unwind_this_thread();
    }
}

/// Keeps the calling thread from being unwound when the interpreter ends; call it wherever Python code may run above
/// Rust frames. From the second call on, this only reads a flag.
#[inline(always)]
pub fn never_unwind_this_thread() {
    #[cfg(all(target_os = "linux", target_env = "gnu", not(Py_3_14)))]
    if !clean_up::IS_PUSHED.get() {
        clean_up::push();
    }
}

/// The handler that lets a thread sleep instead of being unwound. On other systems, ending a thread does not unwind it.
///
/// Before 3.14 the interpreter calls `pthread_exit` to end a daemon thread that requests the GIL during finalization.
/// glibc then unwinds the thread's stack, which would abort the process at a Rust frame. A clean-up handler runs before
/// the first frame is left, and lets the thread sleep, as 3.14 itself does.
#[cfg(all(target_os = "linux", target_env = "gnu", not(Py_3_14)))]
mod clean_up {
    use std::cell::{Cell, UnsafeCell};
    use std::mem::MaybeUninit;
    use std::os::raw::{c_int, c_void};

    use pyo3::ffi;

    /// glibc's `struct _pthread_cleanup_buffer`.
    #[repr(C)]
    struct Buffer {
        routine: Option<extern "C" fn(*mut c_void)>,
        argument: *mut c_void,
        cancel_type: c_int,
        previous: *mut Buffer,
    }

    unsafe extern "C" {
        #[cfg_attr(Py_3_13, link_name = "Py_IsFinalizing")]
        fn _Py_IsFinalizing() -> c_int;

        fn _pthread_cleanup_push(
            buffer: *mut Buffer,
            routine: extern "C" fn(*mut c_void),
            argument: *mut c_void,
        );
    }

    thread_local! {
        /// Whether the thread has the handler.
        pub(super) static IS_PUSHED: Cell<bool> = const { Cell::new(false) };
        static BUFFER: UnsafeCell<MaybeUninit<Buffer>> = const { UnsafeCell::new(MaybeUninit::uninit()) };
    }

    /// Gives the thread the handler. A separate function, so that only the check of the flag is inlined into entries.
    #[cold]
    #[inline(never)]
    pub(super) fn push() {
        IS_PUSHED.set(true);
        BUFFER.with(|place| {
            // SAFETY: the list that the buffer enters is this thread's own, and is forgotten when the thread returns from
            // its start function; so the buffer, which lives as long as the thread, outlives it. It lies outside of the
            // stack, so that glibc takes its frame for left at the first step of any unwinding, which is what is wanted.
            unsafe {
                _pthread_cleanup_push(place.get().cast(), sleep_while_ending, std::ptr::null_mut());
            }
        });
    }

    /// Sleeps for good if the interpreter ends the thread; a thread that ends for another reason continues to end.
    extern "C" fn sleep_while_ending(_: *mut c_void) {
        // The interpreter ends threads once its finalizing flag is set. It clears the initialized flag only then, not
        // always at once, and may clear the first flag at the very end. SAFETY: both only read a flag, and take no
        // lock.
        while unsafe { _Py_IsFinalizing() != 0 || ffi::Py_IsInitialized() == 0 } {
            // SAFETY: it only waits for a signal.
            unsafe { libc::pause() };
        }
    }
}
