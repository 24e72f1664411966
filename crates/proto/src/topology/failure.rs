//! Errors of operations and their consequences for the server. Changes nothing; see [`super::Topology`].
//! Spec: server-discovery-and-monitoring, "Error handling"; client-backpressure.

use mangonel_bson::{ObjectId, RawDocument, RawValue};

use super::address::Address;
use super::description::TopologyVersion;
use crate::codes;

/// The label of an overloaded server's errors; servers and the pool add it.
pub const SYSTEM_OVERLOADED_ERROR: &str = "SystemOverloadedError";

/// The phase of a connection at the time of an error.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Phase {
    /// Connecting, saying hello or authenticating.
    BeforeHandshake,
    /// Working for the application.
    AfterHandshake,
}

/// The cause of an error.
#[derive(Clone, Copy, Debug)]
pub enum Cause<'a> {
    /// The connection broke, or could not be opened.
    Network,
    /// A time limit passed.
    Timeout,
    /// The server refused the credentials, or its answer could not be trusted.
    Auth,
    /// The server replied with an error, or with a result and a write concern error.
    Reply(RawDocument<'a>),
}

/// An operation's error, with the facts that decide whether it still matters.
#[derive(Clone, Copy, Debug)]
pub struct ApplicationError<'a> {
    /// The server of the connection.
    pub address: &'a Address,
    /// What went wrong.
    pub cause: Cause<'a>,
    /// The phase of the connection.
    pub phase: Phase,
    /// Whether it carries the label [`SYSTEM_OVERLOADED_ERROR`], as errors of a connection being opened do. The labels
    /// of a reply are checked too.
    pub is_overload: bool,
    /// The generation of the connection.
    pub generation: u64,
    /// The current generation of the pool; behind a load balancer, of the connection's service.
    pub pool_generation: u64,
    /// Behind a load balancer: the service, once the connection has received its hello reply.
    pub service_id: Option<ObjectId>,
    /// The error in words, kept as the server's error.
    pub message: &'a str,
}

/// The consequence of an error for its server.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Verdict {
    /// None.
    Ignore,
    /// It stepped down or is recovering; its pool stays, unless it shuts down.
    StateChange { is_shutdown: bool, topology_version: Option<TopologyVersion> },
    /// It cannot be reached.
    Lost,
}

impl ApplicationError<'_> {
    /// Judges the error alone, without knowing how old it is.
    pub(super) fn verdict(&self) -> Verdict {
        if self.is_overload {
            return Verdict::Ignore;
        }
        match (self.cause, self.phase) {
            (Cause::Network, _) | (Cause::Timeout | Cause::Auth, Phase::BeforeHandshake) => Verdict::Lost,
            // A slow operation tells nothing about the server.
            (Cause::Timeout | Cause::Auth, Phase::AfterHandshake) => Verdict::Ignore,
            (Cause::Reply(reply), phase) => judge_reply(reply, phase),
        }
    }

    /// Returns the topology version in the reply.
    pub(super) fn topology_version(&self) -> Option<TopologyVersion> {
        match self.cause {
            Cause::Reply(reply) => topology_version(reply),
            _ => None,
        }
    }
}

fn topology_version(reply: RawDocument<'_>) -> Option<TopologyVersion> {
    reply.get_document("topologyVersion").ok()?.and_then(TopologyVersion::from_document)
}

fn judge_reply(reply: RawDocument<'_>, phase: Phase) -> Verdict {
    if has_label(reply, SYSTEM_OVERLOADED_ERROR) {
        return Verdict::Ignore;
    }
    let is_ok = reply.get_bool_lenient("ok").ok().flatten().unwrap_or(false);
    // A write error is one document's fault and says nothing about the server.
    let error = match is_ok {
        false => Some(reply),
        true => reply.get_document("writeConcernError").ok().flatten(),
    };
    let Some(error) = error else { return Verdict::Ignore };
    let code = error.get_i64_lenient("code").ok().flatten();
    let message = error.get_str("errmsg").ok().flatten().unwrap_or_default();
    if is_state_change(code, message) {
        let is_shutdown = code.is_some_and(codes::is_shutdown);
        return Verdict::StateChange { is_shutdown, topology_version: topology_version(reply) };
    }
    match phase {
        Phase::BeforeHandshake => Verdict::Lost,
        Phase::AfterHandshake => Verdict::Ignore,
    }
}

/// Returns whether an error means that the server is no longer primary, or is recovering. The message counts only if
/// there is no code.
pub fn is_state_change(code: Option<i64>, message: &str) -> bool {
    match code {
        Some(code) => codes::is_state_change(code),
        None => message.contains("not master") || message.contains("node is recovering"),
    }
}

fn has_label(reply: RawDocument<'_>, wanted: &str) -> bool {
    let labels = reply.get_array("errorLabels").ok().flatten();
    labels.is_some_and(|labels| {
        labels.iter().flatten().any(|label| matches!(label, RawValue::String(text) if text == wanted))
    })
}
