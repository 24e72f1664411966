//! Room for JSON text: whole words are copied into it, even if only their first bytes are used.
//!
//! A copy of fixed size is one instruction; one of variable size is a call.

use std::collections::TryReserveError;

use super::short::{SHORT, copy_number, copy_plain};
use super::text::{push_checked, unusual};
use crate::bytes::{cstring_end, not_utf8_text};
use crate::error::Result;

/// Bytes added when the room is used up, and the most added at first. No more, since each new byte is cleared.
const MORE: usize = 1024;
/// A key of less than this many words is short.
const WORDS: usize = 4;

/// A buffer that text is appended to; dropping it truncates the buffer to the text.
pub(super) struct Room<'o> {
    buffer: &'o mut Vec<u8>,
    /// The text, followed by meaningless bytes.
    bytes: Vec<u8>,
    /// Where the text ends.
    end: usize,
}

impl<'o> Room<'o> {
    /// Prepares to append to `buffer` the JSON of this many bytes of BSON.
    pub(super) fn behind(buffer: &'o mut Vec<u8>, length: usize) -> Self {
        let mut bytes = std::mem::take(buffer);
        let end = bytes.len();
        bytes.resize(end + MORE.min(2 * length + 64), 0);
        Self { buffer, bytes, end }
    }

    /// Returns room for `N` bytes behind the text.
    #[inline(always)]
    pub(super) fn piece<const N: usize>(&mut self) -> &mut [u8; N] {
        match self.bytes.get(self.end..) {
            Some(room) if room.len() >= N => {}
            _ => return self.new_piece(),
        }
        // The compiler knows this from the comparison, unless the other way came back here.
        self.bytes[self.end..].first_chunk_mut().unwrap()
    }

    #[cold]
    #[inline(never)]
    fn new_piece<const N: usize>(&mut self) -> &mut [u8; N] {
        self.grow(N);
        self.bytes[self.end..].first_chunk_mut().unwrap()
    }

    /// Takes over text of this length that was written into a piece.
    #[inline(always)]
    pub(super) fn skip(&mut self, length: usize) {
        self.end += length;
    }

    /// Reserves memory for this many bytes behind the text.
    #[inline]
    pub(super) fn reserve(&mut self, more: usize) -> std::result::Result<(), TryReserveError> {
        if self.bytes.capacity() - self.end < more { self.bytes.try_reserve(more) } else { Ok(()) }
    }

    #[cold]
    #[inline(never)]
    fn grow(&mut self, more: usize) {
        self.bytes.resize(self.end + more + MORE, 0);
    }

    /// Appends the first `length` bytes of a piece.
    #[inline(always)]
    pub(super) fn put<const N: usize>(&mut self, piece: [u8; N], length: usize) {
        *self.piece() = piece;
        self.end += length;
    }

    /// Appends a constant.
    #[inline(always)]
    pub(super) fn all<const N: usize>(&mut self, text: &[u8; N]) {
        self.put(*text, N);
    }

    /// Appends `before`, and 24 characters that need no escape, in quotes.
    #[inline(always)]
    pub(super) fn quoted(&mut self, before: u8, text: [u8; 24]) {
        let piece = self.piece::<27>();
        (piece[0], piece[1], piece[26]) = (before, b'"', b'"');
        piece[2..26].copy_from_slice(&text);
        self.end += 27;
    }

    /// Appends text of any length.
    #[inline]
    pub(super) fn push(&mut self, text: &[u8]) {
        self.slice(text.len()).copy_from_slice(text);
        self.end += text.len();
    }

    #[inline(always)]
    fn slice(&mut self, length: usize) -> &mut [u8] {
        if self.bytes.len() - self.end < length {
            self.grow(length);
        }
        &mut self.bytes[self.end..][..length]
    }

    /// Appends the output of `write`.
    pub(super) fn with(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        self.bytes.truncate(self.end);
        write(&mut self.bytes);
        self.end = self.bytes.len();
    }

    /// Appends `before` and the key at `at` in quotes; returns where the key's zero byte is.
    ///
    /// # Errors
    /// [`crate::ErrorKind::Malformed`] when the key has no end or is no UTF-8.
    #[inline(always)]
    pub(super) fn key(&mut self, before: u8, body: &[u8], at: usize) -> Result<usize> {
        if let Some(length) = self.short_key(before, body, at) {
            self.end += length + 3;
            return Ok(at + length);
        }
        let last = cstring_end(body, at)?;
        self.long(before, body, at, last)?;
        Ok(last)
    }

    /// Appends `before` and the text from `at` to `last` in quotes.
    ///
    /// # Errors
    /// [`crate::ErrorKind::Malformed`] when it is no UTF-8.
    #[inline(always)]
    pub(super) fn text(&mut self, before: u8, body: &[u8], at: usize, last: usize) -> Result<()> {
        let text = &body[at..last];
        let piece = self.piece::<{ SHORT + 3 }>();
        [piece[0], piece[1]] = [before, b'"'];
        let [_, _, room @ .., _] = piece;
        if copy_plain(text, room).is_none() {
            return self.long(before, body, at, last);
        }
        piece[2 + text.len()] = b'"';
        self.end += text.len() + 3;
        Ok(())
    }

    /// Appends a number.
    #[inline(always)]
    pub(super) fn number(&mut self, text: &str) {
        self.end += copy_number(text, self.piece());
    }

