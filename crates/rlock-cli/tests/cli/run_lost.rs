//! `rlock run`: a lock that is lost ends the whole group, before the lease ends.

use std::io::Write;
use std::time::{SystemTime, UNIX_EPOCH};

use crate::support::{
    Files, Running, SOON, Signal, UNTIL_GO, ask, await_end_of, await_owner, await_waiters, bare, rlock, run,
    runs, send_signal, start, url,
};
use redis::Connection;
use rlock_testkit::{TestServer, eventually};

/// Long enough that a tenth of it is long for a busy machine too, and so is what is kept in reserve.
const LEASE: u64 = 8_000;

/// A command and a process in its background, neither of which heeds TERM.
const STUBBORN: &str = "trap '' TERM; sleep 60 & echo $! > child.pid; echo $$ > leader.pid; wait";

/// As [`STUBBORN`]. As long as they live they note the time: a test that is late itself can still tell when they died.
const BEATING: &str = "trap '' TERM; \
    beat() { n=0; while [ $((n+=1)) -le 1200 ]; do date +%s%3N >> $1; sleep 0.05; done; }; \
    beat child.beat & echo $! > child.pid; echo $$ > leader.pid; beat leader.beat";

fn now_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis().try_into().unwrap()
}

/// Stops the server before the lease is renewed, and returns when the lease ends by the clock, in milliseconds.
#[track_caller]
fn stop_within_lease(server: &TestServer, client: &mut Connection) -> u64 {
    eventually("the server to be stopped before a renewal", SOON, || {
        let lease_end = u64::try_from(ask::<i64>(client, "PEXPIRETIME job")).expect("a lease");
        server.signal(Signal::STOP.as_raw());
        // It is renewed when nine tenths are left, so not in between.
        if lease_end - now_ms() > LEASE * 9 / 10 {
            return Some(lease_end);
        }
        server.signal(Signal::CONT.as_raw());
        None
    })
}

#[test]
fn a_server_that_hangs_ends_the_group_before_the_lease_ends() {
    let (server, client) = &mut TestServer::builder().start_and_connect();
    let files = Files::new();
    let run = run(server, &files, &["--lease", "8s"], BEATING);
    let pids = [files.pid("leader.pid"), files.pid("child.pid")];
    let lease_end = stop_within_lease(server, client);
    await_end_of(&pids, SOON);
    let ended = run.ended();
    server.signal(Signal::CONT.as_raw());
    ended.fails(123, &["could not be renewed yet", "could not be renewed before its lease end"]);
    for beat in ["leader.beat", "child.beat"] {
        let last: u64 = files.line(beat).parse().unwrap();
        assert!(last < lease_end, "alive {} ms after the lease", last - lease_end);
        // The reserve is no larger than needed: 5 % for the KILL, and 1 % for the clocks.
        assert!(lease_end - last < 2_000, "dead {} ms before the lease ends", lease_end - last);
        eprintln!("the group had ended {} ms before the lease of {LEASE} ms", lease_end - last);
    }
}

/// Notes go to standard error, whose reader may stop reading, as a pager does: the end of the command waited until the
/// note about the loss was read.
#[test]
fn a_reader_that_stands_still_keeps_no_command_alive() {
    let (server, client) = &mut TestServer::builder().start_and_connect();
    let files = Files::new();
    let (_reader, mut writer) = std::io::pipe().unwrap();
    let size = rustix::pipe::fcntl_getpipe_size(&writer).unwrap();
    writer.write_all(&vec![b'.'; size]).unwrap();
    let mut command = bare();
    command.env("REDIS_URL", url(server)).args(["run", "job", "--lease", "8s", "--", "sh", "-c"]);
    command.arg(files.script(STUBBORN)).stderr(writer);
    let run = Running::start_with_stderr(command);
    let pids = [files.pid("leader.pid"), files.pid("child.pid")];
    let lease_end = stop_within_lease(server, client);
    let ends = || (!pids.iter().any(|pid| runs(*pid))).then(now_ms);
    let ended = eventually("the end of the command", SOON, ends);
    assert!(ended < lease_end, "alive {} ms after the lease", ended - lease_end);
    let ended = run.ended();
    server.signal(Signal::CONT.as_raw());
    ended.is(123, "");
}

#[test]
fn a_server_that_is_gone_ends_the_group_before_the_lease_ends() {
    let server = TestServer::start();
    let client = &mut server.connect();
    let files = Files::new();
    // This command ends on TERM, and takes some time for it.
    let script = "trap 'date +%s%3N > term; sleep 0.5; date +%s%3N > done; exit 0' TERM; echo $$ > leader.pid; \
                  n=0; while [ $((n+=1)) -le 1200 ]; do sleep 0.05; done";
    let run = run(&server, &files, &["--lease", "8s"], script);
    files.pid("leader.pid");
    let lease_end = stop_within_lease(&server, client);
    let _stopped = server.kill9();
    run.ended().fails(123, &["no answer from", "ending the command"]);
    let (told, done): (u64, u64) = (files.line("term").parse().unwrap(), files.line("done").parse().unwrap());
    assert!(told < done && done < lease_end, "{told} {done} {lease_end}");
}

