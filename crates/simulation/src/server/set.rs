//! The replica set: elections by term, replication of the log, a commit point, and rollback of entries that no majority
//! had. Spec: none beyond the servers' manuals.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::time::Duration;

use mangonel_proto::time::Instant;

use super::log::{Entry, Write};
use super::login::Logins;
use super::member::{Duty, Member, State, Wait};
use crate::chance::Chance;
use crate::queue::{EPOCH, ms};

/// How often a member checks its cursors, its term and its majority.
const TICK: u64 = 250;
/// How long a primary continues without a majority.
const LONGEST_ALONE: Duration = ms(1800);
/// How many entries a member fetches at once.
const FETCHED: usize = 40;
/// Intents below this are drops, which no client made.
pub(crate) const DROPPED: i64 = -1_000;
/// The wire version of most sets.
pub(crate) const NEWEST_WIRE: i32 = 25;
/// The most bytes of a message that most sets take.
pub(crate) const LARGEST: i32 = 48_000_000;
/// The wall-clock time at the world's epoch.
const SECONDS_AT_EPOCH: u64 = 1_700_000_000;

/// A scheduled event of the set.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ServerEvent {
    /// A member checks its cursors, its term and its majority.
    Tick(usize),
    /// A member fetches the entries that it lacks.
    Fetch(usize),
    /// The wait of a command in a member may be over.
    Wake(usize),
}

/// The set's requests to the network.
#[derive(Debug)]
pub enum Out {
    /// Send this.
    Reply(usize, Vec<u8>),
    /// Close this connection.
    Close(usize),
    /// Close all connections of a member.
    CloseAll(usize),
}

/// The replica set.
pub struct Set {
    /// Its members.
    pub members: Vec<Member>,
    /// The pairs of members whose messages do not get through.
    pub cuts: BTreeSet<(usize, usize)>,
    /// What is to be sent and closed.
    pub out: Vec<Out>,
    /// What is to happen later.
    pub later: Vec<(Instant, ServerEvent)>,
    pub(crate) chance: Chance,
    pub(crate) now: Instant,
    pub(crate) next_cursor: i64,
    pub(crate) next_message: i32,
    /// Violations by clients.
    pub complaints: Vec<String>,
    /// How many routers are in front of the set; 0 for none.
    pub routers: usize,
    /// Whether clients know the routers by their own names; otherwise they are behind a load balancer.
    pub is_cluster: bool,
    /// The member on whose host each connection ends.
    pub(crate) hosts: BTreeMap<usize, usize>,
    /// The first entry of the log that streams can still begin behind.
    pub(crate) oldest: usize,
    /// The logins of all connections.
    pub logins: Logins,
    /// The compressors that its members have, by their names.
    pub compressors: Vec<&'static str>,
    /// After how many milliseconds an unused cursor is closed.
    pub cursor_timeout: u64,
    /// The newest wire version that its members speak.
    pub wire: i32,
    /// The most bytes of a message that its members take.
    pub largest: i32,
    /// Whether all members have the first documents, so that later documents are newer than those that a delayed member
    /// fetches.
    has_begun: bool,
    /// How often the collection was dropped that streams follow.
    drops: i64,
    /// How often entries were rolled back.
    pub rollbacks: u64,
    /// How often a primary was elected.
    pub elections: u64,
}

