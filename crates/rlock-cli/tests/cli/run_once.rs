//! `rlock run` for jobs that several machines start: once in a while, and not for too long.

use std::fs;
use std::time::{Duration, Instant};

use crate::support::{Files, SOON, ask, await_owner, await_waiters, rlock, start};
use rlock_testkit::{TestServer, eventually};

/// Five starts of a job of 50 ms, 200 ms apart, ran it four times.
#[test]
fn of_several_starts_one_runs_the_job() {
    let server = TestServer::start();
    let files = Files::new();
    let job = format!("echo ran >>'{}'", files.path("log").display());
    let words =
        ["run", "job", "--no-wait", "--at-least", "30s", "--conflict-exit-code", "0", "--", "sh", "-c", &job];
    for _ in 0..5 {
        rlock(&server, &words).is(0, "");
    }
    assert_eq!(fs::read_to_string(files.path("log")).unwrap(), "ran\n");
    let client = &mut server.connect();
    let left: i64 = ask(client, "PTTL job");
    assert!((20_000..=30_000).contains(&left), "{left}");
    // The lease alone keeps it, and no process: it can be forced.
    assert_eq!(ask::<i64>(client, "RLOCK.FORCERELEASE job"), 1);
    rlock(&server, &words).is(0, "");
    assert_eq!(fs::read_to_string(files.path("log")).unwrap(), "ran\nran\n");
}

#[test]
fn a_lock_is_kept_with_a_session_too_and_whatever_became_of_the_command() {
    let (server, client) = &mut TestServer::builder().start_and_connect();
    for (name, command, code) in [("fails", "exit 3", 3), ("killed", "kill -KILL $$", 137)] {
        let words = ["run", name, "--at-least", "20s", "--session-grace", "1s", "--", "sh", "-c", command];
        rlock(server, &words).is(code, "");
        std::thread::sleep(Duration::from_millis(1_200));
        let left: i64 = ask(client, &format!("PTTL {name}"));
        assert!((10_000..20_000).contains(&left), "{name}: {left}");
    }
    // A longer job ends it.
    rlock(server, &["run", "job", "--at-least", "300ms", "--", "sleep", "0.5"]).is(0, "");
    assert_eq!(ask::<i64>(client, "EXISTS job"), 0);
}

/// A renewal stays unanswered, and could be carried out after the release: PEXPIRE does here what that would do.
#[test]
fn a_late_request_does_not_shorten_what_is_kept() {
    let (server, client) = &mut TestServer::builder().start_and_connect();
    let run = start(server, &["run", "job", "--lease", "6s", "--at-least", "30s", "--", "sleep", "4.4"]);
    await_owner(client, "job");
    std::thread::sleep(Duration::from_millis(1_600));
    ask::<()>(client, "CLIENT PAUSE 1800 ALL");
    eventually("the release", SOON, || (ask::<i64>(client, "PTTL job") > 10_000).then_some(()));
    assert_eq!(ask::<i64>(client, "PEXPIRE job 3000"), 1);
    run.ended().fails(0, &["trying again"]);
    let left: i64 = ask(client, "PTTL job");
    assert!((10_000..30_000).contains(&left), "{left}");
}

#[test]
fn the_command_ends_before_the_lock_could_be_held_too_long() {
    let server = TestServer::start();
    let began = Instant::now();
    let script = "trap 'echo told; exit 7' TERM; sleep 60 & wait";
    let ended = rlock(&server, &["run", "job", "--max-hold", "3s", "--", "sh", "-c", script]);
    ended.fails(123, &["the lock is held for as long as --max-hold allows; ending the command"]);
    let took = began.elapsed();
    assert!((Duration::from_secs(1)..Duration::from_secs(3)).contains(&took), "{took:?}");
    assert_eq!((ended.stdout.as_str(), ask::<i64>(&mut server.connect(), "EXISTS job")), ("told\n", 0));
    // One that does not listen is killed.
    let began = Instant::now();
    let deaf = "trap '' TERM; exec sleep 60";
    rlock(&server, &["run", "job", "--max-hold", "2s", "--", "sh", "-c", deaf]).fails(123, &["--max-hold"]);
    assert!(began.elapsed() < Duration::from_millis(2_500), "{:?}", began.elapsed());
}

/// A drained server keeps every machine from the job: the code of a conflict made that a success.
#[test]
fn a_conflict_has_the_code_that_was_asked_for_and_nothing_else_has() {
    let server = TestServer::start();
    ask::<redis::Value>(&mut server.connect(), "RLOCK.ACQUIRE job other 100000");
    let run = |words: &[&str]| rlock(&server, &[&["run", "job"], words, &["--", "true"]].concat());
    run(&["--no-wait", "--conflict-exit-code", "0"]).is(0, "");
    run(&["--wait", "100ms", "--conflict-exit-code", "75"]).fails(75, &["not acquired in time"]);
    run(&["--no-wait"]).fails(124, &["not acquired in time"]);
    let quiet = run(&["--no-wait", "--quiet"]);
    assert_eq!((quiet.code, quiet.stderr.as_str()), (Some(124), ""));
    ask::<redis::Value>(&mut server.connect(), "SET text value");
    let words = ["run", "text", "--no-wait", "--conflict-exit-code", "0", "--quiet", "--", "true"];
    rlock(&server, &words).fails(125, &["holds something else"]);
    ask::<redis::Value>(&mut server.connect(), "CONFIG SET rlock.accept no");
    let words = ["run", "free", "--wait", "300ms", "--conflict-exit-code", "0", "--", "echo", "ran"];
    let ended = rlock(&server, &words);
    ended.fails(124, &["the lock free was not acquired in time: ", "rlock.accept is no"]);
    assert!(!ended.stderr.contains("shows its holder"), "{ended:?}");
}

/// The logs of cron and CI stayed empty while a job waited.
#[test]
fn a_wait_says_without_a_terminal_what_it_waits_for() {
    let (server, client) = &mut TestServer::builder().start_and_connect();
    ask::<redis::Value>(client, "RLOCK.ACQUIRE job alice:1 100000");
    let waits = start(server, &["run", "job", "--", "true"]);
    let quiet = start(server, &["run", "job", "--quiet", "--", "true"]);
    await_waiters(client, "job", 2);
    waits.tells("rlock: waiting for the lock job, held by alice:1");
    std::thread::sleep(Duration::from_millis(1_500));
    assert_eq!(waits.told().matches("waiting for").count(), 1, "{}", waits.told());
    ask::<i64>(client, "RLOCK.RELEASE job alice:1");
    waits.ended().is(0, "");
    assert_eq!(quiet.ended().stderr, "");
}
