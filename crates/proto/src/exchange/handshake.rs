//! The conversation that makes a new connection usable: hello, then authentication; and later reauthentication, if the
//! server requires it. Spec: mongodb-handshake; auth; OP_COMPRESSED.

use std::sync::Arc;
use std::time::Duration;

use mangonel_bson::{RawDocument, writer};

use super::{Exchange, Phase, Step};
use crate::auth::external::{Prompt, Word};
use crate::auth::scram::{KeyRequest, Keys};
use crate::auth::{self, AUTHENTICATION_FAILED, AuthError, Authentication, Mechanism};
use crate::client::Client;
use crate::compress::is_compressible;
use crate::error::{Failure, ProtocolError};
use crate::hello::{auth_command, hello_command};
use crate::message::Command;
use crate::options::ClientOptions;
use crate::reply::Facts;
use crate::time::Instant;
use crate::topology::HelloRequest;
use crate::topology::{self, Address, Cause, ServerDescription, is_state_change};

/// The progress of a connection's handshake.
pub(super) struct Handshake {
    /// The next or last sent message; `None` while a question is open.
    command: Option<Command>,
    authentication: Option<Authentication>,
    /// Whether the next reply is the one to hello.
    is_hello: bool,
}

impl Handshake {
    pub(super) fn step(&self) -> Step {
        if self.command.is_some() { Step::Write } else { Step::Ask }
    }

    pub(super) fn outbound(&self) -> &[u8] {
        self.command.as_ref().map(Command::outbound).unwrap_or_default()
    }
}

/// A question whose answer takes too long, or runs user code, so it is answered outside the lock.
#[derive(Clone, Debug)]
pub enum Question {
    /// Derive the keys of a password.
    Keys(KeyRequest),
    /// Make the next message of a mechanism that the core does not implement.
    Word(Mechanism, Prompt),
    /// Let `server_selector` choose among the suitable servers. This is quick, so it needs no other thread.
    Servers(Vec<Arc<ServerDescription>>),
}

/// The answer to a [`Question`].
#[derive(Debug)]
pub enum Answer {
    /// The keys.
    Keys(Keys),
    /// The word.
    Word(Word),
    /// The servers that `server_selector` returned.
    Servers(Vec<Address>),
}

impl Exchange {
    /// Whether hello was answered and authentication is under way.
    pub(super) fn is_authenticating(&self) -> bool {
        self.handshake().is_some_and(|handshake| !handshake.is_hello)
    }

    /// Returns whether the message to send may be compressed, if the connection has agreed on a compressor.
    pub fn may_compress(&self) -> bool {
        matches!(self.phase, Phase::InFlight { is_sent: false })
            && is_compressible(self.operation.command.name())
    }

    /// Returns the question that [`Step::Ask`] refers to.
    pub fn question(&self) -> Option<Question> {
        if let Phase::Choosing(candidates) = &self.phase {
            return Some(Question::Servers(candidates.0.clone()));
        }
        let handshake = self.handshake().filter(|handshake| handshake.command.is_none())?;
        let authentication = handshake.authentication.as_ref()?;
        match authentication.poll_step()? {
            auth::Step::Derive(request) => Some(Question::Keys(request.clone())),
            auth::Step::Ask(prompt) => Some(Question::Word(authentication.mechanism()?, prompt.clone())),
            auth::Step::Send { .. } | auth::Step::Done => None,
        }
    }

    /// Returns how long the answer may take; `None` for no limit.
    pub fn answer_timeout(&self, now: Instant) -> Option<Duration> {
        self.until.map(|until| until.saturating_since(now))
    }

