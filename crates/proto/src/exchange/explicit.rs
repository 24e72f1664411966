//! An exchange in an explicit session: the fields it takes from the session, the state it leaves there, and its
//! pinning.
//! Spec: sessions, transactions, causal-consistency, snapshot-sessions.

use mangonel_bson::RawDocument;

use super::{Exchange, Phase, Stay};
use crate::client::Client;
use crate::client_session::{ENDED, Stamp};
use crate::error::Failure;
use crate::ids::SessionId;
use crate::operation::SessionChoice;
use crate::session::LostWrite;
use crate::time::Instant;
use crate::topology::{ServerDescription, ServerType};
use crate::transaction::{End, Pin, State, WrongState, is_commit_unknown};

/// The oldest wire version that reads from a snapshot outside a transaction: MongoDB 5.0.
const SNAPSHOT_WIRE_VERSION: i32 = 13;

/// The facts about an exchange's explicit session.
pub(super) struct Explicit {
    pub(super) id: SessionId,
    is_in_transaction: bool,
    /// Whether its last stamped command starts the transaction.
    is_starting: bool,
    /// The number of its retryable write, the same in every attempt.
    number: Option<i64>,
    /// How it ends the transaction; taken out once the session knows that it is over.
    ends: Option<End>,
    /// The command's own read concern, once it is taken out to be merged with the session's.
    read_concern: Option<Vec<u8>>,
}

impl Exchange {
    /// Enters the explicit session, if there is one. False: the exchange is done, since the session has ended, or no
    /// command is needed or allowed to end its transaction.
    pub(super) fn enter_session(&mut self, client: &mut Client, now: Instant) -> bool {
        let SessionChoice::Explicit(id) = self.operation.session else { return true };
        let Some(session) = client.session_mut(id) else {
            self.fail(Failure::Usage(ENDED));
            return false;
        };
        let ends = self.operation.kind.end();
        match ends.map(|end| session.transaction.begin_end(end)) {
            None | Some(Ok(true)) => {}
            Some(outcome) => {
                self.count_nothing();
                match outcome {
                    Ok(_) => self.enter(Phase::Done(Stay::No)),
                    Err(WrongState(message)) => self.fail(Failure::Usage(message)),
                }
                return false;
            }
        }
        let unpinned = session.transaction.leave();
        let is_in_transaction = session.transaction.is_active();
        client.give_back_pinned(unpinned, now);
        self.explicit = Some(Box::new(Explicit {
            id,
            is_in_transaction,
            is_starting: false,
            number: None,
            ends,
            read_concern: None,
        }));
        true
    }

    /// Whether its command belongs to a transaction.
    pub(super) fn is_in_transaction(&self) -> bool {
        self.explicit.as_ref().is_some_and(|explicit| explicit.is_in_transaction)
    }

    /// Whether it has a session whose numbers make a write retryable.
    pub(super) fn may_count_writes(&self) -> bool {
        match &self.explicit {
            Some(explicit) => !explicit.is_in_transaction,
            None => self.session.is_some(),
        }
    }

    /// Returns the fields that the command carries for an explicit session; `None` without one.
    pub(super) fn stamp_session(
        &mut self,
        client: &mut Client,
        server: &ServerDescription,
        is_retryable: bool,
        now: Instant,
    ) -> Result<Option<Stamp>, Failure> {
        let Some(explicit) = &mut self.explicit else { return Ok(None) };
        // The description from server selection decides: the topology may have lost the server since.
        if server.logical_session_timeout_minutes.is_none() && server.server_type != ServerType::LoadBalancer
        {
            let message = "Sessions are not supported by this MongoDB deployment";
            return Err(Failure::Configuration(message.into()));
        }
        let session = client.ready_session(explicit.id, now).ok_or(Failure::Usage(ENDED))?;
        // Load balancers require MongoDB 5.0 or later.
        let is_too_old =
            server.server_type != ServerType::LoadBalancer && server.max_wire_version < SNAPSHOT_WIRE_VERSION;
        if session.is_snapshot() && is_too_old {
            return Err(Failure::Configuration("Snapshot reads require MongoDB 5.0 or later".into()));
        }
        if is_retryable && explicit.number.is_none() {
            session.count_transaction();
            explicit.number = session.server().map(|server| server.txn_number);
        }
        let is_router = matches!(server.server_type, ServerType::Mongos | ServerType::LoadBalancer);
        if is_router && explicit.is_in_transaction && session.transaction.pin().is_none() {
            let is_balanced = server.server_type == ServerType::LoadBalancer;
            let link = self.link.filter(|_| is_balanced);
            session.transaction.pin_to(Pin { address: server.address.clone(), link });
        }
        let (kind, command) = (self.operation.kind, &mut self.operation.command);
        let name = command.name().to_owned();
        let own = &mut explicit.read_concern;
        let number = explicit.number.filter(|_| is_retryable);
        let stamp = session.stamp(&name, kind, number, self.until.is_some(), || {
            own.get_or_insert_with(|| command.take_document("readConcern")).clone()
        });
        explicit.is_starting = stamp.is_starting;
        Ok(Some(stamp))
    }

    /// Called when the stamped command is not sent, or is sent again: a transaction that it starts must be started
    /// again.
    pub(super) fn unsend_session(&mut self, client: &mut Client) {
        let Some(explicit) = &mut self.explicit else { return };
        if std::mem::take(&mut explicit.is_starting)
            && let Some(session) = client.session_mut(explicit.id)
        {
            session.transaction.restart();
        }
    }

