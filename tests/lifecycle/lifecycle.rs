//! Loading, unloading, and servers on which the module does not load.

use std::env;

use rlock_testkit::prelude::*;

#[track_caller]
fn load(client: &mut Connection) -> String {
    say_words(client, &["MODULE", "LOAD", module_path().to_str().unwrap()])
}

/// Name and version of each loaded module.
#[track_caller]
fn modules(client: &mut Connection) -> Vec<(String, i64)> {
    let Value::Array(modules) = ask(client, &["MODULE", "LIST"]) else { panic!("no list") };
    let described = |module: Value| {
        let Value::Array(fields) = module else { panic!("{module:?}") };
        let value = |name: &[u8]| {
            let at = fields.iter().position(|field| *field == Value::BulkString(name.to_vec()));
            fields[at.expect("a field of MODULE LIST") + 1].clone()
        };
        (redis::from_redis_value(value(b"name")).unwrap(), redis::from_redis_value(value(b"ver")).unwrap())
    };
    modules.into_iter().map(described).collect()
}

#[test]
fn the_module_loads() {
    let by_file = TestServer::start();
    assert!(by_file.log().contains("Module 'rlock' loaded from"), "{}", by_file.log());
    let by_command = TestServer::builder().without_module().start();
    assert_eq!(load(&mut by_command.connect()), "OK");
    for server in [by_file, by_command] {
        let client = &mut server.connect();
        let ours: Vec<_> = modules(client).into_iter().filter(|(name, _)| name == "rlock").collect();
        assert_eq!(ours, [("rlock".to_owned(), 100)]);
        assert_eq!(say(client, "RLOCK.ACQUIRE lock alice 100000"), "[1, 100000, 0]");
        assert!(load(client).starts_with("!ERR "), "twice at the same time");
        assert_eq!(say(client, "RLOCK.RELEASE lock alice"), "1");
    }
    an_older_server_refuses_it();
}

/// Needs a Redis 6, which `RLOCK_TEST_OLD_SERVER` names.
fn an_older_server_refuses_it() {
    let Some(old) = env::var_os("RLOCK_TEST_OLD_SERVER").filter(|path| !path.is_empty()) else {
        eprintln!("not shown: set RLOCK_TEST_OLD_SERVER to the server of a Redis 6");
        return;
    };
    let failure = TestServer::builder().binary(old).try_start().expect_err("an old server");
    assert!(failure.status.is_some(), "{failure}");
    assert!(failure.log.contains("not loaded: this server lacks RedisModule_"), "{failure}");
    assert!(failure.log.contains("use Redis 7.0"), "{failure}");
}

