//! The allocator of the module: aligned blocks of the server's memory. `make alloc` runs these on a server whose own blocks are
//! aligned to a word only.

use rlock_testkit::prelude::*;

/// The unwinder of a panic needs memory that is aligned to 16: without that a panic ended the server.
#[test]
fn blocks_are_aligned_as_asked_for_and_panics_are_caught() {
    let (server, client) = &mut TestServer::builder().module(fault_module_path()).start_and_connect();
    for count in 1..=3 {
        client.story(&[("RLOCK.FAULT alignment", "1"), ("RLOCK.FAULT command", "1")]);
        assert!(say(client, "RLOCK.INFO lock").starts_with("!ERR rlock: internal error: "));
        assert_eq!(counter(server, "panics"), count);
    }
    client.story(&[ALICE, ("RLOCK.RELEASE lock alice", "1")]);
}

#[test]
fn the_memory_of_the_module_counts_as_the_servers() {
    const WAITERS: usize = 2_000;
    const OWNER: usize = 500;
    let (server, client) = &mut TestServer::start_and_connect();
    let used = || server.info("memory")["used_memory"].parse::<usize>().unwrap();
    client.story(&[ALICE]);
    let before = used();
    let mut pipe = redis::pipe();
    for n in 0..WAITERS {
        let command = pipe.cmd("RLOCK.ACQUIRE").arg("lock").arg(format!("{n:0>OWNER$}")).arg(60_000);
        command.arg("ENQUEUE").arg(0).arg("news").ignore();
    }
    pipe.query::<()>(client).unwrap();
    assert_eq!(counter(server, "waiters"), WAITERS as u64);
    assert!(used() - before > WAITERS * OWNER, "{before}, then {}", used());
}
