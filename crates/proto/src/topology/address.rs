//! The address of a server: a host and a port, or the path of a UNIX socket. Resolves no name.

use std::fmt;
use std::sync::Arc;

/// The default port of an address.
pub const DEFAULT_PORT: u16 = 27017;

/// A server's address in normal form, for comparison: `host:port` in lower case, or a socket's path.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Address {
    text: Arc<str>,
    // The end of the host, and the port; a UNIX socket has no port.
    port: Option<u16>,
}

/// A text that is not an address.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AddressError {
    text: String,
    expected: &'static str,
}

impl fmt::Display for AddressError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "expected {}, got {:?}", self.expected, self.text)
    }
}

impl std::error::Error for AddressError {}

impl Address {
    /// Reads `host`, `host:port`, `[ipv6]`, `[ipv6]:port`, a bare IPv6 address or the path of a UNIX socket.
    pub fn parse(text: &str) -> Result<Address, AddressError> {
        let wrong = |expected| Err(AddressError { text: text.to_owned(), expected });
        if text.ends_with(".sock") && text.contains('/') {
            return Ok(Address { text: text.into(), port: None });
        }
        let (host, port) = if let Some(rest) = text.strip_prefix('[') {
            let Some((host, after)) = rest.split_once(']') else {
                return wrong("\"]\" after an IPv6 address");
            };
            match (after, after.strip_prefix(':')) {
                ("", _) => (host, None),
                (_, Some(port)) => (host, Some(port)),
                _ => return wrong("\":\" and a port after \"]\""),
            }
        } else {
            match text.split_once(':') {
                Some((_, port)) if port.contains(':') => (text, None),
                Some((host, port)) => (host, Some(port)),
                None => (text, None),
            }
        };
        if host.is_empty() || host.contains(['[', ']']) {
            return wrong("a host name");
        }
        let port = match port {
            None => DEFAULT_PORT,
            // `u16::from_str` takes a leading "+", which no address has.
            Some(digits) => match digits.parse::<u16>() {
                Ok(port) if port > 0 && digits.bytes().all(|byte| byte.is_ascii_digit()) => port,
                _ => return wrong("a port between 1 and 65535"),
            },
        };
        Ok(Address::new(host, port))
    }

    /// Makes an address; `host` is a name, or an IP address without brackets.
    pub fn new(host: &str, port: u16) -> Address {
        let host = host.to_lowercase();
        let text = if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") };
        Address { text: text.into(), port: Some(port) }
    }

    /// Returns the address that `as_str` has spelled, even one that `parse` refuses, such as `:5`.
    pub fn spelled(text: &str) -> Address {
        let port = text.rsplit_once(':').and_then(|(_, digits)| digits.parse().ok());
        let port = if text.ends_with(".sock") && text.contains('/') { None } else { port };
        Address { text: text.into(), port }
    }

    /// Returns the whole address, as servers and users write it.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Returns the host without brackets, or the socket's path.
    pub fn host(&self) -> &str {
        if self.port.is_none() {
            return &self.text;
        }
        let host = self.text.rsplit_once(':').map_or(&*self.text, |(host, _)| host);
        host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host)
    }

    /// Returns the port, or `None` for a UNIX socket.
    pub fn port(&self) -> Option<u16> {
        self.port
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_form_of_an_address_has_one_spelling() {
        for (text, host, port, spelling) in [
            ("A.Example", "a.example", Some(27017), "a.example:27017"),
            ("a:1", "a", Some(1), "a:1"),
            ("[::1]", "::1", Some(27017), "[::1]:27017"),
            ("[FE80::1]:9", "fe80::1", Some(9), "[fe80::1]:9"),
            ("::1", "::1", Some(27017), "[::1]:27017"),
            ("/tmp/MongoDB-1.sock", "/tmp/MongoDB-1.sock", None, "/tmp/MongoDB-1.sock"),
        ] {
            let address = Address::parse(text).unwrap();
            assert_eq!((address.host(), address.port(), address.as_str()), (host, port, spelling));
            assert_eq!(Address::parse(spelling).unwrap(), address);
        }
    }

    #[test]
    fn each_address_is_made_again_of_its_spelling() {
        for host in ["a.example", "::1", "fe80::1%eth0", "", "[", "[::1]]", "a/b"] {
            let address = Address::new(host, 27018);
            let again = Address::spelled(address.as_str());
            assert_eq!((again.host(), again.port(), &again), (host, Some(27018), &address));
        }
        let path = Address::parse("/tmp/a:1.sock").unwrap();
        assert_eq!(Address::spelled(path.as_str()), path);
    }

    #[test]
    fn a_text_that_is_no_address_is_refused() {
        for text in
            ["", ":1", "a:", "a:0", "a:65536", "a:+1", "a:x", "[::1", "[::1]x", "[]:1", "[[::1]", "a]:1"]
        {
            assert!(Address::parse(text).is_err(), "{text:?}");
        }
    }
}
