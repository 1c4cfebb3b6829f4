//! Effects are built only while they have a reader. A reader that begins while locks change misses none: a replica,
//! however it gets its snapshot, a replica of a promoted server, an AOF.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, sleep};
use std::time::Duration;

use redis::Connection;
use rlock_testkit::commands::{counter, say, say_words, story};
use rlock_testkit::{ServerBuilder, TestServer, eventually, wait_for_replicas_in_sync};

const SOON: Duration = Duration::from_secs(30);
const LOCKS: u64 = 40;
/// Numbers for locks that are acquired once each.
static ONCE: AtomicU64 = AtomicU64::new(0);

/// Changes locks on two connections for as long as `meanwhile` runs, and some time longer.
fn under_load(server: &TestServer, meanwhile: impl FnOnce()) {
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        for owner in ["alice", "bob"] {
            let (over, mut client) = (&over, server.connect());
            scope.spawn(move || change_locks(&mut client, owner, || over.load(Ordering::Relaxed)));
        }
        // Also when it panics: the others would never end.
        let _end = Ends(&over);
        meanwhile();
        sleep(Duration::from_millis(200));
    });
    // The last PEXPIRE has its effect.
    sleep(Duration::from_millis(50));
}

struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Every change by a command alone, in a transaction and in a script, with other waiters.
fn change_locks(client: &mut Connection, owner: &str, over: impl Fn() -> bool) {
    for round in 0u64.. {
        if over() {
            return;
        }
        // Most locks change again soon, which makes up for a missed change. These do not.
        if round.is_multiple_of(10) {
            let line = format!("RLOCK.ACQUIRE once:{} {owner} 5000000", ONCE.fetch_add(1, Ordering::Relaxed));
            story(client, &[(&line, "[1, 5000000, 0]")]);
        }
        let lock = round.wrapping_mul(7) % LOCKS;
        let line = match round % 11 {
            0 => format!("RLOCK.ACQUIRE lock{lock} {owner} {}", 1_000_000 + round),
            1 => format!("RLOCK.RELEASE lock{lock} {owner}"),
            2 => format!("RLOCK.RENEW lock{lock} {owner} {}", 2_000_000 + round),
            3 => format!("RLOCK.ACQUIRE lock{lock} {owner} 1000000 BLOCK 2"),
            4 => format!("RLOCK.FORCERELEASE lock{lock}"),
            5 => format!("EVAL return{{redis.call('RLOCK.ACQUIRE','lock{lock}','{owner}','1500000')}} 0"),
            6 => format!("RLOCK.ACQUIRE lock{lock} {owner} 900000 ENQUEUE 100 deaf"),
            7 => "MULTI".into(),
            // These hand the lock on as well.
            8 => format!("DEL lock{lock}"),
            9 => format!("PEXPIRE lock{lock} 1"),
            _ => format!("RLOCK.RELEASE lock{lock} {owner} ALL"),
        };
        let answer = say(client, &line);
        assert!(!answer.starts_with('!'), "{line}: {answer}");
        if line == "MULTI" {
            let lines = [
                format!("RLOCK.ACQUIRE lock{lock} {owner} 3000000"),
                format!("RLOCK.RELEASE lock{} {owner}", lock / 2),
            ];
            lines.iter().for_each(|line| assert_eq!(say(client, line), "QUEUED"));
            say(client, "EXEC");
        }
    }
}

