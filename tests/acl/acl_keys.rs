//! Permissions for the keys that belong to a lock: its readers' lease keys, its fencing token and its fair list.

use rlock_testkit::prelude::*;

/// A connection of a user that may lock, with these keys and what else these rules say.
#[track_caller]
fn user(server: &TestServer, rules: &str) -> Connection {
    let commands = "+rlock.acquire +rlock.release +rlock.renew +rlock.cancel +rlock.info";
    crate::acl::user(server, &format!("resetchannels {commands} {rules}"))
}

#[test]
fn readers_need_their_lease_keys() {
    let server = TestServer::start();
    let refused = "!NOPERM No permissions to access the lease keys of the lock's readers";
    let app = &mut user(&server, "~locks:*");
    assert_eq!(say(app, "RLOCK.ACQUIRE locks:1 alice 100000 READ"), refused);
    assert_eq!(say(app, "RLOCK.ACQUIRE locks:1 alice 100000 READ BLOCK 0"), refused);
    app.story(&[
        ("RLOCK.ACQUIRE locks:1 alice 100000 WRITE", "[1, 100000, 0]"),
        ("RLOCK.RELEASE locks:1 alice", "1"),
        // Where the name has a tag of its own the lease keys begin as the lock does.
        ("RLOCK.ACQUIRE locks:{1} alice 100000 READ", "[1, 100000, 0]"),
        ("RLOCK.RELEASE locks:{1} alice", "1"),
    ]);
    let app = &mut user(&server, "~locks:* ~{locks:*}:*:rwlock_timeout:*");
    app.story(&[
        ("RLOCK.ACQUIRE locks:1 alice 100000 READ", "[1, 100000, 0]"),
        ("RLOCK.RELEASE locks:1 alice", "1"),
    ]);
}

/// Once only ACQUIRE checked its user's permission for lease keys: a user of `locks:*` alone could end and prolong
/// the leases of readers.
#[test]
fn releasing_or_renewing_a_read_hold_needs_the_lease_keys() {
    let (server, admin) = &mut TestServer::start_and_connect();
    admin.story(&[
        ("RLOCK.ACQUIRE locks:1 alice 100000 READ", "[1, 100000, 0]"),
        ("RLOCK.ACQUIRE locks:1 alice 100000 READ", "[2, 100000, 0]"),
        ("RLOCK.ACQUIRE locks:2 alice 100000 WRITE", "[1, 100000, 0]"),
        ("RLOCK.ACQUIRE locks:2 alice 100000 READ", "[1, 100000, 0]"),
        // Has died: a release that is let through clears its field away.
        ("HSET locks:1 dead 1", "1"),
    ]);
    let keys = ["locks:1", "{locks:1}:alice:rwlock_timeout:1", "{locks:1}:alice:rwlock_timeout:2", "locks:2"];
    let before = keys.map(|key| state(admin, key));
    let refused = "!NOPERM No permissions to access the lease keys of the lock's readers";
    let app = &mut user(server, "~locks:* +rlock.forcerelease +eval");
    for line in [
        "RLOCK.RENEW locks:1 alice 50000",
        "RLOCK.RENEW locks:1 alice 50000 READ",
        "RLOCK.RELEASE locks:1 alice",
        "RLOCK.RELEASE locks:1 alice ALL",
        "RLOCK.RELEASE locks:1 alice READ",
        "RLOCK.RELEASE locks:1 alice LEASE 50000 HOLDS 2",
        "RLOCK.RELEASE locks:2 alice READ",
        "RLOCK.FORCERELEASE locks:1 alice",
        "RLOCK.FORCERELEASE locks:2 alice",
        "EVAL return{redis.call('RLOCK.RELEASE',KEYS[1],'alice','READ')} 1 locks:1",
    ] {
        let said = say(app, line);
        assert!(said.starts_with(refused), "{line}: {said}");
    }
    assert_eq!(keys.map(|key| state(admin, key)), before);
    app.story(&[
        // Here there is no lease key of theirs to be touched.
        ("RLOCK.RENEW locks:1 bob 50000 READ", "0"),
        ("RLOCK.RELEASE locks:1 bob READ", "null"),
        ("RLOCK.RENEW locks:2 alice 50000 WRITE", "1"),
        ("RLOCK.RELEASE locks:2 alice WRITE", "1"),
        ("RLOCK.FORCERELEASE locks:1", "1"),
    ]);
    assert_eq!(say(admin, "EXISTS {locks:1}:alice:rwlock_timeout:2 {locks:2}:alice:rwlock_timeout:1"), "2");
}

