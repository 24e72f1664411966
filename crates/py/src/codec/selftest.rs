//! Decides at import whether `objects` and `layout` may be used: what they make must behave in every way as what the
//! interpreter makes. A failed check switches them off silently, and everything goes through the constructors.
use std::sync::atomic::{AtomicBool, Ordering};

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyString};

use super::{datetime, layout, objects};

/// What the self-test said; `set` cannot switch on what failed it.
static PASSED: AtomicBool = AtomicBool::new(false);

/// Runs the self-test and switches on what passed it and the environment does not forbid.
pub(super) fn decide(py: Python<'_>) -> PyResult<()> {
    // SAFETY: the GIL is held; the import is idempotent.
    unsafe { ffi::PyDateTime_IMPORT() };
    if let Some(error) = PyErr::take(py) {
        return Err(error);
    }
    if !is_usual(py)? {
        return Ok(());
    }
    // SAFETY: the structures are those of the headers this module was built with, for CPython as it is usually built.
    let are_objects_right =
        unsafe { dates(py).unwrap_or(false) && ints(py).unwrap_or(false) && strings(py).unwrap_or(false) };
    objects::switch(are_objects_right);
    if !layout::is_verified(py)? {
        return Ok(());
    }
    // SAFETY: the release is one whose tables were compared with ours.
    let are_dicts_right = unsafe { layout::shares_empty_table() && dicts(py).unwrap_or(false) };
    PASSED.store(are_dicts_right, Ordering::Relaxed);
    let is_wanted = std::env::var_os("MANGONEL_DICT_LAYOUT").is_none_or(|value| value != "0");
    layout::switch(are_dicts_right && is_wanted);
    Ok(())
}

/// Switches the layout on or off, for tests; tells whether it is on.
pub(super) fn set(is_on: bool) -> bool {
    let is_on = is_on && PASSED.load(Ordering::Relaxed);
    layout::switch(is_on);
    is_on
}

/// Tells whether this is CPython on 64 bits with the GIL; builds that count or trace references have other structures.
fn is_usual(py: Python<'_>) -> PyResult<bool> {
    let sys = py.import("sys")?;
    Ok(cfg!(all(target_pointer_width = "64", target_endian = "little", not(Py_GIL_DISABLED)))
        && sys.getattr("implementation")?.getattr("name")?.eq("cpython")?
        && sys.getattr("int_info")?.getattr("bits_per_digit")?.eq(30)?
        && !sys.hasattr("gettotalrefcount")?
        && !sys.hasattr("getobjects")?)
}

/// # Safety
/// The version must be verified.
unsafe fn dicts(py: Python<'_>) -> PyResult<bool> {
    // Sizes on both sides of each growth of the table, and of the change to two-byte indices.
    for size in [1, 2, 4, 5, 6, 10, 11, 21, 22, 85, 86, 170, 171, 342] {
        let expected = PyDict::new(py);
        let template = PyDict::new(py);
        for index in 0..size {
            let name = PyString::intern(py, &format!("mangonel key {index}"));
            template.set_item(&name, py.None())?;
            expected.set_item(&name, PyList::new(py, [index])?)?;
        }
        let values: Vec<*mut ffi::PyObject> = expected.values().iter().map(Bound::into_ptr).collect();
        // SAFETY: by the caller's promise; the template is ours and the values are owned.
        let made = unsafe {
            let Some(table) = layout::open_unchecked(template.clone().into_ptr(), size) else {
                return Ok(false);
            };
            let made = layout::dict(&table, &values, true);
            ffi::Py_DECREF(table.into_dict());
            Bound::from_owned_ptr_or_err(py, made)?
        };
        let made = made.cast_into::<PyDict>()?;
        let is_right = made.eq(&expected)?
            && made.len() == size
            && made.repr()?.as_any().eq(expected.repr()?)?
            && made.get_item("mangonel key 0")?.is_some_and(|value| references(&value) == 3)
            && made.get_item("mangonel key x")?.is_none()
            && made.copy()?.eq(&expected)?;
        // Growing, shrinking and emptying it must keep working, and both must stay equal through it.
        for dict in [&made, &expected] {
            dict.set_item("mangonel key 0", 5)?;
            dict.del_item(format!("mangonel key {}", size - 1))?;
            for index in 0..20 {
                dict.set_item(format!("another {index}"), dict)?;
                dict.set_item(index, index)?;
            }
        }
        let is_still_right = made.keys().eq(expected.keys())? && made.len() == expected.len();
        made.clear();
        expected.clear();
        if !is_right || !is_still_right || !made.is_empty() {
            return Ok(false);
        }
    }
    Ok(true)
}

