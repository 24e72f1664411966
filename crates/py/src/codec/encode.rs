//! Python objects to BSON bytes, hot path: exact dicts and lists and the common values, straight into the output.
//! What may run the user's code lives in `encode_rare`; around it everything borrowed from a container is held.
//! Spec: bsonspec.org.
use pyo3::exceptions::PyRuntimeError;
use pyo3::ffi;
use pyo3::prelude::*;

use super::fault::{Fault, Kind, MAX_DEPTH, Step, found, raised, within};
use super::options::Codec;
use super::{datetime, object_id};

/// One encoding into one buffer.
pub(super) struct Encoder<'a, 'py> {
    pub(super) py: Python<'py>,
    pub(super) codec: &'a Codec,
    pub(super) out: &'a mut Vec<u8>,
    pub(super) check_keys: bool,
    depth: u32,
    object_id: *mut ffi::PyTypeObject,
    int64: *mut ffi::PyTypeObject,
    datetime: *mut ffi::PyTypeObject,
}

/// A field's name where its bytes are.
#[derive(Clone, Copy)]
pub(super) enum Name<'k> {
    Text(&'k [u8]),
    Index(usize),
}

/// Room for the fixed part of any element beside its name: the type, a NUL, a length, a subtype, 16 bytes.
const FIXED: usize = 32;

/// The longest index with its NUL.
const INDEX: usize = 21;

impl<'a, 'py> Encoder<'a, 'py> {
    pub(super) fn new(py: Python<'py>, codec: &'a Codec, check_keys: bool, out: &'a mut Vec<u8>) -> Self {
        // SAFETY: the codec's types imported the C API of datetime.
        let datetime = unsafe { (*ffi::PyDateTimeAPI()).DateTimeType };
        Self {
            py,
            codec,
            out,
            check_keys,
            depth: 0,
            object_id: object_id::class_ptr(py),
            int64: codec.types.int64.as_ptr().cast(),
            datetime,
        }
    }

    /// Writes a whole document, `_id` first.
    pub(super) fn top(&mut self, document: &Bound<'py, PyAny>) -> Result<(), Fault> {
        // SAFETY: `document` is a live object, held by the caller.
        unsafe {
            if ffi::PyDict_CheckExact(document.as_ptr()) != 0 {
                return self.dict(document.as_ptr(), true);
            }
        }
        self.any_mapping(document, true)
    }

    /// Writes the dict's length, fields and final NUL.
    ///
    /// # Safety
    /// `dict` must be a dict, held by the caller.
    pub(super) unsafe fn dict(&mut self, dict: *mut ffi::PyObject, is_top: bool) -> Result<(), Fault> {
        let start = self.enter()?;
        // SAFETY: keys and values are borrowed from the dict only while no Python code can run: the rare paths take
        // references first, and the dict's size is compared before the next step.
        unsafe {
            let id_name = self.codec.types.name.id.as_ptr();
            let mut has_id = false;
            if is_top {
                let id = ffi::PyDict_GetItemWithError(dict, id_name);
                if !id.is_null() {
                    has_id = true;
                    self.element(Name::Text(b"_id"), id)?;
                } else if !ffi::PyErr_Occurred().is_null() {
                    return Err(raised(self.py));
                }
            }
            let size = ffi::PyDict_Size(dict);
            let (mut position, mut key, mut value) = (0, std::ptr::null_mut(), std::ptr::null_mut());
            while ffi::PyDict_Next(dict, &mut position, &mut key, &mut value) != 0 {
                if has_id && is_id(key, id_name) {
                    continue;
                }
                self.pair(key, value)?;
                if ffi::PyDict_Size(dict) != size {
                    return Err(
                        PyRuntimeError::new_err("dictionary changed size while it was encoded").into()
                    );
                }
            }
        }
        self.leave(start);
        Ok(())
    }

    /// Writes one field.
    ///
    /// # Safety
    /// Both must be live objects.
    #[inline]
    pub(super) unsafe fn pair(
        &mut self,
        key: *mut ffi::PyObject,
        value: *mut ffi::PyObject,
    ) -> Result<(), Fault> {
        // SAFETY: the key's UTF-8 lives as long as the key, which is held while it is used: `element` copies the name
        // before it runs anything else.
        unsafe {
            if ffi::PyUnicode_Check(key) == 0 {
                return Err(self.wrong_key(key));
            }
            let name = self.utf8(key)?;
            if self.check_keys {
                check_key(name)?;
            }
            self.element(Name::Text(name), value)
        }
    }

