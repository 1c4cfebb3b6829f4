//! What a lock without waiters costs, in instructions of the server. It must not grow as the family of locks does: a plain
//! lock does not pay for readers, writers and queues of other locks.
//!
//! Times say little on a machine that is shared; instructions are the same in each run, but for one in a thousand.
//! `make cost STORE=1` stores them for docs/BENCHMARKS.md, on any server.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::Command;

use redis::Value;
use rlock_testkit::valgrind;
use rlock_testkit::{ServerBuilder, ServerName, TestServer, module_path};

/// Counts the work for clients' commands, without the server's start and its beats.
const OPTIONS: &str =
    "--tool=callgrind --trace-children=yes --toggle-collect=processInputBuffer --callgrind-out-file=counted";

/// The number of pairs of commands counted: the server's other requests do not matter among them.
const PAIRS: usize = 5_000;

/// The number of commands in flight.
const TOGETHER: usize = 50;

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
    /// The cost as a ratio to `SET NX PX` and `DEL` on Redis 7.0.15, of commit 15a54c0. `RLOCK_MODULE=… make cost` measures any
    /// build.
    before: f64,
}

const PLAIN: Way = Way {
    name: "plain",
    what: "acquire + release",
    conf: &[],
    replica: false,
    words: ["", ""],
    beside: &[],
    before: 1.659,
};

const AOF: &[(&str, &str)] =
    &[("appendonly", "yes"), ("appendfsync", "no"), ("repl-diskless-sync-delay", "0")];

const WAYS: [Way; 6] = [
    PLAIN,
    Way { name: "holds", what: "with HOLDS", words: [" HOLDS 1", " HOLDS 0"], before: 1.831, ..PLAIN },
    Way { name: "aof", what: "with an AOF", conf: AOF, before: 2.042, ..PLAIN },
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
        before: 1.849,
        ..PLAIN
    },
    Way {
        name: "reader",
        what: "a reader on another lock",
        beside: &["RLOCK.ACQUIRE lock:other bob 3600000 READ"],
        before: 1.827,
        ..PLAIN
    },
];

/// The most that a cost may grow, as a factor.
const LIMIT: f64 = 1.03;

/// On how many servers they are counted. Each hashes the names of its commands by a seed of its own, by which some find
/// one later than others do: the least counts.
const SERVERS: usize = 4;

/// Instructions for two commands.
#[derive(Clone, Copy)]
struct Counted {
    all: f64,
    /// Those of the module's own code.
    own: f64,
    /// Those of the calls by which it gives its effects to the server, for the AOF and the replicas.
    effects: f64,
}

/// A server, and what was sent to it before the pairs.
struct Ground<'a> {
    builder: &'a dyn Fn() -> ServerBuilder,
    replica: bool,
    beside: &'a [&'a str],
}

impl Ground<'_> {
    /// Of two commands, one after the other: the least of several servers.
    #[track_caller]
    fn instructions(&self, pair: [&str; 2]) -> Counted {
        let counted = (0..SERVERS).map(|_| self.count(pair));
        counted.min_by(|a, b| a.all.total_cmp(&b.all)).expect("several servers")
    }

    #[track_caller]
    fn count(&self, pair: [&str; 2]) -> Counted {
        let server = valgrind::start((self.builder)(), OPTIONS);
        let replica = self.replica.then(|| TestServer::builder().without_module().start());
        if let Some(replica) = &replica {
            replica.replicate_from(&server);
        }
        let mut client = server.connect();
        for line in self.beside {
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
        let text = fs::read_to_string(server.shutdown().data.path().join("counted")).unwrap();
        let total = text.lines().find_map(|line| line.strip_prefix("totals: ")).expect("callgrind's total");
        let per_pair = |count: f64| count / PAIRS as f64;
        let (own, effects) = of_module(&text);
        Counted { all: per_pair(total.parse().unwrap()), own: per_pair(own), effects: per_pair(effects) }
    }
}

