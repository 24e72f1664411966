//! Filters the `data` of chunk documents out of a cursor's reply while it arrives, so that the owner can receive it
//! directly at its destination. Receives nothing itself, and knows only that a chunk's bytes are a binary value called
//! "data".
//! Spec: OP_MSG, gridfs.
//!
//! The rest is a valid message: the same reply with empty data, corrected lengths, and one more element in
//! its body, [`LAID`], which lists the data of each document with its place and size. Any other message is
//! unchanged.

use crate::frame::MAX_MESSAGE_SIZE;

/// The added element: for each filtered document its position in the batch, the destination of its data, and the data's
/// size.
pub const LAID: &str = "$laid";

/// The least data that is filtered; copying less is cheaper.
const LEAST: usize = 1024;

/// Size of the buffer for the parts between data. It is small, since the start of the next data arrives in it and has
/// to be copied.
const WINDOW: usize = 4096;

const OP_MSG: i32 = 0x07DD;
const LENGTH: usize = 4;
const HEAD: usize = 16 + 4 + 1 + 4;
const BODY_LENGTH: usize = 21;
const CURSOR: &[u8] = b"\x03cursor\0";
const FIRST_BATCH: &[u8] = b"\x04firstBatch\0";
const NEXT_BATCH: &[u8] = b"\x04nextBatch\0";

/// The owner's next step.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FilterStep {
    /// Copy this many bytes of [`ChunkFilter::ready`] to [`ChunkFilter::place`], then call
    /// [`ChunkFilter::placed`].
    Place(usize),
    /// Receive at most this many bytes there and further ones into [`ChunkFilter::window`], then call
    /// [`ChunkFilter::received`].
    Receive(usize),
    /// [`ChunkFilter::take`] has a whole message.
    Whole,
    /// There is no memory for the rest of the message.
    NoMemory,
    /// This message is not filtered: [`ChunkFilter::take`] returns its start, and the owner receives the rest.
    Plain,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stage {
    Head,
    Cursor,
    Batch,
    Item,
    Element,
    /// This many bytes stay in the message; the next element follows.
    Keep(usize),
    /// This many bytes of data follow.
    Data(usize),
    /// The rest of the message stays in it.
    Rest,
}

/// Filters one message after another.
pub struct ChunkFilter {
    kept: Vec<u8>,
    window: Box<[u8; WINDOW]>,
    /// The start of the unexamined bytes in the window.
    start: usize,
    end: usize,
    stage: Stage,
    /// The message's original length, and how many of its bytes were examined.
    length: usize,
    seen: usize,
    /// The positions of the lengths of the cursor, the batch and the document in `kept`.
    cursor_at: usize,
    batch_at: usize,
    document_at: usize,
    document_removed: usize,
    removed: usize,
    index: u32,
    laid: Vec<u8>,
    /// Where the next data goes, and where the room for it ends.
    at: usize,
    room: usize,
    is_out_of_memory: bool,
}

impl ChunkFilter {
    /// Makes a filter that puts data one after the other into `room` bytes, from `at` on.
    pub fn new(at: usize, room: usize) -> Self {
        ChunkFilter {
            kept: Vec::with_capacity(16 * 1024),
            window: Box::new([0; WINDOW]),
            start: 0,
            end: 0,
            stage: Stage::Head,
            length: 0,
            seen: 0,
            cursor_at: 0,
            batch_at: 0,
            document_at: 0,
            document_removed: 0,
            removed: 0,
            index: 0,
            laid: Vec::new(),
            at,
            room,
            is_out_of_memory: false,
        }
    }

    /// Returns the length of the current message, data included.
    pub fn length(&self) -> usize {
        self.length
    }

    /// Returns the destination of the next byte of data.
    pub fn place(&self) -> usize {
        self.at
    }

