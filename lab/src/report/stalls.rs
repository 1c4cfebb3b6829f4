//! What many waiters that end at one moment cost other clients, as Markdown tables.

use std::fmt::Write;

use super::doc::environment;
use super::tables::{grouped, number};
use crate::results::{Results, Stall, Stalls};
use crate::stalls::{Names, Scenario};

/// The longest that another client may wait, in ms.
pub(super) const LONGEST_MS: f64 = 25.0;

/// The time with the most waiters to that with the fewest, five times as many.
pub(super) const GROWTH: f64 = 7.0;

/// The shortest time with the most waiters, in ms, of which a growth is computed: the polls of the end are too coarse for
/// less.
const LEAST_MS: f64 = 5.0;

/// One scenario: its sizes in ascending order.
pub(super) struct Case<'a> {
    pub(super) scenario: Scenario,
    names: Names,
    sizes: Vec<&'a Stall>,
}

impl Case<'_> {
    /// The time with the most waiters to that with the fewest; `None` if only one size was measured, or there is next to
    /// nothing to measure.
    pub(super) fn growth(&self) -> Option<f64> {
        let [first, .., last] = self.sizes[..] else { return None };
        (last.total_ms.median >= LEAST_MS).then(|| last.total_ms.median / first.total_ms.median)
    }

    /// The longest PING of all sizes, in ms.
    pub(super) fn longest(&self) -> f64 {
        self.sizes.iter().map(|one| one.longest_ping_ms).fold(0.0, f64::max)
    }

    /// The fewest and the most waiters.
    fn ends(&self) -> [usize; 2] {
        [self.sizes.first(), self.sizes.last()].map(|one| one.map_or(0, |one| one.waiters))
    }
}

/// The scenarios that were measured.
pub(super) fn cases(stalls: &Stalls) -> Vec<Case<'_>> {
    let of = |(names, scenario): (Names, Scenario)| {
        let is_of =
            |one: &&Stall| one.scenario == scenario.name() && one.long_names == (names == Names::Long);
        Case { scenario, names, sizes: stalls.rows.iter().filter(is_of).collect() }
    };
    let all = Names::ALL.into_iter().flat_map(|names| Scenario::ALL.map(|scenario| (names, scenario)));
    all.map(of).filter(|case| !case.sizes.is_empty()).collect()
}

/// The tables of a server, with where and when.
pub(super) fn server(results: &Results) -> String {
    let Some(stalls) = &results.stalls else { return "No results are stored.".into() };
    let rounds = stalls.rows.iter().map(|one| one.rounds).min().unwrap_or(0);
    format!("{} {rounds} rounds.\n\n{}", environment(&stalls.environment), tables(stalls))
}

/// One table for all scenarios of the same sizes, which has the longest names in its last columns.
pub(super) fn tables(stalls: &Stalls) -> String {
    let (short, long): (Vec<_>, Vec<_>) =
        cases(stalls).into_iter().partition(|case| case.names == Names::Short);
    let mut text = String::new();
    let mut ends = None;
    for case in &short {
        let long = long.iter().find(|other| other.scenario == case.scenario);
        if ends != Some(case.ends()) {
            text.push_str(if text.is_empty() { "" } else { "\n" });
            ends = Some(case.ends());
            let [fewest, most] = case.ends().map(|count| grouped(count as u64));
            let _ = writeln!(
                text,
                "| waiters | {fewest}: total, ms | {most}: total, ms | growth | PING, ms | long names, {fewest}: total, ms | PING, ms \
                 |\n|{}",
                "---|".repeat(7)
            );
        }
        text.push_str(&row(case, long));
    }
    text
}

fn row(case: &Case<'_>, long: Option<&Case<'_>>) -> String {
    let total = |one: Option<&&Stall>| one.map_or("-".into(), |one| number(one.total_ms.median));
    let longest = |case: &Case<'_>| judged(case.longest(), LONGEST_MS);
    format!(
        "| {} | {} | {} | {} | {} | {} | {} |\n",
        case.scenario.label(),
        total(case.sizes.first()),
        total(case.sizes.last()),
        case.growth().map_or("-".into(), |growth| judged(growth, GROWTH)),
        longest(case),
        total(long.and_then(|long| long.sizes.first())),
        long.map_or("-".into(), longest),
    )
}

/// A figure, in bold type where it misses its target.
fn judged(value: f64, most: f64) -> String {
    if value <= most { number(value) } else { format!("**{}**", number(value)) }
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
