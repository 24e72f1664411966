//! The counts of a client's operations, connections and servers, if requested. Plain numbers that only grow,
//! except those of open cursors. Calls nothing and keeps no clock.
//! Spec: the names and bounds are OpenTelemetry's conventions for databases.

use std::collections::HashMap;
use std::time::Duration;

use crate::error::Failure;
use crate::events::{CheckOutFailure, CloseReason};
use crate::ids::LinkId;

/// The upper bounds of the buckets of every histogram, in nanoseconds; a last bucket has what is above. OpenTelemetry's
/// are among them.
pub const BOUNDS: [u64; 16] = [
    100_000,
    250_000,
    500_000,
    1_000_000,
    2_500_000,
    5_000_000,
    10_000_000,
    25_000_000,
    50_000_000,
    100_000_000,
    250_000_000,
    500_000_000,
    1_000_000_000,
    2_500_000_000,
    5_000_000_000,
    10_000_000_000,
];

const BUCKETS: usize = BOUNDS.len() + 1;

/// How many series of operations, by name, place and outcome, are counted; the rest are counted together.
const MOST_SERIES: usize = 2000;

/// The name, database and collection under which the rest is counted.
const OTHER: &str = "_OTHER";

const SLOTS: usize = 32;

/// Durations, by their size.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Histogram {
    /// How many there were, in each bucket.
    pub counts: [u64; BUCKETS],
    /// Their sum in nanoseconds, in each bucket.
    pub nanos: [u64; BUCKETS],
}

impl Histogram {
    /// Counts one duration.
    #[inline]
    pub fn add(&mut self, duration: Duration) {
        // 584 years fit.
        let nanos =
            duration.as_secs().wrapping_mul(1_000_000_000).wrapping_add(u64::from(duration.subsec_nanos()));
        // Most are in the first buckets.
        let bucket = BOUNDS.iter().position(|bound| nanos <= *bound).unwrap_or(BUCKETS - 1);
        self.counts[bucket] += 1;
        self.nanos[bucket] += nanos;
    }

    /// Counts one that took no time.
    #[inline]
    pub fn add_zero(&mut self) {
        self.counts[0] += 1;
    }

    fn merge(&mut self, other: &Histogram) {
        self.counts.iter_mut().zip(other.counts).for_each(|(sum, count)| *sum += count);
        self.nanos.iter_mut().zip(other.nanos).for_each(|(sum, nanos)| *sum += nanos);
    }
}

/// The key of operations that are counted together.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct OperationKey {
    /// The name of the command.
    pub name: Box<str>,
    /// Its database.
    pub database: Box<str>,
    /// Its collection; empty for a command without one.
    pub collection: Box<str>,
    /// The class of the error that it ended in; `None` when it went well.
    pub error: Option<&'static str>,
    /// The server's code for that error.
    pub code: Option<i64>,
}

/// One kind of operations, and how long they took with all their attempts.
#[derive(Clone, Debug)]
pub struct Series {
    /// What they have in common.
    pub key: OperationKey,
    /// The bytes of the commands that say which command on which collection.
    target: Box<[u8]>,
    /// Their durations.
    pub durations: Histogram,
}

/// The counts of one server's pools; their names are those of pool events.
#[derive(Clone, Debug, Default)]
pub struct PoolCounts {
    /// Connections begun to be opened.
    pub created: u64,
    /// Connections closed, in the order of [`CLOSE_REASONS`].
    pub closed: [u64; 4],
    /// Check-outs that failed, in the order of [`CHECK_OUT_FAILURES`].
    pub failed: [u64; 3],
    /// From asking for a connection to having it.
    pub waits: Histogram,
    /// From beginning to open a connection to its being usable.
    pub openings: Histogram,
}

/// The reasons that [`PoolCounts::closed`] counts.
pub const CLOSE_REASONS: [CloseReason; 4] =
    [CloseReason::Stale, CloseReason::Idle, CloseReason::Error, CloseReason::PoolClosed];

/// The reasons that [`PoolCounts::failed`] counts.
pub const CHECK_OUT_FAILURES: [CheckOutFailure; 3] =
    [CheckOutFailure::Timeout, CheckOutFailure::PoolClosed, CheckOutFailure::Connection];

