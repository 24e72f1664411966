//! Explicit sessions: the state of a user's session between commands, and the fields of its next command.
//! Lives in the [`Client`](crate::client::Client), behind its lock. Spec: sessions, causal-consistency, snapshot-sessions.

use mangonel_bson::{RawDocument, RawValue, writer};

use crate::operation::Kind;
use crate::session::ServerSession;
use crate::topology::Address;
use crate::transaction::{End, State, Transaction, releases_pin};

/// Reads that see the session's earlier operations (causal-consistency, "read commands").
const CAUSAL_READS: &[&str] = &["find", "aggregate", "count", "distinct"];
/// Writes that see the session's earlier operations (causal-consistency, "write commands").
const CAUSAL_WRITES: &[&str] = &[
    "insert",
    "update",
    "findAndModify",
    "delete",
    "bulkWrite",
    "create",
    "createIndexes",
    "drop",
    "dropDatabase",
    "dropIndexes",
];
/// Commands that continue or end the work of another one, so they choose no snapshot.
const WITHOUT_SNAPSHOT: &[&str] = &["getMore", "killCursors", "endSessions"];

/// The error message for using an ended session.
pub const ENDED: &str = "Cannot use ended session";

/// The cluster time as a number for comparison, and the whole document to send.
pub type ClusterTime = (u64, Vec<u8>);

/// Reads a `$clusterTime` document; `None` when it is invalid.
pub fn parse_cluster_time(document: &[u8]) -> Option<u64> {
    let parsed = RawDocument::from_bytes(document).ok()?;
    parsed.get_timestamp("clusterTime").ok()?.map(|time| number(time.time, time.increment))
}

/// Keeps the newer of the known time and the one in `document`.
pub fn keep_newer(known: &mut Option<ClusterTime>, document: &[u8]) {
    let Some(seen) = parse_cluster_time(document) else { return };
    match known {
        Some((time, _)) if *time >= seen => {}
        Some((time, bytes)) => {
            *time = seen;
            bytes.clear();
            bytes.extend_from_slice(document);
        }
        None => *known = Some((seen, document.to_vec())),
    }
}

fn number(time: u32, increment: u32) -> u64 {
    u64::from(time) << 32 | u64::from(increment)
}

/// The fields of one command that come from the session.
#[derive(Debug, Default)]
pub struct Stamp {
    /// The server session's UUID.
    pub id: [u8; 16],
    /// The number of the retryable write, or of the transaction.
    pub txn_number: Option<i64>,
    /// Whether the command belongs to a transaction.
    pub is_in_transaction: bool,
    /// Whether the command starts the transaction.
    pub is_starting: bool,
    /// The whole read concern; empty if the command's own read concern stays.
    pub read_concern: Vec<u8>,
    /// Further elements, for the command that ends a transaction.
    pub elements: Vec<u8>,
}

impl Stamp {
    /// Appends the fields to a command.
    pub fn append_to(&self, out: &mut Vec<u8>) {
        let start = writer::begin_subdocument(out, "lsid");
        writer::append_binary(out, "id", 0x04, &self.id);
        writer::end_document(out, start);
        if let Some(number) = self.txn_number {
            writer::append_i64(out, "txnNumber", number);
        }
        if self.is_starting {
            writer::append_bool(out, "startTransaction", true);
        }
        if self.is_in_transaction {
            writer::append_bool(out, "autocommit", false);
        }
        if let Ok(concern) = RawDocument::from_bytes(&self.read_concern) {
            writer::append_raw_document(out, "readConcern", concern);
        }
        out.extend_from_slice(&self.elements);
    }
}

/// The state of one explicit session.
#[derive(Debug, Default)]
pub struct ClientSession {
    is_causal: bool,
    is_snapshot: bool,
    /// Taken from the pool when it is first needed.
    server: Option<ServerSession>,
    /// How many transactions and writes were counted before there was a server session.
    uncounted: i64,
    cluster_time: Option<ClusterTime>,
    operation_time: Option<u64>,
    snapshot_time: Option<u64>,
    /// Its transaction.
    pub transaction: Transaction,
}

