//! What all connections of one client share when they authenticate: who the user is, fresh nonces, derived keys.
//! Sends nothing and knows no connection. Spec: auth, "Caching credentials".

use std::fmt;

use sha2::{Digest, Sha256};

use super::scram::{KeyCache, KeyRequest, Keys};
use super::{AuthError, Authentication, Credential, Mechanism, NONCE_SIZE};

/// The user that a client's connections authenticate as, with what earlier conversations left behind.
#[derive(Clone, Debug)]
pub struct Login {
    credential: Credential,
    nonces: Nonces,
    keys: KeyCache,
    /// What was settled with a server that was asked; a user's mechanisms are the same on all of them.
    settled: Option<Mechanism>,
}

impl Login {
    /// Makes the login of a new client. `seed`: good randomness that is used for nothing else.
    pub fn new(credential: Credential, seed: [u8; 32]) -> Login {
        Login {
            credential,
            nonces: Nonces { secret: seed, count: 0 },
            keys: KeyCache::default(),
            settled: None,
        }
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
        Authentication::new(self.credential.clone(), self.nonces.next())
    }

    /// Begins to authenticate anew on a connection that was authenticated before.
    ///
    /// # Errors
    /// As for [`begin`](Self::begin).
    pub fn begin_again(&mut self) -> Result<Authentication, AuthError> {
        let mechanism = self.credential.mechanism.or(self.settled).unwrap_or(Mechanism::ScramSha256);
        Authentication::again(self.credential.clone(), mechanism, self.nonces.next())
    }

    /// Notes which mechanism an authentication went well with.
    pub fn settle(&mut self, mechanism: Option<Mechanism>) {
        self.settled = mechanism;
    }

    /// Returns the keys that an equal request was derived for before.
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

/// Nonces that nobody can predict who does not know the seed: a hash over the seed and a count.
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
