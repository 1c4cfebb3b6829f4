//! Enqueued waiters whose client is gone: their channel has no subscriber at two checks in a row, ten seconds apart.

use rlock_testkit::prelude::*;

use crate::enqueue::{WAITS, enqueue};

/// Two rounds of checks, the first of which begins up to ten seconds after the start, and a busy machine.
const TWO_CHECKS: Duration = Duration::from_secs(60);

/// `owner` waits for ever for another lock that alice holds.
#[track_caller]
fn enqueue_at(client: &mut Connection, key: &str, owner: &str, rest: &str) {
    client.story(&[(&format!("RLOCK.ACQUIRE {key} {owner} 4000 {rest}"), WAITS)]);
}

/// A client waited without end and closed its connections: its waiters stayed for as long as the locks were held, and with enough of
/// them every other caller got `QUEUEFULL`.
#[test]
fn waiters_without_a_subscriber_leave_and_a_client_that_reconnects_keeps_its_place() {
    let server = TestServer::builder().conf("rlock.max-waiters", 8).start();
    let client = &mut server.connect();
    let mut everything = Subscriber::pattern(&server, "*");
    let mut alive = Subscriber::channel(&server, "alive");
    let back = Subscriber::channel(&server, "back");
    client.story(&[ALICE, ("SELECT 3", "OK"), ALICE, ("SELECT 0", "OK")]);
    client.story(&[("RLOCK.ACQUIRE fair alice 100000", "[1, 100000, 0]")]);
    enqueue(client, "dead1", "dead");
    enqueue(client, "bob", "alive");
    enqueue(client, "carol", "back");
    client.story(&[("SELECT 3", "OK")]);
    enqueue(client, "dead2", "dead");
    client.story(&[("SELECT 0", "OK")]);
    enqueue_at(client, "fair", "dead3", "FAIR ENQUEUE 0 dead");
    let mut gone = server.connect();
    enqueue_at(&mut gone, "fair", "dead4", "SESSION 60000 ENQUEUE 0 other");
    enqueue_at(client, "fair", "dead5", "ENQUEUE 0 other");
    let blocked = Waiting::line(&server, "RLOCK.ACQUIRE fair erin 4000 BLOCK 0");
    assert_eq!((counter(&server, "waiters"), counter(&server, "ties")), (8, 1));
    client.story(&[("RLOCK.ACQUIRE lock dave 4000 ENQUEUE 0 alive", "!QUEUEFULL …")]);
    // Less than the time between two checks.
    let begun = Instant::now();
    drop(back);
    std::thread::sleep(Duration::from_secs(6));
    let mut back = Subscriber::channel(&server, "back");
    eventually("the waiters without a subscriber to leave", TWO_CHECKS, || {
        (counter(&server, "waiters") == 3).then_some(())
    });
    // The first check is one second after the start at the earliest: it is the second one that counts.
    assert!(begun.elapsed() >= Duration::from_secs(9), "{:?}", begun.elapsed());
    assert_eq!((waiters(client, "lock"), waiters(client, "fair")), ("bob carol".into(), "erin".into()));
    assert_eq!((counter(&server, "waiters_gone"), counter(&server, "ties")), (5, 0));
    wait_for("the fair list to be empty", || say(client, "LLEN redisson_lock_queue:{fair}") == "0");
    assert_eq!(say(client, "ZCARD redisson_lock_timeout:{fair}"), "0");
    assert!(!everything.texts().iter().any(|text| text.contains("dead")), "no message without a receiver");
    // There is room again, and the others are served in their order.
    enqueue(client, "dave", "alive");
    client.story(&[("RLOCK.RELEASE lock alice", "1")]);
    assert_eq!(alive.next_text(), "granted 0 bob lock 1 4000 0");
    client.story(&[("RLOCK.RELEASE lock bob", "1")]);
    assert_eq!(back.next_text(), "granted 0 carol lock 1 4000 0");
    blocked.granted_by(client, "RLOCK.RELEASE fair alice");
}

/// A few hundred at a time: other clients are served in between.
#[test]
fn thousands_of_waiters_without_a_subscriber_leave_in_slices() {
    const MANY: usize = 40_000;
    let server = TestServer::start();
    let (client, other) = (&mut server.connect(), &mut server.connect());
    client.story(&[ALICE]);
    let lines = (0..MANY).map(|n| format!("RLOCK.ACQUIRE lock o{n} 4000 ENQUEUE 0 dead{}", n % 10_000));
    crate::enqueue::pipelined(client, lines);
    assert_eq!(counter(&server, "waiters"), MANY as u64);
    let mut worst = Duration::ZERO;
    eventually("all of them to leave", TWO_CHECKS, || {
        let asked = Instant::now();
        say(other, "PING");
        worst = worst.max(asked.elapsed());
        (say(client, "RLOCK.LIST 0") == r#"["0", []]"#).then_some(())
    });
    println!("40,000 waiters on 10,000 channels: the longest wait of another client was {worst:?}");
    assert_eq!((counter(&server, "waiters"), counter(&server, "waiters_gone")), (0, MANY as u64));
}
