//! The clock of one client and its connections: the machine's clock, or one that a test moves.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use mangonel_proto::time::Instant;

/// Means the machine's own clock, which no test moves.
const MACHINE: u64 = u64::MAX;

/// Returns the time since it was made.
pub struct Clock {
    epoch: std::time::Instant,
    /// The nanoseconds that a test set, or `MACHINE`.
    set: AtomicU64,
}

impl Clock {
    pub fn new() -> Self {
        Clock { epoch: std::time::Instant::now(), set: AtomicU64::new(MACHINE) }
    }

    /// Reads the clock.
    #[inline]
    pub fn now(&self) -> Instant {
        match self.set.load(Ordering::Relaxed) {
            MACHINE => Instant(self.epoch.elapsed()),
            nanoseconds => Instant(Duration::from_nanos(nanoseconds)),
        }
    }

    /// Stops the clock at this time; it moves when it is set again.
    pub fn set(&self, time: Duration) {
        let nanoseconds = u64::try_from(time.as_nanos()).unwrap_or(MACHINE - 1);
        self.set.store(nanoseconds, Ordering::Relaxed);
    }
}
