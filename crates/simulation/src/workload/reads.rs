//! Reads of unchanging data, batch by batch.

use mangonel_bson::{append_i64, append_str, writer};
use mangonel_proto::chunk_filter::{LAID, Laid, read_laid};
use mangonel_proto::message::Replies;
use mangonel_proto::operation::{Kind, Operation, SessionChoice};

use super::{CHUNK_SIZES, Place, SHELF, command, command_of};
use crate::desk::Ending;
use crate::server::cursor::{batch_of, chunk_bytes};
use crate::wire::documents_of;

/// Reads the shelf through a cursor, to the end or not.
pub(super) async fn browse(place: &mut Place) {
    let mut seen: Vec<(i64, i64)> = Vec::new();
    let mut take = |ending: &Ending| {
        let document = ending.document().and_then(|body| body.get_document("cursor").ok().flatten());
        seen.extend(document.map(|cursor| batch_of(cursor, "_id", "value")).unwrap_or_default());
    };
    let is_whole = scroll(place, "shelf", None, &mut take).await;
    let expected: Vec<(i64, i64)> = (0..SHELF).map(|key| (key, key * 7)).collect();
    if is_whole && seen != expected {
        place.blame(format!("a cursor showed {} documents of {SHELF}, or others", seen.len()));
    }
}

/// Reads a file whose chunks are laid aside while they arrive.
pub(super) async fn fetch(place: &mut Place) {
    // There is not always room for all of them.
    let room = place.chance.pick(&[80_000, 80_000, 4_000]);
    let mut seen: Vec<Vec<u8>> = Vec::new();
    let mut take = |ending: &Ending| seen.extend(chunks_of(ending));
    let is_whole = scroll(place, "files.chunks", Some(room), &mut take).await;
    let expected: Vec<Vec<u8>> =
        CHUNK_SIZES.iter().zip(0..).map(|(size, number)| chunk_bytes(number, *size)).collect();
    if is_whole && seen != expected {
        let sizes: Vec<usize> = seen.iter().map(Vec::len).collect();
        place.blame(format!("a file has other chunks, of {sizes:?} bytes"));
    }
}

/// Returns the chunks of a batch: each document's data, in its place or laid aside.
fn chunks_of(ending: &Ending) -> Vec<Vec<u8>> {
    let Some(body) = ending.document() else { return Vec::new() };
    let laid = body.get_binary(LAID).ok().flatten().map(|bytes| read_laid(bytes.bytes)).unwrap_or_default();
    let cursor = body.get_document("cursor").ok().flatten();
    let batch = cursor.and_then(|cursor| {
        let first = cursor.get_array("firstBatch").ok().flatten();
        first.or_else(|| cursor.get_array("nextBatch").ok().flatten())
    });
    let documents = batch.into_iter().flat_map(documents_of).zip(0u32..);
    let chunks = documents.map(|(document, index)| match laid.iter().find(|laid| laid.index == index) {
        Some(Laid { at, size, .. }) => {
            let room = ending.room.as_deref().unwrap_or_default();
            room.get(*at as usize..*at as usize + *size as usize).unwrap_or_default().to_vec()
        }
        None => document.get_binary("data").ok().flatten().map_or(Vec::new(), |data| data.bytes.to_vec()),
    });
    chunks.collect()
}

/// Reads a collection through a cursor. Returns whether it reached the end.
async fn scroll(
    place: &mut Place,
    collection: &str,
    room: Option<usize>,
    take: &mut dyn FnMut(&Ending),
) -> bool {
    let size = place.chance.between(2, 12) as i64;
    let preference = place.preference();
    let is_exhaust = place.has_exhaust && room.is_none() && place.chance.percent(25);
    let replies = if is_exhaust { Replies::Exhaust } else { Replies::One };
    let mut is_under_way = false;
    let mut operation = command("find", collection, Kind::Read, |out| append_i64(out, "batchSize", size));
    (operation.read_preference, operation.replies) = (preference.clone(), replies);
    let mut ending = run(place, operation, room).await;
    let mut pinned = None;
    loop {
        pinned = ending.pinned.take().or(pinned);
        let Some(cursor) = ending.facts.cursor.clone().filter(|_| ending.is_ok()) else {
            place.desk.release(pinned, false).await;
            return false;
        };
        take(&ending);
        if cursor.id == 0 {
            place.desk.release(pinned, true).await;
            return true;
        }
        if place.chance.percent(5) {
            // Longer than some servers keep a cursor.
            place.desk.sleep(700).await;
        }
        let (server, session) = (ending.server.clone(), ending.session.take());
        if is_under_way && place.chance.percent(10) {
            // Not read to its end: the cursor ends with its connection.
            if let Some(session) = session {
                place.desk.with(move |client, now| client.give_back_session(session, now)).await;
            }
            place.desk.release(pinned, false).await;
            return false;
        }
        if !is_under_way && place.chance.percent(10) {
            // Not read to its end: the cursor is closed.
            if let Some(session) = session {
                place.desk.with(move |client, now| client.give_back_session(session, now)).await;
            }
            let mut kill = command("killCursors", collection, Kind::ReadOnce, |out| {
                let array = writer::begin_array(out, "cursors");
                append_i64(out, "0", cursor.id);
                writer::end_document(out, array);
            });
            (kill.server, kill.session, kill.pinned) = (server, SessionChoice::None, pinned);
            place.desk.run(kill).await;
            place.desk.release(pinned, true).await;
            return false;
        }
        let mut more = command_of("getMore", cursor.id, Kind::ReadOnce, |out| {
            append_str(out, "collection", collection);
            append_i64(out, "batchSize", size);
        });
        (more.server, more.read_preference, more.pinned) = (server, preference.clone(), pinned);
        more.session = session.map_or(SessionChoice::None, SessionChoice::Of);
        (more.replies, more.is_under_way) = (replies, is_under_way);
        ending = run(place, more, room).await;
        is_under_way = is_exhaust && ending.pinned.is_some();
    }
}

async fn run(place: &Place, operation: Operation, room: Option<usize>) -> Box<Ending> {
    match room {
        Some(size) => place.desk.run_filtered(operation, size).await,
        None => place.desk.run(operation).await,
    }
}
