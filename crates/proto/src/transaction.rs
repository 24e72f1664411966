//! One session's transaction: its states, its pinned server, and the fields that it adds to its commands. Of commands,
//! it knows only the two that end it. Spec: transactions, transactions-convenient-api (labels).

use mangonel_bson::{RawDocument, RawValue, writer};

use crate::codes;
use crate::ids::LinkId;
use crate::topology::Address;

/// The `wtimeout` of a commit that is sent again, in milliseconds (transactions, "majority write concern is used when
/// retrying commitTransaction").
const RETRIED_COMMIT_WTIMEOUT: i32 = 10_000;

/// The state of a transaction.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum State {
    /// None was started, or the last one is over and another operation followed.
    #[default]
    None,
    /// Started here; the server does not know of it yet.
    Starting,
    /// The server knows of it.
    InProgress,
    /// Committed, or at least a commit was requested.
    Committed,
    /// Committed without any command.
    CommittedEmpty,
    /// Aborted.
    Aborted,
}

/// How a transaction ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    /// Keep the writes.
    Commit,
    /// Undo it.
    Abort,
}

/// The server or connection for the later commands of a transaction.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Pin {
    /// The mongos, or the load balancer.
    pub address: Address,
    /// Behind a load balancer, the connection, which the pool counts as checked out.
    pub link: Option<LinkId>,
}

/// The call is not allowed in the transaction's state; the text gives the reason.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WrongState(pub &'static str);

/// A session's current transaction, or the last one.
#[derive(Debug, Default)]
pub struct Transaction {
    state: State,
    read_concern: Vec<u8>,
    write_concern: Vec<u8>,
    pin: Option<Pin>,
    recovery_token: Vec<u8>,
    /// How often a commit was sent.
    commits: u32,
}

impl Transaction {
    /// Returns the state.
    pub fn state(&self) -> State {
        self.state
    }

    /// Returns whether commands now belong to it.
    pub fn is_active(&self) -> bool {
        matches!(self.state, State::Starting | State::InProgress)
    }

    /// Returns the server or connection to which its commands are pinned.
    pub fn pin(&self) -> Option<&Pin> {
        self.pin.as_ref()
    }

    /// Pins the transaction's later commands to a server, or to one connection of it.
    pub fn pin_to(&mut self, pin: Pin) {
        self.pin = Some(pin);
    }

    /// Unpins the transaction; returns the connection to give back.
    #[must_use]
    pub fn unpin(&mut self) -> Option<LinkId> {
        self.pin.take().and_then(|pin| pin.link)
    }

    /// Starts a transaction. The concerns are documents, or empty.
    ///
    /// # Errors
    /// When one is active.
    pub fn start(&mut self, read_concern: Vec<u8>, write_concern: Vec<u8>) -> Result<(), WrongState> {
        if self.is_active() {
            return Err(WrongState("Transaction already in progress"));
        }
        *self = Transaction { state: State::Starting, read_concern, write_concern, ..Transaction::default() };
        Ok(())
    }

    /// Forgets a transaction that is over, since another operation follows. Returns the connection to give back.
    #[must_use]
    pub fn leave(&mut self) -> Option<LinkId> {
        if self.is_active() || self.state == State::None {
            return None;
        }
        let link = self.unpin();
        *self = Transaction::default();
        link
    }

    /// Returns whether a command must be sent to end it like this.
    pub fn must_send(&self, end: End) -> bool {
        matches!((self.state, end), (State::InProgress, _) | (State::Committed, End::Commit))
    }

