//! Tokens through restarts, fail-overs that lost writes, clocks that disagree, and slots that move.

use std::time::SystemTime;

use redis::Connection;
use rlock_testkit::commands::{SOON, say, server_time, story};
use rlock_testkit::held::acquisition;
use rlock_testkit::waiting::Waiting;
use rlock_testkit::{TestServer, eventually, wait_for_replicas_in_sync};

const TOKEN_KEY: &str = "redisson_lock_token:{lock}";
const ACQUIRE: &str = "RLOCK.ACQUIRE lock alice 100000 FENCED";
const HOUR: i64 = 3_600;

#[track_caller]
fn token(client: &mut Connection, line: &str) -> i64 {
    acquisition(&say(client, line))[2]
}

#[test]
fn tokens_keep_growing_after_a_restart() {
    // Ahead of every clock, so that only what was kept can be exceeded.
    const AHEAD: i64 = 1 << 50;
    for (name, value) in [("appendonly", "yes"), ("save", "3600 1")] {
        let server = TestServer::builder().conf(name, value).start();
        let client = &mut server.connect();
        story(client, &[(&format!("SET {TOKEN_KEY} {AHEAD}"), "OK")]);
        assert_eq!(token(client, ACQUIRE), AHEAD + 1);
        story(client, &[("RLOCK.RELEASE lock alice", "1")]);
        let bob = Waiting::line(&server, "RLOCK.ACQUIRE lock bob 50000 FENCED BLOCK 0");
        assert_eq!(acquisition(&bob.answer())[2], AHEAD + 2);
        let stopped = server.shutdown();
        let server = TestServer::builder().conf(name, value).dir(stopped).start();
        let client = &mut server.connect();
        story(client, &[("RLOCK.FORCERELEASE lock", "1")]);
        assert_eq!(token(client, ACQUIRE), AHEAD + 3, "{name}");
    }
}

/// A primary that gave tokens which its replica never received, and died; the replica is promoted.
struct FailOver {
    promoted: TestServer,
    /// The last token that the promoted server has.
    known: i64,
    /// The last token that was given.
    last: i64,
}

impl FailOver {
    /// `lost` tokens are lost; the promoted server's clock is `clock_ahead` seconds ahead (behind if negative).
    #[track_caller]
    fn new(lost: u32, clock_ahead: i64) -> FailOver {
        let primary = TestServer::start();
        let promoted = TestServer::builder().with_a_clock_that_steps().start();
        promoted.replicate_from(&primary);
        let (here, there) = (&mut primary.connect(), &mut promoted.connect());
        let known = token(here, ACQUIRE);
        wait_for_replicas_in_sync(&primary, &promoted);
        // The link is cut: no server listens at the replica's new primary address.
        story(there, &[("REPLICAOF 127.0.0.1 1", "OK")]);
        let last = (0..lost).fold(known, |last, _| {
            let next = token(here, ACQUIRE);
            assert!(next > last, "{next} after {last}");
            next
        });
        drop(primary.kill9());
        promoted.set_clock_ahead(clock_ahead);
        eventually("the promoted server's clock to step", SOON, || {
            let real = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_millis();
            let ahead = server_time(there) - i64::try_from(real).unwrap();
            ((ahead - clock_ahead * 1_000).abs() < 900).then_some(())
        });
        story(there, &[("REPLICAOF NO ONE", "OK"), (&format!("GET {TOKEN_KEY}"), &format!("\"{known}\""))]);
        FailOver { promoted, known, last }
    }

    /// The first token that the promoted server gives, once its clock has passed the last that was lost.
    #[track_caller]
    fn first_token(&self) -> i64 {
        let there = &mut self.promoted.connect();
        eventually("the promoted server's clock to pass the last token", SOON, || {
            (server_time(there) > self.last).then_some(())
        });
        token(there, ACQUIRE)
    }
}

/// Its clock may be behind by less than a fail-over takes.
#[test]
fn a_promoted_server_that_lost_tokens_gives_larger_ones() {
    for (lost, ahead) in [(0, 0), (1, 0), (20, 0), (5, -2)] {
        let after = FailOver::new(lost, ahead);
        let first = after.first_token();
        assert!(
            first > after.last,
            "{first} after {}, and {lost} were lost, the clock ahead by {ahead} s",
            after.last
        );
    }
}

/// No clock is needed for the tokens that have arrived.
#[test]
fn tokens_that_were_not_lost_are_exceeded_whatever_the_clock_says() {
    for ahead in [-HOUR, 0, HOUR] {
        let after = FailOver::new(0, ahead);
        let first = token(&mut after.promoted.connect(), ACQUIRE);
        assert!(first > after.last, "{first} after {}, the clock ahead by {ahead} s", after.last);
    }
}

/// The limit, as docs/FENCING.md states it: tokens were lost, and the promoted server's clock is behind the last
/// of them. The next token is the one after the last that has arrived.
#[test]
fn a_clock_that_is_far_behind_cannot_make_up_for_lost_tokens() {
    let after = FailOver::new(20, -HOUR);
    let there = &mut after.promoted.connect();
    let first = token(there, ACQUIRE);
    assert_eq!(first, after.known + 1);
    assert!(first < after.last, "{first} after {}", after.last);
    // If the loss is known, an operator can raise the token by hand.
    story(there, &[(&format!("SET {TOKEN_KEY} {}", after.last), "OK")]);
    assert!(token(there, ACQUIRE) > after.last);
}

/// A server without the module has the tokens too, and Redisson counts on there.
#[test]
fn a_replica_without_the_module_has_the_tokens() {
    let (primary, replica) = (TestServer::start(), TestServer::builder().without_module().start());
    replica.replicate_from(&primary);
    let token = token(&mut primary.connect(), ACQUIRE);
    wait_for_replicas_in_sync(&primary, &replica);
    let there = &mut replica.connect();
    story(there, &[("REPLICAOF NO ONE", "OK"), (&format!("INCR {TOKEN_KEY}"), &(token + 1).to_string())]);
}
