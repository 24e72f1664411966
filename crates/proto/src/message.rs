//! OP_MSG: writing a command, reading a reply. Knows sections and flags, but no commands.
//! Spec: OP_MSG.

use std::ops::Range;

use mangonel_bson::{RawDocument, RawValue, writer};

use crate::error::ProtocolError;

const OP_MSG: i32 = 0x07DD;
const HEADER_SIZE: usize = 16;
/// Header, flag bits, and the kind byte of the body section.
const BODY_START: usize = HEADER_SIZE + 4 + 1;

const CHECKSUM_PRESENT: u32 = 1 << 0;
const MORE_TO_COME: u32 = 1 << 1;
/// A peer must refuse a message with an unknown bit among these sixteen; unknown upper bits may be ignored.
const REQUIRED_BITS: u32 = 0xFFFF;

/// Space in front of a document sequence, so that the body can be written before it without moving megabytes.
const HEADROOM: usize = 1024;

const IN_HEAD: usize = usize::MAX;

/// The replies to expect for a command.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Replies {
    /// One reply.
    #[default]
    One,
    /// No reply at all: an unacknowledged write.
    None,
    /// As many replies as the server sends, without further requests.
    Exhaust,
}

impl Replies {
    fn flags(self) -> u32 {
        match self {
            Replies::One => 0,
            Replies::None => MORE_TO_COME,
            Replies::Exhaust => 1 << 16,
        }
    }
}

/// A command's own bytes, encoded once; the fields that change with each attempt are stamped behind them.
pub struct Command {
    /// `BODY_START` reserved bytes, then the body document without its terminator, then the stamped fields.
    head: Vec<u8>,
    /// End of the body's own elements in `head`.
    body_end: usize,
    /// `HEADROOM` reserved bytes, then a whole document-sequence section; empty without one.
    sequence: Vec<u8>,
    /// Where the stamped message starts in `sequence`; `IN_HEAD` when all of it is in `head`.
    start: usize,
}

impl Command {
    /// Returns a buffer to which the caller appends the body document.
    pub fn begin() -> Vec<u8> {
        let mut head = Vec::with_capacity(512);
        head.resize(BODY_START, 0);
        head
    }

    /// Returns a buffer to which the caller appends the documents of a sequence.
    pub fn begin_sequence(identifier: &str, capacity: usize) -> Vec<u8> {
        let mut sequence = Vec::with_capacity(HEADROOM + 6 + identifier.len() + capacity);
        sequence.resize(HEADROOM, 0);
        sequence.push(1);
        sequence.extend_from_slice(&[0; 4]);
        sequence.extend_from_slice(identifier.as_bytes());
        sequence.push(0);
        sequence
    }

    /// Makes a command from the buffer of [`begin`](Self::begin), to which one whole document was appended, and a
    /// sequence of [`begin_sequence`](Self::begin_sequence), or an empty one.
    ///
    /// # Errors
    /// When no whole document follows the reserved bytes, or the sequence is larger than a message.
    pub fn new(head: Vec<u8>, mut sequence: Vec<u8>) -> Result<Self, ProtocolError> {
        RawDocument::from_bytes(head.get(BODY_START..).unwrap_or_default())?;
        let body_end = head.len() - 1;
        if !sequence.is_empty() {
            let size = sequence.len().saturating_sub(HEADROOM + 1);
            let declared = i32::try_from(size).map_err(|_| {
                ProtocolError::new(format!("expected a sequence below 2 GiB, got {size} bytes"))
            })?;
            let prefix = sequence
                .get_mut(HEADROOM + 1..HEADROOM + 5)
                .ok_or_else(|| ProtocolError::new("expected a sequence made by begin_sequence"))?;
            prefix.copy_from_slice(&declared.to_le_bytes());
        }
        Ok(Command { head, body_end, sequence, start: IN_HEAD })
    }