    /// Begins to commit or to abort; returns whether a command must be sent.
    ///
    /// # Errors
    /// When there is nothing to end, or it ended otherwise.
    pub fn begin_end(&mut self, end: End) -> Result<bool, WrongState> {
        match (self.state, end) {
            (State::None, _) => return Err(WrongState("No transaction started")),
            (State::Starting | State::CommittedEmpty, End::Commit) => {
                self.state = State::CommittedEmpty;
                return Ok(false);
            }
            (State::Starting, End::Abort) => {
                self.state = State::Aborted;
                return Ok(false);
            }
            (State::Aborted, End::Commit) => {
                return Err(WrongState("Cannot call commitTransaction after calling abortTransaction"));
            }
            (State::Aborted, End::Abort) => return Err(WrongState("Cannot call abortTransaction twice")),
            (State::Committed | State::CommittedEmpty, End::Abort) => {
                return Err(WrongState("Cannot call abortTransaction after calling commitTransaction"));
            }
            // Committing again: the transaction counts as active until the answer arrives.
            (State::Committed, End::Commit) => self.state = State::InProgress,
            (State::InProgress, _) => {}
        }
        Ok(true)
    }

    /// Called when the command that ends it was answered, or given up. Returns the connection to give back: after an
    /// abort no command follows.
    #[must_use]
    pub fn finish_end(&mut self, end: End) -> Option<LinkId> {
        match end {
            End::Commit => {
                self.state = State::Committed;
                None
            }
            End::Abort => {
                self.state = State::Aborted;
                self.unpin()
            }
        }
    }

    /// Records that a command is about to be sent; returns whether it is the first, which starts the transaction on the
    /// server.
    pub fn join(&mut self) -> bool {
        let is_first = self.state == State::Starting;
        if is_first {
            self.state = State::InProgress;
        }
        is_first
    }

    /// Lets the next command start the transaction, since the first was not sent, or an overloaded server ignored it.
    pub fn restart(&mut self) {
        if self.state == State::InProgress {
            self.state = State::Starting;
        }
    }

    /// Called when an overloaded server ignored a commit: sending it again is then no repetition.
    pub fn uncount_commits(&mut self) {
        self.commits = 0;
    }

    /// Stores the token with which another mongos can find the outcome.
    pub fn note_recovery_token(&mut self, token: &[u8]) {
        if self.pin.is_some() {
            self.recovery_token.clear();
            self.recovery_token.extend_from_slice(token);
        }
    }

    /// Returns the read concern it was started with; empty for none.
    pub fn read_concern(&self) -> &[u8] {
        &self.read_concern
    }

    /// Appends the fields of the ending command except the session's: write concern and recovery token.
    pub fn append_end(&mut self, end: End, has_limit: bool, out: &mut Vec<u8>) {
        if end == End::Commit {
            self.commits += 1;
        }
        let is_repeated = end == End::Commit && self.commits > 1;
        append_concern(&self.write_concern, is_repeated, has_limit, out);
        if let Ok(token) = RawDocument::from_bytes(&self.recovery_token) {
            writer::append_raw_document(out, "recoveryToken", token);
        }
    }
}

/// Appends the write concern, if there is one. A repeated commit requires a majority: the first one may have been
/// applied, and must not be rolled back.
fn append_concern(concern: &[u8], is_repeated: bool, has_limit: bool, out: &mut Vec<u8>) {
    let before = out.len();
    let start = writer::begin_subdocument(out, "writeConcern");
    let empty = out.len();
    let mut has_timeout = has_limit;
    let concern = RawDocument::from_bytes(concern).ok();
    for element in concern.iter().flat_map(RawDocument::iter).flatten() {
        let is_kept = match element.key {
            "w" => !is_repeated,
            "wtimeout" => !std::mem::replace(&mut has_timeout, true),
            _ => true,
        };
        if is_kept {
            writer::append_value(out, element.key, element.value);
        }
    }
    if is_repeated {
        writer::append_str(out, "w", "majority");
        if !has_timeout {
            writer::append_i32(out, "wtimeout", RETRIED_COMMIT_WTIMEOUT);
        }
    }
    if out.len() == empty {
        return out.truncate(before);
    }
    writer::end_document(out, start);
}

/// Returns whether a commit with these error codes may have succeeded.
pub fn is_commit_unknown(code: Option<i64>, write_concern_code: Option<i64>) -> bool {
    [code, write_concern_code].into_iter().flatten().any(codes::is_commit_unknown)
}

