//! `rlock top --once`, for scripts and for a look without a terminal.

use rlock_testkit::clients::cluster::Cluster;
use rlock_testkit::commands::{say, story};
use rlock_testkit::{TestServer, eventually};

use crate::support::{Running, SOON, ask, bare, rlock, url};

/// Three nodes of a cluster, each with a third of the slots.
fn cluster() -> [TestServer; 3] {
    let node =
        || TestServer::builder().conf("cluster-enabled", "yes").conf("cluster-node-timeout", "60000").start();
    let nodes = [node(), node(), node()];
    let mut clients = nodes.each_ref().map(TestServer::connect);
    for (number, slots) in ["0 5460", "5461 10922", "10923 16383"].into_iter().enumerate() {
        let epoch = format!("CLUSTER SET-CONFIG-EPOCH {}", number + 1);
        story(&mut clients[number], &[(&epoch, "OK"), (&format!("CLUSTER ADDSLOTSRANGE {slots}"), "OK")]);
    }
    for node in &nodes[1..] {
        story(&mut clients[0], &[(&format!("CLUSTER MEET 127.0.0.1 {}", node.port()), "OK")]);
    }
    for client in &mut clients {
        eventually("the nodes to agree", SOON, || {
            let info = say(client, "CLUSTER INFO");
            (info.contains("cluster_state:ok") && info.contains("cluster_known_nodes:3")).then_some(())
        });
    }
    nodes
}

#[test]
fn prints_the_tables_once() {
    let server = TestServer::start();
    let client = &mut server.connect();
    let empty = rlock(&server, &["top", "--once", "--interval", "100ms"]);
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
    let ended = rlock(&server, &["top", "--once", "--interval", "100ms"]);
    let lines: Vec<&str> = ended.stdout.lines().collect();
    assert_eq!((ended.code, lines.len()), (Some(0), 6), "{ended:?}");
    let words = |line: &str| line.split_whitespace().map(str::to_string).collect::<Vec<_>>();
    assert_eq!(
        words(lines[0]),
        ["SERVER", "ACQUIRED/s", "DENIED/s", "HAND-OFFS/s", "TIME-OUTS/s", "WAITERS"]
    );
    let address = format!("127.0.0.1:{}", server.port());
    assert_eq!(words(lines[1]), [&address, "0.0", "0.0", "0.0", "0.0", "0"]);
    let job = words(lines[4]);
    assert_eq!(
        (job[0].as_str(), &job[2], &job[4..]),
        ("job", &"0".to_string(), &["1", "1", "web@app-3:4711"].map(String::from)[..])
    );
    assert!(lines[5].starts_with("[3] other ") && lines[5].ends_with(" +1"), "{ended:?}");
    let filtered =
        rlock(&server, &["top", "--once", "--interval", "100ms", "--filter", "other", "--sort", "name"]);
    assert!(!filtered.stdout.contains("job") && filtered.stdout.contains("[3] other"), "{filtered:?}");
}

