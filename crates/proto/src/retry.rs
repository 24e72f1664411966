//! Which failures let a command be sent a second time, and how long to wait first.
//! Spec: retryable-reads, retryable-writes, client-backpressure.

use std::time::Duration;

use crate::codes;
use crate::operation::Kind;
use crate::options::ClientOptions;
use crate::reply::Facts;

/// Half of the longest first wait for an overloaded server, unless the server sends another base.
const BASE_BACKOFF: Duration = Duration::from_millis(100);

/// The longest wait for an overloaded server.
const LONGEST_BACKOFF: Duration = Duration::from_secs(10);

/// The kind of retry that a reply allows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Again {
    /// None: the reply is the result.
    No,
    /// Another attempt, if the rules for this kind of command allow it.
    Now,
    /// Another attempt for any command, after a wait: the overloaded server did nothing.
    AfterBackoff,
}

/// Whether the command may be sent again after the connection broke under it.
pub fn after_network_error(kind: Kind, options: &ClientOptions) -> bool {
    match kind {
        Kind::Read => options.retry_reads,
        Kind::RetryableWrite => options.retry_writes,
        Kind::Commit | Kind::Abort => true,
        Kind::ReadOnce | Kind::Write | Kind::Selection | Kind::Command => false,
    }
}

/// Whether the command may be sent again after an attempt that certainly did nothing: no connection could be opened, or
/// the server was overloaded. Any command may, unless the user turned retries off.
pub fn after_nothing_done(kind: Kind, options: &ClientOptions) -> bool {
    match kind {
        Kind::Read | Kind::ReadOnce => options.retry_reads,
        Kind::RetryableWrite | Kind::Write | Kind::Selection => options.retry_writes,
        Kind::Command => options.retry_reads && options.retry_writes,
        Kind::Commit | Kind::Abort => true,
    }
}

/// Whether the command may be sent again after this reply. Servers since 4.4 label the writes that may.
pub fn after_reply(kind: Kind, facts: &Facts, options: &ClientOptions) -> Again {
    let labels = facts.labels;
    if labels.is_overloaded && labels.is_retryable {
        return if after_nothing_done(kind, options) { Again::AfterBackoff } else { Again::No };
    }
    let may = match kind {
        Kind::Read => options.retry_reads && !facts.ok && facts.code.is_some_and(codes::is_retryable),
        Kind::RetryableWrite => options.retry_writes && labels.is_retryable_write,
        Kind::Commit | Kind::Abort => labels.is_retryable_write,
        Kind::ReadOnce | Kind::Write | Kind::Selection | Kind::Command => false,
    };
    if may { Again::Now } else { Again::No }
}

/// Returns how long to wait before the given retry, 1 for the first.
///
/// `base`: the server's `baseBackoffMS`; it is doubled for each retry, the first included. `chance`: a random number
/// that selects a fraction of the longest wait, so that clients refused together do not retry together.
pub fn backoff(retry: u32, base: Option<Duration>, chance: u64) -> Duration {
    let doubled = base.unwrap_or(BASE_BACKOFF).saturating_mul(1 << retry.min(30));
    doubled.min(LONGEST_BACKOFF).mul_f64((chance >> 11) as f64 / (1u64 << 53) as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_wait_doubles_up_to_ten_seconds() {
        let longest = |retry| backoff(retry, None, u64::MAX).as_millis();
        assert_eq!([1, 2, 3, 7, 40].map(longest), [200, 400, 800, 10_000, 10_000]);
    }

    #[test]
    fn a_server_names_the_base_of_its_waits() {
        assert_eq!(backoff(1, Some(Duration::from_millis(400)), 1 << 63), Duration::from_millis(400));
    }
}