/// Returns whether the reply has an error label after which another mongos may be used.
pub(crate) fn releases_pin(body: RawDocument<'_>) -> bool {
    let Ok(Some(labels)) = body.get_array("errorLabels") else { return false };
    labels
        .iter()
        .flatten()
        .any(|label| matches!(label, RawValue::String("TransientTransactionError" | "RetryableWriteError")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn started() -> Transaction {
        let mut transaction = Transaction::default();
        transaction.start(Vec::new(), Vec::new()).unwrap();
        transaction
    }

    fn written(end: End, transaction: &mut Transaction) -> Vec<u8> {
        let mut out = Vec::new();
        let start = writer::begin_document(&mut out);
        transaction.append_end(end, false, &mut out);
        writer::end_document(&mut out, start);
        out
    }

    #[test]
    fn a_transaction_without_a_command_ends_without_one() {
        assert_eq!(started().begin_end(End::Commit), Ok(false));
        assert_eq!(started().begin_end(End::Abort), Ok(false));
    }

    #[test]
    fn only_the_first_command_starts_it_on_the_server() {
        let mut transaction = started();
        assert_eq!((transaction.join(), transaction.join()), (true, false));
    }

    #[test]
    fn a_first_command_that_was_not_sent_leaves_the_start_to_the_next() {
        let mut transaction = started();
        transaction.join();
        transaction.restart();
        assert!(transaction.join());
    }

    #[test]
    fn a_commit_may_be_repeated_and_an_abort_may_not() {
        let mut transaction = started();
        transaction.join();
        assert_eq!(transaction.begin_end(End::Commit), Ok(true));
        assert!(transaction.finish_end(End::Commit).is_none());
        assert_eq!(transaction.begin_end(End::Commit), Ok(true));
        assert!(transaction.finish_end(End::Commit).is_none());
        assert!(transaction.begin_end(End::Abort).is_err());

        let mut transaction = started();
        transaction.join();
        assert_eq!(transaction.begin_end(End::Abort), Ok(true));
        assert!(transaction.finish_end(End::Abort).is_none());
        assert!(transaction.begin_end(End::Abort).is_err());
        assert!(transaction.begin_end(End::Commit).is_err());
    }

    #[test]
    fn a_second_commit_asks_for_a_majority_and_keeps_the_callers_wtimeout() {
        let mut concern = Vec::new();
        let start = writer::begin_document(&mut concern);
        writer::append_i32(&mut concern, "w", 1);
        writer::append_i32(&mut concern, "wtimeout", 77);
        writer::end_document(&mut concern, start);
        let mut transaction = Transaction::default();
        transaction.start(Vec::new(), concern).unwrap();
        let first = written(End::Commit, &mut transaction);
        let first = RawDocument::from_bytes(&first).unwrap().get_document("writeConcern").unwrap().unwrap();
        assert_eq!(first.get("w").unwrap(), Some(RawValue::Int32(1)));
        let second = written(End::Commit, &mut transaction);
        let second = RawDocument::from_bytes(&second).unwrap().get_document("writeConcern").unwrap().unwrap();
        assert_eq!(second.get_str("w").unwrap(), Some("majority"));
        assert_eq!(second.get("wtimeout").unwrap(), Some(RawValue::Int32(77)));
    }

    #[test]
    fn a_recovery_token_is_kept_only_while_pinned_to_a_mongos() {
        let mut transaction = started();
        transaction.join();
        transaction.note_recovery_token(&[5, 0, 0, 0, 0]);
        assert_eq!(written(End::Abort, &mut transaction), [5, 0, 0, 0, 0]);
        transaction.pin_to(Pin { address: Address::new("a", 1), link: None });
        transaction.note_recovery_token(&[5, 0, 0, 0, 0]);
        let bytes = written(End::Abort, &mut transaction);
        assert!(RawDocument::from_bytes(&bytes).unwrap().get_document("recoveryToken").unwrap().is_some());
    }
}