    /// Called when an overloaded server ignored the command, which will be sent again as if for the first time.
    pub(super) fn put_off_session(&mut self, client: &mut Client, now: Instant) {
        let Some(explicit) = &self.explicit else { return };
        let is_end = self.operation.kind.end().is_some();
        if let (true, Some(session)) = (is_end, client.session_mut(explicit.id)) {
            session.transaction.uncount_commits();
        }
        if is_end || explicit.is_starting {
            self.unpin_session(client, now);
        }
        self.unsend_session(client);
    }

    /// Stores the reply's times and tokens in the session.
    pub(super) fn teach_session(&mut self, client: &mut Client, body: RawDocument<'_>, now: Instant) {
        let Some(explicit) = &self.explicit else { return };
        let session = client.session_mut(explicit.id);
        if session.is_some_and(|session| session.handle_reply(body)) || self.facts.is_state_change {
            self.unpin_session(client, now);
        }
    }

    /// Marks the session's state on the server as unknown.
    pub(super) fn spoil_session(&mut self, client: &mut Client) {
        if let Some(loss) = &self.operation.loss {
            let explicit = self.explicit.as_ref().and_then(|explicit| client.session(explicit.id));
            let session = self.session.as_ref().or(explicit.and_then(|session| session.server()));
            let numbered = session.filter(|_| self.attempts.has_transaction_number);
            let write = numbered.map(|it| LostWrite { session: it.id, txn_number: it.txn_number });
            loss.get_or_init(|| write.unwrap_or(LostWrite { session: [0; 16], txn_number: 0 }));
        }
        if let Some(session) = &mut self.session {
            session.is_dirty = true;
            let (session, txn_number) = (session.id, session.txn_number);
            let lost = self.attempts.has_transaction_number.then_some(LostWrite { session, txn_number });
            self.lost = lost.map(Box::new);
        }
        self.note_left_cursor();
        let left_cursor_at =
            self.server().filter(|_| self.opens_cursor() && !self.is_in_transaction()).cloned();
        let explicit = self.explicit.as_ref();
        if let Some(session) = explicit.and_then(|explicit| client.session_mut(explicit.id)) {
            session.handle_broken_connection(left_cursor_at);
        }
    }

    /// Called when the exchange is over. If a connection failure ended the command, its transaction may continue on
    /// another server; a commit or an abort has ended it in any case, even if it was given up.
    pub(super) fn leave_session(&mut self, client: &mut Client, now: Instant) {
        if self.is_in_transaction() && self.is_connection_failure() {
            // The failure may belong to an earlier attempt, and the last attempt's connection may stay with the
            // transaction.
            self.link = None;
            self.unpin_session(client, now);
        }
        if let Some(explicit) = &mut self.explicit
            && let Some(end) = explicit.ends.take()
        {
            client.finish_transaction(explicit.id, end, now);
        }
    }

    /// Returns the server that the session's transaction is pinned to.
    pub(super) fn session_pin<'a>(&self, client: &'a Client) -> Option<&'a Pin> {
        let explicit = self.explicit.as_ref().filter(|explicit| explicit.is_in_transaction)?;
        client.session(explicit.id)?.transaction.pin()
    }

    /// Whether the connection it holds stays with the transaction.
    pub(super) fn is_link_pinned(&self, client: &Client) -> bool {
        self.link.is_some() && self.session_pin(client).is_some_and(|pin| pin.link == self.link)
    }

    /// Whether the operation needs this connection: the cursor, or a transaction that has begun, is pinned to it.
    pub(super) fn needs_its_link(&self, client: &Client) -> bool {
        let is_starting = self.explicit.as_ref().is_some_and(|explicit| {
            // If the command is not sent or is refused, the transaction starts again.
            let session = client.session(explicit.id);
            explicit.is_starting
                || session.is_some_and(|session| session.transaction.state() == State::Starting)
        });
        self.operation.pinned.is_some() || (!is_starting && self.is_link_pinned(client))
    }

    /// Unpins the transaction, which may continue on another server.
    pub(super) fn unpin_session(&mut self, client: &mut Client, now: Instant) {
        let Some(explicit) = self.explicit.as_ref().filter(|explicit| explicit.is_in_transaction) else {
            return;
        };
        let link = client.session_mut(explicit.id).and_then(|session| session.transaction.unpin());
        // The exchange's own connection is checked in with the exchange.
        client.give_back_pinned(link.filter(|link| self.link != Some(*link)), now);
    }

    fn is_connection_failure(&self) -> bool {
        matches!(
            self.failure(),
            Some(Failure::Network { .. } | Failure::ServerSelection(_) | Failure::WaitQueue(_))
        )
    }

    /// Returns the label that the driver adds to the server's labels.
    ///
    /// A server that steps down labels its refusal itself; a proxy that answers in its place may not.
    pub fn label(&self) -> Option<&'static str> {
        let is_undecided = self.is_connection_failure() || self.facts.is_state_change;
        match self.operation.kind.end() {
            Some(End::Commit) => {
                let is_unknown =
                    is_undecided || is_commit_unknown(self.facts.code, self.facts.write_concern_code);
                is_unknown.then_some("UnknownTransactionCommitResult")
            }
            Some(End::Abort) => None,
            None => (is_undecided && self.is_in_transaction()).then_some("TransientTransactionError"),
        }
    }
}
