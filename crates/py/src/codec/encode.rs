//! Python objects to BSON bytes, hot path: exact dicts and lists and the common values, straight into the output.
//! Encoding that may run the user's code is in `encode_rare`; around its calls, everything borrowed from a container is
//! held by a reference.
//! Spec: bsonspec.org.
use pyo3::exceptions::PyRuntimeError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyString, PyTuple};

use super::fault::{Fault, Kind, MAX_DEPTH, Step, found, no_memory, raised, within};
use super::layout::Fields;
use super::options::Codec;
use super::{datetime, name, object_id, text};

/// One encoding into one buffer.
pub(crate) struct Encoder<'a, 'py> {
    pub(crate) py: Python<'py>,
    pub(crate) codec: &'a Codec,
    pub(crate) out: &'a mut Vec<u8>,
    pub(crate) check_keys: bool,
    pub(crate) depth: u32,
    object_id: *mut ffi::PyTypeObject,
    int64: *mut ffi::PyTypeObject,
    datetime: *mut ffi::PyTypeObject,
    /// `datetime.timezone.utc`.
    utc: *mut ffi::PyObject,
}

/// The name of an element. A trait, since a third case of `Name` would slow down every element of the codec.
pub(crate) trait Named: Copy {
    /// Returns the index, which an error can still use; the bytes of a text may be gone by then.
    fn index(self) -> Option<usize>;

    /// Writes a type and the name. Afterwards there is room for FIXED - 2 bytes.
    fn write(self, kind: u8, encoder: &mut Encoder<'_, '_>) -> Result<(), Fault>;

    /// Writes a string element under the name.
    #[inline(always)]
    fn write_text(self, text: &[u8], encoder: &mut Encoder<'_, '_>) -> Result<(), Fault> {
        self.write(0x02, encoder)?;
        encoder.text(text)
    }

    /// Returns the step of an error's path.
    fn step(self) -> Step;
}

/// A field's name, borrowed as bytes.
#[derive(Clone, Copy)]
pub(crate) enum Name<'k> {
    Text(&'k [u8]),
    Index(usize),
}

impl Named for Name<'_> {
    #[inline(always)]
    fn index(self) -> Option<usize> {
        match self {
            Name::Text(_) => None,
            Name::Index(index) => Some(index),
        }
    }

    #[inline(always)]
    fn write(self, kind: u8, encoder: &mut Encoder<'_, '_>) -> Result<(), Fault> {
        let text = match self {
            Name::Text(text) => text,
            Name::Index(index) => return encoder.index(kind, index),
        };
        encoder.make_room(text.len() + FIXED)?;
        let at = encoder.out.len();
        // SAFETY: there is room for the type, the name and a NUL, all of which are written before the length says so; `text`
        // is not part of `out`, which is borrowed exclusively.
        unsafe {
            let start = encoder.out.as_mut_ptr().add(at);
            start.write(kind);
            if copy_name(text, start.add(1)) {
                return Err(nul_in_name(text));
            }
            start.add(1 + text.len()).write(0);
            encoder.out.set_len(at + text.len() + 2);
        }
        Ok(())
    }

    #[cold]
    fn step(self) -> Step {
        match self {
            Name::Text(text) => Step::Key(String::from_utf8_lossy(text).into_owned()),
            Name::Index(index) => Step::Index(index),
        }
    }
}

/// Stored with its NUL, so it is copied without scanning its bytes.
impl Named for &name::Name {
    #[inline(always)]
    fn index(self) -> Option<usize> {
        None
    }

    #[inline(always)]
    fn write(self, kind: u8, encoder: &mut Encoder<'_, '_>) -> Result<(), Fault> {
        encoder.make_room(self.length() + FIXED)?;
        let at = encoder.out.len();
        // SAFETY: there is room for the type and the name with its NUL, and for more than the sixteen bytes that the name may
        // write in its place; the length says only so much as was written.
        unsafe {
            let start = encoder.out.as_mut_ptr().add(at);
            start.write(kind);
            self.copy_to(start.add(1));
            encoder.out.set_len(at + 1 + self.length());
        }
        Ok(())
    }

