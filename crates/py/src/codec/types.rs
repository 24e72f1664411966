//! The Python classes and interned names the codec needs, looked up at first use so that importing `_core` imports
//! nothing else. Knows no BSON bytes.
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyString, PyType};

use super::recipe::Recipe;

/// The classes and names that most documents need, kept for the life of the process.
pub(super) struct Types {
    pub int64: Py<PyType>,
    /// Whether Int64 has the layout of int.
    pub int64_is_plain: bool,
    pub mapping: Py<PyAny>,
    pub utc: Py<PyAny>,
    pub name: Names,
}

/// The package's own classes, ten modules that many programs never need; kept for the life of the process.
pub(super) struct OwnTypes {
    pub binary: Recipe,
    pub code: Recipe,
    pub regex: Recipe,
    pub timestamp: Recipe,
    pub datetime_ms: Recipe,
    pub decimal128: Recipe,
    pub dbref: Py<PyType>,
    /// The classes have no state, so one instance serves all.
    pub min_key: Py<PyAny>,
    pub max_key: Py<PyAny>,
}

/// Interned attribute and field names.
pub(super) struct Names {
    pub id: Py<PyString>,
    pub dollar_ref: Py<PyString>,
    pub dollar_id: Py<PyString>,
    pub dollar_db: Py<PyString>,
    pub type_marker: Py<PyString>,
    pub subtype: Py<PyString>,
    pub binary: Py<PyString>,
    pub flags: Py<PyString>,
    pub pattern: Py<PyString>,
    pub scope: Py<PyString>,
    pub time: Py<PyString>,
    pub inc: Py<PyString>,
    pub bid: Py<PyString>,
    pub raw: Py<PyString>,
    pub as_doc: Py<PyString>,
    pub int: Py<PyString>,
    pub from_bid: Py<PyString>,
    pub astimezone: Py<PyString>,
}

static TYPES: PyOnceLock<Types> = PyOnceLock::new();

