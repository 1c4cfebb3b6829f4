//! docs/SCALE.md, and a section of docs/BENCHMARKS.md.

use std::fmt::Write;

use super::fill::What;
use super::fleet::{self, LINES};
use super::results::{Measured, Scale, Stop};
use super::tied::Kind;
use super::traffic::{COMMANDS, State};
use super::{Comparison, comparisons};
use crate::contender::Contender;
use crate::placement::Placement;
use crate::report::doc::environment;
use crate::report::tables::{figure, grouped, number};
use crate::results::Results;
use crate::spread::{quantile, rounded};
use crate::uncontended::Setting;

const TEMPLATE: &str = include_str!("../../SCALE.md.in");

/// The share of a server's one core that a plan should use.
const PLANNED: f64 = 0.6;

/// The primaries of the clusters in the table.
const CLUSTERS: [u32; 2] = [3, 16];

/// Renewals in a second for a lock with the usual lease of 30 s.
const RENEWALS: f64 = 0.1;

/// In place of what is simulated.
const LEFT_OUT: &str = "The simulated fleet is left out: its simulation was too far from the last measurements, as the table below shows.";

/// docs/SCALE.md.
pub(crate) fn page(scale: Option<&Scale>, main: &Results) -> String {
    let Some(scale) = scale else {
        return "# Scale\n\nNo results are stored yet: `make bench ONLY=scale` measures and simulates them.\n".into();
    };
    let measured = &scale.measured;
    let picture = "![Left: locks acquired a second, by the number that a fleet asks for. Right: the same during a fail-over.](bench/scale/fleet.svg)";
    let parts = [
        ("environment", environment(&scale.environment)),
        ("answer", answer(scale)),
        ("interval", round(hand_offs(scale))),
        ("carries", carries(measured, main)),
        ("rest", rest(measured)),
        ("stops", stops(&measured.stops)),
        ("points", points(scale)),
        ("crashes", crashes(scale)),
        ("checks", checks(scale)),
        ("picture", scale.fleet.as_ref().map_or(LEFT_OUT.into(), |_| picture.into())),
        ("fullest", number(scale.fullest)),
        ("hold", number(fleet::HOLD_NS as f64 / 1e6)),
        ("round-trip", number(2.0 * fleet::HOP_NS as f64 / 1e6)),
        ("share", number(fleet::SHARE * 100.0)),
        ("names", fleet::NAMES.to_string()),
        ("retry", grouped(fleet::RETRY_MS)),
        ("planned", number(PLANNED * 100.0)),
        ("outage", outage(scale)),
        ("costs", costs(measured)),
    ];
    let mut text = TEMPLATE.to_string();
    for (name, value) in parts {
        let slot = format!("@{name}@");
        assert!(text.contains(&slot), "the template has no {slot}");
        text = text.replace(&slot, value.trim_end());
    }
    text
}

/// The measured points, for docs/BENCHMARKS.md.
pub(crate) fn section(scale: &Scale) -> String {
    let measured = &scale.measured;
    format!(
        "{}\n### Locks and hand-offs a second\n\n{}\n### Many locks, waiters and connections\n\n{}\n### Other commands\n\n{}\n\
         ### Fail-over\n\n{}",
        environment(&scale.environment),
        rates(measured),
        rest(measured),
        traffic(measured),
        stops(&measured.stops),
    )
}

/// All of it, for the terminal.
pub(crate) fn everything(scale: &Scale) -> String {
    format!("{}\n{}\n{}\n{}\n{}", section(scale), checks(scale), points(scale), crashes(scale), outage(scale))
}

fn table(head: &str, rows: impl IntoIterator<Item = String>) -> String {
    let mut text = format!("| {head} |\n|{}\n", "---|".repeat(head.matches('|').count() + 1));
    rows.into_iter().for_each(|row| {
        let _ = writeln!(text, "| {row} |");
    });
    text
}

