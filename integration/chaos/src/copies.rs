//! Locks that are held on purpose at the end are the same on the replica, and after a restart from the file.

use std::collections::BTreeMap;
use std::time::Duration;

use redis::{Connection, Value};
use rlock_testkit::redisson::{FAIR_GIVES_UP, FAIR_TAKES};
use rlock_testkit::{TestServer, poll};

use crate::clients::desk::Shared;
use crate::hush::NAMES;
use crate::places::{Alone, Cluster, FAIR_TURN_MS, Place};
use crate::recorder::Recorder;

/// How long an answer may take.
const SOON: Duration = Duration::from_secs(5);

/// The end of a key that does not exist.
const GONE: i64 = -2;

/// Bytes and end of each key.
type Contents = BTreeMap<String, (Vec<u8>, i64)>;

/// Holds some locks, and compares.
pub(crate) fn check(shared: &Shared) {
    match &shared.place {
        Place::Alone(alone) => alone_and_copies(shared, alone),
        Place::Cluster(cluster) => restarted_node(shared, cluster),
    }
}

/// Every key with its bytes and the end of its lease.
fn contents(server: &TestServer) -> Contents {
    let client: &mut Connection = &mut server.connect();
    let keys: Vec<String> = redis::cmd("KEYS").arg("*").query(client).expect("KEYS is answered");
    let mut found = BTreeMap::new();
    for key in keys {
        let bytes: Option<Vec<u8>> = redis::cmd("DUMP").arg(&key).query(client).unwrap_or_default();
        let ends: i64 = redis::cmd("PEXPIRETIME").arg(&key).query(client).unwrap_or_default();
        // A key that has ended meanwhile is left out.
        found.extend(bytes.filter(|_| ends != GONE).map(|bytes| (key, (bytes, ends))));
    }
    found
}

/// The locks that are held for the comparison: the command, and how many holds that makes.
fn holds(name: &str) -> [(String, i64); 7] {
    let acquire = |lock: &str, rest: &str| format!("RLOCK.ACQUIRE {name}:{lock} alice {rest}");
    [
        (acquire("plain", "100000"), 1),
        (acquire("fenced", "100000 FENCED"), 1),
        (acquire("read", "100000 READ"), 1),
        (acquire("read", "200000 READ"), 2),
        (acquire("write", "100000 WRITE FENCED"), 1),
        (acquire("permits", "100000 PERMITS 2"), 1),
        (format!("RLOCK.ACQUIRE {name}:permits bob 200000 PERMITS 2"), 1),
    ]
}

/// The keys of these locks, without which the comparison shows nothing.
fn keys(name: &str) -> [String; 9] {
    let lock = |lock: &str| format!("{name}:{lock}");
    let derived = |before: &str, lock: &str, after: &str| match name.contains('{') {
        true => format!("{before}{name}:{lock}{after}"),
        false => format!("{before}{{{name}:{lock}}}{after}"),
    };
    [
        lock("plain"),
        lock("fenced"),
        lock("read"),
        lock("write"),
        lock("permits"),
        derived("redisson_lock_token:", "fenced", ""),
        derived("redisson_lock_token:", "write", ""),
        derived("", "read", ":alice:rwlock_timeout:1"),
        derived("", "read", ":alice:rwlock_timeout:2"),
    ]
}

/// Acquires, which must be answered with this number of holds.
fn must(shared: &Shared, client: &mut Connection, line: &str, holds: i64) {
    let answer = command(line).query::<(i64, i64, i64)>(client);
    if !matches!(&answer, Ok((held, ..)) if *held == holds) {
        shared.recorder.violation("copy", 0, format!("{line} is answered {answer:?} at the end"));
    }
}

/// What a server has, with all of these keys.
fn contents_with(shared: &Shared, server: &TestServer, keys: &[String]) -> Contents {
    let found = contents(server);
    for key in keys.iter().filter(|key| !found.contains_key(*key)) {
        shared.recorder.violation("copy", 0, format!("{key} is not there, though it was written"));
    }
    found
}

/// A plain lock is handed over besides.
fn hand_over(shared: &Shared, primary: &TestServer) {
    let client = &mut primary.connect();
    // No subscriber is needed for a waiter that is blocked, but it needs a client of its own.
    let mut waiter = primary.connect();
    let waiting = "RLOCK.ACQUIRE last:plain bob 100000 FENCED BLOCK 5000";
    let _ = waiter.send_packed_command(&command(waiting).get_packed_command());
    std::thread::sleep(Duration::from_millis(100));
    let released = command("RLOCK.RELEASE last:plain alice").query::<i64>(client);
    let granted = waiter.recv_response();
    if released != Ok(1) || !matches!(granted, Ok(Value::Array(_))) {
        let text = format!("last:plain was not handed over: {released:?}, {granted:?}");
        shared.recorder.violation("copy", 0, text);
    }
}

