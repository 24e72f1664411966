//! The handshake command and what its reply tells about a server.
//! Spec: mongodb-handshake.

use std::time::Duration;

use mangonel_bson::{RawDocument, RawValue, writer};

use crate::error::ProtocolError;

/// The wire versions this driver speaks: MongoDB 4.4 (9) up to what was current when it was written.
pub const MIN_WIRE_VERSION: i32 = 9;
/// See [`MIN_WIRE_VERSION`].
pub const MAX_WIRE_VERSION: i32 = 29;

/// What a server said about itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hello {
    /// The highest wire version it speaks.
    pub max_wire_version: i32,
    /// The lowest wire version it speaks.
    pub min_wire_version: i32,
    /// The largest document it stores, in bytes.
    pub max_bson_object_size: usize,
    /// The largest message it takes, in bytes.
    pub max_message_size: usize,
    /// The most writes it takes in one command.
    pub max_write_batch_size: usize,
    /// How long it keeps an idle session; `None` when it has no sessions.
    pub session_timeout: Option<Duration>,
    /// The replica set it belongs to.
    pub set_name: Option<String>,
    /// Whether it is a mongos.
    pub is_mongos: bool,
    /// Whether it takes writes.
    pub is_writable: bool,
    /// Whether it is a secondary of its replica set.
    pub is_secondary: bool,
    /// Its number for this connection.
    pub connection_id: Option<i64>,
}

impl Hello {
    /// Reads the reply to a handshake.
    ///
    /// # Errors
    /// When it is not valid BSON.
    pub fn read(reply: RawDocument<'_>) -> Result<Self, ProtocolError> {
        let mut hello = Hello {
            max_wire_version: 0,
            min_wire_version: 0,
            max_bson_object_size: 16 * 1024 * 1024,
            max_message_size: 48_000_000,
            max_write_batch_size: 100_000,
            session_timeout: None,
            set_name: None,
            is_mongos: false,
            is_writable: false,
            is_secondary: false,
            connection_id: None,
        };
        let size = |value: RawValue<'_>, default| {
            value.as_i64_lenient().and_then(|size| usize::try_from(size).ok()).unwrap_or(default)
        };
        for element in reply.iter() {
            let element = element?;
            let value = element.value;
            match element.key {
                "maxWireVersion" => hello.max_wire_version = value.as_i64_lenient().unwrap_or(0) as i32,
                "minWireVersion" => hello.min_wire_version = value.as_i64_lenient().unwrap_or(0) as i32,
                "maxBsonObjectSize" => hello.max_bson_object_size = size(value, hello.max_bson_object_size),
                "maxMessageSizeBytes" => hello.max_message_size = size(value, hello.max_message_size),
                "maxWriteBatchSize" => hello.max_write_batch_size = size(value, hello.max_write_batch_size),
                "logicalSessionTimeoutMinutes" => {
                    hello.session_timeout = value
                        .as_i64_lenient()
                        .and_then(|m| u64::try_from(m).ok())
                        .map(|m| Duration::from_secs(60 * m));
                }
                "setName" => hello.set_name = text(value).map(str::to_owned),
                "msg" => hello.is_mongos = text(value) == Some("isdbgrid"),
                "isWritablePrimary" | "ismaster" => {
                    hello.is_writable = matches!(value, RawValue::Boolean(true))
                }
                "secondary" => hello.is_secondary = matches!(value, RawValue::Boolean(true)),
                "connectionId" => hello.connection_id = value.as_i64_lenient(),
                _ => {}
            }
        }
        Ok(hello)
    }

    /// Returns whether a write may carry a transaction number, so that it can be sent again.
    pub fn supports_retryable_writes(&self) -> bool {
        self.session_timeout.is_some() && (self.is_mongos || self.set_name.is_some())
    }
}

fn text(value: RawValue<'_>) -> Option<&str> {
    match value {
        RawValue::String(text) => Some(text),
        _ => None,
    }
}

/// Appends the handshake command to `out`. `metadata`: the `client` document.
pub fn write_hello(out: &mut Vec<u8>, metadata: RawDocument<'_>, uses_server_api: bool) {
    let start = writer::begin_document(out);
    // The legacy name is understood by every server; the reply's helloOk says when the new one is.
    writer::append_i32(out, if uses_server_api { "hello" } else { "isMaster" }, 1);
    writer::append_bool(out, "helloOk", true);
    writer::append_raw_document(out, "client", metadata);
    writer::append_str(out, "$db", "admin");
    writer::end_document(out, start);
}
