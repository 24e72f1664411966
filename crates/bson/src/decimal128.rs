//! IEEE 754-2008 decimal128 in its binary integer encoding: bytes, text and back. No arithmetic.
//! Spec: bson-decimal128.

use std::fmt;
use std::str::FromStr;

use crate::error::{Error, Result};

/// Digits of the coefficient.
const DIGITS: usize = 34;
/// The largest coefficient; a stored one above it means zero.
const MAX_COEFFICIENT: u128 = 10u128.pow(34) - 1;
/// Added to the exponent when it is stored.
const BIAS: i32 = 6176;
const MIN_EXPONENT: i64 = -6176;
const MAX_EXPONENT: i64 = 6111;

const SIGN: u128 = 1 << 127;
/// The five bits after the sign.
const COMBINATION: u32 = 122;
const INFINITY: u128 = 0b11110 << COMBINATION;
const NAN: u128 = 0b11111 << COMBINATION;

/// A decimal number of 34 digits, as its sixteen little-endian bytes.
///
/// Compares by bytes, so `1.0` and `1.00` differ, as they do when stored.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Decimal128([u8; 16]);

/// The number that sixteen bytes encode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parts {
    /// Not a number, quiet or signalling.
    NaN,
    /// Infinity.
    Infinity {
        /// Below zero.
        is_negative: bool,
    },
    /// `coefficient` times ten to the power of `exponent`.
    Finite {
        /// Whether there is a minus sign; zero may have one.
        is_negative: bool,
        /// At most 34 digits.
        coefficient: u128,
        /// From -6176 to 6111 when the bytes came from a conforming writer.
        exponent: i32,
    },
}

impl Decimal128 {
    /// Wraps sixteen little-endian bytes; every value is valid.
    #[inline]
    pub const fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    /// Returns the sixteen little-endian bytes.
    #[inline]
    pub const fn bytes(&self) -> [u8; 16] {
        self.0
    }

    /// Reads a decimal number, `Infinity`, `inf` or `NaN` in any case, with an optional sign.
    ///
    /// A number is read exactly or refused: trailing zeros move between coefficient and exponent if that
    /// makes it fit, and the exponent of zero is clamped.
    ///
    /// # Errors
    /// [`crate::ErrorKind::Syntax`] when the text is no number, [`crate::ErrorKind::OutOfRange`] when it has
    /// more than 34 significant digits or too large or too small an exponent.
    pub fn parse(text: &str) -> Result<Self> {
        let (is_negative, unsigned) = match text.as_bytes() {
            [b'-', ..] => (true, &text[1..]),
            [b'+', ..] => (false, &text[1..]),
            _ => (false, text),
        };
        if let Some((coefficient, exponent)) = short(unsigned.as_bytes()) {
            return Ok(Self::finite(is_negative, coefficient.into(), exponent));
        }
        let sign = if is_negative { SIGN } else { 0 };
        if unsigned.eq_ignore_ascii_case("inf") || unsigned.eq_ignore_ascii_case("infinity") {
            return Ok(Self((sign | INFINITY).to_le_bytes()));
        }
        if unsigned.eq_ignore_ascii_case("nan") {
            return Ok(Self((sign | NAN).to_le_bytes()));
        }
        let (digits, exponent) = scan(unsigned).ok_or_else(|| not_a_number(text))?;
        let (coefficient, exponent) = fit(digits, exponent)
            .map_err(|why| Error::range(format!("cannot store {text:.60} as decimal128 exactly: {why}")))?;
        Ok(Self::finite(is_negative, coefficient, exponent))
    }

    /// Encodes a finite number. Coefficient and exponent must be in range, as [`short`] and [`fit`] return
    /// them.
    fn finite(is_negative: bool, coefficient: u128, exponent: i32) -> Self {
        let sign = if is_negative { SIGN } else { 0 };
        // Coefficients end below bit 113, so the exponent's two high bits are never both set.
        let biased = (exponent + BIAS) as u128;
        Self((sign | biased << 113 | coefficient).to_le_bytes())
    }

    /// Splits the number into its parts.
    pub fn parts(&self) -> Parts {
        let bits = u128::from_le_bytes(self.0);
        let is_negative = bits & SIGN != 0;
        if bits & NAN == NAN {
            return Parts::NaN;
        }
        if bits & NAN == INFINITY {
            return Parts::Infinity { is_negative };
        }
        // With both high bits set the exponent sits two bits lower and the coefficient starts with 0b100:
        // always more than 34 digits, so zero.
        let is_large = bits >> 125 & 0b11 == 0b11;
        let (biased, coefficient) = if is_large {
            (bits >> 111 & 0x3FFF, 0)
        } else {
            (bits >> 113 & 0x3FFF, bits & ((1 << 113) - 1))
        };
        Parts::Finite {
            is_negative,
            coefficient: if coefficient > MAX_COEFFICIENT { 0 } else { coefficient },
            exponent: biased as i32 - BIAS,
        }
    }
}

/// Returns coefficient and exponent of a number of up to nineteen digits without an exponent, the usual form; `None`
/// for others.
#[inline]
fn short(text: &[u8]) -> Option<(u64, i32)> {
    if text.len() > 20 {
        return None;
    }
    let mut coefficient = 0u64;
    let mut count = 0;
    let mut point = None;
    for &c in text {
        match c {
            b'0'..=b'9' if count < 19 => {
                coefficient = coefficient * 10 + u64::from(c - b'0');
                count += 1;
            }
            b'.' if point.is_none() => point = Some(count),
            _ => return None,
        }
    }
    (count > 0).then(|| (coefficient, point.unwrap_or(count) - count))
}

