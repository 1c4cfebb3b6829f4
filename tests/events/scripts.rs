//! The commands in a transaction and in Lua: as they are alone.

use rlock_testkit::prelude::*;

/// A story with every command, and with every kind of answer.
const STORY: [(&str, &str); 17] = [
    ("RLOCK.ACQUIRE lock alice 100000", "[1, 100000, 0]"),
    ("RLOCK.ACQUIRE lock alice 300000 HOLDS 2", "[2, 300000, 0]"),
    ("RLOCK.ACQUIRE lock bob 100000", "null"),
    ("RLOCK.RENEW lock alice 100000", "1"),
    ("RLOCK.RENEW lock bob 100000", "0"),
    ("RLOCK.RELEASE lock bob ALL", "null"),
    ("RLOCK.RELEASE lock alice LEASE 300000", "0"),
    (
        "RLOCK.INFO lock LIMIT 0",
        r#"["kind", "mutex", "mode", null, "lease-ms", ~300000, "token", 0, "holder-count", 1, "waiter-count", 0, "holders", [], "queue", []]"#,
    ),
    ("RLOCK.FORCERELEASE lock bob", "0"),
    ("RLOCK.RELEASE lock alice", "1"),
    ("RLOCK.RELEASE lock alice", "null"),
    ("RLOCK.ACQUIRE lock bob 100000", "[1, 100000, 0]"),
    ("RLOCK.ACQUIRE lock mode 100000", OWNER),
    ("RLOCK.RENEW lock bob 0", LEASE),
    ("RLOCK.ACQUIRE text bob 100000", WRONGTYPE),
    ("RLOCK.FORCERELEASE lock", "1"),
    ("EXISTS lock", "0"),
];

const OWNER: &str = "!ERR invalid owner: use 1 to 512 bytes, not 'mode' and not ending in ':write'";
const LEASE: &str = "!ERR invalid lease: use an integer from 1 to 8796093022208 (milliseconds)";
const WRONGTYPE: &str = "!WRONGTYPE Operation against a key holding the wrong kind of value";

/// A server where the key `text` is not a lock.
fn server() -> TestServer {
    let server = TestServer::start();
    server.connect().story(&[("SET text 1", "OK")]);
    server
}

fn eval(client: &mut Connection, script: &str, words: &[&str]) -> Value {
    ask(client, &[&["EVAL", script, "0"], words].concat())
}

#[test]
fn alone_the_story_is_true() {
    server().connect().story(&STORY);
}

#[test]
fn commands_work_in_multi() {
    let server = server();
    let client = &mut server.connect();
    client.story(&[("MULTI", "OK")]);
    for (line, _) in STORY {
        assert_eq!(say(client, line), "QUEUED", "{line}");
    }
    let Value::Array(answers) = ask(client, &["EXEC"]) else { panic!("EXEC answered no array") };
    assert_eq!(answers.len(), STORY.len());
    for ((line, expected), answer) in STORY.iter().zip(&answers) {
        assert!(agrees(&text(answer), expected), "{line}: {answer:?}");
    }
}

#[test]
fn a_transaction_that_is_discarded_or_refused_does_nothing() {
    let (_server, client) = &mut TestServer::start_and_connect();
    let take = ("RLOCK.ACQUIRE lock alice 100000", "QUEUED");
    let arity = ("RLOCK.ACQUIRE lock", "!ERR wrong number of arguments for 'rlock.acquire' command");
    let aborted = "!EXECABORT Transaction discarded because of previous errors.";
    client.story(&[("MULTI", "OK"), take, ("DISCARD", "OK"), ("EXISTS lock", "0")]);
    client.story(&[("MULTI", "OK"), take, arity, ("EXEC", aborted), ("EXISTS lock", "0")]);
}

#[test]
fn commands_work_in_lua() {
    let server = server();
    let client = &mut server.connect();
    for (line, expected) in STORY {
        let words: Vec<&str> = line.split(' ').collect();
        let answer = text(&eval(client, "return redis.pcall(unpack(ARGV))", &words));
        assert!(agrees(&answer, expected), "{line}: {answer}");
    }
}

#[test]
fn lua_tells_null_as_false_and_integers_as_numbers() {
    let (_server, client) = &mut TestServer::start_and_connect();
    let script = "
        local taken = redis.call('RLOCK.ACQUIRE', 'lock', 'alice', 100000)
        local seen = {
            type(taken), #taken, taken[1] == 1, taken[2] == 100000, taken[3] == 0,
            redis.call('RLOCK.ACQUIRE', 'lock', 'bob', '100000') == false,
            redis.call('RLOCK.RELEASE', 'lock', 'bob') == false,
            redis.call('RLOCK.RENEW', 'lock', 'bob', 100000) == 0,
            redis.call('RLOCK.RENEW', 'lock', 'alice', 100000) == 1,
            redis.call('RLOCK.RELEASE', 'lock', 'alice') == 1,
            redis.call('RLOCK.FORCERELEASE', 'lock') == 0,
        }
        for at = 1, #seen do seen[at] = tostring(seen[at]) end
        return table.concat(seen, ' ')";
    let expected = r#""table 3 true true true true true true true true true""#;
    assert_eq!(text(&eval(client, script, &[])), expected);
}

