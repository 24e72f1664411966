//! SCRAM-SHA-1 and SCRAM-SHA-256 as a conversation of byte strings. Knows no command and no connection, makes no nonce.
//! The slow step, deriving keys, is a separate value, so it can run on another thread and its result can be cached.
//! Spec: RFC 5802, RFC 7677; auth, "SCRAM-SHA-1", "SCRAM-SHA-256", "Caching credentials".

use std::collections::HashMap;
use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use hmac::{Hmac, KeyInit, Mac};
use md5::Md5;
use sha1::Sha1;
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use super::{AuthError, Secret};

/// With fewer rounds than this, a recorded conversation is too easy to attack.
const MIN_ITERATIONS: u32 = 4096;
/// With more rounds than this, a server could keep the client busy for minutes.
const MAX_ITERATIONS: u32 = 10_000_000;
/// No channel binding, no authorization identity.
const GS2_HEADER: &str = "n,,";

/// The hash function of a SCRAM mechanism.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Hash {
    /// SCRAM-SHA-1, whose password is a digest of name and password.
    Sha1,
    /// SCRAM-SHA-256, whose password is prepared with SASLprep.
    Sha256,
}

impl Hash {
    fn hmac(self, key: &[u8], message: &[u8]) -> Vec<u8> {
        // HMAC takes keys of any length, so `new_from_slice` cannot fail.
        match self {
            Hash::Sha1 => Hmac::<Sha1>::new_from_slice(key)
                .map(|mac| mac.chain_update(message).finalize().into_bytes().to_vec())
                .unwrap_or_default(),
            Hash::Sha256 => Hmac::<Sha256>::new_from_slice(key)
                .map(|mac| mac.chain_update(message).finalize().into_bytes().to_vec())
                .unwrap_or_default(),
        }
    }

    fn digest(self, message: &[u8]) -> Vec<u8> {
        match self {
            Hash::Sha1 => Sha1::digest(message).to_vec(),
            Hash::Sha256 => Sha256::digest(message).to_vec(),
        }
    }

    fn pbkdf2(self, password: &[u8], salt: &[u8], iterations: u32) -> Vec<u8> {
        match self {
            Hash::Sha1 => pbkdf2::pbkdf2_hmac_array::<Sha1, 20>(password, salt, iterations).to_vec(),
            Hash::Sha256 => pbkdf2::pbkdf2_hmac_array::<Sha256, 32>(password, salt, iterations).to_vec(),
        }
    }

    /// Returns the password in the form that this mechanism hashes.
    pub fn prepare(self, username: &str, password: &Secret) -> Result<Secret, AuthError> {
        match self {
            Hash::Sha1 => {
                let digest = Md5::new()
                    .chain_update(username)
                    .chain_update(":mongo:")
                    .chain_update(password.reveal())
                    .finalize();
                Ok(Secret::new(digest.iter().map(|byte| format!("{byte:02x}")).collect::<String>()))
            }
            Hash::Sha256 => stringprep::saslprep(password.reveal())
                .map(|prepared| Secret::new(prepared.into_owned()))
                .map_err(|_| AuthError::PasswordCharacters),
        }
    }
}

/// The keys of both proofs; deriving them from the password is slow.
#[derive(Clone, PartialEq, Eq)]
pub struct Keys {
    client_key: Vec<u8>,
    server_key: Vec<u8>,
}

impl fmt::Debug for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Keys(…)")
    }
}

/// Identifies the input that keys were derived from, without revealing it.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct KeyId([u8; 32]);

impl fmt::Debug for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("KeyId(…)")
    }
}

/// The input for deriving keys.
#[derive(Clone, Debug)]
pub struct KeyRequest {
    hash: Hash,
    password: Secret,
    salt: Vec<u8>,
    iterations: u32,
    id: KeyId,
}

impl KeyRequest {
    fn new(hash: Hash, username: &str, password: Secret, salt: Vec<u8>, iterations: u32) -> KeyRequest {
        let password_digest = Sha256::digest(password.reveal());
        let mut id = Sha256::new();
        for part in [&[hash as u8][..], username.as_bytes(), &password_digest, &salt] {
            // Each part with its length, so that two lists of parts never give the same input.
            id.update((part.len() as u64).to_le_bytes());
            id.update(part);
        }
        id.update(iterations.to_le_bytes());
        let id = KeyId(id.finalize().into());
        KeyRequest { hash, password, salt, iterations, id }
    }

    /// Returns the id of the keys, for [`KeyCache`].
    pub fn id(&self) -> KeyId {
        self.id
    }

    /// Returns how many rounds of hashing the server asks for.
    pub fn iterations(&self) -> u32 {
        self.iterations
    }

