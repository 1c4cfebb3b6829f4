//! Read leases that another server gave, or this one before a restart: Redisson's renewal of a reader beside them would
//! end them early, and so they must be known.

use rlock_testkit::prelude::*;
use rlock_testkit::redisson;
use rlock_testkit::redisson::{READ, RENEW_READ};

/// The lease of a Redisson reader beside others, in ms.
const SHORT: i64 = 2_000;

/// Names of which the lease keys are made in either way.
const LOCKS: [&str; 3] = ["lock", "app:{orders}:lock", "{a}"];

/// Natives read for long, one of Redisson's beside them for a short time, among many other keys.
#[track_caller]
fn read(client: &mut Connection) {
    ask(client, &["EVAL", "for i = 1, 3000 do redis.call('SET', 'k' .. i, i) end", "0"]);
    for lock in LOCKS {
        client.story(&[(&format!("RLOCK.ACQUIRE {lock} a:b:1 900000 READ"), "[1, 900000, 0]")]);
        client.story(&[(&format!("RLOCK.ACQUIRE {lock} a:b:1 900000 READ"), "[2, 900000, 0]")]);
        assert_eq!(redisson::run(client, READ, lock, "j:1", 100_000), "null");
    }
}

/// The other renews, and dies: the lock is read for as long as the natives' lease says.
#[track_caller]
fn are_read_on(client: &mut Connection) {
    for lock in LOCKS {
        assert_eq!(redisson::run(client, RENEW_READ, lock, "j:1", SHORT), "1");
        wait_for("the key to last as long as the longest lease", || {
            number(client, &format!("PTTL {lock}")) > 800_000
        });
    }
    // Whether it was known by then or is found later: the next renewal ends nothing either.
    for lock in LOCKS {
        assert_eq!(redisson::run(client, RENEW_READ, lock, "j:1", SHORT / 10), "1");
    }
    std::thread::sleep(Duration::from_millis(SHORT as u64 / 5));
    for lock in LOCKS {
        client.story(&[
            (&format!("RLOCK.ACQUIRE {lock} w:1 50000 WRITE"), "null"),
            (&format!("RLOCK.RELEASE {lock} a:b:1 READ"), "0"),
            (&format!("RLOCK.ACQUIRE {lock} w:1 50000 WRITE"), "null"),
            (&format!("RLOCK.RELEASE {lock} a:b:1 READ"), "1"),
            (&format!("RLOCK.ACQUIRE {lock} w:1 50000 WRITE"), "[1, 50000, 0]"),
        ]);
    }
}

#[test]
fn those_that_were_given_before_a_restart_are_known() {
    let with_aof = || TestServer::builder().with_aof();
    let ways: [(&str, &dyn Fn() -> ServerBuilder); 2] = [("SAVE", &TestServer::builder), ("PING", &with_aof)];
    for (keep, build) in ways {
        let server = build().start();
        let client = &mut server.connect();
        client.story(&[("SELECT 3", "OK")]);
        read(client);
        assert!(!say(client, keep).starts_with('!'));
        let (_server, client) = &mut build().dir(server.kill9()).start_and_connect();
        client.story(&[("SELECT 3", "OK")]);
        are_read_on(client);
    }
}

#[test]
fn those_that_the_primary_before_gave_are_known() {
    let (primary, replica) = (TestServer::start(), TestServer::start());
    replica.replicate_from(&primary);
    read(&mut primary.connect());
    wait_for_replicas_in_sync(&primary, &replica);
    drop(primary);
    let client = &mut replica.connect();
    client.story(&[("REPLICAOF NO ONE", "OK")]);
    are_read_on(client);
}

/// A server without the module that has the keys of one with it.
fn without_module() -> (TestServer, Connection) {
    let (server, mut client) = TestServer::start_and_connect();
    read(&mut client);
    client.story(&[("SAVE", "OK")]);
    TestServer::builder().without_module().dir(server.kill9()).start_and_connect()
}

#[test]
fn those_that_were_given_before_the_module_is_loaded_at_run_time_are_known() {
    let (_server, client) = &mut without_module();
    client.story(&[(&format!("MODULE LOAD {}", module_path().display()), "OK")]);
    are_read_on(client);
}

