//! `int` subclasses, `datetime` and ASCII `str` made from the structures in CPython's public headers (`longintrepr.h`,
//! `datetime.h`, `unicodeobject.h`), without their constructors: an Int64 costs 10 ns instead of 50 to 70. Used if the
//! self-test at import passed. Knows no BSON.
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use pyo3::ffi;
use pyo3::prelude::*;

static ON: AtomicBool = AtomicBool::new(false);

/// Returns whether the self-test passed.
#[inline]
pub(super) fn is_on() -> bool {
    ON.load(Ordering::Relaxed)
}

/// Sets the result of the self-test.
pub(super) fn switch(is_on: bool) {
    ON.store(is_on, Ordering::Relaxed);
}

/// `PyDateTime_DateTime` without a zone; `fold` is read although the naive structure does not name it.
#[repr(C)]
struct NaiveDateTime {
    head: ffi::PyObject,
    hash: ffi::Py_hash_t,
    has_zone: u8,
    data: [u8; 10],
    fold: u8,
}

/// Makes a naive `datetime`: a new reference, or null with the error set.
///
/// # Safety
/// The C API of datetime must be imported, the milliseconds be in range and the self-test have passed or be at work.
#[inline]
pub(super) unsafe fn naive_datetime(millis: i64) -> *mut ffi::PyObject {
    let fields = super::datetime::split(millis);
    // SAFETY: the caller promises the C API, so the class is there. The interpreter takes the same size from the same allocator
    // and gives it back there; every field is set before anyone else sees the object.
    unsafe {
        let object = ffi::PyObject_Malloc(size_of::<NaiveDateTime>()).cast::<NaiveDateTime>();
        if object.is_null() {
            return ffi::PyErr_NoMemory();
        }
        ffi::PyObject_Init(object.cast(), (*ffi::PyDateTimeAPI()).DateTimeType);
        let year = (fields.year as u16).to_be_bytes();
        let micros = fields.micros.to_be_bytes();
        (*object).hash = -1;
        (*object).has_zone = 0;
        (*object).data = [
            year[0],
            year[1],
            fields.month,
            fields.day,
            fields.hour,
            fields.minute,
            fields.second,
            micros[1],
            micros[2],
            micros[3],
        ];
        (*object).fold = 0;
        object.cast()
    }
}

/// Writes the head of an object into new memory, with one reference, which the caller owns.
///
/// # Safety
/// `object` must have room for a head that nothing refers to yet. For a heap type the caller owns one more reference to it.
#[inline(always)]
unsafe fn begin(object: *mut ffi::PyObject, class: *mut ffi::PyTypeObject) {
    // SAFETY: the caller has room for the head. The count fills its first word; what later releases keep there beside the
    // count is zero.
    unsafe {
        object.cast::<isize>().write(1);
        (*object).ob_type = class;
    }
}

/// `PyLongObject` of up to three digits of 30 bits. The head's last word holds the number of digits and the sign.
#[repr(C)]
struct Long {
    head: ffi::PyVarObject,
    digits: [u32; 3],
}

/// The number of digits and the sign in one word.
#[cfg(not(Py_3_12))]
fn tag(count: isize, value: i64) -> isize {
    if value < 0 { -count } else { count }
}

/// The number of digits and the sign in one word.
#[cfg(Py_3_12)]
fn tag(count: isize, value: i64) -> isize {
    count << 3 | (1 - value.signum() as isize)
}

/// Makes an instance of a subclass of int that adds nothing: a new reference, or null with the error set.
///
/// # Safety
/// The class must have passed `is_plain_int`, and the self-test have passed or be at work.
#[inline]
pub(super) unsafe fn int(class: *mut ffi::PyTypeObject, value: i64) -> *mut ffi::PyObject {
    const DIGIT: u64 = (1 << 30) - 1;
    let magnitude = value.unsigned_abs();
    let digits = [(magnitude & DIGIT) as u32, (magnitude >> 30 & DIGIT) as u32, (magnitude >> 60) as u32];
    let count =
        isize::from(digits[0] != 0).max(2 * isize::from(digits[1] != 0)).max(3 * isize::from(digits[2] != 0));
    // SAFETY: memory for three digits holds any count. The interpreter takes the same size from the same allocator, and gives
    // it back there. Every field is set; an instance of a heap type, as the class is, owns a reference to it.
    unsafe {
        let object = ffi::PyObject_Malloc(size_of::<Long>()).cast::<Long>();
        if object.is_null() {
            return ffi::PyErr_NoMemory();
        }
        ffi::Py_INCREF(class.cast());
        begin(object.cast(), class);
        (*object).head.ob_size = tag(count, value);
        (*object).digits = digits;
        object.cast()
    }
}