    /// Derives the keys. Takes milliseconds: run it off the hot path, without a lock.
    pub fn derive(&self) -> Keys {
        let salted = self.hash.pbkdf2(self.password.reveal().as_bytes(), &self.salt, self.iterations);
        Keys {
            client_key: self.hash.hmac(&salted, b"Client Key"),
            server_key: self.hash.hmac(&salted, b"Server Key"),
        }
    }
}

/// Keys of earlier conversations. A client has few users and servers, so a small cache is enough.
#[derive(Clone, Debug, Default)]
pub struct KeyCache {
    keys: HashMap<KeyId, Keys>,
}

impl KeyCache {
    /// The most keys that are kept.
    pub const CAPACITY: usize = 64;

    /// Returns the keys derived earlier for an equal request.
    pub fn find(&self, id: KeyId) -> Option<&Keys> {
        self.keys.get(&id)
    }

    /// Keeps keys. A full cache is emptied: most likely the salts have changed.
    pub fn keep(&mut self, id: KeyId, keys: Keys) {
        if self.keys.len() >= Self::CAPACITY && !self.keys.contains_key(&id) {
            self.keys.clear();
        }
        self.keys.insert(id, keys);
    }
}

/// The client's side of one conversation: [`first`](Self::first), [`handle_first`](Self::handle_first),
/// [`last`](Self::last), [`handle_last`](Self::handle_last), in this order.
pub struct Scram {
    hash: Hash,
    username: String,
    password: Secret,
    nonce: String,
    first_bare: String,
    server_first: String,
    server_nonce: String,
    server_signature: Vec<u8>,
}

impl fmt::Debug for Scram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scram").field("hash", &self.hash).field("username", &self.username).finish()
    }
}

impl Scram {
    /// Begins a conversation. `password` comes from [`Hash::prepare`]; `nonce` is random and holds no comma.
    pub fn new(hash: Hash, username: &str, password: Secret, nonce: String) -> Scram {
        let escaped = username.replace('=', "=3D").replace(',', "=2C");
        Scram {
            hash,
            username: username.to_owned(),
            password,
            first_bare: format!("n={escaped},r={nonce}"),
            nonce,
            server_first: String::new(),
            server_nonce: String::new(),
            server_signature: Vec::new(),
        }
    }

    /// Returns the client's first message.
    pub fn first(&self) -> Vec<u8> {
        format!("{GS2_HEADER}{}", self.first_bare).into_bytes()
    }

    /// Handles the server's first message; returns the request for the keys.
    pub fn handle_first(&mut self, message: &[u8]) -> Result<KeyRequest, AuthError> {
        let malformed = || AuthError::Malformed { what: "the server's first SCRAM message" };
        let message = std::str::from_utf8(message).map_err(|_| malformed())?;
        let mut parts = message.split(',');
        let mut attribute = |name: &str| parts.next().and_then(|part| part.strip_prefix(name));
        let nonce = attribute("r=").ok_or_else(malformed)?;
        let salt = attribute("s=").ok_or_else(malformed)?;
        let iterations = attribute("i=").ok_or_else(malformed)?;
        if nonce.len() <= self.nonce.len() || !nonce.starts_with(&self.nonce) {
            return Err(AuthError::Nonce);
        }
        let salt = BASE64.decode(salt).map_err(|_| malformed())?;
        let iterations: u32 = iterations.parse().map_err(|_| malformed())?;
        if !(MIN_ITERATIONS..=MAX_ITERATIONS).contains(&iterations) {
            return Err(AuthError::Iterations { found: iterations });
        }
        self.server_nonce = nonce.to_owned();
        self.server_first = message.to_owned();
        Ok(KeyRequest::new(self.hash, &self.username, self.password.clone(), salt, iterations))
    }

    /// Returns the client's last message, which proves that the client knows the password.
    pub fn last(&mut self, keys: &Keys) -> Vec<u8> {
        let without_proof = format!("c={},r={}", BASE64.encode(GS2_HEADER), self.server_nonce);
        let auth_message = format!("{},{},{without_proof}", self.first_bare, self.server_first);
        let stored_key = self.hash.digest(&keys.client_key);
        let signature = self.hash.hmac(&stored_key, auth_message.as_bytes());
        let proof: Vec<u8> = keys.client_key.iter().zip(signature).map(|(key, bit)| key ^ bit).collect();
        self.server_signature = self.hash.hmac(&keys.server_key, auth_message.as_bytes());
        format!("{without_proof},p={}", BASE64.encode(proof)).into_bytes()
    }

