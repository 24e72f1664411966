//! Three virtual members of a replica set: they say hello, take writes, are elected, killed, paused and stepped down.
//! It imitates only what matters to a driver: one log, replicated at once, and elections that the test decides.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum State {
    Up,
    Down,
    Paused,
}

/// One member.
pub struct Member {
    pub state: State,
    pub is_primary: bool,
    /// The term it was last primary in.
    pub term: u64,
    /// How often it was started; a connection lives as long as its process.
    pub boot: u32,
    /// Incremented whenever the hello reply changes.
    pub counter: i64,
}

/// The set.
pub struct Set {
    pub members: Vec<Member>,
    pub term: u64,
    /// Value of each insert -> how often it was applied.
    pub applied: BTreeMap<i64, u32>,
    /// Session and number of each write that was applied.
    seen: BTreeSet<(String, i64)>,
}

pub fn name(member: usize) -> String {
    format!("{}.example:27017", ["a", "b", "c"][member])
}

impl Set {
    pub fn new() -> Self {
        let member = |number| Member {
            state: State::Up,
            is_primary: number == 0,
            term: u64::from(number == 0),
            boot: 0,
            counter: 1,
        };
        Set {
            members: (0..3).map(member).collect(),
            term: 1,
            applied: BTreeMap::new(),
            seen: BTreeSet::new(),
        }
    }

    /// The member that takes writes, if there is one that can be reached.
    pub fn primary(&self) -> Option<usize> {
        self.members
            .iter()
            .position(|member| member.is_primary && member.term == self.term && member.state == State::Up)
    }

    pub fn kill(&mut self, number: usize) {
        let member = &mut self.members[number];
        (member.state, member.is_primary) = (State::Down, false);
        member.boot += 1;
        member.counter = 1;
    }

    pub fn restart(&mut self, number: usize) {
        self.members[number].state = State::Up;
    }

    /// Has the member take no more writes.
    pub fn step_down(&mut self, number: usize) {
        self.members[number].is_primary = false;
        self.members[number].counter += 1;
    }

    /// Makes the first member that is up primary, unless there is one; returns it.
    pub fn elect(&mut self, but: usize) -> Option<usize> {
        if self.primary().is_some() {
            return None;
        }
        let up = |number: &usize| self.members[*number].state == State::Up;
        let winner = (0..3).filter(up).find(|number| *number != but).or_else(|| up(&but).then_some(but))?;
        self.term += 1;
        let term = self.term;
        let member = &mut self.members[winner];
        (member.is_primary, member.term) = (true, term);
        member.counter += 1;
        Some(winner)
    }

    pub fn hello(&self, number: usize) -> Value {
        let member = &self.members[number];
        let mut hello = json!({
            "ok": 1, "helloOk": true, "isWritablePrimary": member.is_primary, "ismaster": member.is_primary,
            "secondary": !member.is_primary, "setName": "rs0", "setVersion": 1, "me": name(number),
            "hosts": [name(0), name(1), name(2)], "minWireVersion": 0, "maxWireVersion": 21,
            "maxMessageSizeBytes": 48_000_000, "logicalSessionTimeoutMinutes": 30,
            "topologyVersion": {
                "processId": {"$oid": format!("{:024x}", (number as u64) << 32 | u64::from(member.boot))},
                "counter": {"$numberLong": member.counter.to_string()}
            }
        });
        if member.is_primary {
            hello["electionId"] = json!({"$oid": format!("{:024x}", member.term)});
        }
        hello
    }

    /// Answers a command that arrived at a member.
    pub fn answer(&mut self, number: usize, body: &Value) -> Value {
        if body.get("hello").or_else(|| body.get("isMaster")).is_some() {
            return self.hello(number);
        }
        let member = &self.members[number];
        if !member.is_primary || member.term != self.term {
            // A primary of an old term: it notices that no majority follows it.
            let code = if member.is_primary { 11602 } else { 10107 };
            return json!({"ok": 0, "code": code, "errmsg": "not primary", "errorLabels": ["RetryableWriteError"]});
        }
        let value = super::number(&body["value"]);
        if self.seen.insert((body["lsid"].to_string(), super::number(&body["txnNumber"]))) {
            *self.applied.entry(value).or_default() += 1;
        }
        json!({"ok": 1, "n": 1})
    }
}
