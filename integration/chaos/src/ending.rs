//! What must be so when everybody has stopped: nobody waits, every lock is free, and copies are the same.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use redis::{Connection, Value};
use rlock_testkit::TestServer;

use crate::clients::desk::Shared;
use crate::clients::look::{entries, number, word};
use crate::clients::scripts::{LEAVE_FAIR, TAKE_FAIR};
use crate::places::{FAIR_TURN_MS, Place};
use crate::wire::{Answer, Wires};

/// Until when all leases have ended, also those of locks whose release a fail-over forgot, with a clock set back.
const FREE: Duration = Duration::from_secs(15);

/// The end of what is not there.
const GONE: i64 = -2;

/// How long an answer may take.
const SOON: Duration = Duration::from_secs(5);

/// Looks at the servers until all is as it must be; what is not is written down.
pub(crate) fn check(shared: &Shared) {
    let deadline = Instant::now() + FREE;
    let mut wires = Wires::default();
    loop {
        let left = leftovers(shared, &mut wires);
        if left.is_empty() {
            break;
        }
        if Instant::now() > deadline {
            for (key, text) in left {
                shared.recorder.violation("end", key, text);
            }
            break;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    crate::hush::check(shared);
    if let Place::Alone(alone) = &shared.place {
        copies(shared, alone);
    }
}

/// What is not as it must be, with the lock that it is about.
fn leftovers(shared: &Shared, wires: &mut Wires) -> Vec<(usize, String)> {
    let mut left = Vec::new();
    for port in shared.place.primaries() {
        for section in ["rlock", "clients"] {
            let info = info(wires, port, section);
            for name in ["rlock_waiters", "rlock_panics", "rlock_replication_failures", "blocked_clients"] {
                if info.get(name).is_some_and(|value| value != "0") {
                    left.push((0, format!("{name} is {} at the end", info[name])));
                }
            }
        }
        for (number, key) in shared.scene.keys.iter().enumerate() {
            // Of a cluster one server has it.
            if let Ok(info) = wires.ask(port, &[&["RLOCK.INFO", &key.name]], SOON) {
                left.extend(left_of(&info).map(|text| (number, format!("{}: {text} at the end", key.name))));
            }
        }
    }
    left
}

/// Who still holds a lock, or waits for it; those of Redisson's who died in its list are passed by the next who asks.
fn left_of(lock: &Value) -> Option<String> {
    let waiters = entries(lock, "queue").iter().filter(|waiter| word(waiter, "via") != "redisson");
    let waiters: Vec<String> = waiters.map(|waiter| word(waiter, "owner")).collect();
    if !waiters.is_empty() {
        return Some(format!("{} wait", waiters.join(", ")));
    }
    let holders: Vec<String> = entries(lock, "holders").iter().map(|holder| word(holder, "owner")).collect();
    let left = number(lock, "lease-ms");
    (word(lock, "kind") != "none").then(|| format!("held by {}, for another {left} ms", holders.join(", ")))
}

fn info(wires: &mut Wires, port: u16, section: &str) -> BTreeMap<String, String> {
    let answer: Answer = wires.ask(port, &[&["INFO", section]], SOON);
    let Ok(Value::BulkString(bytes)) = answer else { return BTreeMap::new() };
    let text = String::from_utf8_lossy(&bytes).into_owned();
    let pairs = text.lines().filter_map(|line| line.split_once(':'));
    pairs.map(|(name, value)| (name.to_owned(), value.trim().to_owned())).collect()
}

/// Every key with its bytes and the end of its lease.
fn contents(server: &TestServer) -> BTreeMap<String, (Vec<u8>, i64)> {
    let client: &mut Connection = &mut server.connect();
    let keys: Vec<String> = redis::cmd("KEYS").arg("*").query(client).unwrap_or_default();
    let mut found = BTreeMap::new();
    for key in keys {
        let bytes: Option<Vec<u8>> = redis::cmd("DUMP").arg(&key).query(client).unwrap_or_default();
        let ends: i64 = redis::cmd("PEXPIRETIME").arg(&key).query(client).unwrap_or_default();
        // One that has ended meanwhile is not there.
        found.extend(bytes.filter(|_| ends != GONE).map(|bytes| (key, (bytes, ends))));
    }
    found
}

/// What is left where some locks are held on purpose, one of them handed over, is on the replica and in the file.
fn copies(shared: &Shared, alone: &crate::places::Alone) {
    alone.attach();
    for name in alone.different_on_replicas() {
        shared.recorder.violation(
            "copy",
            0,
            format!("{name} was not the same on the replica that was attached"),
        );
    }
    let here = alone.with_both(|primary, replica| {
        let client = &mut primary.connect();
        // No subscriber is needed for a waiter that is blocked, but it needs a client of its own.
        let mut waiter = primary.connect();
        for line in [
            "RLOCK.ACQUIRE last:plain alice 100000",
            "RLOCK.ACQUIRE last:fenced alice 100000 FENCED",
            "RLOCK.ACQUIRE last:read alice 100000 READ",
            "RLOCK.ACQUIRE last:read alice 200000 READ",
            "RLOCK.ACQUIRE last:write alice 100000 WRITE FENCED",
        ] {
            say(client, line);
        }
        let waiting = "RLOCK.ACQUIRE last:plain bob 100000 FENCED BLOCK 5000";
        let _ = waiter.send_packed_command(&command(waiting).get_packed_command());
        std::thread::sleep(Duration::from_millis(100));
        say(client, "RLOCK.RELEASE last:plain alice");
        let _ = waiter.recv_response();
        rlock_testkit::wait_for_replicas_in_sync(primary, replica);
        let here = contents(primary);
        let there = contents(replica);
        compare(shared, "on the replica", &here, &there);
        if alone.aof {
            wait_fairly(client);
        }
        here
    });
    if alone.aof {
        alone.kill_and_restart();
        alone.with_primary(|restarted| {
            // Of those in a fair list nobody knows after a restart who lives, and their deadlines are bounded.
            let lasts = |name: &String| !name.contains(FAIR) && !name.starts_with("redisson_lock_timeout:");
            let (mut before, mut after) = (here, contents(restarted));
            before.retain(|name, _| lasts(name));
            after.retain(|name, _| lasts(name));
            compare(shared, "after a restart", &before, &after);
            count_as_gone(shared, restarted);
        });
    }
}

/// A lock for which natives wait when the server is killed, and for how long it is held.
const FAIR: &str = "last:fair";
const HELD: i64 = 100_000;

/// How many do.
const NATIVES: i64 = 4;

/// For how long, beyond the lease, the first of those counts as alive who waited before a restart.
const COUNTS: i64 = 300_000;

/// Natives wait for ever for a fair lock.
fn wait_fairly(client: &mut Connection) {
    say(client, &format!("RLOCK.ACQUIRE {FAIR} alice {HELD}"));
    for number in 0..NATIVES {
        say(client, &format!("RLOCK.ACQUIRE {FAIR} native{number} 60000 FAIR ENQUEUE 0 nobody"));
    }
}

/// What one of Redisson's is told that it may wait: not for as long as each of those who are gone had asked for.
fn count_as_gone(shared: &Shared, restarted: &TestServer) {
    let client = &mut restarted.connect();
    let most = HELD + COUNTS + (NATIVES * FAIR_TURN_MS as i64);
    let deadline = Instant::now() + SOON;
    loop {
        let told = ask_fairly(shared, client);
        match told {
            Some(told) if told <= most => return,
            _ if Instant::now() < deadline => std::thread::sleep(Duration::from_millis(20)),
            told => {
                let text = format!(
                    "after a restart one of Redisson's is told to wait {told:?} ms, and {most} at most"
                );
                return shared.recorder.violation("told", 0, text);
            }
        }
    }
}

/// One of Redisson's asks for the fair lock, and leaves.
fn ask_fairly(shared: &Shared, client: &mut Connection) -> Option<i64> {
    let run = |script: &str, client: &mut Connection| {
        let mut eval = redis::cmd("EVAL");
        eval.arg(script).arg(3).arg(FAIR);
        eval.arg(format!("redisson_lock_queue:{{{FAIR}}}")).arg(format!("redisson_lock_timeout:{{{FAIR}}}"));
        eval.arg(&["30000", "redisson:1", &shared.recorder.wall_ms().to_string(), "300000"]);
        eval.query::<Option<i64>>(client)
    };
    let told = run(TAKE_FAIR, client).ok().flatten();
    let _ = run(LEAVE_FAIR, client);
    told
}

fn command(line: &str) -> redis::Cmd {
    let mut command = redis::Cmd::new();
    for word in line.split(' ') {
        command.arg(word);
    }
    command
}

fn say(client: &mut Connection, line: &str) {
    let _ = command(line).query::<Value>(client);
}

fn compare(
    shared: &Shared,
    place: &str,
    here: &BTreeMap<String, (Vec<u8>, i64)>,
    there: &BTreeMap<String, (Vec<u8>, i64)>,
) {
    let names = here.keys().chain(there.keys().filter(|name| !here.contains_key(*name)));
    let now = shared.recorder.wall_ms();
    for name in names.filter(|name| here.get(*name) != there.get(*name)) {
        let end = |of: &BTreeMap<String, (Vec<u8>, i64)>| of.get(name).map_or(GONE, |(_, end)| *end);
        // The one was looked at before the other, and it has ended in between: a lease key whose lock was deleted.
        let ended = |of| (0..=now).contains(&end(of));
        if (end(here) == GONE && ended(there)) || (end(there) == GONE && ended(here)) {
            continue;
        }
        let text = format!("{name} differs {place}: it ends at {}, and there at {}", end(here), end(there));
        shared.recorder.violation("copy", 0, text);
    }
}
