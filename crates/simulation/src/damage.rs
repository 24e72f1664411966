//! Damaged answers, as a broken server or middlebox sends them.

use crate::packing;

/// `OP_COMPRESSED`.
const OP_COMPRESSED: i32 = 2012;
/// An opcode that servers no longer answer with.
const OLD_OPCODE: i32 = 2004;
/// The compressor of compressed damages.
const ZLIB: u8 = 2;

/// How a message is damaged.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Damage {
    /// Its length field is shorter than its header.
    Length,
    /// It has another opcode.
    Opcode,
    /// It answers another request.
    Answer,
    /// It has an unrequested checksum.
    Checksum,
    /// It has an unknown flag.
    Flag,
    /// Its first section is not the body.
    Section,
    /// Bytes follow its body.
    Tail,
    /// The length of its body is wrong.
    Body,
    /// Its body has an element of an unknown type.
    Value,
    /// It names an unknown compressor.
    Compressor,
    /// It is compressed, and damaged.
    Packed,
    /// It is shorter than the header of a compressed message.
    Short,
    /// It is compressed, and claims a size of two gigabytes.
    Growth,
    /// It is compressed, and does not hold a message.
    Inside,
}

impl Damage {
    /// All of them.
    pub const ALL: &[Damage] = &[
        Damage::Length,
        Damage::Opcode,
        Damage::Answer,
        Damage::Checksum,
        Damage::Flag,
        Damage::Section,
        Damage::Tail,
        Damage::Body,
        Damage::Value,
        Damage::Compressor,
        Damage::Packed,
        Damage::Short,
        Damage::Growth,
        Damage::Inside,
    ];

    /// Returns a plain message damaged.
    pub(crate) fn done_to(self, mut message: Vec<u8>) -> Vec<u8> {
        let length = message.len() as i32;
        let mut put = |at: usize, word: i32| message[at..at + 4].copy_from_slice(&word.to_le_bytes());
        match self {
            Damage::Length => put(0, 8),
            Damage::Opcode => put(12, OLD_OPCODE),
            Damage::Answer => put(8, -1),
            Damage::Checksum => put(16, 1),
            Damage::Flag => put(16, 4),
            Damage::Section => message[20] = 1,
            Damage::Tail => {
                put(0, length + 1);
                message.push(0);
            }
            Damage::Body => put(21, length),
            Damage::Value => message[25] = 0x20,
            Damage::Compressor => return packed(&message, |packed| packed[24] = 9),
            Damage::Packed => return packed(&message, |packed| packed[25..].fill(0xFF)),
            Damage::Short => {
                put(0, 20);
                put(12, OP_COMPRESSED);
                message.truncate(20);
            }
            Damage::Growth => return packed(&message, |packed| packed[20..24].fill(0x7F)),
            Damage::Inside => {
                return packed(&message, |packed| packed[16..20].copy_from_slice(&OLD_OPCODE.to_le_bytes()));
            }
        }
        message
    }
}

fn packed(message: &[u8], change: impl FnOnce(&mut [u8])) -> Vec<u8> {
    let mut packed = packing::pack(message, ZLIB).unwrap_or_default();
    change(&mut packed);
    packed
}
