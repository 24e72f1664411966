//! Change streams, resumed as the driver's own flow does it: after the last change that was returned.

use mangonel_bson::{RawDocument, append_i64, append_str, writer};
use mangonel_proto::error::Failure;
use mangonel_proto::operation::{Kind, SessionChoice};

use super::{Place, command, command_of};
use crate::desk::Ending;
use crate::judge::Stream;
use crate::server::cursor::{HISTORY_LOST, INVALID_RESUME_TOKEN, batch_of};
use crate::wire::append_document;

/// `CursorNotFound`.
const CURSOR_NOT_FOUND: i64 = 43;

/// Follows the inserts to the end of the work.
pub(super) async fn watch(place: &mut Place) {
    let mut number = begin(place);
    let preference = place.preference();
    let (mut token, mut starts_after): (Option<i64>, bool) = (None, false);
    while place.desk.now() < place.end {
        // After the end of a collection, a stream cannot be resumed before the next change.
        let (after, how) = (token, if starts_after { "startAfter" } else { "resumeAfter" });
        let mut open = command("aggregate", "orders", Kind::Read, |out| {
            let stages = writer::begin_array(out, "pipeline");
            append_document(out, "0", |out| {
                append_document(out, "$changeStream", |out| {
                    if let Some(token) = after {
                        append_document(out, how, |out| append_i64(out, "_data", token));
                    }
                });
            });
            writer::end_document(out, stages);
            append_document(out, "cursor", |_| {});
        });
        open.read_preference = preference.clone();
        let mut ending = place.desk.run(open).await;
        if !ending.is_ok() {
            match ending.facts.code {
                Some(HISTORY_LOST) => {
                    place.ledger.borrow_mut().losses += 1;
                    (number, token, starts_after) = (begin(place), None, false);
                }
                Some(INVALID_RESUME_TOKEN) => place.blame("a stream cannot be resumed".into()),
                _ => {}
            }
            place.desk.sleep(50).await;
            continue;
        }
        let (mut pinned, mut is_over) = (None, false);
        while let Some(cursor) = ending.facts.cursor.clone().filter(|_| ending.is_ok()) {
            pinned = ending.pinned.take().or(pinned);
            let has_changes = take(place, number, &ending, &mut token);
            let (server, session) = (ending.server.clone(), ending.session.take());
            is_over = cursor.id == 0;
            if has_changes {
                starts_after = is_over;
            }
            if is_over || place.desk.now() >= place.end {
                if let Some(session) = session {
                    place.desk.with(move |client, now| client.give_back_session(session, now)).await;
                }
                break;
            }
            let mut more = command_of("getMore", cursor.id, Kind::ReadOnce, |out| {
                append_str(out, "collection", "orders");
                append_i64(out, "maxTimeMS", 300);
            });
            (more.server, more.read_preference, more.pinned) = (server, preference.clone(), pinned);
            more.session = session.map_or(SessionChoice::None, SessionChoice::Of);
            ending = place.desk.run(more).await;
        }
        place.desk.release(pinned, false).await;
        if !is_over && !is_resumable(&ending) {
            place.desk.sleep(20).await;
        }
    }
}

/// Begins to record what a stream shows.
fn begin(place: &Place) -> usize {
    let mut ledger = place.ledger.borrow_mut();
    ledger.streams.push(Stream::default());
    ledger.streams.len() - 1
}

fn is_resumable(ending: &Ending) -> bool {
    matches!(ending.failure, Some(Failure::Network { .. })) || ending.facts.code == Some(CURSOR_NOT_FOUND)
}

/// Records the changes of a batch and the next resume token. Returns whether there were changes.
fn take(place: &Place, number: usize, ending: &Ending, token: &mut Option<i64>) -> bool {
    let cursor = ending.document().and_then(|body| body.get_document("cursor").ok().flatten());
    let Some(cursor) = cursor else { return false };
    let position = |document: Option<RawDocument<'_>>| {
        document.and_then(|token| token.get_i64_lenient("_data").ok().flatten())
    };
    let behind = position(cursor.get_document("postBatchResumeToken").ok().flatten());
    let mut ledger = place.ledger.borrow_mut();
    let stream = &mut ledger.streams[number];
    if let (None, Some(behind)) = (*token, behind) {
        stream.start = behind as usize >> 16;
    }
    let changes = batch_of(cursor, "key", "intent");
    stream.shown.extend(changes.iter().map(|(_, intent)| *intent));
    *token = behind.or(*token);
    !changes.is_empty()
}
