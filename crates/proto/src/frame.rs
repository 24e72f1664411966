//! Bytes in, whole messages out. Knows the length prefix of a message and nothing else about it.
//! Spec: OP_MSG, "message header".
//!
//! The owner asks for a [`window`](Deframer::window), fills some of it, and reports how much; nothing is copied between
//! the socket and the message. An empty deframer may serve another connection.

use crate::error::ProtocolError;
use crate::memory;

/// The largest accepted message, header included: `maxMessageSizeBytes` of every server so far, and headroom.
pub const MAX_MESSAGE_SIZE: usize = 48_000_000 + 16 * 1024;

/// Room for the replies of common commands. A recv returns at most about this much on a default socket. A larger buffer,
/// grown for one large reply, is freed once that reply is read.
const USUAL_SIZE: usize = 64 * 1024;

const HEADER_SIZE: usize = 16;

/// Collects received bytes until they make whole messages.
#[derive(Default)]
pub struct Deframer {
    buffer: Vec<u8>,
    /// The buffer of the usual size while a larger one is in use.
    usual: Vec<u8>,
    /// Start of the bytes that belong to no message yet. `start <= end <= buffer.len()`
    start: usize,
    /// End of the bytes received so far.
    end: usize,
    /// Length of the message at `start`, once its prefix was read and checked.
    length: Option<usize>,
}

impl Deframer {
    /// Returns room to receive into; never empty.
    pub fn window(&mut self) -> &mut [u8] {
        if self.start == self.end {
            self.start = 0;
            self.end = 0;
        }
        let wanted = match self.length {
            Some(length) => length,
            None => HEADER_SIZE,
        };
        if self.start > 0 && self.start + wanted > self.buffer.len() {
            self.buffer.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
        }
        if self.buffer.len() < self.start + wanted {
            // Only a header is missing: `received` has made room for a message whose length is known.
            self.grow((self.start + wanted).max(USUAL_SIZE));
        }
        if self.end == self.buffer.len() {
            // A whole message fills the buffer, and more bytes follow it.
            self.grow(self.end + USUAL_SIZE);
        }
        &mut self.buffer[self.end..]
    }

    fn grow(&mut self, size: usize) {
        // The kernel provides a fresh zeroed vector without a write; `resize` would write every byte twice.
        self.move_to(vec![0; size]);
    }

    fn move_to(&mut self, mut grown: Vec<u8>) {
        grown[..self.end].copy_from_slice(&self.buffer[..self.end]);
        let replaced = std::mem::replace(&mut self.buffer, grown);
        if replaced.len() == USUAL_SIZE {
            self.usual = replaced;
        }
    }

    /// Makes room for a message whose length was just read.
    #[cold]
    fn make_room(&mut self, length: usize) -> Result<(), ProtocolError> {
        self.buffer.copy_within(self.start..self.end, 0);
        self.end -= self.start;
        self.start = 0;
        if length > self.buffer.len() {
            let size = length.max(USUAL_SIZE);
            self.move_to(memory::zeros(size).ok_or_else(|| ProtocolError::out_of_memory(length))?);
        }
        Ok(())
    }

    /// Records that `count` bytes of the window were filled; returns whether a whole message has arrived.
    ///
    /// # Errors
    /// The received bytes are no message, or the whole message does not fit in memory.
    pub fn received(&mut self, count: usize) -> Result<bool, ProtocolError> {
        if count > self.buffer.len() - self.end {
            return Err(ProtocolError::new(format!(
                "expected at most {} received bytes, got {count}",
                self.buffer.len() - self.end
            )));
        }
        self.end += count;
        self.read_length()
    }

    fn read_length(&mut self) -> Result<bool, ProtocolError> {
        let available = self.end - self.start;
        let length = match self.length {
            Some(length) => length,
            None => {
                let Some(prefix) = self.buffer[self.start..self.end].first_chunk::<4>() else {
                    return Ok(false);
                };
                let declared = i32::from_le_bytes(*prefix);
                let length = usize::try_from(declared).unwrap_or(0);
                if !(HEADER_SIZE..=MAX_MESSAGE_SIZE).contains(&length) {
                    return Err(ProtocolError::new(format!(
                        "expected a message of {HEADER_SIZE} to {MAX_MESSAGE_SIZE} bytes, got a length of {declared}"
                    )));
                }
                if self.start + length > self.buffer.len() {
                    self.make_room(length)?;
                }
                self.length = Some(length);
                length
            }
        };
        Ok(available >= length)
    }

    /// Returns the message that has arrived completely, header included.
    pub fn message(&self) -> Option<&[u8]> {
        let length = self.length?;
        self.buffer[self.start..self.end].get(..length)
    }

    /// Drops the message that has arrived; returns whether the next one is already there.
    pub fn consume(&mut self) -> Result<bool, ProtocolError> {
        if let Some(length) = self.length.take() {
            self.start = (self.start + length).min(self.end);
        }
        if self.start == self.end && self.buffer.len() > USUAL_SIZE {
            self.restart();
        }
        self.read_length()
    }