    /// Makes a command as [`new`](Self::new) does, with a second sequence of whole documents behind the first.
    ///
    /// # Errors
    /// As for [`new`](Self::new).
    pub fn with_two_sequences(
        head: Vec<u8>,
        sequence: Vec<u8>,
        identifier: &str,
        documents: &[u8],
    ) -> Result<Self, ProtocolError> {
        let mut command = Command::new(head, sequence)?;
        let size = 4 + identifier.len() + 1 + documents.len();
        let declared = i32::try_from(size)
            .map_err(|_| ProtocolError::new(format!("expected a sequence below 2 GiB, got {size} bytes")))?;
        command.sequence.push(1);
        command.sequence.extend_from_slice(&declared.to_le_bytes());
        command.sequence.extend_from_slice(identifier.as_bytes());
        command.sequence.push(0);
        command.sequence.extend_from_slice(documents);
        Ok(command)
    }

    /// Returns the command's name: the first key of its body.
    pub fn name(&self) -> &str {
        // [`new`](Self::new) checked that the body is a document; an empty one has no name.
        let elements = self.head.get(BODY_START + 4..self.body_end).unwrap_or_default();
        let key = elements.get(1..).and_then(|rest| rest.split(|byte| *byte == 0).next());
        key.and_then(|key| std::str::from_utf8(key).ok()).unwrap_or_default()
    }

    /// Returns bytes that begin with the body as a document, in its last stamped form.
    pub fn body(&self) -> Option<&[u8]> {
        self.head.get(BODY_START..)
    }

    /// Returns the body's own elements as a document, as the caller wrote it.
    pub fn body_elements(&self) -> &[u8] {
        self.head.get(BODY_START + 4..self.body_end).unwrap_or_default()
    }

    /// Takes the time limits out of the body, before the first stamp: `maxTimeMS` and the `wtimeout` of its write
    /// concern, which the limit of the whole operation replaces.
    pub fn drop_own_limits(&mut self) {
        let Ok(body) = RawDocument::from_bytes(self.head.get(BODY_START..).unwrap_or_default()) else {
            return;
        };
        let mut kept = Command::begin();
        let start = writer::begin_document(&mut kept);
        for element in body.iter().flatten() {
            match (element.key, element.value) {
                ("maxTimeMS", _) => {}
                // Without it, the write concern may be empty.
                ("writeConcern", RawValue::Document(concern))
                    if concern.iter().flatten().all(|part| part.key == "wtimeout") => {}
                ("writeConcern", RawValue::Document(concern)) => {
                    let concern_start = writer::begin_subdocument(&mut kept, element.key);
                    for part in concern.iter().flatten().filter(|part| part.key != "wtimeout") {
                        writer::append_value(&mut kept, part.key, part.value);
                    }
                    writer::end_document(&mut kept, concern_start);
                }
                (key, value) => writer::append_value(&mut kept, key, value),
            }
        }
        writer::end_document(&mut kept, start);
        self.body_end = kept.len() - 1;
        self.head = kept;
    }

    /// Takes a field that is a document out of the body; empty when there is none. Only between two messages: the
    /// stamped fields are lost.
    pub fn take_document(&mut self, key: &str) -> Vec<u8> {
        self.unstamp();
        let found = self.find_document(key);
        self.head.truncate(self.body_end);
        let Some((range, value)) = found else { return Vec::new() };
        self.body_end -= range.len();
        self.head.drain(range);
        value
    }

    /// Makes the body a whole document again: a stamp wrote its own length and fields there.
    fn unstamp(&mut self) {
        self.head.truncate(self.body_end);
        self.head.push(0);
        let length = (self.head.len() - BODY_START) as i32;
        self.head[BODY_START..BODY_START + 4].copy_from_slice(&length.to_le_bytes());
    }

    /// Returns whether the body has this field, and it is true.
    pub fn has_flag(&self, key: &str) -> bool {
        let body = RawDocument::prefix(self.head.get(BODY_START..).unwrap_or_default());
        body.is_ok_and(|(body, _)| matches!(body.get(key), Ok(Some(RawValue::Boolean(true)))))
    }

    /// Finds a field that is a document: the bytes of its element in `head`, and the document.
    fn find_document(&self, key: &str) -> Option<(Range<usize>, Vec<u8>)> {
        let body = RawDocument::from_bytes(self.head.get(BODY_START..)?).ok()?;
        let mut elements = body.iter();
        let mut start = elements.offset();
        while let Some(Ok(element)) = elements.next() {
            let end = elements.offset();
            if let (true, RawValue::Document(value)) = (element.key == key, element.value) {
                return Some((BODY_START + start..BODY_START + end, value.as_bytes().to_vec()));
            }
            start = end;
        }
        None
    }

