//! `Codec`: the options of encoding and decoding, read once from a `CodecOptions` and kept in Rust. Knows no BSON bytes.
use std::ffi::CString;

use mangonel_entries::entries;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyString, PyType};

use super::cell::GilCell;
use super::types::{Types, types};
use crate::thread_end::Entry;

/// The class of decoded documents.
pub(crate) enum DocumentClass {
    Dict,
    /// `RawBSONDocument` or a subclass: its bytes and the options.
    Raw(Py<PyAny>),
    /// Any other mutable mapping.
    Mapping(Py<PyAny>),
}

/// The form in which `uuid.UUID` is stored. The numbers are those of `UuidRepresentation`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum UuidRepresentation {
    Unspecified,
    PythonLegacy,
    Standard,
    JavaLegacy,
    CsharpLegacy,
}

/// The type of decoded dates. The numbers are those of `DatetimeConversion`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum DatetimeConversion {
    Datetime,
    Clamp,
    Millis,
    Auto,
}

/// Prepared options; make it once and keep it, or call `Codec::from_options`, which remembers it.
#[pyclass(frozen, module = "mangonel._core")]
pub struct Codec {
    _entry: Entry,
    pub(crate) options: Py<PyAny>,
    pub(crate) document_class: DocumentClass,
    pub(crate) tz_aware: bool,
    /// None: UTC.
    pub(crate) tzinfo: Option<Py<PyAny>>,
    pub(crate) uuid: UuidRepresentation,
    /// None: "strict".
    pub(crate) unicode_errors: Option<CString>,
    pub(crate) dates: DatetimeConversion,
    /// The first and the last millisecond that `tzinfo` can show.
    pub(crate) date_range: (i64, i64),
    pub(crate) encoders: Option<Py<PyDict>>,
    pub(crate) decoders: Option<Py<PyDict>>,
    pub(crate) fallback: Option<Py<PyAny>>,
    pub(super) types: &'static Types,
}

#[entries]
#[pymethods]
impl Codec {
    #[new]
    fn new(codec_options: &Bound<'_, PyAny>) -> PyResult<Self> {
        Self::read(codec_options)
    }

    /// The `CodecOptions` from which it was made.
    #[getter]
    fn codec_options(&self, py: Python<'_>) -> Py<PyAny> {
        self.options.clone_ref(py)
    }
}

/// How many options are remembered; programs use one to three.
const REMEMBERED: usize = 8;

struct Cache {
    entries: Vec<Py<Codec>>,
    next: usize,
}

static CACHE: GilCell<Cache> = GilCell::new(Cache { entries: Vec::new(), next: 0 });
static DEFAULT: PyOnceLock<Py<Codec>> = PyOnceLock::new();
static OF_ERRORS: PyOnceLock<Py<Codec>> = PyOnceLock::new();

impl Codec {
    /// Whether documents are decoded as raw documents.
    pub fn makes_raw_documents(&self) -> bool {
        matches!(self.document_class, DocumentClass::Raw(_))
    }

    /// Prepares options, or finds those prepared before: a remembered codec keeps its options alive, so the same
    /// address is the same object.
    pub fn from_options(options: &Bound<'_, PyAny>) -> PyResult<Py<Self>> {
        let py = options.py();
        // SAFETY: the closure compares addresses and takes a reference, neither of which runs Python code.
        let found = unsafe {
            CACHE.with(py, |cache| {
                let entry =
                    cache.entries.iter().find(|codec| codec.get().options.as_ptr() == options.as_ptr());
                entry.map(|codec| codec.clone_ref(py))
            })
        };
        if let Some(found) = found {
            return Ok(found);
        }
        let made = match options.cast::<Self>() {
            Ok(codec) => return Ok(codec.clone().unbind()),
            Err(_) => Py::new(py, Self::read(options)?)?,
        };
        let kept = made.clone_ref(py);
        // SAFETY: the closure moves references; the codec that has to go is handed out and dropped after the borrow, as that
        // may run Python code.
        let evicted = unsafe {
            CACHE.with(py, |cache| {
                if cache.entries.len() < REMEMBERED {
                    cache.entries.push(kept);
                    return None;
                }
                cache.next = (cache.next + 1) % REMEMBERED;
                Some(std::mem::replace(&mut cache.entries[cache.next], kept))
            })
        };
        drop(evicted);
        Ok(made)
    }

    /// The codec of `DEFAULT_CODEC_OPTIONS`.
    pub fn default_for(py: Python<'_>) -> PyResult<&Py<Self>> {
        DEFAULT.get_or_try_init(py, || {
            Self::from_options(&py.import("mangonel.bson.codec_options")?.getattr("DEFAULT_CODEC_OPTIONS")?)
        })
    }

    /// The codec of replies that report an error: a text or a date in them that Python cannot hold must not hide it.
    #[cold]
    pub fn for_errors(py: Python<'_>) -> PyResult<&Py<Self>> {
        OF_ERRORS.get_or_try_init(py, || {
            let forgiving = PyDict::new(py);
            forgiving.set_item("unicode_decode_error_handler", "replace")?;
            forgiving.set_item("datetime_conversion", 4)?;
            let default = Self::default_for(py)?.get().options.bind(py);
            Self::from_options(&default.call_method("_replace", (), Some(&forgiving))?)
        })
    }

