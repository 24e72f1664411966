//! Authentication of one connection: chooses the mechanism, makes the commands, and checks the server's
//! answers. Sends nothing, makes no randomness, and never prints a secret. Spec: auth; mongodb-handshake.
//!
//! Order: [`Authentication::append_to_hello`] while the hello command is written, [`Authentication::handle_hello`] with
//! its reply, then each step of [`Authentication::poll_step`] until it returns [`Step::Done`]. An error ends the
//! connection.

pub mod external;
pub mod login;
pub mod plain;
pub mod scram;
pub mod x509;

use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use mangonel_bson::{self as bson, RawDocument, RawValue};

use self::external::{Conversation, Prompt, Word};
use self::scram::{Hash, KeyRequest, Keys, Scram};

/// The server's code for a wrong name, password or token.
pub const AUTHENTICATION_FAILED: i64 = 18;

/// Bytes of randomness a conversation needs.
pub const NONCE_SIZE: usize = 24;

/// A secret text, which must not be printed.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Hides a text.
    pub fn new(text: impl Into<String>) -> Secret {
        Secret(text.into())
    }

    /// Returns the text. Keep it out of messages and logs.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

/// A way to authenticate.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mechanism {
    /// SCRAM-SHA-1.
    ScramSha1,
    /// SCRAM-SHA-256.
    ScramSha256,
    /// MONGODB-X509.
    X509,
    /// PLAIN.
    Plain,
    /// MONGODB-AWS.
    Aws,
    /// MONGODB-OIDC.
    Oidc,
    /// GSSAPI: Kerberos.
    Gssapi,
}

const MECHANISMS: &[(&str, Mechanism)] = &[
    ("SCRAM-SHA-1", Mechanism::ScramSha1),
    ("SCRAM-SHA-256", Mechanism::ScramSha256),
    ("MONGODB-X509", Mechanism::X509),
    ("PLAIN", Mechanism::Plain),
    ("MONGODB-AWS", Mechanism::Aws),
    ("MONGODB-OIDC", Mechanism::Oidc),
    ("GSSAPI", Mechanism::Gssapi),
];

impl Mechanism {
    /// Returns the mechanism that URIs and commands call `name`.
    pub fn from_name(name: &str) -> Option<Mechanism> {
        MECHANISMS.iter().find(|(known, _)| *known == name).map(|(_, mechanism)| *mechanism)
    }

    /// Returns the name used in URIs and commands.
    pub fn name(self) -> &'static str {
        MECHANISMS[self as usize].0
    }

    /// Returns the mechanism for a user who chose none: the stronger SCRAM if the server offers it to this user.
    pub fn negotiate<'a>(supported: impl IntoIterator<Item = &'a str>) -> Mechanism {
        match supported.into_iter().any(|name| name == Mechanism::ScramSha256.name()) {
            true => Mechanism::ScramSha256,
            false => Mechanism::ScramSha1,
        }
    }
}

/// The user to authenticate as.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Credential {
    /// The name; MONGODB-X509 can do without.
    pub username: Option<String>,
    /// The password; MONGODB-X509 has none.
    pub password: Option<Secret>,
    /// The database that knows the user; `$external` for mechanisms with an external provider.
    pub source: String,
    /// The requested mechanism; `None` to negotiate one with the server.
    pub mechanism: Option<Mechanism>,
}

/// Why authentication failed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum AuthError {
    /// The mechanism needs a name or a password that was not given.
    Missing {
        /// `name` or `password`, as in the error message.
        what: &'static str,
        /// The mechanism.
        mechanism: &'static str,
    },
    /// The password holds characters that SASLprep prohibits.
    PasswordCharacters,
    /// The server's message is not part of the conversation.
    Malformed {
        /// Which message or field.
        what: &'static str,
    },
    /// The server's nonce does not continue the client's: an old conversation is being replayed.
    Nonce,
    /// The server asks for too few or far too many rounds.
    Iterations {
        /// The number asked for.
        found: u32,
    },
    /// The server could not prove that it knows the password.
    ServerSignature,
    /// The server ended the conversation before it proved its identity.
    Unproven,
    /// The server refused.
    Refused {
        /// Its error code, when it gave one.
        code: Option<i64>,
        /// Its message.
        message: String,
    },
}