    /// Handles the answer to [`question`](Self::question).
    pub fn handle_answer(&mut self, client: &mut Client, answer: Answer, now: Instant) {
        if let (Answer::Servers(chosen), Phase::Choosing(candidates)) = (&answer, &mut self.phase) {
            let candidates = std::mem::take(&mut candidates.0);
            return self.handle_choice(client, candidates, chosen, now);
        }
        let question = self.question();
        let Some(authentication) = self.authentication() else { return };
        match (answer, question) {
            (Answer::Keys(keys), Some(Question::Keys(request))) => {
                authentication.handle_keys(&keys);
                if let Some(login) = &mut client.options.login {
                    login.keep_keys(&request, keys);
                }
            }
            (Answer::Word(word), Some(Question::Word(..))) => authentication.handle_word(word),
            _ => return,
        }
        self.go_on(client, now);
    }

    /// Called when the question has no answer; the owner knows the reason. The server is not at fault.
    pub fn handle_no_answer(&mut self, client: &mut Client, now: Instant) {
        if self.step() == Step::Ask {
            self.drop_link(client, now);
            self.fail(Failure::Unanswered);
            self.end_session(client, now);
        }
    }

    pub(super) fn begin_handshake(&mut self, client: &mut Client, now: Instant) {
        self.request_id = client.next_request();
        if let (Some(login), Some(server)) = (&client.options.login, &self.server)
            && !login.allows(server.address.host())
        {
            let message = format!(
                "{}: refusing to send credentials to a host that is not in ALLOWED_HOSTS; add it there if it is yours",
                server.address
            );
            self.drop_link(client, now);
            self.fail_unsent(Failure::Configuration(message));
            return self.end_session(client, now);
        }
        let authentication = match client.options.login.as_mut().map(|login| login.begin()).transpose() {
            Ok(authentication) => authentication,
            Err(error) => return self.refuse_credential(client, &error, now),
        };
        let hello_ok = self.server.as_ref().is_some_and(|server| server.hello_ok);
        let options = &client.options;
        let hello = hello_command(options, HelloRequest::Handshake, hello_ok, self.request_id, |out| {
            append_compression(out, options);
            if let Some(authentication) = &authentication {
                authentication.append_to_hello(out);
            }
        });
        match hello {
            Ok(command) => {
                let command = Some(command);
                let handshake = Handshake { command, authentication, is_hello: true };
                self.enter(Phase::Handshake(Box::new(handshake)));
            }
            Err(error) => {
                self.drop_link(client, now);
                self.fail_unsent(Failure::Protocol(error.to_string()));
                self.end_session(client, now);
            }
        }
    }

    pub(super) fn may_reauthenticate(&self, client: &Client) -> bool {
        !self.facts.ok && !self.attempts.has_reauthenticated && client.options.login.is_some()
    }

    /// Called when the server requires authentication again; the command did not run.
    pub(super) fn begin_reauthentication(&mut self, client: &mut Client, now: Instant) {
        self.attempts.has_reauthenticated = true;
        let token = self.link.map_or(0, |link| client.token(link));
        let Some(login) = &mut client.options.login else { return };
        match login.begin_again(token) {
            Ok(authentication) => {
                let authentication = Some(authentication);
                let handshake = Handshake { command: None, authentication, is_hello: false };
                self.enter(Phase::Reauthenticating(Box::new(handshake)));
                self.go_on(client, now);
            }
            Err(error) => self.refuse_credential(client, &error, now),
        }
    }

