//! One member: its role, its data, and the commands that wait in it.

use std::collections::{BTreeMap, VecDeque};

use mangonel_proto::time::Instant;

use super::log::{Data, Write};
use super::login::Forgery;

/// The state of its process.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum State {
    /// It runs.
    Up,
    /// It was killed.
    Down,
    /// It is paused: its kernel receives bytes that it does not read.
    Paused,
}

/// Its role in the set.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Duty {
    /// Holds data and may be elected.
    Bearing,
    /// Holds data, is never elected and not shown to clients.
    Hidden,
    /// Votes only.
    Arbiter,
    /// Holds data of ten minutes ago, and is never elected.
    Delayed,
}

/// A fault of the next command, as a fail point would cause it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mischief {
    /// A refusal with this code; nothing is done.
    Refuse(i64),
    /// The connection is closed before the command is applied.
    CloseBefore,
    /// It is applied, and the connection is closed instead of an answer.
    CloseAfter,
    /// It is applied, and its write concern fails with this code.
    WriteConcern(i64),
    /// It waits for this many milliseconds first.
    Block(u64),
    /// The server is overloaded.
    Overload,
    /// The next statement of a transaction is applied and answered, then its connection is closed. Other commands are
    /// unaffected.
    HangUp,
    /// A statement in the middle of a transaction is refused, since its user must log in again, and the login loses its
    /// connection. Other commands are unaffected.
    LoseLogin,
}

/// An open cursor.
#[derive(Debug)]
pub struct Cursor {
    /// The connection on which it was opened.
    pub line: usize,
    /// The session that opened it.
    pub session: Option<[u8; 16]>,
    /// The collection.
    pub collection: u8,
    /// The documents that are left; a change stream has none.
    pub rest: VecDeque<(i64, i64)>,
    /// How far a change stream has read the log: whole entries, and then writes of the next entry.
    pub seen: Option<(usize, usize)>,
    /// When it was last used.
    pub used: Instant,
}

/// A running transaction; it is in no log yet.
#[derive(Debug)]
pub struct Transaction {
    /// Its number.
    pub number: i64,
    /// The connection on which it was begun.
    pub line: usize,
    /// How long the log was when it began.
    pub snapshot: usize,
    /// Its writes.
    pub writes: Vec<Write>,
}

/// The condition for which an answer waits.
#[derive(Debug)]
pub enum Wait {
    /// For hello to change from this counter.
    Hello(i64),
    /// For a majority to have this much of the log, in this term; the answer is ready.
    Majority {
        /// The length of the log.
        length: usize,
        /// The term.
        term: u64,
        /// The answer.
        reply: Vec<u8>,
    },
    /// For the log, or a majority's part of it, to reach this time; the command is then tried again.
    Time {
        /// The time.
        time: u64,
        /// Whether a majority must have it.
        is_majority: bool,
    },
    /// For a change that a cursor shows.
    Data(i64),
    /// For the end of a fail point.
    Blocked,
}

/// A command whose answer is delayed.
#[derive(Debug)]
pub struct Held {
    /// The connection.
    pub line: usize,
    /// The command.
    pub message: Vec<u8>,
    /// What it waits for.
    pub wait: Wait,
    /// When the wait ends.
    pub until: Option<Instant>,
}

/// One member.
pub struct Member {
    /// Its role in the set.
    pub duty: Duty,
    /// Its priority in elections.
    pub priority: u64,
    /// How far its clock is off, in seconds.
    pub skew: i64,
    /// Whether it runs.
    pub state: State,
    /// How often it was started.
    pub boot: u32,
    /// Counts the changes to its hello.
    pub counter: i64,
    /// The version of the set's configuration that it knows.
    pub config: i32,
    /// Whether it takes writes.
    pub is_primary: bool,
    /// The newest term that it knows.
    pub term: u64,
    /// When it last heard from a primary, or, as the primary, from a majority.
    pub heard: Instant,
    /// How long it waits for that before it calls an election.
    pub election_timeout: u64,
    /// Its data.
    pub data: Data,
    /// How much of its log a majority is known to have.
    pub commit: usize,
    /// As primary: how much of the log each member has.
    pub matched: Vec<usize>,
    /// The newest cluster time that it knows.
    pub clock: u64,
    /// Its cursors.
    pub cursors: BTreeMap<i64, Cursor>,
    /// Its transactions.
    pub transactions: BTreeMap<[u8; 16], Transaction>,
    /// The commands whose answers wait.
    pub held: Vec<Held>,
    /// The faults of its next commands.
    pub mischief: VecDeque<Mischief>,
    /// How an impostor answers its next logins.
    pub forgeries: VecDeque<Forgery>,
    /// What arrived while it was paused.
    pub inbox: Vec<(usize, Vec<u8>)>,
    /// Whether its next fetch of the log is scheduled.
    pub is_fetching: bool,
    /// When it was elected last.
    pub elected: Instant,
}

impl Member {
    /// Makes one that was just started.
    pub fn new(duty: Duty, priority: u64, now: Instant) -> Self {
        Member {
            duty,
            priority,
            skew: 0,
            state: State::Up,
            boot: 0,
            counter: 1,
            config: 1,
            is_primary: false,
            term: 1,
            heard: now,
            election_timeout: 1000,
            data: Data::default(),
            commit: 0,
            matched: Vec::new(),
            clock: 0,
            cursors: BTreeMap::new(),
            transactions: BTreeMap::new(),
            held: Vec::new(),
            mischief: VecDeque::new(),
            forgeries: VecDeque::new(),
            inbox: Vec::new(),
            is_fetching: false,
            elected: now,
        }
    }

    /// Whether it runs.
    pub fn is_up(&self) -> bool {
        self.state == State::Up
    }

    /// Whether it holds data.
    pub fn is_bearing(&self) -> bool {
        self.duty != Duty::Arbiter
    }

    /// Forgets everything that only its process holds.
    pub fn forget_process(&mut self) {
        self.cursors.clear();
        self.transactions.clear();
        self.held.clear();
        self.inbox.clear();
        self.mischief.clear();
        self.forgeries.clear();
        self.is_primary = false;
    }
}
