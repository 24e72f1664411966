//! IEEE 754-2008 decimal128 in its binary integer encoding: bytes, text and back. No arithmetic.
//! Spec: bson-decimal128.

/// A decimal number of 34 digits, as its sixteen little-endian bytes.
///
/// Compares by bytes, so `1.0` and `1.00` differ, as they do when stored.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Decimal128([u8; 16]);

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
}
