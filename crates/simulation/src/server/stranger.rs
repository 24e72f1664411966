//! The server at a member's address while its name leads to another machine: it is outside the set, or unusable. It
//! answers hello, and closes the connection on any other command.

use mangonel_bson::writer;

use crate::plan::{NOWHERE, address};
use crate::wire::{append_strings, document};

/// The kind of the other machine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stranger {
    /// A standalone.
    Standalone,
    /// A member of another set.
    OtherSet,
    /// A member of the set under another name.
    OtherName,
    /// A member of no set yet.
    Ghost,
    /// A member of the set that is neither primary nor secondary.
    Recovering,
    /// Older than the core supports.
    Old,
    /// Newer than the core supports.
    New,
    /// The primary of more members than any set has.
    Crowd,
    /// Refuses hello.
    Mute,
    /// A router, where a member of a set is expected.
    Router,
    /// Describes itself in a malformed hello.
    Careless,
}

impl Stranger {
    /// All of them.
    pub const ALL: &[Stranger] = &[
        Stranger::Standalone,
        Stranger::OtherSet,
        Stranger::OtherName,
        Stranger::Ghost,
        Stranger::Recovering,
        Stranger::Old,
        Stranger::New,
        Stranger::Crowd,
        Stranger::Mute,
        Stranger::Router,
        Stranger::Careless,
    ];

    /// Returns its hello, sent where a member is expected.
    pub(crate) fn hello(self, member: usize) -> Vec<u8> {
        let own = address(member);
        let versions = match self {
            Stranger::Old => (0, 6),
            Stranger::New => (40, 41),
            _ => (0, 25),
        };
        document(|out| {
            writer::append_double(out, "ok", if self == Stranger::Mute { 0.0 } else { 1.0 });
            writer::append_i32(out, "minWireVersion", versions.0);
            writer::append_i32(out, "maxWireVersion", versions.1);
            let set = |out: &mut Vec<u8>, name: &str, hosts: &[&str], me: &str| {
                writer::append_str(out, "setName", name);
                append_strings(out, "hosts", hosts.iter().copied());
                writer::append_str(out, "me", me);
            };
            match self {
                Stranger::Mute => writer::append_str(out, "errmsg", "not now"),
                Stranger::Ghost => writer::append_bool(out, "isreplicaset", true),
                Stranger::Standalone => writer::append_bool(out, "isWritablePrimary", true),
                Stranger::OtherSet => {
                    set(out, "rs1", &[own.as_str()], own.as_str());
                    writer::append_bool(out, "secondary", true);
                }
                Stranger::OtherName => {
                    let other = address(NOWHERE);
                    set(out, "rs0", &[other.as_str()], other.as_str());
                    writer::append_bool(out, "secondary", true);
                }
                Stranger::Router => {
                    writer::append_str(out, "msg", "isdbgrid");
                    writer::append_bool(out, "isWritablePrimary", true);
                }
                Stranger::Careless => {
                    writer::append_i32(out, "setName", 0);
                    writer::append_str(out, "hosts", own.as_str());
                    writer::append_str(out, "electionId", "first");
                    writer::append_str(out, "me", "[::1");
                    writer::append_str(out, "primary", ":27017");
                    append_strings(out, "passives", ["one:two", "one:+27017", "one:65536", "[::1]27017"]);
                    for key in ["tags", "topologyVersion", "lastWrite"] {
                        writer::append_bool(out, key, true);
                    }
                }
                Stranger::Recovering | Stranger::Old | Stranger::New => {
                    set(out, "rs0", &[own.as_str()], own.as_str());
                }
                Stranger::Crowd => {
                    let hosts: Vec<String> = (0..200).map(|host| format!("c{host}.example:27017")).collect();
                    let hosts: Vec<&str> = hosts.iter().map(String::as_str).collect();
                    set(out, "rs0", &hosts, own.as_str());
                    writer::append_bool(out, "isWritablePrimary", true);
                }
            }
        })
    }
}
