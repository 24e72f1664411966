//! Connections between clients and members: bytes are delayed, arrive in order, are split anywhere, or never arrive.
//! Knows no message.

use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

use mangonel_proto::ids::LinkId;
use mangonel_proto::time::Instant;

use crate::chance::Chance;
use crate::damage::Damage;
use crate::queue::ms;
use crate::server::stranger::Stranger;

/// The user of a connection on the client's side.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Owner {
    /// The worker that opens it; the pool has no id for it yet.
    Worker(usize),
    /// The pool.
    Link(LinkId),
    /// The monitor of a member, or its pinger.
    Observer(usize, bool),
}

/// The content of a chunk.
#[derive(Clone, Debug)]
pub enum Chunk {
    /// Some bytes of the stream.
    Bytes(Vec<u8>),
    /// The end of the stream.
    End,
}

/// One direction of a connection.
#[derive(Debug, Default)]
struct Way {
    last: Option<Instant>,
    /// Chunks that were sent and have not arrived, in the order of the stream.
    sent: VecDeque<Chunk>,
    /// How many chunks should have arrived but did not get through.
    held: usize,
    /// Whether its end was sent, after which nothing arrives.
    is_over: bool,
    /// The connection breaks after this many more bytes.
    cut_after: Option<usize>,
}

/// A connection.
#[derive(Debug)]
pub struct Line {
    /// The client.
    pub client: usize,
    /// Its user on the client's side.
    pub owner: Owner,
    /// The member.
    pub member: usize,
    /// The number of starts of the member's process when it was opened.
    pub boot: u32,
    /// Whether the client has it open.
    pub is_client_open: bool,
    /// Whether the member has it open.
    pub is_server_open: bool,
    /// Whether nothing arrives any more, without either side knowing.
    pub is_dead: bool,
    /// The part of a message that the member has received.
    pub inbound: Vec<u8>,
    /// The compressor of the last message that the member has received, whose answer gets the same one.
    pub packs: Option<u8>,
    /// How many bytes the member's system has received but its paused process has not read.
    pub unread: usize,
    /// How many whole messages the member has received.
    pub messages: u64,
    /// The damage to the next answer.
    pub damage: Option<Damage>,
    /// The other machine to which it leads instead of the member.
    pub stranger: Option<Stranger>,
    ways: [Way; 2],
}

/// All connections, and the partitions and delays between their ends.
pub struct Network {
    /// The connections, open and closed.
    pub lines: Vec<Line>,
    /// The connections that at least one side has open.
    pub open: BTreeSet<usize>,
    /// The pairs of client and member whose bytes do not get through, to the member or back (`false`).
    pub blocked: BTreeSet<(usize, usize, bool)>,
    /// The additional delay of bytes between a client and a member, in milliseconds.
    pub slow: Vec<(usize, usize, u64)>,
    /// How many of 100 chunks are split.
    pub split: u64,
    latency: Vec<Vec<u64>>,
    chance: Chance,
}

/// When the next chunk of a connection arrives.
pub struct Arrival {
    /// The connection.
    pub line: usize,
    /// Whether it goes to the member.
    pub to_server: bool,
    /// When.
    pub when: Instant,
}

impl Network {
    /// Makes a network. `latency`: microseconds for each client and member.
    pub fn new(latency: Vec<Vec<u64>>, split: u64, chance: Chance) -> Self {
        Network {
            lines: Vec::new(),
            open: BTreeSet::new(),
            blocked: BTreeSet::new(),
            slow: Vec::new(),
            split,
            latency,
            chance,
        }
    }

    /// Begins to open a connection.
    pub fn open(&mut self, client: usize, owner: Owner, member: usize) -> usize {
        let line = self.lines.len();
        self.lines.push(Line {
            client,
            owner,
            member,
            boot: 0,
            is_client_open: true,
            is_server_open: false,
            is_dead: false,
            inbound: Vec::new(),
            packs: None,
            messages: 0,
            damage: None,
            stranger: None,
            unread: 0,
            ways: [Way::default(), Way::default()],
        });
        self.open.insert(line);
        line
    }

    /// Returns the current delay of bytes.
    pub fn delay(&mut self, client: usize, member: usize) -> Duration {
        let usual = self.latency[client][member];
        let jitter = self.chance.below(usual / 4 + 50);
        let slow = self.slow.iter().filter(|(of, to, _)| (*of, *to) == (client, member));
        Duration::from_micros(usual + jitter) + ms(slow.map(|(_, _, extra)| extra).sum())
    }

