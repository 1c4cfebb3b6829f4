//! Every kind of lock in a cluster of three primaries and three replicas: names and slots, redirections, messages,
//! and slots that move key by key. `make cluster` runs this.

mod slots;

use redis::Connection;
use rlock_testkit::clients;
use rlock_testkit::commands::{SOON, counter, number, say, story};
use rlock_testkit::held::{Awaited, KINDS, hold};
use rlock_testkit::{Subscriber, TestServer, eventually, wait_for_replicas_in_sync};
use slots::{Move, cluster, place_on, replica_agrees};

#[track_caller]
fn is_redirected(client: &mut Connection, line: &str, word: &str, to: &TestServer) {
    let said = say(client, line);
    assert!(said.starts_with(&format!("!{word} ")), "{line}: {said}");
    assert!(said.ends_with(&format!(":{}", to.port())), "{line}: {said}");
}

/// Every command, for a lock.
fn commands(key: &str) -> [String; 8] {
    let acquire = format!("RLOCK.ACQUIRE {key} s:1 1000");
    [
        acquire.clone(),
        format!("{acquire} READ BLOCK 0"),
        format!("{acquire} FAIR FENCED ENQUEUE 0 grants:{{{key}}}"),
        format!("RLOCK.RELEASE {key} n:1"),
        format!("RLOCK.RENEW {key} n:1 900000"),
        format!("RLOCK.CANCEL {key} b:1"),
        format!("RLOCK.INFO {key}"),
        format!("RLOCK.FORCERELEASE {key}"),
    ]
}

/// The server has this number of keys, all of them in the slot.
#[track_caller]
fn all_are_in(client: &mut Connection, slot: i64, count: i64) {
    let keys: Vec<String> = redis::cmd("KEYS").arg("*").query(client).unwrap();
    assert_eq!(number(client, &format!("CLUSTER COUNTKEYSINSLOT {slot}")), count, "{keys:?}");
    assert_eq!(number(client, "DBSIZE"), count, "{keys:?}");
}

/// On each shard, for names with a hash tag and without: every key and channel of a lock is in its slot.
#[test]
fn all_of_a_lock_is_in_one_slot() {
    let cluster = cluster();
    for (number_of, primary) in cluster.primaries.iter().enumerate() {
        let client = &mut primary.connect();
        for place in [place_on(&cluster, number_of), cluster.lock_on(number_of, 'q')] {
            let slot = number(client, &format!("CLUSTER KEYSLOT {place}"));
            if place.starts_with('{') {
                hold(client, &place);
                let awaited = Awaited::start(primary, &place);
                all_are_in(client, slot, 13);
                awaited.are_served(client, 0);
                continue;
            }
            // Without a tag each name has its own slot: one lock of each kind in turn. The token of the fenced one is
            // left from above.
            story(client, &[("FLUSHALL", "OK")]);
            for (words, count) in
                [("", 1), ("READ", 2), ("WRITE", 1), ("FAIR", 3), ("PERMITS 1", 1), ("FENCED", 2)]
            {
                let line = format!("RLOCK.ACQUIRE {place} n:1 1000000 {words}");
                assert!(say(client, &line).starts_with("[1, "), "{line}");
                let wait = if words == "READ" { "WRITE" } else { words };
                let line = format!("RLOCK.ACQUIRE {place} e:1 1000 {wait} ENQUEUE 0 grants:{{{place}}}");
                story(client, &[(&line, "[0, 0, 0]")]);
                all_are_in(client, slot, count);
                story(client, &[(&format!("RLOCK.CANCEL {place} e:1"), "1")]);
                story(client, &[(&format!("RLOCK.RELEASE {place} n:1"), "1")]);
            }
        }
        for (other, server) in cluster.primaries.iter().enumerate().filter(|(other, _)| *other != number_of) {
            let left = number(&mut server.connect(), "DBSIZE");
            assert_eq!(left, 0, "keys on {other}");
        }
        replica_agrees(primary, &cluster.replicas[number_of]);
        story(client, &[("FLUSHALL", "OK")]);
    }
}

