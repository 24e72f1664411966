//! Python strings from UTF-8 bytes. Knows no BSON.
use std::ffi::CStr;

use pyo3::ffi;

use super::objects;

/// Creates a string of ASCII bytes: a new reference, or null with the error set.
///
/// # Safety
/// The GIL must be held and `bytes` be ASCII.
#[inline]
pub(crate) unsafe fn ascii(bytes: &[u8]) -> *mut ffi::PyObject {
    // SAFETY: a new ASCII string has room for its length and a NUL, which `PyUnicode_New` writes. One-character strings
    // are shared by the interpreter and must not be made by hand.
    unsafe {
        if bytes.len() < 2 {
            return ffi::PyUnicode_DecodeUTF8(bytes.as_ptr().cast(), bytes.len() as _, std::ptr::null());
        }
        if objects::is_on() {
            return objects::ascii(bytes);
        }
        let made = ffi::PyUnicode_New(bytes.len() as _, 127);
        if !made.is_null() {
            let data = ffi::PyUnicode_1BYTE_DATA(made);
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), data, bytes.len());
        }
        made
    }
}

/// Creates a string of any bytes: a new reference, or null with the error set.
///
/// # Safety
/// The GIL must be held.
#[inline]
pub(crate) unsafe fn decode(bytes: &[u8], errors: Option<&CStr>) -> *mut ffi::PyObject {
    // SAFETY: as promised.
    unsafe {
        if super::name::is_ascii(bytes) {
            return ascii(bytes);
        }
        let errors = errors.map_or(std::ptr::null(), CStr::as_ptr);
        ffi::PyUnicode_DecodeUTF8(bytes.as_ptr().cast(), bytes.len() as _, errors)
    }
}
