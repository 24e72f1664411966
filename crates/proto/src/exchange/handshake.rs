//! The conversation that makes a new connection usable. Spec: mongodb-handshake.

use super::Exchange;
use crate::client::Client;
use crate::error::ProtocolError;
use crate::reply::Facts;
use crate::time::Instant;
use crate::topology::{self, Cause};

impl Exchange {
    pub(super) fn read_handshake(
        &mut self,
        client: &mut Client,
        message: &[u8],
        now: Instant,
    ) -> Result<(), ProtocolError> {
        let reply = self.answer_of(message)?;
        let facts = Facts::read(reply)?;
        if !facts.ok {
            let why = reply.get_str("errmsg")?.unwrap_or("no reason given");
            let message = format!("{}: the handshake was refused: {why}", self.address());
            self.report(client, topology::Phase::BeforeHandshake, Cause::Reply(reply), &message, now);
            self.drop_link(client, now);
            self.back_off(client, message, now);
            return Ok(());
        }
        self.handshake = None;
        self.link.into_iter().for_each(|link| client.note_line(link, reply));
        let (link, generation) = (self.link, self.generation);
        if let (Some(link), Some(pool)) = (link, self.pool(client)) {
            pool.established(link, generation, now);
        }
        self.send(client, now);
        Ok(())
    }
}