    /// Checks for room once instead of twice.
    #[inline(always)]
    fn write_text(self, text: &[u8], encoder: &mut Encoder<'_, '_>) -> Result<(), Fault> {
        let length = encoder.size(text.len(), 1)?;
        encoder.make_room(self.length() + text.len() + FIXED)?;
        let at = encoder.out.len();
        // SAFETY: there is room for the type, the name with its NUL, the length, the text and a NUL, and for more than the sixteen
        // bytes that the name may write in its place. All of it is written before the length says so; `text` is not part of `out`,
        // which is borrowed exclusively.
        unsafe {
            let start = encoder.out.as_mut_ptr().add(at);
            start.write(0x02);
            self.copy_to(start.add(1));
            let value = start.add(1 + self.length());
            value.cast::<[u8; 4]>().write(length.to_le_bytes());
            copy(text, value.add(4));
            value.add(4 + text.len()).write(0);
            encoder.out.set_len(at + self.length() + text.len() + 6);
        }
        Ok(())
    }

    #[cold]
    fn step(self) -> Step {
        Step::Key(String::from_utf8_lossy(&self.text()).into_owned())
    }
}

/// Room for the fixed part of any element beside its name: the type, a NUL, a length, a subtype, 16 bytes.
const FIXED: usize = 32;

/// The longest index with its NUL.
const INDEX: usize = 21;

impl<'a, 'py> Encoder<'a, 'py> {
    pub(crate) fn new(py: Python<'py>, codec: &'a Codec, check_keys: bool, out: &'a mut Vec<u8>) -> Self {
        // SAFETY: `types`, without which there is no codec, imported the C API of datetime, a static table.
        let (datetime, utc) =
            unsafe { ((*ffi::PyDateTimeAPI()).DateTimeType, (*ffi::PyDateTimeAPI()).TimeZone_UTC) };
        Self {
            py,
            codec,
            out,
            check_keys,
            depth: 0,
            object_id: object_id::class_ptr(py),
            int64: codec.types.int64.as_ptr().cast(),
            datetime,
            utc,
        }
    }

    /// Writes a whole document, `_id` first.
    pub(crate) fn top(&mut self, document: &Bound<'py, PyAny>) -> Result<(), Fault> {
        match document.cast_exact::<PyDict>() {
            Ok(dict) => self.dict(dict, true),
            Err(_) => self.any_mapping(document, true),
        }
    }

    /// Writes the dict's length, fields and final NUL.
    pub(crate) fn dict(&mut self, dict: &Bound<'py, PyDict>, is_top: bool) -> Result<(), Fault> {
        let start = self.enter()?;
        let dict = dict.as_ptr();
        // SAFETY: the caller's `Bound` keeps the dict alive. Keys and values are borrowed from it only while no Python
        // code can run: `element` copies the name and takes a reference to the value before any can. The dict's size is
        // compared before the next step, which reads its table again.
        unsafe {
            let mut has_id = false;
            if is_top {
                let id = ffi::PyDict_GetItemWithError(dict, self.codec.types.name.id.as_ptr());
                if !id.is_null() {
                    has_id = true;
                    self.element(Name::Text(b"_id"), id)?;
                } else if !ffi::PyErr_Occurred().is_null() {
                    return Err(raised(self.py));
                }
            }
            let size = dict_size(dict);
            let mut fields = Fields::of(self.py, dict);
            while let Some((key, value)) = fields.next() {
                if ffi::PyUnicode_Check(key) == 0 {
                    return Err(self.wrong_key(key));
                }
                let name = self.utf8(key)?;
                if has_id && name == b"_id" {
                    continue;
                }
                if self.check_keys {
                    check_key(name)?;
                }
                self.element(Name::Text(name), value)?;
                if dict_size(dict) != size {
                    return Err(
                        PyRuntimeError::new_err("dictionary changed size while it was encoded").into()
                    );
                }
            }
        }
        self.leave(start)
    }

    /// Writes a document of these fields.
    pub(super) fn fields(
        &mut self,
        fields: impl Iterator<Item = (&'static str, Bound<'py, PyAny>)>,
    ) -> Result<(), Fault> {
        let start = self.enter()?;
        for (name, value) in fields {
            self.field(Name::Text(name.as_bytes()), &value)?;
        }
        self.leave(start)
    }

