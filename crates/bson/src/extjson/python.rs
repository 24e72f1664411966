//! JSON text in the dialect of Python's `json` module: the grammar that it reads, and its form of text and numbers.
//! Makes no values and knows no types. For unusual text it returns nothing, and the caller uses the module itself.

use super::text::{first_escape, is_plain, unusual};
use crate::object_id::HEX;

/// Reads a text from left to right. A method returns `None` for text that is not JSON, or is unusual.
pub struct Scanner<'a> {
    text: &'a str,
    at: usize,
    characters: Vec<u32>,
}

/// A string without its quotes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Text<'a> {
    /// ASCII without escapes.
    Ascii(&'a [u8]),
    /// Not ASCII, without escapes.
    Plain(&'a str),
    /// With escapes; `Scanner::characters` returns its characters.
    Escaped,
}

/// A number.
#[derive(Debug, PartialEq)]
pub enum Number<'a> {
    /// An integer of 64 bits.
    Int(i64),
    /// A longer integer, as written.
    Long(&'a str),
    /// With a fraction or an exponent.
    Float(f64),
}

/// Every number with this many digits fits an i64.
const SAFE_DIGITS: usize = 18;

/// The values of hex digits; -1 for all other bytes.
const HEX_VALUES: [i32; 256] = {
    let mut table = [-1; 256];
    let mut i = 0;
    while i < HEX.len() {
        table[HEX[i] as usize] = i as i32;
        table[HEX[i].to_ascii_uppercase() as usize] = i as i32;
        i += 1;
    }
    table
};

/// Powers of ten that a double represents exactly.
const POWERS: [f64; 23] = [
    1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18,
    1e19, 1e20, 1e21, 1e22,
];

impl<'a> Scanner<'a> {
    /// Starts at the beginning.
    pub fn new(text: &'a str) -> Self {
        Self { text, at: 0, characters: Vec::new() }
    }

    /// Returns the position of the next byte.
    pub fn position(&self) -> usize {
        self.at
    }

    /// Goes back to an earlier `position`.
    pub fn rewind(&mut self, at: usize) {
        debug_assert!(at <= self.at);
        self.at = at;
    }

    /// The remaining bytes.
    #[inline]
    pub fn rest(&self) -> &'a [u8] {
        self.text.as_bytes().get(self.at..).unwrap_or_default()
    }

    /// Steps over this many bytes, which must be ASCII.
    #[inline]
    pub fn step(&mut self, bytes: usize) {
        self.at += bytes;
        debug_assert!(self.text.is_char_boundary(self.at));
    }

    /// The next byte; `None` at the end.
    #[inline]
    pub fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    /// Steps over white space; returns the next byte, or `None` at the end.
    #[inline]
    pub fn peek_spaced(&mut self) -> Option<u8> {
        let bytes = self.text.as_bytes();
        let mut at = self.at;
        let found = loop {
            match bytes.get(at) {
                Some(b' ' | b'\t' | b'\n' | b'\r') => at += 1,
                found => break found.copied(),
            }
        };
        self.at = at;
        found
    }

    /// Steps over the next byte if it is this one.
    #[inline]
    pub fn eat(&mut self, wanted: u8) -> bool {
        let is_next = self.peek() == Some(wanted);
        self.at += usize::from(is_next);
        is_next
    }

    /// Steps over white space and then over the next byte if it is this one.
    #[inline]
    pub fn eat_spaced(&mut self, wanted: u8) -> bool {
        let is_next = self.peek_spaced() == Some(wanted);
        self.at += usize::from(is_next);
        is_next
    }

    /// Steps over white space.
    #[inline]
    pub fn skip_space(&mut self) {
        self.peek_spaced();
    }

    /// Steps over a word such as `true`.
    #[inline]
    pub fn word(&mut self, word: &str) -> Option<()> {
        if !self.rest().starts_with(word.as_bytes()) {
            return None;
        }
        self.at += word.len();
        Some(())
    }

    /// Reads a string with its quotes.
    #[inline]
    pub fn string(&mut self) -> Option<Text<'a>> {
        let (quote, rest) = self.rest().split_first()?;
        if *quote != b'"' {
            return None;
        }
        let plain = plain_length(rest);
        if rest.get(plain) == Some(&b'"') {
            self.at += plain + 2;
            return Some(Text::Ascii(&rest[..plain]));
        }
        let start = self.at + 1;
        self.at = start + plain;
        self.unusual_string(start)
    }

    /// The characters of the string that was read last, if it has escapes.
    pub fn characters(&self) -> &[u32] {
        &self.characters
    }

    /// Reads the rest of a string that starts at `start` and is plain ASCII up to here.
    #[inline(never)]
    fn unusual_string(&mut self, start: usize) -> Option<Text<'a>> {
        let bytes = self.text.as_bytes();
        let end = self.at + first_escape(bytes.get(self.at..)?)?;
        if bytes.get(end) == Some(&b'"') {
            self.at = end + 1;
            return Some(Text::Plain(self.text.get(start..end)?));
        }
        self.characters.clear();
        // Usually enough for the rest, so that memory is allocated once.
        self.characters.try_reserve(2 * (end - start) + 64).ok()?;
        self.characters.extend(bytes[start..self.at].iter().map(|c| u32::from(*c)));
        loop {
            match self.peek()? {
                b'"' => {
                    self.at += 1;
                    return Some(Text::Escaped);
                }
                b'\\' => self.escapes()?,
                0x80.. => {
                    let mut size = 0;
                    for c in self.text[self.at..].chars().take_while(|c| !c.is_ascii()) {
                        self.characters.push(u32::from(c));
                        size += c.len_utf8();
                    }
                    self.at += size;
                }
                0x20.. => {
                    let rest = self.rest();
                    let plain = plain_length(rest);
                    self.characters.extend(rest[..plain].iter().map(|c| u32::from(*c)));
                    self.at += plain;
                }
                _ => return None,
            }
        }
    }

    /// Reads consecutive escapes: text in another alphabet often consists of nothing else.
    #[inline]
    fn escapes(&mut self) -> Option<()> {
        while let Some([b'\\', letter, digits @ ..]) = self.rest().first_chunk::<6>() {
            if *letter != b'u' {
                break;
            }
            let first = code_unit(*digits)?;
            self.at += 6;
            let c = if matches!(first, 0xD800..=0xDFFF) { self.second_half(first)? } else { first };
            self.characters.push(c);
        }
        if self.peek() != Some(b'\\') {
            return Some(());
        }
        let c = match self.rest().get(1)? {
            letter @ (b'"' | b'\\' | b'/') => *letter,
            b'b' => 0x08,
            b'f' => 0x0C,
            b'n' => b'\n',
            b'r' => b'\r',
            b't' => b'\t',
            _ => return None,
        };
        self.at += 2;
        self.characters.push(u32::from(c));
        Some(())
    }

    /// Returns nothing for half of a surrogate pair, which a Python string can hold.
    #[inline]
    fn second_half(&mut self, first: u32) -> Option<u32> {
        let [b'\\', b'u', digits @ ..] = self.rest().first_chunk::<6>()? else { return None };
        let second = code_unit(*digits)?;
        (first <= 0xDBFF && (0xDC00..=0xDFFF).contains(&second)).then_some(())?;
        self.at += 6;
        Some(0x1_0000 + ((first - 0xD800) << 10) + (second - 0xDC00))
    }

    /// Reads a number.
    #[inline(always)]
    pub fn number(&mut self) -> Option<Number<'a>> {
        let rest = self.rest();
        let is_negative = rest.first() == Some(&b'-');
        let first = usize::from(is_negative);
        let mut value = 0;
        let count = digits(rest.get(first..)?, &mut value);
        let end = first + count;
        if count == 1 || (2..=SAFE_DIGITS).contains(&count) && rest[first] != b'0' {
            match rest.get(end) {
                Some(b'.') => {
                    let decimals = fraction(&rest[end + 1..], &mut value);
                    let end = end + 1 + decimals;
                    let is_usual = decimals > 0 && count + decimals <= LONGEST_QUOTIENT;
                    if is_usual && !matches!(rest.get(end), Some(b'e' | b'E')) {
                        self.at += end;
                        let sign = u64::from(is_negative) << 63;
                        let number = f64::from_bits(quotient(value, decimals).to_bits() | sign);
                        return Some(Number::Float(number));
                    }
                }
                Some(b'e' | b'E') => {}
                _ => {
                    self.at += end;
                    let size = value as i64;
                    return Some(Number::Int(if is_negative { -size } else { size }));
                }
            }
        }
        self.unusual_number(end, count)
    }

    /// Reads a number with an exponent or many digits, whose first `count` digits end at `at`.
    #[cold]
    #[inline(never)]
    fn unusual_number(&mut self, mut at: usize, count: usize) -> Option<Number<'a>> {
        let rest = self.rest();
        if count == 0 || (count > 1 && rest[at - count] == b'0') {
            return None;
        }
        let is_int = !matches!(rest.get(at), Some(b'.' | b'e' | b'E'));
        if rest.get(at) == Some(&b'.') {
            let decimals = digits(&rest[at + 1..], &mut 0);
            if decimals == 0 {
                return None;
            }
            at += 1 + decimals;
        }
        if let Some(b'e' | b'E') = rest.get(at) {
            at += 1 + usize::from(matches!(rest.get(at + 1), Some(b'-' | b'+')));
            let exponent = digits(rest.get(at..)?, &mut 0);
            if exponent == 0 {
                return None;
            }
            at += exponent;
        }
        let number = self.text.get(self.at..self.at + at)?;
        self.at += at;
        if is_int {
            return Some(number.parse().map_or(Number::Long(number), Number::Int));
        }
        number.parse().ok().map(Number::Float)
    }
}

