//! Timestamps of the oplog: seconds and a counter within the second. Not for users' dates.

/// A point in the oplog; orders by time, then increment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp {
    /// Seconds since 1970-01-01 UTC.
    pub time: u32,
    /// Counts the operations of one second.
    pub increment: u32,
}

impl Timestamp {
    /// Reads the 64-bit form: time in the high half.
    pub fn from_u64(value: u64) -> Self {
        Self { time: (value >> 32) as u32, increment: value as u32 }
    }

    /// Returns the 64-bit form, which orders as the timestamp does.
    pub fn to_u64(self) -> u64 {
        u64::from(self.time) << 32 | u64::from(self.increment)
    }
}