#[test]
fn every_command_is_redirected() {
    let cluster = cluster();
    let lock = cluster.lock_on(1, 'l');
    let [first, second, _] = &cluster.primaries[..] else { panic!("not three") };
    // To the owner of the slot, from another shard and from the replica.
    for server in [first, &cluster.replicas[1], &cluster.replicas[2]] {
        for line in commands(&lock) {
            is_redirected(&mut server.connect(), &line, "MOVED", second);
        }
    }
    let reader = &mut cluster.replicas[1].connect();
    story(&mut second.connect(), &[(&format!("RLOCK.ACQUIRE {lock} n:1 1000000"), "[1, 1000000, 0]")]);
    wait_for_replicas_in_sync(second, &cluster.replicas[1]);
    story(reader, &[("READONLY", "OK")]);
    assert!(say(reader, &format!("RLOCK.INFO {lock}")).starts_with(r#"["kind", "mutex""#));
    for line in commands(&lock).iter().filter(|line| !line.starts_with("RLOCK.INFO")) {
        is_redirected(reader, line, "MOVED", second);
    }
    // During the move, for a lock that has moved: the target serves it only after ASKING.
    let moving = Move::begin(&cluster, &lock, 1, 0);
    moving.key(&lock);
    for line in commands(&lock) {
        is_redirected(&mut second.connect(), &line, "ASK", first);
        is_redirected(&mut first.connect(), &line, "MOVED", second);
    }
    let asked = &mut first.connect();
    story(asked, &[("ASKING", "OK"), (&format!("RLOCK.RENEW {lock} n:1 900000"), "1")]);
    moving.end();
    for line in commands(&lock) {
        is_redirected(&mut second.connect(), &line, "MOVED", first);
    }
    story(asked, &[(&format!("RLOCK.RELEASE {lock} n:1"), "1")]);
    assert!(cluster.servers().all(|server| counter(server, "waiters") == 0));
}

/// Messages reach the subscribers of the shard, on its primary and on its replica, and no other subscriber.
#[test]
fn messages_stay_in_their_shard() {
    let cluster = cluster();
    let place = place_on(&cluster, 2);
    let (primary, replica) = (&cluster.primaries[2], &cluster.replicas[2]);
    let client = &mut primary.connect();
    let [plain, page] = ["plain", "page"].map(|name| format!("{place}{name}"));
    let channels = [format!("redisson_lock__channel:{plain}"), format!("redisson_rwlock:{page}")];
    let mut there = [primary, replica].map(|server| Subscriber::connect(server).ssubscribe(&channels));
    let mut elsewhere =
        cluster.servers().map(|server| Subscriber::connect(server).psubscribe(&["*"])).collect::<Vec<_>>();
    for server in [&cluster.primaries[0], &cluster.replicas[0]] {
        is_redirected(&mut server.connect(), &format!("SSUBSCRIBE {}", channels[0]), "MOVED", primary);
    }
    for (key, words) in [(&plain, ""), (&page, "READ")] {
        let line = format!("RLOCK.ACQUIRE {key} n:1 1000000 {words}");
        story(client, &[(&line, "[1, 1000000, 0]"), (&format!("RLOCK.RELEASE {key} n:1"), "1")]);
    }
    for (at, subscriber) in there.iter_mut().enumerate() {
        for channel in &channels {
            let heard = subscriber.next(SOON);
            assert_eq!(heard, Some((channel.as_bytes().to_vec(), b"0".to_vec())), "server {at}");
        }
        assert_eq!(subscriber.drain(), []);
    }
    assert!(elsewhere.iter_mut().all(|subscriber| subscriber.drain().is_empty()));
}

/// Asserts, at one moment of a move and for clients that follow redirections, that no stranger gets a lock, and that
/// no holder gets the answer that it holds nothing.
#[track_caller]
fn nobody_else_gets_in(moving: &Move<'_>, place: &str) {
    let (source, target) = (&mut moving.from.connect(), &mut moving.to.connect());
    let mut follow = |line: &str| {
        let said = say(source, line);
        if !said.starts_with("!ASK ") {
            return said;
        }
        story(target, &[("ASKING", "OK")]);
        say(target, line)
    };
    for kind in &KINDS {
        let said = follow(&kind.ask(place, "s:1"));
        assert!(said == "null" || said.starts_with("!TRYAGAIN "), "{}: {said}", kind.key(place));
        for line in kind.renewals(place) {
            let said = follow(&line);
            assert!(said == "1" || said.starts_with("!TRYAGAIN "), "{line}: {said}");
        }
    }
}

/// The keys of the slot move in a random order: lease keys, lists and tokens before or after their lock.
#[test]
fn a_slot_moves_key_by_key() {
    let seed = clients::seed();
    fastrand::seed(seed);
    let cluster = cluster();
    let place = place_on(&cluster, 0);
    for (from, to) in [(0, 1), (1, 2), (2, 0)] {
        let client = &mut cluster.primaries[from].connect();
        let token = hold(client, &place);
        let awaited = Awaited::start(&cluster.primaries[from], &place);
        let moving = Move::begin(&cluster, &place, from, to);
        nobody_else_gets_in(&moving, &place);
        let mut keys = moving.keys();
        fastrand::shuffle(&mut keys);
        for key in keys {
            moving.key(&key);
            nobody_else_gets_in(&moving, &place);
        }
        assert_eq!(moving.keys(), [""; 0]);
        moving.end();
        // Subscriptions in the slot end with it; blocked waiters receive an error.
        awaited.were_sent_away();
        let source = &cluster.primaries[from];
        eventually("an empty queue", SOON, || (counter(source, "waiters") == 0).then_some(()));
        // On the target, waiters that ask again wait, and are served.
        let awaited = Awaited::start(&cluster.primaries[to], &place);
        replica_agrees(&cluster.primaries[to], &cluster.replicas[to]);
        awaited.are_served(&mut cluster.primaries[to].connect(), token);
        replica_agrees(&cluster.primaries[to], &cluster.replicas[to]);
        replica_agrees(source, &cluster.replicas[from]);
    }
}
