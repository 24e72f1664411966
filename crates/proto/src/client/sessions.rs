//! The explicit sessions of one client, by their ids. Their state is in `client_session`.
//! Spec: sessions, transactions.

use super::Client;
use crate::client_session::{ClientSession, ENDED};
use crate::ids::{LinkId, SessionId};
use crate::operation::{Operation, SessionChoice};
use crate::time::Instant;
use crate::transaction::{End, WrongState};

impl Client {
    /// Opens an explicit session; nothing is sent.
    pub fn open_session(&mut self, session: ClientSession) -> SessionId {
        self.next_session += 1;
        let id = SessionId(self.next_session);
        self.open_sessions.insert(id, session);
        id
    }

    /// Returns an explicit session; `None` once it was ended, or in a forked child: it belongs to the parent.
    pub fn session(&self, id: SessionId) -> Option<&ClientSession> {
        self.open_sessions.get(&id)
    }

    /// Returns an explicit session, to change it.
    pub fn session_mut(&mut self, id: SessionId) -> Option<&mut ClientSession> {
        self.open_sessions.get_mut(&id)
    }

    /// Returns an explicit session with a server session in it.
    pub fn ready_session(&mut self, id: SessionId, now: Instant) -> Option<&mut ClientSession> {
        if self.open_sessions.get(&id)?.server().is_none() {
            let server = self.take_session(now);
            self.open_sessions.get_mut(&id)?.adopt(server);
        }
        self.open_sessions.get_mut(&id)
    }

    /// Ends an explicit session. A transaction must have been aborted before; otherwise it stays open until the
    /// server's time limit.
    pub fn end_session(&mut self, id: SessionId, now: Instant) {
        let Some(mut session) = self.open_sessions.remove(&id) else { return };
        let link = session.transaction.unpin();
        self.give_back_pinned(link, now);
        if let Some(server) = session.release() {
            self.give_back_session(server, now);
        }
    }

    /// Starts a transaction in a session. The concerns are documents, or empty.
    ///
    /// # Errors
    /// When the session was ended, or has an active transaction.
    pub fn start_transaction(
        &mut self,
        id: SessionId,
        read_concern: Vec<u8>,
        write_concern: Vec<u8>,
        now: Instant,
    ) -> Result<(), WrongState> {
        let session = self.open_sessions.get_mut(&id).ok_or(WrongState(ENDED))?;
        let link = session.transaction.leave();
        session.transaction.start(read_concern, write_concern)?;
        session.count_transaction();
        self.give_back_pinned(link, now);
        Ok(())
    }

    /// Returns whether an operation ends a transaction of which the server knows nothing, so that nothing is sent.
    pub fn ends_nothing(&self, operation: &Operation) -> bool {
        let (Some(end), SessionChoice::Explicit(id)) = (operation.kind.end(), &operation.session) else {
            return false;
        };
        !self.session(*id).is_some_and(|session| session.transaction.must_send(end))
    }

    /// Records that a commit or an abort was answered, or will not be.
    pub(crate) fn finish_transaction(&mut self, id: SessionId, end: End, now: Instant) {
        let link = self.open_sessions.get_mut(&id).and_then(|session| session.transaction.finish_end(end));
        self.give_back_pinned(link, now);
    }

    /// Gives back the connection that a transaction was pinned to.
    pub(crate) fn give_back_pinned(&mut self, link: Option<LinkId>, now: Instant) {
        if let Some(link) = link {
            self.release_pinned(link, true, now);
        }
    }
}