/// The classes, imported by the first call.
pub(super) fn types(py: Python<'_>) -> PyResult<&'static Types> {
    TYPES.get_or_try_init(py, || load(py))
}

fn load(py: Python<'_>) -> PyResult<Types> {
    // SAFETY: `py` shows that the GIL is held; the import may be done again, and leaves an error where it fails.
    unsafe { ffi::PyDateTime_IMPORT() };
    if let Some(error) = PyErr::take(py) {
        return Err(error);
    }
    let name = |text: &str| PyString::intern(py, text).unbind();
    let int64 = class(py, "int64", "Int64")?;
    Ok(Types {
        int64_is_plain: super::objects::is_plain_int(int64.as_ptr().cast()),
        int64,
        mapping: py.import("_collections_abc")?.getattr("Mapping")?.unbind(),
        utc: py.import("mangonel.bson.tz_util")?.getattr("utc")?.unbind(),
        name: Names {
            id: name("_id"),
            dollar_ref: name("$ref"),
            dollar_id: name("$id"),
            dollar_db: name("$db"),
            type_marker: name("_type_marker"),
            subtype: name("subtype"),
            binary: name("binary"),
            flags: name("flags"),
            pattern: name("pattern"),
            scope: name("scope"),
            time: name("time"),
            inc: name("inc"),
            bid: name("bid"),
            raw: name("raw"),
            as_doc: name("as_doc"),
            int: name("int"),
            from_bid: name("from_bid"),
            astimezone: name("astimezone"),
        },
    })
}

fn class(py: Python<'_>, module: &str, name: &str) -> PyResult<Py<PyType>> {
    let module = py.import(format!("mangonel.bson.{module}").as_str())?;
    Ok(module.getattr(name)?.cast_into::<PyType>()?.unbind())
}

static OWN_TYPES: PyOnceLock<OwnTypes> = PyOnceLock::new();

/// Whether a value is a `DatetimeMS`.
pub(crate) fn is_datetime_ms(value: &Bound<'_, PyAny>) -> PyResult<bool> {
    Ok(own_types(value.py())?.datetime_ms.read(value, 0).is_some())
}

/// The package's own classes, imported by the first call.
#[inline]
pub(super) fn own_types(py: Python<'_>) -> PyResult<&'static OwnTypes> {
    match OWN_TYPES.get(py) {
        Some(types) => Ok(types),
        None => OWN_TYPES.get_or_try_init(py, || load_own(py)),
    }
}

#[cold]
fn load_own(py: Python<'_>) -> PyResult<OwnTypes> {
    let class = |module: &str, name: &str| class(py, module, name);
    let text = |text: &str| PyString::new(py, text).into_any();
    let number = |value: i64| -> PyResult<Bound<'_, PyAny>> { Ok(value.into_pyobject(py)?.into_any()) };
    let sample_scope = PyDict::new(py).into_any();
    let halves = [number(0x3040_1234_5678_9ABC)?, number(0x0123_4567_89AB_CDEF)?];
    let decimal128 = class("decimal128", "Decimal128")?.into_bound(py);
    let sample = decimal128.call1((pyo3::types::PyTuple::new(py, &halves)?,))?;
    let decimal128 = Recipe::probe_made(decimal128, &sample, &halves)?;
    Ok(OwnTypes {
        binary: Recipe::probe(
            class("binary", "Binary")?.into_bound(py),
            &[pyo3::types::PyBytes::new(py, b"recipe").into_any(), number(0x1234 & 0x7F)?],
        )?,
        code: Recipe::probe(class("code", "Code")?.into_bound(py), &[text("recipe"), sample_scope])?,
        regex: Recipe::probe(class("regex", "Regex")?.into_bound(py), &[text("recipe"), number(18)?])?,
        timestamp: Recipe::probe(
            class("timestamp", "Timestamp")?.into_bound(py),
            &[number(0x1234_5678)?, number(0x2345_6789)?],
        )?,
        datetime_ms: Recipe::probe(
            class("datetime_ms", "DatetimeMS")?.into_bound(py),
            &[number(0x1234_5678)?],
        )?,
        decimal128,
        dbref: class("dbref", "DBRef")?,
        min_key: class("min_key", "MinKey")?.call0(py)?,
        max_key: class("max_key", "MaxKey")?.call0(py)?,
    })
}

/// The classes of the module `uuid`, whose import takes milliseconds and whose values few programs store.
pub(super) struct UuidTypes {
    pub class: Recipe,
    pub safe_unknown: Py<PyAny>,
}

static UUID_TYPES: PyOnceLock<UuidTypes> = PyOnceLock::new();

/// The classes of `uuid`, imported by the first call.
pub(super) fn uuid_types(py: Python<'_>) -> PyResult<&'static UuidTypes> {
    UUID_TYPES.get_or_try_init(py, || {
        let module = py.import("uuid")?;
        let safe_unknown = module.getattr("SafeUUID")?.getattr("unknown")?;
        let class = module.getattr("UUID")?.cast_into::<PyType>()?;
        let sample = class.call1(("12345678123456781234567812345678",))?;
        let number = 0x12345678123456781234567812345678_u128.into_pyobject(py)?.into_any();
        let class = Recipe::probe_made(class, &sample, &[number, safe_unknown.clone()])?;
        Ok(UuidTypes { class, safe_unknown: safe_unknown.unbind() })
    })
}

/// The classes of `uuid`, if they are imported.
#[inline]
pub(super) fn known_uuid_types(py: Python<'_>) -> Option<&'static UuidTypes> {
    UUID_TYPES.get(py)
}

/// Whether `value` is a UUID. Imports nothing: if `uuid` is not imported, no value can be one.
pub(super) fn is_uuid(value: &Bound<'_, PyAny>) -> PyResult<bool> {
    let py = value.py();
    if UUID_TYPES.get(py).is_none() && loaded(py, "uuid", "UUID")?.is_none() {
        return Ok(false);
    }
    value.is_instance(uuid_types(py)?.class.class(py))
}

/// Whether `value` is a compiled regular expression. Imports nothing: if `re` is not imported, no value can be one.
pub(super) fn is_pattern(value: &Bound<'_, PyAny>) -> PyResult<bool> {
    static PATTERN: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let py = value.py();
    if PATTERN.get(py).is_none() {
        let Some(found) = loaded(py, "re", "Pattern")? else { return Ok(false) };
        // Another thread may have been faster, and set the same class.
        let _ = PATTERN.set(py, found.unbind());
    }
    PATTERN.get(py).map_or(Ok(false), |class| value.is_instance(class.bind(py)))
}

/// Whether `value` is a `decimal.Decimal`. Imports nothing: if `decimal` is not imported, no value can be one.
pub(super) fn is_decimal(value: &Bound<'_, PyAny>) -> PyResult<bool> {
    loaded(value.py(), "decimal", "Decimal")?.map_or(Ok(false), |class| value.is_instance(&class))
}

/// Returns a class of a module, if the module is imported.
fn loaded<'py>(py: Python<'py>, module: &str, class: &str) -> PyResult<Option<Bound<'py, PyAny>>> {
    let modules = py.import("sys")?.getattr("modules")?.cast_into::<PyDict>()?;
    // During its import, a module is listed before it has its classes.
    modules.get_item(module)?.map_or(Ok(None), |module| module.getattr_opt(class))
}