/// Tells whether instances of the class have the layout of `int`, without the garbage collector's head before them.
pub(super) fn is_plain_int(class: *mut ffi::PyTypeObject) -> bool {
    // SAFETY: the callers pass the pointer of a class that they hold a reference to; `int` is static. Both are only read.
    unsafe {
        let base = &raw const ffi::PyLong_Type;
        (*class).tp_base.cast_const() == base
            && (*class).tp_basicsize == (*base).tp_basicsize
            && (*class).tp_itemsize == 4
            && (*class).tp_dictoffset == 0
            && (*class).tp_weaklistoffset == 0
            && (*class).tp_flags & (ffi::Py_TPFLAGS_HAVE_GC | ffi::Py_TPFLAGS_HEAPTYPE)
                == ffi::Py_TPFLAGS_HEAPTYPE
    }
}

/// `PyASCIIObject`, before its characters.
#[repr(C)]
struct Ascii {
    head: ffi::PyObject,
    length: isize,
    hash: ffi::Py_hash_t,
    state: u32,
    #[cfg(not(Py_3_12))]
    wide: *mut u8,
}

/// The `state` of a new ASCII string, read from a string of the interpreter: the compiler chooses the order of its
/// bits.
static STATE: AtomicU32 = AtomicU32::new(0);

/// Learns the layout of ASCII strings from a new one.
pub(super) fn learn_ascii(py: Python<'_>) -> PyResult<()> {
    // SAFETY: a new ASCII string of five characters, which the reference keeps alive; the self-test runs only for CPython as
    // it is usually built, whose structure this is. It is only read.
    unsafe {
        let sample = Bound::from_owned_ptr_or_err(py, ffi::PyUnicode_New(5, 127))?;
        STATE.store((*sample.as_ptr().cast::<Ascii>()).state, Ordering::Relaxed);
    }
    Ok(())
}

/// Returns the characters of an ASCII string that are stored in the object itself; `None` for other strings, or if this
/// is unknown.
///
/// # Safety
/// `text` must be a live str, and outlive the result.
#[inline]
pub(super) unsafe fn ascii_of<'k>(text: *mut ffi::PyObject) -> Option<&'k [u8]> {
    // SAFETY: a live str by the caller's promise. Such characters stand behind the structure, as many as its length says,
    // and neither move nor change.
    unsafe {
        #[cfg(not(Py_3_14))]
        let data = (ffi::PyUnicode_IS_COMPACT_ASCII(text) != 0).then(|| ffi::PyUnicode_1BYTE_DATA(text));
        // 3.14 exports no function for this test. A new ASCII string has only these bits set.
        #[cfg(Py_3_14)]
        let data = {
            let (sample, object) = (STATE.load(Ordering::Relaxed), text.cast::<Ascii>());
            (is_on() && (*object).state & sample == sample).then(|| object.add(1).cast::<u8>())
        };
        data.map(|data| std::slice::from_raw_parts(data, ffi::PyUnicode_GET_LENGTH(text) as usize))
    }
}

/// Makes a string of two or more ASCII characters: a new reference, or null with the error set.
///
/// # Safety
/// `bytes` must be ASCII and longer than one, and the self-test have passed or be at work.
#[inline(always)]
pub(super) unsafe fn ascii(bytes: &[u8]) -> *mut ffi::PyObject {
    // SAFETY: the interpreter takes the same size from the same allocator, and every field is set. `str` is a static
    // type, so its instances hold no reference to it.
    unsafe {
        let object = ffi::PyObject_Malloc(size_of::<Ascii>() + bytes.len() + 1).cast::<Ascii>();
        if object.is_null() {
            return ffi::PyErr_NoMemory();
        }
        begin(object.cast(), &raw mut ffi::PyUnicode_Type);
        (*object).length = bytes.len() as isize;
        (*object).hash = -1;
        (*object).state = STATE.load(Ordering::Relaxed);
        #[cfg(not(Py_3_12))]
        {
            (*object).wide = std::ptr::null_mut();
        }
        let data = object.add(1).cast::<u8>();
        match (bytes.first_chunk::<8>(), bytes.last_chunk::<8>()) {
            // Two words, which may overlap, rather than a call.
            (Some(first), Some(last)) if bytes.len() <= 16 => {
                data.cast::<[u8; 8]>().write(*first);
                data.add(bytes.len() - 8).cast::<[u8; 8]>().write(*last);
            }
            _ => std::ptr::copy_nonoverlapping(bytes.as_ptr(), data, bytes.len()),
        }
        data.add(bytes.len()).write(0);
        object.cast()
    }
}