#[test]
fn fair_waiters_need_the_fair_queue() {
    let server = TestServer::start();
    let refused = "!NOPERM No permissions to access the keys of the lock's fair list";
    let queue = "~redisson_lock_queue:{locks:*}";
    for keys in ["~locks:*".to_owned(), format!("~locks:* {queue}")] {
        let app = &mut user(&server, &keys);
        assert_eq!(say(app, "RLOCK.ACQUIRE locks:1 alice 100000 FAIR"), refused, "{keys}");
    }
    let rules = format!("~locks:* {queue} ~redisson_lock_timeout:{{locks:*}}");
    let app = &mut user(&server, &rules);
    app.story(&[
        ("RLOCK.ACQUIRE locks:1 alice 100000 FAIR", "[1, 100000, 0]"),
        ("RLOCK.ACQUIRE locks:1 bob 100000 FAIR BLOCK 1", "null"),
        ("RLOCK.RELEASE locks:1 alice", "1"),
    ]);
}

#[test]
fn what_belongs_to_a_lock_with_a_hash_tag_begins_as_the_lock_does() {
    let server = TestServer::start();
    let kinds = ["token", "queue", "timeout"];
    let keys: String = kinds.iter().map(|kind| format!(" ~redisson_lock_{kind}:locks:*")).collect();
    let app = &mut user(&server, &format!("~locks:*{keys}"));
    assert_eq!(say(&mut server.connect(), "SET redisson_lock_token:locks:{1} 9007199254740000"), "OK");
    app.story(&[
        ("RLOCK.ACQUIRE locks:{1} alice 100000 FAIR FENCED", "[1, 100000, 9007199254740001]"),
        ("RLOCK.RELEASE locks:{1} alice", "1"),
        ("RLOCK.ACQUIRE locks:{1} alice 100000 READ", "[1, 100000, 0]"),
    ]);
    for option in ["FAIR", "FENCED"] {
        app.story(&[(&format!("RLOCK.ACQUIRE locks:1 alice 100000 {option}"), "!NOPERM …")]);
    }
}

/// A waiter's permissions are checked when it starts to wait. The command of another client that frees the lock
/// needs none of them, nor does the server's timer.
#[test]
fn a_waiter_is_granted_what_it_may_have_by_any_command_that_frees_the_lock() {
    let server = TestServer::start();
    let (admin, _listener) = (&mut server.connect(), Subscriber::channel(&server, "news"));
    let app = &mut user(&server, "~locks:*");
    app.story(&[
        ("RLOCK.ACQUIRE locks:1 alice 100000", "[1, 100000, 0]"),
        ("RLOCK.ACQUIRE locks:2 alice 100000 WRITE", "[1, 100000, 0]"),
    ]);
    admin.story(&[
        ("CONFIG SET rlock.grant-confirm-ms 100000", "OK"),
        ("RLOCK.ACQUIRE locks:1 bob 100000 FENCED ENQUEUE 0 news", "[0, 0, 0]"),
        ("RLOCK.ACQUIRE locks:1 carol 100000 FAIR ENQUEUE 0 news", "[0, 0, 0]"),
        ("RLOCK.ACQUIRE locks:2 bob 100000 READ ENQUEUE 0 news", "[0, 0, 0]"),
    ]);
    let kept =
        "EXISTS redisson_lock_queue:{locks:1} redisson_lock_token:{locks:1} {locks:2}:bob:rwlock_timeout:1";
    assert_eq!(say(admin, kept), "1");
    app.story(&[("RLOCK.RELEASE locks:1 alice", "1"), ("RLOCK.RELEASE locks:2 alice", "1")]);
    assert_eq!(say(admin, kept), "3");
    assert_eq!(say(app, "RLOCK.CANCEL locks:1 carol"), "1");
    assert_eq!(say(admin, kept), "2");
}
