//! Hand-offs in a row are counted for each lock, for yielding to Redisson waiters, and the count stays while
//! the lock has no waiter. It was kept for an hour after a lock had been handed over and its lease had ended,
//! or another client had deleted it: 88 bytes and more for each of these locks, and every call of the server
//! took the longer way.

use rlock_testkit::prelude::*;

const LOCKS: usize = 4_000;
/// What remembering each lock would cost at the least.
const EACH: usize = 88;
/// Locks for which commands are sent at once.
const AT_ONCE: usize = 500;

/// Hands `LOCKS` locks over, each from one owner to another that waits for it by a message.
fn hand_over(client: &mut Connection, names: &str, lease_ms: &str) {
    let keys: Vec<String> = (0..LOCKS).map(|n| format!("{names}{n}")).collect();
    for some in keys.chunks(AT_ONCE) {
        let mut pipe = redis::pipe();
        for key in some {
            pipe.cmd("RLOCK.ACQUIRE").arg(&[key, "first", "60000"]);
            pipe.cmd("RLOCK.ACQUIRE").arg(&[key, "next", lease_ms, "ENQUEUE", "0", "grants"]);
            pipe.cmd("RLOCK.RELEASE").arg(&[key, "first"]);
        }
        let answers: Vec<Value> = pipe.query(client).unwrap();
        assert!(answers.chunks(3).all(|answers| answers[2] == Value::Int(1)), "{answers:?}");
    }
}

/// The server's memory when it is at most this, or after a while: some of it is freed a little later.
fn memory(client: &mut Connection, at_most: usize) -> usize {
    let mut used = 0;
    let mut tries = 0;
    eventually("the memory to be asked for", Duration::from_secs(60), || {
        tries += 1;
        let info = say(client, "INFO memory");
        let (_, rest) = info.split_once("used_memory:").unwrap();
        used = rest.split_once("\\r").unwrap().0.parse().unwrap();
        std::thread::sleep(Duration::from_millis(50));
        (used <= at_most || tries > 60).then_some(())
    });
    used
}

/// Hands locks over and ends them by `end`; no memory is left of them.
fn nothing_is_left(names: &str, lease_ms: &str, end: impl Fn(&mut Connection)) {
    let server = TestServer::builder().conf("rlock.grant-confirm-ms", 600_000).start();
    let client = &mut server.connect();
    let mut grants = Subscriber::channel(&server, "grants");
    let mut round = |names: &str, at_most: usize| {
        hand_over(client, names, lease_ms);
        assert_eq!(grants.drain().len(), LOCKS);
        end(client);
        eventually("the locks to have ended", Duration::from_secs(30), || {
            (number(client, "DBSIZE") == 0).then_some(())
        });
        memory(client, at_most)
    };
    // The first time some tables and buffers of the server grow to their size.
    let before = round("warm-up", 0);
    let after = round(names, before + LOCKS * EACH / 4);
    assert!(after < before + LOCKS * EACH / 2, "{after} bytes are in use, {before} before");
}

#[test]
fn nothing_is_left_of_locks_that_were_deleted() {
    nothing_is_left("deleted", "60000", |client| {
        let keys: Vec<Vec<u8>> = redis::cmd("KEYS").arg("*").query(client).unwrap();
        assert_eq!(keys.len(), LOCKS);
        for some in keys.chunks(AT_ONCE) {
            redis::cmd("DEL").arg(some).exec(client).unwrap();
        }
    });
}

#[test]
fn nothing_is_left_of_locks_that_expired() {
    nothing_is_left("expired", "1", |_| {});
}

#[test]
fn nothing_is_left_of_locks_that_were_flushed() {
    nothing_is_left("flushed", "60000", |client| assert_eq!(say(client, "FLUSHALL"), "OK"));
}
