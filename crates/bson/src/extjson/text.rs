//! JSON strings: which bytes need an escape, and how to append one fast.

use crate::object_id::hex_pair;

/// The letter after the backslash; 0 for bytes without an escape, `u` for the long form.
const ESCAPES: [u8; 256] = {
    let mut table = [0; 256];
    let mut i = 0;
    while i < 0x20 {
        table[i] = b'u';
        i += 1;
    }
    table[0x08] = b'b';
    table[0x09] = b't';
    table[0x0A] = b'n';
    table[0x0C] = b'f';
    table[0x0D] = b'r';
    table[b'"' as usize] = b'"';
    table[b'\\' as usize] = b'\\';
    table
};

/// Appends `text` in quotes.
#[inline]
pub(super) fn push_string(text: &str, out: &mut Vec<u8>) {
    out.push(b'"');
    push_checked(text.as_bytes(), out);
    out.push(b'"');
}

pub(super) fn push_checked(bytes: &[u8], out: &mut Vec<u8>) {
    match first_escape(bytes) {
        Some(at) => push_escaped(bytes, at, out),
        None => out.extend_from_slice(bytes),
    }
}

const ONES: u64 = 0x0101_0101_0101_0101;
const HIGHS: u64 = 0x8080_8080_8080_8080;

/// Returns a word that is not zero if one of its bytes is not ASCII or needs an escape.
#[inline]
pub(super) fn unusual(word: u64) -> u64 {
    // With this bit turned, quotes are 0x20, and what was below 0x20 still is.
    let low = word ^ (ONES * 0x02);
    let backslashes = word ^ (ONES * b'\\' as u64);
    // Taking 0x21 from a smaller byte, or 1 from zero, borrows and so sets its high bit. A borrow may also mark the
    // byte above, but only bytes that need a mark start a borrow. Bytes that are not ASCII are marked anyway.
    (word | low.wrapping_sub(ONES * 0x21) | backslashes.wrapping_sub(ONES)) & HIGHS
}

/// Returns whether all bytes are ASCII that needs no escape.
#[inline]
pub(super) fn is_plain(bytes: &[u8]) -> bool {
    if let Some(last) = bytes.last_chunk::<8>() {
        if bytes.len() > 64 {
            return is_plain_long(bytes);
        }
        // The last word may overlap the one before.
        let (words, _) = bytes.as_chunks::<8>();
        let marks = words.iter().fold(0, |marks, word| marks | unusual(u64::from_le_bytes(*word)));
        return marks | unusual(u64::from_le_bytes(*last)) == 0;
    }
    if let (Some(first), Some(last)) = (bytes.first_chunk::<4>(), bytes.last_chunk::<4>()) {
        let (first, last) = (u32::from_le_bytes(*first), u32::from_le_bytes(*last));
        return unusual(u64::from(first) | u64::from(last) << 32) == 0;
    }
    bytes.iter().all(|&c| c < 0x80 && ESCAPES[usize::from(c)] == 0)
}

fn is_plain_long(bytes: &[u8]) -> bool {
    let (chunks, rest) = bytes.as_chunks::<32>();
    // Without an early exit the compiler turns the comparisons into vector instructions.
    let is_plain = |chunk: &[u8]| {
        let mut is_plain = true;
        for &c in chunk {
            is_plain &= (0x20..0x80).contains(&c) & (c != b'"') & (c != b'\\');
        }
        is_plain
    };
    chunks.iter().all(|chunk| is_plain(chunk)) && is_plain(rest)
}

/// Finds the first byte that needs an escape.
#[inline]
pub(super) fn first_escape(bytes: &[u8]) -> Option<usize> {
    let (chunks, rest) = bytes.as_chunks::<16>();
    for (i, chunk) in chunks.iter().enumerate() {
        // As above; searches a chunk for the position only once it is known to hold one.
        let mut is_clean = true;
        for &c in chunk {
            is_clean &= (c >= 0x20) & (c != b'"') & (c != b'\\');
        }
        if !is_clean {
            let within = chunk.iter().position(|&c| ESCAPES[usize::from(c)] != 0)?;
            return Some(i * 16 + within);
        }
    }
    let within = rest.iter().position(|&c| ESCAPES[usize::from(c)] != 0)?;
    Some(chunks.len() * 16 + within)
}

#[cold]
fn push_escaped(mut bytes: &[u8], mut at: usize, out: &mut Vec<u8>) {
    loop {
        let (clean, rest) = bytes.split_at(at);
        out.extend_from_slice(clean);
        let Some((&c, rest)) = rest.split_first() else {
            return;
        };
        match ESCAPES[usize::from(c)] {
            b'u' => {
                out.extend_from_slice(b"\\u00");
                out.extend_from_slice(&hex_pair(c));
            }
            letter => out.extend_from_slice(&[b'\\', letter]),
        }
        bytes = rest;
        at = first_escape(bytes).unwrap_or(bytes.len());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_plain_exactly_when_every_byte_is() {
        for length in 0..100 {
            let mut bytes = vec![b'~'; length];
            assert!(is_plain(&bytes), "{length}");
            for at in 0..length {
                for byte in 0..=255u8 {
                    bytes[at] = byte;
                    let is_one = (0x20..0x80).contains(&byte) && byte != b'"' && byte != b'\\';
                    assert_eq!(is_plain(&bytes), is_one, "{byte:#X} at {at} of {length}");
                }
                bytes[at] = b'~';
            }
        }
    }

    #[test]
    fn every_character_is_written_as_the_reference_does() {
        for c in (0..0x300).filter_map(char::from_u32).chain("☆🦀".chars()) {
            for length in [0, 3, 7, 15, 16, 40, 70] {
                let text = format!("{0}{c}{0}{c}", "x".repeat(length));
                let wanted = serde_json::to_string(&text).unwrap();
                let mut out = Vec::new();
                push_string(&text, &mut out);
                assert_eq!(String::from_utf8(out).unwrap(), wanted);
            }
        }
    }
}
