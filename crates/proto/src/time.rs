//! A clock reading. The core never looks at a clock: every entry point that needs the time takes a reading.

use std::ops::{Add, Sub};
use std::time::Duration;

/// A moment, as the time since an epoch of the caller's choice. Readings of one clock compare and subtract.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Instant(pub Duration);

impl Instant {
    /// Returns the time since `earlier`, or zero when `earlier` is in the future.
    pub fn saturating_since(self, earlier: Instant) -> Duration {
        self.0.saturating_sub(earlier.0)
    }

    /// Returns the nanoseconds since `earlier`, or zero when `earlier` is in the future. 584 years fit.
    #[inline]
    pub fn nanos_since(self, earlier: Instant) -> u64 {
        nanos(self.0).saturating_sub(nanos(earlier.0))
    }
}

/// Returns a duration in nanoseconds. 584 years fit.
#[inline]
pub(crate) fn nanos(duration: Duration) -> u64 {
    duration.as_secs().wrapping_mul(1_000_000_000).wrapping_add(u64::from(duration.subsec_nanos()))
}

impl Add<Duration> for Instant {
    type Output = Instant;

    fn add(self, span: Duration) -> Instant {
        Instant(self.0.saturating_add(span))
    }
}

impl Sub<Duration> for Instant {
    type Output = Instant;

    fn sub(self, span: Duration) -> Instant {
        Instant(self.0.saturating_sub(span))
    }
}
