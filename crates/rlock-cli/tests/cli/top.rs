//! `rlock top --once`, for scripts and for a look without a terminal.

use rlock_testkit::TestServer;
use rlock_testkit::clients::cluster::Cluster;
use rlock_testkit::commands::{say, story};

use crate::support::{address, ask, at, rlock, url_of};

/// Prints the tables after a tenth of a second.
const ONCE: [&str; 4] = ["top", "--once", "--interval", "100ms"];

fn is_the_same_in_json(server: &TestServer) {
    let objects = rlock(server, &[&ONCE[..], &["--json"]].concat()).json();
    let [object] = &objects[..] else { panic!("{objects:?}") };
    assert_eq!(object["server"], address(server));
    assert_eq!((&object["waiters"], &object["rates"]["timeouts"]), (&0.into(), &0.0.into()));
    let job = &object["locks"][0];
    assert_eq!(
        (&job["db"], &job["key"], &job["waits"], &job["waiters"]),
        (&0.into(), &"job".into(), &1.into(), &0.into())
    );
    assert!(job["waited_ms"].as_u64() >= Some(30) && job["longest_ms"] == job["waited_ms"], "{job}");
    let process = serde_json::json!({"name": "web", "host": "app-3", "pid": 4711});
    assert_eq!((&job["holders"], &job["holder"]["process"]), (&1.into(), &process));
}

#[test]
fn prints_the_tables_once() {
    let (server, client) = &mut TestServer::builder().start_and_connect();
    let empty = rlock(server, &ONCE);
    assert!(empty.stdout.ends_with("\nNo lock has cost any waiting.\n"), "{empty:?}");
    story(
        client,
        &[
            ("RLOCK.ACQUIRE job web@app-3:4711:0f8fad5bd9cb469f:5 100000", "[1, 100000, 0]"),
            ("RLOCK.ACQUIRE job b 1", "null"),
            ("RLOCK.ACQUIRE job b 1 BLOCK 30", "null"),
            ("SELECT 3", "OK"),
            ("RLOCK.ACQUIRE other a 100000 READ", "[1, 100000, 0]"),
            ("RLOCK.ACQUIRE other c 100000 READ", "[1, 100000, 0]"),
            ("RLOCK.ACQUIRE other b 1 WRITE", "null"),
        ],
    );
    let ended = rlock(server, &ONCE);
    let lines: Vec<&str> = ended.stdout.lines().collect();
    assert_eq!((ended.code, lines.len()), (Some(0), 6), "{ended:?}");
    let words = |line: &str| line.split_whitespace().map(str::to_string).collect::<Vec<_>>();
    assert_eq!(
        words(lines[0]),
        ["SERVER", "ACQUIRED/s", "DENIED/s", "HAND-OFFS/s", "TIME-OUTS/s", "WAITERS"]
    );
    let address = address(server);
    assert_eq!(words(lines[1]), [&address, "0.0", "0.0", "0.0", "0.0", "0"]);
    let job = words(lines[4]);
    assert_eq!(
        (job[0].as_str(), &job[2], &job[4..]),
        ("job", &"0".to_string(), &["1", "1", "web@app-3:4711"].map(String::from)[..])
    );
    assert!(lines[5].starts_with("[3] other ") && lines[5].ends_with(" +1"), "{ended:?}");
    is_the_same_in_json(server);
    let filtered = rlock(server, &[&ONCE[..], &["--filter", "other", "--sort", "name"]].concat());
    assert!(!filtered.stdout.contains("job") && filtered.stdout.contains("[3] other"), "{filtered:?}");
}

/// As an operator would: three servers, a stuck lock, a herd, and a server that dies.
#[test]
fn a_cluster_is_shown_from_any_node() {
    let mut cluster = Cluster::start(3);
    let keys = [0, 1, 2].map(|number| cluster.lock_on(number, 'a'));
    let owner = "batch@db-1:99:0f8fad5bd9cb469f:1";
    for (node, key) in cluster.primaries.iter().zip(&keys) {
        let held = format!("RLOCK.ACQUIRE {key} {owner} 1000000");
        let waited = format!("RLOCK.ACQUIRE {key} b:1 1 BLOCK 30");
        story(&mut node.connect(), &[(&held, "[1, 1000000, 0]"), (&waited, "null")]);
    }
    let url = format!("redis+cluster://{}", address(&cluster.primaries[1]));
    let ended = at(&url, &ONCE);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    for key in &keys {
        let is_row = |line: &str| line.starts_with(&format!("{key} ")) && line.ends_with("batch@db-1:99");
        assert!(ended.stdout.lines().any(is_row), "{ended:?}");
    }
    let dead = address(&cluster.primaries[2]);
    cluster.kill(2);
    let ended = at(&url, &[&ONCE[..], &["--json"]].concat());
    assert_eq!(ended.code, Some(1), "{ended:?}");
    let objects = ended.json();
    let object = objects.iter().find(|object| object["server"] == dead).expect("the dead server");
    assert!(object["error"].as_str().is_some_and(|error| error.starts_with("no answer from")), "{object}");
    assert_eq!((objects.len(), &object["rates"]), (3, &serde_json::Value::Null));
}

/// A node keeps what it knew of locks whose slots have moved: they were shown twice, once with MOVED in place of the holder.
#[test]
fn a_lock_that_moved_is_shown_once() {
    let cluster = Cluster::start(2);
    let lock = cluster.lock_on(0, 'a');
    let acquire = |number: usize, words: &str| {
        let line = format!("RLOCK.ACQUIRE {lock} {words}");
        ask::<redis::Value>(&mut cluster.primaries[number].connect(), &line);
    };
    let rows = || {
        let servers = at(&cluster.url(), &[&ONCE[..], &["--json"]].concat()).json();
        let rows = servers.iter().flat_map(|server| {
            let (address, locks) = (&server["server"], server["locks"].as_array().expect("locks"));
            locks.iter().map(move |row| format!("{} {} {}", address, row["key"], row["holder"]["owner"]))
        });
        rows.collect::<Vec<_>>()
    };
    let row_on =
        |number: usize| format!("\"{}\" \"{lock}\" \"alice:1\"", address(&cluster.primaries[number]));
    acquire(0, "alice:1 600000");
    acquire(0, "bob:1 1000");
    assert_eq!(rows(), [row_on(0)]);
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    runtime.block_on(cluster.move_slot_of(&lock, 0, 1, async || ()));
    let table = say(&mut cluster.primaries[0].connect(), "RLOCK.HOT");
    assert!(table.contains(&lock), "the node has forgotten it: {table}");
    assert_eq!(rows(), [""; 0]);
    acquire(1, "bob:1 1000");
    assert_eq!(rows(), [row_on(1)]);
}

#[test]
fn errors_say_what_to_do() {
    let server = TestServer::start();
    let usage = rlock(&server, &["top"]);
    usage.fails(125, &["the live table needs a terminal", "add --once"]);
    let eye = url_of("eye:secret", &server);
    ask::<()>(&mut server.connect(), "ACL SETUSER eye on >secret ~* +info +rlock.info");
    at(&eye, &["top", "--once"]).fails(125, &["rlock.hot", "+rlock.hot"]);
    ask::<()>(&mut server.connect(), "ACL SETUSER eye +rlock.hot +select");
    assert_eq!(at(&eye, &ONCE).code, Some(0));
}
