//! `ObjectId`: twelve bytes in a native class. A plain C type and not a `#[pyclass]`, because creating one through a
//! freelist costs 8 ns instead of 50 to 90, and every decoded document has one. Spec: objectid.
use std::ffi::{CStr, c_int, c_long, c_void};
use std::time::{SystemTime, UNIX_EPOCH};

use pyo3::exceptions::{PyOverflowError, PyTypeError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBytes, PyDict, PyString, PyType};

use super::cell::GilCell;
use super::fault::error_class;

/// An instance. Subclasses append to it.
#[repr(C)]
pub(crate) struct ObjectIdObject {
    head: ffi::PyObject,
    bytes: [u8; 12],
}

/// Released instances kept for the next allocation; each still owns its reference to the class.
const FREELIST: usize = 1024;

struct Free {
    objects: [*mut ObjectIdObject; FREELIST],
    count: usize,
}

static FREE: GilCell<Free> = GilCell::new(Free { objects: [std::ptr::null_mut(); FREELIST], count: 0 });

/// What makes new ids unique: five random bytes per process and a counter.
struct Generator {
    random: [u8; 5],
    counter: u32,
    is_seeded: bool,
}

static GENERATOR: GilCell<Generator> =
    GilCell::new(Generator { random: [0; 5], counter: 0, is_seeded: false });

static CLASS: PyOnceLock<Py<PyType>> = PyOnceLock::new();

/// The class, made by the first call.
pub(crate) fn class(py: Python<'_>) -> PyResult<&Bound<'_, PyType>> {
    CLASS.get_or_try_init(py, || make_class(py)).map(|class| class.bind(py))
}

/// The class as a raw pointer, for type comparisons. Null before `class` made it.
#[inline]
pub(crate) fn class_ptr(py: Python<'_>) -> *mut ffi::PyTypeObject {
    CLASS.get(py).map_or(std::ptr::null_mut(), |class| class.as_ptr().cast())
}

/// Creates an instance: a new reference, or null with the interpreter's error set.
///
/// # Safety
/// `class` must be what `class_ptr` returned, and not null.
#[inline]
pub(crate) unsafe fn create(
    py: Python<'_>,
    class: *mut ffi::PyTypeObject,
    bytes: [u8; 12],
) -> *mut ffi::PyObject {
    // SAFETY: the closure runs no Python code.
    let reused = unsafe {
        FREE.with(py, |free| {
            if free.count == 0 {
                return std::ptr::null_mut();
            }
            free.count -= 1;
            free.objects[free.count]
        })
    };
    // SAFETY: a reused object is whole but for its reference count of 0; a new one is of at least our size.
    unsafe {
        let object = if reused.is_null() {
            let object = ffi::PyType_GenericAlloc(class, 0).cast::<ObjectIdObject>();
            if object.is_null() {
                return std::ptr::null_mut();
            }
            object
        } else {
            // From 0 to 1.
            ffi::Py_INCREF(reused.cast());
            reused
        };
        (*object).bytes = bytes;
        object.cast()
    }
}

/// The twelve bytes of an instance.
///
/// # Safety
/// `object` must be an instance of the class or of a subclass.
#[inline]
pub(crate) unsafe fn bytes_of(object: *mut ffi::PyObject) -> [u8; 12] {
    // SAFETY: by the caller's promise the layout is ours.
    unsafe { (*object.cast::<ObjectIdObject>()).bytes }
}

/// Returns the bytes of a fresh id.
pub(crate) fn generate(py: Python<'_>) -> PyResult<[u8; 12]> {
    // SAFETY: the closure runs no Python code.
    if unsafe { !GENERATOR.with(py, |generator| generator.is_seeded) } {
        seed(py, true)?;
    }
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |elapsed| elapsed.as_secs()) as u32;
    // SAFETY: as above.
    let (random, counter) = unsafe {
        GENERATOR.with(py, |generator| {
            generator.counter = (generator.counter + 1) & 0x00FF_FFFF;
            (generator.random, generator.counter)
        })
    };
    let mut bytes = [0; 12];
    bytes[..4].copy_from_slice(&seconds.to_be_bytes());
    bytes[4..9].copy_from_slice(&random);
    bytes[9..].copy_from_slice(&counter.to_be_bytes()[1..]);
    Ok(bytes)
}

/// Creates an instance with a fresh id.
pub(crate) fn fresh(py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
    of_bytes(py, generate(py)?)
}

