//! What an operator sees: the section in INFO, the warning, COMMAND DOCS.

use rlock_testkit::Inline;
use rlock_testkit::prelude::*;

const PAGE: &str = include_str!("../../docs/COMMANDS.md");

/// Lines that do everything that is counted, and what each counts.
const COUNTED: [(&str, &str, &[&str]); 23] = [
    ("RLOCK.ACQUIRE a alice 100000", "[1, 100000, 0]", &["acquired"]),
    ("RLOCK.ACQUIRE a alice 100000", "[2, 100000, 0]", &["reentered"]),
    ("RLOCK.ACQUIRE a alice 1000 HOLDS 2", "[2, ~100000, 0]", &["reentered"]),
    ("RLOCK.ACQUIRE a bob 100000", "null", &["denied"]),
    ("RLOCK.ACQUIRE a alice 100000 HOLDS 9", "null", &["denied"]),
    ("RLOCK.ACQUIRE free alice 100000 HOLDS 2", "null", &["denied"]),
    ("RLOCK.RENEW a alice 200000", "1", &["renewed"]),
    ("RLOCK.RENEW a bob 200000", "0", &["not_held"]),
    ("RLOCK.RENEW free bob 200000", "0", &["not_held"]),
    ("RLOCK.RELEASE a bob", "null", &["not_held"]),
    ("RLOCK.RELEASE a alice", "0", &["partly_released"]),
    ("RLOCK.RELEASE a alice HOLDS 1", "0", &["partly_released"]),
    ("RLOCK.ACQUIRE a alice 1000 HOLDS 1", "[1, ~200000, 0]", &["reentered"]),
    ("RLOCK.RELEASE a alice", "1", &["released", "unlock_messages"]),
    ("RLOCK.ACQUIRE a alice 100000 HOLDS 1", "[1, 100000, 0]", &["acquired"]),
    ("RLOCK.FORCERELEASE a bob", "0", &[]),
    ("RLOCK.FORCERELEASE a", "1", &["force_released", "unlock_messages"]),
    ("RLOCK.FORCERELEASE a", "0", &[]),
    ("RLOCK.INFO a LIMIT 0", INFO, &[]),
    ("HSET hash a b", "1", &[]),
    (
        "RLOCK.ACQUIRE hash alice 100000",
        "!WRONGLOCK the key holds a hash that is not a lock; use another key",
        &["errors"],
    ),
    (
        "RLOCK.ACQUIRE a mode 100000",
        "!ERR invalid owner: use 1 to 512 bytes, not 'mode' and not ending in ':write'",
        &["errors"],
    ),
    ("RLOCK.INFO a LIMIT x", "!ERR invalid LIMIT: use an integer from 0 to 4294967295", &["errors"]),
];

const INFO: &str = r#"["kind", "none", "mode", null, "lease-ms", -2, "token", 0, "holder-count", 0, "waiter-count", 0, "holders", [], "queue", []]"#;

const COUNTERS: [&str; 12] = [
    "acquired",
    "reentered",
    "denied",
    "released",
    "partly_released",
    "renewed",
    "not_held",
    "force_released",
    "unlock_messages",
    "errors",
    "replication_failures",
    "panics",
];

fn counters(server: &TestServer) -> [u64; 12] {
    let info = server.info("rlock");
    COUNTERS.map(|name| info[&format!("rlock_{name}")].parse().unwrap())
}

#[test]
fn the_section_counts_what_happened() {
    let (server, client) = &mut TestServer::start_and_connect();
    let mut expected = counters(server);
    assert_eq!(expected, [0; 12]);
    for (line, answer, counts) in COUNTED {
        let said = say(client, line);
        assert!(agrees(&said, answer), "{line}: {said}, and not {answer}");
        for (counter, name) in expected.iter_mut().zip(COUNTERS) {
            *counter += u64::from(counts.contains(&name));
        }
        assert_eq!(counters(server), expected, "{line}");
    }
    let info = server.info("rlock");
    assert_eq!(info["rlock_version"], "0.1.0");
    assert_eq!(info["rlock_accept"], "1");
    assert_eq!(info["rlock_locks_may_be_evicted"], "0");
    // The changes without readers, seventeen counters of waits, waiters and ties with their limits, the share of a user and
    // the largest in use, a histogram of thirteen and its sum; and the warning of a faulty server.
    let warned = usize::from(info.contains_key("rlock_server_warning"));
    assert_eq!(info.len(), COUNTERS.len() + 3 + 1 + 17 + 4 + 3 + 13 + 1 + warned, "{info:?}");
    for section in ["modules", "everything"] {
        assert_eq!(server.info(section)["rlock_acquired"], info["rlock_acquired"], "{section}");
    }
}

