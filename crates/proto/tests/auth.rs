//! Whole authentications against a server built from the same hash functions, and against servers that lie.

use std::fmt::Debug;

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use hmac::{Hmac, KeyInit, Mac};
use mangonel_bson::{self as bson, RawDocument};
use mangonel_proto::auth::scram::KeyCache;
use mangonel_proto::auth::{AuthError, Authentication, Credential, Mechanism, Secret, Step};
use sha2::{Digest, Sha256};

const NONCE: [u8; 24] = [7; 24];

fn credential(mechanism: Option<Mechanism>) -> Credential {
    Credential {
        username: Some("ada".to_owned()),
        password: Some(Secret::new("engine-no-1")),
        source: "admin".to_owned(),
        mechanism,
    }
}

fn build(fill: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut out = Vec::new();
    let start = bson::begin_document(&mut out);
    fill(&mut out);
    bson::end_document(&mut out, start);
    out
}

fn document(bytes: &[u8]) -> RawDocument<'_> {
    RawDocument::from_bytes(bytes).unwrap()
}

fn sasl_reply(payload: &[u8], is_done: bool) -> Vec<u8> {
    build(|out| {
        bson::append_i32(out, "conversationId", 3);
        bson::append_bool(out, "done", is_done);
        bson::append_binary(out, "payload", 0, payload);
        bson::append_double(out, "ok", 1.0);
    })
}

fn hello_reply(speculative: Option<&[u8]>, mechanisms: &[&str]) -> Vec<u8> {
    build(|out| {
        let array = bson::begin_array(out, "saslSupportedMechs");
        for (index, name) in mechanisms.iter().enumerate() {
            bson::append_str(out, &index.to_string(), name);
        }
        bson::end_document(out, array);
        if let Some(answer) = speculative {
            bson::append_raw_document(out, "speculativeAuthenticate", document(answer));
        }
        bson::append_i32(out, "ok", 1);
    })
}

/// The server's side of SCRAM-SHA-256.
struct Server {
    first_bare: String,
    first: String,
}

impl Server {
    const SALT: &[u8] = b"sea salt";
    const ROUNDS: u32 = 5000;

    fn first(client_first: &[u8]) -> (Server, Vec<u8>) {
        let message = std::str::from_utf8(client_first).unwrap();
        let bare = message.strip_prefix("n,,").unwrap();
        let nonce = bare.split_once("r=").unwrap().1;
        let first = format!("r={nonce}SERVER,s={},i={}", BASE64.encode(Self::SALT), Self::ROUNDS);
        let reply = sasl_reply(first.as_bytes(), false);
        (Server { first_bare: bare.to_owned(), first }, reply)
    }

    /// Checks the client's proof and returns the server's signature.
    fn last(&self, client_last: &[u8], password: &str) -> Vec<u8> {
        let hmac = |key: &[u8], message: &[u8]| {
            Hmac::<Sha256>::new_from_slice(key).unwrap().chain_update(message).finalize().into_bytes()
        };
        let message = std::str::from_utf8(client_last).unwrap();
        let (without_proof, proof) = message.split_once(",p=").unwrap();
        let salted = pbkdf2::pbkdf2_hmac_array::<Sha256, 32>(password.as_bytes(), Self::SALT, Self::ROUNDS);
        let auth_message = format!("{},{},{without_proof}", self.first_bare, self.first);
        let stored_key = Sha256::digest(hmac(&salted, b"Client Key"));
        let signature = hmac(&stored_key, auth_message.as_bytes());
        let client_key: Vec<u8> =
            BASE64.decode(proof).unwrap().iter().zip(signature).map(|(a, b)| a ^ b).collect();
        assert_eq!(Sha256::digest(&client_key), stored_key, "the client does not know the password");
        let signature = hmac(&hmac(&salted, b"Server Key"), auth_message.as_bytes());
        format!("v={}", BASE64.encode(signature)).into_bytes()
    }
}

