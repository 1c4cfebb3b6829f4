//! RLOCK.LIST: which locks are waited for.

use rlock_testkit::prelude::*;

/// A page: the next cursor, and the entries as `key waiters`.
#[track_caller]
fn page(client: &mut Connection, words: &[&[u8]]) -> (Vec<u8>, Vec<String>) {
    let Value::Array(parts) = ask(client, words) else { panic!("no array") };
    let [Value::BulkString(cursor), Value::Array(entries)] = &parts[..] else {
        panic!("{}", text(&parts[1]))
    };
    let entry = |entry: &Value| {
        let fields = fields(entry.clone());
        let names: Vec<&str> = fields.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["key", "waiter-count", "longest-wait-ms"]);
        let key: Vec<u8> = redis::from_redis_value(fields[0].1.clone()).unwrap();
        let age: i64 = redis::from_redis_value(fields[2].1.clone()).unwrap();
        assert!((0..60_000).contains(&age), "{age}");
        format!("{} {}", key.escape_ascii(), text(&fields[1].1))
    };
    (cursor.clone(), entries.iter().map(entry).collect())
}

#[track_caller]
fn list(client: &mut Connection, cursor: &[u8], limit: &str) -> (Vec<u8>, Vec<String>) {
    page(client, &[b"RLOCK.LIST", cursor, b"LIMIT", limit.as_bytes()])
}

/// Alice has these locks, each with this number of waiters.
#[track_caller]
fn awaited(client: &mut Connection, locks: &[(&[u8], usize)]) {
    for (key, waiters) in locks {
        assert_eq!(text(&ask(client, &[&b"RLOCK.ACQUIRE"[..], key, b"alice", b"100000"])), "[1, 100000, 0]");
        for number in 0..*waiters {
            let owner = format!("bob:{number}");
            let words: [&[u8]; 7] =
                [b"RLOCK.ACQUIRE", key, owner.as_bytes(), b"60000", b"ENQUEUE", b"0", b"news"];
            assert_eq!(text(&ask(client, &words)), "[0, 0, 0]");
        }
    }
}

#[test]
fn shows_what_is_waited_for_and_by_how_many() {
    let (server, client) = &mut TestServer::start_and_connect();
    assert_eq!(page(client, &[b"RLOCK.LIST", b"0"]), (b"0".to_vec(), vec![]));
    awaited(client, &[(b"b", 2), (b"a", 1), (b"held", 0), (b"nul\0 and \n", 3)]);
    let _blocked = Waiting::line(server, "RLOCK.ACQUIRE b carol 60000 FAIR BLOCK 0");
    let all = ["a 1", r"b 3", r"nul\x00 and \n 3"].map(String::from).to_vec();
    assert_eq!(page(client, &[b"rlock.list", b"0"]), (b"0".to_vec(), all));
    // Waiters of other databases are listed there only, and departed waiters nowhere.
    client.story(&[("SELECT 3", "OK")]);
    awaited(client, &[(b"three", 1)]);
    assert_eq!(page(client, &[b"RLOCK.LIST", b"0"]).1, ["three 1"]);
    client.story(&[("RLOCK.CANCEL three bob:0", "1")]);
    assert_eq!(page(client, &[b"RLOCK.LIST", b"0"]).1, [""; 0]);
}

#[test]
fn the_longest_wait_is_that_of_the_first() {
    let (_server, client) = &mut TestServer::start_and_connect();
    awaited(client, &[(b"lock", 1)]);
    std::thread::sleep(Duration::from_millis(50));
    awaited(client, &[(b"later", 1)]);
    let Value::Array(parts) = ask(client, &["RLOCK.LIST", "0"]) else { panic!("no array") };
    let Value::Array(entries) = &parts[1] else { panic!("no entries") };
    let waits = entries.iter().map(|entry| fields(entry.clone()).swap_remove(2).1);
    let waits: Vec<i64> = waits.map(|wait| redis::from_redis_value(wait).unwrap()).collect();
    assert!(waits[1] >= 50 && waits[0] < waits[1], "{waits:?}");
}

