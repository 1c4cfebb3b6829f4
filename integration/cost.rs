//! What a lock without waiters costs, in instructions of the server. It must not grow as the family of locks does: a plain
//! lock does not pay for readers, writers and queues of other locks.
//!
//! Times say little on a machine that is shared; instructions are the same in each run, but for one in a thousand.

use std::fs;

use redis::Value;
use rlock_testkit::valgrind;
use rlock_testkit::{ServerBuilder, ServerName, TestServer, module_path};

/// Counts what is done for clients' commands, and so neither the server's start nor its beats.
const OPTIONS: &str = "--tool=callgrind --toggle-collect=processInputBuffer --callgrind-out-file=counted";

/// How many pairs of commands are counted: so many that what else is asked of the server does not count.
const PAIRS: usize = 5_000;

/// How many are in flight.
const TOGETHER: usize = 50;

/// A way to take a lock and to give it back.
struct Way {
    what: &'static str,
    conf: &'static [(&'static str, &'static str)],
    /// The words that each ends with.
    words: [&'static str; 2],
    /// Commands that precede the measurement.
    beside: &'static [&'static str],
    /// The cost as a ratio to `SET NX PX` and `DEL` on Redis 7.0.15, of commit 15a54c0. `RLOCK_MODULE=… make cost` measures any
    /// build.
    before: f64,
}

const PLAIN: Way = Way { what: "acquire + release", conf: &[], words: ["", ""], beside: &[], before: 1.659 };

const WAYS: [Way; 5] = [
    PLAIN,
    Way { what: "with HOLDS", words: [" HOLDS 1", " HOLDS 0"], before: 1.831, ..PLAIN },
    Way {
        what: "with an AOF",
        conf: &[("appendonly", "yes"), ("appendfsync", "no")],
        before: 2.042,
        ..PLAIN
    },
    Way {
        what: "a waiter on another lock",
        beside: &[
            "RLOCK.ACQUIRE lock:other bob 3600000",
            "RLOCK.ACQUIRE lock:other carol 3600000 ENQUEUE 0 news",
        ],
        before: 1.849,
        ..PLAIN
    },
    Way {
        what: "a reader on another lock",
        beside: &["RLOCK.ACQUIRE lock:other bob 3600000 READ"],
        before: 1.827,
        ..PLAIN
    },
];

/// How much more it may be.
const LIMIT: f64 = 1.03;

/// On how many servers they are counted. Each hashes the names of its commands by a seed of its own, by which some find
/// one later than others do: the least counts.
const SERVERS: usize = 4;

/// Instructions of a server for two commands, one after the other, after others that are not counted.
#[track_caller]
fn instructions(builder: impl Fn() -> ServerBuilder, beside: &[&str], pair: [&str; 2]) -> f64 {
    (0..SERVERS).map(|_| count(builder(), beside, pair)).fold(f64::INFINITY, f64::min)
}

#[track_caller]
fn count(builder: ServerBuilder, beside: &[&str], pair: [&str; 2]) -> f64 {
    let server = valgrind::start(builder, OPTIONS);
    let mut client = server.connect();
    for line in beside {
        let answer: Value =
            redis::Cmd::new().arg(line.split(' ').collect::<Vec<_>>()).query(&mut client).unwrap();
        assert!(answer != Value::Nil, "{line}");
    }
    for _ in 0..PAIRS / TOGETHER {
        let mut pipe = redis::pipe();
        for line in (0..TOGETHER).flat_map(|_| pair) {
            let mut words = line.split(' ');
            let command = pipe.cmd(words.next().unwrap());
            for word in words {
                command.arg(word);
            }
        }
        let answers: Vec<Value> = pipe.query(&mut client).unwrap();
        for answer in answers.chunks(2) {
            assert!(answer[0] != Value::Nil && answer[1] == Value::Int(1), "{pair:?}: {answer:?}");
        }
    }
    drop(client);
    let counted = fs::read_to_string(server.shutdown().data.path().join("counted")).unwrap();
    let total = counted.lines().find_map(|line| line.strip_prefix("totals: ")).expect("callgrind's total");
    total.parse::<f64>().unwrap() / PAIRS as f64
}

