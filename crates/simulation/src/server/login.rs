//! Users: SCRAM as a server does it, with arithmetic of its own. There is one user, whom every member knows, or none.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::OnceLock;

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use hmac::{Hmac, KeyInit, Mac};
use mangonel_bson::{RawDocument, writer};
use mangonel_proto::auth::Secret;
use mangonel_proto::auth::scram::Hash;
use sha1::Sha1;
use sha2::{Digest, Sha256};

use super::set::Set;
use crate::wire::{Request, append_document, append_strings};

/// The user's name.
pub const USER: &str = "ada";
/// The user's password.
pub const PASSWORD: &str = "engine, analytical";
/// `AuthenticationFailed`.
pub(crate) const AUTHENTICATION_FAILED: i64 = 18;
/// `Unauthorized`.
pub(crate) const UNAUTHORIZED: i64 = 13;

const SALT: &[u8] = b"of the simulated";
const ITERATIONS: u32 = 4096;

/// How far a connection has come.
enum Progress {
    /// The client has said its first message.
    Begun { hash: Hash, client_first: String, server_first: String },
    /// The user is in.
    Done,
}

/// The logins of all connections of a set.
#[derive(Default)]
pub struct Logins {
    /// Whether there is a user, so that commands need one.
    pub is_required: bool,
    /// Whether hello answers the first message inside of it.
    pub is_speculative: bool,
    /// How many logins were refused although the user was right.
    pub refusals: u64,
    lines: BTreeMap<usize, Progress>,
    nonces: BTreeSet<String>,
}

impl Logins {
    /// Whether a connection may send commands.
    pub fn is_in(&self, line: usize) -> bool {
        !self.is_required || matches!(self.lines.get(&line), Some(Progress::Done))
    }

    /// Takes the client's first message; returns the answer, `None` when it cannot be read.
    fn begin(&mut self, line: usize, start: RawDocument<'_>, complaints: &mut Vec<String>) -> Option<String> {
        let hash = match start.get_str("mechanism").ok()?? {
            "SCRAM-SHA-1" => Hash::Sha1,
            "SCRAM-SHA-256" => Hash::Sha256,
            _ => return None,
        };
        let payload = start.get_binary("payload").ok()??;
        let client_first = std::str::from_utf8(payload.bytes).ok()?.strip_prefix("n,,")?.to_owned();
        let nonce = client_first.strip_prefix(&format!("n={USER},r="))?.to_owned();
        let server_first = format!("r={nonce}{line:08},s={},i={ITERATIONS}", BASE64.encode(SALT));
        if !self.nonces.insert(nonce) {
            complaints.push("a nonce was used twice".into());
        }
        let begun = Progress::Begun { hash, client_first, server_first: server_first.clone() };
        self.lines.insert(line, begun);
        Some(server_first)
    }

    /// Takes the client's proof; returns the server's, `None` when it is wrong.
    fn prove(&mut self, line: usize, payload: &[u8], complaints: &mut Vec<String>) -> Option<String> {
        let Some(Progress::Begun { hash, client_first, server_first }) = self.lines.remove(&line) else {
            return None;
        };
        let message = std::str::from_utf8(payload).ok()?;
        let (without_proof, proof) = message.split_once(",p=")?;
        let nonce = server_first.split(',').next()?;
        if without_proof != format!("c=biws,{nonce}") {
            return None;
        }
        let keys = keys(hash);
        let said = format!("{client_first},{server_first},{without_proof}");
        let signature = mac(hash, &keys.stored, said.as_bytes());
        let proof = BASE64.decode(proof).ok()?;
        let client_key: Vec<u8> = proof.iter().zip(&signature).map(|(one, other)| one ^ other).collect();
        if digest(hash, &client_key) != keys.stored {
            complaints.push("a proof of the right password is wrong".into());
            return None;
        }
        self.lines.insert(line, Progress::Done);
        Some(format!("v={}", BASE64.encode(mac(hash, &keys.server, said.as_bytes()))))
    }

    /// The connection is gone.
    pub(crate) fn forget(&mut self, line: usize) {
        self.lines.remove(&line);
    }
}