#[test]
fn the_module_is_unloaded_after_use_and_loaded_again() {
    let (server, client) = &mut TestServer::start_and_connect();
    // Another connection that used the module and stays.
    let other = &mut server.connect();
    assert_eq!(say(client, "RLOCK.ACQUIRE lock alice 1000000"), "[1, 1000000, 0]");
    for round in 1..=3 {
        let holds = format!("[{}, 1000000, 0]", round + 1);
        client.story(&[
            ("RLOCK.ACQUIRE lock alice 1000000", &holds),
            ("RLOCK.ACQUIRE lock bob 100000", "null"),
            ("RLOCK.ACQUIRE other bob 100000", "[1, 100000, 0]"),
            ("RLOCK.RELEASE other bob", "1"),
            ("RLOCK.RELEASE hash bob", "null"),
            ("CONFIG SET rlock.accept no", "OK"),
        ]);
        assert_eq!(server.info("rlock")["rlock_acquired"], if round == 1 { "2" } else { "1" });
        let before = state(client, "lock");
        // Redis 8.0 compares each client's next command with its last one, also when that has been freed with
        // its module: 8.0.6 crashed here once in ten runs.
        assert_eq!(say(other, "PING"), "PONG");
        assert_eq!(say(client, "MODULE UNLOAD rlock"), "OK", "round {round}");
        client.story(&[
            ("RLOCK.ACQUIRE lock alice 1000000", "!ERR unknown command…"),
            ("CONFIG GET rlock.*", "[]"),
            // What the module listened to.
            ("CONFIG SET maxmemory-samples 6", "OK"),
        ]);
        assert!(server.info("rlock").is_empty() && modules(client).iter().all(|(name, _)| name != "rlock"));
        assert_eq!(state(client, "lock"), before, "locks are plain hashes");
        assert_eq!(load(client), "OK", "round {round}");
        // As new: the option has its default, the counters start over.
        assert_eq!(say(other, "CONFIG GET rlock.accept"), r#"["rlock.accept", "yes"]"#);
        assert_eq!(server.info("rlock")["rlock_acquired"], "0");
        assert_eq!(say(other, "RLOCK.RENEW lock alice 1000000"), "1");
    }
    client.story(&[("RLOCK.RELEASE lock alice ALL", "1"), ("EXISTS lock", "0")]);
}

#[test]
fn a_user_of_the_category_of_rlock_may_lock_again_after_a_reload() {
    let (server, client) = &mut TestServer::start_and_connect();
    let ours = say(client, "ACL SETUSER app on >secret ~* +@rlock") == "OK";
    if !ours {
        assert_eq!(say(client, "ACL SETUSER app on >secret ~* +rlock.acquire +rlock.release"), "OK");
    }
    let unloaded = say(client, "MODULE UNLOAD rlock");
    assert_eq!(unloaded, "OK");
    assert_eq!(load(client), "OK");
    let app = &mut server.connect_as("app", "secret");
    assert_eq!(say(app, "RLOCK.ACQUIRE lock alice 100000"), "[1, 100000, 0]");
    assert_eq!(say(app, "RLOCK.RELEASE lock alice"), "1");
    assert!(say(app, "RLOCK.FORCERELEASE lock").starts_with("!NOPERM "));
}

/// From 7.2 on servers read all rules anew when a module is unloaded, and most end themselves where one names a command
/// that is gone.
#[test]
fn the_module_stays_while_the_rules_of_a_user_name_its_commands() {
    let (_server, client) = &mut TestServer::start_and_connect();
    for rules in ["+rlock.acquire", "+@all -RLOCK.forcerelease", "+@read (+rlock.info ~*)"] {
        assert_eq!(say(client, &format!("ACL SETUSER app on nopass ~* {rules}")), "OK");
        let unloaded = say(client, "MODULE UNLOAD rlock");
        assert_eq!(say(client, "PING"), "PONG", "{rules}");
        assert_eq!(say(client, "ACL DELUSER app"), "1");
        if unloaded == "OK" {
            // Redis 7.0 does not read the rules anew.
            assert_eq!(load(client), "OK");
        } else {
            assert!(unloaded.starts_with("!ERR Error unloading module"), "{rules}: {unloaded}");
        }
    }
    // A key's pattern is not a rule about a command.
    assert_eq!(say(client, "ACL SETUSER app on nopass ~+rlock.acquire +get"), "OK");
    assert_eq!(say(client, "MODULE UNLOAD rlock"), "OK");
    assert_eq!(say(client, "PING"), "PONG");
}

/// The server keeps a pointer to each queued command: at EXEC it crashed, since the command was gone with the module.
#[test]
fn the_module_stays_while_a_transaction_has_queued_commands() {
    let server = TestServer::start();
    let (client, other) = (&mut server.connect(), &mut server.connect());
    other.story(&[("MULTI", "OK"), ("RLOCK.ACQUIRE lock alice 60000", "QUEUED")]);
    let refused = |said: String| assert!(said.contains("Error unloading module"), "{said}");
    refused(say(client, "MODULE UNLOAD rlock"));
    assert!(server.log().contains("not unloaded: a client has queued commands in a transaction"));
    other.story(&[("EXEC", "[[1, 60000, 0]]"), ("MULTI", "OK"), ("MODULE UNLOAD rlock", "QUEUED")]);
    // A command of the module may follow in the same transaction.
    assert_eq!(say(other, "RLOCK.RENEW lock alice 60000"), "QUEUED");
    refused(say(other, "EXEC"));
    client.story(&[("MODULE UNLOAD rlock", "OK"), ("PING", "PONG")]);
}

#[test]
fn locks_can_be_changed_while_the_module_is_away() {
    let (_server, client) = &mut TestServer::start_and_connect();
    client.story(&[
        ("RLOCK.ACQUIRE gone alice 1000000", "[1, 1000000, 0]"),
        ("RLOCK.ACQUIRE left alice 1000000", "[1, 1000000, 0]"),
        ("MODULE UNLOAD rlock", "OK"),
        ("DEL gone", "1"),
        ("HINCRBY left alice 1", "2"),
    ]);
    assert_eq!(load(client), "OK");
    client.story(&[
        ("RLOCK.RENEW gone alice 1000", "0"),
        ("RLOCK.RELEASE left alice", "0"),
        ("RLOCK.RELEASE left alice", "1"),
    ]);
}

#[test]
fn a_server_without_the_effects_commands_is_refused() {
    for name in [
        "CLIENT",
        "DEL",
        "EXISTS",
        "GET",
        "HDEL",
        "HSET",
        "LINDEX",
        "LPOP",
        "LPOS",
        "LPUSH",
        "LRANGE",
        "LREM",
        "LSET",
        "PEXPIREAT",
        "PUBLISH",
        "PUBSUB",
        "RPOP",
        "RPUSH",
        "SET",
        "ZADD",
        "ZCOUNT",
        "ZREM",
        "ZREMRANGEBYRANK",
        "ZSCORE",
    ] {
        for new_name in ["", "other-name"] {
            let builder = TestServer::builder().conf_words("rename-command", &[name, new_name]);
            let failure = builder.try_start().expect_err(name);
            let reason = format!("not loaded: rlock needs the command {name}");
            assert!(failure.status.is_some() && failure.log.contains(&reason), "{name}: {failure}");
            let advice = format!("remove 'rename-command {name}' from the configuration");
            assert!(failure.log.contains(&advice), "{name}: {failure}");
        }
    }
}

#[test]
fn other_commands_may_be_renamed() {
    let names = ["FLUSHALL", "KEYS", "HGET", "HMSET", "EXPIRE", "UNLINK", "SPUBLISH", "MULTI", "EXEC"];
    let rename = |builder: ServerBuilder, name: &&str| builder.conf_words("rename-command", &[name, ""]);
    let (_server, client) = &mut names.iter().fold(TestServer::builder(), rename).start_and_connect();
    client.story(&[
        ("FLUSHALL", "!ERR unknown command…"),
        ("RLOCK.ACQUIRE lock alice 100000", "[1, 100000, 0]"),
        ("RLOCK.RENEW lock alice 100000", "1"),
        ("RLOCK.RELEASE lock alice", "1"),
    ]);
}

#[test]
fn an_unloaded_module_is_gone_from_memory_so_that_a_newer_one_can_take_its_place() {
    let server = TestServer::start();
    let mapped = || {
        let maps = std::fs::read_to_string(format!("/proc/{}/maps", server.pid())).unwrap();
        maps.contains("librlock")
    };
    let client = &mut server.connect();
    client.story(&[("RLOCK.ACQUIRE lock alice 1000000", "[1, 1000000, 0]")]);
    let bob = Waiting::line(&server, "RLOCK.ACQUIRE lock bob 1000 BLOCK 0");
    bob.granted_by(client, "RLOCK.RELEASE lock alice");
    assert!(mapped());
    client.story(&[("MODULE UNLOAD rlock", "OK")]);
    assert!(!mapped(), "something of the module keeps the library there");
}
