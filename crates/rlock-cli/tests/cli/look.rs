//! status, release, force-release and ls, as text and as JSON.

use crate::support::{RLOCK, Running, ask, await_waiters, program, rlock, start, url};
use rlock_testkit::TestServer;
use serde_json::{Value, json};

/// Replaces numbers that depend on time by whether they are within the range.
#[track_caller]
fn check_time(object: &mut Value, field: &str, from: i64, to: i64) {
    let time = object.get(field).and_then(Value::as_i64).unwrap_or_else(|| panic!("no {field} in {object}"));
    assert!((from..=to).contains(&time), "{field} of {object}");
    object.as_object_mut().unwrap().remove(field);
}

#[test]
fn status_shows_a_free_lock_and_one_without_an_expiry() {
    let server = TestServer::start();
    rlock(&server, &["status", "job"]).is(1, "job  free\n");
    let ended = rlock(&server, &["status", "job", "--json"]);
    assert_eq!(ended.code, Some(1));
    let expected = json!({
        "key": "job", "kind": "none", "held": false, "lease_ms": -2, "token": 0,
        "holder_count": 0, "waiter_count": 0, "probably_no_lock": false, "holders": [], "queue": [],
    });
    assert_eq!(ended.json(), [expected]);
    ask::<i64>(&mut server.connect(), "HSET job alice:1 1");
    rlock(&server, &["status", "job"]).is(0, "job  held, for ever\n  holder  alice:1  1 hold\n");
}

#[test]
fn status_shows_holders_and_waiters() {
    let (server, client) = &mut TestServer::builder().start_and_connect();
    ask::<redis::Value>(client, "RLOCK.ACQUIRE job alice:1 100000 HOLDS 1");
    ask::<redis::Value>(client, "RLOCK.ACQUIRE job alice:1 100000 HOLDS 2");
    let _waits = start(server, &["run", "job", "--wait", "1000s", "--", "true"]);
    await_waiters(client, "job", 1);
    let text = rlock(server, &["status", "job"]);
    assert_eq!(text.code, Some(0));
    let lines: Vec<&str> = text.stdout.lines().collect();
    assert!(lines[0].starts_with("job  held, 1m3") && lines[0].ends_with("s left"), "{lines:?}");
    assert_eq!(lines[1], "  holder  alice:1  2 holds");
    assert!(lines[2].starts_with("     1.  ") && lines[2].contains(":1  waits "), "{lines:?}");
    assert!(lines[2].contains(" by enqueue, gives up in 16m") && lines.len() == 3, "{lines:?}");

    let mut found = rlock(server, &["--json", "status", "job"]).json();
    check_time(&mut found[0], "lease_ms", 50_000, 100_000);
    check_time(&mut found[0]["holders"][0], "lease_ms", 50_000, 100_000);
    check_time(&mut found[0]["queue"][0], "age_ms", 0, 50_000);
    check_time(&mut found[0]["queue"][0], "wait_left_ms", 900_000, 1_000_000);
    check_time(&mut found[0]["queue"][0], "client_id", 1, 1_000);
    assert!(found[0]["queue"][0]["owner"].as_str().unwrap().ends_with(":1"));
    assert_eq!(found[0]["queue"][0]["via"], "enqueue");
    assert_eq!(found[0]["holders"], json!([{"owner": "alice:1", "mode": null, "holds": 2}]));
    assert_eq!(found[0]["waiter_count"], 1);
}

/// A token is the server's time of the acquisition. Nothing else on the server says since when a lock is held.
#[test]
fn status_shows_how_long_ago_the_last_fencing_token_was_given() {
    let (server, client) = &mut TestServer::builder().start_and_connect();
    ask::<redis::Value>(client, "RLOCK.ACQUIRE job alice:1 100000 FENCED");
    std::thread::sleep(std::time::Duration::from_millis(1_100));
    let text = rlock(server, &["status", "job"]).stdout;
    let last = text.lines().last().unwrap_or_default();
    assert!(last.starts_with("  last fencing token ") && last.ends_with("s ago"), "{text}");
    let age = rlock(server, &["status", "job", "--json"]).json()[0]["token_age_ms"].as_i64();
    assert!(age.is_some_and(|age| (1_100..60_000).contains(&age)), "{age:?}");
    ask::<i64>(client, "RLOCK.RELEASE job alice:1");
    rlock(server, &["status", "job"]).is(1, "job  free\n");
    ask::<redis::Value>(client, "RLOCK.ACQUIRE plain alice:1 100000");
    assert!(!rlock(server, &["status", "plain"]).stdout.contains("token"));
}

