//! `rlock run --session-grace`: free soon after a crash, no loss by a short break, and an end in time by a long one.

use std::time::{Duration, Instant};

use crate::support::{Files, SOON, Signal, UNTIL_GO, ask, await_end_of, await_owner, rlock, run};
use rlock_testkit::{TestServer, eventually};

#[test]
fn the_lock_of_a_run_that_is_killed_is_free_after_the_grace() {
    let (server, client) = &mut TestServer::builder().start_and_connect();
    let files = Files::new();
    let run = run(server, &files, &["--session-grace", "1s"], UNTIL_GO);
    let pid = files.pid("pid");
    await_owner(client, "job");
    let id: String = ask(client, "CLIENT LIST");
    let tied = rlock(server, &["status", "job"]).stdout;
    let client_id =
        tied.split("tied to client ").nth(1).and_then(|rest| rest.split(' ').next()).expect(&tied);
    assert!(id.contains(&format!("id={client_id} ")), "{tied}{id}");
    run.signal(Signal::KILL);
    let killed = Instant::now();
    await_end_of(&[pid], SOON);
    eventually("the lock to be free", SOON, || (ask::<i64>(client, "EXISTS job") == 0).then_some(()));
    let took = killed.elapsed();
    // The lease had 30 s.
    assert!(took > Duration::from_millis(900) && took < Duration::from_secs(3), "{took:?}");
}

#[test]
fn a_broken_connection_ends_no_command() {
    let (server, client) = &mut TestServer::builder().start_and_connect();
    let files = Files::new();
    let run = run(server, &files, &["--session-grace", "2s"], UNTIL_GO);
    files.pid("pid");
    for _ in 0..3 {
        // The first connection is subscribed, since `run` would have waited; those after it are not.
        let killed = ["normal", "pubsub"]
            .map(|kind| ask::<i64>(client, &format!("CLIENT KILL TYPE {kind} SKIPME yes")));
        assert_eq!(killed.iter().sum::<i64>(), 1);
        std::thread::sleep(Duration::from_millis(1_500));
        assert!(ask::<i64>(client, "PTTL job") > 20_000, "it is tied to another connection");
    }
    files.go();
    run.ended().is(0, "");
}

#[test]
fn a_server_that_hangs_ends_the_group_before_the_grace_is_over() {
    let (server, client) = &mut TestServer::builder().start_and_connect();
    let files = Files::new();
    // The command has a sixth of it to end in, which must be enough on a busy machine.
    let run = run(server, &files, &["--session-grace", "8s"], UNTIL_GO);
    let pid = files.pid("pid");
    await_owner(client, "job");
    let stopped = Instant::now();
    server.signal(Signal::STOP.as_raw());
    await_end_of(&[pid], SOON);
    let took = stopped.elapsed();
    assert!(took < Duration::from_secs(8), "alive {took:?} after the server was heard last");
    let ended = run.ended();
    server.signal(Signal::CONT.as_raw());
    ended.fails(123, &["the lock was lost", "ending the command"]);
}
