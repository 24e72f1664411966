//! Decides at import whether `objects` and `layout` may be used: their objects must behave exactly as the
//! interpreter's own. A failed check switches them off, everything goes through the constructors, and `found`
//! says why. At import a few samples are made, which takes a quarter of a millisecond; the tests make all of
//! them, by `hold`.
use std::ffi::CStr;
use std::sync::atomic::{AtomicU8, Ordering};

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyString};

use super::{datetime, layout, objects};

/// The results for `objects` and `layout`, as indexes of `WORDS`; `set` cannot switch on one that is unusable.
static OBJECTS: AtomicU8 = AtomicU8::new(OTHER_INTERPRETER);
static DICTS: AtomicU8 = AtomicU8::new(OTHER_INTERPRETER);

const OTHER_INTERPRETER: u8 = 0;
const OTHER_HEADERS: u8 = 1;
const FAILED: u8 = 2;
const SWITCHED_OFF: u8 = 3;
const ON: u8 = 4;

const WORDS: [&str; 5] = [
    "off: not CPython with the GIL on 64 bits",
    "off: built without this CPython's headers, or they differ from what is known",
    "off: the self-test failed on this interpreter",
    "off: MANGONEL_DICT_LAYOUT is 0",
    "on",
];

/// The objects to make and compare.
struct Samples {
    /// Sizes of dicts.
    sizes: &'static [usize],
    /// Shifts of the ends of the integers' range.
    shifts: &'static [u32],
    /// Milliseconds since 1970.
    dates: &'static [i64],
    /// Lengths of strings.
    lengths: &'static [usize],
    /// Makes a list of dicts named `tables`.
    tables: &'static CStr,
}

/// One sample of each kind: tables of every kind, indices of one and of two bytes, integers of one, two and three
/// digits.
const FEW: Samples = Samples {
    sizes: &[1, 6, 171],
    shifts: &[0, 2, 33, 63],
    dates: &[-1, 1_600_000_000_123],
    lengths: &[2, 15, 100],
    tables: c"class Sample: pass
sample = Sample()
sample.first = 1
holes = dict.fromkeys('abc')
del holes['a']
tables = [{}, sample.__dict__, holes, {'a': 1, 2: 'b'}]",
};

/// Sizes on both sides of each growth of the table, and of the change to two-byte indices; tables of str keys, of others,
/// split between instances, with holes, grown and emptied.
const ALL: Samples = Samples {
    sizes: &[1, 2, 4, 5, 6, 10, 11, 21, 22, 85, 86, 170, 171, 342],
    shifts: &{
        let mut shifts = [0; 64];
        let mut shift = 0;
        while shift < 64 {
            shifts[shift] = shift as u32;
            shift += 1;
        }
        shifts
    },
    dates: &[datetime::MIN_MILLIS, -1, 0, 1, 951_782_399_999, 1_600_000_000_123, datetime::MAX_MILLIS],
    lengths: &[2, 3, 7, 8, 15, 16, 17, 31, 32, 33, 100, 1000],
    tables: c"class Sample: pass
samples = [Sample(), Sample()]
for sample in samples:
    sample.first, sample.second = [1], 2
split = samples[0].__dict__
strings = {f'key {i}': i for i in range(50)}
holes = {**strings}
for i in (0, 7, 49): del holes[f'key {i}']
grown = {**holes, **{f'more {i}': [i] for i in range(400)}}
mixed = {'a': 1, 2: 'b', None: [3]}
emptied = {**strings}
emptied.clear()
emptied['again'] = 1
tables = [{}, {'one': 1}, split, strings, holes, grown, mixed, emptied, dict.fromkeys('abc')]",
};

