//! The workloads: each is an `async` function that requests operations from its desk, as an application does from its
//! driver.

mod reads;
mod streams;
mod transactions;
mod writes;

pub(crate) use self::transactions::RUNS;

use std::cell::RefCell;
use std::rc::Rc;

use mangonel_bson::{RawDocument, append_bool, append_i32, append_i64, append_str, writer};
use mangonel_proto::message::Command;
use mangonel_proto::operation::{Kind, Operation};
use mangonel_proto::read_preference::{Mode, ReadPreference, TagSet};
use mangonel_proto::time::Instant;

use crate::chance::Chance;
use crate::desk::{Desk, Ending, Flow};
use crate::judge::{Ledger, Verdict};
use crate::plan::Work;
use crate::server::answer::SIDES;
use crate::server::log::CHUNKS;
use crate::wire::{append_document, document};

/// How many accounts there are.
pub(crate) const ACCOUNTS: i64 = 6;
/// The balance of each at first.
pub(crate) const START_BALANCE: i64 = 100;
/// How many counters there are.
const COUNTERS: u64 = 3;
/// How many documents never change.
const SHELF: i64 = 25;
/// The sizes of a file's chunks: below and above the sizes that are laid aside, and that a connection reads at once.
const CHUNK_SIZES: &[i64] = &[3_000, 1_500, 40, 2_048, 70_000, 900];

/// The state and surroundings of a worker.
pub(crate) struct Place {
    pub(crate) work: Work,
    pub(crate) client: usize,
    pub(crate) worker: usize,
    pub(crate) desk: Desk,
    pub(crate) ledger: Rc<RefCell<Ledger>>,
    pub(crate) chance: Chance,
    pub(crate) end: Instant,
    /// How much longer its pauses are than usual.
    pub(crate) pace: u64,
    /// Whether a member is delayed, which reads must avoid.
    pub(crate) has_delayed: bool,
    /// Whether its servers send all batches of a cursor at once when they are allowed to.
    pub(crate) has_exhaust: bool,
    /// How often it did its work before.
    pub(crate) turn: i64,
}

/// Returns the set's first documents.
pub(crate) fn documents() -> Vec<(u8, i64, i64)> {
    let counters = (0..COUNTERS as i64).map(|key| (1, key, 0));
    let accounts = (0..ACCOUNTS).map(|key| (2, key, START_BALANCE));
    let shelf = (0..SHELF).map(|key| (3, key, key * 7));
    let chunks = CHUNK_SIZES.iter().zip(0..).map(|(size, number)| (CHUNKS, number, *size));
    counters.chain(accounts).chain(shelf).chain(chunks).collect()
}

/// Makes the work of a worker.
pub(crate) fn flow(mut place: Place) -> Flow {
    Box::pin(async move {
        let mut turn = place.turn;
        if place.work == Work::Watch {
            return streams::watch(&mut place).await;
        }
        while place.desk.now() < place.end {
            turn += 1;
            match place.work {
                Work::Insert => writes::insert(&mut place, turn).await,
                Work::Count => writes::count(&mut place, turn).await,
                Work::Plain => writes::plain(&mut place, turn).await,
                Work::Transfer => transactions::transfer(&mut place, turn).await,
                Work::Causal if place.chance.percent(20) => transactions::snapshot(&mut place).await,
                Work::Causal => transactions::causal(&mut place, turn).await,
                Work::Browse => reads::browse(&mut place).await,
                Work::Fetch => reads::fetch(&mut place).await,
                Work::Bulk => writes::bulk(&mut place, turn).await,
                Work::Watch => {}
            }
            let pause = place.chance.pick(&[0, 1, 5, 20, 80]);
            place.desk.sleep(pause * place.pace).await;
        }
    })
}

impl Place {
    /// Returns the name of a write, which is unique in the world.
    fn intent(&self, turn: i64, part: i64) -> i64 {
        (self.client as i64 + 1) * 1_000_000_000 + self.worker as i64 * 10_000_000 + turn * 100 + part + 1
    }

