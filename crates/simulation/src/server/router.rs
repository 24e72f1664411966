//! Routers, in a simple form: each knows the same set. Behind a load balancer, which runs on the first member's host
//! and is down with it, a connection ends at one of them; in a cluster each has a name, and runs on a member's host.

use mangonel_bson::{ObjectId, writer};

use super::login::LOGINS;
use super::member::State;
use super::set::Set;
use crate::wire::Request;

/// `FailedToSatisfyReadPreference`.
pub(crate) const NO_PRIMARY: i64 = 133;

impl Set {
    /// Returns the member that runs a command; `None` if there is none. Without routers it is the member that received
    /// it.
    pub(crate) fn route(&self, number: usize, request: &Request<'_>) -> Option<usize> {
        if self.routers == 0 || LOGINS.contains(&request.name) || matches!(request.name, "hello" | "isMaster")
        {
            return Some(number);
        }
        let cursor = match request.name {
            "getMore" => request.integer("getMore"),
            "killCursors" => request
                .body
                .get_array("cursors")
                .ok()
                .flatten()
                .and_then(|ids| ids.iter().flatten().find_map(|id| id.as_i64_lenient())),
            _ => None,
        };
        if let Some(cursor) = cursor {
            let has_it = |member: &usize| self.members[*member].cursors.contains_key(&cursor);
            return (0..self.members.len()).find(has_it).or_else(|| self.primary());
        }
        let may_be_elsewhere = request.preference.is_some_and(|mode| mode != "primary");
        let secondary = (0..self.members.len()).find(|&other| {
            let member = &self.members[other];
            member.is_bearing() && member.state == State::Up && !member.is_primary
        });
        let is_read = matches!(request.name, "find" | "aggregate") && !request.is_in_transaction;
        if is_read && may_be_elsewhere { secondary.or_else(|| self.primary()) } else { self.primary() }
    }

    /// Appends the fields of a router's hello.
    pub(crate) fn append_router_hello(&self, number: usize, line: usize, out: &mut Vec<u8>) {
        let mut service = [b's'; 12];
        service[11] = (line % self.routers) as u8;
        writer::append_double(out, "ok", 1.0);
        writer::append_bool(out, "helloOk", true);
        writer::append_bool(out, "isWritablePrimary", true);
        writer::append_bool(out, "ismaster", true);
        writer::append_str(out, "msg", "isdbgrid");
        if !self.is_cluster {
            writer::append_object_id(out, "serviceId", ObjectId::from_bytes(service));
        }
        self.append_limits(number, line, out);
    }
}
