//! Plain JSON of documents with the same keys: a known key takes one comparison, and is written together with its value.
//! Leaves values that are not frequent or not short to the writer of single elements, which would write the same.

use super::short::{copy_number, copy_plain};
use super::text::is_plain;
use super::write::{BOOLEAN, DATE_TIME, DOUBLE, INT32, INT64, NULL, OBJECT_ID, STRING};
use crate::datetime::Day;
use crate::object_id::ObjectId;
use crate::reader::RawDocument;

/// The room for a key and its value.
pub(super) const ELEMENT: usize = 128;
/// The room for a value, so that a key takes less than 32 bytes.
const VALUE: usize = ELEMENT - 32;
/// The type, key and zero byte of the longest element that is known.
const NAME: usize = 16;
/// How many keys are known at most.
const MOST: usize = 64;
/// How many keys are skipped at most, for documents that lack some.
const NEAR: usize = 3;
/// Unknown keys cost credit, and known ones restore it: without any, the documents have too little in common.
const CREDIT: usize = 32;
const COST: usize = 4;

/// The keys of a document in their order.
pub(super) struct Keys {
    known: Vec<Known>,
    credit: usize,
    /// The day of the last date.
    day: Day,
}

struct Known {
    /// The key and its zero byte, behind a byte for the type.
    name: u128,
    /// The bits of the key and its zero byte.
    mask: u128,
    /// How many bytes these are, with the type's.
    length: u32,
    /// A comma or brace, and `"key":"`. Values without quotes are written over the last one.
    text: [u8; 24],
    /// The length without the last quote.
    text_length: u32,
}

impl Keys {
    pub(super) fn of(document: RawDocument<'_>) -> Self {
        let keys = document.fields().map_while(|field| Some(field.ok()?.0));
        Self { known: keys.filter_map(Known::new).take(MOST).collect(), credit: CREDIT, day: Day::default() }
    }

    /// Whether other documents have these keys.
    #[inline]
    pub(super) fn are_common(&self) -> bool {
        self.credit > 0
    }

    /// Ends a document that had this many of the keys.
    #[inline]
    pub(super) fn end(&mut self, found: usize) {
        self.credit = (self.credit + found).min(CREDIT);
    }

    /// Writes `before` and the element at the start of `input`, if its key is the one at `place` or near it, and its
    /// value is frequent and short. Returns its length and that of its text. Moves `place` past the key.
    #[inline(always)]
    pub(super) fn write(
        &mut self,
        place: &mut usize,
        before: u8,
        input: &[u8],
        room: &mut [u8; ELEMENT],
    ) -> Option<(usize, usize)> {
        let name = match input.first_chunk() {
            Some(name) => u128::from_le_bytes(*name),
            None => padded(input),
        };
        let known = match self.known.get(*place) {
            Some(known) if known.is_in(name) => known,
            _ => {
                *place = self.near(*place, name)?;
                self.known.get(*place)?
            }
        };
        *place += 1;
        room[..24].copy_from_slice(&known.text);
        room[0] = before;
        let key = known.text_length as usize % (ELEMENT - VALUE);
        let room = room[key..].first_chunk_mut()?;
        let (length, text_length) =
            value(name as u8, input.get(known.length as usize..)?, room, &mut self.day)?;
        Some((known.length as usize + length, key + text_length))
    }

    /// Finds a key behind `place`.
    #[inline(never)]
    fn near(&mut self, place: usize, name: u128) -> Option<usize> {
        let near = self.known.iter().enumerate().skip(place + 1).take(NEAR);
        let found = near.into_iter().find(|(_, known)| known.is_in(name));
        if found.is_none() {
            self.credit = self.credit.saturating_sub(COST);
        }
        found.map(|(place, _)| place)
    }
}

impl Known {
    /// Returns `None` for keys that are too long, or that JSON writes in another way.
    fn new(key: &[u8]) -> Option<Self> {
        let length = key.len() + 2;
        if length > NAME || !is_plain(key) {
            return None;
        }
        let mut name = [0; NAME];
        name[1..=key.len()].copy_from_slice(key);
        let mut text = [0; 24];
        text[1] = b'"';
        text[2..length].copy_from_slice(key);
        text[length..length + 3].copy_from_slice(b"\":\"");
        Some(Self {
            name: u128::from_le_bytes(name),
            mask: u128::MAX >> (8 * (NAME - length)) & !0xFF,
            length: length as u32,
            text,
            text_length: length as u32 + 2,
        })
    }

    #[inline(always)]
    fn is_in(&self, name: u128) -> bool {
        name & self.mask == self.name
    }
}

/// Returns the last bytes of a document and zeros.
#[cold]
#[inline(never)]
fn padded(input: &[u8]) -> u128 {
    let mut name = [0; NAME];
    name[..input.len()].copy_from_slice(input);
    u128::from_le_bytes(name)
}

/// Writes the value at the start of `input` and its closing quote; returns its length and that of its text.
#[inline(always)]
fn value(code: u8, input: &[u8], room: &mut [u8; VALUE], day: &mut Day) -> Option<(usize, usize)> {
    match code {
        STRING => {
            let length = u32::from_le_bytes(*input.first_chunk()?) as usize;
            let (0, text) = input[4..].get(..length)?.split_last()? else { return None };
            copy_plain(text, room[1..].first_chunk_mut().unwrap())?;
            room[length] = b'"';
            Some((4 + length, 1 + length))
        }
        OBJECT_ID => {
            room[1..25].copy_from_slice(&ObjectId::from_bytes(*input.first_chunk()?).hex_bytes());
            room[25] = b'"';
            Some((12, 26))
        }
        DATE_TIME => {
            let ms = i64::from_le_bytes(*input.first_chunk()?);
            day.write(ms, room[1..].first_chunk_mut().unwrap())?;
            room[25] = b'"';
            Some((8, 26))
        }
        INT32 => {
            let number = i32::from_le_bytes(*input.first_chunk()?);
            Some((4, copy_number(itoa::Buffer::new().format(number), room.first_chunk_mut()?)))
        }
        INT64 => {
            let number = i64::from_le_bytes(*input.first_chunk()?);
            Some((8, copy_number(itoa::Buffer::new().format(number), room.first_chunk_mut()?)))
        }
        DOUBLE => {
            let number = f64::from_le_bytes(*input.first_chunk()?);
            if !number.is_finite() {
                return None;
            }
            Some((8, copy_number(zmij::Buffer::new().format_finite(number), room.first_chunk_mut()?)))
        }
        BOOLEAN => {
            let (text, length) = match input.first()? {
                0 => (b"false", 5),
                1 => (b"true ", 4),
                _ => return None,
            };
            room[..5].copy_from_slice(text);
            Some((1, length))
        }
        NULL => {
            room[..4].copy_from_slice(b"null");
            Some((0, 4))
        }
        _ => None,
    }
}