impl ClientSession {
    /// Makes a session that has sent nothing.
    pub fn new(is_causal: bool, is_snapshot: bool) -> Self {
        ClientSession { is_causal, is_snapshot, ..ClientSession::default() }
    }

    /// Returns the server session, once it has one.
    pub fn server(&self) -> Option<&ServerSession> {
        self.server.as_ref()
    }

    /// Gives it the server session that it will use from now on.
    pub(crate) fn adopt(&mut self, mut server: ServerSession) {
        server.txn_number += std::mem::take(&mut self.uncounted);
        self.server = Some(server);
    }

    /// Takes the server session out for good.
    pub fn release(&mut self) -> Option<ServerSession> {
        let mut server = self.server.take()?;
        // The server may still be working on the transaction, so the session must not return to the pool.
        server.is_dirty |= self.transaction.state() == State::InProgress;
        Some(server)
    }

    /// Returns whether all reads see one point in time.
    pub fn is_snapshot(&self) -> bool {
        self.is_snapshot
    }

    /// Returns the newest cluster time that the session saw.
    pub fn cluster_time(&self) -> Option<&ClusterTime> {
        self.cluster_time.as_ref()
    }

    /// Returns the time of its last operation, seconds in the upper half.
    pub fn operation_time(&self) -> Option<u64> {
        self.operation_time
    }

    /// Returns the time at which a snapshot session reads, once it is chosen.
    pub fn snapshot_time(&self) -> Option<u64> {
        self.snapshot_time
    }

    /// Sets the time at which a snapshot session reads, before its first read.
    pub fn set_snapshot_time(&mut self, time: u64) {
        self.snapshot_time = Some(time);
    }

    /// Advances to the cluster time of another session.
    pub fn advance_cluster_time(&mut self, document: &[u8]) {
        keep_newer(&mut self.cluster_time, document);
    }

    /// Advances to the operation time of another session.
    pub fn advance_operation_time(&mut self, time: u64) {
        self.operation_time = self.operation_time.max(Some(time));
    }

    /// Takes the next number for a transaction or a retryable write.
    pub fn count_transaction(&mut self) {
        match &mut self.server {
            Some(server) => server.txn_number += 1,
            None => self.uncounted += 1,
        }
    }