/// How often the log warns that locks may be evicted.
fn warnings(server: &TestServer) -> usize {
    server.log().matches("maxmemory-policy may evict locks").count()
}

/// The section's answer: the number, and whether there is a warning.
fn told(server: &TestServer) -> (String, bool) {
    let info = server.info("rlock");
    let warning = info.get("rlock_warning");
    assert!(warning.is_none_or(|text| text.contains("set maxmemory-policy noeviction")), "{warning:?}");
    (info["rlock_locks_may_be_evicted"].clone(), warning.is_some())
}

#[test]
fn a_policy_that_may_evict_locks_is_warned_of() {
    let (safe, dangerous) = (("0".to_owned(), false), ("1".to_owned(), true));
    let server = TestServer::start();
    assert_eq!((warnings(&server), told(&server)), (0, safe.clone()));
    let client = &mut server.connect();
    for (setting, warned, expected) in [
        ("maxmemory-policy allkeys-lru", 0, &safe),
        ("maxmemory 200mb", 1, &dangerous),
        ("maxmemory 300mb", 2, &dangerous),
        ("maxmemory-policy volatile-ttl", 3, &dangerous),
        ("rlock.accept no", 3, &dangerous),
        ("maxmemory-policy noeviction", 3, &safe),
        ("maxmemory-policy volatile-lfu maxmemory 100mb", 4, &dangerous),
        ("maxmemory 0", 4, &safe),
    ] {
        assert_eq!(say(client, &format!("CONFIG SET {setting}")), "OK");
        assert_eq!((warnings(&server), told(&server)), (warned, expected.clone()), "{setting}");
    }
    let builder = TestServer::builder().conf("maxmemory", "100mb");
    let server = builder.conf("maxmemory-policy", "volatile-lru").start();
    assert_eq!((warnings(&server), told(&server)), (1, dangerous.clone()), "at load");
    assert_eq!(say(&mut server.connect(), "CONFIG SET maxmemory-policy noeviction"), "OK");
    assert_eq!(told(&server), safe);
    let server = TestServer::builder().conf("maxmemory-policy", "allkeys-random").start();
    assert_eq!((warnings(&server), told(&server)), (0, safe), "no limit, no eviction");
}

/// The value of a key in a map of the server's reply.
#[track_caller]
fn field<'a>(map: &'a Value, name: &str) -> Option<&'a Value> {
    let Value::Map(pairs) = map else { panic!("no map: {map:?}") };
    pairs.iter().find(|(key, _)| text_of(key) == name).map(|(_, value)| value)
}

#[track_caller]
fn text_of(value: &Value) -> String {
    match value {
        Value::BulkString(bytes) => String::from_utf8(bytes.clone()).unwrap(),
        Value::SimpleString(text) => text.clone(),
        other => panic!("no text: {other:?}"),
    }
}

/// An argument as COMMAND DOCS describes it, in the notation of the page.
fn notation(argument: &Value) -> String {
    let name = text_of(field(argument, "name").unwrap());
    let token = field(argument, "token").map(text_of);
    let body = match text_of(field(argument, "type").unwrap()).as_str() {
        "oneof" => list(field(argument, "arguments").unwrap()).join(" | "),
        "block" => {
            let parts = list(field(argument, "arguments").unwrap()).join(" ");
            token.map_or(parts.clone(), |token| format!("{token} {parts}"))
        }
        "pure-token" => token.unwrap(),
        _ => token.map_or(name.clone(), |token| format!("{token} {name}")),
    };
    let Some(Value::Set(flags) | Value::Array(flags)) = field(argument, "flags") else { return body };
    if flags.iter().map(text_of).any(|flag| flag == "optional") { format!("[{body}]") } else { body }
}

fn list(arguments: &Value) -> Vec<String> {
    let Value::Array(arguments) = arguments else { panic!("no list: {arguments:?}") };
    arguments.iter().map(notation).collect()
}

/// The syntax lines of the page. Those of its example are in columns.
fn syntax_lines() -> Vec<&'static str> {
    PAGE.lines().filter(|line| line.starts_with("RLOCK.") && !line.contains("  ")).collect()
}

#[test]
fn command_docs_describe_every_command() {
    let server = TestServer::start();
    let client = &mut server.connect_resp3();
    let lines = syntax_lines();
    assert_eq!(lines.len(), 8, "{lines:?}");
    for line in lines {
        let (name, arguments) = line.split_once(' ').unwrap();
        let docs = ask(client, &["COMMAND", "DOCS", name]);
        let docs = field(&docs, &name.to_lowercase()).unwrap();
        assert_eq!(list(field(docs, "arguments").unwrap()).join(" "), arguments, "{name}");
        for told in ["summary", "since", "complexity"] {
            assert!(!text_of(field(docs, told).unwrap()).is_empty(), "{name}: {told}");
        }
        assert_eq!(text_of(field(docs, "module").unwrap()), "rlock");
    }
}