/// The page in a few lines.
fn answer(scale: &Scale) -> String {
    let measured = &scale.measured;
    let pair = measured.piped.iter().find(|one| one.work == "pair").map_or(f64::NAN, |one| one.cpu_us.median);
    let most = measured.single.last().map_or(f64::NAN, |one| one.cpu_us);
    let filled = |what: What| measured.memory.iter().find(|one| one.what == what.name());
    let size = |what| {
        filled(what).map_or("?".into(), |one| {
            format!("{} take {} MB", grouped(one.count as u64), number(one.used_mb))
        })
    };
    let stop = measured.stops.first().map_or("?".into(), |stop| {
        format!("{} s (`{} {}`)", number(stop.median()), stop.option, stop.option_ms)
    });
    [
        format!("- **One server** carries {} locks a second for thousands of clients with one command under way each, {} pipelined.", round(per_second(most)), round(per_second(pair))),
        format!("- **Memory is not the end**: held locks, {}; enqueued waiters, {}.", size(What::Held), size(What::Awaited)),
        "- **A cluster** multiplies that by its primaries.".to_string(),
        format!("- **One lock does not spread.** Held for {} ms at a time, it is handed over {} times a second, on any cluster. This limit comes first.", number(fleet::HOLD_NS as f64 / 1e6), round(hand_offs(scale))),
        format!("- **A fail-over** stops the locks of one primary for {stop}."),
    ]
    .join("\n")
}

/// Hand-offs in a second of a lock that always has waiters.
fn hand_offs(scale: &Scale) -> f64 {
    1e9 / fleet::interval_ns(&scale.measured) as f64
}

/// What a core carries of something that takes this time.
fn per_second(cpu_us: f64) -> f64 {
    1e6 / cpu_us
}

/// In three digits: more would claim to be exact.
fn round(value: f64) -> String {
    let digits = value.max(1.0).log10() as i32 - 2;
    let unit = 10_f64.powi(digits.max(0));
    grouped(((value / unit).round() * unit) as u64)
}

/// The time of the server's work, the rate of a whole core, and the rate that the load generator, one thread, has reached.
fn rates(measured: &Measured) -> String {
    let piped = measured.piped.iter().map(|one| {
        let what = match one.work.as_str() {
            "pair" => "acquire + release, 50 in flight on one connection",
            "renew" => "renewal, 50 in flight",
            _ => "hand-off by ENQUEUE (release, confirmation, next request), 50 in flight",
        };
        format!("{what} | {} | {} | -", figure(one.cpu_us), round(per_second(one.cpu_us.median)))
    });
    let row = |what: String, cpu_us: f64, reached: f64| {
        format!("{what} | {} | {} | {}", number(cpu_us), round(per_second(cpu_us)), round(reached))
    };
    let single = measured.single.iter().map(|one| {
        let clients = if one.connections == 1 {
            "1 client".into()
        } else {
            format!("{} clients", grouped(one.connections.into()))
        };
        row(format!("acquire + release, {clients} with one command in flight"), one.cpu_us, one.per_second)
    });
    let paced = &measured.paced;
    let what =
        format!("acquire + release, {} clients that pause: the server often sleeps", paced.connections);
    let paced = row(what, paced.cpu_us, paced.per_second);
    let contended = measured.contended.iter().map(|one| {
        let clients = grouped(one.connections.into());
        let locks = if one.locks == 1 { "one lock".into() } else { format!("{} locks", one.locks) };
        row(format!("hand-off by BLOCK, {clients} clients for {locks}"), one.cpu_us, one.per_second)
    });
    table(
        "| server CPU, µs | a second on a whole core | reached by one load generator",
        piped.chain(single).chain([paced]).chain(contended),
    )
}

