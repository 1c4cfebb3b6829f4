//! The limit: the cost of the server's own functions that no module can avoid, and how far rlock is from it.
//!
//! The same clients send the same commands to rlock and to a module that decides nothing (tests/fixtures/bare.rs). Without that
//! module's own code, its cost is the limit.

use std::path::Path;

use rlock_testkit::{TestServer, bare_module_path, module_path};

use crate::ground::{Ground, TOGETHER};
use crate::hand_offs::lap;
use crate::laps::{WAITERS, Way};
use crate::profile::Profile;
use crate::store;

/// The folder of the stored figures.
const FOLDER: &str = "limits";

const OWNER: &str = "8a7b6c5d-4e3f-2a1b-9c8d-7e6f5a4b3c2d:1";

/// What is counted, by its name in the stored figures.
const WAYS: [&str; 5] = ["pair", "renewal", "block", "enqueue-unconfirmed", "enqueue"];

/// The cost of one of them by this module.
#[track_caller]
fn cost(way: &str, module: &Path) -> Profile {
    let acquire = format!("RLOCK.ACQUIRE lock:one {OWNER} 30000");
    let builder = || TestServer::builder().module(module);
    let pair =
        |beside: &[&str], pair| Ground { builder: &builder, replica: false, beside }.instructions(pair);
    match way {
        "pair" => pair(&[], [&acquire, &format!("RLOCK.RELEASE lock:one {OWNER}")]),
        "renewal" => {
            // Two leases: rlock writes nothing where the end stays the same, as it does within a millisecond.
            let renew = |lease_ms: u64| format!("RLOCK.RENEW lock:one {OWNER} {lease_ms}");
            pair(&[&acquire], [&renew(30_000), &renew(40_000)]).per(2)
        }
        "block" => lap(Way::Block, module),
        "enqueue-unconfirmed" => lap(Way::Unconfirmed, module),
        _ => lap(Way::Enqueue, module),
    }
}

#[test]
#[ignore = "needs valgrind: make cost"]
fn no_module_costs_less_than_the_limit() {
    println!("\n{:20} {:>8} {:>8} {:>8} {:>6}", "way", "limit", "rlock", "own code", "ratio");
    let mut lines = Vec::new();
    for way in WAYS {
        let (bare, rlock) = (cost(way, bare_module_path()), cost(way, module_path()));
        let limit = bare.all - bare.own;
        let Profile { all, own, .. } = rlock;
        println!("{way:20} {limit:8.0} {all:8.0} {own:8.0} {:6.2}", all / limit);
        assert!(bare.own > 0.0 && limit < all - own, "{way}: rlock calls less than the limit: {limit:.0}");
        lines.push(format!(
            "    {{ \"way\": \"{way}\", \"limit\": {limit:.0}, \"rlock\": {all:.0}, \"own\": {own:.0} }}"
        ));
    }
    if store::is_wanted() {
        let ways = lines.join(",\n");
        let counted =
            format!("  \"in_flight\": {TOGETHER},\n  \"waiters\": {WAITERS},\n  \"ways\": [\n{ways}\n  ]");
        store::write(FOLDER, &counted);
    }
}