/// Creates an instance.
pub(crate) fn of_bytes(py: Python<'_>, bytes: [u8; 12]) -> PyResult<Bound<'_, PyAny>> {
    let class = class(py)?.as_ptr().cast();
    // SAFETY: `class` is our class; the result is a new reference or null with an error set.
    unsafe { Bound::from_owned_ptr_or_err(py, create(py, class, bytes)) }
}

/// Takes a new random part and a new start of the counter: in a forked child, or the two would make the same ids.
pub(crate) fn reseed(py: Python<'_>) -> PyResult<()> {
    seed(py, false)
}

/// Asks the system for random bytes, which lets other threads run; at first use the one that comes first counts.
fn seed(py: Python<'_>, only_first: bool) -> PyResult<()> {
    let random: Vec<u8> = py.import("os")?.call_method1("urandom", (8,))?.extract()?;
    // SAFETY: the closure runs no Python code.
    unsafe {
        GENERATOR.with(py, |generator| {
            if only_first && generator.is_seeded {
                return;
            }
            generator.random.copy_from_slice(&random[..5]);
            generator.counter = u32::from_be_bytes([0, random[5], random[6], random[7]]);
            generator.is_seeded = true;
        });
    }
    Ok(())
}

/// Parses what `ObjectId()` takes.
fn parse(value: &Bound<'_, PyAny>) -> PyResult<[u8; 12]> {
    let py = value.py();
    if value.is_none() {
        return generate(py);
    }
    if value.is_instance(class(py)?)? {
        // SAFETY: just checked.
        return Ok(unsafe { bytes_of(value.as_ptr()) });
    }
    if let Ok(text) = value.cast::<PyString>() {
        return text.to_str().ok().and_then(parse_hex).ok_or_else(|| invalid_id(value));
    }
    // Bytes of another length are a wrong type to the field's package, and so they are here.
    if let Some(bytes) = value.cast::<PyBytes>().ok().and_then(|bytes| bytes.as_bytes().try_into().ok()) {
        return Ok(bytes);
    }
    let found = value.get_type();
    Err(PyTypeError::new_err(format!("id must be an instance of (bytes, str, ObjectId), not {found}")))
}

fn parse_hex(text: &str) -> Option<[u8; 12]> {
    let text: &[u8; 24] = text.as_bytes().try_into().ok()?;
    let mut bytes = [0; 12];
    for (byte, pair) in bytes.iter_mut().zip(text.as_chunks::<2>().0) {
        let high = (pair[0] as char).to_digit(16)?;
        let low = (pair[1] as char).to_digit(16)?;
        *byte = (high << 4 | low) as u8;
    }
    Some(bytes)
}

fn invalid_id(value: &Bound<'_, PyAny>) -> PyErr {
    let text = match value.repr() {
        Ok(repr) => {
            format!("{repr} is not a valid ObjectId, it must be a 12-byte input or a 24-character hex string")
        }
        Err(error) => return error,
    };
    match error_class(value.py(), "InvalidId").and_then(|class| class.call1((text,))) {
        Ok(exception) => PyErr::from_value(exception),
        Err(error) => error,
    }
}

fn hex(bytes: [u8; 12]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    bytes
        .iter()
        .flat_map(|byte| [DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]])
        .map(char::from)
        .collect()
}

/// Runs a method body where C expects a pointer: errors and panics become the interpreter's error and null.
fn enter<F>(body: F) -> *mut ffi::PyObject
where
    F: for<'py> FnOnce(Python<'py>) -> PyResult<Bound<'py, PyAny>>,
{
    // SAFETY: the interpreter calls slots and methods with the GIL held.
    let py = unsafe { Python::assume_attached() };
    match body(py) {
        Ok(value) => value.into_ptr(),
        Err(error) => {
            error.restore(py);
            std::ptr::null_mut()
        }
    }
}

fn instance(class: *mut ffi::PyTypeObject, bytes: [u8; 12], py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
    // SAFETY: `class` is ours or a subclass, so its instances start with our layout.
    unsafe {
        if class == class_ptr(py) {
            return Bound::from_owned_ptr_or_err(py, create(py, class, bytes));
        }
        let allocate = (*class).tp_alloc.unwrap_or(ffi::PyType_GenericAlloc);
        let made = Bound::from_owned_ptr_or_err(py, allocate(class, 0))?;
        (*made.as_ptr().cast::<ObjectIdObject>()).bytes = bytes;
        Ok(made)
    }
}