/// What one server and clusters carry.
fn carries(measured: &Measured, main: &Results) -> String {
    let piped = |work: &str| {
        measured.piped.iter().find(|one| one.work == work).map_or(f64::NAN, |one| one.cpu_us.median)
    };
    let most = measured.single.last().map_or(f64::NAN, |one| one.cpu_us);
    let many = measured.contended.last().map_or(f64::NAN, |one| one.cpu_us);
    // An acquisition and a release, with an AOF and a replica to those without.
    let safe = |setting: Setting| {
        let costs = main.uncontended(setting.name(), Placement::OneCore.name(), 50)?;
        Some(costs.cost(Contender::Rlock.name())?.cpu_us.median)
    };
    let dearer = safe(Setting::AofReplica).zip(safe(Setting::Plain)).map(|(with, without)| with / without);
    let rows = [
        ("locks a second, 50 in flight on each connection", per_second(piped("pair"))),
        (
            "the same with an AOF (everysec) and a replica",
            per_second(piped("pair") * dearer.unwrap_or(f64::NAN)),
        ),
        ("locks a second, thousands of clients with one command in flight", per_second(most)),
        ("hand-offs a second by BLOCK, many locks", per_second(many)),
        ("hand-offs a second by ENQUEUE, 50 in flight", per_second(piped("hand-off"))),
        ("held locks that clients renew every 10 s (a lease of 30 s)", per_second(piped("renew")) / RENEWALS),
    ];
    let rows = rows.into_iter().filter(|row| row.1.is_finite()).map(|(what, whole)| {
        let mut row = format!("{what} | {} | {}", round(whole), round(whole * PLANNED));
        for primaries in CLUSTERS {
            let _ = write!(row, " | {}", round(whole * PLANNED * f64::from(primaries)));
        }
        row
    });
    let [few, many] = CLUSTERS;
    let planned = number(PLANNED * 100.0);
    table(
        &format!(
            "| one server, a whole core | at {planned} % | {few} primaries at {planned} % | {many} primaries at {planned} %"
        ),
        rows,
    )
}

/// Memory, other clients' waits and the load at rest.
fn rest(measured: &Measured) -> String {
    let filled = measured.memory.iter().map(|one| {
        let label = What::ALL.into_iter().find(|what| what.name() == one.what).map_or("?", What::label);
        format!(
            "{} {label} | {} | {} | {} | {} | {} | {}",
            grouped(one.count as u64),
            number(one.bytes_each),
            number(one.used_mb),
            number(one.resident_mb),
            number(one.coming_ms),
            number(one.after_ms),
            number(one.idle_percent),
        )
    });
    let tied = measured.tied.iter().map(|one| {
        let label = Kind::ALL.into_iter().find(|kind| kind.name() == one.what).map_or("?", Kind::label);
        let megabytes = one.bytes_each * one.connections as f64 / 1e6;
        format!(
            "{} {label} | {} | {} | - | - | - | {}",
            grouped(one.connections as u64),
            number(one.bytes_each),
            number(megabytes),
            number(one.idle_percent),
        )
    });
    table(
        "| bytes each | `used_memory`, MB | process, MB | longest PING while they come, ms | afterwards, ms | CPU at rest, %",
        filled.chain(tied),
    )
}

fn traffic(measured: &Measured) -> String {
    let row = |state: State| {
        let mut row = state.label().to_string();
        for command in COMMANDS {
            let one = measured.traffic.iter().find(|one| one.state == state.name() && one.command == command);
            let shown = |one: &super::results::Traffic| match state {
                State::Without => format!("1 ({} µs)", number(one.cpu_us.median)),
                _ => figure(one.to_without),
            };
            let _ = write!(row, " | {}", one.map_or("-".into(), shown));
        }
        row
    };
    table(&format!("| {}", COMMANDS.join(" | ")), State::ALL.map(row))
}

impl Stop {
    /// Of all its kills.
    pub(crate) fn median(&self) -> f64 {
        let mut seconds = self.seconds.clone();
        seconds.sort_by(f64::total_cmp);
        rounded(quantile(&seconds, 0.5))
    }
}

fn stops(stops: &[Stop]) -> String {
    let row = |one: &Stop| {
        let way = if one.option.starts_with("cluster") {
            "a cluster of 3 primaries with a replica each"
        } else {
            "3 Sentinels, a primary and a replica"
        };
        let seconds: Vec<String> = one.seconds.iter().map(|seconds| number(*seconds)).collect();
        format!("{way} | `{} {}` | {}", one.option, one.option_ms, seconds.join(", "))
    };
    table("| option, ms | seconds until locks are served, each kill", stops.iter().map(row))
}

/// The fleet at each load.
fn points(scale: &Scale) -> String {
    let Some(fleet) = &scale.fleet else { return LEFT_OUT.into() };
    let rows = fleet.points.iter().map(|point| {
        let label = LINES.into_iter().find(|line| line.name == point.line).map_or("?", |line| line.label);
        let figures = &point.figures;
        format!(
            "{label} | {} | {} | {} | {} | {}",
            round(point.asked_per_second),
            round(figures.per_second),
            number(figures.busiest),
            number(figures.mean_ms),
            number(figures.p99_ms),
        )
    });
    table(
        "fleet | asked for, a second | acquired, a second | busiest primary, % | mean wait, ms | 99th percentile, ms",
        rows,
    )
}

