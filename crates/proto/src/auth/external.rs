//! MONGODB-AWS, MONGODB-OIDC and GSSAPI: conversations whose client messages come from outside this crate,
//! since they need signatures, tokens or tickets of a provider. Knows the order of messages, and when to
//! retry with another token. Spec: auth, "MONGODB-AWS", "MONGODB-OIDC", "GSSAPI".

use mangonel_bson as bson;

use super::{AuthError, Command, Mechanism, State, append_sasl_start, conversation_id, is_done, payload};
use crate::auth::sasl_continue;

/// A token from the cache, one from a refresh token, and a new one: a fourth try would repeat one of these.
const MOST_TRIES: u32 = 3;

/// The input that the provider needs for the next message.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Prompt {
    /// The server's message; `None` at the start of a conversation.
    pub challenge: Option<Vec<u8>>,
    /// The number of a token that the server refused or that has expired; it must not be sent again.
    pub refused: Option<u64>,
}

/// A message of the client, kept out of debug output: it may hold a token.
#[derive(Clone, PartialEq, Eq)]
pub struct Hidden(pub Vec<u8>);

impl std::fmt::Debug for Hidden {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Hidden(…)")
    }
}

/// The client's next message.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Word {
    /// Its bytes.
    pub payload: Hidden,
    /// The number of the token in it; 0 when there is none.
    pub token: u64,
    /// Whether the provider may have a newer token if the server refuses this one.
    pub has_successor: bool,
    /// Whether the server may end the conversation after this message. Before it, the server has not proved its
    /// identity.
    pub is_last: bool,
}

/// A conversation whose client messages come from outside.
#[derive(Debug)]
pub(super) struct Conversation {
    mechanism: Mechanism,
    prompt: Prompt,
    number: Option<i32>,
    said: Option<Word>,
    tries: u32,
}

impl Conversation {
    pub(super) fn new(mechanism: Mechanism, refused: Option<u64>) -> Conversation {
        let prompt = Prompt { refused, ..Prompt::default() };
        Conversation { mechanism, prompt, number: None, said: None, tries: 0 }
    }

    pub(super) fn prompt(&self) -> &Prompt {
        &self.prompt
    }

    /// Returns the number of the last sent token; 0 for none.
    pub(super) fn token(&self) -> u64 {
        self.said.as_ref().map_or(0, |word| word.token)
    }

    /// Puts the next message into a command.
    pub(super) fn say(mut self, word: Word) -> State {
        let command = match self.number {
            Some(number) => sasl_continue(number, &word.payload.0),
            None => {
                let mut out = Vec::new();
                let start = bson::begin_document(&mut out);
                append_sasl_start(&mut out, self.mechanism, &word.payload.0);
                bson::end_document(&mut out, start);
                Command(out)
            }
        };
        self.said = Some(word);
        State::ExternalSent(command, self)
    }

    /// Handles the server's answer.
    pub(super) fn hear(mut self, reply: bson::RawDocument<'_>) -> Result<State, AuthError> {
        if is_done(reply) {
            let is_proven = self.said.as_ref().is_some_and(|word| word.is_last);
            return if is_proven { Ok(State::ExternalDone(self)) } else { Err(AuthError::Unproven) };
        }
        self.number = Some(conversation_id(reply));
        self.said = None;
        self.prompt = Prompt { challenge: Some(payload(reply)?.to_vec()), refused: None };
        Ok(State::External(self))
    }

    /// Starts over with another token, if there may be one.
    pub(super) fn try_again(self) -> Option<State> {
        let said = self.said.filter(|word| word.has_successor && self.tries + 1 < MOST_TRIES)?;
        let mut again = Conversation::new(self.mechanism, Some(said.token));
        again.tries = self.tries + 1;
        Some(State::External(again))
    }
}
