//! Slots: which a key has, and hash tags that have a given one.

use std::sync::OnceLock;

/// How many slots a cluster has.
pub(crate) const SLOTS: usize = 16_384;

/// The slot of a key: of its hash tag if it has one, the bytes between its first `{` and the next `}`.
pub fn slot_of(key: &[u8]) -> usize {
    usize::from(hash_tag(key).unwrap_or(key).iter().fold(0, crc)) % SLOTS
}

/// A step of CRC-16/XMODEM.
fn crc(sum: u16, byte: &u8) -> u16 {
    let shift = |sum: u16, _| (sum << 1) ^ if sum & 0x8000 == 0 { 0 } else { 0x1021 };
    (0..8).fold(sum ^ (u16::from(*byte) << 8), shift)
}

fn hash_tag(key: &[u8]) -> Option<&[u8]> {
    let (_, rest) = split_at_byte(key, b'{')?;
    let (tag, _) = split_at_byte(rest, b'}')?;
    (!tag.is_empty()).then_some(tag)
}

fn split_at_byte(bytes: &[u8], byte: u8) -> Option<(&[u8], &[u8])> {
    let at = bytes.iter().position(|other| *other == byte)?;
    Some((bytes.get(..at)?, bytes.get(at.saturating_add(1)..)?))
}

/// The smallest number that has this slot as a hash tag.
pub(super) fn tag_of(slot: usize) -> u32 {
    static TAGS: OnceLock<Vec<u32>> = OnceLock::new();
    let tags = TAGS.get_or_init(|| {
        let mut tags = vec![None; SLOTS];
        let mut missing = SLOTS;
        for number in 0_u32.. {
            let slot = slot_of(number.to_string().as_bytes());
            if let Some(tag @ None) = tags.get_mut(slot) {
                *tag = Some(number);
                missing = missing.saturating_sub(1);
            }
            if missing == 0 {
                break;
            }
        }
        tags.into_iter().map(Option::unwrap_or_default).collect()
    });
    tags.get(slot).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_have_the_slots_that_servers_say() {
        // CLUSTER KEYSLOT of Redis 7.0.15.
        let known: [(&[u8], usize); 8] = [
            (b"123456789", 12_739),
            (b"lock", 8_718),
            (b"{lock}2", 8_718),
            (b"a{b}c{d}", 3_300),
            (b"{}lock", 6_348),
            (b"{lock", 4_983),
            (b"", 0),
            (b"\0\xff", 7_920),
        ];
        for (key, slot) in known {
            assert_eq!(slot_of(key), slot, "{}", key.escape_ascii());
        }
    }

    #[test]
    fn every_slot_has_a_tag() {
        for slot in 0..SLOTS {
            assert_eq!(slot_of(format!("channel:{{{}}}", tag_of(slot)).as_bytes()), slot);
        }
    }
}
