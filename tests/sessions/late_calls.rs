//! SESSION of calls that closed connections have sent, and that run late.

use rlock_testkit::prelude::*;

use crate::session::{BOB, HELD, TIED_TO_ANOTHER, UNTIED, id, session_of, shortened, stays};

/// A late RENEW of a closed connection tied the hold anew that its successor had untied. The end of the closed connection shortened
/// the lease, on which the owner relied.
#[test]
fn a_late_call_ties_no_hold_that_was_untied() {
    let server = TestServer::start();
    let (mut first, mut second, mut third) = (server.connect(), server.connect(), server.connect());
    let client = &mut server.connect();
    first.story(&[(BOB, HELD)]);
    third.story(&[("RLOCK.RENEW lock bob 40000 SESSION 300", "1"), ("RLOCK.RENEW lock bob 40000", "1")]);
    let changes = server.info("persistence")["rdb_changes_since_last_save"].clone();
    // The second connection never had a call of bob: its first one may be late, too.
    let mut late = |client: &mut Connection| {
        for connection in [&mut first, &mut second] {
            for line in [
                "RLOCK.RENEW lock bob 90000 SESSION 1",
                "RLOCK.RENEW lock bob 10000 SESSION 1",
                "RLOCK.ACQUIRE lock bob 90000 HOLDS 1 SESSION 1",
                "RLOCK.ACQUIRE lock bob 90000 SESSION 1 BLOCK 0",
                "RLOCK.ACQUIRE lock bob 90000 SESSION 1 ENQUEUE 0 outcomes",
            ] {
                connection.story(&[(line, UNTIED)]);
                assert!((30_000..=40_000).contains(&number(client, "PTTL lock")), "{line}");
            }
        }
    };
    late(client);
    drop(third);
    stays(client, "lock");
    late(client);
    assert_eq!(server.info("persistence")["rdb_changes_since_last_save"], changes, "nothing is written");
    drop((first, second));
    stays(client, "lock");
    assert_eq!(server.info("rlock")["rlock_ties"], "1", "what is known of the hold counts as a tie");
    client.story(&[("RLOCK.RELEASE lock bob", "1")]);
    assert_eq!(server.info("rlock")["rlock_ties"], "0");
    // The next hold of the owner begins anew.
    let (mut older, mut younger) = (server.connect(), server.connect());
    younger.story(&[(BOB, HELD), ("RLOCK.RENEW lock bob 60000", "1"), ("RLOCK.RELEASE lock bob", "1")]);
    older.story(&[(BOB, HELD)]);
}

/// An older connection adopts the hold. A late RENEW of one between both took the tie, and its end shortened the lease.
#[test]
fn an_older_connection_adopts_a_hold_that_was_untied() {
    let server = TestServer::start();
    let (mut adopter, mut late, mut younger) = (server.connect(), server.connect(), server.connect());
    let client = &mut server.connect();
    let renew = "RLOCK.RENEW lock bob 60000 SESSION 300";
    late.story(&[(BOB, HELD)]);
    younger.story(&[(renew, "1"), ("RLOCK.RENEW lock bob 60000", "1")]);
    adopter.story(&[(renew, UNTIED), ("RLOCK.RENEW lock bob 60000", "1"), (renew, "1")]);
    late.story(&[(renew, TIED_TO_ANOTHER)]);
    drop(late);
    stays(client, "lock");
    let adopters = id(&mut adopter);
    assert_eq!(session_of(client, "lock"), Some(adopters));
    // The younger one may still take the tie, as any younger one may.
    younger.story(&[(renew, "1")]);
    adopter.story(&[(renew, TIED_TO_ANOTHER)]);
    drop(younger);
    shortened(client, "lock");
}

/// What was known of a tie was forgotten with its connection: an older one, still there, tied the hold anew that a successor untied.
#[test]
fn a_hold_that_was_untied_after_the_end_of_its_connection_stays_untied() {
    let server = TestServer::start();
    let (mut late, mut tied) = (server.connect(), server.connect());
    let client = &mut server.connect();
    tied.story(&[("RLOCK.ACQUIRE lock bob 60000 SESSION 30000", HELD)]);
    drop(tied);
    wait_for("the lease to be shortened", || number(client, "PTTL lock") <= 30_000);
    client.story(&[("RLOCK.RENEW lock bob 60000", "1")]);
    late.story(&[("RLOCK.RENEW lock bob 60000 SESSION 1", UNTIED)]);
    drop(late);
    stays(client, "lock");
}

/// A late call of a still older connection took the tie before the owner's next connection did, and its grace period counted.
#[test]
fn an_older_connection_ties_the_hold_of_one_that_has_ended_by_two_calls() {
    let server = TestServer::start();
    let (mut older, mut younger) = (server.connect(), server.connect());
    let client = &mut server.connect();
    younger.story(&[("RLOCK.ACQUIRE lock bob 60000 SESSION 30000", HELD)]);
    older.story(&[("RLOCK.RENEW lock bob 60000 SESSION 300", TIED_TO_ANOTHER)]);
    drop(younger);
    wait_for("the end of the younger one", || {
        let answer = say(&mut older, "RLOCK.RENEW lock bob 60000 SESSION 300");
        assert!(answer == UNTIED || answer == TIED_TO_ANOTHER, "{answer}");
        answer == UNTIED
    });
    wait_for("the lease to be shortened", || number(client, "PTTL lock") <= 30_000);
    older.story(&[
        ("RLOCK.RENEW lock bob 60000 SESSION 300", UNTIED),
        ("RLOCK.RENEW lock bob 60000", "1"),
        ("RLOCK.RENEW lock bob 60000 SESSION 300", "1"),
    ]);
    let olders = id(&mut older);
    assert_eq!(session_of(client, "lock"), Some(olders));
    stays(client, "lock");
    drop(older);
    shortened(client, "lock");
}
