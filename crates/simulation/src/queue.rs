//! The virtual clock and the future events: ordered by time, and at the same time by the order of requests.

use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::time::Duration;

use mangonel_proto::time::Instant;

/// Where virtual time starts.
pub const EPOCH: Instant = Instant(Duration::from_secs(1_000));

/// The clock, and the events that move it.
pub struct Queue<E> {
    now: Instant,
    sequence: u64,
    heap: BinaryHeap<Entry<E>>,
}

struct Entry<E> {
    when: Instant,
    sequence: u64,
    event: E,
}

impl<E> Queue<E> {
    /// Makes an empty queue.
    pub fn new() -> Self {
        Queue { now: EPOCH, sequence: 0, heap: BinaryHeap::new() }
    }

    /// Returns the virtual time.
    pub fn now(&self) -> Instant {
        self.now
    }

    /// Returns a number that was never returned before.
    pub fn ticket(&mut self) -> u64 {
        self.sequence += 1;
        self.sequence
    }

    /// Schedules an event at a time, or now if that has passed.
    pub fn at(&mut self, when: Instant, event: E) {
        let sequence = self.ticket();
        self.heap.push(Entry { when: when.max(self.now), sequence, event });
    }

    /// Schedules an event after a delay.
    pub fn after(&mut self, delay: Duration, event: E) {
        self.at(self.now + delay, event);
    }

    /// Moves the clock to the next event and returns it with its number.
    pub fn pop(&mut self) -> Option<(u64, E)> {
        let entry = self.heap.pop()?;
        self.now = entry.when;
        Some((entry.sequence, entry.event))
    }
}

impl<E> Default for Queue<E> {
    fn default() -> Self {
        Queue::new()
    }
}

impl<E> PartialEq for Entry<E> {
    fn eq(&self, other: &Self) -> bool {
        self.sequence == other.sequence
    }
}

impl<E> Eq for Entry<E> {}

impl<E> PartialOrd for Entry<E> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<E> Ord for Entry<E> {
    /// The heap pops the greatest first, so the earliest counts as the greatest.
    fn cmp(&self, other: &Self) -> Ordering {
        (other.when, other.sequence).cmp(&(self.when, self.sequence))
    }
}

/// Milliseconds as a duration.
pub const fn ms(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds)
}