impl Set {
    /// Makes a set whose first member is primary and has these documents.
    pub fn new(duties: &[(Duty, u64)], chance: Chance, documents: &[(u8, i64, i64)]) -> Self {
        let members = duties.iter().map(|(duty, priority)| Member::new(*duty, *priority, EPOCH)).collect();
        let mut set = Set {
            members,
            cuts: BTreeSet::new(),
            out: Vec::new(),
            later: Vec::new(),
            chance,
            now: EPOCH,
            next_cursor: 1000,
            next_message: 1,
            complaints: Vec::new(),
            routers: 0,
            is_cluster: false,
            hosts: BTreeMap::new(),
            oldest: 0,
            logins: Logins::default(),
            compressors: Vec::new(),
            cursor_timeout: 600_000,
            wire: NEWEST_WIRE,
            largest: LARGEST,
            has_begun: false,
            drops: 0,
            rollbacks: 0,
            elections: 0,
        };
        set.members[0].is_primary = true;
        set.members[0].matched = vec![0; duties.len()];
        let writes = documents.iter().map(|&(collection, key, value)| Write {
            collection,
            key,
            value: Some(value),
            intent: 0,
            statement: 0,
        });
        set.write(0, None, false, writes.collect());
        for member in 0..duties.len() {
            set.fetch_now(member);
            let first = set.chance.below(TICK);
            set.later.push((EPOCH + ms(first), ServerEvent::Tick(member)));
        }
        // Now that a majority has it, all members learn that.
        for member in 0..duties.len() {
            set.fetch_now(member);
        }
        set.has_begun = true;
        set
    }

    /// Returns the primary of the newest term that is up.
    pub fn primary(&self) -> Option<usize> {
        let primaries = (0..self.members.len()).filter(|&member| {
            let member = &self.members[member];
            member.is_primary && member.is_up()
        });
        primaries.max_by_key(|&member| self.members[member].term)
    }

    /// Whether clients reach the routers by a load balancer.
    pub fn is_balanced(&self) -> bool {
        self.routers > 0 && !self.is_cluster
    }

    /// Returns the member on whose host a connection ends: that of its router, in a cluster.
    pub(crate) fn host_of(&self, line: usize) -> Option<usize> {
        self.hosts.get(&line).copied()
    }

    /// Drops the collection that streams follow, and makes it again.
    pub fn drop_orders(&mut self) {
        let Some(number) = self.primary() else { return };
        self.drops += 1;
        let intent = DROPPED - self.drops;
        let write = Write { collection: 0, key: intent, value: None, intent, statement: 0 };
        self.write(number, None, false, vec![write]);
    }

    /// Has members forget the part of their logs that a majority has.
    pub fn forget_log(&mut self) {
        self.oldest = self.members.iter().map(|member| member.commit).max().unwrap_or_default();
    }

    /// Whether two members reach each other.
    pub fn reaches(&self, one: usize, other: usize) -> bool {
        self.members[one].is_up()
            && self.members[other].is_up()
            && !self.cuts.contains(&(one, other))
            && !self.cuts.contains(&(other, one))
    }

    /// Does the work that is due.
    pub fn handle(&mut self, event: ServerEvent, now: Instant) {
        self.now = now;
        match event {
            ServerEvent::Tick(member) => {
                self.later.push((now + ms(TICK), ServerEvent::Tick(member)));
                self.look_around(member);
            }
            ServerEvent::Fetch(member) => {
                self.members[member].is_fetching = false;
                if self.fetch_now(member) {
                    self.fetch_later(member, 1);
                }
            }
            ServerEvent::Wake(member) => self.serve(member),
        }
    }

    fn look_around(&mut self, number: usize) {
        if !self.members[number].is_up() {
            return;
        }
        let (now, longest) = (self.now, ms(self.cursor_timeout));
        self.members[number].cursors.retain(|_, cursor| now.saturating_since(cursor.used) < longest);
        let newest = (0..self.members.len())
            .filter(|&other| self.reaches(number, other) || other == number)
            .map(|other| self.members[other].term);
        let newest = newest.max().unwrap_or_default();
        self.learn_config(number);
        if newest > self.members[number].term {
            self.members[number].term = newest;
            if self.members[number].is_primary {
                self.step_down(number);
            }
        }
        if self.members[number].is_primary {
            if self.sees_majority(number) {
                self.members[number].heard = now;
            } else if now.saturating_since(self.members[number].heard) > LONGEST_ALONE {
                self.step_down(number);
            }
            if self.members[number].is_primary {
                let member = &self.members[number];
                let seconds = self.seconds(number);
                if member.data.time_at(member.data.log.len()) >> 32 < seconds {
                    self.write(number, None, false, Vec::new());
                }
            }
            return;
        }
        let primary = (0..self.members.len()).find(|&other| {
            let known = &self.members[other];
            known.is_primary && known.term >= self.members[number].term && self.reaches(number, other)
        });
        if primary.is_some() {
            self.members[number].heard = now;
            self.fetch_later(number, 1);
        } else if self.members[number].duty == Duty::Bearing {
            let election_timeout = ms(self.members[number].election_timeout);
            if now.saturating_since(self.members[number].heard) > election_timeout {
                self.run_for_primary(number);
            }
        }
    }

