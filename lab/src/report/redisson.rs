//! What Redisson's releases cost as they are, as Markdown tables.

use super::client::section;
use super::doc::environment;
use super::tables::{figure, grouped, median, table};
use crate::redisson::{FieldCosts, Java, Pairs, Redissons, Release};

/// The release beside which rlock-client is shown.
const NEWEST: Java = Java::Redisson(Release::Newest);

/// All tables.
pub(super) fn tables(results: Option<&Redissons>) -> String {
    let Some(results) = results else { return "No results are stored.".into() };
    let rounds = results.pairs.first().map_or(0, |one| one.rounds);
    format!(
        "{} {rounds} rounds.\n\n### Acquire and release by a Java process\n\n{}\n### Hand-offs between \
         processes and threads\n\n{}\n\n{}",
        environment(&results.environment),
        pairs(&results.pairs),
        faster(&results.fields),
        fields(&results.fields),
    )
}

fn pairs(results: &[Pairs]) -> String {
    let row = |one: &Pairs| {
        let [us, server_us, commands] = [one.us, one.server_us, one.commands].map(median);
        let [ratio, server_ratio, client_ratio] =
            [one.to_own, one.server_to_own, one.client_to_own].map(figure);
        let library = label(&one.library);
        format!("{library} | {us} | {ratio} | {server_us} | {server_ratio} | {client_ratio} | {commands}")
    };
    table("| µs | ratio | server CPU, µs | ratio | client CPU, ratio | commands", results.iter().map(row))
}

/// A row for each layout: rlock-client, the newest release beside it, and the time of the other releases.
fn fields(results: &[FieldCosts]) -> String {
    let of = |library: Java, one: &FieldCosts| {
        let layout = |one: &FieldCosts| (one.processes, one.threads, one.hold_ms);
        let place = layout(one);
        results.iter().find(move |other| other.library == library.name() && layout(other) == place)
    };
    let older: Vec<Java> =
        Java::ALL.into_iter().filter(|java| ![Java::Rlock, NEWEST].contains(java)).collect();
    let row = |own: &FieldCosts| {
        let newest = of(NEWEST, own)?;
        let section = section(own.hold_ms);
        let [own_second, second] = [own, newest].map(|one| grouped(one.per_second.median as u64));
        let medians = [own.us, newest.us].map(median).join(" | ");
        let ratios = [newest.to_own, newest.server_to_own, newest.client_to_own].map(figure).join(" | ");
        let commands = [own.commands, newest.commands].map(median).join(" | ");
        let times = older.iter().map(|java| of(*java, own).map_or("-".into(), |one| median(one.to_own)));
        Some(format!(
            "{} | {section} | {own_second} | {second} | {medians} | {ratios} | {commands} | {} | {}",
            layout(own),
            median(newest.again_percent),
            times.collect::<Vec<_>>().join(" | "),
        ))
    };
    let older: String = older.iter().map(|java| format!(" | {}: time, ratio", java.label())).collect();
    let head = format!(
        "processes × threads | critical section | rlock: a second | Redisson | rlock: µs | Redisson | ratio | server CPU, ratio | client CPU, \
         ratio | rlock: commands | Redisson | to the last holder, %{older}"
    );
    table(&head, results.iter().filter(|one| one.library == Java::Rlock.name()).filter_map(row))
}

fn layout(one: &FieldCosts) -> String {
    format!("{} × {}", grouped(one.processes as u64), grouped(one.threads as u64))
}

/// Where Redisson wins by the time or by the rate.
fn faster(results: &[FieldCosts]) -> String {
    let rate = |library: String, like: &FieldCosts| {
        let mut same =
            results.iter().filter(|one| layout(one) == layout(like) && one.hold_ms == like.hold_ms);
        same.find(|one| one.library == library).map_or(f64::NAN, |one| one.per_second.median)
    };
    let wins = results.iter().filter(|one| {
        let is_ahead = one.per_second.median > rate(Java::Rlock.name(), one);
        one.library == NEWEST.name() && (one.to_own.median < 1.0 || is_ahead)
    });
    let layouts: Vec<String> = wins.map(|one| format!("{} ({} ms)", layout(one), one.hold_ms)).collect();
    if layouts.is_empty() {
        return format!("{} hands the lock on faster, or more often, in no layout.", NEWEST.label());
    }
    format!(
        "{} hands the lock on faster, or more often, with these processes × threads and critical sections: {}.",
        NEWEST.label(),
        layouts.join(", ")
    )
}

fn label(library: &str) -> String {
    let found = Java::ALL.into_iter().find(|program| program.name() == library);
    found.map_or("?".into(), Java::label)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spread::Spread;
    use crate::store;

    #[test]
    fn the_tables_have_the_cpu_of_server_and_client() {
        let of = |median: f64| Spread { median, p10: 1.0, p90: 9.0 };
        let pairs = Java::ALL.map(|program| Pairs {
            library: program.name(),
            rounds: 5,
            us: of(2.0),
            to_own: of(3.0),
            server_us: of(4.0),
            server_to_own: of(5.0),
            client_us: of(6.0),
            client_to_own: of(7.0),
            commands: of(8.0),
        });
        let environment = store::load().unwrap().main.environment;
        let text = tables(Some(&Redissons { environment, pairs: pairs.into(), fields: vec![] }));
        let line = "| Redisson 4.7.0 | 2.00 | 3.00 (1.00–9.00) | 4.00 | 5.00 (1.00–9.00) | 7.00 (1.00–9.00) | 8.00 |";
        assert!(text.contains(line), "{line}\n{text}");
        assert_eq!(tables(None), "No results are stored.");
    }
}