    pub(super) fn read_handshake(
        &mut self,
        client: &mut Client,
        message: &[u8],
        now: Instant,
    ) -> Result<(), ProtocolError> {
        let reply = self.answer_of(message)?;
        let facts = Facts::read(reply)?;
        let is_hello = self.handshake().is_some_and(|handshake| handshake.is_hello);
        let errmsg = reply.get_str("errmsg")?.unwrap_or("no reason given");
        if !is_hello {
            self.announce_reply(client, reply, facts.ok, now);
        }
        // The client can then gossip a cluster time in its first command.
        if let Some(time) = facts.cluster_time.clone() {
            client.advance_cluster_time(&reply.as_bytes()[time]);
        }
        // A server may also report its shutdown during authentication.
        if !facts.ok && (is_hello || is_state_change(facts.code, errmsg)) {
            let message = format!("{}: the handshake was refused: {errmsg}", self.address());
            let besides = self.report(client, self.progress(), Cause::Reply(reply), &message, now);
            self.back_off(client, message, false, besides, now);
            return Ok(());
        }
        if is_hello {
            self.link.into_iter().for_each(|link| client.note_connection(link, reply));
            if client.is_load_balanced() && !matches!(reply.get_object_id("serviceId"), Ok(Some(_))) {
                self.drop_link(client, now);
                self.fail_unsent(Failure::Configuration(format!(
                    "Driver attempted to initialize in load balancing mode, but the server does not support this mode: {}: \
                     expected a serviceId from the load balancer, got none; it is a server itself, or no service \
                     that takes loadBalanced=true",
                    self.address()
                )));
                self.end_session(client, now);
                return Ok(());
            }
            let Some(handshake) = self.handshake_mut() else { return Ok(()) };
            handshake.is_hello = false;
            // An arbiter holds no users, so connections to one do not authenticate.
            if reply.get_bool_lenient("arbiterOnly").ok().flatten() == Some(true) {
                handshake.authentication = None;
            }
        }
        let outcome = match (self.authentication(), is_hello) {
            (Some(authentication), true) => authentication.handle_hello(reply),
            (Some(authentication), false) => authentication.handle_reply(reply),
            (None, _) => Ok(()),
        };
        match outcome {
            Ok(()) => self.go_on(client, now),
            Err(error) => self.fail_authentication(client, &error, reply, now),
        }
        Ok(())
    }

    /// Takes the next steps of authentication until one needs a question.
    fn go_on(&mut self, client: &mut Client, now: Instant) {
        loop {
            let Some(authentication) = self.authentication() else { return self.establish(client, now) };
            match authentication.poll_step() {
                Some(auth::Step::Derive(request)) => {
                    let known = client.options.login.as_ref().and_then(|login| login.find_keys(request));
                    let Some(keys) = known else {
                        return self.ask();
                    };
                    authentication.handle_keys(keys);
                }
                Some(auth::Step::Ask(prompt)) => {
                    if let (Some(token), Some(login)) = (prompt.refused, &mut client.options.login) {
                        login.forget_token(token);
                    }
                    return self.ask();
                }
                Some(auth::Step::Send { database, command }) => {
                    let request_id = client.next_request();
                    let command = auth_command(&client.options, database, command, request_id);
                    match command {
                        Ok(command) => {
                            self.request_id = request_id;
                            if let Some(handshake) = self.handshake_mut() {
                                handshake.command = Some(command);
                            }
                            self.prepare_authentication_announcement(client);
                        }
                        Err(error) => self.handle_protocol_error(client, &error.to_string(), now),
                    }
                    return;
                }
                Some(auth::Step::Done) => return self.establish(client, now),
                None => return self.handle_protocol_error(client, "authentication makes no progress", now),
            }
        }
    }

    /// Makes the connection usable and sends the command on it.
    fn establish(&mut self, client: &mut Client, now: Instant) {
        if let (Some(authentication), Some(login)) = (
            self.handshake().and_then(|handshake| handshake.authentication.as_ref()),
            &mut client.options.login,
        ) {
            login.settle(authentication);
            if let Some(link) = self.link {
                client.note_token(link, authentication.token());
            }
        }
        if self.is_handshake() {
            let (link, generation) = (self.link, self.generation);
            let service = link.and_then(|link| client.connection_facts(link).service_id);
            let is_load_balanced = client.is_load_balanced();
            let is_filling = self.operation.is_filling;
            if let (Some(link), Some(pool)) = (link, self.pool(client)) {
                if is_filling {
                    pool.enter(link, generation);
                } else {
                    pool.established(link, generation, now);
                }
                if let (true, Some(service)) = (is_load_balanced, service) {
                    pool.belongs_to(link, service);
                }
            }
            self.announce_ready(client, now);
            if is_filling {
                self.put_by(client, now);
                // Opens the next connection at once; after a failure, the next upkeep opens it.
                if self.pool(client).is_some_and(|pool| pool.missing() > 0) {
                    client.ask_for_upkeep();
                }
                return;
            }
        }
        self.send(client, now);
    }

