//! Work of many event-loop cycles keeps no other lock waiting. The timer once returned to a long queue in each cycle
//! before it checked any other lock, and after FLUSHDB all deleted locks came before one whose lease ended meanwhile:
//! that one was granted up to 1.2 s late.
//!
//! The bound holds on a loaded machine: some hundred cycles take longer.

use std::ops::Range;
use std::time::{Duration, Instant};

use redis::Connection;
use rlock_testkit::commands::{SOON, counter, story};
use rlock_testkit::{Subscriber, TestServer, eventually};

/// As many as make some hundred cycles.
const MANY: usize = 40_000;

/// How late another lock may be granted.
const LATE: Duration = Duration::from_millis(150);

/// The other locks: their leases end one after the other, from the first moments on.
const OTHERS: Range<u64> = 0..40;

/// When the lease of one of them ends, from now on.
fn lease_ms(other: u64) -> u64 {
    60 + 15 * other
}

/// Many owners wait for a lock, by a channel without a subscriber.
fn enqueue(client: &mut Connection, how: &str) {
    for first in (0..MANY).step_by(1_000) {
        let mut pipe = redis::pipe();
        for waiter in first..first + 1_000 {
            let command = pipe.cmd("RLOCK.ACQUIRE").arg("lock").arg(format!("w{waiter}")).arg(3_600_000);
            command.arg(how.split_ascii_whitespace().collect::<Vec<_>>());
            command.arg("ENQUEUE").arg(0).arg("unheard").ignore();
        }
        pipe.query::<()>(client).expect("they are enqueued");
    }
}

/// Others hold a lock each, for which one waits; says when each of these leases has ended at the latest.
fn hold_others(client: &mut Connection) -> Vec<Instant> {
    let mut pipe = redis::pipe();
    for other in OTHERS {
        let key = format!("other{other}");
        pipe.cmd("RLOCK.ACQUIRE").arg(&key).arg("alice").arg(lease_ms(other)).ignore();
        let command = pipe.cmd("RLOCK.ACQUIRE").arg(&key).arg("bob").arg(3_600_000);
        command.arg("ENQUEUE").arg(0).arg("grants").ignore();
    }
    pipe.query::<()>(client).expect("they hold and wait");
    let now = Instant::now();
    OTHERS.map(|other| now + Duration::from_millis(lease_ms(other))).collect()
}

/// How late the latest grant of the others was, in database `db`.
fn latest_grant(grants: &mut Subscriber, db: u32, ends: &[Instant]) -> Duration {
    let before = format!("granted {db} bob other");
    let late = OTHERS.map(|_| {
        let (_, message) = grants.next(SOON).expect("a grant");
        let (now, message) = (Instant::now(), String::from_utf8(message).expect("a message"));
        let other = message.strip_prefix(&before).and_then(|rest| rest.split(' ').next());
        let other: usize = other.and_then(|number| number.parse().ok()).expect("one of the others");
        now.saturating_duration_since(ends[other])
    });
    late.max().expect("others")
}

#[track_caller]
fn nobody_waits(server: &TestServer) {
    eventually("all to leave the queues", SOON, || (counter(server, "waiters") == 0).then_some(()));
}

/// Leases end while many waiters of this kind leave the queue of one lock.
#[track_caller]
fn while_a_queue_is_emptied(how: &str) {
    let server = TestServer::start();
    let (mut client, mut grants) = (server.connect(), Subscriber::channel(&server, "grants"));
    story(&mut client, &[("RLOCK.ACQUIRE lock alice 3600000", "[1, 3600000, 0]")]);
    enqueue(&mut client, how);
    let ends = hold_others(&mut client);
    story(&mut client, &[("RLOCK.RELEASE lock alice", "1")]);
    let latest = latest_grant(&mut grants, 0, &ends);
    nobody_waits(&server);
    assert_eq!(counter(&server, "waiters_gone"), MANY as u64);
    assert!(latest < LATE, "a grant was {latest:?} late");
}

#[test]
fn a_lease_that_ends_while_another_queue_is_emptied() {
    while_a_queue_is_emptied("");
}

#[test]
fn a_lease_that_ends_while_the_queue_and_the_list_of_a_fair_lock_are_emptied() {
    while_a_queue_is_emptied("FAIR");
}

#[test]
fn a_lease_that_ends_while_the_locks_of_another_database_are_handed_off_after_flushdb() {
    let server = TestServer::start();
    let (mut client, mut grants) = (server.connect(), Subscriber::channel(&server, "grants"));
    let _heard = Subscriber::channel(&server, "heard");
    for first in (0..MANY / 2).step_by(1_000) {
        let mut pipe = redis::pipe();
        for lock in first..first + 1_000 {
            pipe.cmd("RLOCK.ACQUIRE").arg(format!("lock{lock}")).arg("alice").arg(3_600_000).ignore();
            let command = pipe.cmd("RLOCK.ACQUIRE").arg(format!("lock{lock}")).arg("bob").arg(3_600_000);
            command.arg("ENQUEUE").arg(0).arg("heard").ignore();
        }
        pipe.query::<()>(&mut client).expect("they hold and wait");
    }
    story(&mut client, &[("SELECT 1", "OK")]);
    let ends = hold_others(&mut client);
    story(&mut client, &[("SELECT 0", "OK"), ("FLUSHDB ASYNC", "OK")]);
    let latest = latest_grant(&mut grants, 1, &ends);
    nobody_waits(&server);
    assert!(latest < LATE, "a grant was {latest:?} late");
}