/// Runs the self-test and switches on the parts that pass, unless the environment forbids them.
pub(super) fn decide(py: Python<'_>) -> PyResult<()> {
    // SAFETY: `py` shows that the GIL is held; the import may be done again, and leaves an error where it fails.
    unsafe { ffi::PyDateTime_IMPORT() };
    if let Some(error) = PyErr::take(py) {
        return Err(error);
    }
    if !is_usual(py)? {
        // Both stay at OTHER_INTERPRETER.
        return Ok(());
    }
    // SAFETY: the structures are those of the headers this module was built with, for CPython as it is usually built.
    let are_objects_right = unsafe { objects_pass(py, &FEW) };
    objects::switch(are_objects_right);
    OBJECTS.store(if are_objects_right { ON } else { FAILED }, Ordering::Relaxed);
    // SAFETY: looked at only where the build compared the structures with the headers of this minor version (`dict_layout`),
    // which is the interpreter's (`is_usual`).
    let dicts = if !cfg!(dict_layout) {
        OTHER_HEADERS
    } else if !unsafe { layout::empty_dicts_are_known() && dicts_pass(py, &FEW) } {
        FAILED
    } else if std::env::var_os("MANGONEL_DICT_LAYOUT").is_some_and(|value| value == "0") {
        SWITCHED_OFF
    } else {
        ON
    };
    DICTS.store(dicts, Ordering::Relaxed);
    layout::switch(dicts == ON);
    // A failed check may leave an exception; it must not fail the import.
    drop(PyErr::take(py));
    Ok(())
}

/// Makes all samples; returns by name whether each part that is on behaves correctly.
pub(super) fn hold(py: Python<'_>) -> [(&'static str, bool); 2] {
    let is_on = |found: &AtomicU8| found.load(Ordering::Relaxed) >= SWITCHED_OFF;
    // SAFETY: what is on, or only switched off, passed `decide`, which found that the structures are this interpreter's
    // and imported the C API of datetime.
    unsafe {
        [
            ("objects", !is_on(&OBJECTS) || objects_pass(py, &ALL)),
            ("dicts", !is_on(&DICTS) || dicts_pass(py, &ALL)),
        ]
    }
}

/// # Safety
/// The structures must be those of this interpreter, and the C API of datetime imported.
unsafe fn objects_pass(py: Python<'_>, samples: &Samples) -> bool {
    // SAFETY: all three have the conditions of this function: the structures are this interpreter's, and, for the
    // dates, the C API of datetime is imported.
    unsafe {
        dates(py, samples.dates).unwrap_or(false)
            && ints(py, samples.shifts).unwrap_or(false)
            && strings(py, samples.lengths).unwrap_or(false)
    }
}

/// # Safety
/// The structures must be those of this interpreter.
unsafe fn dicts_pass(py: Python<'_>, samples: &Samples) -> bool {
    // SAFETY: both have the condition of this function: the structures are this interpreter's.
    unsafe { dicts(py, samples.sizes).unwrap_or(false) && walks(py, samples.tables).unwrap_or(false) }
}

/// Returns both parts by name, each "on" or the reason why not.
pub(super) fn found() -> [(&'static str, &'static str); 2] {
    let word = |found: &AtomicU8| WORDS[usize::from(found.load(Ordering::Relaxed))];
    [("objects", word(&OBJECTS)), ("dicts", word(&DICTS))]
}

/// Switches the layout on or off, for tests; returns whether it is on.
pub(super) fn set(is_on: bool) -> bool {
    let is_on = is_on && DICTS.load(Ordering::Relaxed) >= SWITCHED_OFF;
    layout::switch(is_on);
    is_on
}

/// Returns whether this is 64-bit CPython with the GIL, of the minor version that the module was built for; builds that
/// count or trace references have other structures.
fn is_usual(py: Python<'_>) -> PyResult<bool> {
    let sys = py.import("sys")?;
    let version: (u8, u8) =
        sys.getattr("version_info")?.get_item(pyo3::types::PySlice::new(py, 0, 2, 1))?.extract()?;
    Ok(cfg!(all(target_pointer_width = "64", target_endian = "little", not(Py_GIL_DISABLED)))
        && version == (3, BUILT_FOR)
        && sys.getattr("implementation")?.getattr("name")?.eq("cpython")?
        && sys.getattr("int_info")?.getattr("bits_per_digit")?.eq(30)?
        && !sys.hasattr("gettotalrefcount")?
        && !sys.hasattr("getobjects")?)
}

/// The minor version whose headers the module was built with.
const BUILT_FOR: u8 = if cfg!(Py_3_15) {
    15
} else if cfg!(Py_3_14) {
    14
} else if cfg!(Py_3_13) {
    13
} else if cfg!(Py_3_12) {
    12
} else {
    11
};

