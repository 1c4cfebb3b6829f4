//! A loaded module stays: servers keep pointers to its commands that they follow later.

use std::fs;

use rlock_testkit::Inline;
use rlock_testkit::prelude::*;

use crate::lifecycle::modules;

/// What the log says.
const LINE: &str = "rlock: not unloaded: a loaded rlock stays; to remove or replace it, restart the server, or fail over to another one";

/// Shows that the module is not unloaded, and that it and the server continue.
#[track_caller]
fn stays(server: &TestServer, client: &mut Connection) {
    let lines = server.log().matches(LINE).count();
    let refused = say(client, "MODULE UNLOAD rlock");
    assert_eq!(refused, "!ERR Error unloading module: operation not possible.");
    assert_eq!(server.log().matches(LINE).count(), lines + 1, "{}", server.log());
    assert!(modules(client).iter().any(|(name, _)| name == "rlock"));
}

#[test]
fn a_loaded_module_stays() {
    let (server, client) = &mut TestServer::start_and_connect();
    stays(server, client);
    client.story(&[ALICE]);
    stays(server, client);
    client.story(&[
        ("CONFIG SET rlock.accept no", "OK"),
        ("RLOCK.RELEASE lock alice", "1"),
        ("CONFIG SET maxmemory-samples 6", "OK"),
    ]);
    assert_eq!(counter(server, "released"), 1);
}

/// From the next command on: an event-loop cycle may be over much later.
#[test]
fn a_module_stays_as_soon_as_its_load_is_over() {
    let load = format!("MODULE LOAD {}", module_path().display());
    let loadex = format!("MODULE LOADEX {} CONFIG rlock.accept no", module_path().display());
    for load in [&load, &loadex] {
        // Its heart beats once a second.
        let server = TestServer::builder().without_module().conf("hz", 1).conf("dynamic-hz", "no").start();
        let client = &mut server.connect();
        client.story(&[(load, "OK")]);
        stays(&server, client);
        client.story(&[("RLOCK.CANCEL lock alice", "0")]);
    }
    let (server, client) = &mut TestServer::builder().without_module().start_and_connect();
    let answers = transaction(client, &[&load, "MODULE UNLOAD rlock", "PING"]);
    assert!(
        answers.starts_with("[OK, !ERR Error unloading module: operation not possible.")
            && answers.ends_with(", PONG]"),
        "{answers}"
    );
    stays(server, client);
}

/// Blocked clients are the server's own reason, and it does not ask the module.
#[test]
fn a_module_with_waiters_stays() {
    let (server, client) = &mut held();
    let bob = block(server, "bob");
    let refused = say(client, "MODULE UNLOAD rlock");
    assert!(refused.starts_with("!ERR Error unloading module: the module has blocked clients"), "{refused}");
    bob.granted_by(client, "RLOCK.RELEASE lock alice");
    // An enqueued waiter without an end needs no timer either.
    client.story(&[("PERSIST lock", "1"), ("RLOCK.ACQUIRE lock eve 60000 ENQUEUE 0 grants", "[0, 0, 0]")]);
    stays(server, client);
    client.story(&[("RLOCK.CANCEL lock eve", "1"), ("RLOCK.RELEASE lock bob", "1")]);
}

/// A client that was paused with a command of the module ended six servers at the end of the pause.
#[test]
fn a_paused_command_runs_after_an_unload_was_refused() {
    let server = TestServer::start();
    let client = &mut server.connect();
    client.story(&[("CLIENT PAUSE 600000 WRITE", "OK")]);
    let mut paused = Inline::connect(&server, SOON);
    paused.send("CLIENT SETNAME paused\r\nRLOCK.ACQUIRE lock alice 60000\r\n");
    wait_for("it to be paused", || {
        let list = say(client, "CLIENT LIST");
        list.split("id=").any(|line| line.contains("name=paused") && line.contains("flags=b"))
    });
    stays(&server, client);
    client.story(&[("CLIENT UNPAUSE", "OK")]);
    paused.hears("+OK\r\n*3\r\n:1\r\n:60000\r\n:0\r\n");
    client.story(&[("RLOCK.RELEASE lock alice", "1")]);
}

/// A server may have parsed what follows when it unloads.
#[test]
fn commands_run_that_are_sent_behind_an_unload() {
    let server = TestServer::start();
    let mut line = Inline::connect(&server, SOON);
    let client = &mut server.connect();
    for _ in 0..20 {
        line.send("BLPOP list 0\r\nRLOCK.ACQUIRE lock alice 60000\r\nMODULE UNLOAD rlock\r\nRLOCK.RELEASE lock alice\r\n");
        wait_for("it to be blocked", || server.info("clients")["blocked_clients"] == "1");
        let refused = say(client, "MODULE UNLOAD rlock");
        assert!(refused.starts_with("!ERR "), "{refused}");
        client.story(&[("RPUSH list x", "1")]);
        line.hears(
            "*2\r\n$4\r\nlist\r\n$1\r\nx\r\n*3\r\n:1\r\n:60000\r\n:0\r\n\
             -ERR Error unloading module: operation not possible.\r\n:1\r\n",
        );
    }
}

#[test]
fn queued_commands_run_after_an_unload_was_refused() {
    let server = TestServer::start();
    let (client, other) = (&mut server.connect(), &mut server.connect());
    other.story(&[("MULTI", "OK"), ("RLOCK.ACQUIRE lock alice 60000", "QUEUED")]);
    stays(&server, client);
    other.story(&[("MODULE UNLOAD rlock", "QUEUED"), ("RLOCK.RENEW lock alice 60000", "QUEUED")]);
    let answers = say(other, "EXEC");
    assert!(answers.starts_with("[[1, 60000, 0], !ERR ") && answers.ends_with(", 1]"), "{answers}");
}

/// Redis 7.0 ended itself at each of these after an unload, others at the unload.
#[test]
fn rules_that_name_commands_can_be_read_after_an_unload_was_refused() {
    let server = TestServer::start();
    let client = &mut server.connect();
    for rules in ["+rlock.acquire", "+@all -RLOCK.forcerelease", "+@read (+rlock.info ~*)"] {
        assert_eq!(say(client, &format!("ACL SETUSER app on nopass ~* {rules}")), "OK");
        let refused = say(client, "MODULE UNLOAD rlock");
        assert!(refused.starts_with("!ERR Error unloading module: "), "{refused}");
        let list = say(client, "ACL LIST").to_ascii_lowercase();
        assert!(list.contains("rlock."), "{list}");
        assert!(!say(client, "ACL GETUSER app").starts_with('!'));
        client.story(&[("CONFIG REWRITE", "OK"), ("ACL DELUSER app", "1")]);
    }
}

/// Valkey 9.1 unloads its modules when it ends.
#[test]
fn a_shutdown_says_nothing_of_unloading() {
    for wait in ["RLOCK.CANCEL lock eve", "RLOCK.ACQUIRE lock eve 60000 ENQUEUE 0 grants"] {
        let (server, mut client) = held();
        client.story(&[("PERSIST lock", "1")]);
        say(&mut client, wait);
        let stopped = server.shutdown();
        assert!(stopped.status.success(), "{}", stopped.status);
        let log = fs::read_to_string(stopped.data.path().join("server.log")).unwrap();
        assert!(log.contains("bye bye") && !log.contains("rlock: not unloaded"), "{log}");
    }
}
