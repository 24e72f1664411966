//! Users: SCRAM as a server does it, computed independently of the core; of other mechanisms only the order of their
//! messages. There is one user, which every member knows, or none.

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

/// `ReauthenticationRequired`.
pub(crate) const REAUTHENTICATION_REQUIRED: i64 = 391;
/// The commands of logins.
pub(crate) const LOGINS: &[&str] = &["saslStart", "saslContinue", "authenticate"];
/// The beginning of a token; its number follows.
pub(crate) const TOKEN: &str = "token ";

/// An impostor's answer in place of the member's.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Forgery {
    /// A wrong proof.
    Proof,
    /// A nonce that does not continue the client's.
    Nonce,
    /// So few iterations that the password could be guessed.
    Rounds,
    /// The login is reported as done before the server has proved its identity.
    End,
    /// Bytes that are no message of the login.
    Noise,
}

impl Forgery {
    /// All of them.
    pub const ALL: &[Forgery] =
        &[Forgery::Proof, Forgery::Nonce, Forgery::Rounds, Forgery::End, Forgery::Noise];
}

/// The progress of a connection's login.
enum Progress {
    /// The client has sent its first message.
    Begun { hash: Hash, client_first: String, server_first: String },
    /// Both sides have proved that they know the password; an empty message ends it.
    Proved,
    /// The client has sent this many messages of a mechanism that is simulated by their order only.
    Halfway { mechanism: String, words: u32 },
    /// The user is logged in, with the token of this number if it is one by tokens.
    Done(Option<u64>),
}

/// A member's answer in a login.
enum Said {
    /// More messages follow.
    More(Vec<u8>),
    /// The user is logged in.
    Last(Vec<u8>),
}

/// The logins of all connections of a set.
#[derive(Default)]
pub struct Logins {
    /// Whether commands need a user who is logged in.
    pub is_required: bool,
    /// Whether a hello may carry a login's first message, and its reply the answer.
    pub is_speculative: bool,
    /// Whether the user was created before servers had SCRAM-SHA-256.
    pub is_old_user: bool,
    /// Whether an empty message must follow the proofs, as for clients that cannot omit it.
    pub has_empty_exchange: bool,
    /// How many logins with the right password were refused.
    pub refusals: u64,
    /// Whether some clients do not know the password, and send wrong proofs.
    pub has_outsiders: bool,
    /// The first token that is still valid.
    pub valid_from: u64,
    lines: BTreeMap<usize, Progress>,
    nonces: BTreeSet<String>,
}

impl Logins {
    /// Whether a connection may send commands.
    pub fn is_in(&self, line: usize) -> bool {
        !self.is_required || matches!(self.lines.get(&line), Some(Progress::Done(_)))
    }

    /// Whether the token of a connection has expired.
    pub fn has_expired(&self, line: usize) -> bool {
        matches!(self.lines.get(&line), Some(Progress::Done(Some(token))) if *token < self.valid_from)
    }

    /// Handles the client's first message; returns the answer, `None` if the message is invalid or refused.
    fn begin(&mut self, line: usize, start: RawDocument<'_>, complaints: &mut Vec<String>) -> Option<Said> {
        let mechanism = start.get_str("mechanism").ok()??;
        if mechanism == "MONGODB-X509" {
            self.lines.insert(line, Progress::Done(None));
            return Some(Said::Last(Vec::new()));
        }
        let payload = start.get_binary("payload").ok()??.bytes;
        let hash = match mechanism {
            "SCRAM-SHA-1" => Hash::Sha1,
            "SCRAM-SHA-256" if !self.is_old_user => Hash::Sha256,
            "PLAIN" => {
                let is_right = payload == format!("\0{USER}\0{PASSWORD}").as_bytes();
                return is_right.then(|| self.let_in(line, None));
            }
            "MONGODB-OIDC" => {
                let token = std::str::from_utf8(payload).ok()?.strip_prefix(TOKEN)?.parse().ok()?;
                return (token >= self.valid_from).then(|| self.let_in(line, Some(token)));
            }
            "MONGODB-AWS" | "GSSAPI" => {
                self.lines.insert(line, Progress::Halfway { mechanism: mechanism.into(), words: 1 });
                return Some(Said::More(b"challenge 1".to_vec()));
            }
            _ => return None,
        };
        let client_first = std::str::from_utf8(payload).ok()?.strip_prefix("n,,")?.to_owned();
        let nonce = client_first.strip_prefix(&format!("n={USER},r="))?.to_owned();
        let server_first = format!("r={nonce}{line:08},s={},i={ITERATIONS}", BASE64.encode(SALT));
        if !self.nonces.insert(nonce) {
            complaints.push("a nonce was used twice".into());
        }
        let begun = Progress::Begun { hash, client_first, server_first: server_first.clone() };
        self.lines.insert(line, begun);
        Some(Said::More(server_first.into_bytes()))
    }

    fn let_in(&mut self, line: usize, token: Option<u64>) -> Said {
        self.lines.insert(line, Progress::Done(token));
        Said::Last(Vec::new())
    }