    fn fail_authentication(
        &mut self,
        client: &mut Client,
        error: &AuthError,
        reply: RawDocument<'_>,
        now: Instant,
    ) {
        let message = self.explain(client, error);
        self.report(client, self.progress(), Cause::Auth, &message, now);
        self.drop_link(client, now);
        let (code, reply) = match error {
            AuthError::Refused { code, .. } => (*code, reply.as_bytes().to_vec()),
            _ => (None, Vec::new()),
        };
        self.fail_unsent(Failure::Authentication { message, code, reply });
        self.end_session(client, now);
    }

    /// Fails: the user cannot authenticate at any server.
    fn refuse_credential(&mut self, client: &mut Client, error: &AuthError, now: Instant) {
        let message = self.explain(client, error);
        self.drop_link(client, now);
        self.fail_unsent(Failure::Configuration(message));
        self.end_session(client, now);
    }

    /// Returns the error message: user, mechanism, server, reason and remedy, never the password.
    fn explain(&self, client: &Client, error: &AuthError) -> String {
        let Some(login) = &client.options.login else { return error.to_string() };
        let credential = login.credential();
        let settled = self.handshake().and_then(|handshake| handshake.authentication.as_ref()?.mechanism());
        let mechanism = settled.or(credential.mechanism).map_or("SCRAM", |mechanism| mechanism.name());
        let user = match &credential.username {
            Some(name) => format!("{name:?}"),
            None => "a user without a name".to_owned(),
        };
        let remedy = match error {
            AuthError::Refused { code: Some(AUTHENTICATION_FAILED), .. }
                if mechanism.starts_with("SCRAM") =>
            {
                "; check the name and the password, and that authSource names the database the user was made in"
            }
            AuthError::ServerSignature | AuthError::Nonce | AuthError::Unproven => {
                "; the peer may not be the server that it claims to be"
            }
            _ => "",
        };
        format!(
            "{}: cannot authenticate {user} with {mechanism} against database {:?}: {error}{remedy}",
            self.address(),
            credential.source
        )
    }

    fn progress(&self) -> topology::Phase {
        match self.phase {
            Phase::Reauthenticating(_) => topology::Phase::AfterHandshake,
            _ => topology::Phase::BeforeHandshake,
        }
    }

    /// Returns the next or last sent authentication command; `None` outside authentication.
    pub(super) fn authenticating_command(&self) -> Option<&Command> {
        self.handshake().filter(|handshake| !handshake.is_hello)?.command.as_ref()
    }

    fn authentication(&mut self) -> Option<&mut Authentication> {
        self.handshake_mut()?.authentication.as_mut()
    }

    fn handshake(&self) -> Option<&Handshake> {
        match &self.phase {
            Phase::Handshake(handshake) | Phase::Reauthenticating(handshake) => Some(handshake),
            _ => None,
        }
    }

    fn handshake_mut(&mut self) -> Option<&mut Handshake> {
        match &mut self.phase {
            Phase::Handshake(handshake) | Phase::Reauthenticating(handshake) => Some(handshake),
            _ => None,
        }
    }

    /// Stops sending until the owner has answered.
    fn ask(&mut self) {
        if let Some(handshake) = self.handshake_mut() {
            handshake.command = None;
        }
    }
}

fn append_compression(out: &mut Vec<u8>, options: &ClientOptions) {
    if options.compressors.is_empty() {
        return;
    }
    let names = writer::begin_array(out, "compression");
    for (index, compressor) in options.compressors.iter().enumerate() {
        writer::append_str(out, &index.to_string(), compressor.name());
    }
    writer::end_document(out, names);
}
