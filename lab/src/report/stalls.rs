//! What many waiters that end at one moment cost other clients, as Markdown tables.

use std::fmt::Write;

use super::tables::{grouped, number};
use crate::results::{Environment, Results, Stall, Stalls};
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

    fn counts(&self) -> Vec<usize> {
        self.sizes.iter().map(|one| one.waiters).collect()
    }

    fn is_met(&self) -> bool {
        self.longest() <= LONGEST_MS && self.growth().is_none_or(|growth| growth <= GROWTH)
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
    let Environment { server, date, commit, load: [before, after], .. } = &stalls.environment;
    let rounds = stalls.rows.iter().map(|one| one.rounds).min().unwrap_or(0);
    let tables = tables(stalls);
    format!(
        "{server}, {date}, rlock {commit}, {rounds} rounds; load average {before} before, {after} after.\n\n{tables}"
    )
}

/// One table for all scenarios of the same sizes.
pub(super) fn tables(stalls: &Stalls) -> String {
    let cases = cases(stalls);
    let mut text = String::new();
    let (mut counts, mut names): (Vec<usize>, _) = (Vec::new(), Names::Short);
    for case in &cases {
        if case.counts() != counts || case.names != names {
            text.push_str(if text.is_empty() { "" } else { "\n" });
            if case.names != names {
                text.push_str("With names of 1,024 bytes, and owners and channels of 512:\n\n");
            }
            (counts, names) = (case.counts(), case.names);
            text.push_str(&head(&counts));
        }
        text.push_str(&row(case));
    }
    text
}

fn head(counts: &[usize]) -> String {
    let mut text = String::from("| |");
    for count in counts {
        let _ = write!(text, " {}: total, ms | PING, ms |", grouped(*count as u64));
    }
    let _ = writeln!(text, " growth | |\n|{}", "---|".repeat(counts.len() * 2 + 3));
    text
}

fn row(case: &Case<'_>) -> String {
    let mut text = format!("| {} |", case.scenario.label());
    for one in &case.sizes {
        let _ =
            write!(text, " {} | {} |", number(one.total_ms.median), judged(one.longest_ping_ms, LONGEST_MS));
    }
    let growth = case.growth().map_or("-".into(), |growth| judged(growth, GROWTH));
    let verdict = if case.is_met() { "met" } else { "**missed**" };
    let _ = writeln!(text, " {growth} | {verdict} |");
    text
}

/// A figure, in bold type where it misses its target.
fn judged(value: f64, most: f64) -> String {
    if value <= most { number(value) } else { format!("**{}**", number(value)) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::doc;
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
            "Redis 7.0.0, ",
            "| | 10,000: total, ms | PING, ms | 50,000: total, ms | PING, ms | growth | |\n|---|---|---|---|---|---|---|\n",
            "| FAIR waiters time out | 100 | 3.00 | 650 | 5.00 | 6.50 | met |",
            "| 0.10 | 2.00 | 1.50 | 2.50 | - | met |",
            "| 40.0 | 20.0 | 320 | **26.0** | **8.00** | **missed** |\n\n| | 1,000: total, ms |",
            "| blocked waiters (BLOCK) time out | 10.0 | 4.00 | 50.0 | 4.50 | 5.00 | met |\n\nWith names of 1,024 bytes",
            "| FAIR waiters time out | 700 | 6.00 | - | met |\n\n| | 1,000: total, ms |",
            "| blocked waiters (BLOCK) time out | 20.0 | 5.00 | - | met |",
            "| many waits that end at one moment: the longest PING of another client, ms, worst case | ≤ 25 | **26.0** |",
            "| many waits that end at one moment: total, growth with five times as many, worst case | ≤ 7 | **8.00** |",
        ] {
            assert!(page.contains(line), "{line}\n{page}");
        }
    }
}
