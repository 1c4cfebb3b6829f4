//! Slots of a cluster that move as a whole: all their keys change servers at one moment.

use crate::names;

/// Slots in a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlotRange {
    /// The first of them.
    pub first: u16,
    /// The last of them.
    pub last: u16,
}

impl SlotRange {
    /// Whether a key is in one of these slots.
    pub fn has(self, key: &[u8]) -> bool {
        (self.first..=self.last).contains(&names::slot_of(key))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_has_its_first_and_its_last_slot() {
        // CLUSTER KEYSLOT foo is 12182.
        let has = |first, last| SlotRange { first, last }.has(b"{foo}:x");
        assert!(has(12_182, 12_182) && has(0, 16_383) && has(12_000, 12_182) && has(12_182, 12_200));
        assert!(!has(0, 12_181) && !has(12_183, 16_383));
    }
}
