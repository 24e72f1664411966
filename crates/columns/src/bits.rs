//! A bitmap in Arrow's layout: least significant bit first. Knows no values.

use crate::problem::{Outcome, append, make_room};

/// A bitmap that only grows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bits {
    bytes: Vec<u8>,
    len: usize,
}

impl Bits {
    /// Returns `len` equal bits.
    pub(crate) fn repeat(bit: bool, len: usize) -> Outcome<Self> {
        let mut bits = Self::default();
        bits.extend(bit, len)?;
        Ok(bits)
    }

    /// Appends a bit.
    #[inline]
    pub(crate) fn push(&mut self, bit: bool) -> Outcome {
        if self.len.is_multiple_of(8) {
            append(&mut self.bytes, 0)?;
        }
        if let Some(last) = self.bytes.last_mut() {
            *last |= u8::from(bit) << (self.len % 8);
        }
        self.len += 1;
        Ok(())
    }

    /// Appends equal bits.
    pub(crate) fn extend(&mut self, bit: bool, count: usize) -> Outcome {
        let mut left = count;
        while left > 0 && !self.len.is_multiple_of(8) {
            self.push(bit)?;
            left -= 1;
        }
        make_room(&mut self.bytes, left / 8)?;
        self.bytes.resize(self.bytes.len() + left / 8, if bit { 0xFF } else { 0 });
        self.len += left / 8 * 8;
        for _ in 0..left % 8 {
            self.push(bit)?;
        }
        Ok(())
    }

    /// The bit at an index; false beyond the end.
    pub fn get(&self, at: usize) -> bool {
        at < self.len && self.bytes.get(at / 8).is_some_and(|byte| byte >> (at % 8) & 1 == 1)
    }

    /// The bytes that hold the bits.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The number of bits.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub(crate) fn shrink(&mut self) {
        self.bytes.shrink_to_fit();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_come_back_however_they_were_appended() {
        for first in 0..20 {
            for count in 0..20 {
                let mut bits = Bits::repeat(true, first).unwrap();
                bits.extend(false, count).unwrap();
                bits.push(true).unwrap();
                let found: Vec<bool> = (0..bits.len()).map(|at| bits.get(at)).collect();
                let wanted: Vec<bool> =
                    (0..=first + count).map(|at| at < first || at == first + count).collect();
                assert_eq!(found, wanted);
                assert_eq!(bits.bytes().len(), bits.len().div_ceil(8));
            }
        }
    }
}
