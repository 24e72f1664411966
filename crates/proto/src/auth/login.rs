//! The state that all connections of a client share for authentication: the user, fresh nonces, derived keys.
//! Sends nothing and knows no connection. Spec: auth, "Caching credentials".

use std::fmt;

use sha2::{Digest, Sha256};

use super::external::Word;
use super::scram::{KeyCache, KeyRequest, Keys};
use super::{AuthError, Authentication, Credential, Mechanism, NONCE_SIZE};

/// The user that a client's connections authenticate as, with the results of earlier conversations.
#[derive(Clone, Debug)]
pub struct Login {
    credential: Credential,
    nonces: Nonces,
    keys: KeyCache,
    /// The mechanism negotiated with a server; a user's mechanisms are the same on all servers.
    settled: Option<Mechanism>,
    /// The message that authenticated the last connection, if other connections may use it too.
    word: Option<Word>,
    /// The hosts to which the user's credentials may be sent; `None`: any host.
    allowed_hosts: Option<Vec<String>>,
}

impl Login {
    /// Makes the login of a new client. `seed`: good randomness that is used for nothing else.
    pub fn new(credential: Credential, seed: [u8; 32]) -> Login {
        Login {
            credential,
            nonces: Nonces { secret: seed, count: 0 },
            keys: KeyCache::default(),
            settled: None,
            word: None,
            allowed_hosts: None,
        }
    }

    /// Restricts credentials to these hosts: names, or `*.` and the end of a name.
    pub fn allow_hosts(&mut self, patterns: Vec<String>) {
        self.allowed_hosts = Some(patterns);
    }

    /// Returns whether credentials may be sent to this host.
    pub fn allows(&self, host: &str) -> bool {
        let matches = |pattern: &String| match pattern.strip_prefix('*') {
            Some(end) if end.starts_with('.') => host.ends_with(end),
            _ => host == pattern,
        };
        self.allowed_hosts.as_ref().is_none_or(|patterns| patterns.iter().any(matches))
    }

    /// Returns the user.
    pub fn credential(&self) -> &Credential {
        &self.credential
    }

    /// Begins to authenticate a new connection.
    ///
    /// # Errors
    /// When the mechanism cannot use the name or the password.
    pub fn begin(&mut self) -> Result<Authentication, AuthError> {
        let mut authentication = Authentication::new(self.credential.clone(), self.nonces.next())?;
        authentication.remember(self.word.clone());
        Ok(authentication)
    }

    /// Begins to authenticate again on a connection that was authenticated before, which used the token of this number.
    ///
    /// # Errors
    /// As for [`begin`](Self::begin).
    pub fn begin_again(&mut self, token: u64) -> Result<Authentication, AuthError> {
        let mechanism = self.credential.mechanism.or(self.settled).unwrap_or(Mechanism::ScramSha256);
        self.forget_token(token);
        Authentication::again(self.credential.clone(), mechanism, self.nonces.next(), Some(token))
    }

    /// Records the mechanism and message of a successful authentication.
    pub fn settle(&mut self, authentication: &Authentication) {
        self.settled = authentication.mechanism();
        if self.settled == Some(Mechanism::Oidc)
            && let Some(word) = authentication.word()
            && self.word.as_ref().is_none_or(|known| known.token < word.token)
        {
            self.word = Some(word.clone());
        }
    }

    /// Keeps this token out of later hello commands.
    pub fn forget_token(&mut self, token: u64) {
        self.word = self.word.take().filter(|word| word.token > token);
    }

    /// Returns the keys derived for an equal request earlier.
    pub fn find_keys(&self, request: &KeyRequest) -> Option<&Keys> {
        self.keys.find(request.id())
    }

    /// Keeps keys for the next connection.
    pub fn keep_keys(&mut self, request: &KeyRequest, keys: Keys) {
        self.keys.keep(request.id(), keys);
    }

    /// Makes the nonces differ from those of the process that this one was forked from.
    pub fn restart_in_child(&mut self, seed: [u8; 16]) {
        self.nonces.mix(&seed);
    }
}

/// Nonces, unpredictable without the seed: a hash over the seed and a count.
#[derive(Clone)]
struct Nonces {
    secret: [u8; 32],
    count: u64,
}

impl fmt::Debug for Nonces {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Nonces(…)")
    }
}

impl Nonces {
    fn next(&mut self) -> [u8; NONCE_SIZE] {
        self.count += 1;
        let digest =
            Sha256::new().chain_update(self.secret).chain_update(self.count.to_le_bytes()).finalize();
        let mut nonce = [0; NONCE_SIZE];
        nonce.copy_from_slice(&digest[..NONCE_SIZE]);
        nonce
    }

    fn mix(&mut self, seed: &[u8]) {
        self.secret = Sha256::new().chain_update(self.secret).chain_update(seed).finalize().into();
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn no_nonce_comes_twice_not_even_in_a_forked_child() {
        let mut parent = Nonces { secret: [7; 32], count: 0 };
        let mut child = parent.clone();
        child.mix(&[1; 16]);
        let seen: HashSet<_> = (0..100).flat_map(|_| [parent.next(), child.next()]).collect();
        assert_eq!(seen.len(), 200);
    }
}