/// The next holder is left alone.
#[test]
fn a_lock_that_is_taken_away_ends_the_command() {
    let (server, client) = &mut TestServer::builder().start_and_connect();
    let told = |key: &'static str, signal: &[&str], trap: &'static str| {
        let files = Files::new();
        let script = format!("trap 'echo {trap} > told; exit 0' {trap}; echo $$ > pid; sleep 60 & wait");
        let script = files.script(&script);
        let arguments = [&["run", key, "--lease", "12s"], signal, &["--", "sh", "-c", &script]].concat();
        (key, trap, start(server, &arguments), files)
    };
    let cases = [told("by-term", &[], "TERM"), told("by-usr1", &["--signal", "usr1"], "USR1")];
    for (key, _, _, files) in &cases {
        files.pid("pid");
        rlock(server, &["force-release", key, "--yes"]).is(0, &format!("{key}  released\n"));
    }
    ask::<redis::Value>(client, "RLOCK.ACQUIRE by-usr1 other 100000");
    for (key, trap, run, files) in cases {
        run.ended().fails(123, &["the lock was lost: the server no longer has it"]);
        assert_eq!(files.line("told"), trap);
        let next: &[&str] = if key == "by-usr1" { &["other"] } else { &[] };
        assert_eq!(ask::<Vec<String>>(client, &format!("HKEYS {key}")), next);
    }
}

#[test]
fn the_grace_is_the_time_between_the_signal_and_kill() {
    let server = TestServer::start();
    let started = ["0s", "1s"].map(|grace| {
        let files = Files::new();
        let script = files.script(
            "trap 'date +%s%3N > term' TERM; echo $$ > pid; \
             n=0; while [ $((n+=1)) -le 1200 ]; do date +%s%3N >> beat; sleep 0.05; done",
        );
        let arguments = ["run", grace, "--lease", "9s", "--grace", grace, "--", "sh", "-c", &script];
        (grace, start(&server, &arguments), files)
    });
    for (key, _, files) in &started {
        files.pid("pid");
        rlock(&server, &["force-release", key, "--yes"]).is(0, &format!("{key}  released\n"));
    }
    for (grace, run, files) in started {
        run.ended().fails(123, &["the server no longer has it"]);
        let pid = files.pid("pid");
        assert!(!runs(pid));
        // Without grace it may be killed before it has noted anything. With one, it notes the signal a
        // little after it was sent; the usual grace would be 3 s.
        if grace == "1s" {
            let [last, term]: [u64; 2] = ["beat", "term"].map(|name| files.line(name).parse().unwrap());
            assert!((300..2_500).contains(&(last - term)), "{} ms", last - term);
        }
    }
}

#[test]
fn a_loss_that_only_the_release_shows_is_a_loss() {
    let (server, client) = &mut TestServer::builder().start_and_connect();
    let files = Files::new();
    let run = run(server, &files, &["--lease", "10m"], UNTIL_GO);
    files.pid("pid");
    await_owner(client, "job");
    ask::<i64>(client, "DEL job");
    files.go();
    run.ended().fails(123, &["the command ended with code 0, but the lock was lost before its release"]);
}

/// The command continued while the run could not renew, and the lease is over: there is no time for a grace.
#[test]
fn a_run_that_was_stopped_beyond_its_lease_kills_at_once() {
    let (server, client) = &mut TestServer::builder().start_and_connect();
    let files = Files::new();
    let run = run(server, &files, &["--lease", "3s"], STUBBORN);
    let pids = [files.pid("leader.pid"), files.pid("child.pid")];
    run.stop();
    let next = start(server, &["run", "job", "--", "echo", "next"]);
    next.ended().is(0, "next\n");
    assert!(pids.iter().all(|pid| runs(*pid)));
    run.signal(Signal::CONT);
    await_end_of(&pids, SOON);
    let ended = run.ended();
    ended.fails(123, &["its lease ended while this process did not run; killing the command"]);
    assert!(!ended.stderr.contains("ending the command"), "no grace: {ended:?}");
    assert_eq!(ask::<i64>(client, "EXISTS job"), 0);
}

/// Stopped while it waited: the grant expires with its lease, and the run waits again.
#[test]
fn a_run_that_was_stopped_while_it_waited_starts_nothing_without_the_lock() {
    let (server, client) = &mut TestServer::builder().start_and_connect();
    ask::<redis::Value>(client, "RLOCK.ACQUIRE job first 100000");
    let mut run = start(server, &["run", "job", "--lease", "3s", "--", "echo", "ran"]);
    await_waiters(client, "job", 1);
    run.stop();
    ask::<i64>(client, "RLOCK.RELEASE job first");
    // Its grant lies in a buffer until its lease is over, and the next comes.
    eventually("the lease to end", SOON, || (ask::<i64>(client, "EXISTS job") == 0).then_some(()));
    ask::<redis::Value>(client, "RLOCK.ACQUIRE job second 100000");
    run.signal(Signal::CONT);
    await_waiters(client, "job", 1);
    run.still_runs();
    ask::<i64>(client, "RLOCK.RELEASE job second");
    run.ended().is(0, "ran\n");
}

#[test]
fn a_command_that_is_stopped_is_ended_too() {
    let server = TestServer::start();
    let files = Files::new();
    let run = run(&server, &files, &["--lease", "9s"], "echo $$ > pid; exec sleep 60");
    let pid = files.pid("pid");
    send_signal(pid, Signal::STOP);
    rlock(&server, &["force-release", "job", "--yes"]).is(0, "job  released\n");
    let ended = run.ended();
    ended.fails(123, &["the server no longer has it"]);
    assert!(!runs(pid));
}