unsafe extern "C" fn tp_new(
    class: *mut ffi::PyTypeObject,
    args: *mut ffi::PyObject,
    kwargs: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    enter(|py| {
        // SAFETY: the interpreter passes a tuple, and a dict or null.
        let (count, keywords) = unsafe {
            let keywords = Bound::from_borrowed_ptr_or_opt(py, kwargs);
            (ffi::PyTuple_GET_SIZE(args), keywords.map(|found| found.cast_into::<PyDict>()).transpose()?)
        };
        let named = match &keywords {
            Some(keywords) => keywords.get_item("oid")?,
            None => None,
        };
        let extra = keywords.map_or(0, |keywords| keywords.len() as isize) - isize::from(named.is_some());
        if count + isize::from(named.is_some()) > 1 || extra > 0 {
            return Err(PyTypeError::new_err("ObjectId() takes one argument, oid"));
        }
        let bytes = match named {
            Some(value) => parse(&value)?,
            None if count == 0 => generate(py)?,
            // SAFETY: the tuple has one item.
            None => parse(&unsafe { Bound::from_borrowed_ptr(py, ffi::PyTuple_GET_ITEM(args, 0)) })?,
        };
        instance(class, bytes, py)
    })
}

/// Everything happened in `tp_new`; this one lets subclasses hand their arguments to `super().__init__`.
unsafe extern "C" fn tp_init(_: *mut ffi::PyObject, _: *mut ffi::PyObject, _: *mut ffi::PyObject) -> c_int {
    0
}

unsafe extern "C" fn tp_dealloc(object: *mut ffi::PyObject) {
    // SAFETY: the interpreter calls this once, with the GIL held, for an object nobody refers to.
    unsafe {
        let py = Python::assume_attached();
        let class = ffi::Py_TYPE(object);
        let is_kept = class == class_ptr(py)
            && FREE.with(py, |free| {
                let has_room = free.count < FREELIST;
                if has_room {
                    free.objects[free.count] = object.cast();
                    free.count += 1;
                }
                has_room
            });
        if !is_kept {
            match (*class).tp_free {
                Some(free) => free(object.cast::<c_void>()),
                None => ffi::PyObject_Free(object.cast::<c_void>()),
            }
            ffi::Py_DECREF(class.cast());
        }
    }
}

unsafe extern "C" fn tp_repr(object: *mut ffi::PyObject) -> *mut ffi::PyObject {
    // SAFETY: `object` is an instance.
    let bytes = unsafe { bytes_of(object) };
    enter(|py| Ok(PyString::new(py, &format!("ObjectId('{}')", hex(bytes))).into_any()))
}

unsafe extern "C" fn tp_str(object: *mut ffi::PyObject) -> *mut ffi::PyObject {
    // SAFETY: `object` is an instance.
    let bytes = unsafe { bytes_of(object) };
    enter(|py| Ok(PyString::new(py, &hex(bytes)).into_any()))
}

unsafe extern "C" fn tp_hash(object: *mut ffi::PyObject) -> ffi::Py_hash_t {
    // SAFETY: `object` is an instance and the buffer is its twelve bytes.
    unsafe { hash_buffer((*object.cast::<ObjectIdObject>()).bytes.as_ptr().cast(), 12) }
}

unsafe extern "C" fn tp_richcompare(
    left: *mut ffi::PyObject,
    right: *mut ffi::PyObject,
    operator: c_int,
) -> *mut ffi::PyObject {
    // SAFETY: `left` is an instance; `right` is read as one only after the check.
    let order = unsafe {
        let class = class_ptr(Python::assume_attached());
        if ffi::Py_TYPE(right) != class && ffi::PyObject_TypeCheck(right, class) == 0 {
            let answer = ffi::Py_NotImplemented();
            ffi::Py_INCREF(answer);
            return answer;
        }
        bytes_of(left).cmp(&bytes_of(right))
    };
    let answer = match operator {
        ffi::Py_EQ => order.is_eq(),
        ffi::Py_NE => order.is_ne(),
        ffi::Py_LT => order.is_lt(),
        ffi::Py_LE => order.is_le(),
        ffi::Py_GT => order.is_gt(),
        _ => order.is_ge(),
    };
    // SAFETY: the GIL is held.
    unsafe { ffi::PyBool_FromLong(c_long::from(answer)) }
}

