//! Read leases that another server gave, or this one before a restart: Redisson's renewal of a reader beside them would
//! end them early, and so they have to be known.

mod redisson;
mod waiting;

use redis::Connection;
use redisson::{READ, RENEW_READ};
use rlock_testkit::{ServerBuilder, TestServer, eventually, module_path, wait_for_replicas_in_sync};
use waiting::{SOON, number, say, story};

/// The lease of one of Redisson's that reads as well, in ms.
const SHORT: i64 = 2_000;

/// Names of which the lease keys are made in either way.
const LOCKS: [&str; 3] = ["lock", "app:{orders}:lock", "{a}"];

/// Natives read for long, one of Redisson's beside them for a short time, among many other keys.
#[track_caller]
fn read(client: &mut Connection) {
    waiting::ask(client, &["EVAL", "for i = 1, 3000 do redis.call('SET', 'k' .. i, i) end", "0"]);
    for lock in LOCKS {
        story(client, &[(&format!("RLOCK.ACQUIRE {lock} a:b:1 900000 READ"), "[1, 900000, 0]")]);
        story(client, &[(&format!("RLOCK.ACQUIRE {lock} a:b:1 900000 READ"), "[2, 900000, 0]")]);
        assert_eq!(redisson::run(client, READ, lock, "j:1", 100_000), "null");
    }
}

/// The other renews, and dies: the lock is read for as long as the natives' lease says.
#[track_caller]
fn are_read_on(client: &mut Connection) {
    for lock in LOCKS {
        assert_eq!(redisson::run(client, RENEW_READ, lock, "j:1", SHORT), "1");
        eventually("the key to last as long as the longest lease", SOON, || {
            (number(client, &format!("PTTL {lock}")) > 800_000).then_some(())
        });
    }
    // Whether it was known by then or is found later: the next renewal ends nothing either.
    for lock in LOCKS {
        assert_eq!(redisson::run(client, RENEW_READ, lock, "j:1", SHORT / 10), "1");
    }
    std::thread::sleep(std::time::Duration::from_millis(SHORT as u64 / 5));
    for lock in LOCKS {
        story(
            client,
            &[
                (&format!("RLOCK.ACQUIRE {lock} w:1 50000 WRITE"), "null"),
                (&format!("RLOCK.RELEASE {lock} a:b:1 READ"), "0"),
                (&format!("RLOCK.ACQUIRE {lock} w:1 50000 WRITE"), "null"),
                (&format!("RLOCK.RELEASE {lock} a:b:1 READ"), "1"),
                (&format!("RLOCK.ACQUIRE {lock} w:1 50000 WRITE"), "[1, 50000, 0]"),
            ],
        );
    }
}

#[test]
fn those_that_were_given_before_a_restart_are_known() {
    let with_aof = || TestServer::builder().conf("appendonly", "yes").conf("appendfsync", "always");
    let ways: [(&str, &dyn Fn() -> ServerBuilder); 2] = [("SAVE", &TestServer::builder), ("PING", &with_aof)];
    for (keep, build) in ways {
        let server = build().start();
        let client = &mut server.connect();
        story(client, &[("SELECT 3", "OK")]);
        read(client);
        assert!(!say(client, keep).starts_with('!'));
        let server = build().dir(server.kill9()).start();
        let client = &mut server.connect();
        story(client, &[("SELECT 3", "OK")]);
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
    story(client, &[("REPLICAOF NO ONE", "OK")]);
    are_read_on(client);
}

#[test]
fn those_that_were_given_before_the_module_was_loaded_again_are_known() {
    let server = TestServer::start();
    let client = &mut server.connect();
    read(client);
    let load = format!("MODULE LOAD {}", module_path().display());
    story(client, &[("MODULE UNLOAD rlock", "OK"), (&load, "OK")]);
    are_read_on(client);
}

/// As they come with a slot, key by key: the lease before its lock, or after it.
#[test]
fn those_that_come_from_another_server_are_known() {
    for lock_first in [false, true] {
        let (from, to) = (TestServer::start(), TestServer::start());
        let (source, client) = (&mut from.connect(), &mut to.connect());
        // Somebody has read there before.
        story(client, &[("RLOCK.ACQUIRE other x 100 READ", "[1, 100, 0]")]);
        read(source);
        let mut keys: Vec<String> = redis::cmd("KEYS").arg("*").query(source).unwrap();
        keys.retain(|key| !key.starts_with('k'));
        keys.sort_by_key(|key| LOCKS.contains(&&**key) != lock_first);
        for key in keys {
            let dump: Vec<u8> = redis::cmd("DUMP").arg(&key).query(source).unwrap();
            let left = number(source, &format!("PTTL {key}"));
            let () = redis::cmd("RESTORE").arg(&key).arg(left).arg(dump).query(client).unwrap();
        }
        are_read_on(client);
    }
}
