//! A member's data: its oplog, and the versions of documents and the table of sessions that follow from it.

use std::collections::BTreeMap;
use std::rc::Rc;

/// The collections of the world; a number names one.
pub const COLLECTIONS: &[&str] = &["orders", "counters", "accounts", "shelf", "files.chunks"];
/// The number of the collection whose documents hold bytes instead of values.
pub(crate) const CHUNKS: u8 = 4;

/// Returns the number of a collection.
pub fn collection(name: &str) -> Option<u8> {
    COLLECTIONS.iter().position(|known| *known == name).map(|position| position as u8)
}

/// One document's new value.
#[derive(Clone, Debug)]
pub struct Write {
    /// Its collection.
    pub collection: u8,
    /// Its `_id`.
    pub key: i64,
    /// Its `value`; `None` for deleted.
    pub value: Option<i64>,
    /// The workload's name for the write.
    pub intent: i64,
    /// Its position in the command.
    pub statement: i32,
}

/// One entry of the oplog.
#[derive(Debug)]
pub struct Entry {
    /// The term of the primary that wrote it.
    pub term: u64,
    /// Its time, seconds in the upper half.
    pub time: u64,
    /// The session and the number in it.
    pub session: Option<([u8; 16], i64)>,
    /// Whether it commits a transaction.
    pub is_transaction: bool,
    /// What it changes; nothing for a no-op.
    pub writes: Vec<Write>,
}

/// A member's record of a session.
#[derive(Clone, Debug, Default)]
pub struct Row {
    /// The newest number.
    pub number: i64,
    /// Whether that was a transaction, and so a committed one.
    pub is_transaction: bool,
    /// The statements applied with that number.
    pub statements: Vec<i32>,
}

/// A document's values, each with the log length from which it applies.
type Versions = Vec<(usize, Option<i64>)>;

/// The data of one member.
#[derive(Default)]
pub struct Data {
    /// The oplog.
    pub log: Vec<Rc<Entry>>,
    /// The table of sessions.
    pub rows: BTreeMap<[u8; 16], Row>,
    versions: BTreeMap<(u8, i64), Versions>,
}

impl Data {
    /// Returns the term of the last entry and the length of the log.
    pub fn position(&self) -> (u64, usize) {
        (self.log.last().map_or(0, |entry| entry.term), self.log.len())
    }

    /// Returns the time of the last entry of a log of this length.
    pub fn time_at(&self, length: usize) -> u64 {
        length.checked_sub(1).and_then(|last| self.log.get(last)).map_or(0, |entry| entry.time)
    }

    /// Returns how long the log was at a time.
    pub fn length_at(&self, time: u64) -> usize {
        self.log.partition_point(|entry| entry.time <= time)
    }

    /// Puts an entry behind the others.
    pub fn append(&mut self, entry: Rc<Entry>) {
        let length = self.log.len() + 1;
        for write in &entry.writes {
            self.versions.entry((write.collection, write.key)).or_default().push((length, write.value));
        }
        self.note_session(&entry);
        self.log.push(entry);
    }

    fn note_session(&mut self, entry: &Entry) {
        let Some((session, number)) = entry.session else { return };
        let row = self.rows.entry(session).or_default();
        if row.number != number {
            *row = Row { number, ..Row::default() };
        }
        row.is_transaction = entry.is_transaction;
        row.statements.extend(entry.writes.iter().map(|write| write.statement));
    }

    /// Rolls back the entries after the first `length`.
    pub fn roll_back(&mut self, length: usize) {
        for entry in self.log.drain(length..) {
            for write in &entry.writes {
                if let Some(versions) = self.versions.get_mut(&(write.collection, write.key)) {
                    versions.retain(|(since, _)| *since <= length);
                }
            }
        }
        self.rows.clear();
        for entry in self.log.clone() {
            self.note_session(&entry);
        }
    }

    /// Returns a document's value when the log was this long.
    pub fn value(&self, collection: u8, key: i64, length: usize) -> Option<i64> {
        value_at(self.versions.get(&(collection, key))?, length)
    }

    /// Returns how long the log was when a document was last changed.
    pub fn changed(&self, collection: u8, key: i64) -> usize {
        self.versions.get(&(collection, key)).and_then(|versions| versions.last()).map_or(0, |last| last.0)
    }

    /// Returns the documents of a collection when the log was this long.
    pub fn scan(&self, collection: u8, length: usize) -> Vec<(i64, i64)> {
        let documents = self.versions.range((collection, i64::MIN)..=(collection, i64::MAX));
        documents.filter_map(|((_, key), versions)| Some((*key, value_at(versions, length)?))).collect()
    }
}

fn value_at(versions: &Versions, length: usize) -> Option<i64> {
    let after = versions.partition_point(|(since, _)| *since <= length);
    versions.get(after.checked_sub(1)?)?.1
}
