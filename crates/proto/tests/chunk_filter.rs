//! A filtered reply equals the reply: the data laid aside and the rest give it, however the bytes arrive.

use mangonel_bson::{RawDocument, RawValue, writer};
use mangonel_proto::chunk_filter::{ChunkFilter, FilterStep, LAID, Laid, read_laid};
use mangonel_proto::message::read_reply;
use mangonel_proto::reply::Facts;
use proptest::prelude::*;

/// A chunk document: `extra` puts another field between, and `n` behind the data.
#[derive(Clone, Debug)]
struct Chunk {
    data: Vec<u8>,
    subtype: u8,
    extra: bool,
}

fn reply(chunks: &[Chunk], batch: &str, leading: bool) -> Vec<u8> {
    let mut out = vec![0; 21];
    let body = writer::begin_document(&mut out);
    if leading {
        writer::append_i32(&mut out, "first", 1);
    }
    let cursor = writer::begin_subdocument(&mut out, "cursor");
    let array = writer::begin_array(&mut out, batch);
    for (index, chunk) in chunks.iter().enumerate() {
        let document = writer::begin_subdocument(&mut out, &index.to_string());
        writer::append_str(&mut out, "_id", "some id");
        if chunk.extra {
            let extra = writer::begin_subdocument(&mut out, "extra");
            writer::append_double(&mut out, "x", 1.5);
            writer::append_binary(&mut out, "data", 0, &[7; 2000]);
            writer::end_document(&mut out, extra);
            writer::append_regex(&mut out, "r", "a", "b");
        }
        writer::append_binary(&mut out, "data", chunk.subtype, &chunk.data);
        writer::append_i32(&mut out, "n", index as i32);
        writer::end_document(&mut out, document);
    }
    writer::end_document(&mut out, array);
    writer::append_i64(&mut out, "id", 77);
    writer::append_str(&mut out, "ns", "shop.fs.chunks");
    writer::end_document(&mut out, cursor);
    writer::append_double(&mut out, "ok", 1.0);
    writer::end_document(&mut out, body);
    let length = out.len() as i32;
    out[..4].copy_from_slice(&length.to_le_bytes());
    out[12..16].copy_from_slice(&2013i32.to_le_bytes());
    out
}

#[test]
fn a_message_that_is_shorter_than_the_head_of_a_reply_is_not_waited_for() {
    let mut filter = ChunkFilter::new(0, 100);
    let mut message = [0; 20];
    message[0] = 20;
    filter.window()[..20].copy_from_slice(&message);
    filter.received(0, 20);
    assert!(matches!(filter.poll(), FilterStep::Plain), "{:?}", filter.poll());
}

/// Feeds `bytes` in pieces; returns the resulting messages, and the memory that received the data.
fn filter(mut bytes: &[u8], room: usize, pieces: &[usize]) -> (Vec<Vec<u8>>, Vec<u8>, bool) {
    let (mut filter, mut memory, mut messages, mut turn) =
        (ChunkFilter::new(0, room), vec![0; room], Vec::new(), 0);
    loop {
        match filter.poll() {
            FilterStep::Place(count) => {
                let at = filter.place();
                memory[at..at + count].copy_from_slice(&filter.ready()[..count]);
                filter.placed(count);
            }
            FilterStep::Receive(direct) => {
                if bytes.is_empty() {
                    return (messages, memory, false);
                }
                let take = pieces[turn % pieces.len()].min(bytes.len());
                turn += 1;
                let direct = direct.min(take);
                let at = filter.place();
                memory[at..at + direct].copy_from_slice(&bytes[..direct]);
                let window = filter.window();
                assert!(!window.is_empty());
                let windowed = (take - direct).min(window.len());
                window[..windowed].copy_from_slice(&bytes[direct..direct + windowed]);
                filter.received(direct, windowed);
                bytes = &bytes[direct + windowed..];
            }
            FilterStep::Whole => messages.push(filter.take()),
            FilterStep::NoMemory => panic!("there is memory enough"),
            FilterStep::Plain => {
                let mut rest = filter.take();
                rest.extend_from_slice(filter.ready());
                rest.extend_from_slice(bytes);
                messages.push(rest);
                return (messages, memory, true);
            }
        }
    }
}

fn laid_of(message: &[u8]) -> Vec<Laid> {
    let body = read_reply(message).unwrap().body;
    body.get_binary(LAID).unwrap().map(|binary| read_laid(binary.bytes)).unwrap_or_default()
}

