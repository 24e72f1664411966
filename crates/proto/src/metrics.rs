//! The counts of a client's operations, connections and servers, if requested. Plain numbers that only grow,
//! except those of open cursors. Calls nothing and keeps no clock.
//! Spec: the names and bounds are OpenTelemetry's conventions for databases.

use std::collections::HashMap;
use std::time::Duration;

use crate::error::Failure;
use crate::events::{CheckOutFailure, CloseReason};
use crate::ids::LinkId;
use crate::time::nanos;

/// The upper bounds of the buckets of every histogram, in nanoseconds; a last bucket counts larger values. OpenTelemetry's
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

/// The most series of operations, by name, place and outcome; all further ones are counted together.
const MOST_SERIES: usize = 2000;

/// The name, database and collection under which further operations are counted.
const OTHER: &str = "_OTHER";

const SLOTS: usize = 32;

/// A histogram of durations.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Histogram {
    /// The number of durations in each bucket.
    pub counts: [u64; BUCKETS],
    /// Their sum in nanoseconds, in each bucket.
    pub nanos: [u64; BUCKETS],
}

impl Histogram {
    /// Counts one duration.
    pub fn add(&mut self, duration: Duration) {
        self.add_nanos(nanos(duration));
    }

    /// Counts one duration in nanoseconds.
    #[inline]
    fn add_nanos(&mut self, nanos: u64) {
        // Most durations fall into the first buckets.
        let bucket = BOUNDS.iter().position(|bound| nanos <= *bound).unwrap_or(BUCKETS - 1);
        self.counts[bucket] += 1;
        self.nanos[bucket] += nanos;
    }

    /// Counts a duration of zero.
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
    /// The class of the error; `None` when the operation succeeded.
    pub error: Option<&'static str>,
    /// The server's code for that error.
    pub code: Option<i64>,
}

/// One kind of operation, and the durations, all attempts included.
#[derive(Clone, Debug)]
pub struct Series {
    /// The key that they share.
    pub key: OperationKey,
    /// The bytes of their commands with the command's name and the collection's.
    target: Box<[u8]>,
    /// Their durations.
    pub durations: Histogram,
}

/// The counts of one server's pools; their names are those of pool events.
#[derive(Clone, Debug, Default)]
pub struct PoolCounts {
    /// Connections that began to open.
    pub created: u64,
    /// Connections closed, in the order of [`CLOSE_REASONS`].
    pub closed: [u64; 4],
    /// Check-outs that failed, in the order of [`CHECK_OUT_FAILURES`].
    pub failed: [u64; 3],
    /// From requesting a connection to having it.
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

    /// Adds another pool's counts.
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
    /// The index of each key in `operations`.
    places: HashMap<OperationKey, u32>,
    /// The index to try first, by [`Beginning::slot`]: a program repeats the same few operations.
    first: [First; SLOTS],
    /// The indexes to try next, by [`Key::slot`].
    recent: [u32; SLOTS],
    /// From needing a server to having chosen one.
    pub selections: Histogram,
    /// How often no server could be chosen in time.
    pub selection_timeouts: u64,
    /// Commands that were sent again.
    pub retries: u64,
    /// Messages sent completely, in bytes on the wire.
    pub bytes_sent: u64,
    /// Messages received completely, in bytes on the wire.
    pub bytes_received: u64,
    /// Cursors open on servers, each with the connection that is kept for it.
    cursors: HashMap<i64, Option<LinkId>>,
}

impl Metrics {
    /// Counts a successful operation, if it begins like the last one counted in its slot. Returns whether it does.
    ///
    /// `elements`: the elements of its command.
    #[inline]
    pub(crate) fn add_again(&mut self, elements: &[u8], database: &str, nanos: u64) -> bool {
        let Some(beginning) = Beginning::of(elements) else { return false };
        let first = &self.first[beginning.slot()];
        if first.beginning != beginning {
            return false;
        }
        match self.operations.get_mut(first.place as usize) {
            // A target marks its own end, so a command that begins with these bytes has this target.
            Some(series)
                if is_at(elements, &series.target, Beginning::SIZE)
                    && is_same(series.key.database.as_bytes(), database.as_bytes())
                    && series.key.error.is_none() =>
            {
                series.durations.add_nanos(nanos);
                true
            }
            _ => false,
        }
    }

