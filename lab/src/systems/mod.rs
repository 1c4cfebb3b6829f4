//! Other systems that lock, beside rlock: etcd, ZooKeeper, PostgreSQL, dflockd, and plain SET with a compare-and-delete.
//!
//! Each has its own recipe and its usual client, and promises other things: the figures stand beside the promises. Nothing is bound
//! to a core: some systems have many processes.

mod cpu;
mod daemon;
mod host;
mod install;
mod measure;
mod recovery;
mod restart;
pub(crate) mod results;
mod system;
mod worker;

use std::fs;
use std::io::Write;
use std::path::PathBuf;
use std::time::Instant;

use minijinja::context;
use minijinja::value::Serde;
use rlock_testkit::DataDir;

use crate::environment::{self, root};
use crate::progress::Progress;
use crate::report::template;
use crate::results::Environment;
use crate::rng::Rng;
use crate::spread::Spread;
use crate::store;
pub(crate) use install::redis_server;
use measure::Lane;
pub(crate) use measure::{CONNECTIONS, SIZES};
pub(crate) use restart::What;
pub(crate) use results::Systems;
use results::{SCHEMA, Version};
use system::Package;
pub(crate) use system::System;
pub(crate) use worker::{clock, worker};

/// The name of the stored results.
pub(crate) const FILE: &str = "systems.json";

/// How often each is measured.
struct Rounds {
    pairs: usize,
    hand_offs: usize,
    /// With 1,000 waiters, since they take long to gather.
    crowds: usize,
    loads: usize,
    recoveries: usize,
    restarts: usize,
}

const FULL: Rounds = Rounds { pairs: 20, hand_offs: 5, crowds: 3, loads: 5, recoveries: 5, restarts: 5 };
const QUICK: Rounds = Rounds { pairs: 2, hand_offs: 1, crowds: 0, loads: 1, recoveries: 1, restarts: 1 };

/// Measures all, shows the tables, and stores a full run of all.
pub(crate) fn run(seed: u64, quick: bool) -> Result<(), String> {
    let progress = Progress::start();
    let systems = install_all(&progress);
    let missing = System::ALL.iter().any(|one| !one.is_optional() && !systems.contains(one));
    if systems.first() != Some(&System::Rlock) {
        return Err(
            "systems: integration/servers.sh could not unpack Redis and Valkey: run it to see why".into()
        );
    }
    let results = measure_all(&systems, if quick { &QUICK } else { &FULL }, seed, &progress);
    progress.end();
    print!("{}", template::shown("tables", "systems(it)", context! { it => Serde(&results) }));
    if quick || missing {
        println!("\nnot stored: only a full run of all systems is");
        return Ok(());
    }
    store::keep(&path(), &results)?;
    store::render()?;
    println!("\nstored in {}, and docs/BENCHMARKS.md remade", path().display());
    Ok(())
}

/// Installs what they need; the systems that this machine can have.
fn install_all(progress: &Progress) -> Vec<System> {
    let mut packages = Vec::new();
    for package in Package::ALL {
        progress.show(&format!("systems: installing {}, if it is missing", package.name()));
        match install::install(package) {
            Ok(()) => packages.push(package),
            Err(why) => eprintln!("\n{} is left out, since it could not be installed: {why}", package.name()),
        }
    }
    System::ALL.into_iter().filter(|system| packages.contains(&system.package())).collect()
}

fn measure_all(systems: &[System], rounds: &Rounds, seed: u64, progress: &Progress) -> Systems {
    let (begin, mut rng) = (Instant::now(), Rng::new(seed));
    let mut environment = Environment::now(seed);
    environment.server = "as the first table says".into();
    let fsync_us = fsync();
    let start = |system: &System| {
        progress.show(&format!("systems: starting {}", system.name()));
        Lane::start(*system)
    };
    let mut lanes: Vec<Lane> = systems.iter().map(start).collect();
    let version =
        |lane: &Lane| Version { system: lane.system.name().into(), server: lane.host.version.clone() };
    let versions = lanes.iter().map(version).collect();
    let pairs: (&str, fn(System) -> bool) = ("pairs", |system| !system.only_recovers());
    let pairs = measure::repeat(pairs, &mut lanes, rounds.pairs, &mut rng, progress);
    let renewals =
        measure::repeat(("renewals", System::renews), &mut lanes, rounds.pairs, &mut rng, progress);
    let hand_offs = measure::hand_offs(&mut lanes, rounds, &mut rng, progress);
    let loads = measure::loads(&mut lanes, rounds.loads, &mut rng, progress);
    let recoveries = recovery::run(&lanes, rounds.recoveries, &mut rng, progress);
    drop(lanes);
    let has_dflockd = systems.contains(&System::Dflockd);
    let restarts = restart::run(rounds.restarts, has_dflockd, &mut rng, progress);
    environment.load[1] = environment::load();
    environment.seconds = begin.elapsed().as_secs();
    Systems {
        schema: SCHEMA,
        environment,
        fsync_us,
        versions,
        pairs,
        renewals,
        hand_offs,
        loads,
        recoveries,
        restarts,
    }
}

/// The time of writing a block to a new file, where the servers have theirs, until it is on the disk.
fn fsync() -> Spread {
    let data = DataDir::temporary();
    let mut file = fs::File::create(data.path().join("block")).expect("a file");
    let mut once = || {
        let begin = Instant::now();
        file.write_all(&[1; 512]).and_then(|()| file.sync_data()).expect("a disk that writes");
        begin.elapsed().as_secs_f64() * 1e6
    };
    Spread::of((0..100).map(|_| once()).collect())
}

fn path() -> PathBuf {
    root().join("docs/bench").join(FILE)
}

/// Reads the stored results; nothing where there is no file.
pub(crate) fn load() -> Result<Option<Systems>, String> {
    if !path().exists() {
        return Ok(None);
    }
    store::kept(&path(), "make bench ONLY=systems", SCHEMA..=SCHEMA, |results: &Systems| results.schema)
        .map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An incomplete run is not stored.
    #[test]
    fn the_stored_results_are_whole() {
        let Some(stored) = load().unwrap() else { return };
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
