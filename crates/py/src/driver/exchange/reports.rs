//! Reports on the message of an exchange: sent, answered, broken, or lost with its connection.

use mangonel_proto::exchange::Step;
use mangonel_proto::message::has_more_to_come;
use pyo3::prelude::*;

use super::Exchange;
use crate::driver::failure;
use crate::driver::link::Link;
use crate::driver::tls::Tls;

impl Exchange {
    /// Passes the message that arrived on the link to the core.
    pub(crate) fn take_reply(&mut self, py: Python<'_>) -> PyResult<()> {
        let Some(link) = &self.link else { return Ok(()) };
        let link = link.bind(py);
        let (told, receives_directly, taken) = {
            let mut link = link.try_borrow_mut()?;
            link.check_not_lent()?;
            link.idle_since = link.clock.now();
            (link.note_reply(py), link.direct_receive.is_some(), link.take_message(py))
        };
        let taken = taken.and_then(|message| Link::unpacked(py, message));
        let mut past_deframer = 0;
        if receives_directly {
            let mut link = link.try_borrow_mut()?;
            if let Some(direct) = &mut link.direct_receive {
                past_deframer = std::mem::take(&mut direct.received_size);
            }
            // The next reply on this connection belongs to another exchange, unless it follows without a request.
            if !taken.as_ref().is_ok_and(|(message, _)| has_more_to_come(message)) {
                link.direct_receive = None;
            }
        }
        let (message, size) = match taken {
            Ok(taken) => taken,
            Err(error) if error.is_out_of_memory() => return Err(failure::broken_message(py, &error)),
            Err(error) => {
                self.handle_protocol_error(py, &error.to_string());
                return Ok(());
            }
        };
        if let Some(owner) = told {
            Tls::remember(&owner, py);
        }
        let sent = self.sent_size();
        self.advance(py, |inner, state, now| {
            state.client.count_bytes(sent, size + past_deframer);
            inner.handle_reply(&mut state.client, &message, now);
        });
        if self.inner.step() == Step::Done {
            // The reply to an earlier attempt may be more informative than the last one.
            self.reply = self.inner.take_earlier_reply().unwrap_or(message);
            self.trace(py);
        }
        Ok(())
    }

    /// Returns the size of the sent message on the wire, if operations are counted.
    #[inline]
    fn sent_size(&self) -> usize {
        let is_counted = self.core.get().is_counting() && !self.inner.is_under_way();
        if is_counted { self.outbound().len() } else { 0 }
    }

    /// Tells listeners that the command is about to be sent, when there are any.
    pub(crate) fn announce(&mut self, py: Python<'_>) {
        if self.inner.is_announcement_due() {
            self.advance(py, |inner, state, now| inner.announce(&mut state.client, now));
        }
    }

    pub(crate) fn sent(&mut self, py: Python<'_>) {
        let size = if self.expects_reply() { 0 } else { self.sent_size() };
        self.advance(py, |inner, state, now| {
            state.client.count_bytes(size, 0);
            inner.handle_sent(&mut state.client, now);
        });
    }

    pub(crate) fn network_error(&mut self, py: Python<'_>, error: &PyErr, timed_out: bool) {
        let link = self.link.as_ref().and_then(|link| link.try_borrow(py).ok());
        let message = link.map_or_else(|| error.value(py).to_string(), |link| link.describe(py, error));
        self.cause = Some(error.value(py).clone().into_any().unbind());
        // `socket.gaierror`, without importing a module that may not be loaded.
        let is_name_unknown = error.get_type(py).name().is_ok_and(|name| name == "gaierror");
        self.advance(py, |inner, state, now| match is_name_unknown {
            true => inner.handle_name_error(&mut state.client, &message, now),
            false => inner.handle_network_error(&mut state.client, &message, timed_out, now),
        });
    }
}