    /// Lowers the body's `maxTimeMS` to `milliseconds`, if it has one above that. Only between two messages: the
    /// stamped fields are lost.
    pub fn shorten_wait(&mut self, milliseconds: i64) {
        self.unstamp();
        let Ok(body) = RawDocument::from_bytes(self.head.get(BODY_START..).unwrap_or_default()) else {
            return;
        };
        let asked = body.get("maxTimeMS").ok().flatten().and_then(|value| value.as_i64_lenient());
        if asked.is_none_or(|asked| asked <= milliseconds) {
            return;
        }
        self.drop_own_limits();
        self.head.truncate(self.body_end);
        writer::append_i64(&mut self.head, "maxTimeMS", milliseconds);
        self.body_end = self.head.len();
        self.unstamp();
    }

    /// Makes the message ready to send: the body, then the fields that `envelope` appends, then the sequence.
    pub fn stamp(&mut self, request_id: i32, replies: Replies, envelope: impl FnOnce(&mut Vec<u8>)) {
        self.head.truncate(self.body_end);
        envelope(&mut self.head);
        self.head.push(0);
        let body_length = (self.head.len() - BODY_START) as i32;
        let sequence_length = self.sequence.len().saturating_sub(HEADROOM);
        let length = (self.head.len() + sequence_length) as i32;
        self.head[0..4].copy_from_slice(&length.to_le_bytes());
        self.head[4..8].copy_from_slice(&request_id.to_le_bytes());
        self.head[8..12].copy_from_slice(&0i32.to_le_bytes());
        self.head[12..16].copy_from_slice(&OP_MSG.to_le_bytes());
        self.head[16..20].copy_from_slice(&replies.flags().to_le_bytes());
        self.head[20] = 0;
        self.head[BODY_START..BODY_START + 4].copy_from_slice(&body_length.to_le_bytes());
        if self.sequence.is_empty() {
            return;
        }
        if self.head.len() <= HEADROOM {
            self.start = HEADROOM - self.head.len();
            self.sequence[self.start..HEADROOM].copy_from_slice(&self.head);
        } else {
            // A long `let` or comment is rare enough to copy the documents behind it.
            self.head.extend_from_slice(&self.sequence[HEADROOM..]);
            self.start = IN_HEAD;
        }
    }

    /// Returns the stamped message.
    pub fn outbound(&self) -> &[u8] {
        if self.start == IN_HEAD { &self.head } else { &self.sequence[self.start..] }
    }

    /// Returns the stamped command as one document for listeners, its document sequences as arrays behind its body.
    /// Copies everything.
    pub fn to_document(&self) -> Vec<u8> {
        let body = RawDocument::prefix(self.head.get(BODY_START..).unwrap_or_default());
        let body = body.map(|(body, _)| body.as_bytes()).unwrap_or(&[5, 0, 0, 0, 0]);
        let mut whole = Vec::with_capacity(body.len() + self.sequence.len() + self.sequence.len() / 8);
        whole.extend_from_slice(&body[..body.len() - 1]);
        let mut sections = self.sequence.get(HEADROOM..).unwrap_or_default();
        while let Some((identifier, documents, rest)) = split_section(sections) {
            let array = writer::begin_array(&mut whole, identifier);
            let mut documents = documents;
            let mut index = 0usize;
            while let Ok((document, behind)) = RawDocument::prefix(documents) {
                writer::append_raw_document(&mut whole, &index.to_string(), document);
                (documents, index) = (behind, index + 1);
            }
            writer::end_document(&mut whole, array);
            sections = rest;
        }
        writer::end_document(&mut whole, 0);
        whole
    }

    /// Returns the size of the message if it were stamped with `envelope_size` bytes.
    pub fn size(&self, envelope_size: usize) -> usize {
        self.body_end + 1 + envelope_size + self.sequence.len().saturating_sub(HEADROOM)
    }
}

/// One message from the server, checked.
#[derive(Clone, Copy, Debug)]
pub struct Reply<'a> {
    /// The request that it answers.
    pub response_to: i32,
    /// The id the server gave to this message.
    pub request_id: i32,
    /// Whether another message follows without a request.
    pub more_to_come: bool,
    /// The answer itself.
    pub body: RawDocument<'a>,
    /// Where the body starts in the message.
    pub body_start: usize,
}