    /// Counts a finished operation. The cheapest checks come first.
    ///
    /// `elements`: the elements of its command.
    pub(crate) fn add_operation(&mut self, elements: &[u8], key: Key<'_>, duration: Duration) {
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
        // A `killCursors` never takes the shortcut, since the cursors that it kills must be counted too.
        if let Some(beginning) = Beginning::of(elements).filter(|_| !elements.starts_with(KILL_CURSORS)) {
            self.first[beginning.slot()] = First { beginning, place: place as u32 };
        }
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

    /// Returns the counted operations, in the order in which each kind was first seen.
    pub fn operations(&self) -> &[Series] {
        &self.operations
    }

    /// Returns how many cursors are open on servers.
    pub fn open_cursors(&self) -> usize {
        self.cursors.len()
    }

    /// Called when a server has opened a cursor.
    pub(crate) fn note_open_cursor(&mut self, id: i64, link: Option<LinkId>) {
        self.cursors.insert(id, link);
    }

    /// Called when a cursor was closed or given up.
    pub(crate) fn note_closed_cursor(&mut self, id: i64) {
        self.cursors.remove(&id);
    }

    /// Called when a connection was closed, and with it the cursor that was pinned to it.
    pub(crate) fn note_closed_link(&mut self, link: LinkId) {
        self.cursors.retain(|_, kept| *kept != Some(link));
    }
}

/// The source of an [`OperationKey`].
#[derive(Clone, Copy)]
pub(crate) struct Key<'a> {
    /// The bytes of the command from the kind of its first field to the end of its collection's name.
    pub(crate) target: &'a [u8],
    pub(crate) database: &'a str,
    pub(crate) error: Option<&'static str>,
    pub(crate) code: Option<i64>,
}

impl Key<'_> {
    #[inline]
    fn slot(self) -> usize {
        // The last byte is the end of a text; the bytes before it differ between collections.
        let [.., third, second, _] = self.target else { return 0 };
        let length = self.target.len() ^ self.database.len() << 2;
        (usize::from(*second) ^ usize::from(*third) << 1 ^ length) % SLOTS
    }
}

/// The first bytes of a command whose first field is a text: the command's name, then as much of the collection's name
/// as fits. All zeros mean no command: the length of a text is never zero.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Beginning {
    name: u64,
    rest: u64,
}

/// Where the operations with one beginning were last counted.
#[derive(Clone, Copy, Debug, Default)]
struct First {
    beginning: Beginning,
    place: u32,
}

impl Beginning {
    /// The number of a command's bytes that it holds, including the kind of the first field.
    const SIZE: usize = 17;

    /// Returns the beginning of a command; `None` if the first field is no text: in a `getMore` it is the cursor's id.
    #[inline]
    fn of(elements: &[u8]) -> Option<Beginning> {
        let [TEXT, first @ ..] = elements.first_chunk::<{ Beginning::SIZE }>()? else { return None };
        let name = u64::from_le_bytes(*first.first_chunk()?);
        let rest = u64::from_le_bytes(*first.last_chunk()?);
        Some(Beginning { name, rest })
    }