    /// Writes `before` and the key at `at` in quotes into the room, if it is plain and short; returns its length.
    #[inline(always)]
    fn short_key(&mut self, before: u8, body: &[u8], at: usize) -> Option<usize> {
        let input = body.get(at..)?;
        let piece = self.piece::<{ 8 * WORDS + 3 }>();
        [piece[0], piece[1]] = [before, b'"'];
        for place in 0..WORDS {
            let word = input.get(8 * place..)?.first_chunk()?;
            piece[2 + 8 * place..][..8].copy_from_slice(word);
            let word = u64::from_le_bytes(*word);
            let marks = unusual(word);
            if marks != 0 {
                let within = first_mark(marks);
                let length = 8 * place + within;
                piece[2 + length] = b'"';
                // A zero byte is marked too, as not plain.
                return ((word >> (8 * within)) as u8 == 0).then_some(length);
            }
        }
        None
    }

    #[inline(never)]
    fn long(&mut self, before: u8, body: &[u8], at: usize, last: usize) -> Result<()> {
        self.all(&[before, b'"']);
        let text = &body[at..last];
        let (words, rest) = text.as_chunks::<8>();
        // Read together with the bytes behind the text, which is cheaper than copying the text.
        let final_word = word_at(body, last - rest.len());
        let room = self.slice(text.len() + 8);
        let mut marks = 0;
        for (place, word) in room.as_chunks_mut::<8>().0.iter_mut().zip(words) {
            marks |= unusual(u64::from_le_bytes(*word));
            *place = *word;
        }
        if marks == 0 && first_mark(unusual(u64::from_le_bytes(final_word))) >= rest.len() {
            room[8 * words.len()..][..8].copy_from_slice(&final_word);
            room[text.len()] = b'"';
            self.end += text.len() + 1;
            return Ok(());
        }
        self.unusual(text).map_err(|e| e.shift(at))
    }

    #[inline(never)]
    fn unusual(&mut self, text: &[u8]) -> Result<()> {
        match simdutf8::basic::from_utf8(text) {
            Ok(_) => {
                self.with(|out| push_checked(text, out));
                self.all(b"\"");
                Ok(())
            }
            Err(_) => Err(not_utf8_text(text)),
        }
    }
}

/// Returns the position of the lowest mark, 8 when there is none. Marks above it may be false.
#[inline]
fn first_mark(marks: u64) -> usize {
    (marks.trailing_zeros() / 8) as usize
}

/// Returns the eight bytes at `at`, with zeros beyond the end of `body`.
#[inline(always)]
fn word_at(body: &[u8], at: usize) -> [u8; 8] {
    let rest = body.get(at..).unwrap_or_default();
    match rest.first_chunk() {
        Some(word) => *word,
        None => {
            let mut word = [0; 8];
            word[..rest.len()].copy_from_slice(rest);
            word
        }
    }
}

impl Drop for Room<'_> {
    fn drop(&mut self) {
        self.bytes.truncate(self.end);
        *self.buffer = std::mem::take(&mut self.bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Writes the text once as a key and once as a value of known length, with `behind` bytes after its zero byte.
    fn written(text: &[u8], behind: usize) -> Result<Vec<u8>> {
        let mut body = text.to_vec();
        body.push(0);
        body.resize(body.len() + behind, b'"');
        let mut out = b"[".to_vec();
        let mut room = Room::behind(&mut out, 0);
        assert_eq!(room.key(b'{', &body, 0)?, text.len());
        room.text(b':', &body, 0, text.len())?;
        room.all(b"}");
        drop(room);
        Ok(out)
    }

    #[test]
    fn every_character_is_written_as_the_reference_does() {
        for c in (1..0x300).filter_map(char::from_u32).chain("☆🦀".chars()) {
            for length in [0, 3, 7, 15, 16, 40, 70] {
                let text = format!("{0}{c}{0}{c}", "x".repeat(length));
                let quoted = serde_json::to_string(&text).unwrap();
                for behind in [0, 1, 9] {
                    let out = written(text.as_bytes(), behind).unwrap();
                    assert_eq!(String::from_utf8(out).unwrap(), format!("[{{{quoted}:{quoted}}}"));
                }
            }
        }
    }

    #[test]
    fn text_of_every_length_is_written_whole_and_its_last_byte_escaped() {
        for length in 0..3000 {
            for end in ["", "\"", "é"] {
                let text = format!("{}{end}", "~".repeat(length));
                let quoted = serde_json::to_string(&text).unwrap();
                let out = written(text.as_bytes(), length % 11).unwrap();
                assert_eq!(String::from_utf8(out).unwrap(), format!("[{{{quoted}:{quoted}}}"));
            }
        }
    }

    #[test]
    fn a_zero_byte_within_a_text_does_not_end_it() {
        let mut out = Vec::new();
        Room::behind(&mut out, 0).text(b':', b"a\0b\0 and what is behind", 0, 3).unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), ":\"a\\u0000b\"");
    }

    #[test]
    fn bytes_that_are_no_utf8_are_told_with_their_place() {
        for length in [0, 3, 8, 31, 32, 100] {
            let mut text = vec![b'x'; length];
            text.extend_from_slice(b"\xFFdef");
            assert_eq!(written(&text, 0).unwrap_err().offset(), Some(length));
        }
        assert!(Room::behind(&mut Vec::new(), 0).key(b'{', b"no end", 0).is_err());
    }
}
