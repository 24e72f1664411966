//! The messages of a run: always a hash of all of them, their texts only on request.

use mangonel_bson::{JsonMode, RawDocument, write_json};
use mangonel_proto::time::Instant;

use crate::network::Line;
use crate::queue::EPOCH;

/// A participant in a picture.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Who {
    /// A client.
    Client(usize),
    /// A member.
    Member(usize),
    /// Events that affect everything.
    World,
    /// The judges.
    Judge,
}

/// One entry of the trace.
#[derive(Clone, Debug)]
pub struct Word {
    /// Microseconds since the start.
    pub at: u64,
    /// Who said it.
    pub from: Who,
    /// To whom.
    pub to: Who,
    /// What.
    pub text: String,
}

/// The record of a run.
#[derive(Clone, Debug)]
pub struct Trace {
    /// A hash of everything.
    pub hash: u64,
    /// The texts, if they are kept.
    pub words: Vec<Word>,
    is_kept: bool,
}

impl Trace {
    /// Starts one.
    pub(crate) fn new(is_kept: bool) -> Self {
        Trace { hash: 0xCBF2_9CE4_8422_2325, words: Vec::new(), is_kept }
    }

    /// Adds a number to the hash.
    pub(crate) fn stir(&mut self, number: u64) {
        self.hash = (self.hash ^ number).wrapping_mul(0x0100_0000_01B3).rotate_left(29);
    }

    /// Adds a message to the hash.
    pub(crate) fn say(&mut self, now: Instant, line: &Line, to_server: bool, message: &[u8]) {
        let (words, rest) = message.as_chunks();
        for word in words {
            self.stir(u64::from_le_bytes(*word));
        }
        if !rest.is_empty() {
            let mut word = [0; 8];
            word[..rest.len()].copy_from_slice(rest);
            self.stir(u64::from_le_bytes(word));
        }
        let (client, member) = (Who::Client(line.client), Who::Member(line.member));
        let (from, to) = if to_server { (client, member) } else { (member, client) };
        let owner = line.owner;
        self.note(now, from, to, || format!("{owner:?} {}", readable(message)));
    }

    /// Keeps the text of a message.
    pub(crate) fn note(&mut self, now: Instant, from: Who, to: Who, text: impl FnOnce() -> String) {
        if self.is_kept {
            let at = now.saturating_since(EPOCH).as_micros() as u64;
            self.words.push(Word { at, from, to, text: text() });
        }
    }
}

fn readable(message: &[u8]) -> String {
    let Ok((body, _)) = RawDocument::prefix(message.get(21..).unwrap_or_default()) else {
        return format!("{} bytes", message.len());
    };
    let mut text = Vec::new();
    match write_json(body, JsonMode::Relaxed, &mut text) {
        Ok(()) => String::from_utf8_lossy(&text).into_owned(),
        Err(_) => format!("{} bytes", message.len()),
    }
}