/// The number of four hex digits.
#[inline]
fn code_unit(digits: [u8; 4]) -> Option<u32> {
    // A byte that is no digit makes the result negative.
    let code = digits.iter().fold(0, |code, digit| code << 4 | HEX_VALUES[usize::from(*digit)]);
    u32::try_from(code).ok()
}

/// With up to this many digits every number fits a u64, and so does the power of ten for as many decimals.
const LONGEST_QUOTIENT: usize = 19;

/// What divides by a power of ten.
struct Divisor {
    /// The power, shifted until its highest bit is set.
    shifted: u64,
    shift: u32,
    /// 2^127 divided by `shifted`, rounded down. Of 1 it would need 65 bits, so it is less by one.
    reciprocal: u64,
}

const DIVISORS: [Divisor; LONGEST_QUOTIENT + 1] = {
    let mut table =
        [const { Divisor { shifted: 1 << 63, shift: 63, reciprocal: u64::MAX } }; LONGEST_QUOTIENT + 1];
    let mut i = 1;
    while i <= LONGEST_QUOTIENT {
        let power = 10_u64.pow(i as u32);
        let shift = power.leading_zeros();
        let shifted = power << shift;
        table[i] = Divisor { shifted, shift, reciprocal: ((1 << 127) / shifted as u128) as u64 };
        i += 1;
    }
    table
};