    /// Handles the client's next message.
    fn go_on(&mut self, line: usize, payload: &[u8], complaints: &mut Vec<String>) -> Option<Said> {
        let Some(Progress::Halfway { mechanism, words }) = self.lines.get_mut(&line) else {
            if matches!(self.lines.get(&line), Some(Progress::Proved)) {
                return payload.is_empty().then(|| self.let_in(line, None));
            }
            let proof = self.prove(line, payload, complaints)?.into_bytes();
            if self.has_empty_exchange {
                self.lines.insert(line, Progress::Proved);
                return Some(Said::More(proof));
            }
            return Some(Said::Last(proof));
        };
        if payload != format!("word {words}").as_bytes() {
            complaints.push(format!("word {words} of {mechanism} is another one"));
        }
        *words += 1;
        let most = if mechanism == "GSSAPI" { 3 } else { 2 };
        let said = format!("challenge {words}").into_bytes();
        Some(if *words == most { self.let_in(line, None) } else { Said::More(said) })
    }

    /// Checks the client's proof; returns the server's proof, or `None` if the client's is wrong.
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
            if !self.has_outsiders {
                complaints.push("a proof of the right password is wrong".into());
            }
            return None;
        }
        self.lines.insert(line, Progress::Done(None));
        Some(format!("v={}", BASE64.encode(mac(hash, &keys.server, said.as_bytes()))))
    }

    /// Called when the connection is gone.
    pub(crate) fn forget(&mut self, line: usize) {
        self.lines.remove(&line);
    }
}

impl Set {
    /// Appends the fields of hello for a client that has a user.
    pub(crate) fn append_login(
        &mut self,
        number: usize,
        line: usize,
        request: &Request<'_>,
        out: &mut Vec<u8>,
    ) {
        if !self.logins.is_required {
            return;
        }
        if request.body.get_str("saslSupportedMechs").ok().flatten().is_some() {
            let known = ["SCRAM-SHA-1", "SCRAM-SHA-256"];
            let count = if self.logins.is_old_user { 1 } else { 2 };
            append_strings(out, "saslSupportedMechs", known.into_iter().take(count));
        }
        let start = request.body.get_document("speculativeAuthenticate").ok().flatten();
        let start = start.filter(|_| self.logins.is_speculative);
        // An impostor has no answer prepared.
        let start = start.filter(|_| self.members[number].forgeries.is_empty());
        if let Some(said) = start.and_then(|start| self.logins.begin(line, start, &mut self.complaints)) {
            append_document(out, "speculativeAuthenticate", |out| append_said(out, said));
        }
    }

    /// Answers a step of a login.
    pub(crate) fn log_in(&mut self, number: usize, line: usize, request: &Request<'_>) {
        let is_first = request.name != "saslContinue";
        let said = if is_first {
            self.logins.begin(line, request.body, &mut self.complaints)
        } else {
            let payload = request.body.get_binary("payload").ok().flatten();
            payload.and_then(|payload| self.logins.go_on(line, payload.bytes, &mut self.complaints))
        };
        let is_scram =
            request.body.get_str("mechanism").ok().flatten().is_some_and(|name| name.starts_with("SCRAM"));
        let forgery = self.members[number].forgeries.front().copied();
        let forged = match (forgery, said.as_ref()) {
            (Some(Forgery::Proof), Some(Said::Last(proof) | Said::More(proof)))
                if !is_first && proof.starts_with(b"v=") =>
            {
                Some(Said::Last(format!("v={}", BASE64.encode([0; 32])).into_bytes()))
            }
            (Some(how), Some(Said::More(right))) if is_first && is_scram => forged(how, right),
            _ => None,
        };
        if forged.is_some() {
            // An impostor cannot answer without the password, and the client must not continue.
            self.members[number].forgeries.pop_front();
            self.logins.refusals += 1;
            self.logins.forget(line);
        }
        match forged.or(said) {
            None => {
                // A revoked token is refused too.
                self.logins.refusals += u64::from(self.logins.valid_from > 0);
                self.refuse(number, line, request, AUTHENTICATION_FAILED);
            }
            Some(said) => self.answer(number, line, request, |out| {
                writer::append_double(out, "ok", 1.0);
                append_said(out, said);
            }),
        }
    }
}

/// Returns an impostor's message in place of the first answer.
fn forged(how: Forgery, right: &[u8]) -> Option<Said> {
    let right = String::from_utf8_lossy(right);
    match how {
        Forgery::Proof => None,
        Forgery::Nonce => Some(Said::More(right.replacen("r=", "r=x", 1).into_bytes())),
        Forgery::Rounds => Some(Said::More(right.replace(&format!("i={ITERATIONS}"), "i=1").into_bytes())),
        Forgery::End => Some(Said::Last(right.as_bytes().to_vec())),
        Forgery::Noise => Some(Said::More(b"noise".to_vec())),
    }
}

fn append_said(out: &mut Vec<u8>, said: Said) {
    let (payload, is_done) = match said {
        Said::More(payload) => (payload, false),
        Said::Last(payload) => (payload, true),
    };
    writer::append_i32(out, "conversationId", 1);
    writer::append_bool(out, "done", is_done);
    writer::append_binary(out, "payload", 0, &payload);
}

/// A server's record of a user.
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