    /// Writes one field of a mapping.
    pub(crate) fn pair(&mut self, key: &Bound<'py, PyAny>, value: &Bound<'py, PyAny>) -> Result<(), Fault> {
        let Ok(text) = key.cast::<PyString>() else { return Err(self.wrong_key(key.as_ptr())) };
        let name = self.utf8_of(text)?;
        if self.check_keys {
            check_key(name)?;
        }
        self.field(Name::Text(name), value)
    }

    /// Writes a list's elements as a BSON array.
    pub(crate) fn list(&mut self, list: &Bound<'py, PyList>) -> Result<(), Fault> {
        let start = self.enter()?;
        // SAFETY: a list, which the caller's reference keeps alive. Its size is what it was (compared after each element, as
        // those may run Python code), so there is an object at the index.
        unsafe {
            let list = list.as_ptr();
            let size = ffi::PyList_GET_SIZE(list);
            for index in 0..size {
                self.element(Name::Index(index as usize), ffi::PyList_GET_ITEM(list, index))?;
                if ffi::PyList_GET_SIZE(list) != size {
                    return Err(PyRuntimeError::new_err("list changed size while it was encoded").into());
                }
            }
        }
        self.leave(start)
    }

    /// Writes a tuple's elements as a BSON array.
    pub(crate) fn tuple(&mut self, tuple: &Bound<'py, PyTuple>) -> Result<(), Fault> {
        let start = self.enter()?;
        for (index, value) in tuple.iter_borrowed().enumerate() {
            self.field(Name::Index(index), &value)?;
        }
        self.leave(start)
    }

    /// Writes an element whose value the caller holds.
    #[inline]
    pub(crate) fn field(&mut self, name: impl Named, value: &Bound<'py, PyAny>) -> Result<(), Fault> {
        // SAFETY: the reference keeps the value alive until the element is written.
        unsafe { self.element(name, value.as_ptr()) }
    }

    /// Writes an element: type, name, value.
    ///
    /// # Safety
    /// `value` must be a live object; a reference is taken before anything else can run.
    #[inline]
    pub(crate) unsafe fn element(
        &mut self,
        name: impl Named,
        value: *mut ffi::PyObject,
    ) -> Result<(), Fault> {
        let index = name.index();
        // SAFETY: a live object by the caller's promise. Types are compared exactly, so their C API accessors apply, and none
        // of these runs Python code; before anything does, a reference is taken (`held`).
        unsafe {
            let class = ffi::Py_TYPE(value);
            if class == &raw mut ffi::PyUnicode_Type {
                let kind = self.head(0x02, name)?;
                return match self.utf8(value) {
                    Ok(text) => self.text(text),
                    Err(fault) => Err(self.misplaced(fault, kind, index)),
                };
            }
            // Values of a fixed size: the type, the bytes, how many.
            let fixed = if class == &raw mut ffi::PyLong_Type {
                let mut overflow = 0;
                let number = ffi::PyLong_AsLongLongAndOverflow(value, &mut overflow);
                match i32::try_from(number) {
                    _ if overflow != 0 => None,
                    Ok(number) => Some((0x10, u128::from(number as u32), 4)),
                    Err(_) => Some((0x12, u128::from(number as u64), 8)),
                }
            } else if class == &raw mut ffi::PyFloat_Type {
                Some((0x01, u128::from(ffi::PyFloat_AS_DOUBLE(value).to_bits()), 8))
            } else if class == &raw mut ffi::PyBool_Type {
                Some((0x08, u128::from(value == ffi::Py_True()), 1))
            } else if value == ffi::Py_None() {
                Some((0x0A, 0, 0))
            } else if class == self.object_id {
                let mut bytes = [0; 16];
                bytes[..12].copy_from_slice(&object_id::bytes_of(value));
                Some((0x07, u128::from_le_bytes(bytes), 12))
            } else if class == self.datetime {
                // Any other zone must be asked for its offset.
                let zone = ffi::PyDateTime_DATE_GET_TZINFO(value);
                let is_utc =
                    zone == ffi::Py_None() || zone == self.codec.types.utc.as_ptr() || zone == self.utc;
                is_utc.then(|| (0x09, u128::from(datetime::read(value).0 as u64), 8))
            } else if class == self.int64 {
                let mut overflow = 0;
                let number = ffi::PyLong_AsLongLongAndOverflow(value, &mut overflow);
                (overflow == 0).then_some((0x12, u128::from(number as u64), 8))
            } else {
                None
            };
            if let Some((kind, bytes, size)) = fixed {
                self.head(kind, name)?;
                let length = self.out.len();
                // `head` reserved FIXED bytes besides the name and used two of them.
                self.out.as_mut_ptr().add(length).cast::<u128>().write_unaligned(bytes.to_le());
                self.out.set_len(length + size);
                return Ok(());
            }
            let kind = self.head(0, name)?;
            // Held, because later Python code may take it out of its container.
            let held = Bound::from_borrowed_ptr(self.py, value);
            let result = if class == &raw mut ffi::PyDict_Type {
                self.out[kind] = 0x03;
                self.dict(held.cast_unchecked(), false)
            } else if class == &raw mut ffi::PyList_Type {
                self.out[kind] = 0x04;
                self.list(held.cast_unchecked())
            } else if class == &raw mut ffi::PyBytes_Type {
                self.out[kind] = 0x05;
                let data = ffi::PyBytes_AS_STRING(value).cast::<u8>();
                self.binary(0, std::slice::from_raw_parts(data, ffi::Py_SIZE(value) as usize))
            } else {
                self.own_value(kind, &held)
            };
            result.map_err(|fault| self.misplaced(fault, kind, index))
        }
    }