    /// Gives the set a new configuration, which changes nothing but its version, if it reaches a majority.
    pub fn reconfigure(&mut self) {
        let Some(primary) = self.primary().filter(|&primary| self.sees_majority(primary)) else { return };
        self.members[primary].config += 1;
        for member in 0..self.members.len() {
            self.learn_config(member);
        }
        self.members[primary].counter += 1;
        self.serve(primary);
    }

    fn learn_config(&mut self, number: usize) {
        let others = (0..self.members.len()).filter(|&other| self.reaches(number, other));
        let newest = others.map(|other| self.members[other].config).max().unwrap_or_default();
        if newest > self.members[number].config {
            self.members[number].config = newest;
            self.members[number].counter += 1;
            self.serve(number);
        }
    }

    fn sees_majority(&self, number: usize) -> bool {
        let voters = (0..self.members.len()).filter(|&other| other == number || self.reaches(number, other));
        voters.count() * 2 > self.members.len()
    }

    /// Has a member request the others' votes. Returns whether it was elected.
    pub fn run_for_primary(&mut self, number: usize) -> bool {
        let others = (0..self.members.len()).filter(|&other| other != number);
        let reached: Vec<usize> = others.filter(|&other| self.reaches(number, other)).collect();
        let highest = reached.iter().map(|&other| self.members[other].term).max().unwrap_or_default();
        let term = highest.max(self.members[number].term) + 1;
        let own = self.members[number].data.position();
        let config = self.members[number].config;
        let grants = |member: &Member| {
            config >= member.config && (!member.is_bearing() || own >= member.data.position())
        };
        let votes = reached.iter().filter(|&&other| grants(&self.members[other])).count() + 1;
        self.members[number].heard = self.now;
        self.members[number].election_timeout =
            800 + self.chance.below(900) + 100 * (10 - self.members[number].priority);
        if votes * 2 <= self.members.len() {
            return false;
        }
        for &other in &reached {
            if grants(&self.members[other]) {
                self.members[other].term = term;
                if self.members[other].is_primary {
                    self.step_down(other);
                }
                self.members[other].heard = self.now;
            }
        }
        let length = self.members.len();
        let member = &mut self.members[number];
        (member.term, member.is_primary, member.elected) = (term, true, self.now);
        member.counter += 1;
        member.matched = vec![0; length];
        self.elections += 1;
        self.write(number, None, false, Vec::new());
        self.serve(number);
        true
    }

    /// Makes a primary refuse further writes; its transactions are gone.
    pub fn step_down(&mut self, number: usize) {
        let election_timeout = 1500 + self.chance.below(1500);
        let now = self.now;
        let member = &mut self.members[number];
        member.is_primary = false;
        member.counter += 1;
        member.transactions.clear();
        (member.heard, member.election_timeout) = (now, election_timeout);
        self.serve(number);
    }

    /// Ends a member's process; its log stays.
    pub fn kill(&mut self, number: usize) {
        self.hang_up(number);
        let member = &mut self.members[number];
        member.state = State::Down;
        member.boot += 1;
        member.counter = 1;
        member.forget_process();
    }