#[track_caller]
fn dump(key: &str, source: &mut Connection) -> Vec<u8> {
    redis::cmd("DUMP").arg(key).query(source).unwrap()
}

/// Copies a key from one server to another.
#[track_caller]
fn copy(key: &str, source: &mut Connection, target: &mut Connection) {
    let left = number(source, &format!("PTTL {key}")).max(0);
    let () = redis::cmd("RESTORE").arg(key).arg(left).arg(dump(key, source)).query(target).unwrap();
}

/// All keys of locks, the locks themselves first or last.
#[track_caller]
fn keys_of_locks(source: &mut Connection, locks_first: bool) -> Vec<String> {
    let mut keys: Vec<String> = redis::cmd("KEYS").arg("*").query(source).unwrap();
    keys.retain(|key| !key.starts_with('k'));
    keys.sort_by_key(|key| LOCKS.contains(&&**key) != locks_first);
    keys
}

/// As they come with a slot, key by key: the lease before its lock, or after it.
#[test]
fn those_that_come_from_another_server_are_known() {
    for locks_first in [false, true] {
        let (from, to) = (TestServer::start(), TestServer::start());
        let (source, client) = (&mut from.connect(), &mut to.connect());
        // A native has read there before.
        client.story(&[("RLOCK.ACQUIRE other x 100 READ", "[1, 100, 0]")]);
        read(source);
        for key in keys_of_locks(source, locks_first) {
            copy(&key, source, client);
        }
        are_read_on(client);
    }
}

/// RESTORE by hand into a server without waiters and readers, which does not listen to changes of keys: the first RLOCK
/// command on the lock finds them, also one that changes nothing.
#[test]
fn restored_reads_on_an_idle_server_are_known_from_the_first_command_on() {
    for command in ["RLOCK.RENEW", "RLOCK.RELEASE", "RLOCK.ACQUIRE"] {
        let (from, to) = (TestServer::start(), TestServer::start());
        let (source, client) = (&mut from.connect(), &mut to.connect());
        read(source);
        for key in keys_of_locks(source, true) {
            copy(&key, source, client);
        }
        for lock in LOCKS {
            match command {
                "RLOCK.RENEW" => client.story(&[(&format!("{command} {lock} stranger 1000 READ"), "0")]),
                "RLOCK.RELEASE" => client.story(&[(&format!("{command} {lock} stranger"), "null")]),
                _ => client.story(&[(&format!("{command} {lock} stranger 1000 WRITE"), "null")]),
            }
        }
        are_read_on(client);
    }
}

/// A renewal that no module repaired: the key ends with it, unless a command comes before.
#[test]
fn a_shortening_of_before_the_load_is_repaired_by_the_first_command() {
    let (_server, client) = &mut without_module();
    for lock in LOCKS {
        assert_eq!(redisson::run(client, RENEW_READ, lock, "j:1", 10_000), "1");
    }
    client.story(&[(&format!("MODULE LOAD {}", module_path().display()), "OK")]);
    for lock in LOCKS {
        assert!(number(client, &format!("PTTL {lock}")) <= 10_000);
        client.story(&[(&format!("RLOCK.RENEW {lock} stranger 1000 READ"), "0")]);
        wait_for("the key to last as long as the longest lease", || {
            number(client, &format!("PTTL {lock}")) > 800_000
        });
    }
}

/// A slot may be half moved for long: the leases are there, their locks are not.
#[test]
fn however_long_the_lock_takes_to_come_after_the_leases() {
    let (from, to) = (TestServer::start(), TestServer::start());
    let (source, client) = (&mut from.connect(), &mut to.connect());
    client.story(&[("RLOCK.ACQUIRE other x 100 READ", "[1, 100, 0]")]);
    read(source);
    let keys = keys_of_locks(source, false);
    let (leases, locks) = keys.split_at(keys.len() - LOCKS.len());
    leases.iter().for_each(|key| copy(key, source, client));
    std::thread::sleep(Duration::from_secs(1));
    locks.iter().for_each(|key| copy(key, source, client));
    are_read_on(client);
}

