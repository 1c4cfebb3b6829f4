//! Ties whose holds have ended do not count.

use rlock_testkit::prelude::*;

use crate::session::HELD;

/// A server that ties three holds at most, a client, and an owner by a connection of its own.
fn start() -> (TestServer, Connection, Connection) {
    let (server, client) = TestServer::builder().conf("rlock.max-ties", 3).start_and_connect();
    let bob = server.connect();
    (server, client, bob)
}

/// The number of ties becomes this within a second, although no owner calls and no connection ends.
#[track_caller]
fn ties_become(server: &TestServer, count: u64, how: &str) {
    let begun = Instant::now();
    wait_for(&format!("{count} ties after {how}"), || counter(server, "ties") == count);
    println!("{how}: {:?}", begun.elapsed());
}

/// A reader whose leases had ended stayed tied until its connection closed, while others read.
#[test]
fn readers_whose_leases_have_ended_do_not_count() {
    let (server, mut client, mut bob) = start();
    client.story(&[("RLOCK.ACQUIRE lock carol 60000 READ", HELD)]);
    bob.story(&[
        ("RLOCK.ACQUIRE lock bob 60000 READ SESSION 300", HELD),
        ("RLOCK.ACQUIRE lock dave 50 READ SESSION 300", "[1, 50, 0]"),
        ("RLOCK.ACQUIRE lock erin 50 READ SESSION 300", "[1, 50, 0]"),
    ]);
    ties_become(&server, 1, "the end of two leases");
    bob.story(&[("RLOCK.ACQUIRE other bob 60000 SESSION 300", HELD)]);
    // A hold of several whose first lease has ended is a hold.
    bob.story(&[
        ("RLOCK.ACQUIRE lock frank 60000 READ SESSION 300", HELD),
        ("RLOCK.ACQUIRE lock frank 60000 READ SESSION 300", "[2, 60000, 0]"),
        ("DEL {lock}:frank:rwlock_timeout:2", "1"),
    ]);
    std::thread::sleep(Duration::from_millis(400));
    assert_eq!(counter(&server, "ties"), 3);
}

/// A permit that had ended stayed tied until its member left the sorted set, up to eleven seconds later.
#[test]
fn permits_that_have_ended_do_not_count() {
    let (server, mut client, mut bob) = start();
    client.story(&[("RLOCK.ACQUIRE lock carol 60000 PERMITS 9", HELD)]);
    bob.story(&[
        ("RLOCK.ACQUIRE lock bob 60000 PERMITS 9 SESSION 300", HELD),
        ("RLOCK.ACQUIRE lock dave 50 PERMITS 9 SESSION 300", "[1, 50, 0]"),
    ]);
    ties_become(&server, 1, "the end of a permit");
    bob.story(&[("RLOCK.RENEW lock bob 60000 SESSION 300", "1")]);
    assert_eq!(counter(&server, "ties"), 1);
}

#[test]
fn holds_that_were_overwritten_or_removed_do_not_count() {
    let (server, mut client, mut bob) = start();
    let dump = |client: &mut Connection, key: &str| {
        let Value::BulkString(bytes) = ask(client, &["DUMP", key]) else { panic!("no dump") };
        bytes
    };
    client.story(&[("RPUSH list 1", "1"), ("SADD set 1", "1"), ("HSET hash alice 1", "1")]);
    let restored = dump(&mut client, "hash");
    for how in [
        "SET lock x",
        "COPY hash lock REPLACE",
        "SORT list STORE lock",
        "RESTORE",
        "SINTERSTORE lock set",
        "HDEL lock bob",
    ] {
        bob.story(&[("RLOCK.ACQUIRE lock bob 60000 SESSION 300", HELD)]);
        assert_eq!(counter(&server, "ties"), 1);
        match how {
            "RESTORE" => {
                let words: [&[u8]; 5] = [b"RESTORE", b"lock", b"0", &restored, b"REPLACE"];
                assert_eq!(text(&ask(&mut client, &words)), "OK");
            }
            how => drop(say(&mut client, how)),
        }
        ties_become(&server, 0, how);
        say(&mut client, "DEL lock");
    }
    client.story(&[("RLOCK.ACQUIRE lock carol 60000 PERMITS 9", HELD)]);
    bob.story(&[("RLOCK.ACQUIRE lock bob 50000 PERMITS 9 SESSION 300", "[1, 50000, 0]")]);
    client.story(&[("ZREM lock bob", "1")]);
    ties_become(&server, 0, "ZREM");
}

/// The new value is the same lock of the same owner: its hold is another one, as after a restart.
#[test]
fn a_lock_that_is_restored_over_itself_is_not_tied() {
    let (server, mut client, mut bob) = start();
    bob.story(&[("RLOCK.ACQUIRE lock bob 60000 SESSION 300", HELD)]);
    let Value::BulkString(bytes) = ask(&mut client, &["DUMP", "lock"]) else { panic!("no dump") };
    let words: [&[u8]; 5] = [b"RESTORE", b"lock", b"60000", &bytes, b"REPLACE"];
    assert_eq!(text(&ask(&mut client, &words)), "OK");
    assert_eq!(counter(&server, "ties"), 0, "at once");
    drop(bob);
    crate::session::stays(&mut client, "lock");
}

/// Beyond the bound a call was refused for as long as the dead ties were not found.
#[test]
fn a_refused_tie_finds_room_soon_if_ties_are_dead() {
    const MANY: usize = 40_000;
    let (server, client) = &mut TestServer::builder().conf("rlock.max-ties", MANY).start_and_connect();
    let mut bob = server.connect();
    let mut pipe = redis::pipe();
    // The last ones come up in a sweep after all others.
    for number in 0..MANY {
        pipe.cmd("RLOCK.ACQUIRE")
            .arg(&[&format!("lock{number:05}"), "bob", "600000", "SESSION", "300"][..])
            .ignore();
    }
    pipe.exec(&mut bob).unwrap();
    say(client, "SET lock39999 x");
    let begun = Instant::now();
    wait_for("room for one more tie", || {
        say(&mut bob, "RLOCK.ACQUIRE more bob 600000 SESSION 300") == "[1, 600000, 0]"
    });
    println!("room for one more of {MANY} ties after {:?}", begun.elapsed());
    // 1.6 seconds for each round at most; a sweep that is not hurried takes 16.
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
}
