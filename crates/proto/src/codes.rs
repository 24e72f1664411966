//! The meanings of the server's error codes, one row each; every decision by a code uses this table, also in
//! Python.
//! Spec: server-discovery-and-monitoring, retryable-reads, retryable-writes, transactions.

/// The meanings of one code, as bits.
#[derive(Clone, Copy)]
struct Says(u8);

/// The server is not primary, or no longer.
const NOT_PRIMARY: Says = Says(1);
/// The server is recovering or changing state.
const RECOVERING: Says = Says(2);
/// The server is going away.
const SHUTTING_DOWN: Says = Says(4);
/// A read may be sent again; a bulk write stops after one of these errors.
const RETRYABLE: Says = Says(8);
/// The time ran out before the outcome of a commit was known.
const LATE: Says = Says(16);

impl Says {
    const fn and(self, other: Says) -> Says {
        Says(self.0 | other.0)
    }
}

#[rustfmt::skip]
const CODES: &[(i64, Says)] = &[
    (6, RETRYABLE),                                        // HostUnreachable
    (7, RETRYABLE),                                        // HostNotFound
    (50, LATE),                                            // MaxTimeMSExpired
    (64, LATE),                                            // WriteConcernFailed
    (89, RETRYABLE),                                       // NetworkTimeout
    (91, RETRYABLE.and(RECOVERING).and(SHUTTING_DOWN)),    // ShutdownInProgress
    (134, RETRYABLE),                                      // ReadConcernMajorityNotAvailableYet
    (189, RETRYABLE.and(RECOVERING)),                      // PrimarySteppedDown
    (262, RETRYABLE),                                      // ExceededTimeLimit
    (9001, RETRYABLE),                                     // SocketException
    (10058, NOT_PRIMARY),                                  // LegacyNotPrimary, of servers before 3.4
    (10107, RETRYABLE.and(NOT_PRIMARY)),                   // NotWritablePrimary
    (11600, RETRYABLE.and(RECOVERING).and(SHUTTING_DOWN)), // InterruptedAtShutdown
    (11602, RETRYABLE.and(RECOVERING)),                    // InterruptedDueToReplStateChange
    (13435, RETRYABLE.and(NOT_PRIMARY)),                   // NotPrimaryNoSecondaryOk
    (13436, RETRYABLE.and(RECOVERING)),                    // NotPrimaryOrSecondary
];

fn says(code: i64, any: Says) -> bool {
    CODES.iter().any(|&(number, said)| number == code && said.0 & any.0 != 0)
}

fn all(any: Says) -> impl Iterator<Item = i64> {
    CODES.iter().filter(move |(_, said)| said.0 & any.0 != 0).map(|&(number, _)| number)
}

/// Returns whether the server is no longer primary, or is recovering.
pub fn is_state_change(code: i64) -> bool {
    says(code, NOT_PRIMARY.and(RECOVERING))
}

/// Returns whether the server is going away.
pub fn is_shutdown(code: i64) -> bool {
    says(code, SHUTTING_DOWN)
}

/// Returns whether a read may be sent again.
pub fn is_retryable(code: i64) -> bool {
    says(code, RETRYABLE)
}

/// Returns whether a commit with this error may have succeeded.
pub fn is_commit_unknown(code: i64) -> bool {
    says(code, RETRYABLE.and(LATE))
}

/// Returns the codes of [`is_state_change`].
pub fn state_changes() -> impl Iterator<Item = i64> {
    all(NOT_PRIMARY.and(RECOVERING))
}

/// Returns the codes of [`is_retryable`].
pub fn retryable() -> impl Iterator<Item = i64> {
    all(RETRYABLE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_says_what_the_specifications_list() {
        let listed: Vec<i64> = state_changes().collect();
        assert_eq!(listed, [91, 189, 10058, 10107, 11600, 11602, 13435, 13436]);
        let listed: Vec<i64> = retryable().collect();
        assert_eq!(listed, [6, 7, 89, 91, 134, 189, 262, 9001, 10107, 11600, 11602, 13435, 13436]);
        let listed: Vec<i64> = all(SHUTTING_DOWN).collect();
        assert_eq!(listed, [91, 11600]);
        let listed: Vec<i64> =
            (0..20_000).filter(|&code| is_commit_unknown(code) && !is_retryable(code)).collect();
        assert_eq!(listed, [50, 64]);
    }

    #[test]
    fn every_code_has_one_row() {
        assert!(CODES.is_sorted_by(|(one, _), (next, _)| one < next));
    }
}
