//! What must be so when everybody has stopped.

use std::collections::BTreeMap;

use redis::Connection;
use rlock_testkit::{Subscriber, TestServer, eventually, wait_for_replicas_in_sync};

use crate::{DATABASES, LOCKS};
use rlock_testkit::commands::{SOON, counter, say, story};

/// A connection that uses one of the databases.
pub(crate) fn connect(server: &TestServer, db: usize) -> Connection {
    let mut connection = server.connect();
    assert_eq!(say(&mut connection, &format!("SELECT {db}")), "OK");
    connection
}

/// The memory in use.
pub(crate) fn used_memory(server: &TestServer) -> i64 {
    assert_eq!(say(&mut server.connect(), "MEMORY PURGE"), "OK");
    server.info("memory")["used_memory"].parse().unwrap()
}

/// Every key of a server with its bytes and the end of its lease.
fn contents(server: &TestServer) -> BTreeMap<String, [String; 2]> {
    let mut found = BTreeMap::new();
    for db in 0..DATABASES {
        let client = &mut connect(server, db);
        let keys: Vec<String> = redis::cmd("KEYS").arg("*").query(client).unwrap();
        for key in keys {
            let state = ["DUMP", "PEXPIRETIME"].map(|word| say(client, &format!("{word} {key}")));
            // Its lease may have ended meanwhile.
            if state[0] != "null" && state[1] != "-2" {
                found.insert(format!("{db} {key}"), state);
            }
        }
    }
    found
}

/// What every lock and counter must be when everybody has stopped.
#[track_caller]
pub(crate) fn check_the_end(server: &TestServer) {
    eventually("nobody to wait", SOON, || (counter(server, "waiters") == 0).then_some(()));
    let client = &mut server.connect();
    for n in 0..LOCKS {
        let key = format!("clean:{n}");
        assert_eq!(say(client, &format!("HGETALL {key}")), "[]", "{key} is held");
    }
    for (key, [_, expires]) in contents(server) {
        assert!(expires.parse::<i64>().unwrap() > 0, "{key} has no lease: {expires}");
    }
    for name in ["panics", "replication_failures", "errors"] {
        assert_eq!(counter(server, name), 0, "{name}");
    }
    assert!(counter(server, "hand_offs") > 0);
    eventually("all to be free", SOON, || contents(server).is_empty().then_some(()));
}

/// Leaves a lock in each database that was handed on, with a long lease.
#[track_caller]
fn leave_locks(server: &TestServer) {
    let _listener = Subscriber::channel(server, "last");
    for db in 0..DATABASES {
        let client = &mut connect(server, db);
        let lines = [
            ("RLOCK.ACQUIRE last alice 1000000", "[1, 1000000, 0]"),
            ("RLOCK.ACQUIRE last bob 1000000 ENQUEUE 0 last", "[0, 0, 0]"),
            ("RLOCK.RELEASE last alice", "1"),
            ("RLOCK.ACQUIRE last bob 1000000", "[2, 1000000, 0]"),
            ("RLOCK.ACQUIRE other carol 2000000", "[1, 2000000, 0]"),
        ];
        story(client, &lines);
    }
}

/// The replica, and a restart without the module, have the same locks.
#[track_caller]
pub(crate) fn check_copies(server: TestServer, replica: &TestServer) {
    leave_locks(&server);
    wait_for_replicas_in_sync(&server, replica);
    let here = contents(&server);
    assert_eq!(here.len(), 2 * DATABASES);
    assert_eq!(contents(replica), here, "on the replica");
    let restarted = TestServer::builder().without_module().conf("appendonly", "yes").dir(server.shutdown());
    assert_eq!(contents(&restarted.start()), here, "after a restart");
}
