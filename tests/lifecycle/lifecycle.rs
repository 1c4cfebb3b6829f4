//! Loading, and servers on which the module does not load.

use std::env;

use rlock_testkit::prelude::*;

#[track_caller]
fn load(client: &mut Connection) -> String {
    say_words(client, &["MODULE", "LOAD", module_path().to_str().unwrap()])
}

/// Name and version of each loaded module.
#[track_caller]
pub(crate) fn modules(client: &mut Connection) -> Vec<(String, i64)> {
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
