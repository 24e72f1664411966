//! The commands that hold credentials, whose content is hidden and not compressed; Python uses this list too.
//! Spec: command-logging-and-monitoring, OP_COMPRESSED.

/// Commands whose content is a secret, in lower case.
pub const SECRET_COMMANDS: &[&str] = &[
    "authenticate",
    "copydb",
    "copydbgetnonce",
    "copydbsaslstart",
    "createuser",
    "getnonce",
    "saslcontinue",
    "saslstart",
    "updateuser",
];

/// Returns whether a command of this name is always secret.
pub fn is_secret(name: &str) -> bool {
    SECRET_COMMANDS.iter().any(|secret| secret.eq_ignore_ascii_case(name))
}

/// Returns whether a command of this name is secret when it holds `speculativeAuthenticate`.
pub fn is_hello(name: &str) -> bool {
    name.eq_ignore_ascii_case("hello") || name.eq_ignore_ascii_case("ismaster")
}