    /// Goes on with the buffer of the usual size, and returns the larger one, whose bytes are all used up.
    #[cold]
    fn restart(&mut self) -> Vec<u8> {
        self.start = 0;
        self.end = 0;
        std::mem::replace(&mut self.buffer, std::mem::take(&mut self.usual))
    }

    /// Gives the message that has arrived to the caller. A large one is moved, a small one copied, whichever is
    /// cheaper.
    pub fn take(&mut self) -> Result<Vec<u8>, ProtocolError> {
        let Some(length) = self.length else { return Ok(Vec::new()) };
        if self.start == 0 && self.end == length {
            // Nearly always there is one message and nothing behind it.
            self.length = None;
            if length > USUAL_SIZE {
                let mut message = self.restart();
                message.truncate(length);
                return Ok(message);
            }
            if self.buffer.len() == USUAL_SIZE {
                let message = self.buffer[..length].to_vec();
                self.end = 0;
                return Ok(message);
            }
        }
        let message = self.message().unwrap_or_default();
        let message = match length <= USUAL_SIZE {
            true => message.to_vec(),
            false => memory::copy_of(message).ok_or_else(|| ProtocolError::out_of_memory(length))?,
        };
        self.consume()?;
        Ok(message)
    }

    /// Returns whether no bytes are left beyond the consumed messages.
    pub fn is_empty(&self) -> bool {
        self.start == self.end
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(length: usize) -> Vec<u8> {
        let mut bytes = vec![7; length];
        bytes[..4].copy_from_slice(&(length as i32).to_le_bytes());
        bytes
    }

    fn feed(deframer: &mut Deframer, mut bytes: &[u8], step: usize) -> bool {
        let mut whole = false;
        while !bytes.is_empty() {
            let window = deframer.window();
            let count = step.min(bytes.len()).min(window.len());
            window[..count].copy_from_slice(&bytes[..count]);
            bytes = &bytes[count..];
            whole = deframer.received(count).unwrap();
        }
        whole
    }

    #[test]
    fn a_message_is_whole_only_at_its_last_byte_whatever_the_pieces() {
        for length in [16, 17, 100, 70_000, 3_000_000] {
            for step in [1, 3, 16, 4096, 1 << 20] {
                if length > 100_000 && step < 4096 {
                    continue;
                }
                let sent = message(length);
                let mut deframer = Deframer::default();
                assert!(!feed(&mut deframer, &sent[..length - 1], step));
                assert!(deframer.message().is_none());
                assert!(feed(&mut deframer, &sent[length - 1..], step));
                assert_eq!(deframer.message().unwrap(), sent);
                assert!(!deframer.consume().unwrap());
                assert!(deframer.is_empty());
            }
        }
    }

    #[test]
    fn messages_sent_back_to_back_come_out_in_order() {
        let mut deframer = Deframer::default();
        let sent: Vec<_> = [20, 65_536, 300, 100_000, 16].map(message).into();
        feed(&mut deframer, &sent.concat(), 50_000);
        for expected in &sent {
            assert_eq!(&deframer.take().unwrap(), expected);
        }
        assert!(deframer.is_empty() && deframer.message().is_none());
    }

    #[test]
    fn a_length_outside_the_limits_is_refused_before_anything_is_allocated() {
        for length in [-1, 0, 15, MAX_MESSAGE_SIZE as i32 + 1, i32::MAX, i32::MIN] {
            let mut deframer = Deframer::default();
            deframer.window()[..4].copy_from_slice(&length.to_le_bytes());
            let error = deframer.received(4).unwrap_err();
            assert!(error.to_string().contains(&length.to_string()));
        }
    }

    #[test]
    fn more_bytes_than_the_window_has_are_refused() {
        let mut deframer = Deframer::default();
        let room = deframer.window().len();
        assert!(deframer.received(room + 1).is_err());
    }

    #[test]
    fn a_buffer_grown_for_a_large_reply_is_replaced_by_the_usual_one() {
        let mut deframer = Deframer::default();
        for length in [100, 65_536, 65_537, 5_000_000] {
            for is_taken in [false, true] {
                feed(&mut deframer, &message(length), 1 << 20);
                if is_taken {
                    assert_eq!(deframer.take().unwrap(), message(length));
                } else {
                    deframer.consume().unwrap();
                }
                assert_eq!(deframer.buffer.len(), USUAL_SIZE);
            }
        }
        feed(&mut deframer, &[message(65_536), message(20), message(3_000_000)].concat(), 1 << 20);
        for _ in 0..3 {
            assert!(!deframer.is_empty());
            deframer.consume().unwrap();
        }
        assert!(deframer.is_empty());
        assert_eq!(deframer.window().len(), USUAL_SIZE);
    }
}
