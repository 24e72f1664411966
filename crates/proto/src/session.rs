//! Server sessions: the ids that let a server recognise a retried write. No transaction state yet.
//! Spec: sessions, "server session pool".

use std::time::Duration;

use crate::time::Instant;
use crate::topology::Address;

/// One server session; at most one exchange or cursor holds it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerSession {
    /// The UUID that identifies it to the server.
    pub id: [u8; 16],
    /// Counts retryable writes and transactions; every one takes the next number.
    pub txn_number: i64,
    /// A network error left its state on the server unknown, so it must not be used again.
    pub is_dirty: bool,
    /// The server on which a cancelled command may have opened a cursor in this session; the cursor's id is unknown.
    pub left_cursor_at: Option<Address>,
    last_use: Instant,
    /// The number of forks before it was made; a child must not use its parent's sessions.
    era: u32,
}

/// A retryable write in an implicit session whose outcome is unknown: the server may still carry it out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LostWrite {
    /// The id of its session, which no other command uses any more.
    pub session: [u8; 16],
    /// Its transaction number.
    pub txn_number: i64,
}

impl LostWrite {
    /// Returns its session for one more write, which takes the next number. A server that has begun that write refuses
    /// the lost one from then on. Another caller may need the same, so the session does not go to the pool.
    pub fn session_for_another(self, now: Instant) -> ServerSession {
        ServerSession {
            id: self.session,
            txn_number: self.txn_number,
            is_dirty: true,
            left_cursor_at: None,
            last_use: now,
            era: 0,
        }
    }
}

/// Makes ids from the caller's seed; the core has no randomness of its own.
#[derive(Debug)]
pub struct IdSource {
    state: [u64; 2],
}

impl IdSource {
    /// Starts from 16 bytes of good randomness. Two sources with one seed give the same ids.
    pub fn new(seed: [u8; 16]) -> Self {
        let seed = u128::from_le_bytes(seed);
        IdSource { state: [seed as u64, (seed >> 64) as u64] }
    }

    /// Returns the next number.
    pub fn next_u64(&mut self) -> u64 {
        self.next_of(0) ^ self.next_of(1).rotate_left(32)
    }

    /// Returns 16 bytes with the version and variant bits of a random UUID.
    pub fn next_uuid(&mut self) -> [u8; 16] {
        let mut id = [0; 16];
        id[..8].copy_from_slice(&self.next_of(0).to_le_bytes());
        id[8..].copy_from_slice(&self.next_of(1).to_le_bytes());
        id[6] = id[6] & 0x0F | 0x40;
        id[8] = id[8] & 0x3F | 0x80;
        id
    }

    /// SplitMix64: each half of the seed is its own stream, so all 128 bits of it reach the id.
    fn next_of(&mut self, half: usize) -> u64 {
        self.state[half] = self.state[half].wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.state[half];
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }
}

/// The idle sessions, the last used first.
#[derive(Debug)]
pub struct SessionPool {
    idle: Vec<ServerSession>,
    ids: IdSource,
    era: u32,
}

/// A session is not used in its last minute before the server ends it.
const EXPIRY_MARGIN: Duration = Duration::from_secs(60);

impl SessionPool {
    /// Makes an empty pool that draws its ids from `ids`.
    pub fn new(ids: IdSource) -> Self {
        SessionPool { idle: Vec::new(), ids, era: 0 }
    }

    /// Returns a session to use now. `timeout`: how long the deployment keeps an idle session, if known.
    pub fn take(&mut self, timeout: Option<Duration>, now: Instant) -> ServerSession {
        while let Some(mut session) = self.idle.pop() {
            if !is_expired(&session, timeout, now) {
                session.last_use = now;
                return session;
            }
        }
        ServerSession {
            id: self.ids.next_uuid(),
            txn_number: 0,
            is_dirty: false,
            left_cursor_at: None,
            last_use: now,
            era: self.era,
        }
    }

    /// Returns whether a session belongs to this process, not to the one that it was forked from.
    pub fn is_own(&self, session: &ServerSession) -> bool {
        session.era == self.era
    }

    /// Takes a session back.
    pub fn give_back(&mut self, mut session: ServerSession, timeout: Option<Duration>, now: Instant) {
        if session.is_dirty || session.era != self.era {
            return;
        }
        session.last_use = now;
        if self.idle.first().is_some_and(|oldest| is_expired(oldest, timeout, now)) {
            self.idle.retain(|idle| !is_expired(idle, timeout, now));
        }
        self.idle.push(session);
    }

    /// Returns the ids of all idle sessions and forgets them: for `endSessions`, or in a forked child to discard them.
    pub fn drain(&mut self) -> Vec<[u8; 16]> {
        self.idle.drain(..).map(|session| session.id).collect()
    }

    /// Starts over from another seed: a forked child must not share ids with its parent.
    pub fn restart(&mut self, ids: IdSource) {
        self.idle.clear();
        self.ids = ids;
        self.era = self.era.wrapping_add(1);
    }
}

fn is_expired(session: &ServerSession, timeout: Option<Duration>, now: Instant) -> bool {
    timeout.is_some_and(|timeout| now.saturating_since(session.last_use) + EXPIRY_MARGIN >= timeout)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIMEOUT: Option<Duration> = Some(Duration::from_secs(1800));

    fn at(seconds: u64) -> Instant {
        Instant(Duration::from_secs(seconds))
    }

    fn pool() -> SessionPool {
        SessionPool::new(IdSource::new([9; 16]))
    }

    #[test]
    fn the_session_given_back_last_is_taken_first_with_its_number() {
        let mut pool = pool();
        let (a, mut b) = (pool.take(TIMEOUT, at(0)), pool.take(TIMEOUT, at(0)));
        assert_ne!(a.id, b.id);
        b.txn_number = 7;
        pool.give_back(a, TIMEOUT, at(1));
        pool.give_back(b.clone(), TIMEOUT, at(1));
        let taken = pool.take(TIMEOUT, at(2));
        assert_eq!((taken.id, taken.txn_number), (b.id, 7));
    }

    #[test]
    fn a_session_about_to_expire_on_the_server_is_not_used_again() {
        let mut pool = pool();
        let old = pool.take(TIMEOUT, at(0));
        pool.give_back(old.clone(), TIMEOUT, at(0));
        assert_ne!(pool.take(TIMEOUT, at(1741)).id, old.id);
    }

    #[test]
    fn a_dirty_session_is_dropped() {
        let mut pool = pool();
        let mut session = pool.take(TIMEOUT, at(0));
        session.is_dirty = true;
        pool.give_back(session, TIMEOUT, at(0));
        assert!(pool.drain().is_empty());
    }

    #[test]
    fn a_session_from_before_a_restart_is_dropped() {
        let mut pool = pool();
        let session = pool.take(TIMEOUT, at(0));
        pool.restart(IdSource::new([2; 16]));
        pool.give_back(session, TIMEOUT, at(0));
        assert!(pool.drain().is_empty());
    }

    #[test]
    fn ids_are_random_uuids() {
        let id = IdSource::new([1; 16]).next_uuid();
        assert_eq!((id[6] >> 4, id[8] >> 6), (4, 2));
    }
}
