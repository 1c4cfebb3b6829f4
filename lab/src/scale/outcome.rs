//! What a fleet did for a while, simulated or measured.

use serde::{Deserialize, Serialize};

use crate::spread::{quantile, rounded};

/// The length of one entry of the series.
pub(crate) const TICK_NS: u64 = 100_000_000;

/// Counts between two times.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Outcome {
    from_ns: u64,
    until_ns: u64,
    hand_offs: u64,
    /// From the request to the reply, in ms.
    waits: Vec<f64>,
    /// The time that each primary worked.
    busy_ns: Vec<u64>,
    /// Acquisitions in each tick.
    series: Vec<u64>,
}

/// The figures of an outcome.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Figures {
    /// Acquisitions in a second.
    pub(crate) per_second: f64,
    /// Hand-offs in a second: these acquisitions waited for another owner.
    pub(crate) hand_offs: f64,
    /// The share of its time that the busiest primary works, in percent.
    pub(crate) busiest: f64,
    pub(crate) mean_ms: f64,
    pub(crate) p99_ms: f64,
    pub(crate) longest_ms: f64,
}

impl Outcome {
    /// Counts nothing yet.
    pub(crate) fn new(primaries: usize) -> Outcome {
        Outcome {
            from_ns: u64::MAX,
            until_ns: u64::MAX,
            hand_offs: 0,
            waits: Vec::new(),
            busy_ns: vec![0; primaries],
            series: Vec::new(),
        }
    }

    /// Counts from the first of these times until the second.
    pub(crate) fn watch(&mut self, from_ns: u64, until_ns: u64) {
        (self.from_ns, self.until_ns) = (from_ns, until_ns);
    }

    fn has(&self, at_ns: u64) -> bool {
        (self.from_ns..self.until_ns).contains(&at_ns)
    }

    pub(crate) fn acquires(&mut self, at_ns: u64, asked_ns: u64) {
        if !self.has(at_ns) {
            return;
        }
        self.waits.push((at_ns - asked_ns) as f64 / 1e6);
        let tick = ((at_ns - self.from_ns) / TICK_NS) as usize;
        self.series.resize(self.series.len().max(tick + 1), 0);
        self.series[tick] += 1;
    }

    pub(crate) fn hands_over(&mut self, at_ns: u64) {
        self.hand_offs += u64::from(self.has(at_ns));
    }

    pub(crate) fn works(&mut self, primary: usize, at_ns: u64, work_ns: u64) {
        if self.has(at_ns) {
            self.busy_ns[primary] += work_ns;
        }
    }

    /// Hand-offs, and the work of a primary, that were counted elsewhere.
    pub(crate) fn counted(&mut self, hand_offs: u64, busy_ns: u64) {
        (self.hand_offs, self.busy_ns[0]) = (hand_offs, busy_ns);
    }

    /// The number of acquisitions.
    pub(crate) fn acquired(&self) -> usize {
        self.waits.len()
    }

    /// Acquisitions in each tick.
    pub(crate) fn series(&self) -> &[u64] {
        &self.series
    }

    pub(crate) fn figures(mut self) -> Figures {
        assert!(!self.waits.is_empty(), "no lock was acquired");
        self.waits.sort_by(f64::total_cmp);
        let seconds = (self.until_ns - self.from_ns) as f64 / 1e9;
        let sum: f64 = self.waits.iter().sum();
        let busiest = self.busy_ns.iter().max().map_or(0.0, |busy| *busy as f64);
        Figures {
            per_second: rounded(self.waits.len() as f64 / seconds),
            hand_offs: rounded(self.hand_offs as f64 / seconds),
            busiest: rounded(busiest / seconds / 1e7),
            mean_ms: rounded(sum / self.waits.len() as f64),
            p99_ms: rounded(quantile(&self.waits, 0.99)),
            longest_ms: rounded(quantile(&self.waits, 1.0)),
        }
    }
}
