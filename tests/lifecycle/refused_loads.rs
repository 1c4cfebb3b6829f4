//! A load that is refused, or comes twice, leaves nothing behind: neither in the server nor in the module that is loaded.

use std::env;
use std::fs;
use std::process::Command;
use std::thread;

use rlock_testkit::prelude::*;

use crate::lifecycle::modules;

/// About ten beats of the server, each of which calls its listeners.
const BEATS: Duration = Duration::from_secs(1);

#[track_caller]
fn load(client: &mut Connection, path: &str, how: &str, arguments: &[&str]) -> String {
    say_words(client, &[&["MODULE", how, path], arguments].concat())
}

/// Shows that a server continues after a refused load, and that the module can be loaded and used.
#[track_caller]
fn goes_on(server: &TestServer, what: &str) {
    // The test needs time itself: callbacks that were left behind run on later beats.
    thread::sleep(BEATS);
    let client = &mut server.connect();
    assert!(modules(client).iter().all(|(name, _)| name != "rlock"), "{what}");
    client.story(&[
        ("PING", "PONG"),
        ("CONFIG SET maxmemory-samples 6", "OK"),
        ("HSET hash field 1", "1"),
        ("FLUSHALL", "OK"),
        ("SWAPDB 0 1", "OK"),
        ("CONFIG GET rlock.*", "[]"),
    ]);
    assert!(say(client, "RLOCK.ACQUIRE lock alice 1").starts_with("!ERR unknown command"), "{what}");
    works(server);
    assert_eq!(say(client, "PING"), "PONG", "{what}");
}