fn crashes(scale: &Scale) -> String {
    let Some(fleet) = &scale.fleet else { return LEFT_OUT.into() };
    let rows = fleet.crashes.iter().map(|one| {
        let way = if one.stays_ms < 10_000 { "SESSION" } else { "lease" };
        let figures = &one.figures;
        format!(
            "{way}, {} ms | {} | {} | {}",
            grouped(one.stays_ms),
            number(figures.mean_ms),
            number(figures.p99_ms),
            number(figures.longest_ms),
        )
    });
    table("a dead holder's lock is free after | mean wait, ms | 99th percentile, ms | longest, ms", rows)
}

/// What a fail-over does to a fleet.
fn outage(scale: &Scale) -> String {
    let Some(fleet) = &scale.fleet else { return LEFT_OUT.into() };
    let rows = fleet.outages.iter().map(|one| {
        let series = &one.per_second;
        let mean = |part: &[f64]| part.iter().sum::<f64>() / part.len().max(1) as f64;
        let before = mean(series.get(..10).unwrap_or(series));
        let end = (10 + one.stop_ms as usize / 100).min(series.len());
        let last = mean(series.get(end.saturating_sub(5)..end).unwrap_or(&[]));
        let most = series.iter().copied().fold(0.0, f64::max);
        let seconds = series
            .get(end..)
            .unwrap_or(&[])
            .iter()
            .rposition(|rate| *rate > before * 1.1)
            .map_or(0, |at| at + 1);
        format!(
            "{} | {} | {} | {} | {}",
            number(one.think_ms as f64 / 1e3),
            round(before),
            round(last),
            round(most),
            number(seconds as f64 / 10.0),
        )
    });
    table(
        "a process pauses for, s | acquired before, a second | in the last half second of the fail-over | most after it | until the backlog is served, s",
        rows,
    )
}

fn checks(scale: &Scale) -> String {
    let row = |one: Comparison| {
        let deviation = format!("{:+.0} %", one.deviation() * 100.0);
        let deviation = if one.is_near() { deviation } else { format!("**{deviation}**") };
        let (measured, simulated, bound) = (number(one.measured), number(one.simulated), one.bound() * 100.0);
        format!("{} | {} | {measured} | {simulated} | {deviation} | {bound:.0} %", one.check, one.what)
    };
    let rows = comparisons(scale).into_iter().map(row);
    table("| | measured | simulated | deviation | bound", rows)
}

/// What the simulation takes for its costs.
fn costs(measured: &Measured) -> String {
    let costs = measured.costs(u32::MAX);
    let us = |ns: u64| number(ns as f64 / 1e3);
    let rows = [
        ("a command, on a server with the most connections", us(costs.command_ns)),
        ("more for an acquisition that waits", us(costs.wait_ns)),
        ("more where the server sleeps", us(costs.wake_ns)),
    ];
    table("| µs", rows.map(|(what, us)| format!("{what} | {us}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scale::stored;
    use crate::store;

    #[test]
    fn figures_have_three_digits() {
        assert_eq!(
            [12.4, 123.4, 1_234.0, 98_765.0, 1_234_567.0].map(round),
            ["12", "123", "1,230", "98,800", "1,230,000"]
        );
    }

    #[test]
    fn the_page_has_a_row_for_each_figure() {
        let main = store::load().unwrap().main;
        assert!(page(None, &main).contains("No results are stored yet"));
        let Some(scale) = stored().unwrap() else { return };
        let page = page(Some(&scale), &main);
        assert!(!page.contains('@') && !page.contains("NaN") && !page.contains("| ? |"), "{page}");
        let section = section(&scale);
        for label in State::ALL.map(State::label).into_iter().chain(What::ALL.map(What::label)) {
            assert!(section.contains(label), "{label}\n{section}");
        }
        for line in LINES {
            let rows = page.lines().filter(|row| row.starts_with(&format!("| {} |", line.label))).count();
            assert_eq!(rows, if scale.fleet.is_some() { 5 } else { 0 }, "{}", line.label);
        }
    }
}