impl fmt::Display for AuthError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing { what, mechanism } => write!(f, "expected a {what} for {mechanism}, got none"),
            Self::PasswordCharacters => f.write_str("the password holds characters that SASLprep prohibits"),
            Self::Malformed { what } => write!(f, "expected {what}, got something else"),
            Self::Nonce => f.write_str("expected the server's nonce to continue the client's, got another"),
            Self::Iterations { found } => {
                write!(f, "expected the server to ask for 4096 to 10000000 rounds of hashing, got {found}")
            }
            Self::ServerSignature => f.write_str("the server could not prove that it knows the password"),
            Self::Unproven => f.write_str("the server ended authentication before it proved who it is"),
            Self::Refused { message, .. } => write!(f, "the server says {message:?}"),
        }
    }
}

impl std::error::Error for AuthError {}

/// The next step of an authentication.
pub enum Step<'a> {
    /// Send the command and hand its reply to [`Authentication::handle_reply`].
    Send {
        /// The database to send it to.
        database: &'a str,
        /// A whole BSON document, without `$db`.
        command: &'a [u8],
    },
    /// Find the keys in the cache or derive them, and hand them to [`Authentication::handle_keys`].
    Derive(&'a KeyRequest),
    /// Find the client's next message and pass it to [`Authentication::handle_word`].
    Ask(&'a Prompt),
    /// The connection is authenticated.
    Done,
}

// Written by hand, since the command may carry a password.
impl fmt::Debug for Step<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Step::Send { database, .. } => f.debug_struct("Send").field("database", database).finish(),
            Step::Derive(_) => f.write_str("Derive"),
            Step::Ask(_) => f.write_str("Ask"),
            Step::Done => f.write_str("Done"),
        }
    }
}

#[derive(Debug)]
enum State {
    /// Hello is in flight, with the conversation begun inside it, if any.
    Hello(Option<(Mechanism, Scram)>),
    /// A whole command; its reply ends the authentication.
    Single(Command),
    ScramFirst(Command, Scram),
    ScramKeys(KeyRequest, Scram, i32),
    ScramLast(Command, Scram),
    /// The server has proved its identity, but expects one more, empty message.
    ScramEmpty(Command),
    External(Conversation),
    ExternalSent(Command, Conversation),
    ExternalDone(Conversation),
    Done,
    Failed,
}

/// A command, kept out of debug output: it may carry a password.
struct Command(Vec<u8>);

impl fmt::Debug for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Command(…)")
    }
}

/// The authentication of one connection.
#[derive(Debug)]
pub struct Authentication {
    credential: Credential,
    nonce: String,
    state: State,
    /// The message that authenticated another connection; sent inside hello.
    remembered: Option<Word>,
}

impl Authentication {
    /// Begins. `nonce` is fresh randomness.
    pub fn new(credential: Credential, nonce: [u8; NONCE_SIZE]) -> Result<Authentication, AuthError> {
        let nonce = BASE64.encode(nonce);
        let mut authentication =
            Authentication { credential, nonce, state: State::Hello(None), remembered: None };
        // Every server since 4.0 has SCRAM-SHA-256 for most users, so the driver tries it first unless the user chose a
        // mechanism.
        let guess = authentication.credential.mechanism.unwrap_or(Mechanism::ScramSha256);
        if let Some(hash) = scram_hash(guess) {
            let begun = authentication.scram(guess, hash);
            match begun {
                Ok(scram) => authentication.state = State::Hello(Some((guess, scram))),
                // The user may have only SCRAM-SHA-1, which takes any password.
                Err(AuthError::PasswordCharacters) if authentication.credential.mechanism.is_none() => {}
                Err(error) => return Err(error),
            }
        }
        Ok(authentication)
    }

