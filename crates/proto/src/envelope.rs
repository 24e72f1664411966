//! The fields that the driver adds to every command: session, transaction number, cluster time, API version,
//! database and read preference. Stamped again for each attempt. Spec: message "global command arguments",
//! server-selection.

use mangonel_bson::{RawDocument, writer};

use crate::client_session::Stamp;
use crate::read_preference::{Mode, ReadPreference};
use crate::session::ServerSession;
use crate::topology::{ServerType, TopologyType};

/// The parts to stamp on a command.
pub struct Envelope<'a> {
    /// The fields of an explicit session, which replace the next two.
    pub explicit: Option<&'a Stamp>,
    /// The command's session.
    pub session: Option<&'a ServerSession>,
    /// Whether the session's transaction number is sent.
    pub is_retryable: bool,
    /// The `$clusterTime` to gossip.
    pub cluster_time: Option<&'a [u8]>,
    /// The server API's fields as a document, or nothing.
    pub server_api: &'a [u8],
    /// The operation's remaining time, as `maxTimeMS`.
    pub max_time_ms: Option<i64>,
    /// The database.
    pub database: &'a str,
    /// The value of `$readPreference`; see [`wire_preference`].
    pub read_preference: Option<&'a ReadPreference>,
}

impl Envelope<'_> {
    /// Appends the parts to a command's body.
    pub fn append_to(&self, out: &mut Vec<u8>) {
        if let Some(stamp) = self.explicit {
            stamp.append_to(out);
        } else if let Some(session) = self.session {
            let start = writer::begin_subdocument(out, "lsid");
            writer::append_binary(out, "id", 0x04, &session.id);
            writer::end_document(out, start);
            if self.is_retryable {
                writer::append_i64(out, "txnNumber", session.txn_number);
            }
        }
        if let Some(Ok(time)) = self.cluster_time.map(RawDocument::from_bytes) {
            writer::append_raw_document(out, "$clusterTime", time);
        }
        if !self.server_api.is_empty()
            && let Ok(api) = RawDocument::from_bytes(self.server_api)
        {
            api.iter().flatten().for_each(|element| writer::append_value(out, element.key, element.value));
        }
        if let Some(milliseconds) = self.max_time_ms {
            writer::append_i64(out, "maxTimeMS", milliseconds);
        }
        writer::append_str(out, "$db", self.database);
        if let Some(preference) = self.read_preference {
            preference.append_to(out, "$readPreference");
        }
    }
}

static PRIMARY_PREFERRED: ReadPreference = ReadPreference::from_mode(Mode::PrimaryPreferred);

/// Returns the value of `$readPreference` for a server type in a deployment type.
///
/// `asked`: the preference of the operation, `None` for the primary. Only reads carry one.
pub fn wire_preference(
    asked: Option<&ReadPreference>,
    is_read: bool,
    server: ServerType,
    topology: TopologyType,
) -> Option<&ReadPreference> {
    let is_primary = asked.is_none_or(|asked| asked.mode() == Mode::Primary);
    match (topology, server) {
        (_, ServerType::Standalone) => None,
        // A directly connected member must answer a read even if it is a secondary.
        (TopologyType::Single, server) if server != ServerType::Mongos && is_primary => {
            is_read.then_some(&PRIMARY_PREFERRED)
        }
        _ if is_primary => None,
        _ => asked,
    }
}
