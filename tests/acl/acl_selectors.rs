//! Users with several sets of rules (selectors): one selector must allow a command together with each key that it
//! writes, also the keys beside the lock's own.
//!
//! The module once asked only whether any selector allows the key beside the lock. With one selector for locks and
//! another for SET and RPUSH, RLOCK.ACQUIRE wrote tokens, leases and fair queues that no selector let it write.

use rlock_testkit::prelude::*;

const LOCK: &str = "+rlock.acquire +rlock.release +rlock.renew +rlock.forcerelease";

/// An option of RLOCK.ACQUIRE, the keys beside the lock that it uses, what is refused, and one of these keys.
const BESIDE: [(&str, &str, &str, &str); 3] = [
    (
        "FENCED",
        "~redisson_lock_token:{locks:*}",
        "the key of the lock's fencing token",
        "redisson_lock_token:{locks:1}",
    ),
    (
        "READ",
        "~{locks:*}:*:rwlock_timeout:*",
        "the lease keys of the lock's readers",
        "{locks:1}:alice:rwlock_timeout:1",
    ),
    (
        "FAIR",
        "~redisson_lock_queue:{locks:*} ~redisson_lock_timeout:{locks:*}",
        "the keys of the lock's fair list",
        "redisson_lock_queue:{locks:1}",
    ),
];

/// A connection of a user with these rules alone.
#[track_caller]
fn user(server: &TestServer, rules: &str) -> Connection {
    crate::acl::user(server, &format!("resetchannels {rules}"))
}

#[track_caller]
fn is_refused(app: &mut Connection, line: &str, what: &str) {
    let said = say(app, line);
    assert_eq!(said, format!("!NOPERM No permissions to access {what}"), "{line}");
}