#[test]
fn json_has_an_object_for_each_server() {
    let server = TestServer::start();
    let client = &mut server.connect();
    story(
        client,
        &[
            ("RLOCK.ACQUIRE job web@app-3:4711:0f8fad5bd9cb469f:5 100000", "[1, 100000, 0]"),
            ("RLOCK.ACQUIRE job b 1 BLOCK 30", "null"),
        ],
    );
    let objects = rlock(&server, &["top", "--once", "--json", "--interval", "100ms"]).json();
    let [object] = &objects[..] else { panic!("{objects:?}") };
    assert_eq!(object["server"], format!("127.0.0.1:{}", server.port()));
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

/// As an operator would: three servers, a stuck lock, a herd, and a server that dies.
#[test]
fn a_cluster_is_shown_from_any_node() {
    let [one, two, three] = cluster();
    // `b`, `a`, `c` are in slots of the first, the second and the third server.
    let owner = "batch@db-1:99:0f8fad5bd9cb469f:1";
    for (node, key) in [(&one, "b"), (&two, "c"), (&three, "a")] {
        let client = &mut node.connect();
        story(
            client,
            &[
                (&format!("RLOCK.ACQUIRE {key} {owner} 1000000"), "[1, 1000000, 0]"),
                (&format!("RLOCK.ACQUIRE {key} b:1 1 BLOCK 30"), "null"),
            ],
        );
    }
    let url = format!("redis+cluster://127.0.0.1:{}", two.port());
    let top = |arguments: &[&str]| {
        let mut command = bare();
        command.args(["--url", &url, "top", "--once", "--interval", "100ms"]).args(arguments);
        Running::start(command).ended()
    };
    let ended = top(&[]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    for key in ["a", "b", "c"] {
        assert!(
            ended
                .stdout
                .lines()
                .any(|line| line.starts_with(&format!("{key} ")) && line.ends_with("batch@db-1:99")),
            "{ended:?}"
        );
    }
    let dead = three.port();
    drop(three.kill9());
    let ended = top(&["--json"]);
    assert_eq!(ended.code, Some(1), "{ended:?}");
    let objects = ended.json();
    let object = objects
        .iter()
        .find(|object| object["server"] == format!("127.0.0.1:{dead}"))
        .expect("the dead server");
    assert!(object["error"].as_str().is_some_and(|error| error.starts_with("no answer from")), "{object}");
    assert_eq!((objects.len(), &object["rates"]), (3, &serde_json::Value::Null));
}

/// A node keeps what it knew of locks whose slots have moved: they were shown twice, once with MOVED in place of the holder.
#[test]
fn a_lock_that_moved_is_shown_once() {
    let cluster = Cluster::start(2);
    let lock = cluster.lock_on(0, 'a');
    let denied = |number: usize| {
        ask::<redis::Value>(
            &mut cluster.primaries[number].connect(),
            &format!("RLOCK.ACQUIRE {lock} bob:1 1000"),
        );
    };
    let rows = || {
        let mut command = bare();
        command.args(["--url", &cluster.url(), "top", "--once", "--json", "--interval", "100ms"]);
        let servers = Running::start(command).ended().json();
        let rows = servers.iter().flat_map(|server| {
            let (address, locks) = (&server["server"], server["locks"].as_array().expect("locks"));
            locks.iter().map(move |row| format!("{} {} {}", address, row["key"], row["holder"]["owner"]))
        });
        rows.collect::<Vec<_>>()
    };
    let row_on =
        |number: usize| format!("\"127.0.0.1:{}\" \"{lock}\" \"alice:1\"", cluster.primaries[number].port());
    ask::<redis::Value>(&mut cluster.primaries[0].connect(), &format!("RLOCK.ACQUIRE {lock} alice:1 600000"));
    denied(0);
    assert_eq!(rows(), [row_on(0)]);
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    runtime.block_on(cluster.move_slot_of(&lock, 0, 1, async || ()));
    let table = say(&mut cluster.primaries[0].connect(), "RLOCK.HOT");
    assert!(table.contains(&lock), "the node has forgotten it: {table}");
    assert_eq!(rows(), [""; 0]);
    denied(1);
    assert_eq!(rows(), [row_on(1)]);
}

#[test]
fn errors_say_what_to_do() {
    let server = TestServer::start();
    let usage = rlock(&server, &["top"]);
    usage.fails(125, &["the live table needs a terminal", "add --once"]);
    rlock(&server, &["top", "--json"]).fails(125, &["--json needs --once"]);
    rlock(&server, &["top", "--once", "--interval", "5ms"]).fails(125, &["set 100ms or more"]);
    let bare = TestServer::builder().without_module().start();
    rlock(&bare, &["top", "--once"]).fails(125, &["the module rlock is not loaded on", "loadmodule"]);
    ask::<()>(&mut server.connect(), "ACL SETUSER eye on >secret ~* +info +rlock.info");
    let url = url(&server).replace("redis://", "redis://eye:secret@");
    let mut command = crate::support::bare();
    command.args(["--url", &url, "top", "--once"]);
    Running::start(command).ended().fails(125, &["rlock.hot", "+rlock.hot"]);
    ask::<()>(&mut server.connect(), "ACL SETUSER eye +rlock.hot +select");
    let mut command = crate::support::bare();
    command.args(["--url", &url, "top", "--once", "--interval", "100ms"]);
    assert_eq!(Running::start(command).ended().code, Some(0));
}