/// All locks with their holders and expiry: their number, and a checksum.
const LOCKS_THERE: &str = "
    local locks = redis.call('keys', '*')
    table.sort(locks)
    local all = {}
    for _, lock in ipairs(locks) do
        local hash = redis.call('hgetall', lock)
        all[#all + 1] = lock .. ' ' .. table.concat(hash, ' ') .. ' ' .. redis.call('pexpiretime', lock)
    end
    return {#all, redis.sha1hex(table.concat(all, ','))}";

#[track_caller]
fn locks(client: &mut Connection) -> String {
    say_words(client, &["EVAL", LOCKS_THERE, "0"])
}

/// Waits until the server has found that effects have no reader.
#[track_caller]
fn await_nobody(server: &TestServer) {
    let client = &mut server.connect();
    eventually("changes without effects", SOON, || {
        let before = counter(server, "unread_changes");
        story(
            client,
            &[
                ("RLOCK.ACQUIRE other eve 1000000 HOLDS 1", "[1, ~1000000, 0]"),
                ("RLOCK.FORCERELEASE other", "1"),
            ],
        );
        (counter(server, "unread_changes") > before).then_some(())
    });
}

/// A server that drops its backlog a second after its last replica has left, and whose snapshots take some time.
fn primary(diskless: &str, delay: u32) -> ServerBuilder {
    TestServer::builder()
        .conf("repl-backlog-ttl", 1)
        .conf("repl-diskless-sync", diskless)
        .conf("repl-diskless-sync-delay", delay)
        .conf("rdb-key-save-delay", 300)
}

/// Gives the snapshot a separate connection, beside that of the effects, where a server supports it.
fn channel_of_its_own(servers: &[&TestServer]) {
    for server in servers {
        for option in ["repl-rdb-channel", "dual-channel-replication-enabled"] {
            let said = say(&mut server.connect(), &format!("CONFIG SET {option} yes"));
            assert!(said == "OK" || said.starts_with("!ERR Unknown option"), "{said}");
        }
    }
}

#[test]
fn a_replica_that_attaches_has_every_lock() {
    for (diskless, delay, another) in
        [("no", 0, false), ("yes", 0, false), ("yes", 1, false), ("no", 0, true)]
    {
        let primary = primary(diskless, delay).start();
        let replica = TestServer::builder().without_module().start();
        for _ in 0..2 {
            // The second time, once the backlog of the first is gone.
            await_nobody(&primary);
            channel_of_its_own(&[&primary, &replica]);
            under_load(&primary, || {
                if another {
                    // During another snapshot, long enough for a beat to find that effects have no reader.
                    say(&mut primary.connect(), "BGSAVE");
                    sleep(Duration::from_millis(150));
                }
                replica.replicate_from(&primary);
            });
            wait_for_replicas_in_sync(&primary, &replica);
            let before = counter(&primary, "unread_changes");
            let there = &mut replica.connect();
            assert_eq!(
                locks(there),
                locks(&mut primary.connect()),
                "diskless {diskless}, delay {delay}, {another}"
            );
            // A replica that was cut off, and continues from the backlog, misses none either.
            under_load(&primary, || {
                say(&mut primary.connect(), "CLIENT KILL TYPE replica");
            });
            wait_for_replicas_in_sync(&primary, &replica);
            assert_eq!(locks(there), locks(&mut primary.connect()), "after a cut");
            assert_eq!(counter(&primary, "unread_changes"), before, "there is a replica");
            story(there, &[("REPLICAOF NO ONE", "OK"), ("FLUSHALL", "OK")]);
        }
    }
}

#[test]
fn a_promoted_replica_feeds_its_own_replicas() {
    let first = TestServer::start();
    let (second, last) = (TestServer::start(), TestServer::builder().without_module().start());
    under_load(&first, || {
        second.replicate_from(&first);
        last.replicate_from(&second);
    });
    drop(first.kill9());
    story(&mut second.connect(), &[("REPLICAOF NO ONE", "OK")]);
    under_load(&second, || {});
    wait_for_replicas_in_sync(&second, &last);
    assert_eq!(locks(&mut last.connect()), locks(&mut second.connect()));
    assert_eq!(counter(&second, "unread_changes"), 0);
}

/// Waits until the AOF that was switched on is written.
#[track_caller]
fn await_aof(server: &TestServer) {
    eventually("the AOF", SOON, || {
        let info = server.info("persistence");
        let pending = ["aof_rewrite_scheduled", "aof_rewrite_in_progress"].map(|field| info[field] != "0");
        (info["aof_enabled"] == "1" && pending == [false, false]).then_some(())
    });
}

#[track_caller]
fn has_every_lock_in_its_aof(server: TestServer) {
    await_aof(&server);
    let before = locks(&mut server.connect());
    let aof = TestServer::builder().without_module().conf("appendonly", "yes").dir(server.kill9());
    assert_eq!(locks(&mut aof.start().connect()), before);
}

/// A sibling continues from its backlog without a snapshot, before its next beat: one a second here.
#[test]
fn a_promoted_replica_feeds_its_siblings() {
    let first = TestServer::start();
    let second = TestServer::builder().conf("hz", 1).start();
    let sibling = TestServer::builder().without_module().start();
    await_nobody(&second);
    sibling.replicate_from(&first);
    let (client, there) = (&mut second.connect(), &mut sibling.connect());
    second.replicate_from(&first);
    story(client, &[("REPLICAOF NO ONE", "OK"), ("RLOCK.ACQUIRE once alice 5000000", "[1, 5000000, 0]")]);
    story(there, &[(&format!("REPLICAOF 127.0.0.1 {}", second.port()), "OK")]);
    wait_for_replicas_in_sync(&second, &sibling);
    assert_eq!(second.info("stats")["sync_partial_ok"], "1");
    assert_eq!(locks(there), locks(client));
}

#[test]
fn an_aof_that_is_switched_on_has_every_lock() {
    let server = TestServer::builder().conf("rdb-key-save-delay", 300).start();
    await_nobody(&server);
    under_load(&server, || {
        story(&mut server.connect(), &[("CONFIG SET appendonly yes", "OK")]);
        await_aof(&server);
    });
    has_every_lock_in_its_aof(server);
}

#[test]
fn an_aof_that_is_switched_on_in_a_transaction_has_every_lock() {
    let server = TestServer::start();
    let client = &mut server.connect();
    await_nobody(&server);
    story(
        client,
        &[
            ("MULTI", "OK"),
            ("RLOCK.ACQUIRE lock0 alice 1000000", "QUEUED"),
            ("CONFIG SET appendonly yes", "QUEUED"),
            ("RLOCK.ACQUIRE lock1 alice 1000000", "QUEUED"),
            ("RLOCK.RELEASE lock0 alice", "QUEUED"),
            ("EXEC", "[[1, 1000000, 0], OK, [1, 1000000, 0], 1]"),
        ],
    );
    has_every_lock_in_its_aof(server);
}

#[test]
fn changes_count_for_snapshots() {
    let server = TestServer::start();
    let client = &mut server.connect();
    await_nobody(&server);
    let changes = || server.info("persistence")["rdb_changes_since_last_save"].parse::<u64>().unwrap();
    for (line, answer) in [
        ("RLOCK.ACQUIRE lock alice 1000000", "[1, 1000000, 0]"),
        ("RLOCK.RENEW lock alice 2000000", "1"),
        ("EVAL return{redis.call('RLOCK.RELEASE','lock','alice')} 0", "[1]"),
    ] {
        let before = changes();
        story(client, &[(line, answer)]);
        assert_eq!(changes(), before + 1, "{line}");
    }
    let before = changes();
    story(client, &[("RLOCK.RELEASE lock alice", "null")]);
    assert_eq!(changes(), before);
}
