//! Elements of validated BSON documents, as slices: for comparing and copying. Knows no Python.

/// One element.
#[derive(Clone, Copy)]
pub(super) struct Element<'a> {
    pub kind: u8,
    pub key: &'a [u8],
    pub value: &'a [u8],
}

/// Walks over the elements of a document or an array; ends early at invalid bytes.
#[derive(Clone)]
pub(super) struct Elements<'a>(&'a [u8]);

impl<'a> Elements<'a> {
    /// Walks over the elements of a whole document.
    pub(super) fn of(document: &'a [u8]) -> Self {
        Elements(document.get(4..document.len().saturating_sub(1)).unwrap_or_default())
    }

    /// Walks over elements without a document around them.
    pub(super) fn bare(elements: &'a [u8]) -> Self {
        Elements(elements)
    }
}

impl<'a> Iterator for Elements<'a> {
    type Item = Element<'a>;

    fn next(&mut self) -> Option<Element<'a>> {
        let bytes = self.0;
        let kind = *bytes.first()?;
        let key_length = key_length(&bytes[1..])?;
        let value_at = key_length + 2;
        let length = value_length(kind, bytes.get(value_at..)?)?;
        let whole = bytes.get(..value_at + length)?;
        self.0 = &bytes[value_at + length..];
        Some(Element { kind, key: &bytes[1..1 + key_length], value: &whole[value_at..] })
    }
}

/// Skips the elements that two documents begin with in common, byte for byte.
pub(super) fn skip_common(one: &mut Elements<'_>, other: &mut Elements<'_>) {
    let mut ahead = one.clone();
    while ahead.next().is_some() {
        let element = &one.0[..one.0.len() - ahead.0.len()];
        let Some(rest) = other.0.strip_prefix(element) else { return };
        one.0 = ahead.0;
        other.0 = rest;
    }
}

/// Finds the elements of a document by their keys; fastest if the keys are in the document's order.
pub(super) struct Finder<'a> {
    document: &'a [u8],
    next: usize,
}

impl<'a> Finder<'a> {
    pub(super) fn of(document: &'a [u8]) -> Self {
        Finder { document, next: 0 }
    }

    pub(super) fn find(&mut self, key: &[u8]) -> Option<Element<'a>> {
        find(self.document, &mut self.next, key)
    }
}

/// Returns the element of a key. The search starts at `next`, an offset behind an element found before, or 0.
pub(super) fn find<'a>(document: &'a [u8], next: &mut usize, key: &[u8]) -> Option<Element<'a>> {
    let all = Elements::of(document);
    let mut rest = Elements(all.0.get(*next..)?);
    let found = match rest.next().filter(|element| element.key == key) {
        Some(found) => found,
        None => {
            rest = all.clone();
            rest.find(|element| element.key == key)?
        }
    };
    *next = all.0.len() - rest.0.len();
    Some(found)
}

/// The length of the key that begins here. Few keys are long enough for a search of many bytes at once.
#[inline]
fn key_length(bytes: &[u8]) -> Option<usize> {
    let first = &bytes[..bytes.len().min(16)];
    first.iter().position(|byte| *byte == 0).or_else(|| memchr::memchr(0, bytes))
}

fn prefix(bytes: &[u8]) -> Option<usize> {
    bytes.first_chunk::<4>().map(|bytes| u32::from_le_bytes(*bytes) as usize)
}

/// The length of a value, if its type is known.
#[inline(always)] // Runs for each element that a save walks over: a call would cost 2 % of the save.
pub(super) fn value_length(kind: u8, bytes: &[u8]) -> Option<usize> {
    Some(match kind {
        0x06 | 0x0A | 0x7F | 0xFF => 0,
        0x08 => 1,
        0x10 => 4,
        0x01 | 0x09 | 0x11 | 0x12 => 8,
        0x07 => 12,
        0x13 => 16,
        0x02 | 0x0D | 0x0E => prefix(bytes)?.checked_add(4)?,
        0x03 | 0x04 | 0x0F => prefix(bytes)?,
        0x05 => prefix(bytes)?.checked_add(5)?,
        0x0C => prefix(bytes)?.checked_add(16)?,
        0x0B => {
            let first = memchr::memchr(0, bytes)? + 1;
            first + memchr::memchr(0, bytes.get(first..)?)? + 1
        }
        _ => return None,
    })
}

/// The exact value of a number.
fn number(element: &Element<'_>) -> Option<f64> {
    Some(match element.kind {
        0x01 => f64::from_le_bytes(element.value.try_into().ok()?),
        0x10 => i32::from_le_bytes(element.value.try_into().ok()?).into(),
        0x12 => {
            let number = i64::from_le_bytes(element.value.try_into().ok()?);
            if number.unsigned_abs() > 1 << 53 {
                return None;
            }
            number as f64
        }
        _ => return None,
    })
}

/// Whether two values mean the same to a model: numbers of any width, keys in any order.
pub(super) fn same(one: &Element<'_>, other: &Element<'_>) -> bool {
    if one.kind == other.kind {
        return one.value == other.value
            || match one.kind {
                0x03 => same_document(one.value, other.value),
                0x04 => same_array(one.value, other.value),
                _ => false,
            };
    }
    matches!((number(one), number(other)), (Some(one), Some(other)) if one == other)
}

fn same_document(one: &[u8], other: &[u8]) -> bool {
    let covers = |some: &[u8], all: &[u8]| {
        let mut finder = Finder::of(all);
        Elements::of(some).all(|element| finder.find(element.key).is_some_and(|found| same(&element, &found)))
    };
    covers(one, other) && covers(other, one)
}

fn same_array(one: &[u8], other: &[u8]) -> bool {
    let (mut one, mut other) = (Elements::of(one), Elements::of(other));
    loop {
        match (one.next(), other.next()) {
            (None, None) => return true,
            (Some(one), Some(other)) if same(&one, &other) => {}
            _ => return false,
        }
    }
}

/// Appends an element with another key.
pub(super) fn append(out: &mut Vec<u8>, kind: u8, key: &[u8], value: &[u8]) {
    out.push(kind);
    out.extend_from_slice(key);
    out.push(0);
    out.extend_from_slice(value);
}

/// Reserves room for a length; returns its position.
pub(super) fn open(out: &mut Vec<u8>) -> usize {
    let start = out.len();
    out.extend_from_slice(&[0; 4]);
    start
}

/// Ends the document that was opened at `start`.
pub(super) fn close(out: &mut Vec<u8>, start: usize) {
    out.push(0);
    let length = (out.len() - start) as u32;
    out[start..start + 4].copy_from_slice(&length.to_le_bytes());
}