/// # Safety
/// The structures must be those of this interpreter.
unsafe fn dicts(py: Python<'_>, sizes: &[usize]) -> PyResult<bool> {
    for &size in sizes {
        let expected = PyDict::new(py);
        let template = PyDict::new(py);
        for index in 0..size {
            let name = PyString::intern(py, &format!("mangonel key {index}"));
            template.set_item(&name, py.None())?;
            expected.set_item(&name, PyList::new(py, [index])?)?;
        }
        let values: Vec<*mut ffi::PyObject> = expected.values().iter().map(Bound::into_ptr).collect();
        // SAFETY: the caller found the structures to be this interpreter's. The template is an exact dict of str keys
        // that no code but this function has, and it is not changed any more. `values` owns a reference for each of its
        // keys, which `dict` takes over; the table's own reference is given back.
        let made = unsafe {
            let Some(table) = layout::open_unchecked(template.clone().into_ptr(), size) else {
                return Ok(false);
            };
            let made = layout::dict(&table, &values, true);
            ffi::Py_DECREF(table.into_dict());
            Bound::from_owned_ptr_or_err(py, made)?
        };
        let made = made.cast_into::<PyDict>()?;
        // SAFETY: the dict is alive as long as the reference to it; a bit of its collector's head is read.
        let is_tracked = |dict: &Bound<'_, PyDict>| unsafe { ffi::PyObject_GC_IsTracked(dict.as_ptr()) };
        let is_right = made.eq(&expected)?
            && is_tracked(&made) == is_tracked(&expected)
            && made.len() == size
            && made.repr()?.as_any().eq(expected.repr()?)?
            && made.get_item("mangonel key 0")?.is_some_and(|value| references(&value) == 3)
            && made.get_item("mangonel key x")?.is_none()
            && made.copy()?.eq(&expected)?;
        // Growing, shrinking and emptying must still work, and both dicts must stay equal.
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
/// The structures must be those of this interpreter.
unsafe fn walks(py: Python<'_>, tables: &CStr) -> PyResult<bool> {
    let names = PyDict::new(py);
    py.run(tables, Some(&names), None)?;
    let Some(tables) = names.get_item("tables")? else { return Ok(false) };
    for table in tables.try_iter()? {
        let table = table?.cast_into::<PyDict>()?;
        let found = PyList::empty(py);
        // SAFETY: the caller found the structures to be this interpreter's. `table` keeps the dict alive for longer
        // than the walk, and what is borrowed from it gets references before the list takes it.
        unsafe {
            let mut fields = layout::Fields::opened(table.as_ptr());
            while let Some((key, value)) = fields.next() {
                found.append((Bound::from_borrowed_ptr(py, key), Bound::from_borrowed_ptr(py, value)))?;
            }
        }
        if !found.eq(table.items())? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// # Safety
/// The structures must be those of this interpreter, and the C API of datetime imported.
unsafe fn dates(py: Python<'_>, dates: &[i64]) -> PyResult<bool> {
    for &millis in dates {
        // SAFETY: the caller found the structures to be this interpreter's, and the C API of datetime to be imported.
        // The samples lie between `MIN_MILLIS` and `MAX_MILLIS`. None is alive for ever, and both calls return a new
        // reference, or null with the error set.
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
unsafe fn ints(py: Python<'_>, shifts: &[u32]) -> PyResult<bool> {
    let body = PyDict::new(py);
    body.set_item("__slots__", pyo3::types::PyTuple::empty(py))?;
    let class = py.get_type::<pyo3::types::PyType>().call1((
        "Sample",
        (py.get_type::<pyo3::types::PyInt>(),),
        body,
    ))?;
    let class = super::int64::plain_int_class(class.cast::<pyo3::types::PyType>()?)?;
    if !objects::is_plain_int(class.as_ptr().cast()) {
        return Ok(false);
    }
    let before = references(&class);
    for &shift in shifts {
        for value in [i64::MIN >> shift, i64::MAX >> shift, 1 << shift, 0] {
            // SAFETY: the caller found the structures to be this interpreter's, `is_plain_int` found that the class
            // adds nothing to `int`, and `class` keeps it alive.
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
unsafe fn strings(py: Python<'_>, lengths: &[usize]) -> PyResult<bool> {
    objects::learn_ascii(py)?;
    let size = py.import("sys")?.getattr("getsizeof")?;
    for &length in lengths {
        let text: String = (0..length).map(|index| char::from(b' ' + (index * 7 % 95) as u8)).collect();
        // SAFETY: the caller found the structures to be this interpreter's. All characters lie between space and `~`,
        // and the shortest sample has two.
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
    // SAFETY: the object is alive as long as the reference to it; its count is only read.
    unsafe { ffi::Py_REFCNT(object.as_ptr()) }
}
