//! What many waiters that end at one moment cost other clients, a case for each scenario.

use serde::Serialize;

use crate::results::{Stall, Stalls};
use crate::stalls::Scenario;

/// The longest that another client may wait, in ms.
pub(super) const LONGEST_MS: f64 = 25.0;

/// The time with the most waiters to that with the fewest, five times as many.
pub(super) const GROWTH: f64 = 7.0;

/// The shortest time with the most waiters, in ms, of which a growth is computed: the polls of the end are too coarse for
/// less.
const LEAST_MS: f64 = 5.0;

/// One scenario: its sizes in ascending order.
#[derive(Serialize)]
pub(super) struct Case {
    scenario: &'static str,
    fewest: usize,
    most: usize,
    first_ms: f64,
    last_ms: f64,
    /// The time with the most waiters to that with the fewest; nothing if only one size was measured, or there is next to nothing to
    /// measure.
    pub(super) growth: Option<f64>,
    /// The longest PING of all sizes.
    pub(super) longest_ms: f64,
    /// The same with the longest names.
    pub(super) long: Option<Box<Case>>,
}

/// The scenarios that were measured.
pub(super) fn cases(stalls: &Stalls) -> Vec<Case> {
    let case = |scenario: Scenario, long_names: bool| {
        let is_it = |one: &&Stall| one.scenario == scenario.name() && one.long_names == long_names;
        let sizes: Vec<&Stall> = stalls.rows.iter().filter(is_it).collect();
        let (first, last) = (sizes.first()?, sizes.last()?);
        let (first_ms, last_ms) = (first.total_ms.median, last.total_ms.median);
        let grows = sizes.len() > 1 && last_ms >= LEAST_MS;
        Some(Case {
            scenario: scenario.name(),
            fewest: first.waiters,
            most: last.waiters,
            first_ms,
            last_ms,
            growth: grows.then(|| last_ms / first_ms),
            longest_ms: sizes.iter().map(|one| one.longest_ping_ms).fold(0.0, f64::max),
            long: None,
        })
    };
    let both = |scenario| Some(Case { long: case(scenario, true).map(Box::new), ..case(scenario, false)? });
    Scenario::ALL.into_iter().filter_map(both).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::doc;
    use crate::results::Environment;
    use crate::spread::Spread;
    use crate::store;

    fn stall(scenario: Scenario, waiters: usize, total: f64, longest_ping_ms: f64) -> Stall {
        let total_ms = Spread { median: total, p10: total - 1.0, p90: total + 1.0 };
        Stall {
            scenario: scenario.name().into(),
            long_names: false,
            waiters,
            rounds: 3,
            total_ms,
            longest_ping_ms,
        }
    }

    #[test]
    fn each_scenario_is_judged_by_its_longest_ping_and_its_growth() {
        let mut stored = store::load().unwrap();
        stored.main.stalls = None;
        stored.others.iter_mut().for_each(|other| other.stalls = None);
        assert!(!doc::page(&stored, None).contains("FAIR waiters time out"));
        let rows = vec![
            stall(Scenario::FairTimeout, 10_000, 100.0, 3.0),
            stall(Scenario::FairTimeout, 50_000, 650.0, 5.0),
            stall(Scenario::FlushOther, 10_000, 0.1, 2.0),
            stall(Scenario::FlushOther, 50_000, 1.5, 2.5),
            stall(Scenario::FairDeleted, 10_000, 40.0, 20.0),
            stall(Scenario::FairDeleted, 50_000, 320.0, 26.0),
            stall(Scenario::BlockTimeout, 1_000, 10.0, 4.0),
            stall(Scenario::BlockTimeout, 5_000, 50.0, 4.5),
            Stall { long_names: true, ..stall(Scenario::FairTimeout, 10_000, 700.0, 6.0) },
            Stall { long_names: true, ..stall(Scenario::BlockTimeout, 1_000, 20.0, 5.0) },
        ];
        let environment = Environment { server: "Redis 7.0.0".into(), ..stored.main.environment.clone() };
        stored.main.stalls = Some(Stalls { environment, rows });
        let page = doc::page(&stored, None);
        for line in [
            ": Redis 7.0.0, rlock ",
            "| waiters | 10,000: total, ms | 50,000: total, ms | growth | PING, ms | long names, 10,000: total, ms | PING, ms |\n",
            "| FAIR waiters time out | 100 | 650 | 6.50 | 5.00 | 700 | 6.00 |",
            "| 0.10 | 1.50 | - | 2.50 | - | - |",
            "| 40.0 | 320 | **8.00** | **26.0** | - | - |\n\n| waiters | 1,000: total, ms |",
            "| blocked waiters (BLOCK) time out | 10.0 | 50.0 | 5.00 | 4.50 | 20.0 | 5.00 |",
            "| many waits that end at one moment: the longest PING of another client, ms, worst case | ≤ 25 | **26.0** |",
            "| many waits that end at one moment: total, growth with five times as many, worst case | ≤ 7 | **8.00** |",
        ] {
            assert!(page.contains(line), "{line}\n{page}");
        }
    }
}
