//! `ObjectId`: twelve bytes in a native class. A plain C type and not a `#[pyclass]`, because creating one through a
//! freelist costs 8 ns instead of 50 to 90, and every decoded document has one. Spec: objectid.
use std::ffi::{CStr, c_int, c_long, c_void};
use std::time::{SystemTime, UNIX_EPOCH};

use pyo3::exceptions::{PyOverflowError, PyTypeError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBytes, PyDict, PyString, PyTuple, PyType};

use super::cell::GilCell;
use super::fault::error_class;
use crate::native::{counted, enter, free, make_class, slot};

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

/// The source of unique ids: five random bytes per process and a counter.
#[derive(Clone, Copy)]
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
    CLASS.get_or_try_init(py, || make(py)).map(|class| class.bind(py))
}

/// The class, if the module has made it.
#[inline]
pub(crate) fn known_class(py: Python<'_>) -> Option<&Py<PyType>> {
    CLASS.get(py)
}

/// The class as a raw pointer, for type comparisons. Null before `class` made it.
#[inline]
pub(crate) fn class_ptr(py: Python<'_>) -> *mut ffi::PyTypeObject {
    CLASS.get(py).map_or(std::ptr::null_mut(), |class| class.as_ptr().cast())
}

/// Creates an instance: a new reference, or null with the interpreter's error set.
///
/// # Safety
/// `class` must be the result of `class_ptr`, and not null.
#[inline]
pub(crate) unsafe fn create(
    py: Python<'_>,
    class: *mut ffi::PyTypeObject,
    bytes: [u8; 12],
) -> *mut ffi::PyObject {
    // SAFETY: the closure moves a pointer and a number and runs no Python code.
    let reused = unsafe {
        FREE.with(py, |free| {
            if free.count == 0 {
                return std::ptr::null_mut();
            }
            free.count -= 1;
            free.objects[free.count]
        })
    };
    // SAFETY: a reused object is complete except for its reference count of 0, and owns a reference to the class; a new
    // one is of our size, as the caller promises the class. Nothing else refers to either.
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
    // SAFETY: `object` is of the class or a subclass, whose instances begin with our structure; the bytes are copied
    // out of it.
    unsafe { (*object.cast::<ObjectIdObject>()).bytes }
}

/// Ids that were made together; only their counters differ.
#[derive(Clone, Copy, Debug)]
pub struct IdRange {
    seconds: u32,
    random: [u8; 5],
    counter: u32,
}

impl IdRange {
    /// Returns the bytes of one of them.
    #[inline]
    pub fn get(&self, index: usize) -> [u8; 12] {
        let counter = u64::from(self.counter) + index as u64;
        // The counter has three bytes; when it wraps around, the next second keeps ids distinct.
        let seconds = self.seconds.wrapping_add((counter >> 24) as u32);
        let mut bytes = [0; 12];
        bytes[..4].copy_from_slice(&seconds.to_be_bytes());
        bytes[4..9].copy_from_slice(&self.random);
        bytes[9..].copy_from_slice(&(counter as u32).to_be_bytes()[1..]);
        bytes
    }
}

/// Makes this many fresh ids.
pub(crate) fn generate_many(py: Python<'_>, count: usize) -> PyResult<IdRange> {
    if !GENERATOR.get(py).is_seeded {
        seed(py, true)?;
    }
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |elapsed| elapsed.as_secs()) as u32;
    let mut generator = GENERATOR.get(py);
    let first = generator.counter.wrapping_add(1);
    generator.counter = generator.counter.wrapping_add(count as u32) & 0x00FF_FFFF;
    GENERATOR.replace(py, generator);
    Ok(IdRange { seconds, random: generator.random, counter: first & 0x00FF_FFFF })
}

/// Returns the bytes of a fresh id.
pub(crate) fn generate(py: Python<'_>) -> PyResult<[u8; 12]> {
    if !GENERATOR.get(py).is_seeded {
        seed(py, true)?;
    }
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |elapsed| elapsed.as_secs()) as u32;
    let mut generator = GENERATOR.get(py);
    generator.counter = (generator.counter + 1) & 0x00FF_FFFF;
    GENERATOR.replace(py, generator);
    let mut bytes = [0; 12];
    bytes[..4].copy_from_slice(&seconds.to_be_bytes());
    bytes[4..9].copy_from_slice(&generator.random);
    bytes[9..].copy_from_slice(&generator.counter.to_be_bytes()[1..]);
    Ok(bytes)
}