    /// Writes the type and the name; returns where the type is. Afterwards there is room for FIXED - 2 bytes.
    #[inline(always)]
    pub(crate) fn head(&mut self, kind: u8, name: impl Named) -> Result<usize, Fault> {
        let at = self.out.len();
        name.write(kind, self)?;
        Ok(at)
    }

    /// Makes room for `count` more bytes.
    #[inline(always)]
    pub(crate) fn make_room(&mut self, more: usize) -> Result<(), Fault> {
        if self.out.capacity() - self.out.len() < more { self.grow(more) } else { Ok(()) }
    }

    #[cold]
    #[inline(never)]
    fn grow(&mut self, more: usize) -> Result<(), Fault> {
        self.out.try_reserve(more).map_err(|_| no_memory(more))
    }

    /// Writes bytes unchanged.
    pub(crate) fn bytes(&mut self, bytes: &[u8]) -> Result<(), Fault> {
        self.make_room(bytes.len() + FIXED)?;
        self.out.extend_from_slice(bytes);
        Ok(())
    }

    /// Writes the type and an index.
    #[inline(never)]
    fn index(&mut self, kind: u8, index: usize) -> Result<(), Fault> {
        self.make_room(INDEX + FIXED)?;
        self.out.push(kind);
        if index < 10 {
            self.out.push(b'0' + index as u8);
        } else {
            self.out.extend_from_slice(itoa::Buffer::new().format(index).as_bytes());
        }
        self.out.push(0);
        Ok(())
    }

    /// Writes a length-prefixed string.
    #[inline]
    pub(crate) fn text(&mut self, text: &[u8]) -> Result<(), Fault> {
        let length = self.size(text.len(), 1)?;
        let at = self.out.len();
        self.make_room(text.len() + FIXED)?;
        // SAFETY: there is room for the length, the text and a NUL, all of which are written before the length says so;
        // `text` is not part of `out`, which is borrowed exclusively.
        unsafe {
            let start = self.out.as_mut_ptr().add(at);
            start.cast::<[u8; 4]>().write(length.to_le_bytes());
            copy(text, start.add(4));
            start.add(4 + text.len()).write(0);
            self.out.set_len(at + text.len() + 5);
        }
        Ok(())
    }

