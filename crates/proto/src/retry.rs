//! Which failures let a command be sent a second time.
//! Spec: retryable-reads, retryable-writes.

use crate::operation::Kind;
use crate::reply::Facts;

/// Codes after which a read may be sent again.
const RETRYABLE_READ_CODES: &[i64] = &[
    6,     // HostUnreachable
    7,     // HostNotFound
    89,    // NetworkTimeout
    91,    // ShutdownInProgress
    134,   // ReadConcernMajorityNotAvailableYet
    189,   // PrimarySteppedDown
    262,   // ExceededTimeLimit
    9001,  // SocketException
    10107, // NotWritablePrimary
    11600, // InterruptedAtShutdown
    11602, // InterruptedDueToReplStateChange
    13435, // NotPrimaryNoSecondaryOk
    13436, // NotPrimaryOrSecondary
];

/// Whether the command may be sent again after the line broke under it.
pub fn after_network_error(kind: Kind, retry_reads: bool, retry_writes: bool) -> bool {
    match kind {
        Kind::Read => retry_reads,
        Kind::RetryableWrite => retry_writes,
        Kind::ReadOnce | Kind::Write => false,
    }
}

/// Whether the command may be sent again after this reply. A server of 4.4 or newer labels the writes that may.
pub fn after_reply(kind: Kind, facts: &Facts, retry_reads: bool, retry_writes: bool) -> bool {
    match kind {
        Kind::Read => {
            retry_reads && !facts.ok && facts.code.is_some_and(|code| RETRYABLE_READ_CODES.contains(&code))
        }
        Kind::RetryableWrite => retry_writes && facts.is_labelled_retryable,
        Kind::ReadOnce | Kind::Write => false,
    }
}