/// Returns the double that is nearest to `value / 10^decimals`, for at most `LONGEST_QUOTIENT` decimals.
#[inline]
fn quotient(value: u64, decimals: usize) -> f64 {
    if value <= 1 << 53 {
        // Both numbers are exact doubles, so their quotient is the nearest double.
        return value as f64 / POWERS[decimals];
    }
    let Divisor { shifted, shift, reciprocal } = DIVISORS[decimals];
    let up = value.leading_zeros();
    // The highest bit of both is then set, so the quotient has 63 or 64 bits.
    let (value, divisor) = (u128::from(value << up), u128::from(shifted));
    // Rounded down twice, so it may be one less than the quotient.
    let mut quotient = ((value * u128::from(reciprocal)) >> 64) as u64;
    // Ten bits or more are rounded away, to even at an exact tie, where the last nine are 0. Next to a tie all counts.
    if matches!(quotient & 0x1FF, 0 | 0x1FF) {
        let mut remainder = (value << 63) - u128::from(quotient) * divisor;
        if remainder >= divisor {
            quotient += 1;
            remainder -= divisor;
        }
        // The last bit stands for the remainder, so that only an exact tie looks like one.
        quotient |= u64::from(remainder != 0);
    }
    let exponent = 1023 + u64::from(shift) - u64::from(up) - 63;
    quotient as f64 * f64::from_bits(exponent << 52)
}