impl PoolCounts {
    /// Counts a connection that was closed.
    pub fn add_closed(&mut self, reason: CloseReason) {
        self.closed[reason as usize] += 1;
    }

    /// Counts a check-out that failed.
    pub fn add_failed(&mut self, reason: CheckOutFailure) {
        self.failed[reason as usize] += 1;
    }

    /// Adds what another pool counted.
    pub fn merge(&mut self, other: &PoolCounts) {
        self.created += other.created;
        self.closed.iter_mut().zip(other.closed).for_each(|(sum, count)| *sum += count);
        self.failed.iter_mut().zip(other.failed).for_each(|(sum, count)| *sum += count);
        self.waits.merge(&other.waits);
        self.openings.merge(&other.openings);
    }
}

/// A client's counts since counting began.
#[derive(Debug, Default)]
pub struct Metrics {
    operations: Vec<Series>,
    /// Where each is in `operations`.
    places: HashMap<OperationKey, u32>,
    /// Places to look at first, by [`Key::slot`]: a program does the same few things again and again.
    recent: [u32; SLOTS],
    /// From asking for a server to having chosen one.
    pub selections: Histogram,
    /// How often no server could be chosen in time.
    pub selection_timeouts: u64,
    /// Commands sent once more.
    pub retries: u64,
    /// Messages sent whole, in bytes on the wire.
    pub bytes_sent: u64,
    /// Messages received whole, in bytes on the wire.
    pub bytes_received: u64,
    /// Cursors that servers have open, with the connection that is kept for each.
    cursors: HashMap<i64, Option<LinkId>>,
}

impl Metrics {
    /// Counts a finished operation. The cheapest checks come first.
    #[inline]
    pub(crate) fn add_operation(&mut self, key: Key<'_>, duration: Duration) {
        let slot = key.slot();
        let recent = self.recent[slot] as usize;
        let place = match self.operations.get(recent) {
            Some(series) if series.is(key) => recent,
            _ => {
                let place = self.place_of(key);
                self.recent[slot] = place as u32;
                place
            }
        };
        if let Some(series) = self.operations.get_mut(place) {
            series.durations.add(duration);
        }
    }

    #[cold]
    fn place_of(&mut self, key: Key<'_>) -> usize {
        let mut wanted = OperationKey::of(key);
        if let Some(place) = self.places.get(&wanted) {
            return *place as usize;
        }
        if self.operations.len() >= MOST_SERIES {
            wanted =
                OperationKey { name: OTHER.into(), database: OTHER.into(), collection: "".into(), ..wanted };
            if let Some(place) = self.places.get(&wanted) {
                return *place as usize;
            }
        }
        let place = self.operations.len();
        self.places.insert(wanted.clone(), place as u32);
        self.operations.push(Series {
            key: wanted,
            target: key.target.into(),
            durations: Histogram::default(),
        });
        place
    }

    /// Returns the operations counted, in the order in which each kind was first seen.
    pub fn operations(&self) -> &[Series] {
        &self.operations
    }

    /// Returns how many cursors are open on servers.
    pub fn open_cursors(&self) -> usize {
        self.cursors.len()
    }

    /// A server has opened a cursor.
    pub(crate) fn note_open_cursor(&mut self, id: i64, link: Option<LinkId>) {
        self.cursors.insert(id, link);
    }

    /// A cursor was closed or given up.
    pub(crate) fn note_closed_cursor(&mut self, id: i64) {
        self.cursors.remove(&id);
    }

    /// A connection was closed, and with it the cursor that was bound to it.
    pub(crate) fn note_closed_link(&mut self, link: LinkId) {
        self.cursors.retain(|_, kept| *kept != Some(link));
    }
}

/// The source of an [`OperationKey`].
#[derive(Clone, Copy)]
pub(crate) struct Key<'a> {
    /// The bytes of the command from the kind of its first field to the end of what names its collection.
    pub(crate) target: &'a [u8],
    pub(crate) database: &'a str,
    pub(crate) error: Option<&'static str>,
    pub(crate) code: Option<i64>,
}

