//! A point in time as the core sees it: a distance from an epoch that only the face knows. Reads no clock.

use std::ops::{Add, Sub};
use std::time::Duration;

/// A reading of the face's monotonic clock, as the time since an arbitrary epoch.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Instant(pub Duration);

impl Instant {
    /// Returns the time since `earlier`, or zero when `earlier` is later.
    pub fn saturating_since(self, earlier: Instant) -> Duration {
        self.0.saturating_sub(earlier.0)
    }
}

// Both saturate: a deadline computed from a user's huge timeout must not panic.
impl Add<Duration> for Instant {
    type Output = Instant;

    fn add(self, duration: Duration) -> Instant {
        Instant(self.0.saturating_add(duration))
    }
}

impl Sub<Duration> for Instant {
    type Output = Instant;

    fn sub(self, duration: Duration) -> Instant {
        Instant(self.0.saturating_sub(duration))
    }
}
