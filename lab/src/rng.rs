//! Random order that a seed repeats.

/// A small generator (SplitMix64).
pub(crate) struct Rng(u64);

impl Rng {
    /// The sequence of this seed.
    pub(crate) fn new(seed: u64) -> Rng {
        Rng(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `bound`, which must not be 0.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    /// A number above 0, and at most 1.
    pub(crate) fn unit(&mut self) -> f64 {
        // As many bits as a float of this size keeps.
        ((self.next() >> 11) + 1) as f64 / (1_u64 << 53) as f64
    }

    /// A generator with a sequence of its own for each index of the same seed.
    pub(crate) fn of(seed: u64, index: u64) -> Rng {
        Rng(Rng(seed).next() ^ Rng(index).next())
    }

    /// The numbers below this one in random order.
    pub(crate) fn order(&mut self, count: usize) -> Vec<usize> {
        let mut order: Vec<usize> = (0..count).collect();
        self.shuffle(&mut order);
        order
    }

    /// Puts the items in random order.
    pub(crate) fn shuffle<T>(&mut self, items: &mut [T]) {
        for end in (1..items.len()).rev() {
            items.swap(end, self.below(end as u64 + 1) as usize);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shuffle_keeps_all_and_a_seed_repeats_it() {
        let shuffled = |seed| {
            let mut items: Vec<u32> = (0..50).collect();
            Rng::new(seed).shuffle(&mut items);
            items
        };
        assert_eq!(shuffled(1), shuffled(1));
        assert_ne!(shuffled(1), shuffled(2));
        let mut items = shuffled(3);
        items.sort_unstable();
        assert!(items.into_iter().eq(0..50));
    }
}