fn payload_of(command: &[u8]) -> Vec<u8> {
    document(command).get_binary("payload").unwrap().unwrap().bytes.to_vec()
}

fn sent(authentication: &Authentication) -> Vec<u8> {
    match authentication.poll_step() {
        Some(Step::Send { command, .. }) => command.to_vec(),
        other => panic!("expected a command, got {other:?}"),
    }
}

fn give_keys(authentication: &mut Authentication) {
    let Some(Step::Derive(request)) = authentication.poll_step() else { panic!("expected a wish for keys") };
    let keys = request.derive();
    authentication.handle_keys(&keys);
}

fn assert_done(authentication: &Authentication) {
    assert!(matches!(authentication.poll_step(), Some(Step::Done)), "{authentication:?}");
}

fn assert_failed<T: Debug>(authentication: &Authentication, result: Result<T, AuthError>, error: AuthError) {
    assert_eq!(result.unwrap_err(), error);
    assert!(authentication.poll_step().is_none(), "a failed authentication has nothing more to send");
}

/// Lets hello carry the first message, and returns the server that answered it.
fn speculate(authentication: &mut Authentication) -> Server {
    let hello = build(|out| authentication.append_to_hello(out));
    let speculative = document(&hello).get_document("speculativeAuthenticate").unwrap().unwrap();
    assert_eq!(speculative.get_str("db").unwrap(), Some("admin"));
    let (server, reply) = Server::first(&payload_of(speculative.as_bytes()));
    let reply = hello_reply(Some(&reply), &["SCRAM-SHA-1", "SCRAM-SHA-256"]);
    authentication.handle_hello(document(&reply)).unwrap();
    server
}

#[test]
fn hello_carries_the_first_message_so_that_one_command_is_enough() {
    let mut authentication = Authentication::new(credential(None), NONCE).unwrap();
    assert!(authentication.poll_step().is_none());
    let hello = build(|out| authentication.append_to_hello(out));
    assert_eq!(document(&hello).get_str("saslSupportedMechs").unwrap(), Some("admin.ada"));
    let server = speculate(&mut authentication);
    give_keys(&mut authentication);
    let command = sent(&authentication);
    assert_eq!(document(&command).get_i64_lenient("conversationId").unwrap(), Some(3));
    let signature = server.last(&payload_of(&command), "engine-no-1");
    authentication.handle_reply(document(&sasl_reply(&signature, true))).unwrap();
    assert_done(&authentication);
    assert_eq!(authentication.mechanism(), Some(Mechanism::ScramSha256));
}

#[test]
fn a_server_that_ignores_the_first_message_gets_a_whole_conversation() {
    let mut authentication = Authentication::new(credential(Some(Mechanism::ScramSha256)), NONCE).unwrap();
    let hello = build(|out| authentication.append_to_hello(out));
    assert_eq!(document(&hello).get_str("saslSupportedMechs").unwrap(), None);
    authentication.handle_hello(document(&hello_reply(None, &[]))).unwrap();
    let (server, reply) = Server::first(&payload_of(&sent(&authentication)));
    authentication.handle_reply(document(&reply)).unwrap();
    give_keys(&mut authentication);
    let signature = server.last(&payload_of(&sent(&authentication)), "engine-no-1");
    // This server does not skip the empty exchange.
    authentication.handle_reply(document(&sasl_reply(&signature, false))).unwrap();
    assert_eq!(payload_of(&sent(&authentication)), b"");
    authentication.handle_reply(document(&sasl_reply(b"", true))).unwrap();
    assert_done(&authentication);
}

#[test]
fn a_user_without_sha_256_gets_sha_1() {
    let mut authentication = Authentication::new(credential(None), NONCE).unwrap();
    authentication.handle_hello(document(&hello_reply(None, &["SCRAM-SHA-1"]))).unwrap();
    let command = sent(&authentication);
    assert_eq!(document(&command).get_str("mechanism").unwrap(), Some("SCRAM-SHA-1"));
    assert_eq!(authentication.mechanism(), Some(Mechanism::ScramSha1));
}

