//! Base64 with the standard alphabet and padding. Spec: RFC 4648, section 4.

use crate::error::{Error, Result};

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Value of each letter, or 0xFF.
const VALUES: [u8; 256] = {
    let mut table = [0xFF; 256];
    let mut i = 0;
    while i < 64 {
        table[ALPHABET[i] as usize] = i as u8;
        i += 1;
    }
    table
};

/// The two letters for every twelve bits, so that three bytes cost two loads.
static PAIRS: [[u8; 2]; 4096] = {
    let mut table = [[0; 2]; 4096];
    let mut i = 0;
    while i < 4096 {
        table[i] = [ALPHABET[i >> 6], ALPHABET[i & 63]];
        i += 1;
    }
    table
};

/// Appends the padded text of `bytes`.
pub fn encode(bytes: &[u8], out: &mut Vec<u8>) {
    out.reserve(bytes.len().div_ceil(3) * 4);
    let (triples, rest) = bytes.as_chunks::<3>();
    for [a, b, c] in triples {
        let bits = usize::from(*a) << 16 | usize::from(*b) << 8 | usize::from(*c);
        let ([d, e], [f, g]) = (PAIRS[bits >> 12], PAIRS[bits & 0xFFF]);
        out.extend_from_slice(&[d, e, f, g]);
    }
    match *rest {
        [a] => {
            let [d, e] = PAIRS[usize::from(a) << 4];
            out.extend_from_slice(&[d, e, b'=', b'=']);
        }
        [a, b] => {
            let bits = usize::from(a) << 16 | usize::from(b) << 8;
            let ([d, e], [f, _]) = (PAIRS[bits >> 12], PAIRS[bits & 0xFFF]);
            out.extend_from_slice(&[d, e, f, b'=']);
        }
        _ => {}
    }
}

/// Reads padded text. Unused bits before the padding are ignored, since other writers set them.
///
/// # Errors
/// [`crate::ErrorKind::Syntax`] for any other text.
pub fn decode(text: &str) -> Result<Vec<u8>> {
    let wrong = || Error::syntax("expected base64 text, got something else");
    let bytes = text.as_bytes();
    if !bytes.len().is_multiple_of(4) {
        return Err(wrong());
    }
    let letters = match bytes {
        [head @ .., b'=', b'='] => head,
        [head @ .., b'='] => head,
        _ => bytes,
    };
    let mut out = Vec::with_capacity(bytes.len() / 4 * 3);
    for group in letters.chunks(4) {
        let mut bits = 0u32;
        for letter in group {
            let value = VALUES[usize::from(*letter)];
            if value == 0xFF {
                return Err(wrong());
            }
            bits = bits << 6 | u32::from(value);
        }
        bits <<= 6 * (4 - group.len());
        let [_, a, b, c] = bits.to_be_bytes();
        out.extend_from_slice(&[a, b, c][..group.len() - 1]);
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_length_of_tail_comes_back() {
        for (bytes, text) in
            [(&b""[..], ""), (b"f", "Zg=="), (b"fo", "Zm8="), (b"foo", "Zm9v"), (b"foob\xFF\xFE", "Zm9vYv/+")]
        {
            let mut out = Vec::new();
            encode(bytes, &mut out);
            assert_eq!(String::from_utf8(out).unwrap(), text);
            assert_eq!(decode(text).unwrap(), bytes);
        }
    }

    #[test]
    fn text_that_is_not_base64_is_refused() {
        for text in ["Z", "Zg=", "Zg", "====", "Z===", "Zm9v=", "Zm 9", "Zg==Zg=="] {
            assert!(decode(text).is_err(), "{text}");
        }
    }
}
