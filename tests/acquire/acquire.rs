//! RLOCK.ACQUIRE: which owner gets a lock, how often and for how long.

use std::thread;

use rlock_testkit::prelude::*;
use rlock_testkit::redisson::{TAKES, run};

use crate::in_both_protocols;

#[test]
fn takes_re_enters_and_denies() {
    let lines = ["RLOCK.ACQUIRE lock alice 100000", "RLOCK.ACQUIRE lock bob 100000"];
    let story = &[
        ("RLOCK.ACQUIRE lock alice 100000", "[1, 100000, 0]"),
        ("PTTL lock", "~100000"),
        ("RLOCK.ACQUIRE lock bob 100000", "null"),
        ("RLOCK.ACQUIRE lock bob 100000 HOLDS 1", "null"),
        ("RLOCK.ACQUIRE lock alice 300000", "[2, 300000, 0]"),
        ("PTTL lock", "~300000"),
        ("RLOCK.ACQUIRE other bob 100000", "[1, 100000, 0]"),
        ("RLOCK.ACQUIRE lock Alice 100000", "null"),
        ("rlock.acquire lock alice 300000", "[3, 300000, 0]"),
        ("RLOCK.RELEASE lock alice ALL", "1"),
        ("RLOCK.ACQUIRE lock bob 1000000", "[1, 1000000, 0]"),
    ];
    in_both_protocols(
        story,
        &lines,
        ["*3\r\n:1\r\n:100000\r\n:0\r\n*-1\r\n", "*3\r\n:1\r\n:100000\r\n:0\r\n_\r\n"],
    );
}