/// The instructions of the module's code, and those of its effects, in what callgrind wrote.
fn of_module(text: &str) -> (f64, f64) {
    // Files and functions have numbers of their own; a name stands where its number is first used.
    let (mut names, mut callees): (HashMap<&str, bool>, HashMap<&str, bool>) = Default::default();
    let (mut is_module, mut is_call, mut is_effect) = (false, false, false);
    let (mut own, mut effects) = (0.0, 0.0);
    for line in text.lines() {
        if let Some(object) = line.strip_prefix("ob=") {
            let (id, name) = object.split_once(' ').unwrap_or((object, ""));
            let named = names.entry(id).or_default();
            *named |= name.contains("rlock");
            is_module = *named;
        } else if line.starts_with("calls=") {
            // The next line has the cost of the called function.
            is_call = true;
        } else if line.starts_with(|first: char| first.is_ascii_digit() || "+-*".contains(first)) {
            let cost = line.split(' ').nth(1).and_then(|cost| cost.parse::<f64>().ok());
            own += cost.filter(|_| is_module && !is_call).unwrap_or(0.0);
            effects += cost.filter(|_| is_call && is_effect).unwrap_or(0.0);
            is_call = false;
        } else if let Some((id, name)) = line.strip_prefix("cob=").and_then(|object| object.split_once(' ')) {
            names.insert(id, name.contains("rlock"));
        } else if let Some(function) = line.strip_prefix("cfn=").or(line.strip_prefix("fn=")) {
            let (id, name) = function.split_once(' ').unwrap_or((function, ""));
            let named = callees.entry(id).or_default();
            *named |= name.ends_with("M_Replicate");
            is_effect = *named;
        }
    }
    (own, effects)
}

#[test]
#[ignore = "needs valgrind: make cost"]
fn a_plain_lock_costs_what_it_did_before_the_others_came() {
    let version = TestServer::start().version();
    let known = (version.name, version.major, version.minor) == (ServerName::Redis, 7, 0);
    let stores = std::env::var_os("RLOCK_COST_STORE").is_some_and(|value| !value.is_empty());
    assert!(
        known || stores,
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
    if stores {
        store(&stored);
    }
    assert!(dearer.is_empty(), "a plain lock costs more than {LIMIT} of what it did: {dearer:?}");
}

/// Writes docs/bench/instructions/<server>.json: the ways, two commands that do next to nothing, and permits.
fn store(ways: &[String]) {
    let version = TestServer::builder().without_module().start().version();
    let server = format!("{:?} {}.{}.{}", version.name, version.major, version.minor, version.patch);
    let builder = || TestServer::builder().module(module_path());
    let ground = Ground { builder: &builder, replica: false, beside: &["SET slots 1"] };
    let two = ground.instructions(["ECHO 1", "EXISTS slots"]).all;
    let mut permits = String::new();
    for others in PERMITS {
        let comma = if permits.is_empty() { "" } else { "," };
        let _ = write!(permits, "{comma} {{ \"others\": {others}, \"rlock\": {:.0} }}", permit_among(others));
    }
    let output = |program: &str, arguments: &[&str]| {
        let output = Command::new(program).args(arguments).output().unwrap();
        String::from_utf8_lossy(&output.stdout).trim().to_string()
    };
    let text = format!(
        "{{\n  \"server\": \"{server}\",\n  \"commit\": \"{}\",\n  \"date\": \"{}\",\n  \"in_flight\": {TOGETHER},\n  \
         \"ways\": [\n{}\n  ],\n  \"two_commands\": {two:.0},\n  \"permits\": [{permits} ]\n}}\n",
        output("git", &["rev-parse", "--short=12", "HEAD"]),
        output("date", &["-u", "+%Y-%m-%d"]),
        ways.join(",\n"),
    );
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/bench/instructions");
    fs::create_dir_all(&folder).unwrap();
    let path = folder.join(format!("{}.json", server.to_lowercase().replace(' ', "-")));
    fs::write(&path, text).unwrap();
    println!("stored in {}", path.display());
}

/// How much more a permit may cost among a hundred thousand than among a thousand.
const PERMITS_LIMIT: f64 = 1.5;

/// The numbers of other permits that are held while one is measured.
const PERMITS: [usize; 3] = [100, 1_000, 100_000];

/// Instructions to acquire and release a permit while `others` other permits are held.
#[track_caller]
fn permit_among(others: usize) -> f64 {
    let (owner, most) = ("8a7b6c5d-4e3f-2a1b-9c8d-7e6f5a4b3c2d:1", others + 1);
    // Written by hand: acquiring each of them would be counted.
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
    let builder = || TestServer::builder().module(module_path());
    let among = |beside: &[&str], pair| Ground { builder: &builder, replica: false, beside }.count(pair).all;
    let with = among(&beside, [&acquire, &release]);
    // The other commands are counted too: measured alone, without the pairs.
    let without = among(&beside, ["ECHO 1", "EXISTS slots"]);
    let echo = among(&["SET slots 1"], ["ECHO 1", "EXISTS slots"]);
    with - without + echo
}

#[test]
#[ignore = "needs valgrind: make cost"]
fn a_permit_costs_little_more_among_a_hundred_thousand() {
    let [few, more, many] = PERMITS.map(permit_among);
    println!(
        "\nacquire + release of a permit: {few:.0} among 100, {more:.0} among 1,000, {many:.0} among 100,000"
    );
    assert!(many <= more * PERMITS_LIMIT, "{many:.0} to {more:.0}");
}
