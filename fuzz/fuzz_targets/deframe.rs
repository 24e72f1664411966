//! Any bytes in any pieces: the deframer hands out what was sent, or refuses it, and never holds more than it must;
//! what comes compressed decompresses to a message within the limits, or is refused.
#![no_main]

use libfuzzer_sys::fuzz_target;
use mangonel_proto::compress;
use mangonel_proto::frame::{Deframer, MAX_MESSAGE_SIZE};

fuzz_target!(|data: &[u8]| {
    // The first bytes choose the pieces, so that the fuzzer can move the borders.
    let Some((seeds, stream)) = data.split_at_checked(4) else { return };
    let mut deframer = Deframer::default();
    let mut codec = compress::Codec::default();
    let (mut rest, mut taken, mut turn) = (stream, 0, 0);
    while !rest.is_empty() {
        let window = deframer.window();
        assert!(!window.is_empty());
        let piece = 1 + usize::from(seeds[turn % 4]) * (1 + turn % 3);
        let count = piece.min(rest.len()).min(window.len());
        window[..count].copy_from_slice(&rest[..count]);
        rest = &rest[count..];
        turn += 1;
        let Ok(mut is_whole) = deframer.received(count) else { return };
        while is_whole {
            let length = deframer.message().expect("a whole message is there").len();
            assert!((16..=MAX_MESSAGE_SIZE).contains(&length));
            let expected = &stream[taken..taken + length];
            if let Ok(unpacked) = codec.decompress(expected) {
                assert!(unpacked.len() <= compress::MAX_MESSAGE_SIZE);
                // What a message was wrapped as has a right length of its own, and no second wrapping.
                assert_eq!(unpacked[..4], (unpacked.len() as u32).to_le_bytes());
                assert_ne!(unpacked[12..16], compress::OP_COMPRESSED.to_le_bytes());
            }
            taken += length;
            let next = if turn % 2 == 0 {
                let message = deframer.message().map(<[u8]>::to_vec);
                assert_eq!(message.as_deref(), Some(expected));
                deframer.consume()
            } else {
                let message = deframer.take();
                match message {
                    Ok(message) => assert_eq!(message, expected),
                    Err(_) => return,
                }
                Ok(deframer.message().is_some())
            };
            let Ok(next) = next else { return };
            is_whole = next;
        }
    }
});