/// More keys came at once than were remembered, lease keys among them.
#[test]
fn among_many_keys_that_come_at_once() {
    let (from, to) = (TestServer::start(), TestServer::start());
    let (source, client) = (&mut from.connect(), &mut to.connect());
    read(source);
    client.story(&[("RLOCK.ACQUIRE other x 100 READ", "[1, 100, 0]")]);
    // In one script, so that all come before the first check.
    let many = "for i = 1, 11000 do
        redis.call('RESTORE', 'c' .. i, 0, ARGV[1])
        redis.call('RESTORE', '{c' .. i .. '}:x:rwlock_timeout:1', 0, ARGV[1])
    end
    for at = 2, #ARGV, 2 do redis.call('RESTORE', ARGV[at], 900000, ARGV[at + 1]) end";
    let mut script = redis::cmd("EVAL");
    script.arg(many).arg(0).arg(dump("k1", source));
    for key in keys_of_locks(source, true) {
        script.arg(&key).arg(dump(&key, source));
    }
    let () = script.query(client).unwrap();
    are_read_on(client);
}

/// Of a lock of many readers that has come after their leases.
#[test]
fn among_more_readers_than_one_cycle_checks() {
    const READERS: usize = 3_000;
    let (from, to) = (TestServer::start(), TestServer::start());
    let (source, client) = (&mut from.connect(), &mut to.connect());
    client.story(&[("RLOCK.ACQUIRE other x 100 READ", "[1, 100, 0]")]);
    let mut all = redis::pipe();
    for reader in 0..READERS {
        // One of them reads for longer than all others.
        let lease = if reader == 17 { 900_000 } else { 60_000 };
        all.cmd("RLOCK.ACQUIRE").arg("page").arg(format!("r:{reader}")).arg(lease).arg("READ");
    }
    let _: Vec<(i64, i64, i64)> = all.query(source).unwrap();
    assert_eq!(redisson::run(source, READ, "page", "j:1", 100_000), "null");
    let mut keys: Vec<String> = redis::cmd("KEYS").arg("*").query(source).unwrap();
    keys.sort_by_key(|key| key == "page");
    keys.iter().for_each(|key| copy(key, source, client));
    assert_eq!(redisson::run(client, RENEW_READ, "page", "j:1", SHORT), "1");
    wait_for("the key to last as long as the longest lease", || number(client, "PTTL page") > 800_000);
}

/// A user's own hash may look like a read lock by its `mode`. It loses no field.
#[test]
fn a_users_own_hash_keeps_its_fields() {
    let (_server, client) = &mut TestServer::start_and_connect();
    client.story(&[("RLOCK.ACQUIRE other x 100 READ", "[1, 100, 0]")]);
    ask(client, &["HSET", "own", "mode", "read", "", "precious", "x", "y"]);
    client.story(&[("EXPIRE own 1000", "1")]);
    std::thread::sleep(Duration::from_millis(200));
    assert_eq!(number(client, "HLEN own"), 3);
}

/// A lock that natives read, replaced by a user's own hash: it may be known as read, but it keeps its fields and its expiry.
#[test]
fn a_users_own_hash_in_place_of_a_known_lock_keeps_its_fields_and_expiry() {
    for fields in [4, 20, 100, 1_000] {
        let (_server, client) = &mut TestServer::start_and_connect();
        client.story(&[("RLOCK.ACQUIRE lock x 900000 READ", "[1, 900000, 0]")]);
        let mut pipe = redis::pipe();
        pipe.atomic().cmd("DEL").arg("lock").cmd("HSET").arg("lock").arg(&["mode", "read", "", "precious"]);
        for field in 0..fields {
            pipe.arg(field).arg("text");
        }
        pipe.cmd("EXPIRE").arg("lock").arg(100).query::<()>(client).unwrap();
        std::thread::sleep(Duration::from_millis(300));
        assert_eq!(number(client, "HLEN lock"), fields + 2);
        assert!(number(client, "TTL lock") <= 100, "{fields} fields");
    }
}
