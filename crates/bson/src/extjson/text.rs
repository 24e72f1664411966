//! JSON strings: which bytes need an escape, and how to append one fast.

use crate::object_id::HEX;

/// What follows the backslash; 0 for bytes that stand for themselves, `u` for the long form.
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
    let bytes = text.as_bytes();
    out.reserve(bytes.len() + 2);
    out.push(b'"');
    if let Some(at) = first_escape(bytes) {
        push_escaped(bytes, at, out);
    } else {
        out.extend_from_slice(bytes);
    }
    out.push(b'"');
}

/// Finds the first byte that needs an escape.
#[inline]
fn first_escape(bytes: &[u8]) -> Option<usize> {
    let (chunks, rest) = bytes.as_chunks::<16>();
    for (i, chunk) in chunks.iter().enumerate() {
        // Without an early exit the compiler turns the sixteen comparisons into vector instructions.
        let is_clean = chunk.iter().fold(true, |clean, &c| clean & (c >= 0x20) & (c != b'"') & (c != b'\\'));
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
                out.extend_from_slice(&[HEX[usize::from(c >> 4)], HEX[usize::from(c & 15)]]);
            }
            letter => out.extend_from_slice(&[b'\\', letter]),
        }
        bytes = rest;
        at = first_escape(bytes).unwrap_or(bytes.len());
    }
}