    /// Returns the buffer for the bytes after the data.
    pub fn window(&mut self) -> &mut [u8] {
        if self.start > 0 {
            self.window.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
        &mut self.window[self.end..]
    }

    /// Returns the received bytes that are still unexamined.
    pub fn ready(&self) -> &[u8] {
        &self.window[self.start..self.end]
    }

    /// Returns the ready bytes of this message, without those of the next one.
    fn here(&self) -> &[u8] {
        let ready = self.ready();
        &ready[..ready.len().min(self.length.saturating_sub(self.seen))]
    }

    /// Records how many bytes were received directly at their destination, and how many into the window.
    pub fn received(&mut self, direct: usize, windowed: usize) {
        self.pass_data(direct);
        self.end = (self.end + windowed).min(WINDOW);
    }

    /// Records how many of the ready bytes were copied to their destination.
    pub fn placed(&mut self, count: usize) {
        let count = count.min(self.end - self.start);
        self.start += count;
        self.pass_data(count);
    }

    fn pass_data(&mut self, count: usize) {
        if let Stage::Data(left) = self.stage {
            let count = count.min(left);
            self.at += count;
            self.seen += count;
            self.stage = if left == count { Stage::Element } else { Stage::Data(left - count) };
        }
    }

    /// Examines the received bytes as far as possible.
    pub fn poll(&mut self) -> FilterStep {
        loop {
            if self.is_out_of_memory {
                return FilterStep::NoMemory;
            }
            let available = self.end - self.start;
            match self.stage {
                Stage::Data(left) if available > 0 => return FilterStep::Place(left.min(available)),
                Stage::Data(left) => return FilterStep::Receive(left),
                Stage::Keep(left) => {
                    self.keep(left.min(available));
                    self.stage =
                        if left <= available { Stage::Element } else { Stage::Keep(left - available) };
                    if left > available {
                        return FilterStep::Receive(0);
                    }
                }
                Stage::Rest => {
                    let left = self.length.saturating_sub(self.seen);
                    self.keep(left.min(available));
                    return match left <= available {
                        _ if self.is_out_of_memory => FilterStep::NoMemory,
                        true => FilterStep::Whole,
                        false => FilterStep::Receive(0),
                    };
                }
                Stage::Head => {
                    if available < LENGTH {
                        return FilterStep::Receive(0);
                    }
                    self.length = usize::try_from(self.i32_at(0)).unwrap_or(0);
                    if available < HEAD {
                        // A message shorter than the head has arrived whole: no more bytes will come.
                        return if self.length < HEAD { FilterStep::Plain } else { FilterStep::Receive(0) };
                    }
                    let is_message = self.i32_at(12) == OP_MSG && self.ready()[20] == 0;
                    if !is_message || !(HEAD..=MAX_MESSAGE_SIZE).contains(&self.length) {
                        return FilterStep::Plain;
                    }
                    self.keep(HEAD);
                    self.stage = Stage::Cursor;
                }
                Stage::Cursor => {
                    if self.is_cut(CURSOR.len() + 4) {
                        return FilterStep::Receive(0);
                    }
                    if !self.here().starts_with(CURSOR) {
                        return FilterStep::Plain;
                    }
                    self.keep(CURSOR.len());
                    self.cursor_at = self.kept.len();
                    self.keep(4);
                    self.stage = Stage::Batch;
                }
                Stage::Batch => {
                    if self.is_cut(FIRST_BATCH.len() + 4) {
                        return FilterStep::Receive(0);
                    }
                    let name = if self.here().starts_with(FIRST_BATCH) { FIRST_BATCH } else { NEXT_BATCH };
                    if !self.here().starts_with(name) {
                        return FilterStep::Plain;
                    }
                    self.keep(name.len());
                    self.batch_at = self.kept.len();
                    self.keep(4);
                    self.stage = Stage::Item;
                }
                Stage::Item | Stage::Element => {
                    if !self.read_head() {
                        return FilterStep::Receive(0);
                    }
                }
            }
        }
    }

    /// Whether fewer than `wanted` bytes have arrived, with more of the message to come.
    fn is_cut(&self, wanted: usize) -> bool {
        let available = self.end - self.start;
        available < wanted && self.seen + available < self.length
    }

    /// Reads the head of an array's item or a document's element, if it has arrived.
    fn read_head(&mut self) -> bool {
        let ready = self.here();
        let Some(kind) = ready.first().copied() else {
            if self.seen >= self.length {
                self.stage = Stage::Rest;
                return true;
            }
            return false;
        };
        if kind == 0 {
            self.end_document();
            return true;
        }
        let Some(key) = memchr::memchr(0, &ready[1..]) else { return self.give_up_unless_cut(WINDOW / 4) };
        // The bytes before a value tell its length.
        let before = 1 + key + 1;
        let fixed = match kind {
            0x01 | 0x09 | 0x11 | 0x12 => 8,
            0x02..=0x04 | 0x0D..=0x0F | 0x10 => 4,
            0x05 => 5,
            0x06 | 0x0A | 0x7F | 0xFF => 0,
            0x07 => 12,
            0x08 => 1,
            0x13 => 16,
            _ => return self.give_up_unless_cut(0),
        };
        let head = before + fixed;
        if ready.len() < head {
            return self.give_up_unless_cut(head);
        }
        if self.stage == Stage::Item {
            if kind != 0x03 {
                return self.give_up_unless_cut(0);
            }
            self.keep(before);
            self.document_at = self.kept.len();
            self.document_removed = 0;
            self.keep(4);
            self.stage = Stage::Element;
            return true;
        }
        let declared = usize::try_from(self.i32_at(before)).unwrap_or(usize::MAX);
        let behind = match kind {
            0x02 | 0x0D | 0x0E | 0x05 => Some(declared),
            0x03 | 0x04 | 0x0F => declared.checked_sub(4),
            _ => Some(0),
        };
        let Some(behind) = behind.filter(|behind| *behind <= self.length.saturating_sub(self.seen + head))
        else {
            return self.give_up_unless_cut(0);
        };
        let is_data = kind == 0x05 && &self.here()[1..=key] == b"data" && self.here()[head - 1] != 0x02;
        if is_data && behind > self.room.saturating_sub(self.at) {
            // Smaller data after it might fit, but must not be laid in its place.
            self.room = self.at;
        }
        if !is_data || behind < LEAST || behind > self.room.saturating_sub(self.at) {
            self.keep(head);
            self.stage = Stage::Keep(behind);
            return true;
        }
        self.keep(head);
        let length_at = self.kept.len() - 5;
        self.kept[length_at..length_at + 4].fill(0);
        self.removed += behind;
        self.document_removed += behind;
        self.laid.extend_from_slice(&self.index.to_le_bytes());
        self.laid.extend_from_slice(&(self.at as u64).to_le_bytes());
        self.laid.extend_from_slice(&(behind as u32).to_le_bytes());
        self.stage = Stage::Data(behind);
        true
    }

    /// Keeps the rest of the message unchanged if more bytes would not help; returns whether to wait for more.
    fn give_up_unless_cut(&mut self, wanted: usize) -> bool {
        if wanted > 0 && self.is_cut(wanted) {
            return false;
        }
        self.shorten(self.document_at, self.document_removed);
        self.document_removed = 0;
        self.stage = Stage::Rest;
        true
    }

    /// Handles the terminator of a document, or of the batch.
    fn end_document(&mut self) {
        self.keep(1);
        if self.stage == Stage::Item {
            self.stage = Stage::Rest;
        } else {
            self.shorten(self.document_at, self.document_removed);
            self.document_removed = 0;
            self.index += 1;
            self.stage = Stage::Item;
        }
    }

    fn keep(&mut self, count: usize) {
        let count = count.min(self.end - self.start);
        if self.kept.try_reserve(count).is_err() {
            self.is_out_of_memory = true;
            return;
        }
        self.kept.extend_from_slice(&self.window[self.start..self.start + count]);
        self.start += count;
        self.seen += count;
    }

    fn i32_at(&self, at: usize) -> i32 {
        self.ready()
            .get(at..)
            .and_then(|bytes| bytes.first_chunk::<4>())
            .map_or(0, |bytes| i32::from_le_bytes(*bytes))
    }

    fn shorten(&mut self, at: usize, by: usize) {
        self.lengthen(at, -(by as i64));
    }

    fn lengthen(&mut self, at: usize, by: i64) {
        if by != 0
            && let Some(bytes) = self.kept.get_mut(at..at + 4)
            && let Some(length) = bytes.first_chunk::<4>().map(|bytes| i32::from_le_bytes(*bytes))
        {
            // A wrong length stays wrong; the code that reads the message reports it.
            bytes.copy_from_slice(&((i64::from(length) + by) as i32).to_le_bytes());
        }
    }

    /// Takes out the message, or its examined part, and starts with the next one.
    pub fn take(&mut self) -> Vec<u8> {
        if !self.laid.is_empty() {
            for at in [self.batch_at, self.cursor_at, BODY_LENGTH, 0] {
                self.shorten(at, self.removed);
            }
            if self.kept.last() == Some(&0) {
                self.kept.pop();
                let before = self.kept.len();
                let laid = std::mem::take(&mut self.laid);
                mangonel_bson::append_binary(&mut self.kept, LAID, 0, &laid);
                let added = (self.kept.len() - before) as i64;
                self.kept.push(0);
                self.lengthen(BODY_LENGTH, added);
                self.lengthen(0, added);
            }
        }
        let message = std::mem::replace(&mut self.kept, Vec::with_capacity(16 * 1024));
        self.laid.clear();
        self.stage = Stage::Head;
        (self.length, self.seen, self.removed, self.document_removed, self.index) = (0, 0, 0, 0, 0);
        message
    }
}

/// One document whose data was filtered out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Laid {
    /// Its position in the batch.
    pub index: u32,
    /// The destination of its data.
    pub at: u64,
    /// The size of its data.
    pub size: u32,
}

/// Reads the element [`LAID`].
pub fn read_laid(bytes: &[u8]) -> Vec<Laid> {
    let (entries, _) = bytes.as_chunks::<16>();
    entries
        .iter()
        .map(|entry| {
            let [i0, i1, i2, i3, a0, a1, a2, a3, a4, a5, a6, a7, s0, s1, s2, s3] = *entry;
            Laid {
                index: u32::from_le_bytes([i0, i1, i2, i3]),
                at: u64::from_le_bytes([a0, a1, a2, a3, a4, a5, a6, a7]),
                size: u32::from_le_bytes([s0, s1, s2, s3]),
            }
        })
        .collect()
}
