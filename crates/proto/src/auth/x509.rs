//! MONGODB-X509: the client's certificate in the TLS handshake names the user. Knows no connection.
//! Spec: auth, "MONGODB-X509".

use mangonel_bson as bson;

/// Appends the fields of the `authenticate` command. Without a name, the server reads it from the certificate.
pub fn append_command(out: &mut Vec<u8>, username: Option<&str>) {
    bson::append_i32(out, "authenticate", 1);
    bson::append_str(out, "mechanism", "MONGODB-X509");
    if let Some(username) = username {
        bson::append_str(out, "user", username);
    }
}
