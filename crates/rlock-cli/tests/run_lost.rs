//! `rlock run`: a lock that is lost ends the whole group, before the lease ends.

mod support;

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use redis::Connection;
use rlock_testkit::{TestServer, eventually};
use support::{Files, SOON, ask, await_end_of, await_owner, await_waiters, rlock, runs, start};

/// Long enough that the part of it which is kept in reserve is long for a busy machine too.
const LEASE: &str = "8s";

/// A command and a process in its background, neither of which heeds TERM.
const STUBBORN: &str = "trap '' TERM; sleep 60 & echo $! > child.pid; echo $$ > leader.pid; wait";

/// The end of the lease by the clock, in milliseconds.
fn lease_end(client: &mut Connection) -> u128 {
    u128::try_from(ask::<i64>(client, "PEXPIRETIME job")).expect("a lease")
}

fn now_ms() -> u128 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis()
}

/// Waits for the end of all processes, and returns how long that was before the end of the lease.
#[track_caller]
fn spare_time(pids: &[i32], lease_end: u128) -> u128 {
    await_end_of(pids, SOON);
    let end = now_ms();
    assert!(end < lease_end, "ended {} ms after the lease", end - lease_end);
    lease_end - end
}

#[test]
fn a_server_that_hangs_ends_the_group_before_the_lease_ends() {
    let server = TestServer::start();
    let client = &mut server.connect();
    let files = Files::new();
    let script = files.script(STUBBORN);
    let run = start(&server, &["run", "job", "--lease", LEASE, "--", "sh", "-c", &script]);
    let pids = [files.pid("leader.pid"), files.pid("child.pid")];
    let lease_end = lease_end(client);
    server.signal(libc::SIGSTOP);
    let spare = spare_time(&pids, lease_end);
    // What is kept in reserve is no more than needed: 5 % for the KILL, and 1 % for the clocks.
    assert!(spare < 1_000, "ended {spare} ms before the lease");
    eprintln!("the group had ended {spare} ms before the lease of {LEASE}");
    let ended = run.ended();
    server.signal(libc::SIGCONT);
    ended.fails(123, &["could not be renewed yet", "could not be renewed before its lease ends"]);
}

#[test]
fn a_server_that_is_gone_ends_the_group_before_the_lease_ends() {
    let server = TestServer::start();
    let client = &mut server.connect();
    let files = Files::new();
    // This one ends when it is told to, and takes some time for it.
    let script = "trap 'date +%s%3N > term; sleep 0.5; date +%s%3N > done; exit 0' TERM; echo $$ > leader.pid; \
                  for n in $(seq 3000); do sleep 0.02; done";
    let script = files.script(script);
    let run = start(&server, &["run", "job", "--lease", LEASE, "--", "sh", "-c", &script]);
    let pid = files.pid("leader.pid");
    let lease_end = lease_end(client);
    let _stopped = server.kill9();
    let spare = spare_time(&[pid], lease_end);
    assert!(spare > 1_000, "it had a third of the lease to end, and needed half a second: {spare}");
    let (told, done): (u128, u128) =
        (files.line("term").parse().unwrap(), files.line("done").parse().unwrap());
    assert!(told < done && done < lease_end);
    run.ended().fails(123, &["no answer from", "ending the command"]);
}

#[test]
fn an_outage_that_is_shorter_than_the_lease_harms_nobody() {
    let server = TestServer::start();
    let client = &mut server.connect();
    let files = Files::new();
    let script =
        files.script("echo $$ > leader.pid; for n in $(seq 3000); do [ -e go ] && break; sleep 0.02; done");
    // Renewed when 6 s are left, and ended when 3 s are: there is time for an outage between them. With
    // a lease of 3 s there was not always, when a busy machine was slow to start the outage.
    let run = start(&server, &["run", "job", "--lease", "9s", "--", "sh", "-c", &script]);
    let pid = files.pid("leader.pid");
    for _ in 0..2 {
        eventually("a renewal that is due", SOON, || (ask::<i64>(client, "PTTL job") < 6_500).then_some(()));
        server.signal(libc::SIGSTOP);
        std::thread::sleep(Duration::from_millis(1_200));
        server.signal(libc::SIGCONT);
        eventually("a renewal", SOON, || (ask::<i64>(client, "PTTL job") > 7_000).then_some(()));
    }
    assert!(runs(pid));
    std::fs::write(files.path("go"), "").unwrap();
    run.ended().is(0, "");
}

#[test]
fn a_lock_that_is_taken_away_ends_the_command() {
    let server = TestServer::start();
    let client = &mut server.connect();
    for (signal, trap) in [(&[][..], "TERM"), (&["--signal", "usr1"], "USR1")] {
        let files = Files::new();
        let script = format!(
            "trap 'echo {trap} > told; exit 0' {trap}; echo $$ > pid; for n in $(seq 3000); do sleep 0.02; done"
        );
        let script = files.script(&script);
        let arguments = [&["run", "job", "--lease", "2s"], signal, &["--", "sh", "-c", &script]].concat();
        let run = start(&server, &arguments);
        files.pid("pid");
        let start = Instant::now();
        rlock(&server, &["force-release", "job", "--yes"]).is(0, "job  released\n");
        let ended = run.ended();
        assert!(start.elapsed() < Duration::from_secs(2), "noticed by a renewal: {:?}", start.elapsed());
        ended.fails(123, &["the lock was lost: it was taken away"]);
        assert_eq!(files.line("told"), trap);
        assert_eq!(ask::<i64>(client, "EXISTS job"), 0);
    }
}

