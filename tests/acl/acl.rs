//! The permissions that locking needs: the ACL category of rlock, named commands, keys and channels.

use rlock_testkit::prelude::*;

/// What a user needs that shall lock, command by command.
const NAMED: &str = "+rlock.acquire +rlock.release +rlock.renew +rlock.info";

/// Adds the user `app` with these rules, and connects as it.
#[track_caller]
pub(crate) fn user(server: &TestServer, rules: &str) -> Connection {
    let added = say(&mut server.connect(), &format!("ACL SETUSER app reset on >secret {rules}"));
    assert_eq!(added, "OK", "{rules}");
    server.connect_as("app", "secret")
}

/// Whether the server lets modules have categories of their own.
fn has_our_category(server: &TestServer) -> bool {
    say(&mut server.connect(), "ACL CAT").contains("\"rlock\"")
}

/// Whether the server lets modules put their commands in categories: since Redis 7.2.
fn has_command_categories(server: &TestServer) -> bool {
    let version = server.version();
    version.name != ServerName::Redis || version.is_at_least(ServerName::Redis, 7, 2)
}

#[track_caller]
fn is_refused_each(client: &mut Connection, lines: &[&str]) {
    for line in lines {
        client.story(&[(line, "!NOPERM …")]);
    }
}

/// Shows that a user of `locks:*` can lock and do nothing else.
#[track_caller]
fn can_lock_and_nothing_else(server: &TestServer, app: &mut Connection) {
    let mut listener = Subscriber::channel(server, "redisson_lock__channel:{locks:1}");
    app.story(&[
        ("RLOCK.ACQUIRE locks:1 alice 100000", "[1, 100000, 0]"),
        ("RLOCK.ACQUIRE locks:1 alice 100000 HOLDS 2", "[2, ~100000, 0]"),
        ("RLOCK.ACQUIRE locks:1 bob 100000", "null"),
        ("RLOCK.RENEW locks:1 alice 100000", "1"),
        ("RLOCK.INFO locks:2 LIMIT 0", FREE),
        ("RLOCK.RELEASE locks:1 alice", "0"),
    ]);
    assert!(listener.drain().is_empty());
    assert_eq!(say(app, "RLOCK.RELEASE locks:1 alice"), "1");
    let unlocked = (b"redisson_lock__channel:{locks:1}".to_vec(), b"0".to_vec());
    assert_eq!(listener.drain(), [unlocked]);
    is_refused_each(
        app,
        &[
            "RLOCK.FORCERELEASE locks:1",
            "RLOCK.FORCERELEASE locks:1 alice",
            "GET locks:1",
            "HGETALL locks:1",
            "HSET locks:1 alice 1",
            "DEL locks:1",
            "PTTL locks:1",
            "PUBLISH redisson_lock__channel:{locks:1} 0",
            "SUBSCRIBE redisson_lock__channel:{locks:1}",
            "EVAL return{1} 0",
            "CONFIG GET rlock.accept",
            "INFO rlock",
            "PING",
        ],
    );
}

const FREE: &str = r#"["kind", "none", "mode", null, "lease-ms", -2, "token", 0, "holder-count", 0, "waiter-count", 0, "holders", [], "queue", []]"#;

#[test]
fn locking_needs_only_the_category_of_rlock() {
    let server = TestServer::start();
    let version = server.version();
    let promised =
        version.is_at_least(ServerName::Redis, 7, 4) || version.is_at_least(ServerName::Valkey, 8, 0);
    assert!(has_our_category(&server) || !promised, "{version:?} lets modules have categories");
    if !has_our_category(&server) {
        server.connect().story(&[("ACL SETUSER app +@rlock", "!ERR …")]);
        return;
    }
    // ACL CAT rlock lists commands of modules on some servers only.
    for name in ["acquire", "release", "renew", "cancel", "info"] {
        let described = say(&mut server.connect(), &format!("COMMAND INFO rlock.{name}"));
        assert!(described.contains("@rlock"), "{described}");
        // Each may serve a queue, whose readers are let in together.
        assert!(described.contains("@slow") && !described.contains("fast"), "{described}");
    }
    // New users have no channel, unless acl-pubsub-default says otherwise; here it is said.
    let app = &mut user(&server, "resetchannels ~locks:* +@rlock");
    can_lock_and_nothing_else(&server, app);
    // The rules as they stand in the documentation.
    can_lock_and_nothing_else(&server, &mut user(&server, "~locks:* +@rlock"));
}

