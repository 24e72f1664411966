//! Python strings from UTF-8 bytes. Knows no BSON.
use std::ffi::CStr;

use pyo3::ffi;
use pyo3::prelude::*;

use super::make::{Made, owned};
use super::name::{are_ascii, halves, is_ascii};
use super::objects;

/// Creates a string of ASCII bytes: a new reference, or null with the error set.
///
/// # Safety
/// The GIL must be held and `bytes` be ASCII.
#[inline]
pub(crate) unsafe fn ascii(bytes: &[u8]) -> *mut ffi::PyObject {
    // SAFETY: a new ASCII string has room for its length and a NUL, which `PyUnicode_New` writes, and nothing else
    // refers to it yet. One-character strings are shared by the interpreter and must not be made by hand. `is_on`: the
    // self-test passed.
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

/// As `ascii`; None: the bytes are not ASCII, or fewer than two.
///
/// # Safety
/// The GIL must be held, and the self-test of `objects` have passed.
#[inline(always)]
pub(super) unsafe fn of_ascii(bytes: &[u8]) -> Option<*mut ffi::PyObject> {
    // SAFETY: what is made is ASCII and longer than one, as is asked first; the caller promises the rest.
    unsafe {
        // Each call is compiled for the lengths that come to it.
        match halves(bytes) {
            Some(halves) => are_ascii(halves).then(|| objects::ascii(bytes)),
            None => (bytes.len() > 1 && is_ascii(bytes)).then(|| objects::ascii(bytes)),
        }
    }
}

/// Creates a string of any bytes.
pub(crate) fn decode<'py>(py: Python<'py>, bytes: &[u8], errors: Option<&CStr>) -> Made<'py> {
    // SAFETY: `py` shows that the GIL is held. `ascii` gets ASCII; the decoder gets the bytes' own length, and the name of
    // an error handler that ends in NUL or none. Both give a new reference or null with the error set.
    unsafe {
        if is_ascii(bytes) {
            return owned(py, ascii(bytes));
        }
        let errors = errors.map_or(std::ptr::null(), CStr::as_ptr);
        owned(py, ffi::PyUnicode_DecodeUTF8(bytes.as_ptr().cast(), bytes.len() as _, errors))
    }
}

/// Creates a string of any text.
pub(crate) fn of_text<'py>(py: Python<'py>, text: &str) -> Made<'py> {
    let bytes = text.as_bytes();
    let greatest = bytes.iter().fold(0, |greatest, byte| (*byte).max(greatest));
    let count = text.chars().count();
    // SAFETY: the GIL is held. ASCII goes where ASCII has to. Strings of one character are shared by the interpreter, so its
    // decoder makes them. The others get the narrowest string that has room, as the first bytes of characters tell: below
    // U+0100 none is above 0xC3, below U+10000 none above 0xEF. It has `count` places, and nothing else refers to it
    // yet.
    unsafe {
        if greatest < 0x80 {
            return owned(py, ascii(bytes));
        }
        if count < 2 {
            let made = ffi::PyUnicode_DecodeUTF8(bytes.as_ptr().cast(), bytes.len() as _, std::ptr::null());
            return owned(py, made);
        }
        let most = match greatest {
            ..=0xC3 => 0xFF,
            0xC4..=0xEF => 0xFFFF,
            _ => 0x10_FFFF,
        };
        let made = owned(py, ffi::PyUnicode_New(count as _, most))?;
        let data = ffi::PyUnicode_DATA(made.as_ptr());
        match most {
            0xFF => widen(text, data.cast::<u8>(), |c| c as u8),
            0xFFFF => widen(text, data.cast::<u16>(), |c| c as u16),
            _ => widen(text, data.cast::<u32>(), |c| c),
        }
        Ok(made)
    }
}

/// Writes the numbers of the characters.
///
/// # Safety
/// There must be a place at `to` for each character of the text.
#[inline]
unsafe fn widen<T>(text: &str, mut to: *mut T, of: impl Fn(u32) -> T) {
    let mut rest = text;
    // SAFETY: one place is written for each character, as the caller promises; eight bytes of ASCII are eight characters.
    unsafe {
        loop {
            if let Some(chunk) = rest.as_bytes().first_chunk::<8>()
                && u64::from_le_bytes(*chunk) & 0x8080_8080_8080_8080 == 0
            {
                for (index, byte) in chunk.iter().enumerate() {
                    to.add(index).write(of(u32::from(*byte)));
                }
                to = to.add(8);
                rest = &rest[8..];
                continue;
            }
            let mut characters = rest.chars();
            let Some(c) = characters.next() else { return };
            to.write(of(u32::from(c)));
            to = to.add(1);
            rest = characters.as_str();
        }
    }
}

/// Creates a string from the numbers of its characters.
pub(crate) fn of_characters<'py>(py: Python<'py>, characters: &[u32]) -> Made<'py> {
    debug_assert!(characters.iter().all(|c| *c <= 0x10_FFFF));
    let kind = ffi::PyUnicode_4BYTE_KIND as _;
    // SAFETY: `py` shows that the GIL is held; the call reads as many numbers as it is told, and makes the narrowest string
    // that holds them: a new reference, or null with the error set.
    unsafe {
        owned(py, ffi::PyUnicode_FromKindAndData(kind, characters.as_ptr().cast(), characters.len() as _))
    }
}

/// The UTF-8 of a string, which the object keeps; `None` with the error set if it has none, or no memory is left.
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
