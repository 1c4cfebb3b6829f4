//! Removing the module by a restart: the locks are plain data of the kind that Redisson writes, its
//! scripts serve them, and nothing is left that a server without the module, or with another, does not know. Redisson has no
//! lock like the one with permits: commands for sorted sets serve that.

use std::fs;
use std::path::Path;

use crate::everything;
use redis::Connection;
use rlock_testkit::commands::{SOON, say, server_time, story};
use rlock_testkit::held::{Awaited, hold};
use rlock_testkit::redisson;
use rlock_testkit::redisson::{
    FAIR_GIVES_BACK, FAIR_GIVES_UP, FAIR_TAKES, FENCED_TAKES, GIVES_BACK, READ, RENEW_READ, TAKES, UNREAD,
    UNWRITE, WRITE,
};
use rlock_testkit::{ServerBuilder, TestServer, aof_all_commands, module_path};

const LEASE: i64 = 1_000_000;

/// Asserts that Redisson's scripts serve the locks of [`hold`], in the names of their owners, and commands for sorted sets
/// serve the permits. Nothing is left after the releases. The clock of the scripts is `ahead` ms ahead.
#[track_caller]
fn redisson_goes_on(client: &mut Connection, token: i64, ahead: i64) {
    let now = server_time(client) + ahead;
    assert_ne!(redisson::run(client, TAKES, "plain", "j:1", LEASE), "null");
    assert_eq!(redisson::run(client, GIVES_BACK, "plain", "n:1", LEASE), "1");
    assert_ne!(redisson::run(client, WRITE, "page", "j:1", LEASE), "null");
    assert_eq!(redisson::run(client, READ, "page", "j:1", LEASE), "null");
    assert_eq!(redisson::run(client, RENEW_READ, "page", "n:1", LEASE), "1");
    for (owner, left) in [("n:1", "0"), ("n:1", "0"), ("n:2", "0"), ("j:1", "1")] {
        assert_eq!(redisson::run(client, UNREAD, "page", owner, LEASE), left, "{owner}");
    }
    assert_ne!(redisson::run(client, READ, "book", "j:1", LEASE), "null");
    assert_eq!(redisson::run(client, UNWRITE, "book", "n:1", LEASE), "1");
    assert_eq!(redisson::run(client, READ, "book", "j:1", LEASE), "null");
    assert_eq!(redisson::run(client, UNREAD, "book", "n:1", LEASE), "0");
    assert_eq!(redisson::run(client, UNREAD, "book", "j:1", LEASE), "1");
    assert_ne!(redisson::run_fair(client, FAIR_TAKES, "fair", "j:1", 300_000, now), "null");
    assert_eq!(redisson::run_fair(client, FAIR_GIVES_BACK, "fair", "n:1", 300_000, now), "1");
    // The waiters before it in the list are gone, and their deadlines have passed.
    assert_eq!(redisson::run_fair(client, FAIR_TAKES, "fair", "j:1", 300_000, now), "null");
    assert_eq!(redisson::run_fair(client, FAIR_GIVES_BACK, "fair", "j:1", 300_000, now), "1");
    assert_eq!(redisson::run(client, FENCED_TAKES, "fenced", "j:1", LEASE), "null");
    assert_eq!(redisson::run(client, GIVES_BACK, "fenced", "n:1", LEASE), "1");
    assert_eq!(redisson::run(client, FENCED_TAKES, "fenced", "j:1", LEASE), (token + 1).to_string());
    assert_eq!(redisson::run(client, GIVES_BACK, "fenced", "j:1", LEASE), "1");
    let alive = format!("ZCOUNT slots {} +inf", server_time(client));
    story(client, &[(&alive, "2"), ("ZREM slots n:1 n:2", "2")]);
    story(client, &[("KEYS *", r#"["redisson_lock_token:{fenced}"]"#)]);
}

/// Asserts that the keys are the expected ones, all but the one with the permits in Redisson's format.
#[track_caller]
fn knows_the_keys(client: &mut Connection, waited: bool) {
    let mut keys: Vec<String> = redis::cmd("KEYS").arg("*").query(client).unwrap();
    keys.sort();
    let mut known = vec!["book", "fair", "fenced", "page", "plain", "redisson_lock_token:{fenced}", "slots"];
    known.extend(["{book}:n:1:rwlock_timeout:1", "{page}:n:1:rwlock_timeout:1"]);
    known.extend(["{page}:n:1:rwlock_timeout:2", "{page}:n:2:rwlock_timeout:1"]);
    if waited {
        known.extend(["redisson_lock_queue:{fair}", "redisson_lock_timeout:{fair}"]);
    }
    known.sort_unstable();
    assert_eq!(keys, known);
}

#[test]
fn a_module_that_is_loaded_again_serves_its_locks() {
    let server = TestServer::start();
    let client = &mut server.connect();
    let token = hold(client, "");
    story(client, &[("SAVE", "OK")]);
    let server = TestServer::builder().without_module().dir(server.kill9()).start();
    let client = &mut server.connect();
    let load = format!("MODULE LOAD {}", module_path().display());
    // Meanwhile a Redisson waiter waits for the fair lock, and a Redisson reader reads.
    let now = server_time(client);
    assert_ne!(redisson::run_fair(client, FAIR_TAKES, "fair", "j:1", 300_000, now), "null");
    assert_eq!(redisson::run(client, READ, "page", "j:1", LEASE), "null");
    story(client, &[(&load, "OK")]);
    let awaited = Awaited::start(&server, "");
    // Both come before the native waiters.
    assert_eq!(redisson::run(client, UNREAD, "page", "j:1", LEASE), "0");
    story(client, &[("LRANGE redisson_lock_queue:{fair} 0 -1", r#"["j:1", "b:1", "e:1"]"#)]);
    redisson::run_fair(client, FAIR_GIVES_UP, "fair", "j:1", 300_000, now);
    awaited.are_served(client, token);
}

/// By a restart from stored data. Native waiters are stored only in the list of the fair lock, as Redisson waiters
/// are, and are dropped from it like dead Redisson waiters.
#[test]
fn a_server_without_the_module_keeps_the_locks() {
    let with_aof = || TestServer::builder().conf("appendonly", "yes");
    let rewritten = || with_aof().conf("aof-use-rdb-preamble", "no");
    let ways: [(&str, &dyn Fn() -> ServerBuilder); 3] =
        [("SAVE", &TestServer::builder), ("PING", &with_aof), ("BGREWRITEAOF", &rewritten)];
    for (keep, build) in ways {
        for waited in [false, true] {
            let server = build().start();
            let client = &mut server.connect();
            let token = hold(client, "");
            let _awaited = waited.then(|| Awaited::start(&server, ""));
            assert!(!say(client, keep).starts_with('!'));
            rlock_testkit::eventually("the file", SOON, || {
                let done = ["aof_rewrite_in_progress", "aof_rewrite_scheduled"];
                let facts = server.info("persistence");
                done.iter().all(|name| facts[*name] == "0").then_some(())
            });
            let before = everything(&server, "DUMP");
            let stopped = server.kill9();
            names_nothing_of_ours(stopped.data.path());
            let server = build().without_module().dir(stopped).start();
            assert_eq!(everything(&server, "DUMP"), before, "{keep}");
            let client = &mut server.connect();
            knows_the_keys(client, waited);
            redisson_goes_on(client, token, if waited { 3_600_000 } else { 0 });
        }
    }
}

/// Asserts that stored data is the same with this version of the module, an older one, or none: it has no types, no
/// data and no commands of the module.
#[track_caller]
fn names_nothing_of_ours(dir: &Path) {
    let mut seen = 0;
    for entry in
        fs::read_dir(dir).unwrap().chain(fs::read_dir(dir.join("appendonlydir")).into_iter().flatten())
    {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if !path.is_file() || !(name.ends_with(".rdb") || name.contains(".aof")) {
            continue;
        }
        let bytes = fs::read(&path).unwrap().to_ascii_lowercase();
        assert!(!bytes.windows(5).any(|five| five == b"rlock"), "{name}");
        seen += 1;
    }
    assert!(seen > 0);
    if dir.join("appendonlydir").is_dir() {
        const KNOWN: &str = "DEL EXEC HDEL HSET HMSET MULTI PEXPIREAT RPUSH SELECT SET ZADD ZREM";
        for command in aof_all_commands(dir) {
            let name = command[0].to_ascii_uppercase();
            assert!(KNOWN.split(' ').any(|known| known.as_bytes() == name), "{}", name.escape_ascii());
        }
    }
}

/// Lines to remove together with the module: the line that loads it, and those that name its options or its category.
#[test]
fn a_configuration_that_names_the_module_is_not_read_without_it() {
    let lines: [(&str, &[&str]); 2] =
        [("rlock.accept", &["no"]), ("user", &["app", "on", ">secret", "~*", "+@rlock"])];
    for (name, words) in lines {
        let with = TestServer::builder().conf_words(name, words).try_start();
        // Redis 7.0 lets modules have no categories.
        let Ok(with) = with else {
            assert_eq!(name, "user");
            println!("not shown here: {name}");
            continue;
        };
        story(&mut with.connect(), &[("RLOCK.CANCEL lock alice", "0")]);
        let without = TestServer::builder().without_module().conf_words(name, words).try_start();
        let failure = without.expect_err("an unknown line");
        assert!(failure.status.is_some(), "{name}: {failure}");
    }
}