    /// Returns a random preference.
    fn preference(&mut self) -> Option<ReadPreference> {
        let mode = self.chance.pick(&[
            Mode::Primary,
            Mode::PrimaryPreferred,
            Mode::Secondary,
            Mode::SecondaryPreferred,
            Mode::Nearest,
        ]);
        let side = |side: &str| TagSet(vec![("side".into(), side.into())]);
        let tags = match self.chance.below(8) {
            0 => vec![side(SIDES[1])],
            1 => vec![side(SIDES[0]), TagSet::default()],
            _ => Vec::new(),
        };
        let is_bounded = self.has_delayed || self.chance.percent(15);
        // With 60 seconds, even a healthy server may count as stale.
        let bound = self.chance.pick(&[120, 120, 120, 120, 120, 120, 120, 60]);
        let staleness = if is_bounded { bound } else { -1 };
        let hedge = self.chance.percent(10).then(|| document(|out| append_bool(out, "enabled", true)));
        (mode != Mode::Primary).then(|| {
            let preference = ReadPreference::new(mode, tags, staleness, hedge)
                .expect("only the primary's takes nothing besides");
            // It is given as a document.
            let given = document(|out| preference.append_to(out, "given"));
            let read =
                RawDocument::from_bytes(&given).ok().and_then(|given| given.get_document("given").ok()?);
            let read = read.map(ReadPreference::from_document);
            if read.as_ref() != Some(&Ok(preference.clone())) {
                self.blame(format!("the read preference {preference:?} was read as {read:?}"));
            }
            preference
        })
    }

    /// Notes in the ledger how a write ended.
    fn enter(&self, intent: i64, ending: &Ending, is_safe: bool) {
        let verdict = verdict(ending, is_safe);
        self.ledger.borrow_mut().end(intent, verdict, self.desk.now());
    }

    fn blame(&self, what: String) {
        self.ledger.borrow_mut().blame(format!("client {} worker {}: {what}", self.client, self.worker));
    }
}

/// Returns what a client may conclude about its write.
fn verdict(ending: &Ending, is_safe: bool) -> Verdict {
    use mangonel_proto::error::Failure;
    if ending.is_fine() {
        return if is_safe { Verdict::Safe } else { Verdict::Done };
    }
    if ending.is_cancelled {
        return Verdict::Unknown;
    }
    match &ending.failure {
        Some(
            Failure::ServerSelection(_)
            | Failure::WaitQueue(_)
            | Failure::TimeLimit(_)
            | Failure::TooLarge(_)
            | Failure::Configuration(_),
        ) => Verdict::Nothing,
        Some(Failure::Network { .. }) if ending.is_overload => Verdict::Nothing,
        Some(Failure::Command) if ending.labels().wrote_nothing => Verdict::Nothing,
        _ => Verdict::Unknown,
    }
}

/// Makes a command.
fn command(name: &str, collection: &str, kind: Kind, fill: impl FnOnce(&mut Vec<u8>)) -> Operation {
    let mut head = Command::begin();
    let start = writer::begin_document(&mut head);
    append_str(&mut head, name, collection);
    fill(&mut head);
    writer::end_document(&mut head, start);
    finished(head, Vec::new(), kind)
}

/// Makes a command whose first value is a number.
fn command_of(name: &str, value: i64, kind: Kind, fill: impl FnOnce(&mut Vec<u8>)) -> Operation {
    let mut head = Command::begin();
    let start = writer::begin_document(&mut head);
    append_i64(&mut head, name, value);
    fill(&mut head);
    writer::end_document(&mut head, start);
    finished(head, Vec::new(), kind)
}

fn finished(head: Vec<u8>, sequence: Vec<u8>, kind: Kind) -> Operation {
    let command = Command::new(head, sequence).expect("a document was built above");
    Operation::new(command, "shop", kind)
}

fn append_concern(out: &mut Vec<u8>, is_safe: bool, timeout: Option<i32>) {
    append_document(out, "writeConcern", |out| {
        if is_safe {
            append_str(out, "w", "majority");
        } else {
            append_i32(out, "w", 1);
        }
        if let Some(timeout) = timeout {
            append_i32(out, "wtimeout", timeout);
        }
    });
}

fn append_level(out: &mut Vec<u8>, level: &str) {
    append_document(out, "readConcern", |out| append_str(out, "level", level));
}
