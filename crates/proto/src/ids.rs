//! The numbers that identify connections, exchanges, shards and sessions, and maps keyed by them.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// Identifies one connection for as long as its client lives.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct LinkId(pub u32);

/// Identifies one exchange for as long as its client lives.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct ExchangeId(pub u64);

/// A face, or one event loop of it. Connections never cross from one to another.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct ShardId(pub u32);

/// Identifies an explicit session in its client.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct SessionId(pub u64);

/// A map keyed by one of the numbers above.
pub type IdMap<K, V> = HashMap<K, V, BuildHasherDefault<IdHasher>>;

/// Hashes one of these numbers. The core counts them itself, so no adversary chooses them: a product replaces SipHash,
/// which takes a hundred instructions.
#[derive(Default)]
pub struct IdHasher(u64);

impl IdHasher {
    #[inline]
    fn add(&mut self, number: u64) {
        self.0 = (self.0 ^ number).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    }
}

impl Hasher for IdHasher {
    #[inline]
    fn write_u32(&mut self, number: u32) {
        self.add(number.into());
    }

    #[inline]
    fn write_u64(&mut self, number: u64) {
        self.add(number);
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.add((*byte).into()));
    }

    #[inline]
    fn finish(&self) -> u64 {
        // A hash map indexes by the low bits, and the product mixes best into the high bits.
        self.0.rotate_left(26)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::hash::BuildHasher;

    use super::*;

    #[test]
    fn neighbouring_ids_and_those_of_a_stride_spread_over_a_map() {
        let hasher = BuildHasherDefault::<IdHasher>::default();
        for stride in [1, 2, 3, 100, 1 << 10, 1 << 32] {
            let ids = (0..256u64).map(|number| ExchangeId(number * stride));
            let hashes: Vec<_> = ids.map(|id| hasher.hash_one(id)).collect();
            let places: HashSet<_> = hashes.iter().map(|hash| hash & 1023).collect();
            // The seven bits with which a hash map distinguishes neighbours.
            let tags: HashSet<_> = hashes.iter().map(|hash| hash >> 57).collect();
            assert!(places.len() > 128 && tags.len() > 60, "{stride}: {} {}", places.len(), tags.len());
        }
    }
}
