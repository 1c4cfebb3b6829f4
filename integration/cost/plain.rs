//! A lock without waiters. Its cost must not grow as the family of locks does: a plain lock does not pay for readers, writers
//! and queues of other locks.

use rlock_testkit::{ServerBuilder, ServerName, TestServer, module_path};

use crate::ground::{Ground, TOGETHER};
use crate::many_permits::{PERMITS, permit_among};
use crate::store;

/// A way to acquire a lock and to release it.
struct Way {
    /// Its name in the stored figures.
    name: &'static str,
    what: &'static str,
    conf: &'static [(&'static str, &'static str)],
    /// Whether the server has a replica.
    replica: bool,
    /// The words that end each of the two commands.
    words: [&'static str; 2],
    /// Commands that precede the measurement.
    beside: &'static [&'static str],
    /// The cost as a ratio to `SET NX PX` and `DEL` on Redis 7.0.15, of 2026-11-28. `RLOCK_MODULE=… make cost` measures any build.
    before: f64,
}

const PLAIN: Way = Way {
    name: "plain",
    what: "acquire + release",
    conf: &[],
    replica: false,
    words: ["", ""],
    beside: &[],
    before: 1.605,
};

const AOF: &[(&str, &str)] =
    &[("appendonly", "yes"), ("appendfsync", "no"), ("repl-diskless-sync-delay", "0")];

const WAYS: [Way; 6] = [
    PLAIN,
    Way { name: "holds", what: "with HOLDS", words: [" HOLDS 1", " HOLDS 0"], before: 1.775, ..PLAIN },
    Way { name: "aof", what: "with an AOF", conf: AOF, before: 2.011, ..PLAIN },
    Way {
        name: "aof-replica",
        what: "with an AOF and a replica",
        conf: AOF,
        replica: true,
        before: 2.33,
        ..PLAIN
    },
    Way {
        name: "waiter",
        what: "a waiter on another lock",
        beside: &[
            "RLOCK.ACQUIRE lock:other bob 3600000",
            "RLOCK.ACQUIRE lock:other carol 3600000 ENQUEUE 0 news",
        ],
        before: 1.807,
        ..PLAIN
    },
    Way {
        name: "reader",
        what: "a reader on another lock",
        beside: &["RLOCK.ACQUIRE lock:other bob 3600000 READ"],
        before: 1.778,
        ..PLAIN
    },
];

/// The most that a cost may grow, as a factor.
const LIMIT: f64 = 1.03;

#[test]
#[ignore = "needs valgrind: make cost"]
fn a_plain_lock_costs_what_it_did_before_the_others_came() {
    let version = TestServer::start().version();
    let known = (version.name, version.major, version.minor) == (ServerName::Redis, 7, 0);
    assert!(
        known || store::is_wanted(),
        "the earlier cost is known for Redis 7.0, and not for {version:?}: set RLOCK_TEST_SERVER to one, or STORE=1"
    );
    let owner = "8a7b6c5d-4e3f-2a1b-9c8d-7e6f5a4b3c2d:1";
    let set = format!("SET lock:one {owner} NX PX 30000");
    let mut table = format!(
        "{:26} {:>12} {:>9} {:>6} {:>6} {:>6}\n",
        "way", "instructions", "SET + DEL", "stored", "now", "ratio"
    );
    let (mut dearer, mut stored) = (Vec::new(), Vec::new());
    for Way { name, what, conf, replica, words: [taking, giving], beside, before } in WAYS {
        let plain =
            || conf.iter().fold(TestServer::builder(), |builder, (name, value)| builder.conf(name, value));
        let [module, without] = [&|| plain().module(module_path()), &|| plain().without_module()]
            as [&dyn Fn() -> ServerBuilder; 2];
        let acquire = format!("RLOCK.ACQUIRE lock:one {owner} 30000{taking}");
        let release = format!("RLOCK.RELEASE lock:one {owner}{giving}");
        let lock = Ground { builder: module, replica, beside }.instructions([&acquire, &release]);
        let key = Ground { builder: without, replica, beside: &[] }.instructions([&set, "DEL lock:one"]);
        let (ratio, more) = (lock.all / key.all, lock.all / key.all / before);
        table +=
            &format!("{what:26} {:12.0} {:9.0} {before:6.3} {ratio:6.3} {more:6.3}\n", lock.all, key.all);
        if known && (more.is_nan() || more > LIMIT) {
            dearer.push(format!("{what}: {more:.3}"));
        }
        stored.push(format!(
            "    {{ \"way\": \"{name}\", \"rlock\": {:.0}, \"own\": {:.0}, \"effects\": {:.0}, \"set_del\": {:.0} }}",
            lock.all, lock.own, lock.effects, key.all
        ));
    }
    println!("\n{table}");
    if store::is_wanted() {
        store::write("instructions", &lines(&stored));
    }
    assert!(dearer.is_empty(), "a plain lock costs more than {LIMIT} of what it did: {dearer:?}");
}

/// The ways, two commands that do next to nothing, and permits.
fn lines(ways: &[String]) -> String {
    let builder = || TestServer::builder().module(module_path());
    let ground = Ground { builder: &builder, replica: false, beside: &["SET slots 1"] };
    let two = ground.instructions(["ECHO 1", "EXISTS slots"]).all;
    let permits = PERMITS
        .map(|others| format!("{{ \"others\": {others}, \"rlock\": {:.0} }}", permit_among(others)))
        .join(", ");
    format!(
        "  \"in_flight\": {TOGETHER},\n  \"ways\": [\n{}\n  ],\n  \"two_commands\": {two:.0},\n  \"permits\": [ {permits} ]",
        ways.join(",\n"),
    )
}
