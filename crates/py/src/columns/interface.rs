//! The structures and names of Arrow's C interfaces, which export and import share.
//! Spec: Arrow C data interface, C stream interface, PyCapsule interface.
use std::ffi::{CStr, c_char, c_int, c_void};

/// A structure with a release callback.
pub(super) trait Release {
    /// The name of a capsule that holds it.
    const NAME: &CStr;
    /// Whether it is released or moved out.
    fn is_released(&self) -> bool;
    /// Calls the callback.
    ///
    /// # Safety
    /// It is ours and not released.
    unsafe fn release(&mut self);
}

macro_rules! released {
    ($($kind:ty: $name:literal),*) => {$(
        impl Release for $kind {
            const NAME: &CStr = $name;

            fn is_released(&self) -> bool {
                self.release.is_none()
            }

            unsafe fn release(&mut self) {
                if let Some(release) = self.release {
                    // SAFETY: the structure is ours and was not released, so its producer's callback may be called with
                    // it, once.
                    unsafe { release(self) }
                }
                // Even if the producer did not mark it as released, its callback must not be called again.
                self.release = None;
            }
        }
    )*};
}

released!(ArrowSchema: c"arrow_schema", ArrowArray: c"arrow_array", ArrowArrayStream: c"arrow_array_stream");

#[repr(C)]
pub(super) struct ArrowSchema {
    pub format: *const c_char,
    pub name: *const c_char,
    pub metadata: *const c_char,
    pub flags: i64,
    pub n_children: i64,
    pub children: *mut *mut ArrowSchema,
    pub dictionary: *mut ArrowSchema,
    pub release: Option<unsafe extern "C" fn(*mut ArrowSchema)>,
    pub private_data: *mut c_void,
}

#[repr(C)]
pub(super) struct ArrowArray {
    pub length: i64,
    pub null_count: i64,
    pub offset: i64,
    pub n_buffers: i64,
    pub n_children: i64,
    pub buffers: *mut *const c_void,
    pub children: *mut *mut ArrowArray,
    pub dictionary: *mut ArrowArray,
    pub release: Option<unsafe extern "C" fn(*mut ArrowArray)>,
    pub private_data: *mut c_void,
}

#[repr(C)]
pub(super) struct ArrowArrayStream {
    pub get_schema: Option<unsafe extern "C" fn(*mut ArrowArrayStream, *mut ArrowSchema) -> c_int>,
    pub get_next: Option<unsafe extern "C" fn(*mut ArrowArrayStream, *mut ArrowArray) -> c_int>,
    pub get_last_error: Option<unsafe extern "C" fn(*mut ArrowArrayStream) -> *const c_char>,
    pub release: Option<unsafe extern "C" fn(*mut ArrowArrayStream)>,
    pub private_data: *mut c_void,
}
