//! Wall clocks step: a lease is judged by the server's clock, wherever it is; a wait by one that does not
//! step; and nobody is left asleep by either.

use std::time::{Duration, Instant, SystemTime};

use redis::{Connection, Value};
use rlock_testkit::commands::{say, story};
use rlock_testkit::waiting::Waiting;
use rlock_testkit::{Subscriber, TestServer, eventually};

const HOUR: i64 = 3_600;
/// Generous: what is waited for takes a tenth of a second on an idle machine.
const SOON: Duration = Duration::from_secs(10);

fn server() -> TestServer {
    TestServer::builder().with_a_clock_that_steps().start()
}

fn granted(lease_ms: i64) -> Value {
    Value::Array(vec![Value::Int(1), Value::Int(lease_ms), Value::Int(0)])
}

/// Steps the clock, and waits until the server has seen it: some look at the clock only now and then.
fn step(server: &TestServer, client: &mut Connection, ahead: i64) {
    server.set_clock_ahead(ahead);
    eventually("the server's clock to step", SOON, || {
        let real = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs();
        let ahead_by = seconds(&say(client, "TIME")) - i64::try_from(real).unwrap();
        ((ahead - 60..ahead + 60).contains(&ahead_by)).then_some(())
    });
}

fn seconds(time: &str) -> i64 {
    let digits = time.trim_start_matches(['[', '"']).split('"').next().unwrap();
    digits.parse().unwrap_or_else(|_| panic!("no seconds in {time}"))
}

#[test]
fn a_step_forward_past_the_lease_wakes_the_next() {
    // The server's own timers stand by a clock of their own, so that one for the end of this lease would
    // fire in ten minutes.
    let server = server();
    let mut client = server.connect();
    story(&mut client, &[("RLOCK.ACQUIRE lock alice 600000", "[1, 600000, 0]")]);
    let bob = Waiting::start(&server, &["RLOCK.ACQUIRE", "lock", "bob", "30000", "BLOCK", "60000"]);
    step(&server, &mut client, HOUR);
    assert_eq!(bob.outcome(SOON).unwrap(), granted(30_000));
    story(&mut client, &[("HGETALL lock", r#"["bob", "1"]"#), ("PTTL lock", "~30000")]);
}

#[test]
fn a_step_forward_ends_no_wait() {
    let server = server();
    let mut client = server.connect();
    story(&mut client, &[("RLOCK.ACQUIRE lock alice 36000000", "[1, 36000000, 0]")]);
    let bob = Waiting::start(&server, &["RLOCK.ACQUIRE", "lock", "bob", "30000", "BLOCK", "60000"]);
    step(&server, &mut client, HOUR);
    std::thread::sleep(Duration::from_millis(500));
    assert!(bob.still_waits());
    story(&mut client, &[("RLOCK.RELEASE lock alice", "1")]);
    assert_eq!(bob.outcome(SOON).unwrap(), granted(30_000));
}

#[test]
fn a_step_back_delays_neither_the_end_of_a_wait_nor_a_hand_off() {
    let server = server();
    let mut client = server.connect();
    story(&mut client, &[("RLOCK.ACQUIRE lock alice 600000", "[1, 600000, 0]")]);
    let start = Instant::now();
    let bob = Waiting::start(&server, &["RLOCK.ACQUIRE", "lock", "bob", "30000", "BLOCK", "2000"]);
    let carol = Waiting::start(&server, &["RLOCK.ACQUIRE", "lock", "carol", "30000", "BLOCK", "0"]);
    step(&server, &mut client, -HOUR);
    assert_eq!(bob.outcome(SOON).unwrap(), Value::Nil);
    let waited = start.elapsed();
    // Valkey 9 counts the processor's ticks, and guesses at each start how long one is.
    assert!(waited >= Duration::from_millis(1_980), "the wait was cut short: {waited:?}");
    story(&mut client, &[("RLOCK.RELEASE lock alice", "1")]);
    assert_eq!(carol.outcome(SOON).unwrap(), granted(30_000));
    story(&mut client, &[("PTTL lock", "~30000")]);
}

#[test]
fn a_lease_that_ends_after_a_step_back_wakes_the_next() {
    let server = server();
    let mut client = server.connect();
    step(&server, &mut client, HOUR);
    story(&mut client, &[("RLOCK.ACQUIRE lock alice 1500", "[1, 1500, 0]")]);
    let bob = Waiting::start(&server, &["RLOCK.ACQUIRE", "lock", "bob", "30000", "BLOCK", "0"]);
    // Now the lease ends in an hour and a second by the server's clock; then the clock is put right.
    step(&server, &mut client, 0);
    std::thread::sleep(Duration::from_millis(500));
    assert!(bob.still_waits());
    step(&server, &mut client, HOUR);
    assert_eq!(bob.outcome(SOON).unwrap(), granted(30_000));
}

/// The end of a turn was kept by the wall clock. Set back by little, the turn lasted so much longer; set back by
/// much or forward, it ended at once, and those who were called came too late.
#[test]
fn a_turn_of_foreign_waiters_lasts_as_long_whichever_way_the_clock_steps() {
    for ahead in [HOUR, -HOUR] {
        let server = TestServer::builder().with_a_clock_that_steps();
        let server =
            server.conf("rlock.foreign-turn-grants", 1).conf("rlock.foreign-window-ms", 2_000).start();
        let mut client = server.connect();
        let _foreign = Subscriber::channel(&server, "redisson_lock__channel:{lock}");
        story(&mut client, &[("RLOCK.ACQUIRE lock alice 9000000", "[1, 9000000, 0]")]);
        let wait =
            |owner| Waiting::start(&server, &["RLOCK.ACQUIRE", "lock", owner, "9000000", "BLOCK", "0"]);
        let (bob, carol) = (wait("bob"), wait("carol"));
        story(&mut client, &[("RLOCK.RELEASE lock alice", "1")]);
        assert_eq!(bob.outcome(SOON).unwrap(), granted(9_000_000));
        let start = Instant::now();
        story(&mut client, &[("RLOCK.RELEASE lock bob", "1"), ("EXISTS lock", "0")]);
        step(&server, &mut client, ahead);
        assert_eq!(carol.outcome(SOON).unwrap(), granted(9_000_000));
        let waited = start.elapsed();
        assert!(waited >= Duration::from_millis(1_900), "{ahead}: the turn was cut short: {waited:?}");
    }
}