#[test]
fn one_selector_allows_the_command_and_the_key_beside_the_lock() {
    let (server, admin) = &mut TestServer::start_and_connect();
    for (option, keys, what, beside) in BESIDE {
        for rules in [
            // Allowed for this first argument only, and the key beside the lock is another.
            "+rlock.acquire|locks:1 +rlock.release ~*".to_owned(),
            format!("{LOCK} ~locks:* (+get +set +rpush +zadd {keys})"),
            format!("{LOCK} ~locks:* (+@all -rlock.acquire {keys})"),
            format!("({LOCK} ~locks:*) (+get +set {keys}) (+rlock.info ~*)"),
            format!(
                "{LOCK} ~locks:* (+rlock.acquire {}) (+@all -rlock.acquire {keys})",
                keys.replace('~', "%R~")
            ),
            format!(
                "{LOCK} ~locks:* (+rlock.acquire {}) (+@all -rlock.acquire {keys})",
                keys.replace('~', "%W~")
            ),
        ] {
            assert_eq!(say(admin, "ACL LOG RESET"), "OK");
            let app = &mut user(server, &rules);
            for wait in ["", " HOLDS 1", " BLOCK 0", " BLOCK 100000"] {
                is_refused(app, &format!("RLOCK.ACQUIRE locks:1 alice 100000 {option}{wait}"), what);
            }
            let log = say(admin, "ACL LOG");
            assert!(log.contains(beside) && log.contains(r#""reason", "key""#), "{log}");
            // Nothing is written, and a plain lock needs none of it.
            assert_eq!(say(admin, "DBSIZE"), "0", "{rules}");
            app.story(&[
                ("RLOCK.ACQUIRE locks:1 alice 100000", "[1, 100000, 0]"),
                ("RLOCK.RELEASE locks:1 alice", "1"),
            ]);
        }
    }
}

#[test]
fn a_selector_that_allows_all_of_it_is_enough() {
    let server = TestServer::start();
    for (option, keys, ..) in BESIDE {
        for rules in [
            format!("{LOCK} ~locks:* {keys}"),
            format!("({LOCK} ~locks:* {keys})"),
            format!("({LOCK} ~locks:*) (+get ~other:*) ({LOCK} ~locks:* {keys})"),
            // Each allows the command: the second one even a lock whose name is that key.
            format!("({LOCK} ~locks:*) ({LOCK} {keys})"),
            format!("({LOCK} ~locks:*) ({LOCK} {})", keys.replace('~', "%RW~")),
            "+@all ~*".to_owned(),
        ] {
            can_use(&mut user(&server, &rules), option);
        }
        can_use(&mut server.connect(), option);
    }
}

#[track_caller]
fn can_use(app: &mut Connection, option: &str) {
    app.story(&[(&format!("RLOCK.ACQUIRE locks:1 alice 100000 {option}"), "[1, 100000, …")]);
    // The case of the command's name makes no difference.
    app.story(&[(&format!("rLock.Acquire locks:1 alice 100000 {option}"), "[2, 100000, …")]);
    app.story(&[("RLOCK.RENEW locks:1 alice 100000", "1"), ("RLOCK.RELEASE locks:1 alice ALL", "1")]);
}

#[test]
fn each_command_is_asked_for_by_its_own_name() {
    let (server, admin) = &mut TestServer::start_and_connect();
    let (_, leases, what, _) = BESIDE[1];
    let app = &mut user(
        server,
        &format!(
            "{LOCK} ~locks:* (+rlock.acquire +@write -rlock.renew -rlock.release -rlock.forcerelease {leases})"
        ),
    );
    app.story(&[
        ("RLOCK.ACQUIRE locks:1 alice 100000 READ", "[1, 100000, 0]"),
        ("RLOCK.ACQUIRE locks:1 alice 100000 READ", "[2, 100000, 0]"),
    ]);
    let keys = ["locks:1", "{locks:1}:alice:rwlock_timeout:1", "{locks:1}:alice:rwlock_timeout:2"];
    let before = keys.map(|key| state(admin, key));
    for line in [
        "RLOCK.RENEW locks:1 alice 50000",
        "RLOCK.RENEW locks:1 alice 50000 READ",
        "RLOCK.RELEASE locks:1 alice",
        "RLOCK.RELEASE locks:1 alice READ ALL",
        "RLOCK.RELEASE locks:1 alice LEASE 50000 HOLDS 1",
        "RLOCK.FORCERELEASE locks:1 alice",
    ] {
        is_refused(app, line, what);
    }
    assert_eq!(keys.map(|key| state(admin, key)), before);
    for (line, said, commands) in [
        ("RLOCK.RENEW locks:1 alice 50000", "1", "+rlock.renew"),
        ("RLOCK.RELEASE locks:1 alice HOLDS 1", "0", "+rlock.release"),
        ("RLOCK.FORCERELEASE locks:1 alice", "1", "+rlock.forcerelease"),
    ] {
        let app = &mut user(server, &format!("{LOCK} ~locks:* ({commands} {leases})"));
        assert_eq!(say(app, line), said, "{line}");
    }
}

#[test]
fn scripts_and_transactions_lend_no_selector() {
    let (server, admin) = &mut TestServer::start_and_connect();
    for (option, keys, what, _) in BESIDE {
        let app =
            &mut user(server, &format!("{LOCK} +eval +multi +exec ~locks:* (+@all -rlock.acquire {keys})"));
        let script =
            format!("EVAL return{{redis.call('RLOCK.ACQUIRE',KEYS[1],'alice',100000,'{option}')}} 1 locks:1");
        let said = say(app, &script);
        assert!(said.starts_with("!NOPERM ") && said.contains(what), "{said}");
        app.story(&[("MULTI", "OK"), (&format!("RLOCK.ACQUIRE locks:1 alice 100000 {option}"), "QUEUED")]);
        let said = say(app, "EXEC");
        assert!(said.contains(what), "{said}");
        assert_eq!(say(admin, "DBSIZE"), "0", "{option}");
        let app = &mut user(server, &format!("+eval ~locks:* ({LOCK} ~locks:* {keys})"));
        let said = say(app, &script);
        assert!(said.starts_with("[[1, 100000, "), "{said}");
        assert_eq!(say(admin, "RLOCK.RELEASE locks:1 alice"), "1");
        assert_eq!(say(admin, "FLUSHALL"), "OK");
    }
}

/// A module cannot ask a server about a command together with a channel that the command does not declare.
#[test]
fn the_channel_of_enqueue_may_be_allowed_by_any_selector() {
    let server = TestServer::start();
    let _listener = Subscriber::channel(&server, "news");
    let app = &mut user(&server, &format!("{LOCK} ~locks:* (+subscribe &news)"));
    app.story(&[
        ("RLOCK.ACQUIRE locks:1 alice 100000", "[1, 100000, 0]"),
        ("RLOCK.ACQUIRE locks:1 bob 100000 ENQUEUE 0 news", "[0, 0, 0]"),
    ]);
    is_refused(app, "RLOCK.ACQUIRE locks:1 carol 100000 ENQUEUE 0 olds", "the channel of ENQUEUE");
}