/// Creates an instance with a fresh id.
pub(crate) fn fresh(py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
    of_bytes(py, generate(py)?)
}

/// Creates an instance.
pub(crate) fn of_bytes(py: Python<'_>, bytes: [u8; 12]) -> PyResult<Bound<'_, PyAny>> {
    let class = class(py)?.as_ptr().cast();
    // SAFETY: the class was just made or found, so it is what `class_ptr` returns; the result is a new reference or null with
    // the error set.
    unsafe { Bound::from_owned_ptr_or_err(py, create(py, class, bytes)) }
}

/// Takes a new random part and a new start of the counter: in a forked child, which would otherwise make the same ids
/// as its parent.
pub(crate) fn reseed(py: Python<'_>) -> PyResult<()> {
    seed(py, false)
}

/// Gets random bytes from the system, which lets other threads run; at first use the first thread's bytes are kept.
fn seed(py: Python<'_>, only_first: bool) -> PyResult<()> {
    let random: [u8; 8] = py.import("os")?.call_method1("urandom", (8,))?.extract()?;
    if only_first && GENERATOR.get(py).is_seeded {
        return Ok(());
    }
    let counter = u32::from_be_bytes([0, random[5], random[6], random[7]]);
    let random = [random[0], random[1], random[2], random[3], random[4]];
    GENERATOR.replace(py, Generator { random, counter, is_seeded: true });
    Ok(())
}

/// Parses the argument of `ObjectId()`.
fn parse(value: &Bound<'_, PyAny>) -> PyResult<[u8; 12]> {
    let py = value.py();
    if value.is_none() {
        return generate(py);
    }
    if value.is_instance(class(py)?)? {
        // SAFETY: just checked; `value` is borrowed, and so alive.
        return Ok(unsafe { bytes_of(value.as_ptr()) });
    }
    if let Ok(text) = value.cast::<PyString>() {
        return text.to_str().ok().and_then(parse_hex).ok_or_else(|| invalid_id(value));
    }
    // For bytes of another length, PyMongo's ObjectId raises TypeError, and so does this one.
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

fn instance(class: *mut ffi::PyTypeObject, bytes: [u8; 12], py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
    // SAFETY: `tp_new` gets our class or a subclass, whose instances start with our layout and which is alive meanwhile; a
    // new instance is not referenced elsewhere.
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

/// # Safety
/// Called by the interpreter, the GIL held, with live objects of the types that the slot takes.
unsafe extern "C" fn tp_new(
    class: *mut ffi::PyTypeObject,
    args: *mut ffi::PyObject,
    kwargs: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    enter(std::ptr::null_mut(), |py| {
        // SAFETY: the interpreter passes a live class, a tuple, and a dict or null, and keeps them alive meanwhile.
        let (args, keywords) =
            unsafe { (Bound::from_borrowed_ptr(py, args), Bound::from_borrowed_ptr_or_opt(py, kwargs)) };
        let args = args.cast_into::<PyTuple>()?;
        let keywords = keywords.map(|found| found.cast_into::<PyDict>()).transpose()?;
        let named = match &keywords {
            Some(keywords) => keywords.get_item("oid")?,
            None => None,
        };
        let given = args.len() + usize::from(named.is_some());
        let extra = keywords.map_or(0, |keywords| keywords.len()) > usize::from(named.is_some());
        if given > 1 || extra {
            return Err(PyTypeError::new_err("ObjectId() takes one argument, oid"));
        }
        let bytes = match named {
            Some(value) => parse(&value)?,
            None if args.is_empty() => generate(py)?,
            None => parse(&args.get_item(0)?)?,
        };
        instance(class, bytes, py).map(Bound::into_ptr)
    })
}

/// Does nothing, since `tp_new` did everything; it lets subclasses pass their arguments to `super().__init__`.
///
/// # Safety
/// Called by the interpreter, the GIL held, with live objects of the types that the slot takes.
unsafe extern "C" fn tp_init(_: *mut ffi::PyObject, _: *mut ffi::PyObject, _: *mut ffi::PyObject) -> c_int {
    0
}

/// # Safety
/// Called by the interpreter, the GIL held, with live objects of the types that the slot takes.
unsafe extern "C" fn tp_dealloc(object: *mut ffi::PyObject) {
    // SAFETY: the interpreter calls this once, with the GIL held, for an instance without references. One that is kept
    // stays whole, with its reference to the class; the closure moves numbers and runs no Python code.
    unsafe {
        let py = Python::assume_attached();
        let class = ffi::Py_TYPE(object);
        let is_kept = class == class_ptr(py)
            && FREE.with(py, |kept| {
                let has_room = kept.count < FREELIST;
                if has_room {
                    kept.objects[kept.count] = object.cast();
                    kept.count += 1;
                }
                has_room
            });
        if !is_kept {
            free(object);
        }
    }
}

/// Declares functions that the interpreter calls with an instance and no other relevant argument, each around a safe
/// one.
///
/// # Safety
/// The functions are for this class's table alone: called with a live instance of it, and with the GIL held.
macro_rules! called_with_an_instance {
    ($($name:ident($($ignored:ty)?) => $body:ident;)*) => {$(
        unsafe extern "C" fn $name(object: *mut ffi::PyObject $(, _: $ignored)?) -> *mut ffi::PyObject {
            // SAFETY: it stands in the table of this class alone, whose functions the interpreter calls with a live
            // instance, and with the GIL held.
            let bytes = unsafe { bytes_of(object) };
            called(object, |this| $body(this, bytes))
        }
    )*};
}

called_with_an_instance! {
    tp_repr() => repr;
    tp_str() => text;
    get_binary(*mut c_void) => binary;
    get_generation_time(*mut c_void) => generation_time;
    getstate(*mut ffi::PyObject) => binary;
    reduce(*mut ffi::PyObject) => how_to_make;
}

/// Runs a method's body with the interpreter's first argument: an instance, or the class.
fn called<F>(object: *mut ffi::PyObject, body: F) -> *mut ffi::PyObject
where
    F: for<'py> FnOnce(&Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>>,
{
    enter(std::ptr::null_mut(), |py| {
        // SAFETY: the interpreter keeps its arguments alive until the method returns.
        let object = unsafe { Bound::from_borrowed_ptr(py, object) };
        body(&object).map(Bound::into_ptr)
    })
}

fn repr<'py>(this: &Bound<'py, PyAny>, bytes: [u8; 12]) -> PyResult<Bound<'py, PyAny>> {
    Ok(PyString::new(this.py(), &format!("ObjectId('{}')", hex(bytes))).into_any())
}

fn text<'py>(this: &Bound<'py, PyAny>, bytes: [u8; 12]) -> PyResult<Bound<'py, PyAny>> {
    Ok(PyString::new(this.py(), &hex(bytes)).into_any())
}