    #[inline]
    fn slot(self) -> usize {
        // A multiplication mixes all bits into the highest.
        let mixed = (self.name ^ self.rest.rotate_left(17)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        (mixed >> 59) as usize
    }
}

/// Whether `elements` begin with `target`, given that their first bytes are equal up to `known`.
#[inline]
fn is_at(elements: &[u8], target: &[u8], known: usize) -> bool {
    match target.get(known..) {
        None | Some([]) => true,
        Some(rest) => elements.get(known..).is_some_and(|found| found.starts_with(rest)),
    }
}

/// Compares the names of databases. Most are short, so a call would cost more than the comparison.
#[inline]
fn is_same(one: &[u8], other: &[u8]) -> bool {
    if one.len() != other.len() {
        return false;
    }
    match (one.first_chunk::<4>(), one.last_chunk::<4>(), other.first_chunk::<4>(), other.last_chunk::<4>()) {
        (Some(a), Some(b), Some(c), Some(d)) if one.len() <= 8 => a == c && b == d,
        _ => one == other,
    }
}

/// Leaves out the bytes that differ between cursors: in a `getMore`, all before the collection's field.
#[inline]
fn without_id(target: &[u8]) -> &[u8] {
    match target.strip_prefix(GET_MORE) {
        Some([_, _, _, _, _, _, _, _, collection @ ..]) => collection,
        _ => target,
    }
}

impl Series {
    #[inline]
    fn is(&self, key: Key<'_>) -> bool {
        without_id(&self.target) == without_id(key.target)
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

/// Commands whose first field is a text, but not a collection's name.
const NO_COLLECTION: &[&str] = &["createUser", "dropUser", "getLog", "getParameter", "updateUser"];

const TEXT: u8 = 2;
const INT64: u8 = 18;

/// Returns the part of a command's elements that names the operation and the collection: the first field if that is a
/// text, the first two fields of a `getMore`, otherwise the key of the first field.
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

/// The first bytes of a `killCursors`.
pub(crate) const KILL_CURSORS: &[u8] = b"\x02killCursors\0";

/// The first bytes of a `getMore`; the cursor's id follows.
const GET_MORE: &[u8] = b"\x12getMore\0";

/// Returns where the key of the first element ends, including its zero byte.
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

/// Returns the collection that a command names; `None` if it names none. `elements` may be the result of [`target_of`].
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
    /// Returns the name of the error class for this failure.
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

#[cfg(test)]
mod tests {
    use super::*;

    fn text(name: &str, value: &str, rest: &[u8]) -> Vec<u8> {
        let mut out = vec![TEXT];
        out.extend(name.as_bytes());
        out.push(0);
        out.extend((value.len() as u32 + 1).to_le_bytes());
        out.extend(value.as_bytes());
        out.push(0);
        out.extend(rest);
        out
    }

    fn get_more(id: u8, collection: &str) -> Vec<u8> {
        let mut out = GET_MORE.to_vec();
        out.extend([id; 8]);
        out.extend(text("collection", collection, &[]));
        out
    }

    #[test]
    fn operations_in_any_order_are_counted_by_name_place_and_outcome() {
        let mut commands = vec![b"\x10ping\0\x01\0\0\0".to_vec(), b"\x10ping\0\x02\0\0\0more".to_vec()];
        for collection in ["a", "orders", "people", "peoplf", "a collection of a long name", "\0"] {
            for name in ["find", "insert", "findAndModify", "aggregate", "find\u{1}"] {
                for rest in
                    [&b""[..], b"\x03filter\0\x05\0\0\0\0", b"\x03filter\0\x0f\0\0\0\x10n\0\x03\0\0\0\0"]
                {
                    commands.push(text(name, collection, rest));
                }
            }
            commands.extend([get_more(1, collection), get_more(2, collection)]);
        }
        let (mut metrics, mut expected) = (Metrics::default(), HashMap::new());
        let mut at = 7_usize;
        for _ in 0..20_000 {
            at = at.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let elements = &commands[(at >> 33) % commands.len()];
            let database = ["shop", "shoq", "else"][(at >> 20) % 3];
            let error = (at >> 25).is_multiple_of(4).then_some("AutoReconnect");
            let key = Key { target: target_of(elements), database, error, code: None };
            if error.is_some() || !metrics.add_again(elements, database, 0) {
                metrics.add_operation(elements, key, Duration::ZERO);
            }
            *expected.entry(OperationKey::of(key)).or_insert(0_u64) += 1;
        }
        let found: HashMap<_, _> = metrics
            .operations
            .iter()
            .map(|series| (series.key.clone(), series.durations.counts[0]))
            .collect();
        assert_eq!(found.len(), metrics.operations.len());
        assert_eq!(found, expected);
    }

    #[test]
    fn a_kill_of_cursors_is_never_counted_as_one_more_of_its_kind() {
        let kill = text("killCursors", "orders", b"\x04cursors\0\x05\0\0\0\0");
        let key = Key { target: target_of(&kill), database: "shop", error: None, code: None };
        let mut metrics = Metrics::default();
        for _ in 0..2 {
            assert!(!metrics.add_again(&kill, "shop", 0));
            metrics.add_operation(&kill, key, Duration::ZERO);
        }
        assert_eq!(metrics.operations()[0].durations.counts[0], 2);
    }

    #[test]
    fn batches_of_all_cursors_of_a_collection_are_found_at_once() {
        let (first, second, other) = (get_more(1, "orders"), get_more(2, "orders"), get_more(1, "people"));
        let key = |elements| Key { target: target_of(elements), database: "shop", error: None, code: None };
        let mut metrics = Metrics::default();
        metrics.add_operation(&first, key(&first), Duration::ZERO);
        let [series] = metrics.operations() else { panic!("one series") };
        assert!(series.is(key(&second)) && !series.is(key(&other)));
        assert_eq!(key(&first).slot(), key(&second).slot());
    }
}