#[test]
fn named_commands_are_all_that_locking_needs() {
    let server = TestServer::start();
    let app = &mut user(&server, &format!("resetchannels ~locks:* {NAMED}"));
    can_lock_and_nothing_else(&server, app);
}

#[test]
fn a_user_of_the_configuration_file_can_lock() {
    let probe = TestServer::start();
    let commands = if has_our_category(&probe) { "+@rlock" } else { NAMED };
    let rules = format!("app on >secret ~locks:* {commands}");
    let server = TestServer::builder().conf("user", rules).start();
    can_lock_and_nothing_else(&server, &mut server.connect_as("app", "secret"));
}

#[test]
fn a_transaction_does_not_lend_permissions() {
    let server = TestServer::start();
    let app = &mut user(&server, &format!("~locks:* +multi +exec {NAMED}"));
    assert_eq!(say(app, "MULTI"), "OK");
    assert_eq!(say(app, "RLOCK.ACQUIRE locks:1 alice 100000"), "QUEUED");
    is_refused_each(app, &["RLOCK.FORCERELEASE locks:1", "RLOCK.ACQUIRE other alice 100000"]);
    assert!(say(app, "EXEC").starts_with("!EXECABORT "));
    assert_eq!(say(&mut server.connect(), "EXISTS locks:1 other"), "0");
}

#[test]
fn keys_outside_the_pattern_are_refused() {
    let server = TestServer::start();
    let app = &mut user(&server, &format!("~locks:* {NAMED} +rlock.forcerelease"));
    let lines = [
        "RLOCK.ACQUIRE other alice 100000",
        "RLOCK.RELEASE other alice",
        "RLOCK.RENEW other alice 100000",
        "RLOCK.FORCERELEASE other",
        "RLOCK.FORCERELEASE other locks:1",
        "RLOCK.INFO other",
        "RLOCK.ACQUIRE other locks:1 100000",
    ];
    is_refused_each(app, &lines);
    assert_eq!(say(app, "RLOCK.FORCERELEASE locks:1"), "0");
    for rules in ["%R~locks:*", "%W~locks:*"] {
        let app = &mut user(&server, &format!("{rules} {NAMED} +rlock.forcerelease"));
        let lines = lines.map(|line| line.replace("other", "locks:1"));
        let changing = lines.iter().filter(|line| !line.contains("INFO")).map(String::as_str);
        is_refused_each(app, &changing.collect::<Vec<_>>());
    }
    let app = &mut user(&server, &format!("%RW~locks:* {NAMED} +rlock.forcerelease"));
    app.story(&[
        ("RLOCK.ACQUIRE locks:1 alice 100000", "[1, 100000, 0]"),
        ("RLOCK.RENEW locks:1 alice 100000", "1"),
        ("RLOCK.RELEASE locks:1 alice", "1"),
        ("RLOCK.ACQUIRE locks:1 bob 100000", "[1, 100000, 0]"),
        ("RLOCK.FORCERELEASE locks:1", "1"),
        ("RLOCK.INFO locks:1", FREE),
    ]);
    assert_eq!(say(&mut server.connect(), "EXISTS other locks:1"), "0");
}