    /// Writes a list's or tuple's elements as a BSON array.
    ///
    /// # Safety
    /// `list` must be a list or a tuple, held by the caller.
    pub(super) unsafe fn array(&mut self, list: *mut ffi::PyObject) -> Result<(), Fault> {
        let start = self.enter()?;
        // SAFETY: the index is compared with the size right before each access.
        unsafe {
            let is_list = ffi::PyList_Check(list) != 0;
            let size = if is_list { ffi::PyList_GET_SIZE(list) } else { ffi::PyTuple_GET_SIZE(list) };
            for index in 0..size {
                let value = if is_list {
                    ffi::PyList_GET_ITEM(list, index)
                } else {
                    ffi::PyTuple_GET_ITEM(list, index)
                };
                self.element(Name::Index(index as usize), value)?;
                if is_list && ffi::PyList_GET_SIZE(list) != size {
                    return Err(PyRuntimeError::new_err("list changed size while it was encoded").into());
                }
            }
        }
        self.leave(start);
        Ok(())
    }

    /// Writes an element: type, name, value.
    ///
    /// # Safety
    /// `value` must be a live object; a reference is taken before anything else can run.
    #[inline]
    pub(super) unsafe fn element(&mut self, name: Name<'_>, value: *mut ffi::PyObject) -> Result<(), Fault> {
        // SAFETY: exact types, so their C API accessors apply and none runs Python code.
        unsafe {
            let class = ffi::Py_TYPE(value);
            if class == &raw mut ffi::PyUnicode_Type {
                let kind = self.head(0x02, name)?;
                return match self.utf8(value) {
                    Ok(text) => self.text(text),
                    Err(fault) => Err(self.misplaced(fault, kind)),
                };
            }
            if class == &raw mut ffi::PyLong_Type {
                let mut overflow = 0;
                let number = ffi::PyLong_AsLongLongAndOverflow(value, &mut overflow);
                if overflow == 0 {
                    return match i32::try_from(number) {
                        Ok(number) => self.fixed(0x10, name, number.to_le_bytes()),
                        Err(_) => self.fixed(0x12, name, number.to_le_bytes()),
                    };
                }
            } else if class == &raw mut ffi::PyFloat_Type {
                return self.fixed(0x01, name, ffi::PyFloat_AS_DOUBLE(value).to_le_bytes());
            } else if class == &raw mut ffi::PyBool_Type {
                return self.fixed(0x08, name, [u8::from(value == ffi::Py_True())]);
            } else if value == ffi::Py_None() {
                return self.fixed(0x0A, name, []);
            } else if class == self.object_id {
                return self.fixed(0x07, name, object_id::bytes_of(value));
            } else if class == &raw mut ffi::PyDict_Type {
                let kind = self.head(0x03, name)?;
                ffi::Py_INCREF(value);
                let result = self.dict(value, false);
                ffi::Py_DECREF(value);
                return result.map_err(|fault| self.misplaced(fault, kind));
            } else if class == &raw mut ffi::PyList_Type {
                let kind = self.head(0x04, name)?;
                ffi::Py_INCREF(value);
                let result = self.array(value);
                ffi::Py_DECREF(value);
                return result.map_err(|fault| self.misplaced(fault, kind));
            } else if class == self.datetime {
                if ffi::PyDateTime_DATE_GET_TZINFO(value) == ffi::Py_None() {
                    return self.fixed(0x09, name, datetime::read(value).0.to_le_bytes());
                }
            } else if class == self.int64 {
                let mut overflow = 0;
                let number = ffi::PyLong_AsLongLongAndOverflow(value, &mut overflow);
                if overflow == 0 {
                    return self.fixed(0x12, name, number.to_le_bytes());
                }
            } else if class == &raw mut ffi::PyBytes_Type {
                self.head(0x05, name)?;
                let bytes = std::slice::from_raw_parts(
                    ffi::PyBytes_AS_STRING(value).cast::<u8>(),
                    ffi::Py_SIZE(value) as usize,
                );
                return self.binary(0, bytes);
            }
            let kind = self.head(0, name)?;
            let value = Bound::from_borrowed_ptr(self.py, value);
            self.any_value(kind, &value, false, false).map_err(|fault| self.misplaced(fault, kind))
        }
    }

