//! What docs/SCALE.md computes from the figures, and the page.

use minijinja::context;
use minijinja::value::{Serde, Value};

use super::checks::{Comparison, comparisons};
use super::fleet::{HOLD_NS, HOP_NS, NAMES, RETRY_MS, SHARE, interval_ns};
use super::results::{Measured, OutageSeries, Scale, Stop};
use crate::contender::Contender;
use crate::placement::Placement;
use crate::report::template;
use crate::results::Results;
use crate::spread::{quantile, rounded};
use crate::uncontended::Setting;

/// The share of a server's one core that a plan should use.
const PLANNED: f64 = 0.6;

/// Renewals in a second for a lock with the usual lease of 30 s.
const RENEWALS: f64 = 0.1;

/// docs/SCALE.md.
pub(crate) fn page(scale: Option<&Scale>, main: &Results) -> String {
    let Some(scale) = scale else {
        return "# Scale\n\nNo results are stored yet: `make bench ONLY=scale` measures and simulates them.\n".into();
    };
    let measured = &scale.measured;
    // Of a lock that always has waiters, each with this number of round trips.
    let a_second = |trips: u64| 1e9 / interval_ns(measured, trips) as f64;
    let computed = context! {
        one_trip => a_second(1),
        two_trips => a_second(2),
        stop_s => measured.stops.first().map(Stop::median),
        carried => carried(measured, main),
        share => SHARE,
        names => NAMES,
        hold_ms => HOLD_NS as f64 / 1e6,
        round_trip_ms => 2.0 * HOP_NS as f64 / 1e6,
        retry_ms => RETRY_MS,
        planned => PLANNED,
        costs => Serde(measured.costs(u32::MAX)),
        ..computed(scale)
    };
    template::page("SCALE", context! { scale => Serde(scale), computed })
}

/// All of it, for the terminal.
pub(crate) fn everything(scale: &Scale) -> String {
    let values = context! { scale => Serde(scale), computed => computed(scale) };
    template::shown("scale", "everything(scale, computed)", values)
}

fn computed(scale: &Scale) -> Value {
    let outages = scale.fleet.iter().flat_map(|fleet| &fleet.outages).map(outage);
    context! { checks => checks(scale), outages => outages.collect::<Vec<_>>() }
}

/// What a core carries: the work, and the server's time for one of it.
fn carried(measured: &Measured, main: &Results) -> Vec<(&'static str, f64)> {
    let piped = |work: &str| {
        measured.piped.iter().find(|one| one.work == work).map_or(f64::NAN, |one| one.cpu_us.median)
    };
    // An acquisition and a release, with an AOF and a replica to those without.
    let safe = |setting: Setting| {
        let costs = main.uncontended(setting.name(), Placement::OneCore.name(), 50)?;
        Some(costs.cost(Contender::Rlock.name())?.cpu_us.median)
    };
    let dearer = safe(Setting::AofReplica).zip(safe(Setting::Plain)).map(|(with, without)| with / without);
    let rows = [
        ("locks a second, 50 in flight on each connection", piped("pair")),
        ("the same with an AOF (everysec) and a replica", piped("pair") * dearer.unwrap_or(f64::NAN)),
        (
            "locks a second, thousands of clients with one command in flight",
            measured.single.last().map_or(f64::NAN, |one| one.cpu_us),
        ),
        (
            "hand-offs a second by BLOCK, many locks",
            measured.contended.last().map_or(f64::NAN, |one| one.cpu_us),
        ),
        ("hand-offs a second by ENQUEUE, 50 in flight", piped("hand-off")),
        ("held locks that clients renew every 10 s (a lease of 30 s)", piped("renew") * RENEWALS),
    ];
    rows.into_iter().filter(|row| row.1.is_finite()).collect()
}

impl Stop {
    /// Of all its kills.
    pub(super) fn median(&self) -> f64 {
        let mut seconds = self.seconds.clone();
        seconds.sort_by(f64::total_cmp);
        rounded(quantile(&seconds, 0.5))
    }
}

/// What a fail-over does to a fleet.
fn outage(one: &OutageSeries) -> Value {
    let series = &one.per_second;
    let mean = |part: &[f64]| part.iter().sum::<f64>() / part.len().max(1) as f64;
    let before = mean(series.get(..10).unwrap_or(series));
    let end = (10 + one.stop_ms as usize / 100).min(series.len());
    let at_end = mean(series.get(end.saturating_sub(5)..end).unwrap_or(&[]));
    let after = series.get(end..).unwrap_or(&[]);
    let ticks = after.iter().rposition(|rate| *rate > before * 1.1).map_or(0, |at| at + 1);
    context! { pause_s => one.think_ms as f64 / 1e3, before, at_end, backlog_s => ticks as f64 / 10.0 }
}

/// Of each profile: its rate, and the figure with the largest deviation.
fn checks(scale: &Scale) -> Vec<Value> {
    let all = comparisons(scale);
    let row = |profile: &[Comparison]| {
        let rate = profile.first()?;
        let worst = profile.iter().max_by(|a, b| a.excess().total_cmp(&b.excess()))?;
        Some(context! {
            check => &rate.check,
            measured => rate.measured,
            simulated => rate.simulated,
            what => worst.what,
            deviation => format!("{:+.0} %", worst.deviation() * 100.0),
            bound => format!("{:.0} %", worst.bound() * 100.0),
            is_near => worst.is_near(),
        })
    };
    all.chunk_by(|a, b| a.check == b.check).filter_map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::super::fill::What;
    use super::super::fleet::LINES;
    use super::super::traffic::State;
    use super::*;
    use crate::report::doc;
    use crate::scale::stored;
    use crate::store;

    #[test]
    fn the_page_has_a_row_for_each_figure() {
        let all = store::load().unwrap();
        assert!(page(None, &all.main).contains("No results are stored yet"));
        let Some(mut scale) = stored().unwrap() else { return };
        let page = page(Some(&scale), &all.main);
        assert!(!page.contains("NaN") && !page.contains("| ? |"), "{page}");
        let section = doc::page(&all, Some(&scale));
        for label in State::ALL.map(State::label) {
            assert!(section.contains(label), "{label}\n{section}");
        }
        for label in What::ALL.map(What::label) {
            assert!(page.contains(label), "{label}\n{page}");
        }
        for line in LINES {
            let rows = page.lines().filter(|row| row.starts_with(&format!("| {} |", line.label))).count();
            assert_eq!(rows, if scale.fleet.is_some() { 2 } else { 0 }, "{}", line.label);
        }
        assert!(everything(&scale).contains(LINES[0].label));
        scale.fleet = None;
        let without = super::page(Some(&scale), &all.main) + &everything(&scale);
        assert!(without.contains("The simulated fleet is left out") && !without.contains(LINES[0].label));
    }
}
