//! ObjectId: twelve bytes made of seconds, a random part and a counter. Holds no clock and no randomness.
//! Spec: bson-objectid.

use std::fmt;

use crate::error::{Error, Result};

/// A twelve-byte identifier; identifiers sort by the second of their creation.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectId([u8; 12]);

impl ObjectId {
    /// Wraps twelve bytes; every value is valid.
    #[inline]
    pub const fn from_bytes(bytes: [u8; 12]) -> Self {
        Self(bytes)
    }

    /// Makes an identifier: seconds since 1970, a random part per process, a counter of 24 bits.
    pub const fn from_parts(timestamp: u32, random: [u8; 5], counter: u32) -> Self {
        let [t0, t1, t2, t3] = timestamp.to_be_bytes();
        let [r0, r1, r2, r3, r4] = random;
        let [_, c0, c1, c2] = counter.to_be_bytes();
        Self([t0, t1, t2, t3, r0, r1, r2, r3, r4, c0, c1, c2])
    }

    /// Returns the twelve bytes.
    #[inline]
    pub const fn bytes(&self) -> [u8; 12] {
        self.0
    }

    /// Returns the time of its creation, in seconds since 1970-01-01 UTC.
    pub const fn timestamp(&self) -> u32 {
        u32::from_be_bytes([self.0[0], self.0[1], self.0[2], self.0[3]])
    }

    /// Returns 24 lower-case hex digits.
    pub fn to_hex(&self) -> String {
        self.to_string()
    }

    /// Returns the 24 hex digits as ASCII bytes, without allocating.
    #[inline]
    pub fn hex_bytes(&self) -> [u8; 24] {
        let mut pairs = [[0; 2]; 12];
        for (pair, byte) in pairs.iter_mut().zip(self.0) {
            // Both digits at once, and without a table: the compiler turns this into vector instructions.
            let digits = (u16::from(byte) >> 4 | u16::from(byte) << 8) & 0x0F0F;
            let letters = ((digits + 0x0606) >> 4) & 0x0101;
            *pair = (digits + 0x3030 + letters * u16::from(b'a' - b'0' - 10)).to_le_bytes();
        }
        let mut hex = [0; 24];
        hex.copy_from_slice(pairs.as_flattened());
        hex
    }

    /// Reads 24 hex digits of either case.
    ///
    /// # Errors
    /// [`crate::ErrorKind::Syntax`] for another length or another character.
    pub fn parse_hex(text: &str) -> Result<Self> {
        let digits = text.as_bytes();
        if digits.len() != 24 {
            return Err(Error::syntax(format!(
                "expected 24 hex digits for an ObjectId, got {} bytes",
                digits.len()
            )));
        }
        let mut bytes = [0; 12];
        for (i, (byte, pair)) in bytes.iter_mut().zip(digits.chunks_exact(2)).enumerate() {
            match (hex_digit(pair[0]), hex_digit(pair[1])) {
                (Some(high), Some(low)) => *byte = high << 4 | low,
                _ => {
                    return Err(Error::syntax(format!(
                        "expected hex digits in an ObjectId, got something else at position {}",
                        i * 2
                    )));
                }
            }
        }
        Ok(Self(bytes))
    }
}

pub(crate) const HEX: &[u8; 16] = b"0123456789abcdef";

const PAIRS: [[u8; 2]; 256] = {
    let mut pairs = [[0; 2]; 256];
    let mut byte = 0;
    while byte < 256 {
        pairs[byte] = [HEX[byte >> 4], HEX[byte & 15]];
        byte += 1;
    }
    pairs
};

/// Returns the two hex digits of a byte.
#[inline]
pub(crate) fn hex_pair(byte: u8) -> [u8; 2] {
    PAIRS[usize::from(byte)]
}

pub(crate) fn hex_digit(c: u8) -> Option<u8> {
    match c {
        b'0'..=b'9' => Some(c - b'0'),
        b'a'..=b'f' => Some(c - b'a' + 10),
        b'A'..=b'F' => Some(c - b'A' + 10),
        _ => None,
    }
}

impl fmt::Display for ObjectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hex = self.hex_bytes();
        f.write_str(std::str::from_utf8(&hex).map_err(|_| fmt::Error)?)
    }
}

impl fmt::Debug for ObjectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ObjectId({self})")
    }
}
