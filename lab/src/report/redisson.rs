//! What Redisson's releases cost as they are, as Markdown tables.

use super::doc::environment;
use super::tables::{figure, grouped, number, table};
use crate::redisson::{FieldCosts, Java, Pairs, Redissons, Release};

/// All tables.
pub(super) fn tables(results: Option<&Redissons>) -> String {
    let Some(results) = results else { return "No results are stored.".into() };
    let rounds = results.pairs.first().map_or(0, |one| one.rounds);
    let of = |hold_ms: u64| fields(results.fields.iter().filter(|one| one.hold_ms == hold_ms));
    format!(
        "{}\nEach figure is of {rounds} rounds. {}\n\n### Acquire and release by a Java process\n\n{}\n\
         ### Hand-offs of a lock that each keeps for a millisecond\n\n{}\n\
         ### Hand-offs of a lock that is released at once\n\n{}",
        environment(&results.environment),
        faster(&results.fields),
        pairs(&results.pairs),
        of(1),
        of(0),
    )
}

fn pairs(results: &[Pairs]) -> String {
    let row = |one: &Pairs| {
        let figures =
            [one.us, one.to_own, one.server_us, one.server_to_own, one.client_us, one.client_to_own];
        let figures = figures.map(figure).join(" | ");
        format!("{} | {figures} | {}", label(&one.library), number(one.commands.median))
    };
    table(
        "| µs | ratio | server CPU, µs | ratio | client CPU, µs | ratio | commands",
        results.iter().map(row),
    )
}

fn fields<'a>(results: impl Iterator<Item = &'a FieldCosts>) -> String {
    let row = |one: &FieldCosts| {
        let figures =
            [one.us, one.to_own, one.server_us, one.server_to_own, one.client_us, one.client_to_own];
        let (figures, processes) = (figures.map(figure).join(" | "), grouped(one.processes as u64));
        let (threads, second) = (grouped(one.threads as u64), grouped(one.per_second.median as u64));
        let (commands, again) = (number(one.commands.median), number(one.again_percent.median));
        let library = label(&one.library);
        format!("{library} | {processes} × {threads} | {second} | {figures} | {commands} | {again}")
    };
    table(
        "| processes × threads | a second | µs | ratio | server CPU, µs | ratio | client CPU, µs | ratio | commands | to the last \
         holder, %",
        results.map(row),
    )
}

/// Where Redisson wins.
fn faster(results: &[FieldCosts]) -> String {
    let newest = Java::Redisson(Release::Newest);
    let wins = results.iter().filter(|one| one.library == newest.name() && one.to_own.median < 1.0);
    let layout = |one: &FieldCosts| {
        let (processes, threads) = (grouped(one.processes as u64), grouped(one.threads as u64));
        format!("{processes} × {threads} ({} ms)", one.hold_ms)
    };
    let layouts: Vec<String> = wins.map(layout).collect();
    if layouts.is_empty() {
        return format!("{} hands the lock on faster in no layout.", newest.label());
    }
    format!(
        "{} hands the lock on faster with these processes × threads and critical sections: {}.",
        newest.label(),
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
        let line = "| Redisson 4.7.0 | 2.00 (1.00 to 9.00) | 3.00 (1.00 to 9.00) | 4.00 (1.00 to 9.00) | 5.00 (1.00 to 9.00) | \
                    6.00 (1.00 to 9.00) | 7.00 (1.00 to 9.00) | 8.00 |";
        assert!(text.contains(line), "{line}\n{text}");
        assert_eq!(tables(None), "No results are stored.");
    }
}
