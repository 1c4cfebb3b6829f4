//! docs/SCALE.md, and a section of docs/BENCHMARKS.md.

mod measured;
mod simulated;

use super::fill::What;
use super::fleet;
use super::results::Scale;
use crate::report::doc::{environment, filled, machine};
use crate::report::tables::{grouped, number};
use crate::results::Results;
use measured::{PLANNED, carries, rates, rest, stops, traffic};
use simulated::{checks, costs, crashes, outage, picture, points};

const TEMPLATE: &str = include_str!("../../SCALE.md.in");

/// docs/SCALE.md.
pub(crate) fn page(scale: Option<&Scale>, main: &Results) -> String {
    let Some(scale) = scale else {
        return "# Scale\n\nNo results are stored yet: `make bench ONLY=scale` measures and simulates them.\n".into();
    };
    let measured = &scale.measured;
    let parts = [
        ("environment", machine(&scale.environment)),
        ("answer", answer(scale)),
        ("interval", round(hand_offs(scale, 1))),
        ("confirmed", round(hand_offs(scale, 2))),
        ("carries", carries(measured, main)),
        ("rest", rest(measured)),
        ("stops", stops(&measured.stops)),
        ("points", points(scale)),
        ("crashes", crashes(scale)),
        ("checks", checks(scale)),
        ("picture", picture(scale)),
        ("fullest", number(scale.fullest)),
        ("hold", number(fleet::HOLD_NS as f64 / 1e6)),
        ("round-trip", number(2.0 * fleet::HOP_NS as f64 / 1e6)),
        ("retry", grouped(fleet::RETRY_MS)),
        ("planned", number(PLANNED * 100.0)),
        ("outage", outage(scale)),
        ("costs", costs(measured)),
    ];
    filled(TEMPLATE, &parts)
}

/// The measured points that docs/SCALE.md leaves out, for docs/BENCHMARKS.md.
pub(crate) fn section(scale: &Scale) -> String {
    let measured = &scale.measured;
    format!(
        "{}\n\n### Locks and hand-offs a second\n\n{}\n### Other commands\n\n{}",
        environment(&scale.environment),
        rates(measured),
        traffic(measured),
    )
}

/// All of it, for the terminal.
pub(crate) fn everything(scale: &Scale) -> String {
    let measured = &scale.measured;
    [
        section(scale),
        rest(measured),
        stops(&measured.stops),
        checks(scale),
        points(scale),
        crashes(scale),
        outage(scale),
    ]
    .join("\n")
}

/// The page in a few lines.
fn answer(scale: &Scale) -> String {
    let measured = &scale.measured;
    let pair = measured.piped.iter().find(|one| one.work == "pair").map_or(f64::NAN, |one| one.cpu_us.median);
    let most = measured.single.last().map_or(f64::NAN, |one| one.cpu_us);
    let filled = |what: What| measured.memory.iter().find(|one| one.what == what.name());
    let size = |what, label: &str| {
        filled(what).map_or("?".into(), |one| {
            format!("{} {label} take {} MB", grouped(one.count as u64), number(one.used_mb))
        })
    };
    let stop = measured.stops.first().map_or("?".into(), |stop| {
        format!("{} s (`{} {}`)", number(stop.median()), stop.option, stop.option_ms)
    });
    [
        format!("- **One server** carries {} locks a second for thousands of clients with one command in flight, {} pipelined.", round(per_second(most)), round(per_second(pair))),
        format!("- **Memory is not the end**: {}, {}.", size(What::Held, "held locks"), size(What::Awaited, "enqueued waiters")),
        "- **A cluster** multiplies that by its primaries, if the names of locks [spread](#names-that-spread).".to_string(),
        format!("- **One lock does not spread.** Held for {} ms, it is handed over {} times a second, on any cluster. This limit comes first.", number(fleet::HOLD_NS as f64 / 1e6), round(hand_offs(scale, 1))),
        format!("- **A fail-over** stops the locks of one primary for {stop}."),
    ]
    .join("\n")
}

/// Hand-offs in a second of a lock that always has waiters, each with this number of round trips.
fn hand_offs(scale: &Scale, trips: u64) -> f64 {
    1e9 / fleet::interval_ns(&scale.measured, trips) as f64
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
#[cfg(test)]
mod tests {
    use super::super::fleet::LINES;
    use super::super::traffic::State;
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
    }
}
