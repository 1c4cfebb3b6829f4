//! A panic in the module does not end the server: planted ones, by a build with fault injection.

use std::env;
use std::process::Command;

use rlock_testkit::prelude::*;

const ALICE: &str = "RLOCK.ACQUIRE lock alice 100000";
const BOB: &str = "RLOCK.ACQUIRE lock bob 100000";

/// What a command answers in whose way a panic was.
const INTERNAL: &str = "!ERR rlock: internal error: ";

/// A server with the faulty build, and a lock that alice holds once.
fn server_with_a_lock() -> (TestServer, Connection) {
    let (server, mut client) = TestServer::builder().module(fault_module_path()).start_and_connect();
    assert_eq!(say(&mut client, ALICE), "[1, 100000, 0]");
    (server, client)
}

/// Lets the next callback of this kind panic.
#[track_caller]
fn plant(client: &mut Connection, kind: &str) {
    assert_eq!(say(client, &format!("RLOCK.FAULT {kind}")), "1");
}

#[track_caller]
fn panics(server: &TestServer) -> u64 {
    server.info("rlock")["rlock_panics"].parse().unwrap()
}

/// Shows that the lock of [`server_with_a_lock`] is as it was and that the commands work on it.
#[track_caller]
fn works_as_before(client: &mut Connection) {
    let lines = [
        ("PING", "PONG"),
        (BOB, "null"),
        ("RLOCK.ACQUIRE lock alice 1000 HOLDS 1", "[1, ~100000, 0]"),
        ("RLOCK.ACQUIRE other bob 100000", "[1, 100000, 0]"),
        ("RLOCK.RELEASE other bob", "1"),
        ("HGETALL lock", r#"["alice", "1"]"#),
    ];
    client.story(&lines);
}

/// Shows that the log reports a panic of this kind, and where in the source it was.
#[track_caller]
fn log_says_where(server: &TestServer, kind: &str) {
    let log = server.log();
    let line = log.lines().find(|line| line.contains(&format!("panic in a {kind} callback")));
    let line = line.unwrap_or_else(|| panic!("no panic of {kind} in the log:\n{log}"));
    assert!(line.contains("src/ffi/fault.rs:"), "{line}");
    // The planted message has a line end and a NUL; the log line continues after both.
    assert!(line.contains("a planted fault of two lines with a   in them"), "{line}");
    assert!(line.contains("rlock: panic in"), "{line}");
}

#[test]
fn a_panic_in_a_command_is_answered_logged_and_counted() {
    let (server, client) = &mut server_with_a_lock();
    let (before, mut stream) = (state(client, "lock"), ReplicaStream::open(server));
    let mut listener = Subscriber::pattern(server, "*");
    let lines = [
        ALICE,
        BOB,
        "RLOCK.ACQUIRE free bob 100000",
        "RLOCK.RELEASE lock alice",
        "RLOCK.RENEW lock alice 1000",
        "RLOCK.FORCERELEASE lock",
        "RLOCK.INFO lock",
    ];
    for (count, line) in (1..).zip(lines) {
        plant(client, "command");
        let said = say(client, line);
        assert!(said.starts_with(INTERNAL), "{line}: {said}");
        assert!(said.ends_with("see the server's log and report it"), "{line}: {said}");
        // Exactly one reply: this one belongs to its own question.
        assert_eq!(say(client, "PING"), "PONG", "{line}");
        assert_eq!(panics(server), count, "{line}");
        assert_eq!(server.info("rlock")["rlock_errors"], count.to_string(), "{line}");
    }
    log_says_where(server, "Command");
    // A panic with each command must not fill the disk.
    assert_eq!(server.log().matches("panic in a Command callback").count(), 1);
    assert_eq!(state(client, "lock"), before);
    assert_eq!(say(client, "EXISTS free"), "0");
    assert!(listener.drain().is_empty() && stream.so_far(server).is_empty());
    works_as_before(client);
}

#[test]
fn a_panic_in_a_transaction_or_a_script_is_an_error_of_that_command() {
    let (_, client) = &mut server_with_a_lock();
    plant(client, "command");
    for line in ["MULTI", BOB, BOB] {
        say(client, line);
    }
    let answers = say(client, "EXEC");
    assert!(answers.starts_with(&format!("[{INTERNAL}")) && answers.ends_with(", null]"), "{answers}");
    plant(client, "command");
    let said = say(client, "EVAL return{redis.pcall('RLOCK.RELEASE','lock','alice')['err']~=nil} 0");
    assert_eq!(said, "[1]");
    works_as_before(client);
}

#[test]
fn a_panic_in_any_other_callback_leaves_the_server_alive() {
    while_a_hash_is_read();
    while_an_option_is_read();
    while_an_option_is_set();
    in_the_section_of_info();
    in_a_server_event();
    while_unloading();
    while_loading();
}

/// A field that was not seen must not be taken for one that is not there.
fn while_a_hash_is_read() {
    let (server, client) = &mut server_with_a_lock();
    let before = state(client, "lock");
    let lines = [BOB, "RLOCK.RELEASE lock bob", "RLOCK.RENEW lock bob 1000", "RLOCK.INFO lock"];
    for (count, line) in (1..).zip(lines.into_iter().chain(["RLOCK.FORCERELEASE lock"])) {
        plant(client, "scan");
        let said = say(client, line);
        assert!(said.starts_with(INTERNAL), "{line}: {said}");
        assert_eq!(say(client, "PING"), "PONG", "{line}");
        assert_eq!(state(client, "lock"), before, "{line}");
        assert_eq!(panics(server), count, "{line}");
    }
    log_says_where(server, "Scan");
    works_as_before(client);
}

fn while_an_option_is_read() {
    let (server, client) = &mut server_with_a_lock();
    plant(client, "config");
    assert_eq!(say(client, "CONFIG GET rlock.accept"), r#"["rlock.accept", "yes"]"#, "the default");
    assert_eq!(panics(server), 1);
    log_says_where(server, "Config");
    plant(client, "config");
    say(client, "CONFIG SET rlock.accept no");
    assert_eq!(say(client, "PING"), "PONG");
    assert_eq!(panics(server), 2);
    assert_eq!(say(client, "CONFIG SET rlock.accept no"), "OK");
    assert_eq!(say(client, "CONFIG GET rlock.accept"), r#"["rlock.accept", "no"]"#);
    assert_eq!(say(client, "CONFIG SET rlock.accept yes"), "OK");
    works_as_before(client);
}

fn while_an_option_is_set() {
    let (server, client) = &mut server_with_a_lock();
    plant(client, "set-option");
    client.story(&[("CONFIG SET rlock.accept no", "!ERR …")]);
    assert_eq!(say(client, "CONFIG GET rlock.accept"), r#"["rlock.accept", "yes"]"#);
    assert_eq!(panics(server), 1);
    log_says_where(server, "SetOption");
    works_as_before(client);
}

fn in_the_section_of_info() {
    let (server, client) = &mut server_with_a_lock();
    for (count, section) in (1..).zip(["rlock", "modules", "everything"]) {
        plant(client, "info");
        let said = say(client, &format!("INFO {section}"));
        assert!(said.starts_with('"') && !said.contains("rlock_acquired"), "{section}: {said}");
        assert_eq!(said.contains("used_memory:"), section == "everything", "{section}: {said}");
        assert_eq!(panics(server), count, "{section}");
    }
    log_says_where(server, "Info");
    works_as_before(client);
}

fn in_a_server_event() {
    let (server, client) = &mut server_with_a_lock();
    plant(client, "server-event");
    assert_eq!(say(client, "CONFIG SET maxmemory 200mb maxmemory-policy allkeys-lru"), "OK");
    assert_eq!(panics(server), 1);
    log_says_where(server, "ServerEvent");
    // The next event is handled again.
    assert_eq!(say(client, "CONFIG SET maxmemory 300mb"), "OK");
    assert_eq!(server.info("rlock")["rlock_locks_may_be_evicted"], "1");
    works_as_before(client);
}

fn while_unloading() {
    let (server, client) = &mut server_with_a_lock();
    plant(client, "unload");
    client.story(&[("MODULE UNLOAD rlock", "!ERR …")]);
    assert_eq!(panics(server), 1);
    log_says_where(server, "Unload");
    works_as_before(client);
}

/// The variable by which the load itself panics.
const AT_LOAD: &str = "RLOCK_FAULT_AT_LOAD";

/// A server takes its environment from the process that starts it, so that is one of its own.
fn while_loading() {
    let me = env::current_exe().unwrap();
    let run = Command::new(me)
        .args(["--exact", "guard::with_a_faulty_load", "--ignored"])
        .env(AT_LOAD, "1")
        .output();
    let run = run.unwrap();
    let said = String::from_utf8_lossy(&run.stdout);
    assert!(run.status.success() && said.contains("1 passed"), "{said}");
}

#[test]
#[ignore = "a part of a_panic_in_any_other_callback_leaves_the_server_alive, which runs it"]
fn with_a_faulty_load() {
    if env::var_os(AT_LOAD).is_none() {
        return;
    }
    let failure = TestServer::builder().module(fault_module_path()).try_start().expect_err("a faulty load");
    assert!(failure.status.is_some(), "{failure}");
    for told in ["panic in a Load callback", "src/ffi/fault.rs:", "not loaded: rlock panicked while loading"]
    {
        assert!(failure.log.contains(told), "{told}: {failure}");
    }
    let running = TestServer::builder().without_module().start();
    let path = fault_module_path().to_str().unwrap();
    let client = &mut running.connect();
    for _ in 0..2 {
        assert!(say(client, &format!("MODULE LOAD {path}")).starts_with("!ERR "));
        assert_eq!(say(client, "PING"), "PONG");
    }
    assert!(say(client, ALICE).starts_with("!ERR unknown command"));
}
