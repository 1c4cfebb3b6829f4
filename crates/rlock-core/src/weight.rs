//! What work counts towards the bounds of one event-loop cycle: see `AtOnce`.
//!
//! An item's names are hashed, compared, encoded and copied several times, so an item with long names counts as several.

/// This number of bytes counts as one more item.
const BYTES: usize = 256;

/// The weight of an item whose names have this number of bytes together.
pub fn weight(bytes: usize) -> usize {
    bytes.checked_div(BYTES).unwrap_or(0).saturating_add(1)
}

/// An item of work.
pub(crate) trait Weighed {
    /// How many bytes its names have together.
    fn bytes(&self) -> usize;

    /// The weight of the item.
    fn weight(&self) -> usize {
        weight(self.bytes())
    }
}

/// The weight of these items together.
pub(crate) fn weigh<T: Weighed>(items: &[T]) -> usize {
    items.iter().map(Weighed::weight).fold(0, usize::saturating_add)
}

/// Items that were taken together.
pub(crate) struct Taken<T> {
    /// The items.
    pub(crate) items: Vec<T>,
    /// Their weight together.
    pub(crate) weight: usize,
    /// Whether no item was left out.
    pub(crate) is_all: bool,
}

/// Takes items up to this weight; the last one may exceed it.
pub(crate) fn take_weighed<T: Weighed>(most: usize, mut from: impl Iterator<Item = T>) -> Taken<T> {
    let mut taken = Taken { items: Vec::new(), weight: 0, is_all: false };
    while taken.weight < most {
        let Some(item) = from.next() else {
            taken.is_all = true;
            break;
        };
        taken.weight = taken.weight.saturating_add(item.weight());
        taken.items.push(item);
    }
    taken
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Weighed for usize {
        fn bytes(&self) -> usize {
            *self
        }
    }

    #[test]
    fn long_names_count_as_several_items() {
        assert_eq!([0, 255, 256, 2_048, usize::MAX].map(weight), [1, 1, 2, 9, (usize::MAX >> 8) + 1]);
    }

    #[test]
    fn items_are_taken_until_they_count_enough() {
        let cases: [(usize, &[usize], &[usize], bool); 6] = [
            (0, &[1], &[], false),
            (2, &[1], &[1], true),
            (2, &[1, 1], &[1, 1], false),
            (2, &[1, 1, 1], &[1, 1], false),
            (3, &[1, 300_000, 1], &[1, 300_000], false),
            (9, &[], &[], true),
        ];
        for (most, items, expected, is_all) in cases {
            let taken = take_weighed(most, items.iter().copied());
            assert_eq!((&taken.items[..], taken.is_all), (expected, is_all), "{most} of {items:?}");
            assert_eq!(taken.weight, weigh(expected));
        }
    }
}