#[test]
#[ignore = "needs valgrind: make cost"]
fn a_plain_lock_costs_what_it_did_before_the_others_came() {
    let version = TestServer::start().version();
    assert!(
        (version.name, version.major, version.minor) == (ServerName::Redis, 7, 0),
        "what it was is known for Redis 7.0, and not for {version:?}: set RLOCK_TEST_SERVER to one"
    );
    let owner = "8a7b6c5d-4e3f-2a1b-9c8d-7e6f5a4b3c2d:1";
    let set = format!("SET lock:one {owner} NX PX 30000");
    let mut table = format!(
        "{:24} {:>12} {:>9} {:>6} {:>6} {:>6}\n",
        "way", "instructions", "SET + DEL", "stored", "now", "ratio"
    );
    let mut dearer = Vec::new();
    for Way { what, conf, words: [taking, giving], beside, before } in WAYS {
        let builder =
            || conf.iter().fold(TestServer::builder(), |builder, (name, value)| builder.conf(name, value));
        let acquire = format!("RLOCK.ACQUIRE lock:one {owner} 30000{taking}");
        let release = format!("RLOCK.RELEASE lock:one {owner}{giving}");
        let lock = instructions(|| builder().module(module_path()), beside, [&acquire, &release]);
        let key = instructions(|| builder().without_module(), &[], [&set, "DEL lock:one"]);
        let (ratio, more) = (lock / key, lock / key / before);
        table += &format!("{what:24} {lock:12.0} {key:9.0} {before:6.3} {ratio:6.3} {more:6.3}\n");
        if more.is_nan() || more > LIMIT {
            dearer.push(format!("{what}: {more:.3}"));
        }
    }
    println!("\n{table}");
    assert!(dearer.is_empty(), "a plain lock costs more than {LIMIT} of what it did: {dearer:?}");
}

/// How much more a permit may cost among a hundred thousand than among a thousand.
const PERMITS_LIMIT: f64 = 1.5;

/// Instructions to acquire and release a permit while so many others are out.
#[track_caller]
fn permit_among(others: usize) -> f64 {
    let (owner, most) = ("8a7b6c5d-4e3f-2a1b-9c8d-7e6f5a4b3c2d:1", others + 1);
    // Written by hand: to acquire each of them would be counted.
    let ends = 8_000_000_000_000_usize;
    let member = |n: usize| format!("{} owner:{n}", ends + n);
    let members: Vec<usize> = (0..others).collect();
    let lines = members.chunks(1_000).map(|chunk| {
        format!("ZADD slots {}", chunk.iter().map(|n| member(*n)).collect::<Vec<_>>().join(" "))
    });
    let lines: Vec<String> = lines.chain([format!("PEXPIREAT slots {}", ends + others - 1)]).collect();
    let beside: Vec<&str> = lines.iter().map(String::as_str).collect();
    let acquire = format!("RLOCK.ACQUIRE slots {owner} 30000 PERMITS {most}");
    let release = format!("RLOCK.RELEASE slots {owner}");
    let with = count(TestServer::builder().module(module_path()), &beside, [&acquire, &release]);
    // The other commands are counted too: without the pairs they are all.
    let without = count(TestServer::builder().module(module_path()), &beside, ["ECHO 1", "EXISTS slots"]);
    let echo =
        count(TestServer::builder().module(module_path()), &["SET slots 1"], ["ECHO 1", "EXISTS slots"]);
    with - without + echo
}

#[test]
#[ignore = "needs valgrind: make cost"]
fn a_permit_costs_little_more_among_a_hundred_thousand() {
    let [few, more, many] = [100, 1_000, 100_000].map(permit_among);
    println!(
        "\nacquire + release of a permit: {few:.0} among 100, {more:.0} among 1,000, {many:.0} among 100,000"
    );
    assert!(many <= more * PERMITS_LIMIT, "{many:.0} to {more:.0}");
}
