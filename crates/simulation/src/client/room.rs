//! Memory into which chunks are laid while they arrive, as GridFS reads them.

use mangonel_proto::chunk_filter::{ChunkFilter, FilterStep};

/// Memory for chunks that are laid aside.
pub(crate) struct Room {
    filter: ChunkFilter,
    pub(crate) bytes: Vec<u8>,
    /// Whether the arriving message bypasses the filter.
    pub(crate) is_plain: bool,
}

/// The outcome for received bytes.
pub(super) enum Taken {
    /// The message is not complete yet.
    Part,
    /// The whole message, its chunks laid aside, and the arrived bytes of the next one.
    Whole(Vec<u8>, Vec<u8>),
    /// The message bypasses the filter; these are its bytes so far.
    Plain(Vec<u8>),
}

impl Room {
    pub(super) fn new(size: usize) -> Self {
        Room { filter: ChunkFilter::new(0, size), bytes: vec![0; size], is_plain: false }
    }

    /// Processes bytes as the faces do: data goes to its destination, the rest through the filter's window.
    pub(super) fn take_in(&mut self, bytes: &[u8]) -> Taken {
        let mut left = bytes;
        loop {
            let at = self.filter.place();
            match self.filter.poll() {
                FilterStep::Place(count) => {
                    self.bytes[at..at + count].copy_from_slice(&self.filter.ready()[..count]);
                    self.filter.placed(count);
                }
                FilterStep::Receive(_) if left.is_empty() => return Taken::Part,
                FilterStep::Receive(direct) => {
                    let direct = direct.min(left.len());
                    self.bytes[at..at + direct].copy_from_slice(&left[..direct]);
                    left = &left[direct..];
                    let window = self.filter.window();
                    let windowed = left.len().min(window.len());
                    window[..windowed].copy_from_slice(&left[..windowed]);
                    left = &left[windowed..];
                    self.filter.received(direct, windowed);
                }
                FilterStep::Whole => {
                    let (message, rest) = self.hand_over(left);
                    return Taken::Whole(message, rest);
                }
                FilterStep::Plain => {
                    let (mut message, rest) = self.hand_over(left);
                    message.extend(rest);
                    return Taken::Plain(message);
                }
                FilterStep::NoMemory => return Taken::Part,
            }
        }
    }

    /// Returns the message, and the bytes that the filter has not examined; the next one begins with an empty window.
    fn hand_over(&mut self, left: &[u8]) -> (Vec<u8>, Vec<u8>) {
        let mut rest = self.filter.ready().to_vec();
        rest.extend_from_slice(left);
        let message = self.filter.take();
        self.filter = ChunkFilter::new(self.filter.place(), self.bytes.len());
        (message, rest)
    }
}
