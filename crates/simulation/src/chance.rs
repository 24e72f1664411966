//! Random numbers from a seed. All randomness in the world comes from these streams, so a seed determines a whole run.

/// A stream of numbers; equal seeds give equal streams.
#[derive(Clone, Debug)]
pub struct Chance(u64);

impl Chance {
    /// Starts a stream. `purpose` separates the streams of one seed, so that dropping a fault leaves the others
    /// unchanged.
    pub fn new(seed: u64, purpose: u64) -> Self {
        let mut chance = Chance(seed ^ purpose.wrapping_mul(0xD6E8_FEB8_6659_FD93));
        chance.number();
        chance
    }

    /// Returns the next number.
    pub fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// Returns a number below `bound`, which is not 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.number() % bound
    }

    /// Returns a number of `low..=high`.
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high - low + 1)
    }

    /// Returns true in `percent` of 100 cases.
    pub fn percent(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    /// Returns one of `choices`.
    pub fn pick<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len() as u64) as usize]
    }

    /// Returns 16 bytes.
    pub fn bytes(&mut self) -> [u8; 16] {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&self.number().to_le_bytes());
        bytes[8..].copy_from_slice(&self.number().to_le_bytes());
        bytes
    }
}
