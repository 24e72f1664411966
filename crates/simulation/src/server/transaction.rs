//! Transactions on a primary: writes that no other client sees until one entry of the log commits them.

use mangonel_bson::writer;

use super::answer::{NO_SUCH_TRANSACTION, WRITE_CONFLICT};
use super::command::{Statement, made};
use super::log::collection;
use super::set::Set;
use crate::wire::Request;

impl Set {
    pub(super) fn write_in_transaction(&mut self, number: usize, line: usize, request: &Request<'_>) {
        if !self.check_transaction(number, line, request) {
            return;
        }
        let (Some(session), Some(collection)) = (request.session, collection(request.collection())) else {
            return self.refuse(number, line, request, 73);
        };
        for (statement, document) in request.documents.iter().enumerate() {
            let Some(snapshot) = self.members[number].transactions.get(&session).map(|known| known.snapshot)
            else {
                return;
            };
            let made_of = Statement { name: request.name, collection, document: *document };
            let write = made(self, number, request.intent, &made_of, statement as i32, snapshot);
            let Some(mut write) = write else {
                self.members[number].transactions.remove(&session);
                return self.refuse(number, line, request, 11000);
            };
            let key = (write.collection, write.key);
            let is_taken = self.members[number].transactions.iter().any(|(other, known)| {
                *other != session && known.writes.iter().any(|write| (write.collection, write.key) == key)
            });
            if is_taken || self.members[number].data.changed(key.0, key.1) > snapshot {
                self.members[number].transactions.remove(&session);
                return self.refuse(number, line, request, WRITE_CONFLICT);
            }
            if let Some(known) = self.members[number].transactions.get_mut(&session) {
                // A transaction sees its own writes.
                let earlier = known.writes.iter().rev().find(|write| (write.collection, write.key) == key);
                if let (Some(earlier), Ok(Some(add))) = (earlier, document.get_i64_lenient("add")) {
                    write.value = earlier.value.map(|value| value + add);
                }
                write.statement = known.writes.len() as i32;
                known.writes.push(write);
            }
        }
        let count = request.documents.len() as i32;
        self.answer(number, line, request, |out| {
            writer::append_double(out, "ok", 1.0);
            writer::append_i32(out, "n", count);
        });
    }

    pub(super) fn commit_transaction(
        &mut self,
        number: usize,
        line: usize,
        request: &Request<'_>,
        message: &[u8],
    ) {
        let Some((session, wanted)) = request.session.zip(request.number) else {
            return self.refuse(number, line, request, 72);
        };
        let begun_at =
            self.members[number].transactions.get(&session).and_then(|known| self.host_of(known.line));
        let has_token = request.body.get_document("recoveryToken").is_ok_and(|token| token.is_some());
        if self.is_cluster && begun_at.is_some_and(|host| Some(host) != self.host_of(line)) && !has_token {
            self.complaints.push("a commit by another router has no recoveryToken".into());
        }
        let row = self.members[number].data.rows.get(&session).cloned().unwrap_or_default();
        let is_committed = row.number == wanted && row.is_transaction;
        if !is_committed {
            let known = self.members[number].transactions.remove(&session);
            let Some(known) = known.filter(|known| known.number == wanted) else {
                // The answer waits for a majority whose logs lack the transaction; otherwise the transaction might
                // appear later.
                let reply = self.refusal(number, request, NO_SUCH_TRANSACTION);
                if request.wants_majority {
                    self.write(number, None, false, Vec::new());
                }
                return self.answer_when_safe(number, line, request, message, reply);
            };
            self.write(number, Some((session, wanted)), true, known.writes);
        }
        let reply = self.made(number, |out| writer::append_double(out, "ok", 1.0));
        self.answer_when_safe(number, line, request, message, reply);
    }

    pub(super) fn abort_transaction(&mut self, number: usize, line: usize, request: &Request<'_>) {
        let Some((session, wanted)) = request.session.zip(request.number) else {
            return self.refuse(number, line, request, 72);
        };
        let row = self.members[number].data.rows.get(&session).cloned().unwrap_or_default();
        if row.number == wanted && row.is_transaction {
            return self.refuse(number, line, request, 256);
        }
        match self.members[number].transactions.get(&session) {
            Some(known) if known.number == wanted => {
                self.members[number].transactions.remove(&session);
                self.agree(number, line, request);
            }
            _ => self.refuse(number, line, request, NO_SUCH_TRANSACTION),
        }
    }
}
