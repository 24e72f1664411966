//! Converts milliseconds since 1970-01-01 UTC to and from calendar dates and ISO 8601. Knows time zones only as
//! offsets.
//!
//! Years are astronomical, and all use the Gregorian calendar, as in ISO 8601.

use crate::error::{Error, Result};

const MS_PER_DAY: i64 = 86_400_000;
/// Days in 400 years, after which the calendar repeats.
const DAYS_PER_ERA: i64 = 146_097;
/// From 0000-03-01, where the counting below starts, to 1970-01-01.
const EPOCH: i64 = 719_468;
/// 9999-12-31T23:59:59.999Z, the last instant that relaxed JSON writes as a date.
const MAX_FOUR_DIGIT_MS: i64 = 253_402_300_799_999;

/// The largest argument of [`date_of`].
const MOST_DAYS: u32 = 1 << 28;

/// Returns the year, month and day of a day number, counted from 0000-03-01 and below 2^28.
///
/// Divides by powers of two where possible, after Neri and Schneider, "Euclidean affine functions and their application
/// to calendar algorithms" (2022).
#[inline]
pub fn date_of(days: u32) -> (u32, u8, u8) {
    // Years are counted from March, so that the leap day comes last.
    let quarters = 4 * days + 3;
    let century = quarters / DAYS_PER_ERA as u32;
    let of_century = (quarters % DAYS_PER_ERA as u32) | 3;
    let years = 2_939_745 * u64::from(of_century);
    let of_year = years as u32 / 2_939_745 / 4;
    // The upper half is the month, the lower half the day.
    let months = 2141 * of_year + 197_913;
    let (month, day) = ((months >> 16) as u8, (months as u16 / 2141) as u8 + 1);
    let is_next_year = of_year >= 306;
    let year = 100 * century + (years >> 32) as u32 + u32::from(is_next_year);
    (year, if is_next_year { month - 12 } else { month }, day)
}

/// A calendar date and time of day in UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Civil {
    /// Astronomical year: 0 is 1 BC.
    pub year: i64,
    /// 1 to 12.
    pub month: u8,
    /// 1 to 31.
    pub day: u8,
    /// 0 to 23.
    pub hour: u8,
    /// 0 to 59.
    pub minute: u8,
    /// 0 to 59.
    pub second: u8,
    /// 0 to 999.
    pub millisecond: u16,
}

impl Civil {
    /// Splits milliseconds since 1970-01-01 UTC; every value has a date.
    pub fn from_ms(ms: i64) -> Self {
        let of_day = ms.rem_euclid(MS_PER_DAY) as u32;
        let days = ms.div_euclid(MS_PER_DAY) + EPOCH;
        let (era, days) = match u32::try_from(days) {
            Ok(days) if days < MOST_DAYS => (0, days),
            _ => (days.div_euclid(DAYS_PER_ERA), days.rem_euclid(DAYS_PER_ERA) as u32),
        };
        let (year, month, day) = date_of(days);
        Self {
            year: era * 400 + i64::from(year),
            month,
            day,
            hour: (of_day / 3_600_000) as u8,
            minute: (of_day / 60_000 % 60) as u8,
            second: (of_day / 1000 % 60) as u8,
            millisecond: (of_day % 1000) as u16,
        }
    }

    /// Returns milliseconds since 1970-01-01 UTC, or `None` when a field or the result is out of range.
    pub fn to_ms(&self) -> Option<i64> {
        let is_valid = (1..=12).contains(&self.month)
            && (1..=days_in_month(self.year, self.month)).contains(&self.day)
            && self.hour < 24
            && self.minute < 60
            && self.second < 60
            && self.millisecond < 1000
            && self.year.unsigned_abs() < 1_000_000_000;
        if !is_valid {
            return None;
        }
        let year = self.year - i64::from(self.month <= 2);
        let era = year.div_euclid(400);
        let year_of_era = year.rem_euclid(400);
        let from_march = (i64::from(self.month) + 9) % 12;
        let of_year = (153 * from_march + 2) / 5 + i64::from(self.day) - 1;
        let of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + of_year;
        let days = era * DAYS_PER_ERA + of_era - EPOCH;
        let of_day = (i64::from(self.hour) * 60 + i64::from(self.minute)) * 60_000
            + i64::from(self.second) * 1000
            + i64::from(self.millisecond);
        // The first millisecond that i64 holds lies inside a day, so that day's start is below i64.
        let ms = i128::from(days) * i128::from(MS_PER_DAY) + i128::from(of_day);
        i64::try_from(ms).ok()
    }
}