#[test]
fn a_password_only_sha_1_can_take_does_not_stop_a_user_of_sha_1() {
    let odd = Credential { password: Some(Secret::new("bell\u{7}")), ..credential(None) };
    let mut authentication = Authentication::new(odd.clone(), NONCE).unwrap();
    let hello = build(|out| authentication.append_to_hello(out));
    assert!(document(&hello).get_document("speculativeAuthenticate").unwrap().is_none());
    authentication.handle_hello(document(&hello_reply(None, &["SCRAM-SHA-1"]))).unwrap();
    assert_eq!(document(&sent(&authentication)).get_str("mechanism").unwrap(), Some("SCRAM-SHA-1"));

    let explicit = Credential { mechanism: Some(Mechanism::ScramSha256), ..odd };
    assert_eq!(Authentication::new(explicit, NONCE).unwrap_err(), AuthError::PasswordCharacters);
}

#[test]
fn a_server_that_does_not_know_the_password_is_not_believed() {
    let mut authentication = Authentication::new(credential(None), NONCE).unwrap();
    speculate(&mut authentication);
    give_keys(&mut authentication);
    let forged = format!("v={}", BASE64.encode([0; 32]));
    let result = authentication.handle_reply(document(&sasl_reply(forged.as_bytes(), true)));
    assert_failed(&authentication, result, AuthError::ServerSignature);
}

#[test]
fn a_server_that_ends_early_is_not_believed() {
    let mut authentication = Authentication::new(credential(None), NONCE).unwrap();
    let hello = build(|out| authentication.append_to_hello(out));
    let speculative = document(&hello).get_document("speculativeAuthenticate").unwrap().unwrap();
    let payload = payload_of(speculative.as_bytes());
    let nonce = std::str::from_utf8(&payload).unwrap().split_once("r=").unwrap().1;
    let first = format!("r={nonce}x,s=AAAA,i=5000");
    let reply = hello_reply(Some(&sasl_reply(first.as_bytes(), true)), &[]);
    let result = authentication.handle_hello(document(&reply));
    assert_failed(&authentication, result, AuthError::Unproven);
}

#[test]
fn a_refusal_carries_the_servers_code_and_words() {
    let mut authentication = Authentication::new(credential(None), NONCE).unwrap();
    speculate(&mut authentication);
    give_keys(&mut authentication);
    let refusal = build(|out| {
        bson::append_double(out, "ok", 0.0);
        bson::append_str(out, "errmsg", "Authentication failed.");
        bson::append_i32(out, "code", 18);
    });
    let result = authentication.handle_reply(document(&refusal));
    let error = AuthError::Refused { code: Some(18), message: "Authentication failed.".to_owned() };
    assert_failed(&authentication, result, error);
}

#[test]
fn a_certificate_is_shown_inside_hello_or_by_a_command() {
    let credential = Credential {
        username: None,
        password: None,
        source: "$external".to_owned(),
        mechanism: Some(Mechanism::X509),
    };
    let mut authentication = Authentication::new(credential.clone(), NONCE).unwrap();
    let hello = build(|out| authentication.append_to_hello(out));
    let speculative = document(&hello).get_document("speculativeAuthenticate").unwrap().unwrap();
    assert_eq!(speculative.get_str("mechanism").unwrap(), Some("MONGODB-X509"));
    assert_eq!(speculative.get_str("user").unwrap(), None);
    let answer = build(|out| bson::append_str(out, "user", "CN=ada"));
    authentication.handle_hello(document(&hello_reply(Some(&answer), &[]))).unwrap();
    assert_done(&authentication);

    let mut authentication = Authentication::new(credential, NONCE).unwrap();
    authentication.handle_hello(document(&hello_reply(None, &[]))).unwrap();
    match authentication.poll_step() {
        Some(Step::Send { database, command }) => {
            assert_eq!(database, "$external");
            assert_eq!(document(command).get_i64_lenient("authenticate").unwrap(), Some(1));
        }
        other => panic!("{other:?}"),
    }
    authentication.handle_reply(document(&build(|out| bson::append_i32(out, "ok", 1)))).unwrap();
    assert_done(&authentication);
}