    /// Begins again on a connection whose handshake is long over, because the server requires it.
    ///
    /// `mechanism`: the result of [`Authentication::mechanism`] after the first time. `expired`: the number of the
    /// token that authenticated the connection.
    pub fn again(
        credential: Credential,
        mechanism: Mechanism,
        nonce: [u8; NONCE_SIZE],
        expired: Option<u64>,
    ) -> Result<Authentication, AuthError> {
        let credential = Credential { mechanism: Some(mechanism), ..credential };
        let mut authentication = Authentication::new(credential, nonce)?;
        authentication.state = match mechanism {
            Mechanism::Aws | Mechanism::Oidc | Mechanism::Gssapi => {
                State::External(Conversation::new(mechanism, expired))
            }
            _ => authentication.begin(mechanism)?,
        };
        Ok(authentication)
    }

    /// Sets the message to send in hello: it authenticated another connection.
    pub fn remember(&mut self, word: Option<Word>) {
        self.remembered = word;
    }

    /// Returns the number of the token that authenticated the connection; 0 for none.
    pub fn token(&self) -> u64 {
        match &self.state {
            State::ExternalDone(conversation) => conversation.token(),
            State::Done => self.remembered.as_ref().map_or(0, |word| word.token),
            _ => 0,
        }
    }

    /// Returns the mechanism: the requested one, or the one negotiated by the hello reply.
    pub fn mechanism(&self) -> Option<Mechanism> {
        self.credential.mechanism
    }

    /// Appends two parts to the hello command: the request for the user's mechanisms, and the first message of the
    /// conversation, which saves a round trip.
    pub fn append_to_hello(&self, out: &mut Vec<u8>) {
        let Credential { username, source, mechanism, .. } = &self.credential;
        if let (None, Some(username)) = (mechanism, username) {
            bson::append_str(out, "saslSupportedMechs", &format!("{source}.{username}"));
        }
        let start = |out: &mut Vec<u8>| bson::begin_subdocument(out, "speculativeAuthenticate");
        match &self.state {
            State::Hello(Some((mechanism, scram))) => {
                let document = start(out);
                append_sasl_start(out, *mechanism, &scram.first());
                bson::append_str(out, "db", source);
                bson::end_document(out, document);
            }
            State::Hello(None) if *mechanism == Some(Mechanism::X509) => {
                let document = start(out);
                x509::append_command(out, username.as_deref());
                bson::append_str(out, "db", source);
                bson::end_document(out, document);
            }
            State::Hello(None) => {
                if let (Some(mechanism), Some(word)) = (mechanism, &self.remembered) {
                    let document = start(out);
                    append_sasl_start(out, *mechanism, &word.payload.0);
                    bson::append_str(out, "db", source);
                    bson::end_document(out, document);
                }
            }
            _ => {}
        }
    }

    /// Takes the hello reply and settles the mechanism.
    pub fn handle_hello(&mut self, reply: RawDocument<'_>) -> Result<(), AuthError> {
        let State::Hello(begun) = std::mem::replace(&mut self.state, State::Failed) else {
            return Err(AuthError::Malformed { what: "one hello reply" });
        };
        let answer = reply
            .get_document("speculativeAuthenticate")
            .map_err(|_| AuthError::Malformed { what: "speculativeAuthenticate" })?;
        self.state = match (begun, answer) {
            (Some((mechanism, scram)), Some(answer)) => {
                self.credential.mechanism = Some(mechanism);
                take_scram_first(scram, answer)?
            }
            (None, Some(_)) if self.credential.mechanism == Some(Mechanism::X509) => State::Done,
            (None, Some(answer)) if self.remembered.is_some() && is_done(answer) => State::Done,
            _ => {
                let mechanism = self.credential.mechanism.unwrap_or_else(|| {
                    let supported = reply.get_array("saslSupportedMechs").ok().flatten();
                    Mechanism::negotiate(supported.iter().flat_map(|names| names.iter()).filter_map(|name| {
                        match name {
                            Ok(RawValue::String(name)) => Some(name),
                            _ => None,
                        }
                    }))
                });
                self.credential.mechanism = Some(mechanism);
                self.begin(mechanism)?
            }
        };
        Ok(())
    }

