//! Cluster mode: which names a lock can have, and how its unlock message goes out.

use std::time::Duration;

use rlock_testkit::clients::cluster::{Cluster, id};
use rlock_testkit::commands::{say, say_words};
use rlock_testkit::nodes::AGREED;
use rlock_testkit::{ReplicaStream, Subscriber, TestServer, eventually};

/// A cluster of one node that has all slots.
#[track_caller]
fn cluster() -> TestServer {
    Cluster::start(1).primaries.remove(0)
}

/// Names of locks whose channel has the same slot.
const ALLOWED: [&[u8]; 8] =
    [b"lock", b"{a}b", b"a{b}c", b"a{b}}", b"{a}{b", b"\0\r\n \xff", b"{\0\xff}x", b"mode"];

/// Names whose channel falls in another slot.
const REFUSED: [&[u8]; 8] = [b"a}b", b"a{}b", b"}", b"a{", b"{", b"{}", b"a}{b", b"\0}"];

/// Every command, for a key; the first takes the lock.
fn commands(key: &[u8]) -> [(Vec<&[u8]>, &'static str); 8] {
    [
        (vec![b"RLOCK.ACQUIRE", key, b"alice", b"1000000"], "[1, 1000000, 0]"),
        (vec![b"RLOCK.ACQUIRE", key, b"bob", b"1000000", b"HOLDS", b"1"], "null"),
        (vec![b"RLOCK.RENEW", key, b"alice", b"1000000"], "1"),
        (vec![b"RLOCK.INFO", key, b"LIMIT", b"0"], ""),
        (vec![b"RLOCK.RELEASE", key, b"alice"], "1"),
        (vec![b"RLOCK.RELEASE", key, b"alice", b"ALL"], "null"),
        (vec![b"RLOCK.FORCERELEASE", key], "0"),
        (vec![b"RLOCK.FORCERELEASE", key, b"alice"], "0"),
    ]
}

/// Shows that every command works on a lock of that name.
#[track_caller]
fn all_work(server: &TestServer, key: &[u8]) {
    let client = &mut server.connect();
    for (words, answer) in commands(key) {
        let said = say_words(client, &words);
        let agreed = if answer.is_empty() { said.starts_with(r#"["kind", "mutex""#) } else { said == answer };
        assert!(agreed, "{} of {}: {said}", words[0].escape_ascii(), key.escape_ascii());
    }
}

#[test]
fn names_with_a_channel_in_another_slot_are_refused() {
    let server = cluster();
    let client = &mut server.connect();
    for key in ALLOWED {
        all_work(&server, key);
    }
    for key in REFUSED {
        for (words, _) in commands(key) {
            let said = say_words(client, &words);
            let refused = said.starts_with("!ERR the lock's channel is in another slot");
            assert!(refused, "{} of {}: {said}", words[0].escape_ascii(), key.escape_ascii());
        }
        assert_eq!(say_words(client, &[b"EXISTS", key]), "0", "{}", key.escape_ascii());
    }
    // The server's own idea of slots.
    let mut slot = |name: &[u8]| say_words(client, &[b"CLUSTER", b"KEYSLOT", name]);
    let mut same_slot = |key: &[u8]| {
        let (open, close): (&[u8], &[u8]) = if key.contains(&b'{') { (b":", b"") } else { (b":{", b"}") };
        slot(key) == slot(&[b"redisson_lock__channel", open, key, close].concat())
    };
    assert!(ALLOWED.into_iter().all(&mut same_slot));
    assert!(!REFUSED.into_iter().any(same_slot));
}

#[test]
fn without_a_cluster_all_names_work() {
    let server = TestServer::start();
    for key in ALLOWED.into_iter().chain(REFUSED) {
        all_work(&server, key);
    }
}

#[test]
fn the_unlock_message_is_sharded() {
    let server = cluster();
    let channels = ["redisson_lock__channel:{lock}", "redisson_lock__channel:{lock}2"];
    let mut sharded = Subscriber::connect(&server).ssubscribe(&channels);
    let mut plain = Subscriber::connect(&server).subscribe(&channels).psubscribe(&["*"]);
    let mut stream = ReplicaStream::open(&server);
    let client = &mut server.connect();
    let frees = [("lock", "RLOCK.RELEASE lock alice"), ("{lock}2", "RLOCK.FORCERELEASE {lock}2")];
    for ((key, free), channel) in frees.into_iter().zip(channels) {
        assert_eq!(say(client, &format!("RLOCK.ACQUIRE {key} alice 100000")), "[1, 100000, 0]");
        assert!(sharded.drain().is_empty());
        assert_eq!(say(client, free), "1");
        assert_eq!(sharded.drain(), [(channel.as_bytes().to_vec(), b"0".to_vec())]);
    }
    assert!(plain.drain().is_empty());
    // As SPUBLISH does.
    assert_eq!(say(client, &format!("SPUBLISH {} 0", channels[0])), "1");
    assert_eq!(sharded.drain().len(), 1);
    assert!(plain.drain().is_empty());
    // Its way to replicas is the cluster's bus, not the replication stream.
    assert_eq!(say(client, "SET end x"), "OK");
    let effects = stream.until_marker("end");
    let names: Vec<_> = effects.iter().map(|command| command[0].escape_ascii().to_string()).collect();
    let once = ["MULTI", "HSET", "PEXPIREAT", "EXEC", "DEL"];
    assert_eq!(names, [once, once].concat());
    assert_eq!(server.info("rlock")["rlock_replication_failures"], "0");
}

#[test]
fn the_unlock_message_reaches_shard_subscribers_of_a_replica() {
    let cluster = Cluster::start_with_replicas(1);
    let (primary, replica) = (&cluster.primaries[0], &cluster.replicas[0]);
    let (here, there) = (&mut primary.connect(), &mut replica.connect());
    // The primary must know its replica to send it messages.
    let replicas = format!("CLUSTER REPLICAS {}", id(primary));
    eventually("the primary to know", AGREED, || say(here, &replicas).contains("slave").then_some(()));
    let channel = "redisson_lock__channel:{lock}";
    let mut subscriber = Subscriber::connect(replica).ssubscribe(&[channel]);
    assert_eq!(say(here, "RLOCK.ACQUIRE lock alice 100000"), "[1, 100000, 0]");
    assert_eq!(say(here, "RLOCK.RELEASE lock alice"), "1");
    assert_eq!(subscriber.next(AGREED), Some((channel.as_bytes().to_vec(), b"0".to_vec())));
    assert!(subscriber.drain().is_empty());
    // A client that follows slots is sent to the primary.
    let moved = say(there, "RLOCK.ACQUIRE lock alice 100000");
    assert!(moved.starts_with("!MOVED ") && moved.ends_with(&format!(":{}", primary.port())), "{moved}");
}

/// Waiters whose channel has no subscriber by SSUBSCRIBE leave: one by SUBSCRIBE receives no message of theirs.
#[test]
fn a_shard_channel_without_a_subscriber_loses_its_waiters() {
    let server = cluster();
    let client = &mut server.connect();
    let _plain = Subscriber::channel(&server, "{lock}dead");
    let mut alive = Subscriber::connect(&server).ssubscribe(&["{lock}alive"]);
    assert_eq!(say(client, "RLOCK.ACQUIRE lock alice 1000000"), "[1, 1000000, 0]");
    for (owner, channel) in [("bob", "dead"), ("carol", "alive"), ("dave", "dead")] {
        let waits = format!("RLOCK.ACQUIRE lock {owner} 4000 ENQUEUE 0 {{lock}}{channel}");
        assert_eq!(say(client, &waits), "[0, 0, 0]");
    }
    let waiters = || server.info("rlock")["rlock_waiters"].clone();
    eventually("bob and dave to leave", Duration::from_secs(60), || (waiters() == "1").then_some(()));
    assert_eq!(say(client, "RLOCK.RELEASE lock alice"), "1");
    assert_eq!(alive.next_text(), "granted 0 carol lock 1 4000 0");
}