impl Set {
    /// Appends what hello says to a client that has a user.
    pub(crate) fn append_login(&mut self, line: usize, request: &Request<'_>, out: &mut Vec<u8>) {
        if !self.logins.is_required {
            return;
        }
        if request.body.get_str("saslSupportedMechs").ok().flatten().is_some() {
            append_strings(out, "saslSupportedMechs", ["SCRAM-SHA-1", "SCRAM-SHA-256"]);
        }
        let start = request.body.get_document("speculativeAuthenticate").ok().flatten();
        let start = start.filter(|_| self.logins.is_speculative);
        if let Some(answer) = start.and_then(|start| self.logins.begin(line, start, &mut self.complaints)) {
            append_document(out, "speculativeAuthenticate", |out| {
                append_conversation(out, &answer, false);
            });
        }
    }

    /// Answers a step of a login.
    pub(crate) fn log_in(&mut self, number: usize, line: usize, request: &Request<'_>) {
        let is_last = request.name == "saslContinue";
        let answer = if is_last {
            let payload = request.body.get_binary("payload").ok().flatten();
            payload.and_then(|payload| self.logins.prove(line, payload.bytes, &mut self.complaints))
        } else {
            self.logins.begin(line, request.body, &mut self.complaints)
        };
        let forges = is_last && self.members[number].forgeries > 0;
        match answer {
            None => self.refuse(number, line, request, AUTHENTICATION_FAILED),
            Some(_) if forges => {
                // Who does not know the password cannot say this; the client must not go on.
                self.members[number].forgeries -= 1;
                self.logins.refusals += 1;
                self.logins.forget(line);
                let forged = format!("v={}", BASE64.encode([0; 32]));
                self.answer(number, line, request, |out| append_step(out, &forged, true));
            }
            Some(answer) => self.answer(number, line, request, |out| append_step(out, &answer, is_last)),
        }
    }
}

fn append_step(out: &mut Vec<u8>, payload: &str, is_done: bool) {
    writer::append_double(out, "ok", 1.0);
    append_conversation(out, payload, is_done);
}

fn append_conversation(out: &mut Vec<u8>, payload: &str, is_done: bool) {
    writer::append_i32(out, "conversationId", 1);
    writer::append_bool(out, "done", is_done);
    writer::append_binary(out, "payload", 0, payload.as_bytes());
}

/// What a server keeps of a user.
struct Keys {
    stored: Vec<u8>,
    server: Vec<u8>,
}

fn keys(hash: Hash) -> &'static Keys {
    static KEYS: [OnceLock<Keys>; 2] = [OnceLock::new(), OnceLock::new()];
    KEYS[usize::from(hash == Hash::Sha256)].get_or_init(|| {
        let prepared = hash.prepare(USER, &Secret::new(PASSWORD)).expect("the password is plain");
        let salted = salted(hash, prepared.reveal().as_bytes());
        let stored = digest(hash, &mac(hash, &salted, b"Client Key"));
        Keys { stored, server: mac(hash, &salted, b"Server Key") }
    })
}

/// RFC 5802's `Hi`.
fn salted(hash: Hash, password: &[u8]) -> Vec<u8> {
    let first = [SALT, &1u32.to_be_bytes()].concat();
    let mut round = mac(hash, password, &first);
    let mut sum = round.clone();
    for _ in 1..ITERATIONS {
        round = mac(hash, password, &round);
        sum.iter_mut().zip(&round).for_each(|(sum, bit)| *sum ^= bit);
    }
    sum
}

fn mac(hash: Hash, key: &[u8], message: &[u8]) -> Vec<u8> {
    const ANY_LENGTH: &str = "HMAC takes keys of any length";
    match hash {
        Hash::Sha1 => {
            let mac = Hmac::<Sha1>::new_from_slice(key).expect(ANY_LENGTH);
            mac.chain_update(message).finalize().into_bytes().to_vec()
        }
        Hash::Sha256 => {
            let mac = Hmac::<Sha256>::new_from_slice(key).expect(ANY_LENGTH);
            mac.chain_update(message).finalize().into_bytes().to_vec()
        }
    }
}

fn digest(hash: Hash, message: &[u8]) -> Vec<u8> {
    match hash {
        Hash::Sha1 => Sha1::digest(message).to_vec(),
        Hash::Sha256 => Sha256::digest(message).to_vec(),
    }
}
