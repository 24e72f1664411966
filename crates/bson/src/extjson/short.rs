//! Short texts, copied by whole words: a copy of variable size is a call.

use super::text::unusual;

/// The length of the longest short text.
pub(super) const SHORT: usize = 64;

/// Copies a text, if it is short and all ASCII that needs no escape.
#[inline(always)]
pub(super) fn copy_plain(text: &[u8], room: &mut [u8; SHORT]) -> Option<()> {
    copy_if(|word| unusual(word) == 0, text, room)
}

/// Copies the text of a number, which is always short; returns its length.
#[inline(always)]
pub(super) fn copy_number(text: &str, room: &mut [u8; SHORT]) -> usize {
    // No int64 or double has more than 24 characters.
    copy_if(|_| true, text.as_bytes(), room).unwrap();
    text.len()
}

/// Copies a short text, if all its words pass a test.
#[inline(always)]
fn copy_if(is_good: impl Fn(u64) -> bool, text: &[u8], room: &mut [u8; SHORT]) -> Option<()> {
    if text.len() > SHORT {
        return None;
    }
    if let Some(last) = text.last_chunk::<8>() {
        for (place, word) in room.as_chunks_mut::<8>().0.iter_mut().zip(text.as_chunks::<8>().0) {
            *place = *word;
            if !is_good(u64::from_le_bytes(*word)) {
                return None;
            }
        }
        // It may overlap the one before.
        room[text.len() - 8..][..8].copy_from_slice(last);
        return is_good(u64::from_le_bytes(*last)).then_some(());
    }
    let both = if let (Some(first), Some(last)) = (text.first_chunk::<4>(), text.last_chunk::<4>()) {
        room[..4].copy_from_slice(first);
        room[text.len() - 4..][..4].copy_from_slice(last);
        [*first, *last]
    } else if let (Some(first), Some(last)) = (text.first_chunk::<2>(), text.last_chunk::<2>()) {
        room[..2].copy_from_slice(first);
        room[text.len() - 2..][..2].copy_from_slice(last);
        [[first[0], first[1], last[0], last[1]], *b"    "]
    } else if let [byte] = *text {
        room[0] = byte;
        [[byte; 4], *b"    "]
    } else {
        return Some(());
    };
    let [first, last] = both.map(u32::from_le_bytes);
    is_good(u64::from(first) | u64::from(last) << 32).then_some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_of_every_short_length_is_copied_and_checked_whole() {
        let text: Vec<u8> = (0..=SHORT as u8).map(|at| b'0' + at).filter(|byte| *byte != b'\\').collect();
        for length in 0..SHORT {
            let mut text = text[..length].to_vec();
            let mut room = [b'_'; SHORT];
            assert_eq!(copy_plain(&text, &mut room), Some(()));
            assert_eq!(room[..length], text);
            assert_eq!(room[length..], [b'_'; SHORT][length..]);
            for at in 0..length {
                for byte in [0, 0x1F, b'"', b'\\', 0x80, 0xFF] {
                    let kept = std::mem::replace(&mut text[at], byte);
                    assert_eq!(copy_plain(&text, &mut room), None, "{length} {at} {byte}");
                    text[at] = kept;
                }
            }
        }
        assert_eq!(copy_plain(&[b'a'; SHORT + 1], &mut [0; SHORT]), None);
    }
}
