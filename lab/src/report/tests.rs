//! The page of results that are not the stored ones.

use super::doc;
use crate::client::Who;
use crate::clients::{Clients, Crowd, Footprint, Library, LibraryCosts, Resident, WAITERS};
use crate::contention::Protocol;
use crate::placement::Placement;
use crate::readers::Way;
use crate::redisson::{self, Java, Redissons};
use crate::results::{Before, Client, Compared, Contended, HandOff, Pairs, Renewal};
use crate::spread::Spread;
use crate::store;
use crate::systems::{System, Systems, What, results as systems};

const NOTHING: &str = "No results are stored.";

fn spread(median: f64) -> Spread {
    Spread { median, p10: median - 0.01, p90: median + 0.01 }
}

fn pairs(placement: Placement) -> Pairs {
    let (contender, placement) = (Who::Client.name().into(), placement.name().into());
    let (wall_us, wall_to_raw, cpu_us, cpu_to_raw) = (spread(20.0), spread(1.05), spread(12.0), spread(1.2));
    Pairs { contender, placement, rounds: 7, wall_us, wall_to_raw, cpu_us, cpu_to_raw, commands: 2.0 }
}

fn contended((who, us, to_raw): (Who, f64, f64)) -> Contended {
    let (us, to_raw, per_second) = (spread(us), spread(to_raw), spread(9_000.0));
    let contender = who.name().into();
    Contended { contender, waiters: 100, hold_ms: 0, rounds: 6, us, to_raw, p99_us: 180.0, per_second }
}

fn before() -> Before {
    let (before_us, us, ratio) = (spread(400.0), spread(200.0), spread(0.5));
    let row = Compared { waiters: 20, hold_ms: 1, rounds: 6, before_us, us, ratio };
    Before { commit: "0123abcd".into(), rows: vec![row] }
}

#[test]
fn a_run_that_left_parts_out_is_shown() {
    let mut stored = store::load().unwrap();
    assert!(doc::everything(&stored.main).contains("Redisson itself"));
    let main = &mut stored.main;
    main.contention.retain(|one| one.protocol != Protocol::Redisson.name());
    main.readers.retain(|one| one.way == Way::Rlock.name());
    for cost in main.uncontended.iter_mut().flat_map(|one| &mut one.costs) {
        cost.ratios.retain(|ratio| !ratio.to.starts_with("redisson"));
    }
    (main.client, main.clients, main.redisson, main.stalls) = (None, None, None, None);
    assert!(!doc::everything(&stored.main).contains("Redisson itself"));
    assert!(!doc::page(&stored, None).contains("**A hand-off among 1,000 waiters**"));
    (stored.main.uncontended, stored.main.contention) = (Vec::new(), Vec::new());
    assert!(doc::everything(&stored.main).contains("an enqueued waiter"));
}

#[test]
fn the_page_has_what_was_measured_and_what_was_aimed_at() {
    let mut stored = store::load().unwrap();
    stored.main.client = None;
    assert!(!doc::page(&stored, None).contains("renewal of 10,000 locks"));
    let environment = stored.main.environment.clone();
    stored.main.client = Some(Client {
        environment,
        pairs: Placement::ALL.map(pairs).into(),
        hand_offs: vec![HandOff {
            contender: Who::Client.name().into(),
            rounds: 8,
            us: spread(250.0),
            to_raw: spread(2.5),
        }],
        contended: [(Who::Raw, 70.0, 1.0), (Who::Client, 95.0, 1.3)].map(contended).into(),
        before: Some(before()),
        renewal: Renewal { locks: 10_000, rounds: 3, percent: spread(0.5), idle_percent: 0.01 },
    });
    let page = doc::page(&stored, None);
    for line in [
        "| acquire + release, ratio to the raw commands, one core | ≤ 1.1 | 1.05 (1.04–1.06) | met |",
        "| hand-off between two processes, ratio to raw BLOCK | ≤ 2.2 | 2.50 (2.49–2.51) | **missed** |",
        "| renewal of 10,000 locks, % of a core | ≤ 1 | 0.50 (0.49–0.51) | met |",
        "| rlock-client | 20.0 | 1.05 (1.04–1.06) | 1.20 (1.19–1.21) | 20.0 | 1.05 (1.04–1.06) | 1.20 (1.19–1.21) | 2.00 |",
        "| rlock-client | 250 | 2.50 (2.49–2.51) |",
        "commit 0123abcd, 6 rounds, the part of their time that a hand-off takes: 0.50 (20 waiters, 1 ms).",
        "| 100 | empty | 70.0 | 95.0 | 1.30 (1.29–1.31) | 180 | 180 | 9,000 | 9,000 |",
    ] {
        assert!(page.contains(line), "{line}\n{page}");
    }
}