    /// Returns how the session changes the read concern of this command; [`stamp`](Self::stamp) applies it.
    fn additions(&self, name: &str, kind: Kind, is_starting: bool) -> Additions<'_> {
        let mut additions = Additions::default();
        let is_causal = self.is_causal && self.operation_time.is_some();
        if self.transaction.is_active() {
            if is_starting {
                additions.base = Some(self.transaction.read_concern()).filter(|concern| concern.len() > 5);
                additions.after = self.operation_time.filter(|_| is_causal);
            }
        } else if self.is_snapshot {
            additions.is_snapshot = !WITHOUT_SNAPSHOT.contains(&name);
        } else if is_causal {
            let takes_it =
                CAUSAL_WRITES.contains(&name) || (kind != Kind::Command && CAUSAL_READS.contains(&name));
            additions.after = self.operation_time.filter(|_| takes_it);
        }
        additions
    }

    /// Returns the fields of the next command, and counts it as sent.
    ///
    /// `own` returns the command's own read concern. It is called if the session adds to that; the command must then
    /// not send it itself. `has_limit`: the whole operation has a time limit, which replaces all others.
    pub fn stamp(
        &mut self,
        name: &str,
        kind: Kind,
        retryable_number: Option<i64>,
        has_limit: bool,
        own: impl FnOnce() -> Vec<u8>,
    ) -> Stamp {
        let mut stamp = Stamp { txn_number: retryable_number, ..Stamp::default() };
        stamp.is_in_transaction = self.transaction.is_active();
        stamp.is_starting = stamp.is_in_transaction && self.transaction.join();
        let additions = self.additions(name, kind, stamp.is_starting);
        if !additions.is_empty() {
            stamp.read_concern = additions.merged(&own(), self.snapshot_time);
        }
        if let Some(server) = &self.server {
            stamp.id = server.id;
            if stamp.is_in_transaction {
                stamp.txn_number = Some(server.txn_number);
            }
        }
        if let Some(end) = kind.end() {
            self.transaction.append_end(end, has_limit, &mut stamp.elements);
        }
        stamp
    }

    /// Processes the reply to one of its commands, even a failed one. Returns whether the transaction must be unpinned,
    /// since it may continue on another server.
    #[must_use]
    pub fn handle_reply(&mut self, body: RawDocument<'_>) -> bool {
        for element in body.iter().flatten() {
            match (element.key, element.value) {
                ("$clusterTime", RawValue::Document(time)) => {
                    keep_newer(&mut self.cluster_time, time.as_bytes());
                }
                ("operationTime", RawValue::Timestamp { time, increment }) => {
                    self.advance_operation_time(number(time, increment));
                }
                ("recoveryToken", RawValue::Document(token)) if self.transaction.is_active() => {
                    self.transaction.note_recovery_token(token.as_bytes());
                }
                ("atClusterTime", RawValue::Timestamp { time, increment }) => {
                    self.note_snapshot(number(time, increment));
                }
                ("cursor", RawValue::Document(cursor)) => {
                    if let Ok(Some(at)) = cursor.get_timestamp("atClusterTime") {
                        self.note_snapshot(number(at.time, at.increment));
                    }
                }
                _ => {}
            }
        }
        releases_pin(body)
    }

    /// The connection broke under one of its commands, or its reply was invalid. `left_cursor_at`: the server on which
    /// the command may have left a cursor open. The cursor is killed with the session when that ends: until then other
    /// commands may run in it.
    pub fn handle_broken_connection(&mut self, left_cursor_at: Option<Address>) {
        if let Some(server) = &mut self.server {
            server.is_dirty = true;
            server.left_cursor_at = left_cursor_at.or(server.left_cursor_at.take());
        }
    }

    fn note_snapshot(&mut self, at: u64) {
        if self.is_snapshot && self.snapshot_time.is_none() {
            self.snapshot_time = Some(at);
        }
    }
}

impl Kind {
    /// Returns which end of a transaction this command is, if any.
    pub fn end(self) -> Option<End> {
        match self {
            Kind::Commit => Some(End::Commit),
            Kind::Abort => Some(End::Abort),
            Kind::Read
            | Kind::ReadOnce
            | Kind::RetryableWrite
            | Kind::Write
            | Kind::Selection
            | Kind::Command => None,
        }
    }
}

/// The session's additions to a command's read concern.
#[derive(Default)]
struct Additions<'a> {
    /// Replaces the command's own read concern.
    base: Option<&'a [u8]>,
    after: Option<u64>,
    is_snapshot: bool,
}

impl Additions<'_> {
    fn is_empty(&self) -> bool {
        self.base.is_none() && self.after.is_none() && !self.is_snapshot
    }

    fn merged(&self, own: &[u8], snapshot_time: Option<u64>) -> Vec<u8> {
        let mut out = Vec::new();
        let start = writer::begin_document(&mut out);
        let base = RawDocument::from_bytes(self.base.unwrap_or(own)).ok();
        for element in base.iter().flat_map(RawDocument::iter).flatten() {
            let is_replaced = match element.key {
                "level" => self.is_snapshot,
                "afterClusterTime" => self.after.is_some(),
                "atClusterTime" => self.is_snapshot && snapshot_time.is_some(),
                _ => false,
            };
            if !is_replaced {
                writer::append_value(&mut out, element.key, element.value);
            }
        }
        if self.is_snapshot {
            writer::append_str(&mut out, "level", "snapshot");
            if let Some(at) = snapshot_time {
                append_time(&mut out, "atClusterTime", at);
            }
        }
        if let Some(after) = self.after {
            append_time(&mut out, "afterClusterTime", after);
        }
        writer::end_document(&mut out, start);
        out
    }
}

fn append_time(out: &mut Vec<u8>, key: &str, time: u64) {
    writer::append_timestamp(out, key, (time >> 32) as u32, time as u32);
}