/// Continues a number; returns its count of digits from the start. The value of a number that is too long wraps around.
#[inline]
fn digits(bytes: &[u8], value: &mut u64) -> usize {
    let mut number = *value;
    let mut count = 0;
    for byte in bytes {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            break;
        }
        number = number.wrapping_mul(10).wrapping_add(u64::from(digit));
        count += 1;
    }
    *value = number;
    count
}

/// As `digits`, eight bytes at a time: for fractions, whose digits are many or of no usual number.
#[inline]
fn fraction(bytes: &[u8], value: &mut u64) -> usize {
    let mut rest = bytes;
    while let Some((eight, others)) = rest.split_first_chunk() {
        let word = u64::from_le_bytes(*eight) ^ 0x3030_3030_3030_3030;
        // Marks bytes above 9. Marks above the lowest may be false.
        let marks = (word.wrapping_add(0x7676_7676_7676_7676) | word) & 0x8080_8080_8080_8080;
        if marks != 0 {
            let count = marks.trailing_zeros() as usize / 8;
            // The first digit is in the lowest byte; zeros take the places below the digits.
            let digits = word << 8 << (56 - 8 * count);
            *value = value.wrapping_mul(POWERS_OF_TEN[count]).wrapping_add(eight_digits(digits));
            return bytes.len() - rest.len() + count;
        }
        *value = value.wrapping_mul(100_000_000).wrapping_add(eight_digits(word));
        rest = others;
    }
    bytes.len() - rest.len() + digits(rest, value)
}

/// The number of eight digits from 0 to 9, the first in the lowest byte.
#[inline]
fn eight_digits(digits: u64) -> u64 {
    const EVERY_OTHER: u64 = 0x0000_00FF_0000_00FF;
    // Adjacent digits are combined into pairs, pairs into fours, fours into eight.
    let pairs = digits.wrapping_mul(10).wrapping_add(digits >> 8);
    let (odd, even) = (pairs & EVERY_OTHER, pairs >> 16 & EVERY_OTHER);
    let all = odd.wrapping_mul(100 + (1_000_000 << 32)).wrapping_add(even.wrapping_mul(1 + (10_000 << 32)));
    all >> 32
}

const POWERS_OF_TEN: [u64; 8] = [1, 10, 100, 1_000, 10_000, 100_000, 1_000_000, 10_000_000];

/// Counts the leading bytes that are ASCII and need no escape.
#[inline]
fn plain_length(bytes: &[u8]) -> usize {
    let (chunks, rest) = bytes.as_chunks::<8>();
    for (i, chunk) in chunks.iter().enumerate() {
        let marks = unusual(u64::from_le_bytes(*chunk));
        if marks != 0 {
            // Marks above the lowest may be false.
            return i * 8 + marks.trailing_zeros() as usize / 8;
        }
    }
    let is_plain = |c: &u8| matches!(c, 0x20..0x80) && *c != b'"' && *c != b'\\';
    chunks.len() * 8 + rest.iter().take_while(|c| is_plain(c)).count()
}

/// Reads the text of a `$numberInt` or `$numberLong`: a sign and up to nineteen digits.
pub fn parse_int(text: &[u8]) -> Option<i64> {
    let (is_negative, digits) = match text {
        [b'-', digits @ ..] => (true, digits),
        digits => (false, digits),
    };
    if digits.is_empty() || digits.len() > SAFE_DIGITS + 1 || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    if digits.len() > SAFE_DIGITS {
        // Nineteen digits may be too large.
        return std::str::from_utf8(text).ok()?.parse().ok();
    }
    let value = digits.iter().fold(0, |value, digit| value * 10 + i64::from(digit - b'0'));
    Some(if is_negative { -value } else { value })
}

