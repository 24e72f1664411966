//! Messages as the simulated servers read and write them. Knows OP_MSG and the fields of any command.

use mangonel_bson::{RawArray, RawDocument, RawValue, writer};

/// The flag of a message after which another one follows.
const MORE_TO_COME: u32 = 2;

/// Where the body of a message begins.
pub(crate) const BODY: usize = 21;

/// Builds a document.
pub fn document(fill: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut out = Vec::with_capacity(256);
    let start = writer::begin_document(&mut out);
    fill(&mut out);
    writer::end_document(&mut out, start);
    out
}

/// Appends a document to one that is being built.
pub fn append_document(out: &mut Vec<u8>, key: &str, fill: impl FnOnce(&mut Vec<u8>)) {
    let start = writer::begin_subdocument(out, key);
    fill(out);
    writer::end_document(out, start);
}

/// Appends an array of strings.
pub fn append_strings<'a>(out: &mut Vec<u8>, key: &str, values: impl IntoIterator<Item = &'a str>) {
    let start = writer::begin_array(out, key);
    for (position, value) in values.into_iter().enumerate() {
        writer::append_str(out, &position.to_string(), value);
    }
    writer::end_document(out, start);
}

/// Appends a time: seconds in the upper half.
pub fn append_time(out: &mut Vec<u8>, key: &str, time: u64) {
    writer::append_timestamp(out, key, (time >> 32) as u32, time as u32);
}

/// Builds a message with one document.
pub fn message(body: &[u8], request_id: i32, response_to: i32, is_more_to_come: bool) -> Vec<u8> {
    let flags = if is_more_to_come { MORE_TO_COME } else { 0 };
    let mut message = Vec::with_capacity(21 + body.len());
    for word in [(21 + body.len()) as i32, request_id, response_to, 2013, flags as i32] {
        message.extend_from_slice(&word.to_le_bytes());
    }
    message.push(0);
    message.extend_from_slice(body);
    message
}

/// Returns the length in a message's header; `None` while too few bytes have arrived.
pub fn message_length(bytes: &[u8]) -> Option<usize> {
    bytes.first_chunk::<4>().map(|prefix| i32::from_le_bytes(*prefix) as usize)
}

fn word(bytes: &[u8], at: usize) -> i32 {
    bytes.get(at..).and_then(<[u8]>::first_chunk).map_or(0, |word| i32::from_le_bytes(*word))
}

/// Returns the name of the command in a message.
pub fn name_of(message: &[u8]) -> Option<&str> {
    let name = message.get(BODY + 5..)?.split(|byte| *byte == 0).next()?;
    std::str::from_utf8(name).ok()
}

/// The level of a read concern.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Level {
    /// The member's own data.
    #[default]
    Local,
    /// Data that a majority has.
    Majority,
    /// Data that a majority has, at one point in time.
    Snapshot,
    /// Data that a majority has, confirmed before the answer.
    Linearizable,
}

/// One command as a server reads it.
#[derive(Debug)]
pub struct Request<'a> {
    /// The message's number.
    pub id: i32,
    /// Whether an answer is expected.
    pub is_answered: bool,
    /// Whether more than one answer may be sent.
    pub allows_exhaust: bool,
    /// The body.
    pub body: RawDocument<'a>,
    /// The first key.
    pub name: &'a str,
    /// The documents of a sequence or of the array of that name.
    pub documents: Vec<RawDocument<'a>>,
    /// The namespaces that the operations of a bulk write name by their positions.
    pub namespaces: Vec<RawDocument<'a>>,
    /// The session.
    pub session: Option<[u8; 16]>,
    /// The number in it.
    pub number: Option<i64>,
    /// Whether it starts a transaction.
    pub is_starting: bool,
    /// Whether it belongs to a transaction.
    pub is_in_transaction: bool,
    /// Whether it waits for a majority.
    pub wants_majority: bool,
    /// How long it waits for a majority.
    pub write_timeout: Option<u64>,
    /// The read concern's level.
    pub level: Level,
    /// The cluster time that reads wait for.
    pub after: Option<u64>,
    /// The time of a snapshot.
    pub at: Option<u64>,
    /// Its time limit in milliseconds.
    pub max_time: Option<u64>,
    /// The cluster time that the client knows.
    pub cluster_time: Option<u64>,
    /// The mode of the read preference.
    pub preference: Option<&'a str>,
    /// The workload's name for it.
    pub intent: Option<i64>,
}