impl Key<'_> {
    #[inline]
    fn slot(self) -> usize {
        // The last byte is the end of a text; those before it differ between collections.
        let [.., third, second, _] = self.target else { return 0 };
        let length = self.target.len() ^ self.database.len() << 2;
        (usize::from(*second) ^ usize::from(*third) << 1 ^ length) % SLOTS
    }
}

impl Series {
    #[inline]
    fn is(&self, key: Key<'_>) -> bool {
        *self.target == *key.target
            && *self.key.database == *key.database
            && match key.error {
                None => self.key.error.is_none(),
                error => self.key.error == error && self.key.code == key.code,
            }
    }
}

impl OperationKey {
    fn of(key: Key<'_>) -> OperationKey {
        let name = key.target.get(1..).and_then(|rest| rest.split(|byte| *byte == 0).next());
        OperationKey {
            name: String::from_utf8_lossy(name.unwrap_or_default()).into(),
            database: key.database.into(),
            collection: collection_of(key.target).unwrap_or_default().into(),
            error: key.error,
            code: key.code,
        }
    }
}

/// Commands whose first field is a text that names no collection.
const NO_COLLECTION: &[&str] = &["createUser", "dropUser", "getLog", "getParameter", "updateUser"];

const TEXT: u8 = 2;
const INT64: u8 = 18;

/// Returns the part of a command's elements that says what it does and where: the first field if that is a text, the first
/// two fields of a `getMore`, and otherwise the key of the first field.
#[inline]
pub(crate) fn target_of(elements: &[u8]) -> &[u8] {
    let Some(end) = key_end(elements) else { return elements };
    let target = match elements.first() {
        Some(&TEXT) => text_end(elements, end),
        Some(&INT64) if elements.starts_with(GET_MORE) => {
            let rest = elements.get(end + 8..).unwrap_or_default();
            key_end(rest).and_then(|key| Some(end + 8 + text_end(rest, key)?))
        }
        _ => None,
    };
    elements.get(..target.unwrap_or(end)).unwrap_or(elements)
}

/// A `getMore` begins so; the cursor's id follows.
const GET_MORE: &[u8] = b"\x12getMore\0";

/// Returns where the key of the first element ends, the zero behind it included.
#[inline]
fn key_end(elements: &[u8]) -> Option<usize> {
    elements.iter().skip(1).position(|byte| *byte == 0).map(|zero| zero + 2)
}

/// Returns where a text ends, given the end of its key.
#[inline]
fn text_end(elements: &[u8], key_end: usize) -> Option<usize> {
    let length: [u8; 4] = elements.get(key_end..key_end + 4)?.try_into().ok()?;
    Some(key_end + 4 + usize::try_from(i32::from_le_bytes(length)).ok()?)
}

/// Returns the collection that a command names; `None` for one that names none. It may be what [`target_of`] returns.
pub fn collection_of(elements: &[u8]) -> Option<&str> {
    let elements = match elements.strip_prefix(GET_MORE) {
        Some(rest) => rest.get(8..)?,
        None => elements,
    };
    let key = key_end(elements)?;
    let value = elements.get(key + 4..text_end(elements, key)?.checked_sub(1)?)?;
    let name = std::str::from_utf8(elements.get(1..key - 1)?).ok()?;
    let is_one = elements.first() == Some(&TEXT) && !NO_COLLECTION.contains(&name);
    if is_one { std::str::from_utf8(value).ok() } else { None }
}

impl Failure {
    /// Returns the name of the error that it becomes.
    pub fn class(&self) -> &'static str {
        match self {
            Failure::ServerSelection(_) => "ServerSelectionTimeoutError",
            Failure::WaitQueue(_) => "WaitQueueTimeoutError",
            Failure::TimeLimit(_) | Failure::Network { timed_out: true, .. } => "NetworkTimeout",
            Failure::Network { timed_out: false, .. } => "AutoReconnect",
            Failure::Protocol(_) => "ProtocolError",
            Failure::Configuration(_) => "ConfigurationError",
            Failure::TooLarge(_) => "DocumentTooLarge",
            Failure::Usage(_) | Failure::Closed => "InvalidOperation",
            Failure::Authentication { .. } | Failure::Command => "OperationFailure",
            Failure::Unanswered => "BugError",
        }
    }
}
