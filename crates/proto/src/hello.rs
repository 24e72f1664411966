//! The hello commands of handshakes, monitors and pingers, and the authentication commands after a hello.
//! [`crate::topology::ServerDescription`] reads the replies. Spec: mongodb-handshake, server-monitoring.

use mangonel_bson::{RawDocument, writer};

use crate::error::ProtocolError;
use crate::message::{Command, Replies};
use crate::options::ClientOptions;
use crate::topology::HelloRequest;

/// The version of client-backpressure that this driver follows; a string, as mongodb-handshake requires.
const BACKPRESSURE: &str = "2";

/// Returns the requested hello, stamped and ready to be sent.
///
/// `hello_ok`: whether the server is known to understand the command under its new name. `extras` appends further
/// fields for a connection that runs operations: authentication and compression.
///
/// # Errors
/// When the client's metadata is no BSON document.
pub fn hello_command(
    options: &ClientOptions,
    request: HelloRequest,
    hello_ok: bool,
    request_id: i32,
    extras: impl FnOnce(&mut Vec<u8>),
) -> Result<Command, ProtocolError> {
    let mut head = Command::begin();
    let start = writer::begin_document(&mut head);
    let api = RawDocument::from_bytes(&options.server_api).ok();
    // Servers before 4.4.2 know only the legacy name; newer ones reply with `helloOk`.
    let is_load_balanced = options.topology.is_load_balanced;
    let is_new_name_known = hello_ok || api.is_some() || is_load_balanced;
    writer::append_i32(&mut head, if is_new_name_known { "hello" } else { "isMaster" }, 1);
    writer::append_bool(&mut head, "helloOk", true);
    if is_load_balanced {
        writer::append_bool(&mut head, "loadBalanced", true);
    }
    let mut replies = Replies::One;
    match request {
        HelloRequest::Handshake => {
            writer::append_str(&mut head, "backpressure", BACKPRESSURE);
            let metadata = RawDocument::from_bytes(&options.metadata)?;
            writer::append_raw_document(&mut head, "client", metadata);
        }
        HelloRequest::Poll => {}
        HelloRequest::Await { topology_version, max_await_time } => {
            replies = Replies::Exhaust;
            let version = writer::begin_subdocument(&mut head, "topologyVersion");
            writer::append_object_id(&mut head, "processId", topology_version.process_id);
            writer::append_i64(&mut head, "counter", topology_version.counter);
            writer::end_document(&mut head, version);
            let milliseconds = i64::try_from(max_await_time.as_millis()).unwrap_or(i64::MAX);
            writer::append_i64(&mut head, "maxAwaitTimeMS", milliseconds);
        }
    }
    extras(&mut head);
    finish(options, head, start, "admin", replies, request_id)
}

/// Returns an authentication command, stamped and ready to be sent.
///
/// # Errors
/// When `body` is no BSON document.
pub fn auth_command(
    options: &ClientOptions,
    database: &str,
    body: &[u8],
    request_id: i32,
) -> Result<Command, ProtocolError> {
    let mut head = Command::begin();
    let start = writer::begin_document(&mut head);
    append_elements(&mut head, body)?;
    finish(options, head, start, database, Replies::One, request_id)
}

/// Appends the fields of every command, and stamps it.
fn finish(
    options: &ClientOptions,
    mut head: Vec<u8>,
    start: usize,
    database: &str,
    replies: Replies,
    request_id: i32,
) -> Result<Command, ProtocolError> {
    if !options.server_api.is_empty() {
        append_elements(&mut head, &options.server_api)?;
    }
    writer::append_str(&mut head, "$db", database);
    writer::end_document(&mut head, start);
    let mut command = Command::new(head, Vec::new())?;
    command.stamp(request_id, replies, |_| {});
    Ok(command)
}

fn append_elements(out: &mut Vec<u8>, document: &[u8]) -> Result<(), ProtocolError> {
    for element in RawDocument::from_bytes(document)?.iter() {
        let element = element?;
        writer::append_value(out, element.key, element.value);
    }
    Ok(())
}