    fn read(options: &Bound<'_, PyAny>) -> PyResult<Self> {
        let py = options.py();
        let types = types(py)?;
        super::object_id::class(py)?;
        if options.getattr_opt("document_class")?.is_none() {
            let found = options.get_type().fully_qualified_name()?;
            return Err(PyTypeError::new_err(format!(
                "codec_options must be an instance of CodecOptions, got {found}"
            )));
        }
        let registry = options.getattr("type_registry")?;
        let map = |name: &str| -> PyResult<Option<Py<PyDict>>> {
            let map = registry.getattr(name)?.cast_into::<PyDict>()?;
            Ok((!map.is_empty()).then(|| map.unbind()))
        };
        let tzinfo = optional(options.getattr("tzinfo")?);
        // Read without making an enum member, which would import `enum`; options of other packages lack this attribute.
        let dates = match options.getattr_opt("_datetime_conversion")? {
            Some(number) => number,
            None => options.getattr("datetime_conversion")?,
        };
        let dates = dates.extract::<i64>()?;
        let uuid = options.getattr("uuid_representation")?.extract::<i64>()?;
        let errors = options.getattr("unicode_decode_error_handler")?;
        let errors = errors.cast::<PyString>()?.to_str()?;
        let dates = match dates {
            1 => DatetimeConversion::Datetime,
            2 => DatetimeConversion::Clamp,
            3 => DatetimeConversion::Millis,
            4 => DatetimeConversion::Auto,
            _ => {
                return Err(PyTypeError::new_err(format!(
                    "datetime_conversion must be an element of DatetimeConversion, got {dates}"
                )));
            }
        };
        let date_range = match dates {
            DatetimeConversion::Clamp | DatetimeConversion::Auto => date_range(py, tzinfo.as_ref())?,
            _ => (super::datetime::MIN_MILLIS, super::datetime::MAX_MILLIS),
        };
        Ok(Self {
            _entry: Entry,
            options: options.clone().unbind(),
            document_class: document_class(&options.getattr("document_class")?, types)?,
            tz_aware: options.getattr("tz_aware")?.is_truthy()?,
            tzinfo: tzinfo.map(Bound::unbind),
            uuid: match uuid {
                0 => UuidRepresentation::Unspecified,
                3 => UuidRepresentation::PythonLegacy,
                4 => UuidRepresentation::Standard,
                5 => UuidRepresentation::JavaLegacy,
                6 => UuidRepresentation::CsharpLegacy,
                _ => return Err(PyTypeError::new_err("uuid_representation must be a UuidRepresentation")),
            },
            unicode_errors: match errors {
                "strict" => None,
                name => Some(CString::new(name)?),
            },
            dates,
            date_range,
            encoders: map("_encoder_map")?,
            decoders: map("_decoder_map")?,
            fallback: optional(registry.getattr("_fallback_encoder")?).map(Bound::unbind),
            types,
        })
    }
}

fn optional(value: Bound<'_, PyAny>) -> Option<Bound<'_, PyAny>> {
    (!value.is_none()).then_some(value)
}

fn document_class(class: &Bound<'_, PyAny>, types: &Types) -> PyResult<DocumentClass> {
    let py = class.py();
    // For a parametrised class such as dict[str, Any], its origin is used.
    let origin = match class.cast::<PyType>() {
        Ok(_) => class.clone(),
        Err(_) => class.getattr_opt("__origin__")?.unwrap_or_else(|| class.clone()),
    };
    let marker = class.getattr_opt(&types.name.type_marker)?;
    if marker.is_some_and(|marker| marker.extract::<i64>().is_ok_and(|marker| marker == 101)) {
        return Ok(DocumentClass::Raw(class.clone().unbind()));
    }
    if origin.is(py.get_type::<PyDict>()) {
        return Ok(DocumentClass::Dict);
    }
    Ok(DocumentClass::Mapping(class.clone().unbind()))
}

/// The instants that fit a `datetime` both in UTC and in the zone.
fn date_range(py: Python<'_>, tzinfo: Option<&Bound<'_, PyAny>>) -> PyResult<(i64, i64)> {
    let (mut first, mut last) = (super::datetime::MIN_MILLIS, super::datetime::MAX_MILLIS);
    let Some(tzinfo) = tzinfo else { return Ok((first, last)) };
    let limits = py.import("datetime")?.getattr("datetime")?;
    let utc = py.import("mangonel.bson.tz_util")?.getattr("utc")?;
    let offset = |name: &str| -> PyResult<i64> {
        let keywords = PyDict::new(py);
        keywords.set_item("tzinfo", &utc)?;
        let limit = limits.getattr(name)?.call_method("replace", (), Some(&keywords))?;
        let offset = tzinfo.call_method1("utcoffset", (limit,))?;
        Ok(if offset.is_none() { 0 } else { super::datetime::delta_micros(&offset)?.div_euclid(1000) })
    };
    first -= offset("min")?.min(0);
    last -= offset("max")?.max(0);
    Ok((first, last))
}