    /// Handles the server's last message, which proves that the server knows the password too.
    pub fn handle_last(&self, message: &[u8]) -> Result<(), AuthError> {
        let malformed = || AuthError::Malformed { what: "the server's last SCRAM message" };
        let message = std::str::from_utf8(message).map_err(|_| malformed())?;
        let part = message.split(',').next().unwrap_or_default();
        if let Some(error) = part.strip_prefix("e=") {
            return Err(AuthError::Refused { code: None, message: error.to_owned() });
        }
        let signature = part.strip_prefix("v=").ok_or_else(malformed)?;
        let signature = BASE64.decode(signature).map_err(|_| malformed())?;
        let is_right =
            !self.server_signature.is_empty() && bool::from(signature.ct_eq(&self.server_signature));
        if is_right { Ok(()) } else { Err(AuthError::ServerSignature) }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// An example from a specification: the hash, the prepared password, and the messages of both sides.
    struct Vector {
        hash: Hash,
        password: &'static str,
        nonce: &'static str,
        server_first: &'static str,
        last: &'static str,
        server_last: &'static str,
    }

    /// RFC 5802, section 5; RFC 7677, section 3; the auth specification's example of SCRAM-SHA-1, whose
    /// password is the digest of "user:mongo:pencil".
    const VECTORS: &[Vector] = &[
        Vector {
            hash: Hash::Sha1,
            password: "pencil",
            nonce: "fyko+d2lbbFgONRv9qkxdawL",
            server_first: "r=fyko+d2lbbFgONRv9qkxdawL3rfcNHYJY1ZVvWVs7j,s=QSXCR+Q6sek8bf92,i=4096",
            last: "c=biws,r=fyko+d2lbbFgONRv9qkxdawL3rfcNHYJY1ZVvWVs7j,p=v0X8v3Bz2T0CJGbJQyF0X+HI4Ts=",
            server_last: "v=rmF9pqV8S7suAoZWja4dJRkFsKQ=",
        },
        Vector {
            hash: Hash::Sha256,
            password: "pencil",
            nonce: "rOprNGfwEbeRWgbNEkqO",
            server_first: "r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096",
            last: "c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,\
                   p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=",
            server_last: "v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=",
        },
        Vector {
            hash: Hash::Sha1,
            password: "1c33006ec1ffd90f9cadcbcc0e118200",
            nonce: "fyko+d2lbbFgONRv9qkxdawL",
            server_first: "r=fyko+d2lbbFgONRv9qkxdawLHo+Vgk7qvUOKUwuWLIWg4l/9SraGMHEE,\
                           s=rQ9ZY3MntBeuP3E1TDVC4w==,i=10000",
            last: "c=biws,r=fyko+d2lbbFgONRv9qkxdawLHo+Vgk7qvUOKUwuWLIWg4l/9SraGMHEE,\
                   p=MC2T8BvbmWRckDw8oWl5IVghwCY=",
            server_last: "v=UMWeI25JD1yNYZRMpZ4VHvhZ9e0=",
        },
    ];

    fn begin(vector: &Vector) -> Scram {
        Scram::new(vector.hash, "user", Secret::new(vector.password), vector.nonce.to_owned())
    }

    #[test]
    fn scram_spec() {
        for vector in VECTORS {
            let mut scram = begin(vector);
            assert_eq!(scram.first(), format!("n,,n=user,r={}", vector.nonce).into_bytes());
            let keys = scram.handle_first(vector.server_first.as_bytes()).unwrap().derive();
            assert_eq!(String::from_utf8(scram.last(&keys)).unwrap(), vector.last);
            assert_eq!(scram.handle_last(vector.server_last.as_bytes()), Ok(()));
        }
    }

    #[test]
    fn a_server_that_does_not_have_the_password_is_refused() {
        for vector in VECTORS {
            let mut scram = begin(vector);
            // Before the client's proof every signature is refused, even an empty one.
            assert_eq!(scram.handle_last(b"v="), Err(AuthError::ServerSignature));
            let keys = scram.handle_first(vector.server_first.as_bytes()).unwrap().derive();
            scram.last(&keys);
            for wrong in ["v=", "v=AAAA", "v=UMWeI25JD1yNYZRMpZ4VHvhZ9e1="] {
                assert!(scram.handle_last(wrong.as_bytes()).is_err(), "{wrong}");
            }
            let shorter = BASE64.encode(&scram.server_signature[1..]);
            let error = scram.handle_last(format!("v={shorter}").as_bytes());
            assert_eq!(error, Err(AuthError::ServerSignature));
        }
    }

    #[test]
    fn a_server_nonce_must_continue_ours() {
        for nonce in ["fyko+d2lbbFgONRv9qkxdawL", "Fyko+d2lbbFgONRv9qkxdawLxyz", "x"] {
            let message = format!("r={nonce},s=QSXCR+Q6sek8bf92,i=4096");
            let error = begin(&VECTORS[0]).handle_first(message.as_bytes()).unwrap_err();
            assert_eq!(error, AuthError::Nonce);
        }
    }

    #[test]
    fn the_number_of_rounds_has_bounds() {
        let of = |rounds: u32| {
            let message = format!("r=fyko+d2lbbFgONRv9qkxdawLx,s=QSXCR+Q6sek8bf92,i={rounds}");
            begin(&VECTORS[0]).handle_first(message.as_bytes()).map(|_| ())
        };
        for found in [0, 1, 4095, 10_000_001, u32::MAX] {
            assert_eq!(of(found), Err(AuthError::Iterations { found }));
        }
        assert_eq!(of(4096), Ok(()));
    }

    #[test]
    fn a_name_cannot_break_out_of_its_attribute() {
        let scram = Scram::new(Hash::Sha256, "a=b,n=root", Secret::new("x"), "N".to_owned());
        assert_eq!(scram.first(), b"n,,n=a=3Db=2Cn=3Droot,r=N");
    }

    #[test]
    fn passwords_are_prepared_as_each_mechanism_asks() {
        let prepare = |hash: Hash, password: &str| hash.prepare("user", &Secret::new(password));
        assert_eq!(prepare(Hash::Sha1, "pencil").unwrap().reveal(), "1c33006ec1ffd90f9cadcbcc0e118200");
        // RFC 4013, section 3: soft hyphen vanishes, compatibility forms are folded, case stays.
        for (password, prepared) in
            [("I\u{AD}X", "IX"), ("\u{AA}", "a"), ("\u{2168}", "IX"), ("user", "user")]
        {
            assert_eq!(prepare(Hash::Sha256, password).unwrap().reveal(), prepared);
        }
        for prohibited in ["\u{7}", "\u{627}1"] {
            assert_eq!(prepare(Hash::Sha256, prohibited).unwrap_err(), AuthError::PasswordCharacters);
        }
    }

    #[test]
    fn keys_are_found_again_only_for_an_equal_request() {
        let request = |hash, user: &str, password: &str, salt: &[u8], iterations| {
            KeyRequest::new(hash, user, Secret::new(password), salt.to_vec(), iterations)
        };
        let original = request(Hash::Sha256, "u", "p", b"salt", 4096);
        let mut cache = KeyCache::default();
        cache.keep(original.id(), original.derive());
        let again = request(Hash::Sha256, "u", "p", b"salt", 4096);
        assert_eq!(cache.find(again.id()), Some(&original.derive()));
        for other in [
            request(Hash::Sha1, "u", "p", b"salt", 4096),
            request(Hash::Sha256, "v", "p", b"salt", 4096),
            request(Hash::Sha256, "u", "q", b"salt", 4096),
            request(Hash::Sha256, "u", "p", b"Salt", 4096),
            request(Hash::Sha256, "u", "p", b"salt", 4097),
        ] {
            assert_eq!(cache.find(other.id()), None);
        }
    }

    #[test]
    fn the_cache_is_bounded() {
        let mut cache = KeyCache::default();
        let keys = Keys { client_key: vec![1], server_key: vec![2] };
        for number in 0..1000u32 {
            let id = KeyRequest::new(Hash::Sha1, "u", Secret::new("p"), vec![], number).id();
            cache.keep(id, keys.clone());
            assert!(cache.keys.len() <= KeyCache::CAPACITY);
            assert!(cache.find(id).is_some());
        }
    }

    #[test]
    fn secrets_are_never_printed() {
        let mut scram = begin(&VECTORS[0]);
        let request = scram.handle_first(VECTORS[0].server_first.as_bytes()).unwrap();
        let printed = format!("{scram:?} {request:?} {:?} {:?}", request.derive(), request.id());
        assert!(!printed.contains("pencil"), "{printed}");
        assert!(!printed.contains(&format!("{:?}", request.derive().client_key)), "{printed}");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(256))]

        #[test]
        fn any_server_message_is_taken_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let mut scram = begin(&VECTORS[1]);
            let _ = scram.handle_first(&bytes);
            let _ = scram.handle_last(&bytes);
        }

        #[test]
        fn any_well_formed_looking_message_is_taken_or_refused(
            nonce in "[ -~]{0,20}", salt in "[A-Za-z0-9+/=]{0,20}", rounds in "[0-9-]{0,12}", tail in ".{0,10}",
        ) {
            let message = format!("r=rOprNGfwEbeRWgbNEkqO{nonce},s={salt},i={rounds}{tail}");
            let _ = begin(&VECTORS[1]).handle_first(message.as_bytes());
        }
    }
}