fn binary<'py>(this: &Bound<'py, PyAny>, bytes: [u8; 12]) -> PyResult<Bound<'py, PyAny>> {
    super::bytes_of(this.py(), &bytes).map(Bound::into_any)
}

fn generation_time<'py>(this: &Bound<'py, PyAny>, bytes: [u8; 12]) -> PyResult<Bound<'py, PyAny>> {
    let py = this.py();
    let seconds = u32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
    let utc = py.import("mangonel.bson.tz_util")?.getattr("utc")?;
    py.import("datetime")?.getattr("datetime")?.call_method1("fromtimestamp", (seconds, utc))
}

fn how_to_make<'py>(this: &Bound<'py, PyAny>, bytes: [u8; 12]) -> PyResult<Bound<'py, PyAny>> {
    let py = this.py();
    Ok((this.get_type(), (PyBytes::new(py, &bytes),)).into_pyobject(py)?.into_any())
}

/// # Safety
/// Called by the interpreter, the GIL held, with live objects of the types that the slot takes.
unsafe extern "C" fn tp_hash(object: *mut ffi::PyObject) -> ffi::Py_hash_t {
    // SAFETY: the interpreter passes a live instance, and the buffer is its twelve bytes.
    unsafe { ffi::compat::Py_HashBuffer((*object.cast::<ObjectIdObject>()).bytes.as_ptr().cast(), 12) }
}

/// # Safety
/// Called by the interpreter, the GIL held, with live objects of the types that the slot takes.
unsafe extern "C" fn tp_richcompare(
    left: *mut ffi::PyObject,
    right: *mut ffi::PyObject,
    operator: c_int,
) -> *mut ffi::PyObject {
    // SAFETY: the interpreter passes live objects with the GIL held. `left` is an instance, as the slot is this class's;
    // `right` is read as one only after the check.
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
    // SAFETY: the interpreter called with the GIL held; the call takes any number.
    unsafe { ffi::PyBool_FromLong(c_long::from(answer)) }
}