#[test]
fn writes_redissons_hash() {
    let (_server, client) = &mut TestServer::start_and_connect();
    for (holds, hash) in [(1, r#"["u-1:7", "1"]"#), (2, r#"["u-1:7", "2"]"#), (3, r#"["u-1:7", "3"]"#)] {
        let answer = say(client, "RLOCK.ACQUIRE native u-1:7 100000");
        assert_eq!(answer.split(',').next(), Some(format!("[{holds}").as_str()));
        assert_eq!(run(client, TAKES, "redisson", "u-1:7", 100_000), "null");
        client.story(&[("TYPE native", "hash"), ("HGETALL native", hash), ("PTTL native", "~100000")]);
        assert_eq!(say(client, "DUMP native"), say(client, "DUMP redisson"), "{holds} holds");
    }
    // Each keeps the other out, and re-enters what the other took; there is no key for a token.
    assert!(agrees(&run(client, TAKES, "native", "u-2:1", 100_000), "~100000"));
    assert_eq!(run(client, TAKES, "native", "u-1:7", 100_000), "null");
    client.story(&[
        ("HGETALL native", r#"["u-1:7", "4"]"#),
        ("RLOCK.ACQUIRE redisson u-2:1 100000", "null"),
        ("RLOCK.ACQUIRE redisson u-1:7 200000", "[4, 200000, 0]"),
        ("DBSIZE", "2"),
    ]);
}

#[test]
fn pttl_tells_a_denied_caller_how_long_to_wait() {
    let (_server, client) = &mut held();
    let mut pipeline = redis::pipe();
    pipeline.cmd("RLOCK.ACQUIRE").arg("lock").arg("bob").arg(500_000).cmd("PTTL").arg("lock");
    let answers: redis::Value = pipeline.query(client).unwrap();
    assert!(agrees(&text(&answers), "[null, ~100000]"), "{answers:?}");
}

#[test]
fn a_lock_whose_lease_ended_is_free() {
    let (_server, client) = &mut TestServer::start_and_connect();
    let before = Instant::now();
    client.story(&[("RLOCK.ACQUIRE lock alice 500", "[1, 500, 0]")]);
    wait_for("the lease to end", || say(client, "RLOCK.ACQUIRE lock bob 100000") == "[1, 100000, 0]");
    assert!(before.elapsed() > Duration::from_millis(450), "free after {:?}", before.elapsed());
    client.story(&[
        ("HGETALL lock", r#"["bob", "1"]"#),
        ("RLOCK.RENEW lock alice 500", "0"),
        ("RLOCK.RELEASE lock alice", "null"),
        ("RLOCK.ACQUIRE lock alice 500", "null"),
        ("PTTL lock", "~100000"),
    ]);
}

#[test]
fn an_ended_lease_ends_the_lock_before_the_server_has_cleared_it_away() {
    let (_server, client) = &mut TestServer::start_and_connect();
    client.story(&[("DEBUG SET-ACTIVE-EXPIRE 0", "OK")]);
    let cases = [
        ("RLOCK.RELEASE lock alice", "null"),
        ("RLOCK.RELEASE lock alice HOLDS 0 LEASE 5", "null"),
        ("RLOCK.RENEW lock alice 100000", "0"),
        ("RLOCK.FORCERELEASE lock", "0"),
        ("RLOCK.FORCERELEASE lock alice", "0"),
        ("RLOCK.ACQUIRE lock alice 100000 HOLDS 2", "null"),
        ("RLOCK.ACQUIRE lock alice 100000", "[1, 100000, 0]"),
    ];
    for (line, expected) in cases {
        client.story(&[("DEL lock", "0"), ("RLOCK.ACQUIRE lock alice 1", "[1, 1, 0]")]);
        thread::sleep(Duration::from_millis(20));
        client.story(&[("DBSIZE", "1"), (line, expected)]);
    }
    client.story(&[("RLOCK.RENEW lock alice 1", "1")]);
    thread::sleep(Duration::from_millis(20));
    let info = say(client, "RLOCK.INFO lock");
    assert!(info.starts_with(r#"["kind", "none", "mode", null, "lease-ms", -2,"#), "{info}");
}

#[test]
fn takes_the_longest_lease() {
    let (_server, client) = &mut TestServer::start_and_connect();
    client.story(&[
        ("RLOCK.ACQUIRE lock alice 8796093022208", "[1, 8796093022208, 0]"),
        ("PTTL lock", "~8796093022208"),
        ("RLOCK.ACQUIRE lock alice 100000", "[2, ~8796093022208, 0]"),
        ("RLOCK.RENEW lock alice 100000", "1"),
        ("RLOCK.RELEASE lock alice LEASE 8796093022208", "0"),
        ("PTTL lock", "~8796093022208"),
        ("RLOCK.RENEW lock alice 8796093022208", "1"),
        ("PTTL lock", "~8796093022208"),
        ("RLOCK.ACQUIRE short alice 1", "[1, 1, 0]"),
    ]);
}

#[test]
fn a_re_entry_never_shortens_the_lease() {
    let (_server, client) = &mut TestServer::start_and_connect();
    client.story(&[("RLOCK.ACQUIRE lock alice 300000", "[1, 300000, 0]")]);
    let end = say(client, "PEXPIRETIME lock");
    client.story(&[
        ("RLOCK.ACQUIRE lock alice 100000", "[2, ~300000, 0]"),
        ("RLOCK.ACQUIRE lock alice 1", "[3, ~300000, 0]"),
        ("RLOCK.ACQUIRE lock alice 1 HOLDS 4", "[4, ~300000, 0]"),
        ("RLOCK.ACQUIRE lock alice 1 HOLDS 4", "[4, ~300000, 0]"),
        ("PEXPIRETIME lock", &end),
        ("RLOCK.ACQUIRE lock alice 600000", "[5, 600000, 0]"),
        ("PTTL lock", "~600000"),
        ("RLOCK.ACQUIRE lock alice 900000 HOLDS 5", "[5, 900000, 0]"),
        ("PTTL lock", "~900000"),
        ("RLOCK.ACQUIRE lock bob 9000000", "null"),
        ("RLOCK.ACQUIRE lock alice 9000000 HOLDS 7", "null"),
        ("PTTL lock", "~900000"),
    ]);
}

#[test]
fn holds_says_where_to_arrive() {
    const MOST: i64 = 1 << 53;
    let (_server, client) = &mut TestServer::start_and_connect();
    let small = (0..=4).flat_map(|held| (1..=6).map(move |wanted| (held, wanted)));
    let large =
        [(MOST - 2, MOST), (MOST - 1, MOST), (MOST, MOST), (MOST, 1), (MOST - 1, MOST - 1), (0, MOST)];
    for (held, wanted) in small.chain(large) {
        say(client, "DEL lock");
        if held > 0 {
            say(client, &format!("HSET lock alice {held}"));
            say(client, "PEXPIRE lock 100000");
        }
        let before = state(client, "lock");
        let answer = say(client, &format!("RLOCK.ACQUIRE lock alice 100000 HOLDS {wanted}"));
        let story = format!("held {held}, HOLDS {wanted}: {answer}");
        if wanted > held + 1 {
            assert_eq!(answer, "null", "{story}");
            assert_eq!(state(client, "lock"), before, "{story}");
        } else {
            let now = held.max(wanted);
            assert!(agrees(&answer, &format!("[{now}, ~100000, 0]")), "{story}");
            assert_eq!(say(client, "HGETALL lock"), format!(r#"["alice", "{now}"]"#), "{story}");
        }
    }
}

#[test]
fn a_repeat_with_holds_never_holds_twice() {
    let server = TestServer::start();
    let (mut here, mut there) = (server.connect(), server.connect());
    let one = ("RLOCK.ACQUIRE lock u:1 100000 HOLDS 1", "[1, ~100000, 0]");
    let two = ("RLOCK.ACQUIRE lock u:1 100000 HOLDS 2", "[2, ~100000, 0]");
    here.story(&[one, one, two, two]);
    there.story(&[two, ("HGETALL lock", r#"["u:1", "2"]"#)]);
    // A repeat of the outer call changes nothing of the inner one; two releases free the lock.
    there.story(&[("RLOCK.ACQUIRE lock u:1 100000 HOLDS 1", "[2, ~100000, 0]")]);
    here.story(&[("RLOCK.RELEASE lock u:1", "0"), ("RLOCK.RELEASE lock u:1", "1")]);
    // A late repeat: the inner call is answered that its hold is lost. The outer one would hold again, which
    // is why an owner must not be used after its outermost release.
    there.story(&[("RLOCK.ACQUIRE lock u:1 100000 HOLDS 2", "null"), ("EXISTS lock", "0"), one]);
}

#[test]
fn databases_are_separate() {
    let (_server, client) = &mut held();
    client.story(&[
        ("SELECT 9", "OK"),
        ("RLOCK.ACQUIRE lock bob 200000", "[1, 200000, 0]"),
        ("RLOCK.FORCERELEASE lock alice", "0"),
        ("RLOCK.RELEASE lock bob", "1"),
        ("DBSIZE", "0"),
        ("SELECT 0", "OK"),
        ("RLOCK.ACQUIRE lock bob 100000", "null"),
        ("HGETALL lock", r#"["alice", "1"]"#),
    ]);
}

#[test]
fn of_many_contenders_one_holds() {
    let server = TestServer::start();
    let ask = |owner: usize| {
        let mut client = server.connect();
        let line = |lock| format!("RLOCK.ACQUIRE lock:{lock} owner:{owner} 100000");
        (0..50).map(|lock| say(&mut client, &line(lock)) != "null").collect::<Vec<_>>()
    };
    let taken: Vec<Vec<bool>> = thread::scope(|scope| {
        let contenders: Vec<_> = (0..6).map(|owner| scope.spawn(move || ask(owner))).collect();
        contenders.into_iter().map(|contender| contender.join().unwrap()).collect()
    });
    for lock in 0..50 {
        assert_eq!(taken.iter().filter(|of_one| of_one[lock]).count(), 1, "lock {lock}");
    }
}