    /// Closes a member's connections, and behind routers those that wait for its answer.
    fn hang_up(&mut self, number: usize) {
        self.out.push(Out::CloseAll(number));
        let member = &self.members[number];
        if self.routers > 0 {
            self.out.extend(member.held.iter().map(|held| Out::Close(held.line)));
            self.out.extend(member.inbox.iter().map(|(line, _)| Out::Close(*line)));
        }
    }

    /// Starts a member's process again.
    pub fn restart(&mut self, number: usize) {
        let (now, election_timeout) = (self.now, 1000 + self.chance.below(1000));
        let member = &mut self.members[number];
        if member.state == State::Down {
            (member.state, member.heard, member.election_timeout) = (State::Up, now, election_timeout);
        }
    }

    /// Resumes a paused member. Returns the messages that arrived meanwhile.
    pub fn resume(&mut self, number: usize) -> Vec<(usize, Vec<u8>)> {
        let member = &mut self.members[number];
        if member.state != State::Paused {
            return Vec::new();
        }
        member.state = State::Up;
        let inbox = std::mem::take(&mut member.inbox);
        self.serve(number);
        inbox
    }

    fn seconds(&self, number: usize) -> u64 {
        let seconds = SECONDS_AT_EPOCH + self.now.saturating_since(EPOCH).as_secs();
        seconds.saturating_add_signed(self.members[number].skew)
    }

    /// Returns milliseconds since 1970 according to a member's clock.
    pub(crate) fn wall(&self, number: usize) -> i64 {
        (self.seconds(number) * 1000) as i64 + i64::from(self.now.0.subsec_millis())
    }

    /// Puts an entry into the primary's log. Returns the length of the log then.
    pub(crate) fn write(
        &mut self,
        number: usize,
        session: Option<([u8; 16], i64)>,
        is_transaction: bool,
        writes: Vec<Write>,
    ) -> usize {
        let seconds = self.seconds(number);
        let member = &mut self.members[number];
        assert!(member.is_primary, "the model let member {number} write, which is no primary");
        member.clock = (member.clock + 1).max(seconds << 32 | 1);
        let entry = Entry { term: member.term, time: member.clock, session, is_transaction, writes };
        member.data.append(Rc::new(entry));
        let length = member.data.log.len();
        member.matched[number] = length;
        self.advance(number);
        for other in 0..self.members.len() {
            let delay = 1 + self.chance.below(6);
            self.fetch_later(other, delay);
        }
        length
    }

    fn fetch_later(&mut self, number: usize, milliseconds: u64) {
        let member = &mut self.members[number];
        if member.is_bearing() && !member.is_primary && !std::mem::replace(&mut member.is_fetching, true) {
            self.later.push((self.now + ms(milliseconds), ServerEvent::Fetch(number)));
        }
    }

    /// Returns the primary that a member follows, if it reaches one.
    fn source_of(&self, number: usize) -> Option<usize> {
        (0..self.members.len()).find(|&other| {
            let known = &self.members[other];
            other != number
                && known.is_primary
                && known.term >= self.members[number].term
                && self.reaches(number, other)
        })
    }

    /// Makes the primary write a note if a member waits for a cluster time that the log has not reached: the clock that
    /// produced the time may be ahead of the primary's.
    pub(crate) fn bring_time(&mut self, number: usize, time: u64) {
        let is_primary = self.members[number].is_primary;
        let Some(writer) = is_primary.then_some(number).or_else(|| self.source_of(number)) else { return };
        let member = &mut self.members[writer];
        if member.data.time_at(member.data.log.len()) < time {
            member.clock = member.clock.max(time);
            self.write(writer, None, false, Vec::new());
        }
    }