/// While others arrive and depart, a lock with a waiter all the time is shown once.
#[test]
fn a_cursor_shows_each_lock_once() {
    let (_server, client) = &mut TestServer::start_and_connect();
    let keys: Vec<String> = (0..25).map(|number| format!("stays:{number:02}")).collect();
    for key in &keys {
        awaited(client, &[(key.as_bytes(), 1)]);
    }
    let (mut cursor, mut seen, mut pages) = (b"0".to_vec(), Vec::new(), 0);
    loop {
        let (next, entries) = list(client, &cursor, "4");
        assert!(entries.len() <= 4);
        seen.extend(entries);
        pages += 1;
        if next == b"0" {
            break;
        }
        // The very lock that the cursor names is waited for no more, and one comes before it.
        let gone = String::from_utf8_lossy(&next[1..]).into_owned();
        say(client, &format!("RLOCK.CANCEL {gone} bob:0"));
        awaited(client, &[(format!("comes:{pages}").as_bytes(), 1)]);
        cursor = next;
    }
    assert_eq!(pages, 7);
    assert_eq!(seen, keys.iter().map(|key| format!("{key} 1")).collect::<Vec<_>>());
    // A page that is exactly full is the last where nothing follows.
    client.story(&[("SELECT 1", "OK")]);
    awaited(client, &[(b"a", 1), (b"b", 1)]);
    assert_eq!(list(client, b"0", "2"), (b"0".to_vec(), vec!["a 1".into(), "b 1".into()]));
    assert_eq!(list(client, b"0", "1"), (b">a".to_vec(), vec!["a 1".into()]));
    assert_eq!(list(client, b">a", "1"), (b"0".to_vec(), vec!["b 1".into()]));
    assert_eq!(list(client, b">", "1").1, ["a 1"]);
}

#[test]
fn wrong_arguments_are_refused() {
    let server = TestServer::start();
    let cursor = "!ERR invalid cursor: use 0, or the cursor of the last reply";
    let limit = "!ERR invalid LIMIT: use an integer from 1 to 4294967295";
    let arity = "!ERR wrong number of arguments for 'rlock.list' command";
    server.connect().story(&[
        ("RLOCK.LIST", arity),
        ("RLOCK.LIST 1", cursor),
        ("RLOCK.LIST -1", cursor),
        ("RLOCK.LIST 0 LIMIT 0", limit),
        ("RLOCK.LIST 0 LIMIT x", limit),
        ("RLOCK.LIST 0 LIMIT", "!ERR LIMIT needs a value"),
        ("RLOCK.LIST 0 LIMIT 1 LIMIT 1", "!ERR LIMIT appears twice; use it once"),
        ("RLOCK.LIST 0 COUNT 1", "!ERR unknown option 'COUNT'; see COMMAND DOCS"),
    ]);
}

/// It shows the names of all locks, so the permission to lock does not include it.
#[test]
fn is_for_operators_and_changes_nothing() {
    let (server, client) = &mut TestServer::start_and_connect();
    awaited(client, &[(b"lock", 1)]);
    let dirty = |client: &mut Connection| {
        (say(client, "LASTSAVE"), server.info("persistence")["rdb_changes_since_last_save"].clone())
    };
    let before = dirty(client);
    page(client, &[b"RLOCK.LIST", b"0"]);
    assert_eq!(dirty(client), before);
    assert_eq!(say(client, "COMMAND GETKEYS RLOCK.LIST 0"), "!ERR The command has no key arguments");
    let version = server.version();
    if version.name == ServerName::Redis && !version.is_at_least(ServerName::Redis, 7, 4) {
        return;
    }
    client.story(&[("ACL SETUSER app on >secret ~* &* +@rlock", "OK")]);
    let refused = say(&mut server.connect_as("app", "secret"), "RLOCK.LIST 0");
    assert!(refused.starts_with("!NOPERM "), "{refused}");
    // ACL CAT lists commands of modules on some servers only.
    let described = say(client, "COMMAND INFO rlock.list");
    assert!(described.contains("@dangerous"), "{described}");
}
