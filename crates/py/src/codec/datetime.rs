//! Milliseconds since 1970 to and from `datetime.datetime`, through the C API. Knows no BSON.
use pyo3::exceptions::PyTypeError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyDateTime, PyDelta, PyDeltaAccess};

/// 0001-01-01T00:00:00.000Z and 9999-12-31T23:59:59.999Z: the range of `datetime`.
pub(crate) const MIN_MILLIS: i64 = -62_135_596_800_000;
pub(crate) const MAX_MILLIS: i64 = 253_402_300_799_999;

const DAY: i64 = 86_400_000;

/// A date and time of day, as `datetime` keeps it.
pub(crate) struct Fields {
    pub year: i32,
    pub month: u8,
    pub day: u8,
    pub hour: u8,
    pub minute: u8,
    pub second: u8,
    pub micros: u32,
}

/// Splits milliseconds, which must lie between `MIN_MILLIS` and `MAX_MILLIS`.
#[inline]
pub(crate) fn split(millis: i64) -> Fields {
    let days = millis.div_euclid(DAY);
    let rest = millis.rem_euclid(DAY) as u32;
    let (year, month, day) = mangonel_bson::datetime::date_of((days + 719_468) as u32);
    Fields {
        year: year as i32,
        month,
        day,
        hour: (rest / 3_600_000) as u8,
        minute: (rest / 60_000 % 60) as u8,
        second: (rest / 1000 % 60) as u8,
        micros: rest % 1000 * 1000,
    }
}

/// Days from 1970-01-01 to this day.
#[inline]
fn days_since_epoch(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let month_from_march = if month > 2 { month - 3 } else { month + 9 };
    let day_of_year = (153 * month_from_march + 2) / 5 + day - 1;
    era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719_468
}

/// Creates a `datetime`: a new reference, or null with the error set. `tzinfo` is borrowed; `Py_None` for naive.
///
/// # Safety
/// `millis` must be in range, `tzinfo` valid and the C API of `datetime` imported.
#[inline]
pub(crate) unsafe fn create(millis: i64, tzinfo: *mut ffi::PyObject) -> *mut ffi::PyObject {
    let fields = split(millis);
    // SAFETY: the caller promises the import, so the table is there, and that the zone is alive; fields that `split` made of
    // milliseconds in range are in range.
    unsafe {
        let api = ffi::PyDateTimeAPI();
        ((*api).DateTime_FromDateAndTime)(
            fields.year,
            fields.month.into(),
            fields.day.into(),
            fields.hour.into(),
            fields.minute.into(),
            fields.second.into(),
            fields.micros as _,
            tzinfo,
            (*api).DateTimeType,
        )
    }
}

/// Milliseconds of a `datetime` read as UTC, ignoring its zone, and the remaining microseconds.
pub(crate) fn read_utc(date: &Bound<'_, PyDateTime>) -> (i64, i64) {
    // SAFETY: a `datetime`, alive as long as the reference to it.
    unsafe { read(date.as_ptr()) }
}

/// Like `read_utc`, through a pointer.
///
/// # Safety
/// `object` must be a live `datetime.datetime`.
#[inline]
pub(crate) unsafe fn read(object: *mut ffi::PyObject) -> (i64, i64) {
    // SAFETY: `object` is a live `datetime` or of a subclass, which both begin with the structure that these read; none
    // of them calls anything.
    unsafe {
        let days = days_since_epoch(
            ffi::PyDateTime_GET_YEAR(object).into(),
            ffi::PyDateTime_GET_MONTH(object).into(),
            ffi::PyDateTime_GET_DAY(object).into(),
        );
        let seconds = i64::from(ffi::PyDateTime_DATE_GET_HOUR(object)) * 3600
            + i64::from(ffi::PyDateTime_DATE_GET_MINUTE(object)) * 60
            + i64::from(ffi::PyDateTime_DATE_GET_SECOND(object));
        let micros = i64::from(ffi::PyDateTime_DATE_GET_MICROSECOND(object));
        (days * DAY + seconds * 1000 + micros / 1000, micros % 1000)
    }
}

/// Milliseconds in UTC of any `datetime`; a naive one counts as UTC.
pub(crate) fn to_millis(value: &Bound<'_, PyAny>) -> PyResult<i64> {
    let Ok(value) = value.cast::<PyDateTime>() else {
        let found = value.get_type().fully_qualified_name()?;
        return Err(PyTypeError::new_err(format!("expected datetime.datetime, got {found}")));
    };
    let (millis, micros) = read_utc(value);
    let offset = value.call_method0("utcoffset")?;
    if offset.is_none() {
        return Ok(millis);
    }
    let offset = delta_micros(&offset)?;
    Ok((millis * 1000 + micros - offset).div_euclid(1000))
}

/// A `timedelta` in microseconds.
pub(crate) fn delta_micros(value: &Bound<'_, PyAny>) -> PyResult<i64> {
    let delta = value.cast::<PyDelta>()?;
    Ok((i64::from(delta.get_days()) * 86_400 + i64::from(delta.get_seconds())) * 1_000_000
        + i64::from(delta.get_microseconds()))
}