impl<'a> Request<'a> {
    /// Reads a whole message; `None` if it is invalid.
    pub fn read(message: &'a [u8]) -> Option<Self> {
        let flags = word(message, 16) as u32;
        let (body, mut rest) = RawDocument::prefix(message.get(BODY..)?).ok()?;
        let mut request = Request {
            id: word(message, 4),
            is_answered: flags & MORE_TO_COME == 0,
            allows_exhaust: flags & 1 << 16 != 0,
            body,
            name: body.iter().next()?.ok()?.key,
            documents: Vec::new(),
            namespaces: Vec::new(),
            session: None,
            number: None,
            is_starting: false,
            is_in_transaction: false,
            wants_majority: false,
            write_timeout: None,
            level: Level::Local,
            after: None,
            at: None,
            max_time: None,
            cluster_time: None,
            preference: None,
            intent: None,
        };
        for element in body.iter() {
            let element = element.ok()?;
            request.take(element.key, element.value)?;
        }
        while rest.first() == Some(&1) {
            let size = word(rest, 1) as usize;
            let section = rest.get(5..1 + size)?;
            let (name, documents) = section.split_at(section.iter().position(|byte| *byte == 0)?);
            let into = if name == b"nsInfo" { &mut request.namespaces } else { &mut request.documents };
            let mut documents = &documents[1..];
            while !documents.is_empty() {
                let (document, behind) = RawDocument::prefix(documents).ok()?;
                into.push(document);
                documents = behind;
            }
            rest = &rest[1 + size..];
        }
        Some(request)
    }

    fn take(&mut self, key: &str, value: RawValue<'a>) -> Option<()> {
        match (key, value) {
            ("lsid", RawValue::Document(session)) => {
                self.session = session.get_binary("id").ok()?.and_then(|id| id.bytes.try_into().ok());
            }
            ("txnNumber", value) => self.number = value.as_i64_lenient(),
            ("startTransaction", value) => self.is_starting = value.as_bool_lenient()?,
            ("autocommit", value) => self.is_in_transaction = !value.as_bool_lenient()?,
            ("writeConcern", RawValue::Document(concern)) => {
                self.wants_majority = concern.get_str("w").ok().flatten() == Some("majority");
                self.write_timeout = concern.get_i64_lenient("wtimeout").ok()?.map(|limit| limit as u64);
            }
            ("readConcern", RawValue::Document(concern)) => {
                self.level = match concern.get_str("level").ok()? {
                    Some("majority") => Level::Majority,
                    Some("snapshot") => Level::Snapshot,
                    Some("linearizable") => Level::Linearizable,
                    _ => Level::Local,
                };
                let time = |key| concern.get_timestamp(key).ok().flatten().map(|time| time.to_u64());
                (self.after, self.at) = (time("afterClusterTime"), time("atClusterTime"));
            }
            ("maxTimeMS", value) => self.max_time = value.as_i64_lenient().map(|limit| limit as u64),
            ("$clusterTime", RawValue::Document(time)) => {
                self.cluster_time = time.get_timestamp("clusterTime").ok()?.map(|time| time.to_u64());
            }
            ("$readPreference", RawValue::Document(preference)) => {
                self.preference = preference.get_str("mode").ok()?;
            }
            ("comment", value) => self.intent = value.as_i64_lenient(),
            ("documents" | "updates" | "deletes", RawValue::Array(documents)) => {
                self.documents = documents_of(documents).collect();
            }
            _ => {}
        }
        Some(())
    }

    /// Returns an integer of the body.
    pub fn integer(&self, key: &str) -> Option<i64> {
        self.body.get_i64_lenient(key).ok().flatten()
    }

    /// Returns the collection that the first value names.
    pub fn collection(&self) -> &'a str {
        self.body.get_str(self.name).ok().flatten().unwrap_or_default()
    }
}

/// Returns the documents of an array.
pub fn documents_of(array: RawArray<'_>) -> impl Iterator<Item = RawDocument<'_>> {
    array.iter().filter_map(|value| match value {
        Ok(RawValue::Document(document)) => Some(document),
        _ => None,
    })
}