    /// Writes the type and the name; returns where the type is.
    #[inline]
    fn head(&mut self, kind: u8, name: Name<'_>) -> Result<usize, Fault> {
        let at = self.out.len();
        match name {
            Name::Text(text) => {
                self.out.reserve(text.len() + FIXED);
                // SAFETY: reserved above; `copy_name` writes the name, then a NUL follows.
                unsafe {
                    let end = self.out.as_mut_ptr().add(at);
                    end.write(kind);
                    if copy_name(text, end.add(1)) {
                        return Err(nul_in_name(text));
                    }
                    end.add(1 + text.len()).write(0);
                    self.out.set_len(at + text.len() + 2);
                }
            }
            Name::Index(index) => {
                self.out.reserve(INDEX + FIXED);
                self.out.push(kind);
                if index < 10 {
                    self.out.push(b'0' + index as u8);
                } else {
                    self.out.extend_from_slice(itoa::Buffer::new().format(index).as_bytes());
                }
                self.out.push(0);
            }
        }
        Ok(at)
    }

    /// Writes an element whose value has a fixed size.
    #[inline]
    fn fixed<const N: usize>(&mut self, kind: u8, name: Name<'_>, value: [u8; N]) -> Result<(), Fault> {
        self.head(kind, name)?;
        // SAFETY: `head` reserved FIXED bytes beside the name, of which it used two.
        unsafe {
            const { assert!(N <= FIXED - 2) };
            let length = self.out.len();
            self.out.as_mut_ptr().add(length).cast::<[u8; N]>().write_unaligned(value);
            self.out.set_len(length + N);
        }
        Ok(())
    }

    /// Writes a length-prefixed string.
    #[inline]
    pub(super) fn text(&mut self, text: &[u8]) -> Result<(), Fault> {
        let length = self.size(text.len(), 1)?;
        self.out.reserve(text.len() + 5);
        self.out.extend_from_slice(&length.to_le_bytes());
        self.out.extend_from_slice(text);
        self.out.push(0);
        Ok(())
    }

    /// Writes a binary's length, subtype and bytes.
    pub(super) fn binary(&mut self, subtype: u8, bytes: &[u8]) -> Result<(), Fault> {
        let is_old = subtype == 2;
        let length = self.size(bytes.len(), if is_old { 4 } else { 0 })?;
        self.out.reserve(bytes.len() + 9);
        self.out.extend_from_slice(&length.to_le_bytes());
        self.out.push(subtype);
        if is_old {
            self.out.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
        }
        self.out.extend_from_slice(bytes);
        Ok(())
    }

    #[inline]
    fn size(&self, length: usize, more: usize) -> Result<i32, Fault> {
        i32::try_from(length + more).map_err(|_| {
            found(
                Kind::Document,
                format!("cannot encode a value of {length} bytes"),
                "BSON lengths are 31-bit",
            )
        })
    }