    /// Returns what to do next, or `None` before the hello reply and after an error.
    pub fn poll_step(&self) -> Option<Step<'_>> {
        match &self.state {
            State::Single(command)
            | State::ScramFirst(command, _)
            | State::ScramLast(command, _)
            | State::ScramEmpty(command)
            | State::ExternalSent(command, _) => {
                Some(Step::Send { database: &self.credential.source, command: &command.0 })
            }
            State::ScramKeys(request, ..) => Some(Step::Derive(request)),
            State::External(conversation) => Some(Step::Ask(conversation.prompt())),
            State::Done | State::ExternalDone(_) => Some(Step::Done),
            State::Hello(_) | State::Failed => None,
        }
    }

    /// Takes the keys that [`Step::Derive`] asked for.
    pub fn handle_keys(&mut self, keys: &Keys) {
        self.state = match std::mem::replace(&mut self.state, State::Failed) {
            State::ScramKeys(_, mut scram, conversation) => {
                let last = scram.last(keys);
                State::ScramLast(sasl_continue(conversation, &last), scram)
            }
            other => other,
        };
    }

    /// Takes the message that [`Step::Ask`] asked for.
    pub fn handle_word(&mut self, word: Word) {
        self.state = match std::mem::replace(&mut self.state, State::Failed) {
            State::External(conversation) => {
                self.remembered = Some(word.clone());
                conversation.say(word)
            }
            other => other,
        };
    }

    /// Returns the message that authenticated this connection, for reuse on the next one.
    pub fn word(&self) -> Option<&Word> {
        self.remembered.as_ref().filter(|word| word.token != 0)
    }

    /// Takes the reply to the command that [`Step::Send`] asked for.
    pub fn handle_reply(&mut self, reply: RawDocument<'_>) -> Result<(), AuthError> {
        let state = std::mem::replace(&mut self.state, State::Failed);
        if let Err(error) = check_ok(reply) {
            if let (
                AuthError::Refused { code: Some(AUTHENTICATION_FAILED), .. },
                State::ExternalSent(_, conversation),
            ) = (&error, state)
                && let Some(again) = conversation.try_again()
            {
                self.state = again;
                return Ok(());
            }
            return Err(error);
        }
        self.state = match state {
            State::ExternalSent(_, conversation) => conversation.hear(reply)?,
            State::Single(_) => State::Done,
            State::ScramFirst(_, scram) => take_scram_first(scram, reply)?,
            State::ScramLast(_, scram) => {
                scram.handle_last(payload(reply)?)?;
                match is_done(reply) {
                    true => State::Done,
                    false => State::ScramEmpty(sasl_continue(conversation_id(reply), b"")),
                }
            }
            State::ScramEmpty(_) if is_done(reply) => State::Done,
            _ => return Err(AuthError::Malformed { what: "the reply to a login command" }),
        };
        Ok(())
    }

    fn begin(&self, mechanism: Mechanism) -> Result<State, AuthError> {
        let Credential { username, password, .. } = &self.credential;
        let mut command = Vec::new();
        let start = bson::begin_document(&mut command);
        match mechanism {
            Mechanism::X509 => x509::append_command(&mut command, username.as_deref()),
            Mechanism::Plain => {
                let username = require(username, "username", mechanism)?;
                let password = require(password, "password", mechanism)?;
                append_sasl_start(&mut command, mechanism, &plain::message(username, password));
            }
            Mechanism::ScramSha1 | Mechanism::ScramSha256 => {
                let hash = scram_hash(mechanism).unwrap_or(Hash::Sha256);
                // If the server ignored the conversation inside hello, it begins again with the same nonce, which the
                // server has not answered.
                let scram = self.scram(mechanism, hash)?;
                append_sasl_start(&mut command, mechanism, &scram.first());
                bson::end_document(&mut command, start);
                return Ok(State::ScramFirst(Command(command), scram));
            }
            Mechanism::Aws | Mechanism::Oidc | Mechanism::Gssapi => {
                return Ok(State::External(Conversation::new(mechanism, None)));
            }
        }
        bson::end_document(&mut command, start);
        Ok(State::Single(Command(command)))
    }

    fn scram(&self, mechanism: Mechanism, hash: Hash) -> Result<Scram, AuthError> {
        let username = require(&self.credential.username, "username", mechanism)?;
        let password = require(&self.credential.password, "password", mechanism)?;
        let prepared = hash.prepare(username, password)?;
        Ok(Scram::new(hash, username, prepared, self.nonce.clone()))
    }
}

