//! The section of docs/BENCHMARKS.md, and the same tables for the terminal.

use std::fmt::Write;

use super::measure::{CONNECTIONS, SIZES};
use super::restart::What;
use super::results::{HandOff, Pair, Recovery, Restart, Systems, Version};
use super::system::{Promise, System};
use crate::report::doc::environment;
use crate::report::tables::{figure, grouped, median, table};
use crate::results::Environment;

/// The section below its heading and introduction.
pub(crate) fn section(results: Option<&Systems>) -> String {
    let Some(results) = results else { return "No results are stored.".into() };
    let measured = Environment { server: "the servers below".into(), ..results.environment.clone() };
    format!("{}\n\n{}", environment(&measured), tables(results))
}

/// One of a hand-off's figures.
type Of = fn(&HandOff) -> String;

/// All tables.
pub(super) fn tables(results: &Systems) -> String {
    let rounds = |count: Option<usize>| count.unwrap_or(0);
    let mut text = format!("### What each promises\n\n{}", promises(results));
    let fsync = figure(results.fsync_us);
    let _ = write!(
        text,
        "\nTo write 512 bytes and wait for this machine's disk (`fdatasync`) takes {fsync} µs.\n"
    );
    let count = rounds(results.pairs.first().map(|one| one.rounds));
    let killed = rounds(results.recoveries.first().map(|one| one.rounds));
    let _ = write!(
        text,
        "\n### A pair without contention, and `kill -9` of the holder\n\n{count} rounds, for `kill -9` {killed}.\n\n{}",
        pairs(results)
    );
    if !results.renewals.is_empty() {
        let _ = write!(text, "\n### A renewal\n\n`SET` renews with IFEQ.\n\n{}", renewals(results));
    }
    let of_size = |size: usize| {
        let one = results.hand_offs.iter().find(|one| one.waiters == size);
        rounds(one.map(|one| one.rounds))
    };
    let (count, many) = (of_size(SIZES[0]), of_size(SIZES[3]));
    let parts: [(&str, Of); 2] =
        [("Time in µs", |one| figure(one.us)), ("Server CPU in µs", |one| median(one.server_us))];
    let _ = write!(
        text,
        "\n### Hand-off by the number of waiters\n\n{count} rounds, with 1,000 waiters {many}.\n"
    );
    for (what, of) in parts {
        let _ = write!(text, "\n{}", hand_offs(results, what, of));
    }
    if !results.loads.is_empty() {
        let loads = loads(results);
        let _ = write!(text, "\n### Acquire and release a second, by the number of connections\n\n{loads}");
    }
    let count = rounds(results.restarts.first().map(|one| one.rounds));
    let _ = write!(text, "\n### `kill -9` of the server\n\n{count} rounds.\n\n{}", restarts(results));
    text
}

fn label(system: &str) -> &'static str {
    System::named(system).map_or("?", |one| one.promise().label)
}

fn promises(results: &Systems) -> String {
    let row = |one: &Version| {
        let promise = System::named(&one.system).map(System::promise)?;
        let Promise { label, durability, freed_by } = promise;
        Some(format!("{label} | {} | {durability} | {freed_by}", one.server))
    };
    table(
        "| server | a hold is safe in | what frees the lock of a killed holder",
        results.versions.iter().filter_map(row),
    )
}

fn pairs(results: &Systems) -> String {
    let row = |one: &Recovery| {
        let pair = results.pairs.iter().find(|pair| pair.system == one.system);
        let figures = pair.map_or("- | - | -".into(), |pair| {
            format!("{} | {} | {}", median(pair.us), figure(pair.to_rlock), median(pair.server_us))
        });
        format!("{} | {figures} | {}", label(&one.system), figure(one.ms))
    };
    table(
        "| µs | ratio to rlock | server CPU, µs | ms until the waiter holds",
        results.recoveries.iter().map(row),
    )
}

fn renewals(results: &Systems) -> String {
    let row = |one: &Pair| {
        format!(
            "{} | {} | {} | {}",
            label(&one.system),
            median(one.us),
            figure(one.to_rlock),
            median(one.server_us)
        )
    };
    table("| µs | ratio to rlock | server CPU, µs", results.renewals.iter().map(row))
}

/// One row for each system, one column for each number of waiters.
fn hand_offs(results: &Systems, what: &str, of: Of) -> String {
    let mut text = format!("| {what} |");
    for size in SIZES {
        let _ = write!(text, " {} waiters |", grouped(size as u64));
    }
    let _ = writeln!(text, "\n|{}", "---|".repeat(SIZES.len() + 1));
    let measured = |system: System| results.hand_offs.iter().filter(move |one| one.system == system.name());
    for system in System::ALL.into_iter().filter(|system| measured(*system).next().is_some()) {
        let _ = write!(text, "| {} |", system.promise().label);
        for size in SIZES {
            let one = measured(system).find(|one| one.waiters == size);
            let _ = write!(text, " {} |", one.map_or("not measured".into(), of));
        }
        text.push('\n');
    }
    text
}