#[test]
fn the_server_knows_which_argument_is_the_key() {
    let (_server, client) = &mut TestServer::start_and_connect();
    for (line, keys) in [
        ("RLOCK.ACQUIRE k o 1 HOLDS 1", r#"["k"]"#),
        ("RLOCK.RELEASE k o ALL", r#"["k"]"#),
        ("RLOCK.RENEW k o 1", r#"["k"]"#),
        ("RLOCK.INFO k LIMIT 1", r#"["k"]"#),
        ("RLOCK.FORCERELEASE k o", r#"["k"]"#),
    ] {
        assert_eq!(say(client, &format!("COMMAND GETKEYS {line}")), keys, "{line}");
        let with_flags = say(client, &format!("COMMAND GETKEYSANDFLAGS {line}"));
        assert!(with_flags.starts_with(r#"[["k", ["#), "{line}: {with_flags}");
        assert_eq!(with_flags.contains("RW"), !line.contains("INFO"), "{line}: {with_flags}");
    }
}

#[test]
fn commands_say_what_they_do() {
    let (_server, client) = &mut TestServer::start_and_connect();
    for (name, arity, flags) in [
        ("acquire", -4, &["write", "denyoom"][..]),
        ("release", -3, &["write"]),
        ("renew", -4, &["write"]),
        ("info", -2, &["readonly"]),
        ("list", -2, &["readonly"]),
        ("hot", -1, &["readonly"]),
        ("forcerelease", -2, &["write"]),
        ("cancel", 3, &["write"]),
    ] {
        let mut told = flags_of(client, name);
        told.1.retain(|flag| flag != "module");
        assert_eq!(told, (arity, flags.iter().map(ToString::to_string).collect()), "{name}");
    }
}

/// Arity and flags by COMMAND INFO.
#[track_caller]
fn flags_of(client: &mut Connection, name: &str) -> (i64, Vec<String>) {
    let info = ask(client, &["COMMAND", "INFO", &format!("rlock.{name}")]);
    let Value::Array(commands) = info else { panic!("{info:?}") };
    let Value::Array(command) = &commands[0] else { panic!("{commands:?}") };
    match &command[1..3] {
        [Value::Int(arity), Value::Array(flags)] => (*arity, flags.iter().map(text_of).collect()),
        other => panic!("{other:?}"),
    }
}

/// What MONITOR shows until it shows `ECHO end`.
#[track_caller]
fn monitored(monitor: &mut Inline, client: &mut Connection) -> Vec<String> {
    say(client, "ECHO end");
    let lines = std::iter::repeat_with(|| monitor.one_line().to_ascii_lowercase());
    lines.take_while(|line| !line.ends_with(r#""echo" "end""#)).collect()
}

/// Outside a command the module asks whether it may write, by a write that does nothing: operators see it in MONITOR.
#[test]
fn monitor_shows_the_permission_probe() {
    let (server, client) = &mut TestServer::start_and_connect();
    let monitor = &mut Inline::connect(server, SOON);
    monitor.say("MONITOR", "+OK\r\n");
    let probes = |lines: Vec<String>| {
        lines.iter().filter(|line| line.ends_with(r#""zremrangebyrank" "lock" "1" "0""#)).count()
    };
    // Commands alone, also one that hands the lock on: no probe.
    let mut bob = server.connect();
    let answer = std::thread::scope(|scope| {
        client.story(&[("RLOCK.ACQUIRE lock alice 100000", "[1, 100000, 0]")]);
        let answer = scope.spawn(move || say(&mut bob, "RLOCK.ACQUIRE lock bob 100000 BLOCK 60000"));
        while !say(client, "RLOCK.INFO lock").contains(r#""waiter-count", 1"#) {}
        client.story(&[("RLOCK.RENEW lock alice 100000", "1"), ("RLOCK.RELEASE lock alice", "1")]);
        answer.join().unwrap()
    });
    assert_eq!(answer, "[1, 100000, 0]");
    assert_eq!(probes(monitored(monitor, client)), 0);
    // A command other than rlock's frees the lock: one probe, and it changes nothing.
    let (mut carol, keys) = (server.connect(), say(client, "DBSIZE"));
    let answer = std::thread::scope(|scope| {
        let answer = scope.spawn(move || say(&mut carol, "RLOCK.ACQUIRE lock carol 100000 BLOCK 60000"));
        while !say(client, "RLOCK.INFO lock").contains(r#""waiter-count", 1"#) {}
        client.story(&[("DEL lock", "1")]);
        answer.join().unwrap()
    });
    assert_eq!((answer.as_str(), keys), ("[1, 100000, 0]", say(client, "DBSIZE")));
    assert_eq!(probes(monitored(monitor, client)), 1);
}
