//! A replica with `repl-diskless-load swapdb` answers reads with its old data while it loads its primary's. A server does this
//! only where every module declares HANDLE_REPL_ASYNC_LOAD.

use redis::Connection;
use rlock_testkit::commands::{SOON, say, say_words, story};
use rlock_testkit::waiting::Waiting;
use rlock_testkit::{TestServer, eventually, wait_for_replicas_in_sync};

/// Of each of these keys the load takes 20 ms.
const FILLERS: usize = 400;

fn pair() -> (TestServer, TestServer) {
    let primary =
        TestServer::builder().conf("repl-diskless-sync", "yes").conf("repl-backlog-size", "16384").start();
    // Between two chunks of this size the replica answers.
    let chunk = ("loading-process-events-interval-bytes", "1024");
    let replica = TestServer::builder().conf("repl-diskless-load", "swapdb").conf(chunk.0, chunk.1).start();
    replica.replicate_from(&primary);
    (primary, replica)
}

#[track_caller]
fn is_held_by(client: &mut Connection, lock: &str, owner: &str) {
    let info = say(client, &format!("RLOCK.INFO {lock}"));
    assert!(info.contains(&format!(r#""owner", "{owner}""#)), "{lock}: {info}");
}

/// Alice holds locks on both. The replica misses that bob holds them since, and loads all of the primary's data.
#[track_caller]
fn miss_a_change(primary: &TestServer, replica: &TestServer) {
    let client = &mut primary.connect();
    story(client, &[("RLOCK.ACQUIRE lock alice 900000", "[1, 900000, 0]")]);
    story(client, &[("RLOCK.ACQUIRE book alice 900000 READ", "[1, 900000, 0]")]);
    wait_for_replicas_in_sync(primary, replica);
    replica.signal(libc::SIGSTOP);
    story(client, &[("CLIENT KILL TYPE replica", "1"), ("CONFIG SET rdb-key-save-delay 20000", "OK")]);
    for filler in 0..FILLERS {
        // More than the backlog holds.
        let _: () = redis::cmd("SET").arg(filler).arg(vec![b'x'; 20_000]).query(client).unwrap();
    }
    story(client, &[("RLOCK.RELEASE lock alice", "1"), ("RLOCK.ACQUIRE lock bob 900000", "[1, 900000, 0]")]);
    story(client, &[("RLOCK.RELEASE book alice READ", "1")]);
    story(client, &[("RLOCK.ACQUIRE book bob 900000 READ", "[1, 900000, 0]")]);
    replica.signal(libc::SIGCONT);
    eventually("the load", SOON, || (replica.info("persistence")["async_loading"] == "1").then_some(()));
}

#[test]
fn a_replica_answers_reads_while_it_loads() {
    let (primary, replica) = pair();
    miss_a_change(&primary, &replica);
    let client = &mut replica.connect();
    for lock in ["lock", "book"] {
        is_held_by(client, lock, "alice");
    }
    assert!(say(client, "RLOCK.LIST 0").starts_with('['));
    let said = say(client, "RLOCK.ACQUIRE lock carol 1000 BLOCK 0");
    assert!(said.starts_with("!READONLY "), "{said}");
    assert_eq!(replica.info("persistence")["async_loading"], "1");
    wait_for_replicas_in_sync(&primary, &replica);
    for lock in ["lock", "book"] {
        is_held_by(client, lock, "bob");
    }
    assert_eq!(replica.info("rlock")["rlock_panics"], "0");
    // Promoted, it serves what it has loaded.
    assert_eq!(say_words(client, &["REPLICAOF", "NO", "ONE"]), "OK");
    story(client, &[("RLOCK.ACQUIRE lock carol 1000", "null")]);
    let carol = ["lock carol 1000 BLOCK 0", "book carol 1000 WRITE BLOCK 0"]
        .map(|rest| Waiting::line(&replica, &format!("RLOCK.ACQUIRE {rest}")));
    story(client, &[("RLOCK.RELEASE lock bob", "1"), ("RLOCK.RELEASE book bob READ", "1")]);
    carol.iter().for_each(|carol| assert_eq!(carol.answer(), "[1, 1000, 0]"));
}

/// The primary dies during the load: the old data stays, and its locks are served.
#[test]
fn a_replica_that_lost_its_primary_during_the_load_serves_its_old_data() {
    let (primary, replica) = pair();
    miss_a_change(&primary, &replica);
    let client = &mut replica.connect();
    primary.kill9();
    eventually("the end of the load", SOON, || {
        (replica.info("persistence")["async_loading"] == "0").then_some(())
    });
    assert_eq!(say_words(client, &["REPLICAOF", "NO", "ONE"]), "OK");
    story(
        client,
        &[("RLOCK.ACQUIRE lock carol 1000", "null"), ("RLOCK.ACQUIRE book carol 1000 WRITE", "null")],
    );
    let carol = Waiting::line(&replica, "RLOCK.ACQUIRE lock carol 1000 BLOCK 0");
    story(client, &[("RLOCK.RELEASE lock alice", "1")]);
    assert_eq!(carol.answer(), "[1, 1000, 0]");
    story(client, &[("RLOCK.RELEASE book alice READ", "1"), ("EXISTS book", "0")]);
    assert_eq!(replica.info("rlock")["rlock_panics"], "0");
}