unsafe extern "C" fn get_binary(object: *mut ffi::PyObject, _: *mut c_void) -> *mut ffi::PyObject {
    // SAFETY: `object` is an instance; the bytes are copied.
    unsafe { ffi::PyBytes_FromStringAndSize((*object.cast::<ObjectIdObject>()).bytes.as_ptr().cast(), 12) }
}

unsafe extern "C" fn get_generation_time(object: *mut ffi::PyObject, _: *mut c_void) -> *mut ffi::PyObject {
    // SAFETY: `object` is an instance.
    let bytes = unsafe { bytes_of(object) };
    enter(|py| {
        let seconds = u32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
        let utc = py.import("mangonel.bson.tz_util")?.getattr("utc")?;
        py.import("datetime")?.getattr("datetime")?.call_method1("fromtimestamp", (seconds, utc))
    })
}

unsafe extern "C" fn from_datetime(
    class: *mut ffi::PyObject,
    time: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    enter(|py| {
        // SAFETY: METH_CLASS | METH_O: the class and one argument, both borrowed.
        let (class, time) =
            unsafe { (Bound::from_borrowed_ptr(py, class), Bound::from_borrowed_ptr(py, time)) };
        let millis = super::datetime::to_millis(&time)?;
        let seconds = u32::try_from(millis.div_euclid(1000)).map_err(|_| {
            PyOverflowError::new_err(
                "an ObjectId holds seconds from 1970-01-01 to 2106-02-07, the given time is outside",
            )
        })?;
        let mut bytes = [0; 12];
        bytes[..4].copy_from_slice(&seconds.to_be_bytes());
        class.call1((PyBytes::new(py, &bytes),))
    })
}

unsafe extern "C" fn is_valid(_: *mut ffi::PyObject, value: *mut ffi::PyObject) -> *mut ffi::PyObject {
    enter(|py| {
        // SAFETY: METH_CLASS | METH_O: one borrowed argument.
        let value = unsafe { Bound::from_borrowed_ptr(py, value) };
        let is_valid = value.is_truthy()? && {
            let parsed = parse(&value);
            match parsed {
                Ok(_) => true,
                Err(error) if error.is_instance_of::<PyTypeError>(py) => false,
                Err(error) if error.matches(py, error_class(py, "InvalidId")?)? => false,
                Err(error) => return Err(error),
            }
        };
        Ok(is_valid.into_pyobject(py)?.to_owned().into_any())
    })
}

unsafe extern "C" fn getstate(object: *mut ffi::PyObject, _: *mut ffi::PyObject) -> *mut ffi::PyObject {
    // SAFETY: `object` is an instance.
    unsafe { get_binary(object, std::ptr::null_mut()) }
}

/// Takes the states other libraries' pickles carry: bytes, the same bytes as latin-1 text, or a dict with either.
unsafe extern "C" fn setstate(object: *mut ffi::PyObject, state: *mut ffi::PyObject) -> *mut ffi::PyObject {
    enter(|py| {
        // SAFETY: METH_O: one borrowed argument.
        let mut state = unsafe { Bound::from_borrowed_ptr(py, state) };
        if let Ok(dict) = state.cast::<PyDict>() {
            state = dict.as_any().get_item("_ObjectId__id")?;
        }
        if state.is_instance_of::<PyString>() {
            state = state.call_method1("encode", ("latin-1",))?;
        }
        let bytes = state.cast::<PyBytes>().map_err(PyErr::from)?.as_bytes();
        let bytes: [u8; 12] = bytes.try_into().map_err(|_| invalid_id(&state))?;
        // SAFETY: `object` is an instance.
        unsafe { (*object.cast::<ObjectIdObject>()).bytes = bytes };
        Ok(py.None().into_bound(py))
    })
}

unsafe extern "C" fn reduce(object: *mut ffi::PyObject, _: *mut ffi::PyObject) -> *mut ffi::PyObject {
    enter(|py| {
        // SAFETY: `object` is a borrowed instance.
        let (this, bytes) = unsafe { (Bound::from_borrowed_ptr(py, object), bytes_of(object)) };
        Ok((this.get_type(), (PyBytes::new(py, &bytes),)).into_pyobject(py)?.into_any())
    })
}

const fn method(
    name: &'static CStr,
    function: ffi::PyCFunction,
    flags: c_int,
    doc: &'static CStr,
) -> ffi::PyMethodDef {
    ffi::PyMethodDef {
        ml_name: name.as_ptr(),
        ml_meth: ffi::PyMethodDefPointer { PyCFunction: function },
        ml_flags: flags,
        ml_doc: doc.as_ptr(),
    }
}