/// # Safety
/// Called by the interpreter, the GIL held, with live objects as the method's flags say.
unsafe extern "C" fn from_datetime(
    class: *mut ffi::PyObject,
    time: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    called(time, |time| {
        let py = time.py();
        let millis = super::datetime::to_millis(time)?;
        let seconds = u32::try_from(millis.div_euclid(1000)).map_err(|_| {
            PyOverflowError::new_err(format!(
                "expected a time from 1970-01-01 to 2106-02-07 for an ObjectId, got {time}"
            ))
        })?;
        let mut bytes = [0; 12];
        bytes[..4].copy_from_slice(&seconds.to_be_bytes());
        // SAFETY: METH_CLASS: the interpreter passes the class first and keeps it alive until the method returns.
        let class = unsafe { Bound::from_borrowed_ptr(py, class) };
        class.call1((PyBytes::new(py, &bytes),))
    })
}

/// # Safety
/// Called by the interpreter, the GIL held, with live objects as the method's flags say.
unsafe extern "C" fn is_valid(_: *mut ffi::PyObject, value: *mut ffi::PyObject) -> *mut ffi::PyObject {
    called(value, |value| {
        let py = value.py();
        let is_valid = value.is_truthy()?
            && match parse(value) {
                Ok(_) => true,
                Err(error) => counted(py, |py| if is_refusal(py, &error)? { Ok(false) } else { Err(error) })?,
            };
        Ok(is_valid.into_pyobject(py)?.to_owned().into_any())
    })
}

/// Whether an error means that a value is not a valid id.
fn is_refusal(py: Python<'_>, error: &PyErr) -> PyResult<bool> {
    Ok(error.is_instance_of::<PyTypeError>(py) || error.matches(py, error_class(py, "InvalidId")?)?)
}

/// Accepts the states in pickles of other libraries: bytes, the same bytes as latin-1 text, or a dict with either.
///
/// # Safety
/// Called by the interpreter, the GIL held, with live objects as the method's flags say.
unsafe extern "C" fn setstate(object: *mut ffi::PyObject, state: *mut ffi::PyObject) -> *mut ffi::PyObject {
    called(state, |state| {
        let py = state.py();
        let mut state = state.clone();
        if let Ok(dict) = state.cast::<PyDict>() {
            state = dict.as_any().get_item("_ObjectId__id")?;
        }
        if state.is_instance_of::<PyString>() {
            state = state.call_method1("encode", ("latin-1",))?;
        }
        let bytes = state.cast::<PyBytes>().map_err(PyErr::from)?.as_bytes();
        let bytes: [u8; 12] = bytes.try_into().map_err(|_| invalid_id(&state))?;
        // SAFETY: the interpreter passes an instance first and keeps it alive until the method returns; nothing is
        // borrowed of it.
        unsafe { (*object.cast::<ObjectIdObject>()).bytes = bytes };
        Ok(py.None().into_bound(py))
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

fn make(py: Python<'_>) -> PyResult<Py<PyType>> {
    let methods: &'static mut [ffi::PyMethodDef] = Box::leak(Box::new([
        method(
            c"from_datetime",
            from_datetime,
            ffi::METH_CLASS | ffi::METH_O,
            c"from_datetime($type, generation_time, /)\n--\n\n\
              Return an ObjectId that sorts at this time, for range queries; it is not unique.\n\n\
              Args:\n    generation_time: a datetime; one without a time zone is in UTC.\n\n\
              Raises:\n    OverflowError: it is before 1970 or after 2106-02-07.\n\n\
              Example:\n    >>> import datetime\n    >>> ObjectId.from_datetime(datetime.datetime(2026, 1, 1))\n\
              \x20   ObjectId('6955b9000000000000000000')",
        ),
        method(
            c"is_valid",
            is_valid,
            ffi::METH_CLASS | ffi::METH_O,
            c"is_valid($type, oid, /)\n--\n\nTell whether the value could be passed to ObjectId().\n\n\
              Args:\n    oid: any value; None and what is empty are no ids.\n\n\
              Example:\n    >>> ObjectId.is_valid(\"6955b9000000000000000000\"), ObjectId.is_valid(\"shop\")\n\
              \x20   (True, False)",
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
    let flags = ffi::Py_TPFLAGS_DEFAULT | ffi::Py_TPFLAGS_BASETYPE;
    let size = size_of::<ObjectIdObject>();
    let class = make_class(py, c"mangonel.bson.objectid.ObjectId", size, flags, &mut slots)?;
    class.bind(py).setattr("_type_marker", 7)?;
    Ok(class)
}
