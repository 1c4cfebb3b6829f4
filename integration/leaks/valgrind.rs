//! The module under valgrind: no access to memory that is not its own, and nothing lost.
//!
//! Blocks that the server itself allocates and loses do not count. Blocks that the module's allocator was asked for
//! do, and so do lost blocks that the server allocated in a call of the module.

use std::fs;

use rlock_testkit::{ServerBuilder, Stopped, TestServer, eventually, fault_module_path, module_path};

use crate::report::{Fault, assert_none, faults};
use crate::wire::{ACQUIRED, Batch, DENIED, OK, ONE, QUEUED, connect, news};
use crate::work::{SOON, Scene, acquire};

/// Valgrind's output, in the server's directory.
const REPORT: &str = "valgrind.xml";

/// Both allocators that it knows are replaced: the C library's and a shared jemalloc, such as Debian's servers
/// use. One that is linked into the server is not; `valgrind_sees_what_a_panic_loses` fails there.
const OPTIONS: &str = "--soname-synonyms='somalloc=*jemalloc*' --leak-check=full --show-leak-kinds=all \
    --keep-debuginfo=yes --num-callers=60 --xml=yes --xml-file=valgrind.xml";

#[track_caller]
fn start(builder: ServerBuilder) -> TestServer {
    rlock_testkit::valgrind::start(builder, OPTIONS)
}

/// Valgrind's findings for a server that has ended.
#[track_caller]
fn faults_of(stopped: Stopped) -> Vec<Fault> {
    assert!(stopped.status.success(), "{}", stopped.status);
    faults(&fs::read_to_string(stopped.data.path().join(REPORT)).expect("valgrind's report"))
}

/// Everything but the contended cycles is done a few times only.
#[track_caller]
fn do_all(server: &TestServer, used: &mut u64) {
    let mut scene = Scene::new(server, used);
    scene.hand_offs(20);
    for _ in 0..3 {
        scene.ended_waits();
        scene.departures();
        scene.modes();
        scene.calls();
    }
}

#[test]
#[ignore = "needs valgrind: make leaks"]
fn a_server_without_waiters_ends_and_has_lost_nothing() {
    let server = start(TestServer::builder().module(module_path()).conf("notify-keyspace-events", "KEA"));
    let (mut client, used) = (connect(&server), &mut 0);
    for _ in 0..2 {
        do_all(&server, used);
        eventually("no waiters", SOON, || (client.info("rlock", "rlock_waiters") == 0).then_some(()));
    }
    drop(client);
    let faults = faults_of(server.shutdown());
    let ours: Vec<_> = faults.iter().filter(|fault| !fault.is_loss() || fault.lost_by_us()).collect();
    assert_none(&ours);
}

/// The server unmaps a refused module: no code can free its blocks any more.
#[test]
#[ignore = "needs valgrind: make leaks"]
fn nothing_is_left_of_a_refused_load() {
    let server = start(TestServer::builder().without_module());
    let mut client = connect(&server);
    let load = format!("MODULE LOADEX {}", module_path().display());
    client.say("HSET hash field 1", ONE);
    for option in
        ["rlock.accept no CONFIG nope.num 7", "rlock.accept nein", "rlock.accept no CONFIG rlock.bogus 1"]
    {
        let refused = client.ask_line(&format!("{load} CONFIG {option}"));
        assert!(refused.starts_with("-ERR "), "{refused}");
    }
    drop(client);
    let faults = faults_of(server.shutdown());
    let ours: Vec<_> =
        faults.iter().filter(|fault| !fault.is_loss() || fault.lost_by_us() || fault.is_ours()).collect();
    assert_none(&ours);
}

#[test]
#[ignore = "needs valgrind: make leaks"]
fn a_server_that_is_demoted_and_ends_with_waiters_loses_nothing() {
    let builder = TestServer::builder().module(module_path()).conf("appendonly", "yes");
    let server = start(builder);
    let used = &mut 0;
    do_all(&server, used);
    let mut scene = Scene::new(&server, used);
    let (blocked, mut batch) = (acquire("lock", "blocked", "BLOCK 0"), Batch::default());
    batch.add(&acquire("lock", "driver", ""), ACQUIRED);
    batch.add(&acquire("lock", "waits", "ENQUEUE 0 news"), QUEUED);
    batch.exchange(&mut scene.driver);
    scene.clients[0].send(&format!("{blocked}\r\n"));
    scene.await_waiters(2);
    let refused = scene.driver.ask_line("MODULE UNLOAD rlock");
    assert!(refused.starts_with("-ERR Error unloading module"), "{refused}");
    scene.driver.say("REPLICAOF 127.0.0.1 1", OK);
    // In the module's words or in the server's own, which ends the connection too.
    let dropped_waiters = scene.clients[0].one_line();
    assert!(dropped_waiters.starts_with("-UNBLOCKED "), "{dropped_waiters}");
    scene.heard.hears(&news("dropped 0 waits lock demoted"));
    scene.driver.say("REPLICAOF NO ONE", OK);
    scene.clients[1].send(&format!("{blocked}\r\n"));
    scene.driver.say(&acquire("lock", "waits", "ENQUEUE 0 news"), QUEUED);
    scene.await_waiters(2);
    let faults = faults_of(server.shutdown());
    let ours: Vec<_> = faults.iter().filter(|fault| !fault.is_loss() || fault.lost_by_us()).collect();
    assert_none(&ours);
}

/// The guard does not drop what a panic carries, on purpose: this loss must be seen, and be the only one.
#[test]
#[ignore = "needs valgrind: make leaks"]
fn valgrind_sees_what_a_panic_loses() {
    let server = start(TestServer::builder().module(fault_module_path()));
    let mut client = connect(&server);
    let panicked = "-ERR rlock: internal error: a command panicked; see the server's log and report it\r\n";
    for _ in 0..5 {
        client.say("RLOCK.FAULT command", ONE);
        client.say("RLOCK.INFO lock", panicked);
    }
    client.say(&acquire("lock", "driver", ""), ACQUIRED);
    client.say(&acquire("lock", "other", ""), DENIED);
    drop(client);
    let faults = faults_of(server.shutdown());
    let ours: Vec<_> = faults.iter().filter(|fault| !fault.is_loss() || fault.lost_by_us()).collect();
    assert!(
        !ours.is_empty(),
        "valgrind does not see what is lost: is the server's allocator linked into it?"
    );
    for fault in ours {
        assert!(fault.is_loss() && fault.is_in("panic"), "{fault}");
    }
}
