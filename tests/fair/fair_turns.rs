//! FAIR: turns at the head of the fair list, and no missed turns.

use rlock_testkit::prelude::*;

use crate::scene::{DEADLINES, LIST, eventually_list, scene, wait};

const ITS_CHANNEL: &str = "redisson_lock__channel:{lock}:f:1";

/// The answer, sooner than the sweep that repairs missed wake-ups every ten seconds usually comes.
#[track_caller]
fn soon(waiting: &Waiting) -> String {
    text(&waiting.outcome(Duration::from_secs(4)).expect("no error"))
}

/// A Redisson client joins the list, and counts as gone after `after` ms.
fn foreign_joins(client: &mut Connection, after: i64) {
    let at = server_time(client) + after;
    client.story(&[(&format!("RPUSH {LIST} f:1"), "1"), (&format!("ZADD {DEADLINES} {at} f:1"), "1")]);
}

/// A waiter that is passed over by the very command that frees the lock, since its channel has no subscriber, does not
/// count as a Redisson waiter: the next waiter does not wait out a turn that belongs to no owner.
#[test]
fn one_that_is_passed_over_has_no_turn() {
    let (server, client) = &mut scene();
    client.story(&[("RLOCK.ACQUIRE lock b 50000 FAIR ENQUEUE 0 unheard", "[0, 0, 0]")]);
    let c = wait(server, "c");
    client.story(&[("RLOCK.RELEASE lock a", "1")]);
    assert_eq!(soon(&c), "[1, 50000, 0]");
    client.story(&[(&format!("EXISTS {LIST} {DEADLINES}"), "0")]);
}

/// The same where it can have no fencing token.
#[test]
fn one_that_can_have_no_token_has_no_turn() {
    let (server, client) = &mut scene();
    let b = Waiting::line(server, "RLOCK.ACQUIRE lock b 50000 FAIR FENCED BLOCK 0");
    let c = wait(server, "c");
    client.story(&[("SET redisson_lock_token:{lock} x", "OK"), ("RLOCK.RELEASE lock a", "1")]);
    assert!(b.answer().starts_with("!ERR "));
    assert_eq!(soon(&c), "[1, 50000, 0]");
}

/// However soon a Redisson waiter counts as gone, it is called when its turn comes; otherwise it would miss the turn.
#[test]
fn a_redisson_waiter_is_called_however_little_time_it_has() {
    let (server, client) = &mut scene();
    let mut called = Subscriber::channel(server, ITS_CHANNEL);
    foreign_joins(client, 30_000);
    let b = wait(server, "b");
    client.story(&[("RLOCK.RELEASE lock a", "1")]);
    assert!(called.next(SOON).is_some());
    assert!(b.still_waits());
    // Once is enough.
    client.story(&[("RLOCK.ACQUIRE lock d 1000 FAIR", "null"), ("RLOCK.ACQUIRE lock e 1000 FAIR", "null")]);
    assert!(called.next(Duration::from_millis(200)).is_none());
}

/// A Redisson waiter that gives up in its turn leaves the turn to the next at once.
#[test]
fn a_redisson_waiter_that_gives_up_ends_its_turn() {
    let (server, client) = &mut scene();
    foreign_joins(client, 100_000);
    let b = wait(server, "b");
    client.story(&[("RLOCK.RELEASE lock a", "1"), ("EXISTS lock", "0")]);
    assert!(b.still_waits());
    client.story(&[(&format!("ZREM {DEADLINES} f:1"), "1"), (&format!("LREM {LIST} 0 f:1"), "1")]);
    assert_eq!(soon(&b), "[1, 50000, 0]");
}

