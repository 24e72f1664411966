//! The facts of a reply that the driver itself needs: one pass over its top-level keys, nothing decoded for the user.
//! Spec: server-discovery-and-monitoring (cluster time), retryable-reads, retryable-writes (error labels).

use std::ops::Range;
use std::time::Duration;

use mangonel_bson::{RawDocument, RawValue};

use crate::error::ProtocolError;

/// A cursor in a server's reply. Ranges are offsets in the reply's body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CursorFacts {
    /// The server's id; 0 when there is nothing left to fetch.
    pub id: i64,
    /// Its namespace.
    pub namespace: Range<usize>,
    /// The array document of `firstBatch` or `nextBatch`.
    pub batch: Range<usize>,
    /// The resume token after this batch of a change stream.
    pub post_batch_resume_token: Option<Range<usize>>,
}

impl CursorFacts {
    /// Returns its namespace, `database.collection`, from the reply's body.
    pub fn namespace_in(&self, body: &[u8]) -> String {
        String::from_utf8_lossy(body.get(self.namespace.clone()).unwrap_or_default()).into_owned()
    }
}

/// The error labels that affect the core's decisions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Labels {
    /// `RetryableWriteError`: the same write may be sent again.
    pub is_retryable_write: bool,
    /// `RetryableError`: the server did nothing.
    pub is_retryable: bool,
    /// `SystemOverloadedError`: the server is overloaded.
    pub is_overloaded: bool,
    /// `NoWritesPerformed`: this attempt wrote nothing, so an earlier error is more informative.
    pub wrote_nothing: bool,
}

/// The facts of one reply.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Facts {
    /// Whether the command ran.
    pub ok: bool,
    /// The error code, of the command or of its write concern.
    pub code: Option<i64>,
    /// The code of a `writeConcernError`.
    pub write_concern_code: Option<i64>,
    /// Whether the command failed because the server is no longer primary, or is recovering; set by the
    /// exchange.
    pub is_state_change: bool,
    /// Whether a write or its write concern failed.
    pub has_write_errors: bool,
    /// The server's labels for the error.
    pub labels: Labels,
    /// The base of the waits that an overloaded server requests.
    pub base_backoff: Option<Duration>,
    /// The cursor, when the reply has one.
    pub cursor: Option<CursorFacts>,
    /// The range of `$clusterTime` in the body, a whole document.
    pub cluster_time: Option<Range<usize>>,
}

fn range(body: RawDocument<'_>, part: &[u8]) -> Range<usize> {
    // `part` borrows from `body`, so the distance of the two pointers is its offset.
    let start = part.as_ptr() as usize - body.as_bytes().as_ptr() as usize;
    start..start + part.len()
}

impl Facts {
    /// Reads the facts of a reply.
    ///
    /// # Errors
    /// When the reply is not valid BSON at its top level, or a cursor in it has no id or no batch.
    pub fn read(body: RawDocument<'_>) -> Result<Self, ProtocolError> {
        let mut facts = Facts::default();
        for field in body.fields() {
            match field? {
                (b"ok", value) => facts.ok = value.as_bool_lenient() == Some(true),
                (b"code", value) => facts.code = value.as_i64_lenient(),
                (b"cursor", RawValue::Document(cursor)) => facts.cursor = read_cursor(body, cursor)?,
                (b"$clusterTime", RawValue::Document(time)) => {
                    facts.cluster_time = Some(range(body, time.as_bytes()))
                }
                (b"writeErrors", _) => facts.has_write_errors = true,
                (b"writeConcernError", value) => {
                    facts.has_write_errors = true;
                    if let RawValue::Document(error) = value {
                        facts.write_concern_code = error.get("code")?.and_then(|code| code.as_i64_lenient());
                    }
                }
                (b"errorLabels", RawValue::Array(labels)) => {
                    for label in labels.iter() {
                        match label? {
                            RawValue::String("RetryableWriteError") => facts.labels.is_retryable_write = true,
                            RawValue::String("RetryableError") => facts.labels.is_retryable = true,
                            RawValue::String("SystemOverloadedError") => facts.labels.is_overloaded = true,
                            RawValue::String("NoWritesPerformed") => facts.labels.wrote_nothing = true,
                            _ => {}
                        }
                    }
                }
                (b"baseBackoffMS", value) => {
                    let milliseconds = value.as_i64_lenient().and_then(|value| u64::try_from(value).ok());
                    // Without a wait, refused clients would all retry at the same time.
                    facts.base_backoff = milliseconds.filter(|&value| value > 0).map(Duration::from_millis);
                }
                _ => {}
            }
        }
        Ok(facts)
    }
}

fn read_cursor(body: RawDocument<'_>, cursor: RawDocument<'_>) -> Result<Option<CursorFacts>, ProtocolError> {
    let (mut id, mut namespace, mut batch, mut token) = (None, 0..0, None, None);
    for field in cursor.fields() {
        match field? {
            (b"id", value) => id = value.as_i64_lenient(),
            (b"ns", RawValue::String(text)) => namespace = range(body, text.as_bytes()),
            (b"firstBatch" | b"nextBatch", RawValue::Array(documents)) => {
                batch = Some(range(body, documents.as_bytes()));
            }
            (b"postBatchResumeToken", RawValue::Document(document)) => {
                token = Some(range(body, document.as_bytes()));
            }
            _ => {}
        }
    }
    // A field of another command may be called "cursor" too; only one with a batch is a cursor.
    let Some(batch) = batch else { return Ok(None) };
    let id =
        id.ok_or_else(|| ProtocolError::new("expected an integer cursor.id beside its batch, got none"))?;
    Ok(Some(CursorFacts { id, namespace, batch, post_batch_resume_token: token }))
}