const fn getter(name: &'static CStr, get: ffi::getter, doc: &'static CStr) -> ffi::PyGetSetDef {
    ffi::PyGetSetDef {
        name: name.as_ptr(),
        get: Some(get),
        set: None,
        doc: doc.as_ptr(),
        closure: std::ptr::null_mut(),
    }
}

fn make_class(py: Python<'_>) -> PyResult<Py<PyType>> {
    let methods: &'static mut [ffi::PyMethodDef] = Box::leak(Box::new([
        method(
            c"from_datetime",
            from_datetime,
            ffi::METH_CLASS | ffi::METH_O,
            c"Return an ObjectId that sorts at this time, for range queries; it is not unique.",
        ),
        method(
            c"is_valid",
            is_valid,
            ffi::METH_CLASS | ffi::METH_O,
            c"Tell whether the value could be passed to ObjectId().",
        ),
        method(c"__getstate__", getstate, ffi::METH_NOARGS, c"Return the twelve bytes."),
        method(c"__setstate__", setstate, ffi::METH_O, c"Take the state of a pickle."),
        method(c"__reduce__", reduce, ffi::METH_NOARGS, c"Return how to make this id again."),
        ffi::PyMethodDef::zeroed(),
    ]));
    let getters: &'static mut [ffi::PyGetSetDef] = Box::leak(Box::new([
        getter(c"binary", get_binary, c"The twelve bytes."),
        getter(c"generation_time", get_generation_time, c"When it was generated: an aware datetime in UTC."),
        ffi::PyGetSetDef {
            name: std::ptr::null(),
            get: None,
            set: None,
            doc: std::ptr::null(),
            closure: std::ptr::null_mut(),
        },
    ]));
    let slot = |slot: c_int, function: *mut c_void| ffi::PyType_Slot { slot, pfunc: function };
    let doc = c"ObjectId(oid=None)\n--\n\nA unique id of twelve bytes: seconds, a random part of the process, a counter.\n\n\
                oid: None for a new id, 24 hexadecimal digits, 12 bytes, or another ObjectId.";
    let mut slots = [
        slot(ffi::Py_tp_new, tp_new as *mut c_void),
        slot(ffi::Py_tp_init, tp_init as *mut c_void),
        slot(ffi::Py_tp_dealloc, tp_dealloc as *mut c_void),
        slot(ffi::Py_tp_repr, tp_repr as *mut c_void),
        slot(ffi::Py_tp_str, tp_str as *mut c_void),
        slot(ffi::Py_tp_hash, tp_hash as *mut c_void),
        slot(ffi::Py_tp_richcompare, tp_richcompare as *mut c_void),
        slot(ffi::Py_tp_methods, methods.as_mut_ptr().cast()),
        slot(ffi::Py_tp_getset, getters.as_mut_ptr().cast()),
        slot(ffi::Py_tp_doc, doc.as_ptr().cast_mut().cast()),
        slot(0, std::ptr::null_mut()),
    ];
    let mut spec = ffi::PyType_Spec {
        name: c"mangonel.bson.objectid.ObjectId".as_ptr(),
        basicsize: size_of::<ObjectIdObject>() as c_int,
        itemsize: 0,
        flags: (ffi::Py_TPFLAGS_DEFAULT | ffi::Py_TPFLAGS_BASETYPE) as _,
        slots: slots.as_mut_ptr(),
    };
    // SAFETY: the specification's pointers are static or outlive the call, which copies what it keeps.
    let class = unsafe { Bound::from_owned_ptr_or_err(py, ffi::PyType_FromSpec(&mut spec))? };
    class.setattr("_type_marker", 7)?;
    Ok(class.cast_into::<PyType>()?.unbind())
}

#[cfg(not(Py_3_14))]
unsafe fn hash_buffer(buffer: *const c_void, length: ffi::Py_ssize_t) -> ffi::Py_hash_t {
    unsafe extern "C" {
        fn _Py_HashBytes(buffer: *const c_void, length: ffi::Py_ssize_t) -> ffi::Py_hash_t;
    }
    // SAFETY: the caller's buffer has this length.
    unsafe { _Py_HashBytes(buffer, length) }
}

#[cfg(Py_3_14)]
unsafe fn hash_buffer(buffer: *const c_void, length: ffi::Py_ssize_t) -> ffi::Py_hash_t {
    // SAFETY: the caller's buffer has this length.
    unsafe { ffi::Py_HashBuffer(buffer, length) }
}