fn days_in_month(year: i64, month: u8) -> u8 {
    match month {
        4 | 6 | 9 | 11 => 30,
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        _ => 31,
    }
}

/// Returns whether relaxed extended JSON writes this date as text: from 1970 to 9999.
#[inline]
pub fn is_relaxed(ms: i64) -> bool {
    (0..=MAX_FOUR_DIGIT_MS).contains(&ms)
}

/// Appends `2012-12-24T12:15:30.501Z`; without milliseconds when they are zero and `always_ms` is not set.
///
/// Years before 0 or after 9999 get a sign and at least six digits.
pub fn write_iso(ms: i64, always_ms: bool, out: &mut Vec<u8>) {
    let civil = Civil::from_ms(ms);
    let (text, length) = iso_text(&civil, always_ms);
    if (0..=9999).contains(&civil.year) {
        out.extend_from_slice(&text[..length]);
    } else {
        let sign = if civil.year < 0 { '-' } else { '+' };
        out.extend_from_slice(format!("{sign}{:06}", civil.year.unsigned_abs()).as_bytes());
        out.extend_from_slice(&text[4..length]);
    }
}

/// Returns the text of [`write_iso`] in an array and its length; `None` for years that need more than four digits.
#[inline]
pub(crate) fn iso(ms: i64, always_ms: bool) -> Option<([u8; 24], usize)> {
    let civil = Civil::from_ms(ms);
    (0..=9999).contains(&civil.year).then(|| iso_text(&civil, always_ms))
}

/// Returns the text and its length. For years outside 0 to 9999, the first four bytes mean nothing.
#[inline]
fn iso_text(civil: &Civil, always_ms: bool) -> ([u8; 24], usize) {
    let mut text = *b"0000-00-00T00:00:00.000Z";
    let year = civil.year as u16;
    two_digits(&mut text, 0, (year / 100 % 100) as u8);
    two_digits(&mut text, 2, (year % 100) as u8);
    two_digits(&mut text, 5, civil.month);
    two_digits(&mut text, 8, civil.day);
    two_digits(&mut text, 11, civil.hour);
    two_digits(&mut text, 14, civil.minute);
    two_digits(&mut text, 17, civil.second);
    if !always_ms && civil.millisecond == 0 {
        text[19] = b'Z';
        return (text, 20);
    }
    text[20] = b'0' + (civil.millisecond / 100) as u8;
    two_digits(&mut text, 21, (civil.millisecond % 100) as u8);
    (text, 24)
}

/// The text of a day, kept for the next date: dates beside each other are often of one day.
pub(crate) struct Day {
    /// Its first millisecond.
    start: i64,
    text: [u8; 24],
}

impl Default for Day {
    fn default() -> Self {
        Self { start: 0, text: *b"1970-01-01T00:00:00.000Z" }
    }
}

impl Day {
    /// Writes `2012-12-24T12:15:30.501Z`, as [`iso`] does; `None` for years that need more than four digits.
    #[inline(always)]
    pub(crate) fn write(&mut self, ms: i64, text: &mut [u8; 24]) -> Option<()> {
        let mut of_day = ms.wrapping_sub(self.start) as u64;
        if of_day >= MS_PER_DAY as u64 {
            self.turn_to(ms)?;
            of_day = ms.wrapping_sub(self.start) as u64;
        }
        *text = self.text;
        let (seconds, millisecond) = (of_day as u32 / 1000, of_day as u32 % 1000);
        two_digits(text, 11, (seconds / 3600) as u8);
        two_digits(text, 14, (seconds / 60 % 60) as u8);
        two_digits(text, 17, (seconds % 60) as u8);
        text[20] = b'0' + (millisecond / 100) as u8;
        two_digits(text, 21, (millisecond % 100) as u8);
        Some(())
    }

    #[inline(never)]
    fn turn_to(&mut self, ms: i64) -> Option<()> {
        let start = ms.checked_sub(ms.rem_euclid(MS_PER_DAY))?;
        (self.text, _) = iso(start, true)?;
        self.start = start;
        Some(())
    }
}