    /// Leaves room for a length and goes one level down; returns where the length is.
    #[inline]
    pub(super) fn enter(&mut self) -> Result<usize, Fault> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            let what = format!("cannot encode a document nested deeper than {MAX_DEPTH} levels");
            return Err(found(Kind::Recursion, what, "does it contain itself?"));
        }
        let start = self.out.len();
        self.out.extend_from_slice(&[0; 4]);
        Ok(start)
    }

    /// Ends the document that began at `start`, and goes one level up.
    #[inline]
    pub(super) fn leave(&mut self, start: usize) {
        self.depth -= 1;
        self.out.push(0);
        // The lengths of values are 31-bit; a sum beyond that is caught for the whole document, in `mod`.
        let length = (self.out.len() - start) as u32;
        self.out[start..start + 4].copy_from_slice(&length.to_le_bytes());
    }

    /// The UTF-8 of a str, which the object keeps.
    ///
    /// # Safety
    /// `text` must be a str, and outlive the result.
    #[inline]
    pub(super) unsafe fn utf8<'k>(&self, text: *mut ffi::PyObject) -> Result<&'k [u8], Fault> {
        // SAFETY: the pointer is valid for the length, as long as the object lives.
        unsafe {
            let mut length = 0;
            let data = ffi::PyUnicode_AsUTF8AndSize(text, &mut length);
            if data.is_null() {
                return Err(raised(self.py));
            }
            Ok(std::slice::from_raw_parts(data.cast(), length as usize))
        }
    }

    /// Adds the name of the element that starts at `kind` to an error from within it. The name was written already, so
    /// the bytes there are its record.
    #[cold]
    fn misplaced(&self, fault: Fault, kind: usize) -> Fault {
        let name = self.out[kind + 1..].split(|byte| *byte == 0).next().unwrap_or_default();
        within(fault, Step::Key(String::from_utf8_lossy(name).into_owned()))
    }

    #[cold]
    fn wrong_key(&self, key: *mut ffi::PyObject) -> Fault {
        // SAFETY: `key` is a live object; the reference keeps it so while its repr runs.
        let key = unsafe { Bound::from_borrowed_ptr(self.py, key) };
        match key.repr() {
            Ok(repr) => {
                found(Kind::Document, format!("documents must have only string keys, key was {repr}"), "")
            }
            Err(error) => error.into(),
        }
    }
}

#[inline]
unsafe fn is_id(key: *mut ffi::PyObject, id_name: *mut ffi::PyObject) -> bool {
    // SAFETY: both are live objects, and only str are compared.
    unsafe {
        key == id_name
            || (ffi::PyUnicode_Check(key) != 0
                && ffi::PyUnicode_GET_LENGTH(key) == 3
                && ffi::PyUnicode_Compare(key, id_name) == 0)
    }
}

fn check_key(name: &[u8]) -> Result<(), Fault> {
    let shown = || String::from_utf8_lossy(name);
    if name.starts_with(b"$") {
        return Err(found(Kind::Document, format!("key '{}' must not start with '$'", shown()), ""));
    }
    if name.contains(&b'.') {
        return Err(found(Kind::Document, format!("key '{}' must not contain '.'", shown()), ""));
    }
    Ok(())
}

#[cold]
fn nul_in_name(name: &[u8]) -> Fault {
    let shown = String::from_utf8_lossy(name);
    found(Kind::Document, format!("BSON keys must not contain a NUL character, key was {shown:?}"), "")
}

/// Copies a name, eight bytes at a time; tells whether it has a NUL.
///
/// # Safety
/// `to` must have room for the name.
#[inline]
unsafe fn copy_name(name: &[u8], to: *mut u8) -> bool {
    /// True when one of the eight bytes is 0.
    #[inline]
    fn has_nul(word: u64) -> bool {
        word.wrapping_sub(0x0101_0101_0101_0101) & !word & 0x8080_8080_8080_8080 != 0
    }
    let length = name.len();
    // SAFETY: all reads stay within the name and all writes within its length: the last word overlaps the one before.
    unsafe {
        let from = name.as_ptr();
        let word = |at: usize| from.add(at).cast::<u64>().read_unaligned();
        if length >= 8 {
            let mut nul = false;
            let mut at = 0;
            while at + 8 < length {
                let bytes = word(at);
                nul |= has_nul(bytes);
                to.add(at).cast::<u64>().write_unaligned(bytes);
                at += 8;
            }
            let bytes = word(length - 8);
            to.add(length - 8).cast::<u64>().write_unaligned(bytes);
            return nul | has_nul(bytes);
        }
        if length >= 4 {
            let low = from.cast::<u32>().read_unaligned();
            let high = from.add(length - 4).cast::<u32>().read_unaligned();
            to.cast::<u32>().write_unaligned(low);
            to.add(length - 4).cast::<u32>().write_unaligned(high);
            return has_nul(u64::from(low) | u64::from(high) << 32);
        }
        let mut nul = false;
        for (at, byte) in name.iter().enumerate() {
            to.add(at).write(*byte);
            nul |= *byte == 0;
        }
        nul
    }
}