fn scram_hash(mechanism: Mechanism) -> Option<Hash> {
    match mechanism {
        Mechanism::ScramSha1 => Some(Hash::Sha1),
        Mechanism::ScramSha256 => Some(Hash::Sha256),
        Mechanism::X509 | Mechanism::Plain | Mechanism::Aws | Mechanism::Oidc | Mechanism::Gssapi => None,
    }
}

fn require<'a, T>(
    field: &'a Option<T>,
    what: &'static str,
    mechanism: Mechanism,
) -> Result<&'a T, AuthError> {
    field.as_ref().ok_or(AuthError::Missing { what, mechanism: mechanism.name() })
}

fn append_sasl_start(out: &mut Vec<u8>, mechanism: Mechanism, payload: &[u8]) {
    bson::append_i32(out, "saslStart", 1);
    bson::append_str(out, "mechanism", mechanism.name());
    bson::append_binary(out, "payload", 0, payload);
    if matches!(mechanism, Mechanism::Aws | Mechanism::Oidc) {
        return;
    }
    bson::append_i32(out, "autoAuthorize", 1);
    if scram_hash(mechanism).is_some() {
        let options = bson::begin_subdocument(out, "options");
        bson::append_bool(out, "skipEmptyExchange", true);
        bson::end_document(out, options);
    }
}

fn sasl_continue(conversation: i32, payload: &[u8]) -> Command {
    let mut out = Vec::new();
    let start = bson::begin_document(&mut out);
    bson::append_i32(&mut out, "saslContinue", 1);
    bson::append_i32(&mut out, "conversationId", conversation);
    bson::append_binary(&mut out, "payload", 0, payload);
    bson::end_document(&mut out, start);
    Command(out)
}

fn take_scram_first(mut scram: Scram, reply: RawDocument<'_>) -> Result<State, AuthError> {
    // If the server could end the conversation here, it would be trusted without proof.
    if is_done(reply) {
        return Err(AuthError::Unproven);
    }
    let request = scram.handle_first(payload(reply)?)?;
    Ok(State::ScramKeys(request, scram, conversation_id(reply)))
}

/// A reply without `ok`, such as the one inside hello, counts as a success.
fn check_ok(reply: RawDocument<'_>) -> Result<(), AuthError> {
    match reply.get_bool_lenient("ok") {
        Ok(Some(true) | None) => Ok(()),
        Ok(Some(false)) => Err(AuthError::Refused {
            code: reply.get_i64_lenient("code").ok().flatten(),
            message: reply.get_str("errmsg").ok().flatten().unwrap_or("no reason given").to_owned(),
        }),
        Err(_) => Err(AuthError::Malformed { what: "\"ok\" in the server's reply" }),
    }
}

fn is_done(reply: RawDocument<'_>) -> bool {
    reply.get_bool_lenient("done").ok().flatten().unwrap_or(false)
}

fn conversation_id(reply: RawDocument<'_>) -> i32 {
    reply.get_i64_lenient("conversationId").ok().flatten().and_then(|id| i32::try_from(id).ok()).unwrap_or(1)
}

fn payload<'a>(reply: RawDocument<'a>) -> Result<&'a [u8], AuthError> {
    match reply.get("payload") {
        Ok(Some(RawValue::Binary(binary))) => Ok(binary.bytes),
        Ok(Some(RawValue::String(text))) => Ok(text.as_bytes()),
        _ => Err(AuthError::Malformed { what: "\"payload\" in the server's reply" }),
    }
}