/// Reads the text of a `$numberDouble`.
pub fn parse_float(text: &[u8]) -> Option<f64> {
    match text {
        b"NaN" => return Some(f64::NAN),
        b"Infinity" => return Some(f64::INFINITY),
        b"-Infinity" => return Some(f64::NEG_INFINITY),
        _ => {}
    }
    if !text.iter().all(|c| matches!(c, b'0'..=b'9' | b'+' | b'-' | b'.' | b'e' | b'E')) {
        return None;
    }
    std::str::from_utf8(text).ok()?.parse().ok()
}

/// Reads `2020-01-02T03:04:05Z`, with up to three decimals, from the year 1 on; returns milliseconds since 1970.
pub fn parse_date(text: &[u8]) -> Option<i64> {
    let is_usual = matches!(text.len(), 20 | 22..=24)
        && text[text.len() - 1] == b'Z'
        && text[10] == b'T'
        && text[16] == b':'
        && text[..4].iter().all(u8::is_ascii_digit)
        && &text[..4] != b"0000"
        // A datetime cannot hold a leap second.
        && text[17] < b'6';
    if !is_usual {
        return None;
    }
    crate::datetime::parse_iso(std::str::from_utf8(text).ok()?).ok()
}

/// Appends a finite number as `repr` writes it: the shortest text that gives the number back.
pub fn push_float(value: f64, out: &mut Vec<u8>) {
    let mut buffer = zmij::Buffer::new();
    let text = buffer.format_finite(value);
    let size = value.abs();
    // Within these bounds both Rust and Python write digits and a point.
    if (size == 0.0 || (1e-4..1e16).contains(&size)) && !text.contains('e') {
        out.extend_from_slice(text.as_bytes());
        return;
    }
    push_unusual_float(text, out);
}

#[inline(never)]
fn push_unusual_float(text: &str, out: &mut Vec<u8>) {
    let (text, written) = text.split_once('e').map_or((text, 0), |(text, e)| (text, e.parse().unwrap_or(0)));
    let text = match text.strip_prefix('-') {
        Some(text) => {
            out.push(b'-');
            text
        }
        None => text,
    };
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let all: Vec<u8> = whole.bytes().chain(fraction.bytes()).collect();
    let zeros = all.iter().take_while(|digit| **digit == b'0').count();
    let end = all.iter().rposition(|digit| *digit != b'0').map_or(zeros, |last| last + 1);
    let digits = &all[zeros..end];
    // The power of ten of the first digit.
    let power = written + whole.len() as i32 - zeros as i32 - 1;
    if (-4..16).contains(&power) {
        if power < 0 {
            out.extend_from_slice(b"0.");
            out.resize(out.len() + (-power - 1) as usize, b'0');
            out.extend_from_slice(digits);
            return;
        }
        let point = power as usize + 1;
        for place in 0..point.max(digits.len()) {
            if place == point {
                out.push(b'.');
            }
            out.push(digits.get(place).copied().unwrap_or(b'0'));
        }
        if point >= digits.len() {
            out.extend_from_slice(b".0");
        }
        return;
    }
    let Some((first, rest)) = digits.split_first() else { return };
    out.push(*first);
    if !rest.is_empty() {
        out.push(b'.');
        out.extend_from_slice(rest);
    }
    let sign = if power < 0 { '-' } else { '+' };
    out.extend_from_slice(format!("e{sign}{:02}", power.abs()).as_bytes());
}

/// Appends a string in quotes; with `is_ascii`, characters beyond ASCII as escapes.
#[inline]
pub fn push_string(text: &str, is_ascii: bool, out: &mut Vec<u8>) {
    out.push(b'"');
    if is_ascii {
        push_ascii(text, out);
        out.push(b'"');
        return;
    }
    super::text::push_checked(text.as_bytes(), out);
    out.push(b'"');
}

#[inline]
fn push_ascii(text: &str, out: &mut Vec<u8>) {
    let bytes = text.as_bytes();
    // DEL is ASCII, but is written as an escape.
    if is_plain(bytes) && memchr::memchr(0x7F, bytes).is_none() {
        out.extend_from_slice(bytes);
        return;
    }
    push_escapes(text, out);
}