/// Splits a document-sequence section into its name, its documents and the bytes behind it.
fn split_section(sections: &[u8]) -> Option<(&str, &[u8], &[u8])> {
    let size = usize::try_from(read_i32(sections, 1)?).ok()?;
    let section = sections.get(5..1 + size)?;
    let end = section.iter().position(|byte| *byte == 0)?;
    let identifier = std::str::from_utf8(&section[..end]).ok()?;
    Some((identifier, &section[end + 1..], &sections[1 + size..]))
}

fn read_i32(bytes: &[u8], at: usize) -> Option<i32> {
    Some(i32::from_le_bytes(*bytes.get(at..)?.first_chunk::<4>()?))
}

/// Returns whether the server will send another message after this one without a request.
pub fn has_more_to_come(message: &[u8]) -> bool {
    read_i32(message, HEADER_SIZE).is_some_and(|flags| flags as u32 & MORE_TO_COME != 0)
}

/// Returns a reply with another body in place of its own.
///
/// # Errors
/// When the new message would be larger than any message may be.
pub fn with_body(message: &[u8], body: &[u8]) -> Result<Vec<u8>, ProtocolError> {
    let length = i32::try_from(BODY_START + body.len())
        .map_err(|_| ProtocolError::new(format!("expected a body of less than 2 GiB, got {}", body.len())))?;
    let mut made = Vec::with_capacity(BODY_START + body.len());
    made.extend_from_slice(&length.to_le_bytes());
    made.extend_from_slice(message.get(4..BODY_START).unwrap_or_default());
    made.extend_from_slice(body);
    Ok(made)
}

/// Reads a whole message, header included, as a reply.
///
/// # Errors
/// When it is not an OP_MSG with exactly one body section and no unknown required flag.
pub fn read_reply(message: &[u8]) -> Result<Reply<'_>, ProtocolError> {
    let short = || format!("expected a message header of 16 bytes, got {} bytes", message.len());
    let header = |at| read_i32(message, at).ok_or_else(|| ProtocolError::new(short()));
    let (length, request_id, response_to, opcode) = (header(0)?, header(4)?, header(8)?, header(12)?);
    if usize::try_from(length) != Ok(message.len()) {
        return Err(ProtocolError::new(format!(
            "expected a message of {} bytes, got a length of {length}",
            message.len()
        )));
    }
    if opcode != OP_MSG {
        return Err(ProtocolError::new(format!("expected opcode {OP_MSG} (OP_MSG), got {opcode}")));
    }
    let flags = header(16)? as u32;
    if flags & REQUIRED_BITS & !MORE_TO_COME != 0 {
        let what =
            if flags & CHECKSUM_PRESENT != 0 { "an unrequested checksum" } else { "unknown flag bits" };
        return Err(ProtocolError::new(format!("expected a plain OP_MSG, got {what} ({flags:#x})")));
    }
    if message.get(20) != Some(&0) {
        return Err(ProtocolError::new(format!(
            "expected a body section (kind 0), got {:?}",
            message.get(20)
        )));
    }
    let (body, rest) = RawDocument::prefix(&message[BODY_START..])?;
    if !rest.is_empty() {
        return Err(ProtocolError::new(format!(
            "expected one section in a reply, got {} bytes behind it",
            rest.len()
        )));
    }
    Ok(Reply {
        response_to,
        request_id,
        more_to_come: flags & MORE_TO_COME != 0,
        body,
        body_start: BODY_START,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_of_two_sequences_says_its_own_size() {
        let empty = [5, 0, 0, 0, 0];
        let mut head = Command::begin();
        head.extend_from_slice(&empty);
        let mut sequence = Command::begin_sequence("ops", 5);
        sequence.extend_from_slice(&empty);
        let mut command = Command::with_two_sequences(head, sequence, "nsInfo", &empty).unwrap();
        command.stamp(7, Replies::One, |_| {});

        let message = command.outbound();
        let sections = &message[BODY_START + 5..];
        assert_eq!(sections[..9], [1, 13, 0, 0, 0, b'o', b'p', b's', 0]);
        assert_eq!(sections[14..26], [1, 16, 0, 0, 0, b'n', b's', b'I', b'n', b'f', b'o', 0]);
        assert_eq!(read_i32(message, 0), Some(message.len() as i32));
    }
}
