//! Slots of a cluster that move as a whole: all their keys change servers at one moment.

use std::collections::BTreeSet;

use crate::names;

/// Slots in a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlotRange {
    /// The first of them.
    pub first: u16,
    /// The last of them.
    pub last: u16,
}

/// Any slots: a server moves a set of slots in as many ranges as it has pieces.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SlotSet(BTreeSet<u16>);

impl SlotSet {
    /// The slots of these ranges.
    pub fn of(ranges: &[SlotRange]) -> Self {
        Self(ranges.iter().flat_map(|range| range.first..=range.last).collect())
    }

    /// Whether a key is in one of these slots.
    pub fn has(&self, key: &[u8]) -> bool {
        !self.0.is_empty() && self.0.contains(&names::slot_of(key))
    }

    /// Adds the slots of another set.
    pub fn add(&mut self, others: &Self) {
        self.0.extend(&others.0);
    }

    /// Removes the slots of another set.
    pub fn remove(&mut self, others: &Self) {
        for slot in &others.0 {
            self.0.remove(slot);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_has_its_first_and_its_last_slot() {
        // CLUSTER KEYSLOT foo is 12182.
        let has = |first, last| SlotSet::of(&[SlotRange { first, last }]).has(b"{foo}:x");
        assert!(has(12_182, 12_182) && has(0, 16_383) && has(12_000, 12_182) && has(12_182, 12_200));
        assert!(!has(0, 12_181) && !has(12_183, 16_383));
    }

    #[test]
    fn sets_are_added_and_removed() {
        let slots = |first, last| SlotSet::of(&[SlotRange { first, last }]);
        let mut set = slots(0, 9);
        set.add(&slots(12_182, 12_182));
        assert!(set.has(b"foo"));
        set.remove(&slots(5, 12_182));
        assert_eq!(set, slots(0, 4));
    }
}