#[test]
fn release_ends_all_holds_of_an_owner() {
    let (server, client) = &mut TestServer::builder().start_and_connect();
    ask::<redis::Value>(client, "RLOCK.ACQUIRE job alice:1 100000 HOLDS 1");
    ask::<redis::Value>(client, "RLOCK.ACQUIRE job alice:1 100000 HOLDS 2");
    rlock(server, &["release", "job", "--owner", "bob:1"])
        .is(1, "job  nothing was released: bob:1 does not hold it\n");
    rlock(server, &["release", "job", "--owner", "alice:1"]).is(0, "job  released\n");
    assert_eq!(ask::<i64>(client, "EXISTS job"), 0);
    let ended = rlock(server, &["release", "job", "--owner", "alice:1", "--json"]);
    assert_eq!(ended.code, Some(1));
    assert_eq!(ended.json(), [json!({"key": "job", "owner": "alice:1", "released": false})]);
}

/// After a machine died, what it held.
#[test]
fn holders_are_found_and_released_by_a_pattern() {
    let (server, client) = &mut TestServer::builder().start_and_connect();
    let held = [("a", "shop@web-2:10:x:1"), ("b", "shop@web-3:10:x:1"), ("c", "report@web-2:7:x:1")];
    for (lock, owner) in held {
        ask::<redis::Value>(client, &format!("RLOCK.ACQUIRE {lock} {owner} 100000"));
    }
    for owner in ["shop@web-2:10:x:2", "shop@web-2:10:x:3", "shop@web-3:10:x:2"] {
        ask::<redis::Value>(client, &format!("RLOCK.ACQUIRE pages {owner} 100000 READ"));
    }
    ask::<redis::Value>(client, "RLOCK.ACQUIRE seats shop@web-2:10:x:4 100000 PERMITS 3");
    // Not a lock, though its field matches.
    ask::<i64>(client, "HSET counter shop@web-2:visits 17");
    let ls = rlock(server, &["ls", "--holder", "shop@web-2:*", "--json"]);
    let mut found: Vec<_> = ls.json().iter().map(|lock| lock["key"].as_str().unwrap().to_string()).collect();
    found.sort_unstable();
    assert_eq!(found, ["a", "counter", "pages", "seats"]);
    let pages = ls.json().into_iter().find(|lock| lock["key"] == "pages").unwrap();
    assert_eq!(pages["holders"].as_array().unwrap().len(), 2, "{pages}");
    rlock(server, &["ls", "--holder", "*@web-9:*"]).is(0, "");
    rlock(server, &["release", "--holder", "shop@web-2:*"]).fails(125, &["no terminal", "--yes"]);
    rlock(server, &["release", "--holder", "shop@web-9:*", "--yes"]).is(1, "");
    let ended = rlock(server, &["release", "--holder", "shop@web-?:10:x:*", "--yes"]);
    let mut lines: Vec<_> = ended.stdout.lines().collect();
    lines.sort_unstable();
    let released = ["a", "b", "pages", "pages", "pages", "seats"].map(|lock| format!("{lock}  released"));
    assert_eq!((ended.code, lines), (Some(0), released.iter().map(String::as_str).collect()));
    assert_eq!(ask::<i64>(client, "EXISTS a b pages seats"), 0);
    assert_eq!(ask::<i64>(client, "EXISTS c counter"), 2);
}

#[test]
fn force_release_wants_a_yes() {
    let (server, client) = &mut TestServer::builder().start_and_connect();
    ask::<redis::Value>(client, "RLOCK.ACQUIRE job alice:1 100000");
    rlock(server, &["force-release", "job"]).fails(125, &["no terminal", "--yes"]);
    assert_eq!(ask::<i64>(client, "EXISTS job"), 1);
    rlock(server, &["force-release", "job", "--yes"]).is(0, "job  released\n");
    assert_eq!(ask::<i64>(client, "EXISTS job"), 0);
    rlock(server, &["force-release", "job", "--yes"]).is(1, "job  nothing was released\n");
    let ended = rlock(server, &["force-release", "job", "-y", "--json"]);
    assert_eq!(ended.json(), [json!({"key": "job", "owner": null, "released": false})]);
}

