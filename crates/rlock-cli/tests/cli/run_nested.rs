//! A run inside a run of the same lock would wait for itself for ever.

use std::time::{Duration, Instant};

use crate::support::{
    Ended, RLOCK, Running, ask, await_owner, await_waiters, bare, rlock, start, url, url_of,
};
use rlock_testkit::TestServer;

/// Runs `outer`, which runs `inner`.
#[track_caller]
fn nested(server: &TestServer, outer: &[&str], inner: &[&str]) -> Ended {
    let words = [&["run"], outer, &["--", RLOCK, "run"], inner, &["--", "echo", "ran"]].concat();
    start(server, &words).ended_within(Duration::from_secs(30))
}

#[test]
fn permits_are_for_as_many_runs_as_there_are() {
    let server = TestServer::start();
    let two = ["job", "--permits", "2"];
    nested(&server, &two, &two).is(0, "ran\n");
    nested(&server, &["job", "--permits", "1"], &["job", "--permits", "1"]).fails(125, &["around this one"]);
    let third = [&two[..], &["--", RLOCK, "run"], &two[..]].concat();
    nested(&server, &two, &third).fails(125, &["around this one"]);
    nested(&server, &two, &["job"]).fails(125, &["WRONGLOCK"]);
}

/// Each of these hung: the inner run waited for the outer, and the outer for the inner.
#[test]
fn a_run_that_would_wait_for_itself_is_refused() {
    let server = TestServer::start();
    // All pairs of kinds are in the tests of `run/nesting.rs`.
    let cases: [(&[&str], &[&str]); 3] =
        [(&["job"], &["job"]), (&["job", "--fair"], &["job"]), (&["job", "--read"], &["job", "--write"])];
    for (outer, inner) in cases {
        let ended = nested(&server, outer, inner);
        ended.is(125, "");
        ended.fails(125, &["the lock job is held by the `rlock run` around this one", "→ remove the inner"]);
        assert_eq!(ask::<i64>(&mut server.connect(), "EXISTS job"), 0);
    }
}

#[test]
fn a_wait_with_an_end_gives_124_at_once() {
    let server = TestServer::start();
    for inner in [&["job", "--no-wait"][..], &["job", "--wait", "1h"]] {
        let begin = Instant::now();
        let ended = nested(&server, &["job"], inner);
        ended.is(124, "");
        ended.fails(124, &["held by the `rlock run` around this one"]);
        assert!(begin.elapsed() < Duration::from_secs(30), "{:?}", begin.elapsed());
    }
}

#[test]
fn what_does_not_wait_for_itself_runs() {
    let (server, other) = (TestServer::start(), TestServer::start());
    nested(&server, &["job"], &["another"]).is(0, "ran\n");
    nested(&server, &["job", "--read"], &["job", "--read"]).is(0, "ran\n");
    // The same name elsewhere is another lock.
    nested(&server, &["job"], &["job", "--url", &url(&other)]).is(0, "ran\n");
    nested(&server, &["job"], &["job", "--url", &format!("{}/1", url(&server))]).is(0, "ran\n");
    // A lock of the other type is not waited for.
    nested(&server, &["job"], &["job", "--read"]).fails(125, &["WRONGLOCK", "leave out --read and --write"]);
}

/// The lock is known by its holder, not by the URL: here by the name of the host, through a shell and two runs.
#[test]
fn deeper_and_by_another_url_it_is_the_same_lock() {
    let server = TestServer::start();
    let by_name = format!("redis://localhost:{}", server.port());
    let words = ["run", "one", "--", RLOCK, "run", "two", "--", "sh", "-c"];
    for (key, code) in [("one", 125), ("two", 125), ("three", 0)] {
        let script = format!("'{RLOCK}' --url {by_name} run {key} -- echo ran");
        let ended = rlock(&server, &[&words[..], &[&script]].concat());
        assert_eq!(ended.code, Some(code), "{key}: {ended:?}");
        assert_eq!(ended.stderr.contains("around this one"), code == 125, "{key}: {ended:?}");
    }
}

/// A daemon that was started under a lock keeps the variable when the lock is long free.
#[test]
fn a_variable_that_outlives_its_run_forbids_nothing() {
    let (server, client) = &mut TestServer::builder().start_and_connect();
    let ended = rlock(server, &["run", "job", "--", "sh", "-c", "printf %s \"$RLOCK_HELD\""]);
    assert!(ended.code == Some(0) && ended.stdout.contains(",plain,"), "{ended:?}");
    let with = |value: &str| {
        let mut command = bare();
        command.env("REDIS_URL", url(server)).env("RLOCK_HELD", value);
        command.args(["run", "job", "--", "echo", "ran"]);
        Running::start(command)
    };
    with(&ended.stdout).ended().is(0, "ran\n");
    // Nor does it when the lock is another's by now, or when it is nonsense.
    ask::<redis::Value>(client, "RLOCK.ACQUIRE job other 100000");
    let runs = [with(&ended.stdout), with("nonsense , ,,, %zz,plain,a,job")];
    await_waiters(client, "job", 2);
    assert_eq!(await_owner(client, "job"), "other");
    ask::<i64>(client, "RLOCK.RELEASE job other");
    for run in runs {
        run.ended().is(0, "ran\n");
    }
}

/// If the user may not read the holders of the lock, the variable alone decides.
#[test]
fn without_the_permission_to_look_the_name_decides() {
    let server = TestServer::start();
    let locks = "+rlock.acquire +rlock.release +rlock.renew +rlock.cancel +subscribe";
    let user = format!("ACL SETUSER app on >pass ~* allchannels -@all {locks}");
    ask::<()>(&mut server.connect(), &user);
    let app = url_of("app:pass", &server);
    nested(&server, &["job", "--url", &app], &["job", "--url", &app]).fails(125, &["around this one"]);
    nested(&server, &["job", "--url", &app], &["another", "--url", &app]).is(0, "ran\n");
}