#[test]
fn the_next_holder_is_left_alone() {
    let server = TestServer::start();
    let client = &mut server.connect();
    let files = Files::new();
    let script = files.script(STUBBORN);
    let run = start(&server, &["run", "job", "--lease", "3s", "--", "sh", "-c", &script]);
    let pids = [files.pid("leader.pid"), files.pid("child.pid")];
    ask::<i64>(client, "RLOCK.FORCERELEASE job");
    ask::<redis::Value>(client, "RLOCK.ACQUIRE job other 100000");
    // It heeds no TERM: KILL comes after the grace, a third of the lease.
    await_end_of(&pids, SOON);
    run.ended().fails(123, &["it was taken away"]);
    assert_eq!(ask::<Vec<String>>(client, "HKEYS job"), ["other"]);
}

#[test]
fn the_grace_is_the_time_between_the_signal_and_kill() {
    let server = TestServer::start();
    for (grace, least, most) in [("0s", 0, 0), ("2s", 1_500, 2_900)] {
        let files = Files::new();
        let script = files.script(
            "trap 'date +%s%3N > term' TERM; echo $$ > pid; for n in $(seq 6000); do sleep 0.01; done",
        );
        let arguments = ["run", "job", "--lease", "4s", "--grace", grace, "--", "sh", "-c", &script];
        let run = start(&server, &arguments);
        let pid = files.pid("pid");
        rlock(&server, &["force-release", "job", "--yes"]).is(0, "job  released\n");
        await_end_of(&[pid], SOON);
        let end = now_ms();
        run.ended().fails(123, &["it was taken away"]);
        // Without grace it may be killed before it has noted anything. With one, it notes the signal a
        // little after it was sent; the usual grace would be over before.
        if most > 0 {
            let took = end - files.line("term").parse::<u128>().unwrap();
            assert!((least..most).contains(&took), "{took} ms");
        }
    }
}

#[test]
fn a_loss_that_only_the_release_shows_is_a_loss() {
    let server = TestServer::start();
    let client = &mut server.connect();
    let files = Files::new();
    let script = files.script("echo $$ > pid; for n in $(seq 3000); do [ -e go ] && break; sleep 0.02; done");
    let run = start(&server, &["run", "job", "--lease", "10m", "--", "sh", "-c", &script]);
    files.pid("pid");
    await_owner(client, "job");
    ask::<i64>(client, "DEL job");
    std::fs::write(files.path("go"), "").unwrap();
    run.ended().fails(123, &["the command ended with code 0, but the lock had been taken away"]);
}

#[test]
fn a_key_that_becomes_something_else_is_a_loss() {
    let server = TestServer::start();
    let client = &mut server.connect();
    let run = start(&server, &["run", "job", "--lease", "1s", "--", "sleep", "60"]);
    await_owner(client, "job");
    ask::<redis::Value>(client, "SET job data");
    run.ended().fails(123, &["it was taken away"]);
    assert_eq!(ask::<String>(client, "GET job"), "data");
}

/// The command went on while the run could not renew, and the lease is over: there is no time for a grace.
#[test]
fn a_run_that_was_stopped_beyond_its_lease_kills_at_once() {
    let server = TestServer::start();
    let client = &mut server.connect();
    let files = Files::new();
    let script = files.script(STUBBORN);
    let run = start(&server, &["run", "job", "--lease", "1s", "--", "sh", "-c", &script]);
    let pids = [files.pid("leader.pid"), files.pid("child.pid")];
    run.stop();
    let next = start(&server, &["run", "job", "--", "echo", "next"]);
    next.ended().is(0, "next\n");
    assert!(pids.iter().all(|pid| runs(*pid)));
    let start = Instant::now();
    run.signal(libc::SIGCONT);
    await_end_of(&pids, SOON);
    let took = start.elapsed();
    assert!(took < Duration::from_millis(300), "less than the grace: {took:?}");
    run.ended().fails(123, &["the lock was lost"]);
    assert_eq!(ask::<i64>(client, "EXISTS job"), 0);
}

/// Stopped while it waited: the grant is for nobody once its lease is over, and is asked for again.
#[test]
fn a_run_that_was_stopped_while_it_waited_starts_nothing_without_the_lock() {
    let server = TestServer::start();
    let client = &mut server.connect();
    ask::<redis::Value>(client, "RLOCK.ACQUIRE job first 100000");
    let mut run = start(&server, &["run", "job", "--lease", "1s", "--", "echo", "ran"]);
    await_waiters(client, "job", 1);
    run.stop();
    ask::<i64>(client, "RLOCK.RELEASE job first");
    // Its grant lies in a buffer until its lease is over, and the next comes.
    eventually("the lease to end", SOON, || (ask::<i64>(client, "EXISTS job") == 0).then_some(()));
    ask::<redis::Value>(client, "RLOCK.ACQUIRE job second 100000");
    run.signal(libc::SIGCONT);
    await_waiters(client, "job", 1);
    run.still_runs();
    ask::<i64>(client, "RLOCK.RELEASE job second");
    run.ended().is(0, "ran\n");
}

#[test]
fn a_command_that_is_stopped_is_ended_too() {
    let server = TestServer::start();
    let files = Files::new();
    let script = files.script("echo $$ > pid; exec sleep 60");
    let run = start(&server, &["run", "job", "--lease", "9s", "--", "sh", "-c", &script]);
    let pid = files.pid("pid");
    // SAFETY: kill takes plain numbers.
    unsafe { libc::kill(pid, libc::SIGSTOP) };
    rlock(&server, &["force-release", "job", "--yes"]).is(0, "job  released\n");
    let ended = run.ended();
    ended.fails(123, &["it was taken away"]);
    assert!(!runs(pid));
}
