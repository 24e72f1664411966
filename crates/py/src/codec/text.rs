//! Python strings from UTF-8 bytes. Knows no BSON.
use std::ffi::CStr;

use pyo3::ffi;
use pyo3::prelude::*;

use super::make::{Made, owned};
use super::objects;

/// Creates a string of ASCII bytes: a new reference, or null with the error set.
///
/// # Safety
/// The GIL must be held and `bytes` be ASCII.
#[inline]
pub(crate) unsafe fn ascii(bytes: &[u8]) -> *mut ffi::PyObject {
    // SAFETY: a new ASCII string has room for its length and a NUL, which `PyUnicode_New` writes, and nobody else knows it
    // yet. One-character strings are shared by the interpreter and must not be made by hand. `is_on`: the self-test passed.
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

/// Creates a string of any bytes.
#[inline]
pub(crate) fn decode<'py>(py: Python<'py>, bytes: &[u8], errors: Option<&CStr>) -> Made<'py> {
    // SAFETY: `py` shows that the GIL is held. `ascii` gets ASCII; the decoder gets the bytes' own length, and the name of
    // an error handler that ends in NUL or none. Both give a new reference or null with the error set.
    unsafe {
        if super::name::is_ascii(bytes) {
            return owned(py, ascii(bytes));
        }
        let errors = errors.map_or(std::ptr::null(), CStr::as_ptr);
        owned(py, ffi::PyUnicode_DecodeUTF8(bytes.as_ptr().cast(), bytes.len() as _, errors))
    }
}

/// Creates a string of these characters' numbers.
pub(crate) fn of_characters<'py>(py: Python<'py>, characters: &[u32]) -> Made<'py> {
    debug_assert!(characters.iter().all(|c| *c <= 0x10_FFFF));
    let kind = ffi::PyUnicode_4BYTE_KIND as _;
    // SAFETY: `py` shows that the GIL is held; the call reads as many numbers as it is told, and makes the narrowest string
    // that holds them: a new reference, or null with the error set.
    unsafe {
        owned(py, ffi::PyUnicode_FromKindAndData(kind, characters.as_ptr().cast(), characters.len() as _))
    }
}

/// The UTF-8 of a string, which the object keeps; `None` with the error set where it has none, or no memory is left.
///
/// # Safety
/// The GIL must be held; `text` must be a live str, and outlive the result.
#[inline]
pub(crate) unsafe fn utf8<'k>(text: *mut ffi::PyObject) -> Option<&'k [u8]> {
    // SAFETY: a live str by the caller's promise. ASCII is its own UTF-8; of any other string the object keeps the UTF-8 once
    // it was asked for. Neither moves nor changes.
    unsafe {
        if let Some(characters) = objects::ascii_of(text) {
            return Some(characters);
        }
        let mut length = 0;
        let data = ffi::PyUnicode_AsUTF8AndSize(text, &mut length);
        (!data.is_null()).then(|| std::slice::from_raw_parts(data.cast(), length as usize))
    }
}
