//! A hand-off, beside RPUSH to a client in BLPOP. Their ratio is the same on every machine, and must not grow.

use std::fs;
use std::path::Path;
use std::thread;
use std::time::Duration;

use rlock_testkit::{TestServer, module_path};
use serde_json::Value;

use crate::laps::{Clients, WAITERS, Way};
use crate::profile::{self, FILE, Profile};
use crate::store;

/// Counts all work but the server's beats, whose number depends on the time that the laps take. ROLE ends a file and begins the
/// next: no other command here calls its function.
pub(crate) const OPTIONS: &str =
    "--toggle-collect=serverCron --collect-atstart=yes --dump-before=roleCommand";

/// After this time, the module knows whether its effects have readers. Until it knows, it sends them.
pub(crate) const WARM_UP: Duration = Duration::from_secs(2);

/// Laps that precede those counted: all buffers and tables reach their size.
const FIRST_LAPS: usize = 50;

/// The laps counted.
pub(crate) const LAPS: usize = 500;

/// On how many servers they are counted: the median is the cost.
const SERVERS: usize = 5;

/// The most that a ratio may grow, as a factor. Six counts of each on each of three servers, on a machine with other work,
/// differed by 0.3 to 1.2 percent from the least to the most.
const LIMIT: f64 = 1.02;

/// The folder of the stored figures.
const FOLDER: &str = "hand-offs";

/// The ways that are compared with BLPOP, and their names in the stored figures.
const WAYS: [(Way, &str, &str); 3] = [
    (Way::Block, "block", "BLOCK"),
    (Way::Enqueue, "enqueue", "ENQUEUE, confirmed by RENEW"),
    (Way::Unconfirmed, "enqueue-unconfirmed", "ENQUEUE without the RENEW"),
];

/// The cost of one lap by this module, on the server of several whose figure is the median.
#[track_caller]
pub(crate) fn lap(way: Way, module: &Path) -> Profile {
    let start = |_| {
        let builder = TestServer::builder().conf("hz", 1);
        let builder = if way == Way::Pop { builder.without_module() } else { builder.module(module) };
        profile::start(builder, OPTIONS)
    };
    let servers: Vec<TestServer> = (0..SERVERS).map(start).collect();
    thread::sleep(WARM_UP);
    let mut laps: Vec<Profile> = servers.into_iter().map(|server| lap_on(server, way)).collect();
    laps.sort_by(|a, b| a.all.total_cmp(&b.all));
    laps[SERVERS / 2]
}

#[track_caller]
fn lap_on(server: TestServer, way: Way) -> Profile {
    let lap = Profile::of(&counted(server, way, WAITERS)).per(LAPS);
    assert!(lap.effects == 0.0, "{way:?}: the module still sends effects");
    lap
}

/// Callgrind's output for the counted laps.
#[track_caller]
pub(crate) fn counted(server: TestServer, way: Way, waiters: usize) -> String {
    let mut control = server.connect();
    let mut mark = || redis::cmd("ROLE").query::<redis::Value>(&mut control).unwrap();
    let mut clients = Clients::start(way, waiters, &server);
    (0..FIRST_LAPS).for_each(|_| clients.lap());
    mark();
    (0..LAPS).for_each(|_| clients.lap());
    mark();
    // The first file ends where the laps begin.
    let file = format!("{FILE}.2");
    fs::read_to_string(server.shutdown().data.path().join(file)).unwrap()
}

#[test]
#[ignore = "needs valgrind: make cost"]
fn a_hand_off_costs_what_is_stored() {
    // Before it takes minutes to count.
    let stored = (!store::is_wanted()).then(|| store::read(FOLDER));
    let pop = lap(Way::Pop, module_path()).all;
    println!("\nRPUSH + BLPOP: {pop:.0} instructions");
    println!("{:28} {:>12} {:>6} {:>6} {:>9}", "way", "instructions", "stored", "ratio", "key opens");
    let (mut dearer, mut lines) = (Vec::new(), Vec::new());
    for (way, name, what) in WAYS {
        let Profile { all, key_opens, .. } = lap(way, module_path());
        // A few checks by a timer open the key too.
        let (ratio, key_opens) = (all / pop, key_opens.round());
        let [before, opens_before] = stored.as_ref().map_or([f64::NAN; 2], |stored| figures(stored, name));
        println!("{what:28} {all:12.0} {before:6.3} {ratio:6.3} {key_opens:9}");
        if ratio > before * LIMIT || key_opens > opens_before {
            dearer.push(format!(
                "{what}: {ratio:.3} after {before}, key opens: {key_opens} after {opens_before}"
            ));
        }
        lines.push(format!(
            "    {{ \"way\": \"{name}\", \"ratio\": {ratio:.3}, \"instructions\": {all:.0}, \"key_opens\": {key_opens} }}"
        ));
    }
    if store::is_wanted() {
        let ways = lines.join(",\n");
        let counted =
            format!("  \"waiters\": {WAITERS},\n  \"blpop\": {pop:.0},\n  \"ways\": [\n{ways}\n  ]");
        store::write(FOLDER, &counted);
    }
    assert!(dearer.is_empty(), "a hand-off costs more than {LIMIT} of what is stored: {dearer:?}");
}

/// The stored ratio and key opens of a way.
#[track_caller]
fn figures(stored: &Value, name: &str) -> [f64; 2] {
    let mut ways = stored["ways"].as_array().into_iter().flatten();
    let way = ways.find(|way| way["way"] == name).unwrap_or_else(|| panic!("{name} is not stored"));
    ["ratio", "key_opens"].map(|figure| way[figure].as_f64().expect("a number"))
}