/// The lock goes to a reader that waited without FAIR, and a Redisson waiter is the next: it was called to a lock that
/// it could not acquire, and its time cut to that of a turn, after which it would have lost its place.
#[test]
fn no_waiter_is_called_to_a_lock_that_a_reader_has_got() {
    let (server, client) = &mut scene();
    let mut called = Subscriber::channel(server, "redisson_lock__channel:{lock}:f:2");
    foreign_joins(client, 100_000);
    client.story(&[("RLOCK.ACQUIRE lock b 50000 FAIR ENQUEUE 0 unheard", "[0, 0, 0]")]);
    client.story(&[("RLOCK.RELEASE lock a", "1")]);
    // During the turn of the first Redisson waiter the lock has no holder: a reader may ask for it.
    let reader = Waiting::line(server, "RLOCK.ACQUIRE lock r 100000 READ BLOCK 0");
    let at = server_time(client) + 1_000_000;
    client.story(&[(&format!("RPUSH {LIST} f:2"), "3"), (&format!("ZADD {DEADLINES} {at} f:2"), "1")]);
    let c = wait(server, "c");
    // It gives up, and the grant to the next waiter reaches no subscriber.
    let gone = [format!("ZREM {DEADLINES} f:1"), format!("LREM {LIST} 0 f:1")];
    assert_eq!(transaction(client, &gone.each_ref().map(String::as_str)), "[1, 1]");
    assert_eq!(reader.answer(), "[1, 100000, 0]");
    assert!(called.next(Duration::from_millis(200)).is_none());
    assert_eq!(say(client, &format!("ZSCORE {DEADLINES} f:2")).trim_matches('"'), at.to_string());
    client.story(&[("RLOCK.RELEASE lock r", "1")]);
    assert!(called.next(SOON).is_some());
    assert!(c.still_waits());
}

/// While a lock's key holds something else, a departing waiter still leaves its list, and nothing else on the server is
/// held up: neither other lists nor the leases of readers.
#[test]
fn a_key_that_holds_something_else_holds_nothing_else_up() {
    let (server, client) = &mut scene();
    let (b, _c) = (wait(server, "b"), wait(server, "c"));
    client.story(&[("SET lock x", "OK")]);
    say(client, &format!("CLIENT KILL ID {}", b.client_id()));
    wait_for("the list without it", || say(client, &format!("LRANGE {LIST} 0 -1")) == r#"["c"]"#);
    client.story(&[("RLOCK.ACQUIRE page r 900000 READ", "[1, 900000, 0]"), ("PEXPIRE page 30000", "1")]);
    wait_for("the key to last as long as the lease", || number(client, "PTTL page") > 800_000);
}

/// A hand-off costs the same whether ten or thousands wait: it does not check each of them.
#[test]
fn a_hand_off_does_not_check_every_waiter() {
    let (server, client) = &mut scene();
    let _grants = Subscriber::channel(server, "grants");
    for waiter in 0..2_000 {
        let line = format!("RLOCK.ACQUIRE lock {waiter} 50000 FAIR ENQUEUE 0 grants");
        client.story(&[(&line, "[0, 0, 0]")]);
    }
    let calls = |client: &mut Connection| {
        let all = say(client, "INFO commandstats");
        let of = |command: &str| {
            let rest = all.split(&format!("cmdstat_{command}:calls=")).nth(1).unwrap_or("0,");
            rest.split(',').next().and_then(|calls| calls.parse::<u64>().ok()).expect("a number")
        };
        of("zscore") + of("lrem") + of("zrem")
    };
    let before = calls(client);
    let began = Instant::now();
    client.story(&[("RLOCK.RELEASE lock a", "1"), ("RLOCK.RELEASE lock 0", "1")]);
    let made = calls(client) - before;
    // The slow sweep, every ten seconds, checks all.
    let sweeps = began.elapsed().as_secs() / 10 + 1;
    assert!(made < 100 + 2_000 * sweeps, "{made}");
    assert_eq!(number(client, &format!("LLEN {LIST}")), 1_998);
}

/// SWAPDB moves a fair list, and not its waiters. The entry of a waiter that the exchange freed stayed in the list, was taken
/// for that of a Redisson waiter, and had its turn there.
#[test]
fn waiters_leave_the_list_that_a_swap_of_databases_moves() {
    let (server, mut client) = scene();
    let client = &mut client;
    let (b, c) = (wait(&server, "b"), wait(&server, "c"));
    client.story(&[("SWAPDB 0 1", "OK")]);
    assert_eq!(b.answer(), "[1, 50000, 0]");
    client.story(&[
        ("SELECT 1", "OK"),
        ("RLOCK.FORCERELEASE lock", "1"),
        ("RLOCK.ACQUIRE lock d 100000 FAIR BLOCK 1000", "[1, 100000, 0]"),
    ]);
    eventually_list(client, "[]");
    client.story(&[("RLOCK.RELEASE lock d", "1"), ("DBSIZE", "0"), ("SELECT 0", "OK")]);
    c.granted_by(client, "RLOCK.RELEASE lock b");
    client.story(&[("RLOCK.RELEASE lock c", "1"), ("DBSIZE", "0")]);
}