/// Loads the module, acquires, waits, and hands off.
#[track_caller]
fn works(server: &TestServer) {
    let client = &mut server.connect();
    assert_eq!(load(client, module_path().to_str().unwrap(), "LOAD", &[]), "OK");
    client.story(&[("RLOCK.ACQUIRE lock alice 100000", "[1, 100000, 0]")]);
    let mut other = server.connect();
    let bob = thread::spawn(move || say(&mut other, "RLOCK.ACQUIRE lock bob 100000 BLOCK 10000"));
    let waits = || (server.info("rlock")["rlock_waiters"] == "1").then_some(());
    eventually("a waiter", Duration::from_secs(10), waits);
    client.story(&[("RLOCK.RELEASE lock alice", "1")]);
    assert_eq!(bob.join().unwrap(), "[1, 100000, 0]");
    client.story(&[("RLOCK.RELEASE lock bob", "1"), ("PING", "PONG")]);
    let info = server.info("rlock");
    let counted = ["rlock_acquired", "rlock_errors", "rlock_panics"].map(|name| info[name].as_str());
    assert_eq!(counted, ["1", "0", "0"], "since this load");
    client.story(&[
        ("CONFIG GET rlock.accept", r#"["rlock.accept", "yes"]"#),
        ("CONFIG GET rlock.max-waiters", r#"["rlock.max-waiters", "100000"]"#),
    ]);
}

/// Redis 7.0 keeps the listeners of a module that it did not load after all: it died a tenth of a second after a
/// `LOADEX` with a value that an option cannot have.
#[test]
fn a_server_survives_a_refused_load() {
    let path = module_path().to_str().unwrap();
    let refusals: [(&str, &[&str]); 10] = [
        ("LOADEX", &["CONFIG", "rlock.accept", "nein"]),
        ("LOADEX", &["CONFIG", "rlock.max-waiters", "-1"]),
        ("LOADEX", &["CONFIG", "rlock.accept", "no", "CONFIG", "rlock.fair-turn-ms", "many"]),
        // These two are loaded, and unloaded within the same command: Redis 8 ends itself if the module refuses that, or if it
        // has a timer.
        ("LOADEX", &["CONFIG", "nope.num", "7"]),
        ("LOADEX", &["CONFIG", "rlock.accept", "no", "CONFIG", "rlock.bogus", "1"]),
        ("LOADEX", &["CONFIG", "rlock.bogus", "1"]),
        ("LOADEX", &["CONFIG", "rlock.accept", "no", "ARGS", "bogus", "1"]),
        ("LOAD", &["accept", "nein"]),
        ("LOAD", &["bogus", "1"]),
        ("LOAD", &["accept", "no", "accept", "no"]),
    ];
    let refused = |refusals: &[(&str, &[&str])]| {
        let (server, client) = &mut TestServer::builder().without_module().start_and_connect();
        // A server with keys makes the module listen to their changes.
        client.story(&[("SET key 1", "OK")]);
        for (how, arguments) in refusals {
            let refused = load(client, path, how, arguments);
            assert!(refused.starts_with("!ERR "), "{arguments:?}: {refused}");
        }
        goes_on(server, &format!("{refusals:?}"));
    };
    // Each alone, and all of them with nothing in between.
    thread::scope(|scope| {
        for refusal in refusals.chunks(1).chain([&refusals[..]]) {
            scope.spawn(|| refused(refusal));
        }
    });
}

/// On some servers the category stays.
#[test]
fn a_user_of_the_category_of_rlock_may_lock_after_a_refused_load() {
    let (server, client) = &mut TestServer::builder().without_module().start_and_connect();
    let path = module_path().to_str().unwrap();
    assert!(load(client, path, "LOADEX", &["CONFIG", "nope.num", "7"]).starts_with("!ERR "));
    assert_eq!(load(client, path, "LOAD", &[]), "OK");
    if say(client, "ACL SETUSER app on >secret ~* +@rlock") != "OK" {
        // Redis 7.0 lets modules have no categories.
        client.story(&[("ACL SETUSER app on >secret ~* +rlock.acquire +rlock.release", "OK")]);
    }
    let app = &mut server.connect_as("app", "secret");
    app.story(&[
        ("RLOCK.ACQUIRE lock alice 100000", "[1, 100000, 0]"),
        ("RLOCK.RELEASE lock alice", "1"),
        ("RLOCK.FORCERELEASE lock", "!NOPERM …"),
    ]);
}

/// A newer one may come from the same path.
#[test]
fn a_refused_module_is_gone_from_memory() {
    let (server, client) = &mut TestServer::builder().without_module().start_and_connect();
    let mapped = || {
        let maps = fs::read_to_string(format!("/proc/{}/maps", server.pid())).unwrap();
        maps.contains("librlock")
    };
    let path = module_path().to_str().unwrap();
    for arguments in [["CONFIG", "nope.num", "7"], ["CONFIG", "rlock.accept", "nein"]] {
        assert!(load(client, path, "LOADEX", &arguments).starts_with("!ERR "));
        assert!(!mapped(), "{arguments:?}: something of the module keeps the library there");
    }
    assert_eq!(load(client, path, "LOAD", &[]), "OK");
    assert!(mapped());
}

#[test]
fn a_server_survives_a_load_without_a_command_that_the_module_needs() {
    let server =
        TestServer::builder().without_module().conf_words("rename-command", &["HSET", "hset-2"]).start();
    let client = &mut server.connect();
    assert!(load(client, module_path().to_str().unwrap(), "LOAD", &[]).starts_with("!ERR "));
    thread::sleep(BEATS);
    client.story(&[("PING", "PONG"), ("CONFIG SET maxmemory-samples 6", "OK"), ("hset-2 hash field 1", "1")]);
}

/// A server takes its environment from the process that starts it, so that is one of its own.
#[test]
fn a_server_survives_a_panic_at_load() {
    let mut run = Command::new(env::current_exe().unwrap());
    run.args(["--exact", "refused_loads::with_a_panic_at_load", "--ignored"]).env("RLOCK_FAULT_AT_LOAD", "1");
    let run = run.output().unwrap();
    let said = String::from_utf8_lossy(&run.stdout);
    assert!(run.status.success() && said.contains("1 passed"), "{said}");
}

#[test]
#[ignore = "a part of a_server_survives_a_panic_at_load, which runs it"]
fn with_a_panic_at_load() {
    if env::var_os("RLOCK_FAULT_AT_LOAD").is_none() {
        return;
    }
    let server = TestServer::builder().without_module().start();
    let faulty = fault_module_path().to_str().unwrap();
    assert!(load(&mut server.connect(), faulty, "LOAD", &[]).starts_with("!ERR "));
    // The build without faults knows nothing of that variable.
    goes_on(&server, "a panic");
}

/// The library of the second load may be the very one in memory: it must not begin anew.
#[test]
fn a_second_load_says_that_the_module_is_loaded_and_harms_nothing() {
    let (server, client) = &mut TestServer::start_and_connect();
    let copy = server.dir().join("copy.so");
    fs::copy(module_path(), &copy).unwrap();
    client.story(&[
        ("CONFIG SET rlock.max-waiters 7", "OK"),
        ("RLOCK.ACQUIRE lock alice 1000000", "[1, 1000000, 0]"),
        ("RLOCK.ACQUIRE lock carol 1000000 ENQUEUE 0 grants", "[0, 0, 0]"),
    ]);
    let mut other = server.connect();
    let bob = thread::spawn(move || say(&mut other, "RLOCK.ACQUIRE lock bob 100000 BLOCK 0"));
    let waits = || (server.info("rlock")["rlock_waiters"] == "2").then_some(());
    eventually("two waiters", Duration::from_secs(10), waits);
    let before = server.info("rlock");
    for (count, path) in [(1, module_path()), (2, copy.as_path()), (3, module_path())] {
        for (how, arguments) in
            [("LOAD", &["accept", "no"][..]), ("LOADEX", &["CONFIG", "rlock.max-waiters", "1"])]
        {
            let refused = load(client, path.to_str().unwrap(), how, arguments);
            assert!(refused.starts_with("!ERR "), "{path:?} {how}: {refused}");
        }
        let told = "rlock: not loaded: rlock is already loaded";
        assert_eq!(server.log().matches(told).count(), 2 * count, "{}", server.log());
    }
    thread::sleep(BEATS);
    assert_eq!(server.info("rlock"), before, "what was counted");
    client.story(&[
        ("CONFIG GET rlock.max-waiters", r#"["rlock.max-waiters", "7"]"#),
        ("RLOCK.CANCEL lock carol", "1"),
        ("RLOCK.RELEASE lock alice", "1"),
    ]);
    assert_eq!(bob.join().unwrap(), "[1, 100000, 0]");
    client.story(&[("RLOCK.RELEASE lock bob", "1")]);
}

/// `loadmodule` twice in one configuration.
#[test]
fn a_server_does_not_start_with_the_module_twice() {
    let path = module_path().to_str().unwrap();
    let failure = TestServer::builder().conf("loadmodule", path).try_start().expect_err("the module twice");
    assert!(failure.log.contains("rlock is already loaded"), "{failure}");
}