/// A dash where the stored run did not measure it.
fn loads(results: &Systems) -> String {
    let row = |system: System| {
        let cell = |connections: usize| {
            let mut own = results.loads.iter().filter(|one| one.system == system.name());
            let one = own.find(|one| one.connections == connections);
            one.map_or("–".into(), |one| figure(one.per_second))
        };
        format!("{} | {}", system.promise().label, CONNECTIONS.map(cell).join(" | "))
    };
    let head = CONNECTIONS.map(|count| count.to_string()).join(" | ");
    let loaded = System::ALL.into_iter().filter(|one| one.is_loaded());
    table(&format!("| {head}"), loaded.map(row))
}

fn restarts(results: &Systems) -> String {
    let row = |one: &Restart| {
        let what = What::ALL.into_iter().find(|what| what.name() == one.what).map_or("?", What::label);
        let (locks, ratio) = (grouped(one.locks as u64), figure(one.to_without_module));
        format!("{what} | {locks} | {} | {ratio}", figure(one.ms))
    };
    table(
        "| locks | ms until the server answers | ratio to the server without the module",
        results.restarts.iter().map(row),
    )
}

#[cfg(test)]
mod tests {
    use super::super::results::{Load, SCHEMA};
    use super::*;
    use crate::spread::Spread;
    use crate::store;

    fn spread(median: f64) -> Spread {
        Spread { median, p10: median, p90: median }
    }

    fn load(per_second: f64) -> Load {
        Load {
            system: System::Dflockd.name().into(),
            connections: 100,
            rounds: 5,
            per_second: spread(per_second),
            to_rlock: spread(1.5),
        }
    }

    fn results() -> Systems {
        let (rlock, etcd) = (System::Rlock.name().to_string(), System::Etcd.name().to_string());
        let hand_off = |system: &str, waiters, us| HandOff {
            system: system.into(),
            waiters,
            rounds: 5,
            us: spread(us),
            to_rlock: spread(us / 100.0),
            server_us: spread(us / 4.0),
        };
        let pair = |system: &str, us| Pair {
            system: system.into(),
            rounds: 20,
            us: spread(us),
            to_rlock: spread(us / 50.0),
            server_us: spread(us / 5.0),
        };
        Systems {
            schema: SCHEMA,
            environment: store::load().unwrap().main.environment,
            fsync_us: spread(800.0),
            versions: vec![Version { system: etcd.clone(), server: "etcd 3.7.3".into() }],
            pairs: vec![pair(&rlock, 50.0), pair(&etcd, 2_000.0)],
            renewals: vec![pair(&rlock, 25.0)],
            hand_offs: vec![
                hand_off(&rlock, 2, 100.0),
                hand_off(&etcd, 2, 900.0),
                hand_off(&etcd, 10, 950.0),
            ],
            loads: vec![load(80_000.0)],
            recoveries: vec![Recovery { system: etcd, rounds: 5, ms: spread(9_000.0) }],
            restarts: vec![Restart {
                what: What::WithModule.name().into(),
                locks: 100_000,
                rounds: 5,
                ms: spread(500.0),
                to_without_module: spread(1.25),
            }],
        }
    }

    #[test]
    fn every_figure_stands_beside_its_system() {
        let text = section(Some(&results()));
        for line in [
            "| etcd, 1 node | etcd 3.7.3 | fsync of the node | the session's lease, 10 s |",
            "| etcd, 1 node | 2,000 | 40.0 | 400 | 9,000 |",
            "| rlock | 25.0 | 0.50 | 5.00 |",
            "| Time in µs | 2 waiters | 10 waiters | 100 waiters | 1,000 waiters |\n|---|---|---|---|---|\n",
            "| etcd, 1 node | 900 | 950 | not measured | not measured |",
            "| dflockd | – | 80,000 | – |",
            "| locks of rlock, server with the module | 100,000 | 500 | 1.25 |",
        ] {
            assert!(text.contains(line), "{line}\n{text}");
        }
        assert_eq!(section(None), "No results are stored.");
    }

    /// An incomplete run is not stored.
    #[test]
    fn the_stored_results_are_whole() {
        let Some(stored) = store::load().unwrap().systems else { return };
        let has = |one: &System| stored.versions.iter().any(|version| version.system == one.name());
        let systems = || System::ALL.into_iter().filter(|one| !one.is_optional() || has(one));
        let all = || systems().map(System::name);
        assert!(
            stored.versions.iter().map(|one| one.system.as_str()).eq(all()),
            "run `make bench ONLY=systems`"
        );
        let expected = systems().filter(|system| !system.only_recovers());
        assert!(stored.pairs.iter().map(|one| one.system.as_str()).eq(expected.clone().map(System::name)));
        let sizes = |system: System| SIZES.map(|size| (system.name(), size));
        let hand_offs = stored.hand_offs.iter().map(|one| (one.system.as_str(), one.waiters));
        assert!(hand_offs.eq(expected.flat_map(sizes)), "other sizes; run `make bench ONLY=systems`");
        assert!(stored.recoveries.iter().map(|one| one.system.as_str()).eq(all()));
        let restarts = What::ALL.into_iter().filter(|one| *one != What::Dflockd || has(&System::Dflockd));
        assert!(stored.restarts.iter().map(|one| one.what.as_str()).eq(restarts.map(What::name)));
    }
}
