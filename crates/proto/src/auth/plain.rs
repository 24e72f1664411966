//! PLAIN: name and password in one message, safe only inside TLS. Knows no command and no connection.
//! Spec: auth, "PLAIN"; RFC 4616.

use super::Secret;

/// Returns the only message: no authorization identity, the name, the password.
pub fn message(username: &str, password: &Secret) -> Vec<u8> {
    format!("\0{username}\0{}", password.reveal()).into_bytes()
}