    /// Makes a member fetch the entries that it lacks from the primary, after rolling back those that the primary never
    /// had. Returns whether there is more to fetch.
    fn fetch_now(&mut self, number: usize) -> bool {
        let Some(source) = self.source_of(number) else { return false };
        if self.members[number].is_primary {
            self.step_down(number);
        }
        let is_delayed = self.has_begun && self.members[number].duty == Duty::Delayed;
        if is_delayed || !self.members[number].is_bearing() || !self.members[number].is_up() {
            return false;
        }
        let waiting = self.members[number].held.iter();
        let times = waiting.filter_map(|held| match held.wait {
            Wait::Time { time, .. } => Some(time),
            _ => None,
        });
        if let Some(time) = times.max() {
            self.bring_time(number, time);
        }
        let (theirs, own) = (&self.members[source].data.log, &self.members[number].data.log);
        let mut common = own.len().min(theirs.len());
        // Logs that agree on an entry agree on all before it.
        while common > 0 && !Rc::ptr_eq(&own[common - 1], &theirs[common - 1]) {
            common -= 1;
        }
        if common < own.len() {
            self.roll_back(number, common);
        }
        let until = self.members[source].data.log.len().min(common + FETCHED);
        for position in common..until {
            let entry = Rc::clone(&self.members[source].data.log[position]);
            let member = &mut self.members[number];
            member.clock = member.clock.max(entry.time);
            member.data.append(entry);
        }
        self.members[number].term = self.members[source].term;
        self.members[source].matched[number] = until;
        self.advance(source);
        let known = self.members[source].commit.min(until);
        let has_advanced = known > self.members[number].commit;
        self.members[number].commit = known.max(self.members[number].commit);
        if has_advanced || until > common {
            self.serve(number);
        }
        until < self.members[source].data.log.len()
    }

    fn roll_back(&mut self, number: usize, length: usize) {
        assert!(
            length >= self.members[number].commit,
            "the model rolled back what a majority had: {length} of {}",
            self.members[number].commit
        );
        self.rollbacks += 1;
        self.hang_up(number);
        let member = &mut self.members[number];
        member.data.roll_back(length);
        member.cursors.clear();
        member.transactions.clear();
        member.held.clear();
    }

    /// Moves the commit point of a primary.
    fn advance(&mut self, number: usize) {
        let member = &self.members[number];
        if !member.is_primary {
            return;
        }
        let mut matched: Vec<usize> = (0..self.members.len())
            .map(|other| if self.members[other].is_bearing() { member.matched[other] } else { 0 })
            .collect();
        matched.sort_unstable_by(|one, other| other.cmp(one));
        let length = matched[self.members.len() / 2];
        let is_own = length > 0 && member.data.log[length - 1].term == member.term;
        if length > member.commit && is_own {
            self.members[number].commit = length;
            self.serve(number);
            for other in 0..self.members.len() {
                let delay = 1 + self.chance.below(3);
                self.fetch_later(other, delay);
            }
        }
    }

    /// Records when a wait in a member is over.
    pub(crate) fn wake_at(&mut self, number: usize, until: Option<Instant>) {
        if let Some(until) = until {
            self.later.push((until, ServerEvent::Wake(number)));
        }
    }

    /// Answers commands whose wait in a member is over.
    pub(crate) fn serve(&mut self, number: usize) {
        if !self.members[number].is_up() {
            return;
        }
        let held = std::mem::take(&mut self.members[number].held);
        for held in held {
            let is_over = held.until.is_some_and(|until| until <= self.now);
            let member = &self.members[number];
            let is_due = match &held.wait {
                Wait::Hello(counter) => *counter != member.counter,
                Wait::Majority { length, term, .. } => {
                    !member.is_primary || member.term != *term || member.commit >= *length
                }
                Wait::Time { time, is_majority } => {
                    let length = if *is_majority { member.commit } else { member.data.log.len() };
                    member.data.time_at(length) >= *time
                }
                Wait::Data(cursor) => {
                    let seen = member.cursors.get(cursor).and_then(|cursor| cursor.seen);
                    seen.is_none_or(|(entries, _)| entries < member.commit)
                }
                Wait::Blocked => false,
            };
            if is_due || is_over {
                self.go_on(number, held, is_due);
            } else {
                self.members[number].held.push(held);
            }
        }
    }
}
