//! Counters, and a histogram of them.

use std::ffi::CStr;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::ffi::InfoPage;

/// A number that only grows. The server runs callbacks one at a time, so adding needs no atomic
/// read-modify-write; the atomic is for the compiler.
pub(crate) struct Counter(AtomicU64);

impl Counter {
    pub(super) const fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    /// Adds to it.
    pub(crate) fn add(&self, more: u64) {
        self.0.store(self.get().wrapping_add(more), Ordering::Relaxed);
    }

    /// Raises the number to at least this.
    pub(crate) fn raise_to(&self, least: u64) {
        self.0.store(self.get().max(least), Ordering::Relaxed);
    }

    pub(super) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// How long waits for a grant were: how many up to each of [`Histogram::BOUNDS`], all, and their sum.
pub(crate) struct Histogram {
    up_to: [Counter; 12],
    all: Counter,
    sum_ms: Counter,
}

impl Histogram {
    /// In milliseconds, each with the name of its field.
    const BOUNDS: [(u64, &'static CStr); 12] = [
        (1, c"waited_up_to_1_ms"),
        (5, c"waited_up_to_5_ms"),
        (10, c"waited_up_to_10_ms"),
        (50, c"waited_up_to_50_ms"),
        (100, c"waited_up_to_100_ms"),
        (500, c"waited_up_to_500_ms"),
        (1_000, c"waited_up_to_1000_ms"),
        (5_000, c"waited_up_to_5000_ms"),
        (10_000, c"waited_up_to_10000_ms"),
        (30_000, c"waited_up_to_30000_ms"),
        (60_000, c"waited_up_to_60000_ms"),
        (300_000, c"waited_up_to_300000_ms"),
    ];

    pub(super) const fn new() -> Self {
        Self { up_to: [const { Counter::new() }; 12], all: Counter::new(), sum_ms: Counter::new() }
    }

    /// Counts a wait of this many milliseconds.
    pub(crate) fn record(&self, ms: u64) {
        for ((bound, _), counter) in Self::BOUNDS.iter().zip(&self.up_to) {
            if ms <= *bound {
                counter.add(1);
            }
        }
        self.all.add(1);
        self.sum_ms.add(ms);
    }

    pub(super) fn show(&self, page: &InfoPage) {
        for ((_, name), counter) in Self::BOUNDS.iter().zip(&self.up_to) {
            page.number(name, counter.get());
        }
        page.number(c"waited", self.all.get());
        page.number(c"waited_ms", self.sum_ms.get());
    }
}
