//! The judges compare a driver's promises with the events. The ledger holds the results that the workloads got; the
//! members' log holds the truth.

mod conduct;
mod events;
mod outcome;
mod pools;

pub(crate) use self::conduct::time_told;
pub(crate) use self::events::Heard;

use std::collections::BTreeMap;
use std::time::Duration;

use mangonel_proto::exchange::Exchange;
use mangonel_proto::ids::ExchangeId;
use mangonel_proto::operation::Limit;
use mangonel_proto::time::Instant;

/// What a client knows of a write from its result.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Verdict {
    /// Nothing yet.
    Open,
    /// A majority has it.
    Safe,
    /// The primary has it.
    Done,
    /// It was not done, and will not be.
    Nothing,
    /// It may have been done.
    Unknown,
}

/// A write, as the client knows it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Known {
    pub(crate) begun: Instant,
    pub(crate) ended: Option<Instant>,
    pub(crate) verdict: Verdict,
}

/// What a session was used for last.
#[derive(Clone, Copy, Debug)]
struct Use {
    number: i64,
    exchange: ExchangeId,
    is_transaction: bool,
    is_starting: bool,
}

/// The results that clients got.
#[derive(Default)]
pub(crate) struct Ledger {
    pub(crate) violations: Vec<String>,
    pub(crate) writes: BTreeMap<i64, Known>,
    /// The increments of counters: begun ones, and those that a majority has acknowledged.
    pub(crate) counts: BTreeMap<i64, Vec<(i64, Instant)>>,
    /// The changes that each stream showed, and its start.
    pub(crate) streams: Vec<Stream>,
    /// How often a stream learnt that its place in the log is gone.
    pub(crate) losses: u32,
    uses: BTreeMap<[u8; 16], Use>,
    /// Sessions whose state on the server is not known, and the exchange that left them so.
    spoiled: BTreeMap<[u8; 16], ExchangeId>,
    /// The session and number that each write carried when it was first sent.
    numbers: BTreeMap<i64, ([u8; 16], i64)>,
}

/// The changes that one stream showed.
#[derive(Clone, Debug, Default)]
pub(crate) struct Stream {
    /// Entries of the log before its start.
    pub(crate) start: usize,
    /// The intents, in order.
    pub(crate) shown: Vec<i64>,
}

/// Returns how long an operation may take as a whole. `of_client`: the client's limit, used if the operation has none.
fn limit_of(exchange: &Exchange, of_client: Option<Duration>) -> Option<Duration> {
    match exchange.operation().limit {
        Limit::OfClient => of_client,
        Limit::Within(limit) => Some(limit),
        Limit::None => None,
    }
}

impl Ledger {
    /// Records that a promise was broken.
    pub(crate) fn blame(&mut self, what: String) {
        self.violations.push(what);
    }

    /// Called when a write is about to begin.
    pub(crate) fn begin(&mut self, intent: i64, now: Instant) {
        self.writes.insert(intent, Known { begun: now, ended: None, verdict: Verdict::Open });
    }

    /// Called when a write ended.
    pub(crate) fn end(&mut self, intent: i64, verdict: Verdict, now: Instant) {
        if let Some(known) = self.writes.get_mut(&intent) {
            (known.ended, known.verdict) = (Some(now), verdict);
        }
    }

    /// Called when a counter was read. `is_exact`: the read may not miss increments that were safe before it. No read
    /// may show an increment that has not begun.
    pub(crate) fn judge_count(
        &mut self,
        key: i64,
        value: i64,
        begun: Instant,
        ended: Instant,
        is_exact: bool,
    ) {
        let counts = self.counts.get(&key).cloned().unwrap_or_default();
        let is_safe_before = |intent: &i64| {
            self.writes.get(intent).is_some_and(|known| {
                known.verdict == Verdict::Safe && known.ended.is_some_and(|end| end <= begun)
            })
        };
        let least = counts.iter().filter(|(intent, _)| is_safe_before(intent)).count() as i64;
        let most = counts.iter().filter(|(_, since)| *since <= ended).count() as i64;
        if value > most || (is_exact && value < least) {
            self.blame(format!(
                "counter {key} was read as {value}, expected {least} to {most} (exact: {is_exact})"
            ));
        }
    }
}