fn costs(library: Library) -> LibraryCosts {
    let spread = Spread { median: 2.0, p10: 1.0, p90: 3.0 };
    LibraryCosts {
        library: library.name().into(),
        rounds: 8,
        pair_rounds: 40,
        pair_us: spread,
        pair_to_own: spread,
        pair_cpu_us: spread,
        pair_server_us: spread,
        pair_commands: spread,
        hand_off_us: spread,
        hand_off_to_own: spread,
        hand_off_p99_us: Some(6.0),
        freed_ms: Some(Spread { median: 25_000.0, ..spread }),
        footprint: Some(Footprint {
            idle: Resident { kib: 20_000, threads: 3 },
            crowd: Resident { kib: 40_000, threads: 103 },
            installed_bytes: 2_500_000,
        }),
        crowd: Crowd {
            waiters: WAITERS,
            us: spread,
            to_own: spread,
            longest_ms: 4.0,
            overtaken: 7,
            server_us: spread,
            commands: spread,
            hand_off_us: Some(spread),
            hand_off_p99_us: Some(5.0),
        },
    }
}

#[test]
fn the_tables_have_a_row_for_each_library() {
    let mut stored = store::load().unwrap();
    stored.main.clients = None;
    assert!(doc::page(&stored, None).contains(NOTHING));
    let environment = stored.main.environment.clone();
    let mut rows: Vec<LibraryCosts> = Library::ALL.map(costs).into();
    rows.retain(|one| one.library != Library::Rueidislock.name());
    stored.main.clients = Some(Clients { environment, rows });
    let text = doc::page(&stored, None);
    let three = "2.00 (1.00–3.00)";
    for line in [
        "| rlock-client in each language | first come, first served;".into(),
        format!(
            "| Node: redlock 4.2.0 | 2.00 | {three} | 2.00 | 2.00 | 2.00 | 2.00 | 6.00 | {three} | 25.0 |"
        ),
        format!("| Node: redlock 4.2.0 | 2.00 | {three} | 2.00 | 5.00 | 4.00 | 7 | 2.00 | 2.00 |"),
        "| Node: redlock 4.2.0 | 20.5 | 41.0 | 3 | 103 | 2.50 |".into(),
        "| Go: rueidislock 1.0.79 on rueidis | - | - | - |".into(),
    ] {
        assert!(text.contains(&line), "{line}\n{text}");
    }
}

#[test]
fn the_tables_have_the_cpu_of_server_and_client() {
    let of = |median: f64| Spread { median, p10: 1.0, p90: 9.0 };
    let pairs = Java::ALL.map(|program| redisson::Pairs {
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
    let mut stored = store::load().unwrap();
    let environment = stored.main.environment.clone();
    let fields = stored.main.redisson.take().map_or(Vec::new(), |measured| measured.fields);
    assert!(doc::page(&stored, None).contains(NOTHING));
    stored.main.redisson = Some(Redissons { environment, pairs: pairs.into(), fields });
    let text = doc::page(&stored, None);
    let line =
        "| Redisson 4.7.0 | 2.00 | 3.00 (1.00–9.00) | 4.00 | 5.00 (1.00–9.00) | 7.00 (1.00–9.00) | 8.00 |";
    assert!(text.contains(line), "{line}\n{text}");
}

fn systems(load: systems::Load) -> Systems {
    let (rlock, etcd) = (System::Rlock.name().to_string(), System::Etcd.name().to_string());
    let spread = |median| Spread { median, p10: median, p90: median };
    let hand_off = |system: &str, waiters, us| systems::HandOff {
        system: system.into(),
        waiters,
        rounds: 5,
        us: spread(us),
        to_rlock: spread(us / 100.0),
        server_us: spread(us / 4.0),
    };
    let pair = |system: &str, us| systems::Pair {
        system: system.into(),
        rounds: 20,
        us: spread(us),
        to_rlock: spread(us / 50.0),
        server_us: spread(us / 5.0),
    };
    Systems {
        schema: 1,
        environment: store::load().unwrap().main.environment,
        fsync_us: spread(800.0),
        versions: vec![systems::Version { system: etcd.clone(), server: "etcd 3.7.3".into() }],
        pairs: vec![pair(&rlock, 50.0), pair(&etcd, 2_000.0)],
        renewals: vec![pair(&rlock, 25.0)],
        hand_offs: vec![hand_off(&rlock, 2, 100.0), hand_off(&etcd, 2, 900.0), hand_off(&etcd, 10, 950.0)],
        loads: vec![load],
        recoveries: vec![systems::Recovery { system: etcd, rounds: 5, ms: spread(9_000.0) }],
        restarts: vec![systems::Restart {
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
    let mut stored = store::load().unwrap();
    stored.systems = None;
    assert!(doc::page(&stored, None).contains(NOTHING));
    let load = systems::Load {
        system: System::Dflockd.name().into(),
        connections: 100,
        rounds: 5,
        per_second: Spread::of(vec![80_000.0]),
        to_rlock: Spread::of(vec![1.5]),
    };
    stored.systems = Some(systems(load));
    let text = doc::page(&stored, None);
    for line in [
        "| etcd, 1 node | etcd 3.7.3 | fsync of the node | the session's lease, 10 s |",
        "| etcd, 1 node | 2,000 | 40.0 | 400 | 9,000 |",
        "| rlock | 25.0 | 0.50 | 5.00 |",
        "| Time in µs | 2 waiters | 10 waiters | 100 waiters | 1,000 waiters |\n|---|---|---|---|---|\n",
        "| etcd, 1 node | 900 | 950 | not measured | not measured |",
        "| dflockd | - | 80,000 | - |",
        "| locks of rlock, server with the module | 100,000 | 500 | 1.25 |",
    ] {
        assert!(text.contains(line), "{line}\n{text}");
    }
}