/// Splits into significant digits (without leading zeros) and exponent; `None` when it is no number.
fn scan(text: &str) -> Option<(Vec<u8>, i64)> {
    let bytes = text.as_bytes();
    let (mantissa, exponent) = match bytes.iter().position(|&c| c | 0x20 == b'e') {
        Some(at) => (&bytes[..at], scan_exponent(&bytes[at + 1..])?),
        None => (bytes, 0),
    };
    let mut digits = Vec::with_capacity(mantissa.len().min(DIGITS));
    let mut is_empty = true;
    let mut fraction: Option<i64> = None;
    for &c in mantissa {
        match c {
            b'0'..=b'9' => {
                is_empty = false;
                fraction = fraction.map(|n| n + 1);
                if c != b'0' || !digits.is_empty() {
                    digits.push(c - b'0');
                }
            }
            b'.' if fraction.is_none() => fraction = Some(0),
            _ => return None,
        }
    }
    if is_empty {
        return None;
    }
    Some((digits, exponent - fraction.unwrap_or(0)))
}

fn scan_exponent(bytes: &[u8]) -> Option<i64> {
    let (is_negative, digits) = match bytes {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        _ => (false, bytes),
    };
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    // Larger than any exponent that zeros, even in the longest text, could bring back into range.
    const FAR: i64 = 1 << 48;
    let value = digits.iter().fold(0i64, |n, &c| (n * 10 + i64::from(c - b'0')).min(FAR));
    Some(if is_negative { -value } else { value })
}

/// Moves zeros between coefficient and exponent until both fit.
fn fit(mut digits: Vec<u8>, mut exponent: i64) -> std::result::Result<(u128, i32), &'static str> {
    if digits.is_empty() {
        return Ok((0, exponent.clamp(MIN_EXPONENT, MAX_EXPONENT) as i32));
    }
    while digits.len() > DIGITS {
        if digits.pop() != Some(0) {
            return Err("it has more than 34 significant digits");
        }
        exponent += 1;
    }
    while exponent < MIN_EXPONENT {
        if digits.pop() != Some(0) {
            return Err("its exponent is below -6176");
        }
        exponent += 1;
    }
    while exponent > MAX_EXPONENT {
        if digits.len() == DIGITS {
            return Err("its exponent is above 6111");
        }
        digits.push(0);
        exponent -= 1;
    }
    let coefficient = digits.iter().fold(0u128, |n, &d| n * 10 + u128::from(d));
    Ok((coefficient, exponent as i32))
}

#[cold]
fn not_a_number(text: &str) -> Error {
    Error::syntax(format!("expected a decimal number, got {text:.60?}"))
}

impl FromStr for Decimal128 {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        Self::parse(text)
    }
}

/// The text of a number, without an allocation.
#[derive(Clone, Copy)]
pub struct Text {
    /// The digits, and the longest additions: a sign with `0.` and six zeros, or with a point and `E+6144`.
    bytes: [u8; DIGITS + 9],
    length: usize,
}

impl Text {
    const fn new() -> Self {
        Self { bytes: [0; DIGITS + 9], length: 0 }
    }

    fn push(&mut self, text: &str) {
        let end = self.length + text.len();
        self.bytes[self.length..end].copy_from_slice(text.as_bytes());
        self.length = end;
    }

    /// The text itself, all ASCII.
    #[must_use]
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.bytes[..self.length]).unwrap_or_default()
    }
}

impl Decimal128 {
    /// Writes the number as the specification's `toString`.
    #[must_use]
    pub fn text(&self) -> Text {
        let mut text = Text::new();
        let (is_negative, coefficient, exponent) = match self.parts() {
            Parts::NaN => {
                text.push("NaN");
                return text;
            }
            Parts::Infinity { is_negative } => {
                text.push(if is_negative { "-Infinity" } else { "Infinity" });
                return text;
            }
            Parts::Finite { is_negative, coefficient, exponent } => (is_negative, coefficient, exponent),
        };
        if is_negative {
            text.push("-");
        }
        let mut buffer = itoa::Buffer::new();
        // Most coefficients fit in 64 bits, whose division is much cheaper.
        let digits = match u64::try_from(coefficient) {
            Ok(small) => buffer.format(small),
            Err(_) => buffer.format(coefficient),
        };
        let count = digits.len() as i32;
        let scientific = exponent + count - 1;
        let whole = count + exponent;
        if exponent > 0 || scientific < -6 {
            let (first, rest) = digits.split_at(1);
            text.push(first);
            if !rest.is_empty() {
                text.push(".");
                text.push(rest);
            }
            text.push(if scientific < 0 { "E-" } else { "E+" });
            text.push(itoa::Buffer::new().format(scientific.unsigned_abs()));
        } else if exponent == 0 {
            text.push(digits);
        } else if whole > 0 {
            let (whole, fraction) = digits.split_at(whole as usize);
            text.push(whole);
            text.push(".");
            text.push(fraction);
        } else {
            // At most six zeros: `scientific` is -6 or more here.
            text.push("0.");
            text.push(&"000000"[..-whole as usize]);
            text.push(digits);
        }
        text
    }
}

impl fmt::Display for Decimal128 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text().as_str())
    }
}

impl fmt::Debug for Decimal128 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Decimal128({self})")
    }
}