    /// Writes a binary's length, subtype and bytes.
    pub(crate) fn binary(&mut self, subtype: u8, bytes: &[u8]) -> Result<(), Fault> {
        let is_old = subtype == 2;
        let length = self.size(bytes.len(), if is_old { 4 } else { 0 })?;
        self.make_room(bytes.len() + FIXED)?;
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
    pub(crate) fn enter(&mut self) -> Result<usize, Fault> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            let what = format!("cannot encode a document nested deeper than {MAX_DEPTH} levels");
            return Err(found(Kind::Recursion, what, "does it contain itself?"));
        }
        let start = self.out.len();
        self.make_room(FIXED)?;
        self.out.extend_from_slice(&[0; 4]);
        Ok(start)
    }

    /// Ends the document that began at `start`, and goes one level up.
    #[inline]
    pub(crate) fn leave(&mut self, start: usize) -> Result<(), Fault> {
        self.depth -= 1;
        self.make_room(1)?;
        self.out.push(0);
        // The lengths of values have 31 bits; `mod` checks that the whole document fits too.
        let length = (self.out.len() - start) as u32;
        self.out[start..start + 4].copy_from_slice(&length.to_le_bytes());
        Ok(())
    }

    /// The UTF-8 of a str.
    pub(crate) fn utf8_of<'k>(&self, text: &'k Bound<'py, PyString>) -> Result<&'k [u8], Fault> {
        // SAFETY: a str; it keeps the bytes, and is alive for as long as the reference to it.
        unsafe { self.utf8(text.as_ptr()) }
    }

    /// The UTF-8 of a str, which the object keeps.
    ///
    /// # Safety
    /// `text` must be a str, and outlive the result.
    #[inline]
    pub(crate) unsafe fn utf8<'k>(&self, text: *mut ffi::PyObject) -> Result<&'k [u8], Fault> {
        // SAFETY: `text` is a str that outlives the result, so the UTF-8 that it keeps does as well. An encoder holds a
        // `Python`, so the GIL is held.
        unsafe { text::utf8(text) }.ok_or_else(|| raised(self.py))
    }

    /// Adds the name of the element that starts at `kind` to an error from within it. The name was written already, so
    /// the bytes there are its record.
    #[cold]
    pub(crate) fn misplaced(&self, fault: Fault, kind: usize, index: Option<usize>) -> Fault {
        if let Some(index) = index {
            return within(fault, Step::Index(index));
        }
        let name = self.out[kind + 1..].split(|byte| *byte == 0).next().unwrap_or_default();
        within(fault, Step::Key(String::from_utf8_lossy(name).into_owned()))
    }

    #[cold]
    fn wrong_key(&self, key: *mut ffi::PyObject) -> Fault {
        // SAFETY: a key of the dict that is walked over, in which it still is; from here on the reference keeps it alive,
        // even if its repr runs code.
        let key = unsafe { Bound::from_borrowed_ptr(self.py, key) };
        match key.repr() {
            Ok(repr) => {
                found(Kind::Document, format!("documents must have only string keys, key was {repr}"), "")
            }
            Err(error) => error.into(),
        }
    }
}

/// The number of items.
///
/// # Safety
/// `dict` must be a live dict, and the GIL be held.
#[inline]
unsafe fn dict_size(dict: *mut ffi::PyObject) -> ffi::Py_ssize_t {
    // SAFETY: `dict` is an instance of dict, so it begins with the structure of CPython's public header, in which this
    // number stands; it is only read.
    unsafe { (*dict.cast::<ffi::PyDictObject>()).ma_used }
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
    found(Kind::Document, format!("Key names must not contain the NULL byte, key was {shown:?}"), "")
}

/// Copies bytes; a few of them without a call.
///
/// # Safety
/// `to` must have room for them.
#[inline]
unsafe fn copy(bytes: &[u8], to: *mut u8) {
    let (from, length) = (bytes.as_ptr(), bytes.len());
    // SAFETY: all reads stay within the bytes and all writes within their length: the last word overlaps.
    unsafe {
        match length {
            8..=32 => {
                let mut at = 0;
                while at + 8 < length {
                    to.add(at).cast::<u64>().write_unaligned(from.add(at).cast::<u64>().read_unaligned());
                    at += 8;
                }
                let last = from.add(length - 8).cast::<u64>().read_unaligned();
                to.add(length - 8).cast::<u64>().write_unaligned(last);
            }
            4..8 => {
                let low = from.cast::<u32>().read_unaligned();
                let high = from.add(length - 4).cast::<u32>().read_unaligned();
                to.cast::<u32>().write_unaligned(low);
                to.add(length - 4).cast::<u32>().write_unaligned(high);
            }
            _ => std::ptr::copy_nonoverlapping(from, to, length),
        }
    }
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
