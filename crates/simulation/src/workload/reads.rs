//! Reads of what does not change, batch by batch.

use mangonel_bson::{append_i64, append_str, writer};
use mangonel_proto::operation::{Kind, SessionChoice};

use super::{Place, SHELF, command, command_of};
use crate::server::cursor::batch_of;

/// Reads the shelf through a cursor, to the end or not.
pub(super) async fn browse(place: &mut Place) {
    let size = place.chance.between(2, 12) as i64;
    let preference = place.preference();
    let mut operation = command("find", "shelf", Kind::Read, |out| append_i64(out, "batchSize", size));
    operation.read_preference = preference.clone();
    let mut ending = place.desk.run(operation).await;
    let mut seen: Vec<(i64, i64)> = Vec::new();
    let mut pinned = None;
    loop {
        pinned = ending.pinned.take().or(pinned);
        let Some(cursor) = ending.facts.cursor.clone().filter(|_| ending.is_ok()) else {
            return place.desk.release(pinned, false).await;
        };
        let document = ending.document().and_then(|body| body.get_document("cursor").ok().flatten());
        seen.extend(document.map(|cursor| batch_of(cursor, "_id", "value")).unwrap_or_default());
        if cursor.id == 0 {
            place.desk.release(pinned, true).await;
            break;
        }
        if place.chance.percent(5) {
            // Longer than a cursor of some servers lives.
            place.desk.sleep(700).await;
        }
        let (server, session) = (ending.server.clone(), ending.session.take());
        if place.chance.percent(10) {
            // Not read to its end: it is closed.
            if let Some(session) = session {
                place.desk.with(move |client, now| client.give_back_session(session, now)).await;
            }
            let mut kill = command("killCursors", "shelf", Kind::ReadOnce, |out| {
                let array = writer::begin_array(out, "cursors");
                append_i64(out, "0", cursor.id);
                writer::end_document(out, array);
            });
            (kill.server, kill.session, kill.pinned) = (server, SessionChoice::None, pinned);
            place.desk.run(kill).await;
            return place.desk.release(pinned, true).await;
        }
        let mut more = command_of("getMore", cursor.id, Kind::ReadOnce, |out| {
            append_str(out, "collection", "shelf");
            append_i64(out, "batchSize", size);
        });
        (more.server, more.read_preference, more.pinned) = (server, preference.clone(), pinned);
        more.session = session.map_or(SessionChoice::None, SessionChoice::Of);
        ending = place.desk.run(more).await;
    }
    let expected: Vec<(i64, i64)> = (0..SHELF).map(|key| (key, key * 7)).collect();
    if seen != expected {
        place.blame(format!("a cursor showed {} documents of {SHELF}, or others", seen.len()));
    }
}