    /// Whether bytes of a connection get through in one direction.
    pub fn is_blocked(&self, line: usize, to_server: bool) -> bool {
        let line = &self.lines[line];
        self.blocked.contains(&(line.client, line.member, to_server))
    }

    /// Makes the connection break after this many more bytes.
    pub fn cut_after(&mut self, line: usize, to_server: bool, bytes: usize) {
        self.lines[line].ways[usize::from(to_server)].cut_after = Some(bytes);
    }

    /// Whether the member's system has room for this many more bytes: it holds at most `most` unread ones.
    pub fn has_room(&self, line: usize, bytes: usize, most: usize) -> bool {
        let waiting = self.lines[line].ways[1].sent.iter().map(|chunk| match chunk {
            Chunk::Bytes(bytes) => bytes.len(),
            Chunk::End => 0,
        });
        let waiting: usize = waiting.sum::<usize>() + self.lines[line].unread;
        waiting == 0 || waiting + bytes <= most
    }

    /// Sends a chunk. Returns the times of arrival.
    pub fn send(&mut self, line: usize, to_server: bool, chunk: Chunk, now: Instant) -> Vec<Arrival> {
        let mut chunks = Vec::new();
        let mut is_cut = false;
        let way = &mut self.lines[line].ways[usize::from(to_server)];
        if way.is_over {
            return Vec::new();
        }
        match (chunk, &mut way.cut_after) {
            (Chunk::Bytes(bytes), Some(left)) if *left < bytes.len() => {
                chunks.push(Chunk::Bytes(bytes[..*left].to_vec()));
                chunks.push(Chunk::End);
                way.cut_after = None;
                is_cut = true;
            }
            (Chunk::Bytes(bytes), left) => {
                if let Some(left) = left {
                    *left -= bytes.len();
                }
                if bytes.len() > 1 && self.chance.percent(self.split) {
                    let at = 1 + self.chance.below(bytes.len() as u64 - 1) as usize;
                    chunks.push(Chunk::Bytes(bytes[..at].to_vec()));
                    chunks.push(Chunk::Bytes(bytes[at..].to_vec()));
                } else {
                    chunks.push(Chunk::Bytes(bytes));
                }
            }
            (chunk, _) => chunks.push(chunk),
        }
        let mut arrivals: Vec<Arrival> =
            chunks.into_iter().map(|chunk| self.put(line, to_server, chunk, now)).collect();
        if is_cut {
            arrivals.push(self.put(line, !to_server, Chunk::End, now));
        }
        arrivals
    }

    fn put(&mut self, line: usize, to_server: bool, chunk: Chunk, now: Instant) -> Arrival {
        let way = &mut self.lines[line].ways[usize::from(to_server)];
        way.is_over |= matches!(chunk, Chunk::End);
        way.sent.push_back(chunk);
        self.arrival(line, to_server, now)
    }

    fn arrival(&mut self, line: usize, to_server: bool, now: Instant) -> Arrival {
        let (client, member) = (self.lines[line].client, self.lines[line].member);
        let soonest = now + self.delay(client, member);
        let way = &mut self.lines[line].ways[usize::from(to_server)];
        let when = way.last.map_or(soonest, |last| last.max(soonest));
        way.last = Some(when);
        Arrival { line, to_server, when }
    }

    /// Returns the bytes that arrive: the next chunk of the stream, unless it does not get through now.
    pub fn pass(&mut self, line: usize, to_server: bool) -> Option<Chunk> {
        if self.lines[line].is_dead {
            return None;
        }
        let is_blocked = self.is_blocked(line, to_server);
        let way = &mut self.lines[line].ways[usize::from(to_server)];
        if is_blocked {
            way.held += 1;
            return None;
        }
        way.sent.pop_front()
    }

    /// Sends lost bytes again, as TCP does. Returns the arrivals with their times.
    pub fn unblock(&mut self, now: Instant) -> Vec<Arrival> {
        let mut arrivals = Vec::new();
        for line in self.open.clone() {
            for to_server in [false, true] {
                if self.is_blocked(line, to_server) {
                    continue;
                }
                let held = std::mem::take(&mut self.lines[line].ways[usize::from(to_server)].held);
                arrivals.extend((0..held).map(|_| self.arrival(line, to_server, now)));
            }
        }
        arrivals
    }

    /// Forgets a connection that neither side has open.
    pub fn settle(&mut self, line: usize) {
        let known = &mut self.lines[line];
        if !known.is_client_open && !known.is_server_open {
            known.inbound = Vec::new();
            self.open.remove(&line);
        }
    }
}