#[test]
fn in_resp3_a_script_gets_nil_and_a_map() {
    let server = TestServer::start();
    let client = &mut server.connect_resp3();
    let script = "
        redis.setresp(3)
        redis.call('RLOCK.ACQUIRE', 'lock', 'alice', 100000)
        local info = redis.call('RLOCK.INFO', 'lock')['map']
        local holder = info['holders'][1]['map']
        local denied = redis.call('RLOCK.ACQUIRE', 'lock', 'bob', 100000)
        return {info['kind'], holder['owner'], holder['holds'], tostring(denied)}";
    assert_eq!(text(&eval(client, script, &[])), r#"["mutex", "alice", 1, "nil"]"#);
}

#[test]
fn an_error_in_lua_ends_the_script_or_is_a_value() {
    let server = server();
    let client = &mut server.connect();
    // What was done before the error stays, as with any command.
    let script = "
        redis.call('RLOCK.ACQUIRE', 'lock', 'alice', 100000)
        redis.call('RLOCK.ACQUIRE', 'text', 'alice', 100000)
        redis.call('RLOCK.FORCERELEASE', 'lock')";
    let answer = text(&eval(client, script, &[]));
    assert!(answer.starts_with(WRONGTYPE), "{answer}");
    client.story(&[("HGETALL lock", r#"["alice", "1"]"#)]);
    let script = "
        local refused = redis.pcall('RLOCK.RENEW', 'text', 'alice', 100000)
        redis.call('RLOCK.FORCERELEASE', 'lock')
        return refused['err']";
    assert_eq!(text(&eval(client, script, &[])), format!("\"{}\"", &WRONGTYPE[1..]));
    client.story(&[("EXISTS lock", "0")]);
}

#[test]
fn a_script_that_only_reads_may_ask_but_not_lock() {
    let (_server, client) = &mut held();
    let before = state(client, "lock");
    let script = "return redis.call(unpack(ARGV))";
    let told = say_words(client, &["EVAL_RO", script, "0", "RLOCK.INFO", "lock"]);
    assert!(told.contains(r#""owner", "alice""#), "{told}");
    for line in [
        "RLOCK.ACQUIRE lock alice 5",
        "RLOCK.RELEASE lock alice",
        "RLOCK.RENEW lock alice 5",
        "RLOCK.FORCERELEASE lock",
    ] {
        let words: Vec<&str> = ["EVAL_RO", script, "0"].into_iter().chain(line.split(' ')).collect();
        let answer = say_words(client, &words);
        assert!(answer.contains("Write commands are not allowed from read-only scripts"), "{answer}");
    }
    assert_eq!(state(client, "lock"), before);
}

#[test]
fn commands_work_in_a_function() {
    let (_server, client) = &mut TestServer::start_and_connect();
    let library = "#!lua name=locks
        redis.register_function('take', function(keys, args)
            return redis.call('RLOCK.ACQUIRE', keys[1], args[1], args[2])
        end)";
    assert_eq!(say_words(client, &["FUNCTION", "LOAD", library]), r#""locks""#);
    client.story(&[
        ("FCALL take 1 lock alice 100000", "[1, 100000, 0]"),
        ("FCALL take 1 lock bob 100000", "null"),
        ("FCALL take 1 lock alice 300000", "[2, 300000, 0]"),
    ]);
}

/// For the server time stands still while a script runs, and with it every lease.
#[test]
fn a_lease_does_not_end_inside_a_script() {
    let (_server, client) = &mut TestServer::start_and_connect();
    let script = "
        redis.call('RLOCK.ACQUIRE', 'lock', 'alice', 1)
        for _ = 1, 5000000 do end
        return {
            tostring(redis.call('RLOCK.ACQUIRE', 'lock', 'bob', 1)),
            redis.call('RLOCK.INFO', 'lock')[2],
            redis.call('RLOCK.RENEW', 'lock', 'alice', 1),
            redis.call('RLOCK.ACQUIRE', 'lock', 'alice', 1)[1],
            redis.call('RLOCK.RELEASE', 'lock', 'alice'),
            redis.call('RLOCK.RELEASE', 'lock', 'alice'),
            redis.call('RLOCK.ACQUIRE', 'lock', 'bob', 1)[1],
        }";
    let before = Instant::now();
    assert_eq!(text(&eval(client, script, &[])), r#"["false", "mutex", 1, 2, 0, 1, 1]"#);
    assert!(before.elapsed() > Duration::from_millis(3), "the script took longer than a lease");
    wait_for("bob's lease to end after the script", || say(client, "EXISTS lock") == "0");
}