/// # Safety
/// The structures must be those of this interpreter, and the C API of datetime imported.
unsafe fn dates(py: Python<'_>) -> PyResult<bool> {
    for millis in [datetime::MIN_MILLIS, -1, 0, 1, 951_782_399_999, 1_600_000_000_123, datetime::MAX_MILLIS] {
        // SAFETY: by the caller's promise; the milliseconds are in range.
        let (made, expected) = unsafe {
            let made = Bound::from_owned_ptr_or_err(py, objects::naive_datetime(millis))?;
            (made, Bound::from_owned_ptr_or_err(py, datetime::create(millis, ffi::Py_None()))?)
        };
        let is_right = made.eq(&expected)?
            && made.hash()? == expected.hash()?
            && made.repr()?.as_any().eq(expected.repr()?)?
            && made.getattr("fold")?.eq(0)?
            && made.call_method0("__reduce__")?.eq(expected.call_method0("__reduce__")?)?;
        if !is_right {
            return Ok(false);
        }
    }
    Ok(true)
}

/// # Safety
/// The structures must be those of this interpreter.
unsafe fn ints(py: Python<'_>) -> PyResult<bool> {
    let body = PyDict::new(py);
    body.set_item("__slots__", pyo3::types::PyTuple::empty(py))?;
    let class = py.get_type::<pyo3::types::PyType>().call1((
        "Sample",
        (py.get_type::<pyo3::types::PyInt>(),),
        body,
    ))?;
    if !objects::is_plain_int(class.as_ptr().cast()) {
        return Ok(false);
    }
    let before = references(&class);
    for shift in 0..64 {
        for value in [i64::MIN >> shift, i64::MAX >> shift, 1 << shift, 0] {
            // SAFETY: by the caller's promise; the class was just checked.
            let made =
                unsafe { Bound::from_owned_ptr_or_err(py, objects::int(class.as_ptr().cast(), value))? };
            let expected = class.call1((value,))?;
            let is_right = made.eq(&expected)?
                && made.get_type().is(&class)
                && made.hash()? == expected.hash()?
                && made.extract::<i64>()? == value
                && made.repr()?.as_any().eq(expected.repr()?)?
                && made.add(1)?.eq(expected.add(1)?)?;
            if !is_right {
                return Ok(false);
            }
        }
    }
    Ok(references(&class) == before)
}

/// # Safety
/// The structures must be those of this interpreter.
unsafe fn strings(py: Python<'_>) -> PyResult<bool> {
    objects::learn_ascii(py)?;
    let size = py.import("sys")?.getattr("getsizeof")?;
    for length in [2, 3, 7, 8, 15, 16, 17, 31, 32, 33, 100, 1000] {
        let text: String = (0..length).map(|index| char::from(b' ' + (index * 7 % 95) as u8)).collect();
        // SAFETY: by the caller's promise; the text is ASCII.
        let made = unsafe { Bound::from_owned_ptr_or_err(py, objects::ascii(text.as_bytes()))? };
        let expected = PyString::new(py, &text);
        let names = PyDict::new(py);
        names.set_item(&expected, 1)?;
        let is_right = made.eq(&expected)?
            && made.get_type().is(py.get_type::<PyString>())
            && made.hash()? == expected.hash()?
            && made.repr()?.as_any().eq(expected.repr()?)?
            && made.len()? == text.len()
            && made.cast::<PyString>()?.to_str()? == text
            && made.add(&expected)?.eq(expected.add(&made)?)?
            && made.add("é")?.eq(expected.add("é")?)?
            && made.call_method0("upper")?.eq(expected.call_method0("upper")?)?
            && made.call_method0("isascii")?.is_truthy()?
            && size.call1((&made,))?.eq(size.call1((&expected,))?)?
            && names.contains(&made)?;
        if !is_right {
            return Ok(false);
        }
    }
    Ok(true)
}

fn references(object: &Bound<'_, PyAny>) -> isize {
    // SAFETY: a live object.
    unsafe { ffi::Py_REFCNT(object.as_ptr()) }
}