#[test]
fn info_needs_read_access_only() {
    let server = TestServer::start();
    let reader = &mut user(&server, &format!("%R~locks:* {NAMED}"));
    assert_eq!(say(reader, "RLOCK.INFO locks:1"), FREE);
    say(&mut server.connect(), "RLOCK.ACQUIRE locks:1 alice 100000");
    assert!(say(reader, "RLOCK.INFO locks:1").starts_with(r#"["kind", "mutex""#));
    let writer = &mut user(&server, &format!("%W~locks:* {NAMED}"));
    is_refused_each(writer, &["RLOCK.INFO locks:1"]);
}

/// INFO needs read access to the lock's key only. It also shows the token and the waiters, which other keys
/// of this lock hold.
#[test]
fn info_shows_the_token_and_the_waiters_to_a_user_of_the_lock_key() {
    let server = TestServer::start();
    let (admin, _listener) = (&mut server.connect(), Subscriber::channel(&server, "news"));
    admin.story(&[
        ("SET redisson_lock_token:{locks:1} 9007199254740000", "OK"),
        ("RLOCK.ACQUIRE locks:1 alice 100000 FENCED", "[1, 100000, 9007199254740001]"),
        ("RLOCK.ACQUIRE locks:1 bob 100000 FAIR ENQUEUE 0 news", "[0, 0, 0]"),
        ("RPUSH redisson_lock_queue:{locks:1} carol", "2"),
        ("RLOCK.ACQUIRE locks:2 alice 100000 READ", "[1, 100000, 0]"),
        ("SET redisson_lock_token:{locks:3} secret", "OK"),
    ]);
    let reader = &mut user(&server, &format!("%R~locks:* {NAMED}"));
    let said = say(reader, "RLOCK.INFO locks:1");
    for told in [r#""token", 9007199254740001"#, r#""waiter-count", 2"#, r#""bob""#, r#""carol""#] {
        assert!(said.contains(told), "{told}: {said}");
    }
    assert!(say(reader, "RLOCK.INFO locks:2").contains(r#""mode", "read""#));
    // INFO shows no value that is not a token.
    assert_eq!(say(reader, "RLOCK.INFO locks:3"), FREE);
    is_refused_each(reader, &["RLOCK.INFO other", "RLOCK.INFO redisson_lock_token:{locks:1}"]);
}

#[test]
fn forcerelease_is_dangerous_and_not_in_the_category_of_rlock() {
    let (server, admin) = &mut TestServer::start_and_connect();
    let described = say(admin, "COMMAND INFO rlock.forcerelease");
    assert!(!described.contains("@rlock"), "{described}");
    if !has_command_categories(server) {
        // Redis 7.0 has no command of a module in any category.
        assert!(!described.contains('@'), "{described}");
        return;
    }
    assert!(described.contains("@dangerous"), "{described}");
    let careful = &mut user(server, "~* +@all -@dangerous");
    assert_eq!(say(careful, "RLOCK.ACQUIRE locks:1 alice 100000"), "[1, 100000, 0]");
    is_refused_each(careful, &["RLOCK.FORCERELEASE locks:1"]);
    let bold = &mut user(server, "~* +@dangerous");
    assert_eq!(say(bold, "RLOCK.FORCERELEASE locks:1"), "1");
    is_refused_each(bold, &["RLOCK.ACQUIRE locks:1 alice 100000"]);
}

/// A user whose rights stand in an ACL file cannot exist where the module is missing: OPERATIONS.md makes it in two steps.
#[test]
fn an_acl_file_with_commands_of_rlock_needs_the_module() {
    let file = DataDir::temporary();
    let path = file.path().join("users.acl");
    std::fs::write(&path, "user default on nopass ~* &* +@all\nuser app on nopass ~locks:* +rlock.acquire\n")
        .unwrap();
    let with_file = || TestServer::builder().conf("aclfile", path.display());
    let failure = with_file().without_module().try_start().unwrap_err();
    assert!(failure.log.contains("rlock.acquire"), "{}", failure.log);
    let (server, client) = &mut with_file().start_and_connect();
    assert!(say(client, "ACL GETUSER app").contains("+rlock.acquire"), "{}", server.log_of_this_start());
}