#[test]
fn plain_sends_name_and_password_once_and_never_inside_hello() {
    let plain = Credential { source: "$external".to_owned(), ..credential(Some(Mechanism::Plain)) };
    let mut authentication = Authentication::new(plain, NONCE).unwrap();
    assert_eq!(build(|out| authentication.append_to_hello(out)).len(), 5);
    authentication.handle_hello(document(&hello_reply(None, &[]))).unwrap();
    assert_eq!(payload_of(&sent(&authentication)), b"\0ada\0engine-no-1");
    authentication.handle_reply(document(&sasl_reply(b"", true))).unwrap();
    assert_done(&authentication);
}

#[test]
fn what_a_mechanism_needs_is_named_when_it_is_missing() {
    let nameless = Credential { username: None, ..credential(Some(Mechanism::ScramSha1)) };
    let error = Authentication::new(nameless, NONCE).unwrap_err();
    assert_eq!(error.to_string(), "expected a username for SCRAM-SHA-1, got none");
    let open = Credential { password: None, ..credential(Some(Mechanism::Plain)) };
    let mut authentication = Authentication::new(open, NONCE).unwrap();
    let result = authentication.handle_hello(document(&hello_reply(None, &[])));
    assert_failed(&authentication, result, AuthError::Missing { what: "password", mechanism: "PLAIN" });
}

#[test]
fn authentication_can_be_repeated_without_hello() {
    let mut first = Authentication::new(credential(None), NONCE).unwrap();
    speculate(&mut first);
    let mechanism = first.mechanism().unwrap();
    let mut again = Authentication::again(credential(None), mechanism, NONCE, None).unwrap();
    let (server, reply) = Server::first(&payload_of(&sent(&again)));
    again.handle_reply(document(&reply)).unwrap();
    give_keys(&mut again);
    let signature = server.last(&payload_of(&sent(&again)), "engine-no-1");
    again.handle_reply(document(&sasl_reply(&signature, true))).unwrap();
    assert_done(&again);
}

#[test]
fn a_second_connection_finds_its_keys_in_the_cache() {
    let mut cache = KeyCache::default();
    for is_known in [false, true] {
        let mut authentication = Authentication::new(credential(None), NONCE).unwrap();
        let server = speculate(&mut authentication);
        let Some(Step::Derive(request)) = authentication.poll_step() else { panic!("no wish for keys") };
        let id = request.id();
        assert_eq!(cache.find(id).is_some(), is_known);
        let keys = cache.find(id).cloned().unwrap_or_else(|| request.derive());
        authentication.handle_keys(&keys);
        cache.keep(id, keys);
        let signature = server.last(&payload_of(&sent(&authentication)), "engine-no-1");
        authentication.handle_reply(document(&sasl_reply(&signature, true))).unwrap();
        assert_done(&authentication);
    }
}

#[test]
fn no_password_is_ever_printed() {
    let bytes = format!("{:?}", b"engine-no-1").trim_matches(['[', ']']).to_owned();
    for mechanism in [Mechanism::ScramSha1, Mechanism::ScramSha256, Mechanism::Plain] {
        let mut authentication = Authentication::new(credential(Some(mechanism)), NONCE).unwrap();
        let mut printed = format!("{authentication:?}");
        authentication.handle_hello(document(&hello_reply(None, &[]))).unwrap();
        printed += &format!("{authentication:?} {:?}", credential(Some(mechanism)));
        printed += &format!("{:?}", authentication.poll_step());
        assert!(!printed.contains("engine-no-1") && !printed.contains(&bytes), "{printed}");
    }
}
