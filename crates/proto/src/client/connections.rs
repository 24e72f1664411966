//! The facts about each connection from its handshake: the server's number for it, service, compression, token.

use std::sync::Arc;
use std::time::Duration;

use mangonel_bson::{ObjectId, RawDocument};

use super::Client;
use crate::compress::{Compressor, negotiate};
use crate::ids::LinkId;
use crate::time::Instant;
use crate::topology::ServerDescription;

/// The facts about a connection from its handshake.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ConnectionFacts {
    /// The server's own number for it.
    pub(crate) server_connection_id: Option<i64>,
    /// The service behind a load balancer.
    pub(crate) service_id: Option<ObjectId>,
    /// The compression of its messages.
    pub(crate) compressor: Option<Compressor>,
    /// The number of the token that authenticated it; 0 for none.
    token: u64,
}

impl Client {
    /// Stores the facts from a connection's handshake until it is closed.
    pub(crate) fn note_connection(&mut self, link: LinkId, hello: RawDocument<'_>) {
        let connection = ConnectionFacts {
            server_connection_id: hello.get_i64_lenient("connectionId").ok().flatten(),
            service_id: hello.get_object_id("serviceId").ok().flatten(),
            compressor: read_compression(hello, &self.options.compressors),
            token: 0,
        };
        self.connections.insert(link, connection);
        if self.is_load_balanced()
            && let Some(address) = self.description().servers.keys().next()
        {
            let service = ServerDescription::from_hello(address.clone(), hello, Instant(Duration::ZERO));
            self.balanced_service = Some(Arc::new(service));
        }
    }

    /// Returns the compression negotiated by a connection's handshake; `None` for none.
    pub fn compressor(&self, link: LinkId) -> Option<Compressor> {
        self.connections.get(&link)?.compressor
    }

    /// Records the token that authenticated a connection.
    pub(crate) fn note_token(&mut self, link: LinkId, token: u64) {
        if let Some(connection) = self.connections.get_mut(&link) {
            connection.token = token;
        }
    }

    /// Returns the number of the token that authenticated a connection; 0 for none.
    pub(crate) fn token(&self, link: LinkId) -> u64 {
        self.connections.get(&link).map_or(0, |connection| connection.token)
    }

    pub(super) fn forget_connections(&mut self, links: &[LinkId]) {
        for link in links {
            self.connections.remove(link);
        }
    }

    pub(crate) fn connection_facts(&self, link: LinkId) -> ConnectionFacts {
        self.connections.get(&link).copied().unwrap_or_default()
    }
}

fn read_compression(hello: RawDocument<'_>, wanted: &[Compressor]) -> Option<Compressor> {
    if wanted.is_empty() {
        return None;
    }
    let names: Vec<&str> = hello
        .get_array("compression")
        .ok()
        .flatten()?
        .iter()
        .filter_map(|name| match name {
            Ok(mangonel_bson::RawValue::String(name)) => Some(name),
            _ => None,
        })
        .collect();
    negotiate(wanted, names)
}