#[test]
fn names_of_any_bytes_do_no_harm_on_a_terminal() {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;
    let server = TestServer::start();
    let key = b"\x1b[2J\xff\\ \n";
    let mut acquire = redis::cmd("RLOCK.ACQUIRE");
    acquire.arg(key).arg(b"\x07bell\xfe").arg(100_000);
    acquire.query::<redis::Value>(&mut server.connect()).unwrap();
    let ended = rlock(&server, &[OsStr::new("status"), OsStr::from_bytes(key)]);
    assert!(ended.stdout.starts_with("\\x1b[2J\\xff\\\\ \\x0a  held"), "{ended:?}");
    assert!(ended.stdout.contains("holder  \\x07bell\\xfe  1 hold"), "{ended:?}");
    let found = rlock(&server, &["ls", "--json"]).json();
    assert_eq!(found[0]["key"], "\\x1b[2J\\xff\\\\ \\x0a");
}

/// Locks, and keys of every other shape, in a database of many keys.
#[test]
fn ls_finds_locks_by_their_shape() {
    let (server, client) = &mut TestServer::builder().start_and_connect();
    for line in [
        "RLOCK.ACQUIRE invoice:7 alice:1 100000",
        "RLOCK.ACQUIRE invoice:8 bob:1 100000",
        "RLOCK.ACQUIRE report carol:1 100000",
        "SET text 1",
        "HSET two a 1 b 2",
        "HSET word a b",
        "HSET mode-only mode read",
        "HSET reading mode read alice:1 1",
        "RPUSH list a",
    ] {
        ask::<redis::Value>(client, line);
    }
    let mut filler = redis::pipe();
    for number in 0..5_000 {
        filler.cmd("HSET").arg(format!("data:{number}")).arg("a").arg("x").arg("b").arg(1).ignore();
    }
    filler.query::<()>(client).unwrap();
    let _waits = start(server, &["run", "invoice:7", "--", "true"]);
    await_waiters(client, "invoice:7", 1);

    let ended = rlock(server, &["ls"]);
    let mut lines: Vec<&str> = ended.stdout.lines().collect();
    lines.sort_unstable();
    let expected =
        [("invoice:7  alice:1", ", 1 waiting"), ("invoice:8  bob:1", " left"), ("report  carol:1", " left")];
    assert_eq!(lines.len(), expected.len(), "{ended:?}");
    for (line, (start, end)) in lines.iter().zip(expected) {
        assert!(line.starts_with(start) && line.contains("1 hold, 1m") && line.ends_with(end), "{line}");
    }
    let mut keys: Vec<String> = rlock(server, &["--json", "ls", "invoice:*"])
        .json()
        .into_iter()
        .map(|lock| format!("{} {}", lock["key"], lock["holders"][0]["owner"]))
        .collect();
    keys.sort();
    assert_eq!(keys, [r#""invoice:7" "alice:1""#, r#""invoice:8" "bob:1""#]);
    rlock(server, &["ls", "nothing*"]).is(0, "");
    // No KEYS, and thousands of keys that the module was not asked for.
    assert!(!server.info("commandstats").contains_key("cmdstat_keys"));
    assert_eq!(server.info("rlock")["rlock_errors"], "1", "`word` could be a lock");
}

#[test]
fn permits_in_use_are_shown() {
    let (server, client) = &mut TestServer::builder().start_and_connect();
    for line in [
        "RLOCK.ACQUIRE printers alice:1 100000 PERMITS 2",
        "RLOCK.ACQUIRE printers bob:1 90000 PERMITS 2",
        "RLOCK.ACQUIRE scanner carol:1 100000 PERMITS 1",
        "ZADD leaders 100 ann 200 bob",
        "EXPIRE leaders 1000",
        "ZADD times 1700000000000 x",
    ] {
        ask::<redis::Value>(client, line);
    }
    let _waits = start(server, &["run", "printers", "--permits", "2", "--", "true"]);
    await_waiters(client, "printers", 1);
    let status = rlock(server, &["status", "printers"]);
    let lines: Vec<&str> = status.stdout.lines().collect();
    assert!(lines[0].starts_with("printers  2 permits in use, 1m3"), "{lines:?}");
    assert!(lines[1].starts_with("  holder  bob:1  1 permit, 1m2"), "{lines:?}");
    assert!(lines[2].starts_with("  holder  alice:1  1 permit, 1m3"), "{lines:?}");
    assert!(lines[3].contains(" by enqueue, permit, "), "{lines:?}");
    let ended = rlock(server, &["ls"]);
    let mut lines: Vec<&str> = ended.stdout.lines().collect();
    lines.sort_unstable();
    assert!(
        lines[0].starts_with("printers  2 permits in use, 1m3") && lines[0].ends_with(", 1 waiting"),
        "{lines:?}"
    );
    assert!(lines[1].starts_with("scanner  1 permit in use, 1m3") && lines.len() == 2, "{lines:?}");
    assert_eq!(server.info("rlock")["rlock_errors"], "0", "the module was asked for locks only");
}

#[test]
fn ls_shows_what_is_waited_for() {
    let (server, client) = &mut TestServer::builder().start_and_connect();
    for line in ["RLOCK.ACQUIRE invoice:7 alice:1 100000", "RLOCK.ACQUIRE invoice:8 bob:1 100000"] {
        ask::<redis::Value>(client, line);
    }
    assert_eq!(rlock(server, &["ls", "--waiting"]).stdout, "");
    // More than one page of them, in the order of their names.
    for number in 0..1_010 {
        ask::<redis::Value>(client, &format!("RLOCK.ACQUIRE job:{number:04} alice:1 100000"));
        ask::<redis::Value>(client, &format!("RLOCK.ACQUIRE job:{number:04} carol:1 1000 ENQUEUE 0 news"));
    }
    let _waits = start(server, &["run", "invoice:7", "--", "true"]);
    await_waiters(client, "invoice:7", 1);
    let ended = rlock(server, &["ls", "--waiting"]);
    let lines: Vec<&str> = ended.stdout.lines().collect();
    assert_eq!(lines.len(), 1_011, "{}", ended.stderr);
    assert!(lines[0].starts_with("invoice:7  alice:1") && lines[0].ends_with(", 1 waiting"), "{}", lines[0]);
    assert!(lines[1_010].starts_with("job:1009  alice:1"), "{}", lines[1_010]);
    let json = rlock(server, &["ls", "--waiting", "--json"]).stdout;
    assert_eq!(json.lines().filter(|line| line.contains(r#""waiter_count":1"#)).count(), 1_011);
}

/// A counter in a hash looks like a lock: it was listed as one, and `force-release` deleted it.
#[test]
fn what_is_probably_no_lock_is_marked_and_left_alone() {
    let (server, client) = &mut TestServer::builder().start_and_connect();
    let uuid = "0f8fad5b-d9cb-469f-a165-70867728950e:1";
    for line in [
        "HSET counter visits 17",
        "HSET settings mode write retries:write 3",
        &format!("HSET redisson {uuid} 1"),
        "HSET lease alice:1 1",
        "PEXPIRE lease 1000000",
        "HSET token alice:1 1",
        "SET redisson_lock_token:{token} 7",
        "HSET waited alice:1 1",
        "RLOCK.ACQUIRE persisted alice:1 1000000 HOLDS 1",
        "PERSIST persisted",
    ] {
        ask::<redis::Value>(client, line);
    }
    let _waits = start(server, &["run", "waited", "--", "true"]);
    await_waiters(client, "waited", 1);
    let doubtful = ["counter", "persisted", "settings"];
    let locks = ["lease", "redisson", "token", "waited"];
    let listed = rlock(server, &["ls"]);
    let json = rlock(server, &["ls", "--json"]).json();
    for (key, doubt) in doubtful.map(|key| (key, true)).into_iter().chain(locks.map(|key| (key, false))) {
        let line = listed.stdout.lines().find(|line| line.starts_with(&format!("{key}  ")));
        let line = line.unwrap_or_else(|| panic!("no {key} in {listed:?}"));
        assert_eq!(line.ends_with("(probably no lock)"), doubt, "{line}");
        let object = json.iter().find(|object| object["key"] == key).expect("JSON");
        assert_eq!(object["probably_no_lock"], doubt, "{object}");
        let words = ["force-release", key, "--yes", "--any"];
        let words = if doubt { &words[..] } else { &words[..3] };
        if doubt {
            let ended = rlock(server, &words[..3]);
            ended.fails(125, &[&format!("{key} is probably no lock"), "nothing was changed", "add --any"]);
            assert_eq!(ask::<i64>(client, &format!("EXISTS {key}")), 1);
        }
        rlock(server, words).is(0, &format!("{key}  released\n"));
    }
}

#[test]
fn a_closed_output_ends_ls_quietly() {
    let (server, client) = &mut TestServer::builder().start_and_connect();
    for number in 0..20 {
        ask::<redis::Value>(client, &format!("RLOCK.ACQUIRE job:{number} alice:1 100000"));
    }
    let mut command = program(&["sh", "-c", &format!("{RLOCK} ls | head -n 1")]);
    command.env("REDIS_URL", url(server));
    let ended = Running::start(command).ended();
    assert!(ended.stdout.starts_with("job:") && ended.stdout.lines().count() == 1, "{ended:?}");
    assert_eq!(ended.stderr, "");
}