/// The digits of the numbers below 100, then zeros, so that any seven bits are a valid index.
const PAIRS: [[u8; 2]; 128] = {
    let mut pairs = [[b'0'; 2]; 128];
    let mut number = 0;
    while number < 100 {
        pairs[number] = [b'0' + number as u8 / 10, b'0' + number as u8 % 10];
        number += 1;
    }
    pairs
};

#[inline]
fn two_digits(text: &mut [u8; 24], at: usize, value: u8) {
    // Both at once.
    text[at..at + 2].copy_from_slice(&PAIRS[usize::from(value & 127)]);
}

/// Reads `YYYY-MM-DDTHH:MM[:SS[.fraction]]` with `Z` or an offset such as `+01:00`, `+0100` or `+01`.
///
/// Digits after the third of a fraction are dropped: a date holds milliseconds.
///
/// # Errors
/// [`crate::ErrorKind::Syntax`] for any other text and for dates that do not exist.
pub fn parse_iso(text: &str) -> Result<i64> {
    let mut scanner = Scanner(text.as_bytes());
    scan_iso(&mut scanner).filter(|_| scanner.0.is_empty()).ok_or_else(|| {
        Error::syntax(format!("expected a date such as 2012-12-24T12:15:30.501Z, got {text:.60?}"))
    })
}

fn scan_iso(scanner: &mut Scanner<'_>) -> Option<i64> {
    let year = match scanner.0.first()? {
        sign @ (b'+' | b'-') => {
            scanner.0 = &scanner.0[1..];
            let digits = scanner.0.iter().take_while(|c| c.is_ascii_digit()).count();
            if !(6..=9).contains(&digits) {
                return None;
            }
            let year = i64::from(scanner.number(digits)?);
            if *sign == b'-' { -year } else { year }
        }
        _ => i64::from(scanner.number(4)?),
    };
    scanner.byte(b'-')?;
    let month = scanner.number(2)? as u8;
    scanner.byte(b'-')?;
    let day = scanner.number(2)? as u8;
    scanner.byte(b'T').or_else(|| scanner.byte(b't'))?;
    let hour = scanner.number(2)? as u8;
    scanner.byte(b':')?;
    let minute = scanner.number(2)? as u8;
    let mut second = 0;
    let mut millisecond = 0;
    if scanner.byte(b':').is_some() {
        second = scanner.number(2)? as u8;
        if scanner.byte(b'.').is_some() {
            let digits = scanner.0.iter().take_while(|c| c.is_ascii_digit()).count();
            let kept = digits.min(3);
            let value = scanner.number(kept)? as u16;
            millisecond = match kept {
                0 => return None,
                1 => value * 100,
                2 => value * 10,
                _ => value,
            };
            scanner.0 = &scanner.0[digits - kept..];
        }
    }
    let local = Civil { year, month, day, hour, minute, second, millisecond };
    local.to_ms()?.checked_sub(scan_offset(scanner)?)
}

/// Returns milliseconds east of UTC.
fn scan_offset(scanner: &mut Scanner<'_>) -> Option<i64> {
    if scanner.byte(b'Z').or_else(|| scanner.byte(b'z')).is_some() {
        return Some(0);
    }
    let sign = match scanner.byte(b'+') {
        Some(()) => 1,
        None => {
            scanner.byte(b'-')?;
            -1
        }
    };
    let hours = scanner.number(2)?;
    let has_colon = scanner.byte(b':').is_some();
    let minutes = if has_colon || !scanner.0.is_empty() { scanner.number(2)? } else { 0 };
    (hours < 24 && minutes < 60).then(|| sign * i64::from(hours * 60 + minutes) * 60_000)
}

struct Scanner<'a>(&'a [u8]);

impl Scanner<'_> {
    fn byte(&mut self, wanted: u8) -> Option<()> {
        let (first, rest) = self.0.split_first()?;
        (*first == wanted).then(|| self.0 = rest)
    }

    /// Reads exactly this many digits, at most nine.
    fn number(&mut self, digits: usize) -> Option<u32> {
        let (taken, rest) = self.0.split_at_checked(digits)?;
        let mut value = 0;
        for c in taken {
            if !c.is_ascii_digit() {
                return None;
            }
            value = value * 10 + u32::from(c - b'0');
        }
        self.0 = rest;
        Some(value)
    }
}