#[inline(never)]
fn push_escapes(text: &str, out: &mut Vec<u8>) {
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend_from_slice(&[b'\\', c as u8]),
            ' '..='~' => out.push(c as u8),
            '\u{8}' => out.extend_from_slice(b"\\b"),
            '\u{C}' => out.extend_from_slice(b"\\f"),
            '\n' => out.extend_from_slice(b"\\n"),
            '\r' => out.extend_from_slice(b"\\r"),
            '\t' => out.extend_from_slice(b"\\t"),
            _ => {
                for unit in c.encode_utf16(&mut [0; 2]) {
                    let [a, b] = unit.to_be_bytes();
                    let digit = |nibble: u8| HEX[usize::from(nibble & 15)];
                    let digits = [digit(a >> 4), digit(a), digit(b >> 4), digit(b)];
                    out.extend_from_slice(b"\\u");
                    out.extend_from_slice(&digits);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn float(value: f64) -> String {
        let mut out = Vec::new();
        push_float(value, &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn floats_are_written_as_python_writes_them() {
        for (value, text) in [
            (0.0, "0.0"),
            (-0.0, "-0.0"),
            (1.0, "1.0"),
            (1e15, "1000000000000000.0"),
            (9007199254740993.0, "9007199254740992.0"),
            (1e16, "1e+16"),
            (-1.5e16, "-1.5e+16"),
            (123456789012345680.0, "1.2345678901234568e+17"),
            (0.0001, "0.0001"),
            (0.00012, "0.00012"),
            (0.00001, "1e-05"),
            (1.5e-7, "1.5e-07"),
            (5e-324, "5e-324"),
            (1.7976931348623157e308, "1.7976931348623157e+308"),
            (0.1, "0.1"),
            (12345.678, "12345.678"),
        ] {
            assert_eq!(float(value), text);
        }
    }

    #[test]
    fn numbers_are_read_as_the_grammar_has_them() {
        for (text, number) in [
            ("0", Number::Int(0)),
            ("-0", Number::Int(0)),
            ("-12,", Number::Int(-12)),
            ("9223372036854775807", Number::Int(i64::MAX)),
            ("-9223372036854775808", Number::Int(i64::MIN)),
            ("9223372036854775808", Number::Long("9223372036854775808")),
            ("1.5", Number::Float(1.5)),
            ("1E2", Number::Float(100.0)),
            ("1e400", Number::Float(f64::INFINITY)),
        ] {
            assert_eq!(Scanner::new(text).number(), Some(number), "{text}");
        }
        // Digits with text after them are not read as a number, near the end of the text or far from it.
        let longest = "12345678901234567890123456";
        for end in ["", ",", ":", "/", "}         ", "\u{80}        ", "\u{FF}9999999", "\0\0\0\0\0\0\0\0"] {
            for length in 1..=longest.len() {
                let digits = &longest[..length];
                let text = format!("{digits}{end}");
                let mut scanner = Scanner::new(&text);
                let wanted = digits.parse().map_or(Number::Long(digits), Number::Int);
                assert_eq!(scanner.number(), Some(wanted), "{text:?}");
                assert_eq!(scanner.rest(), end.as_bytes());
                let text = format!("-0.{digits}e-{digits}{end}");
                let mut scanner = Scanner::new(&text);
                let wanted = text[..text.len() - end.len()].parse().unwrap();
                assert_eq!(scanner.number(), Some(Number::Float(wanted)), "{text:?}");
                assert_eq!(scanner.rest(), end.as_bytes());
            }
        }
        for text in ["", "-", "01", "+1", ".5", "1.", "1e", "1e+", "-Infinity", "NaN", "00"] {
            assert_eq!(Scanner::new(text).number(), None, "{text}");
        }
    }

    #[test]
    fn numbers_are_the_nearest_doubles() {
        fn check(text: &str) {
            let Some(Number::Float(found)) = Scanner::new(text).number() else { panic!("{text}") };
            assert_eq!(found.to_bits(), text.parse::<f64>().unwrap().to_bits(), "{text}");
        }
        for text in [
            "0.1",
            "-0.0",
            "1.7976931348623157e308",
            "9007199254740992.5",
            "9007199254740993.0",
            "0.30000000000000004",
            "123456789012345.678",
            "0.000000000000000001",
            "0.0000000000000000000000001",
            "5e-324",
            "1e22",
            "1e23",
            "100000000000000000.5",
            "900719925474099.25",
            "0.9007199254740993",
            "179.999999999999",
            "-73.98765432101",
            "0.84442185152504812",
            "0.000000000000000000",
            "9999999999999999.999",
            "9007199254740993.000",
            "9007199254740992.500",
            "9007199254740993.001",
            "1801439850948198.599",
            "0.9999999999999999999",
            "0.1000000000000000055",
        ] {
            check(text);
        }
        let mut state = 7_u64;
        for _ in 0..20_000 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let places = (state >> 60) as usize + 1;
            let text =
                format!("{}.{:0places$}", (state >> 40) % 1000, (state >> 8) % 10_u64.pow(places as u32));
            check(&text);
            // Halfway between two doubles, and next to that.
            let odd = 1 << 53 | state >> 11 | 1;
            for text in [format!("{odd}.0"), format!("{odd}.01"), format!("{}.99", odd - 1)] {
                check(&text);
            }
        }
    }

    #[test]
    fn strings_are_read_to_their_end() {
        for length in 0..40 {
            let plain = "x".repeat(length);
            let quoted = format!("\"{plain}\"y");
            let mut scanner = Scanner::new(&quoted);
            assert_eq!(scanner.string(), Some(Text::Ascii(plain.as_bytes())));
            assert_eq!(scanner.peek(), Some(b'y'));
            for (inner, meant) in
                [("\\n", "\n"), ("é", "é"), ("é\\n☆", "é\n☆"), ("\\ud83d\\ude00", "😀"), ("\\\"", "\"")]
            {
                let quoted = format!("\"{plain}{inner}{plain}\"");
                let meant = format!("{plain}{meant}{plain}");
                let mut scanner = Scanner::new(&quoted);
                match scanner.string() {
                    Some(Text::Plain(found)) => assert_eq!(found, meant),
                    found => {
                        assert_eq!(found, Some(Text::Escaped));
                        let found = scanner.characters().iter().map(|c| char::from_u32(*c).unwrap());
                        assert_eq!(found.collect::<String>(), meant);
                    }
                }
                assert_eq!(scanner.peek(), None);
            }
            for wrong in
                ["\n", "\\ud83d", "\\ude00", "\\ude00\\ud83d", "\\ud83d\\ud83d", "\\ud83dx", "\\x", "\\u12"]
            {
                assert_eq!(Scanner::new(&format!("\"{plain}{wrong}\"")).string(), None);
            }
            assert_eq!(Scanner::new(&format!("\"{plain}")).string(), None);
        }
    }

    #[test]
    fn text_is_written_with_and_without_escapes() {
        let mut out = Vec::new();
        push_string("a\"\\\u{7F}\n\u{1}é😀", true, &mut out);
        assert_eq!(out, br#""a\"\\\u007f\n\u0001\u00e9\ud83d\ude00""#);
        out.clear();
        push_string("a\"\u{7F}\u{1}é", false, &mut out);
        assert_eq!(String::from_utf8(out).unwrap(), "\"a\\\"\u{7F}\\u0001é\"");
    }

    #[test]
    fn only_usual_dates_are_read() {
        assert_eq!(parse_date(b"1970-01-01T00:00:01.5Z"), Some(1500));
        assert_eq!(parse_date(b"1970-01-01T00:00:01Z"), Some(1000));
        for text in [
            "0000-01-01T00:00:00Z",
            "2020-01-01T00:00:60Z",
            "2020-02-30T00:00:00Z",
            "2020-01-01T00:00:00",
            "x",
        ] {
            assert_eq!(parse_date(text.as_bytes()), None, "{text}");
        }
    }
}