/// The data of each document, from the message or from where it was laid.
fn data_of(message: &[u8], memory: &[u8]) -> Vec<Vec<u8>> {
    let body = read_reply(message).unwrap().body;
    let facts = Facts::read(body).unwrap();
    let cursor = facts.cursor.unwrap();
    assert_eq!(cursor.id, 77);
    let laid = laid_of(message);
    let batch = RawDocument::from_bytes(&body.as_bytes()[cursor.batch]).unwrap();
    batch
        .iter()
        .enumerate()
        .map(|(index, element)| {
            let RawValue::Document(document) = element.unwrap().value else { panic!("not a document") };
            assert_eq!(document.get_i64_lenient("n").unwrap(), Some(index as i64));
            match laid.iter().find(|laid| laid.index == index as u32) {
                Some(laid) => memory[laid.at as usize..][..laid.size as usize].to_vec(),
                None => document.get_binary("data").unwrap().unwrap().bytes.to_vec(),
            }
        })
        .collect()
}

fn plain(size: usize) -> Chunk {
    Chunk { data: (0..size).map(|at| (at % 251) as u8).collect(), subtype: 0, extra: false }
}

#[test]
fn data_is_laid_one_after_the_other() {
    let chunks: Vec<_> = [5000, 2000, 9000].map(plain).into();
    let (messages, memory, _) = filter(&reply(&chunks, "nextBatch", false), 16_000, &[3000]);

    let laid = laid_of(&messages[0]);
    assert_eq!(
        laid.iter().map(|laid| (laid.at, laid.size)).collect::<Vec<_>>(),
        [(0, 5000), (5000, 2000), (7000, 9000)]
    );
    assert_eq!(memory, chunks.iter().flat_map(|chunk| chunk.data.clone()).collect::<Vec<_>>());
    assert!(messages[0].len() < 1000);
}

#[test]
fn data_without_room_stays_in_the_message() {
    let chunks: Vec<_> = [5000, 2000, 1024].map(plain).into();
    let (messages, memory, _) = filter(&reply(&chunks, "firstBatch", false), 6500, &[100]);

    assert_eq!(laid_of(&messages[0]).len(), 1);
    assert_eq!(
        data_of(&messages[0], &memory),
        chunks.iter().map(|chunk| chunk.data.clone()).collect::<Vec<_>>()
    );
}

#[test]
fn messages_back_to_back_are_filtered_into_one_memory() {
    let (one, two) = (reply(&[plain(4000)], "nextBatch", false), reply(&[plain(3000)], "nextBatch", false));
    let (messages, memory, _) = filter(&[one, two].concat(), 7000, &[1500, 7]);

    assert_eq!(messages.len(), 2);
    assert_eq!(laid_of(&messages[1])[0], Laid { index: 0, at: 4000, size: 3000 });
    assert_eq!(memory[4000..], plain(3000).data);
}

#[test]
fn a_message_of_another_kind_comes_out_as_it_went_in() {
    for (at, value) in [(12, 2012i32.to_le_bytes()), (0, 10i32.to_le_bytes()), (20, [1, 0, 0, 0])] {
        let mut sent = reply(&[plain(4000)], "nextBatch", false);
        sent[at..at + 4].copy_from_slice(&value);
        let (messages, _, is_plain) = filter(&sent, 7000, &[11]);
        assert!(is_plain);
        assert_eq!(messages, [sent]);
    }
    let sent = reply(&[plain(4000)], "nextBatch", true);
    assert_eq!(filter(&sent, 7000, &[11]).0, [sent]);
}

fn chunk() -> impl Strategy<Value = Chunk> {
    (0usize..6000, prop_oneof![Just(0u8), Just(2), Just(0x80)], any::<bool>())
        .prop_map(|(size, subtype, extra)| Chunk { data: plain(size).data, subtype, extra })
}

proptest! {
    #[test]
    fn what_stays_and_what_was_laid_make_up_the_reply(
        chunks in prop::collection::vec(chunk(), 0..6),
        room in 0usize..30_000,
        pieces in prop::collection::vec(1usize..5000, 1..6),
    ) {
        let sent = reply(&chunks, "nextBatch", false);
        let (messages, memory, is_plain) = filter(&sent, room, &pieces);

        prop_assert!(!is_plain);
        prop_assert_eq!(messages.len(), 1);
        let expected: Vec<_> = chunks.iter().map(|chunk| chunk.data.clone()).collect();
        prop_assert_eq!(data_of(&messages[0], &memory), expected);
    }

    #[test]
    fn bytes_of_any_kind_are_no_reason_to_panic(
        place in 0usize..4000,
        value in any::<u8>(),
        cut in 0usize..4000,
        pieces in prop::collection::vec(1usize..700, 1..4),
    ) {
        let mut sent = reply(&[plain(1500), plain(1500)], "nextBatch", false);
        let place = place % sent.len();
        sent[place] = value;
        sent.truncate(sent.len() - cut % sent.len());
        let (messages, _, _) = filter(&sent, 3000, &pieces);
        for message in messages {
            let _ = read_reply(&message).map(|reply| Facts::read(reply.body));
        }
    }
}