/// On the replica, and in the file.
fn alone_and_copies(shared: &Shared, alone: &Alone) {
    alone.attach();
    for name in alone.different_on_replicas() {
        let text = format!("{name} was not the same on the replica that was attached");
        shared.recorder.violation("copy", 0, text);
    }
    let here = alone.with_both(|primary, replica| {
        let client = &mut primary.connect();
        for (line, count) in holds("last") {
            must(shared, client, &line, count);
        }
        hand_over(shared, primary);
        rlock_testkit::wait_for_replicas_in_sync(primary, replica);
        let keys = [&keys("last")[..], &["redisson_lock_token:{last:plain}".to_owned()]].concat();
        let here = contents_with(shared, primary, &keys);
        compare(shared, "on the replica", &here, &contents(replica));
        if alone.aof {
            wait_fairly(shared, client);
        }
        here
    });
    if alone.aof {
        alone.kill_and_restart();
        alone.with_primary(|restarted| {
            // After a restart no server knows which waiters of a fair list are alive, and their deadlines are bounded.
            let lasts = |name: &String| !name.contains(FAIR) && !name.starts_with("redisson_lock_timeout:");
            let (mut before, mut after) = (here, contents(restarted));
            before.retain(|name, _| lasts(name));
            after.retain(|name, _| lasts(name));
            compare(shared, "after a restart", &before, &after);
            count_as_gone(shared, restarted);
        });
    }
}

/// In the file of one of the servers.
fn restarted_node(shared: &Shared, cluster: &Cluster) {
    let node = cluster.ports.len() - 1;
    let before = cluster.with_node(node, |server| {
        let client = &mut server.connect();
        let mut names = (0..NAMES).map(|number| format!("{{last:{number}}}"));
        let here = names.find(|name| command(&format!("RLOCK.INFO {name}")).query::<Value>(client).is_ok());
        let name = here.unwrap_or_default();
        for (line, count) in holds(&name) {
            must(shared, client, &line, count);
        }
        contents_with(shared, server, &keys(&name))
    });
    cluster.kill_and_restart(node);
    cluster.with_node(node, |server| compare(shared, "after a restart", &before, &contents(server)));
}

/// A lock for which natives wait when the server is killed, and for how long it is held.
const FAIR: &str = "last:fair";
const HELD: i64 = 100_000;

/// How many do.
const NATIVES: i64 = 4;

/// For how long, beyond the lease, the first waiter from before a restart counts as alive.
const COUNTS: i64 = 300_000;

/// Natives wait for ever for a fair lock.
fn wait_fairly(shared: &Shared, client: &mut Connection) {
    must(shared, client, &format!("RLOCK.ACQUIRE {FAIR} alice {HELD}"), 1);
    for number in 0..NATIVES {
        let waits = format!("RLOCK.ACQUIRE {FAIR} native{number} 60000 FAIR ENQUEUE 0 silent");
        must(shared, client, &waits, 0);
    }
}

/// The wait in a Redisson client's reply, once a native has met the list: the dead waiters before it count with a
/// bound, not with the time that each had asked for. A list that no native meets keeps its deadlines
/// (docs/OPERATIONS.md).
fn count_as_gone(shared: &Shared, restarted: &TestServer) {
    let client = &mut restarted.connect();
    let _ = command(&format!("RLOCK.ACQUIRE {FAIR} native:met 60000 FAIR")).query::<Value>(client);
    let most = HELD + COUNTS + (NATIVES * FAIR_TURN_MS as i64);
    let mut told = None;
    let fits = || {
        told = ask_fairly(client);
        told.filter(|told| *told <= most)
    };
    if poll(SOON, fits).is_none() {
        let text = format!("after a restart a Redisson waiter must wait {told:?} ms, but at most {most}");
        shared.recorder.violation("told", 0, text);
    }
}

/// A Redisson client asks for the fair lock, and leaves.
fn ask_fairly(client: &mut Connection) -> Option<i64> {
    let run = |script: &str, client: &mut Connection| {
        let mut eval = redis::cmd("EVAL");
        eval.arg(script).arg(3).arg(FAIR);
        eval.arg(format!("redisson_lock_queue:{{{FAIR}}}")).arg(format!("redisson_lock_timeout:{{{FAIR}}}"));
        eval.arg(&["30000", "redisson:1", &Recorder::wall_ms().to_string(), "300000"]);
        eval.query::<Option<i64>>(client)
    };
    let told = run(FAIR_TAKES, client).ok().flatten();
    let _ = run(FAIR_GIVES_UP, client);
    told
}

fn command(line: &str) -> redis::Cmd {
    let mut command = redis::Cmd::new();
    command.arg(line.split(' ').collect::<Vec<_>>());
    command
}

fn compare(shared: &Shared, place: &str, here: &Contents, there: &Contents) {
    let names = here.keys().chain(there.keys().filter(|name| !here.contains_key(*name)));
    let now = Recorder::wall_ms();
    for name in names.filter(|name| here.get(*name) != there.get(*name)) {
        let end = |of: &Contents| of.get(name).map_or(GONE, |(_, end)| *end);
        // The copies were read one after the other, and the key ended in between: a lease key whose lock was deleted.
        let ended = |of| (0..=now).contains(&end(of));
        if (end(here) == GONE && ended(there)) || (end(there) == GONE && ended(here)) {
            continue;
        }
        let text = format!("{name} differs {place}: it ends at {}, and there at {}", end(here), end(there));
        shared.recorder.violation("copy", 0, text);
    }
}
