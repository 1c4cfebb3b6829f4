//! `rlock run`: the command, its code, and waiting for the lock.

use std::fs;
use std::time::{Duration, Instant};

use crate::support::{
    Files, Running, SOON, Signal, UNTIL_GO, ask, at, await_owner, await_waiters, bare, rlock, run, start, url,
};
use rlock_testkit::{TestServer, eventually};

/// A command that a signal ended gives 128 and its number.
#[test]
fn exits_with_the_commands_code() {
    let server = TestServer::start();
    let exits = [0, 1, 2, 123, 255].map(|code| (format!("exit {code}"), code));
    let signals = [("TERM", 143), ("KILL", 137), ("INT", 130), ("SEGV", 139)];
    let signals = signals.map(|(signal, code)| (format!("kill -{signal} $$"), code));
    for (script, code) in exits.into_iter().chain(signals) {
        let ended = rlock(&server, &["run", "job", "--", "sh", "-c", &script]);
        ended.is(code, "");
        assert_eq!(ended.stderr, "");
    }
}

/// With `--at-least`, too: on another machine it may run.
#[test]
fn a_command_that_cannot_be_run_gives_127_or_126_and_the_lock_back() {
    let server = TestServer::start();
    let files = Files::new();
    fs::write(files.path("plain"), "no program").unwrap();
    let plain = files.path("plain").display().to_string();
    for options in [&[][..], &["--at-least", "30s"]] {
        let run = |program| rlock(&server, &[&["run", "job"], options, &["--", program]].concat());
        run("no-such-program").fails(127, &["'no-such-program' was not found", "PATH"]);
        assert_eq!(ask::<i64>(&mut server.connect(), "EXISTS job"), 0);
        run(&plain).fails(126, &["Permission denied", "chmod +x"]);
        assert_eq!(ask::<i64>(&mut server.connect(), "EXISTS job"), 0);
    }
}

#[test]
fn a_lock_without_a_name_or_with_a_long_one_is_refused_before_anything_else() {
    // Without a server.
    let run = |name: &str| at("redis://127.0.0.1:1", &["run", name, "--no-wait", "--", "echo", "ran"]);
    run("").fails(125, &["the lock's name is empty", "is a variable unset?"]);
    run(&"k".repeat(1_025)).fails(125, &["the lock's name has 1025 bytes: use 1 to 1024"]);
    run(&"k".repeat(1_024)).fails(125, &["no answer from 127.0.0.1:1"]);
}

#[test]
fn readers_run_together_and_writers_alone() {
    let (server, client) = &mut TestServer::builder().start_and_connect();
    let files = Files::new();
    let flag = files.path("end now").display().to_string();
    let waits = format!("while ! [ -e '{flag}' ]; do sleep 0.02; done");
    let one = start(server, &["run", "pages", "--read", "--", "sh", "-c", &waits]);
    let two = start(server, &["run", "pages", "--read", "--", "sh", "-c", &waits]);
    eventually("both to read", SOON, || (ask::<i64>(client, "HLEN pages") == 3).then_some(()));
    rlock(server, &["run", "pages", "--write", "--no-wait", "--", "true"]).fails(124, &["not acquired"]);
    rlock(server, &["run", "pages", "--read", "--no-wait", "--", "true"]).is(0, "");
    let status = rlock(server, &["status", "pages"]);
    assert!(status.stdout.contains("1 hold, read"), "{}", status.stdout);
    assert!(rlock(server, &["ls"]).stdout.contains("pages"));
    fs::write(files.path("end now"), "").unwrap();
    one.ended().is(0, "");
    two.ended().is(0, "");
    rlock(server, &["run", "pages", "--write", "--fence-env", "T", "--", "sh", "-c", "[ $T -gt 0 ]"])
        .is(0, "");
    assert_eq!(ask::<i64>(client, "EXISTS pages"), 0);
}

#[test]
fn a_fair_lock_is_waited_for_in_redissons_list() {
    let (server, client) = &mut TestServer::builder().start_and_connect();
    ask::<redis::Value>(client, "RLOCK.ACQUIRE job other 100000");
    let waits = start(server, &["run", "job", "--fair", "--", "echo", "done"]);
    eventually("it to stand in the list", SOON, || {
        (ask::<i64>(client, "LLEN redisson_lock_queue:{job}") == 1).then_some(())
    });
    ask::<i64>(client, "RLOCK.RELEASE job other");
    waits.ended().is(0, "done\n");
    assert_eq!(ask::<i64>(client, "EXISTS job redisson_lock_queue:{job}"), 0);
}

#[test]
fn the_command_finds_a_fencing_token_in_its_environment() {
    let (server, client) = &mut TestServer::builder().start_and_connect();
    let mut last = 0;
    for _ in 0..2 {
        let words = ["run", "job", "--fence-env", "TOKEN", "--", "sh", "-c", r#"printf %s "$TOKEN""#];
        let ended = rlock(server, &words);
        let token: i64 = ask(client, "GET redisson_lock_token:{job}");
        ended.is(0, &token.to_string());
        assert!(token > last, "{token} after {last}");
        last = token;
    }
    // Without the option there is no token, and an existing variable stays.
    let mut command = bare();
    command.env("TOKEN", "mine").args(["--url", &url(server), "run", "job", "--", "sh", "-c"]);
    command.arg(r#"printf %s "$TOKEN""#);
    Running::start(command).ended().is(0, "mine");
    assert_eq!(ask::<i64>(client, "GET redisson_lock_token:{job}"), last);
}

#[test]
fn a_lock_that_is_held_for_longer_than_its_lease_is_renewed() {
    let (server, client) = &mut TestServer::builder().start_and_connect();
    // A lease that leaves a busy machine the time to renew it.
    let run = start(server, &["run", "job", "--lease", "4s", "--", "sleep", "60"]);
    let owner = await_owner(client, "job");
    assert!(owner.starts_with("rlock@") && owner.ends_with(":1") && owner.split(':').count() == 4, "{owner}");
    assert!((1..=4_000).contains(&ask::<i64>(client, "PTTL job")));
    let start = Instant::now();
    while start.elapsed() < Duration::from_secs(9) {
        let holders: Vec<String> = ask(client, "HKEYS job");
        assert_eq!(holders, [owner.as_str()], "after {:?}", start.elapsed());
        std::thread::sleep(Duration::from_millis(20));
    }
    run.signal(Signal::TERM);
    run.ended().is(143, "");
    assert_eq!(ask::<i64>(client, "EXISTS job"), 0);
}

#[test]
fn no_wait_gives_124_at_once_and_wait_after_its_time() {
    let (server, client) = &mut TestServer::builder().start_and_connect();
    ask::<redis::Value>(client, "RLOCK.ACQUIRE job other 100000");
    for arguments in [&["--no-wait"][..], &["--wait", "0s"], &["--wait", "600ms"]] {
        let start = Instant::now();
        let ended = rlock(server, &[&["run", "job"], arguments, &["--", "echo", "ran"]].concat());
        let waited = start.elapsed();
        ended.is(124, "");
        ended.fails(124, &["the lock job was not acquired in time"]);
        let least = if arguments.contains(&"600ms") { 600 } else { 0 };
        assert!(waited >= Duration::from_millis(least), "{arguments:?}: {waited:?}");
        await_waiters(client, "job", 0);
    }
    assert_eq!(ask::<Vec<String>>(client, "HKEYS job"), ["other"]);
}

#[test]
fn runs_exclude_each_other() {
    let server = TestServer::start();
    let files = Files::new();
    // mkdir fails where another is inside.
    let script = files.script("mkdir inside && sleep 0.2 && rmdir inside && echo done");
    let runs: Vec<Running> =
        (0..5).map(|_| start(&server, &["run", "job", "--", "sh", "-c", &script])).collect();
    for run in runs {
        run.ended().is(0, "done\n");
    }
}

#[test]
fn a_signal_during_the_wait_leaves_the_queue() {
    let (server, client) = &mut TestServer::builder().start_and_connect();
    ask::<redis::Value>(client, "RLOCK.ACQUIRE job other 100000");
    for (signal, code) in [(Signal::TERM, 143), (Signal::INT, 130), (Signal::HUP, 129)] {
        let run = start(server, &["run", "job", "--", "echo", "ran"]);
        await_waiters(client, "job", 1);
        run.signal(signal);
        run.ended().is(code, "");
        await_waiters(client, "job", 0);
    }
}

/// Whether the signal or the lock comes first, no lock is left behind: here its lease would outlast the test.
#[test]
fn a_signal_at_the_moment_of_the_grant_leaves_no_lock() {
    let (server, client) = &mut TestServer::builder().start_and_connect();
    for pause in 0..20 {
        ask::<redis::Value>(client, "RLOCK.ACQUIRE job other 100000");
        let run = start(server, &["run", "job", "--lease", "1h", "--", "echo", "ran"]);
        await_waiters(client, "job", 1);
        assert_eq!(ask::<i64>(client, "RLOCK.RELEASE job other"), 1);
        std::thread::sleep(Duration::from_micros(200 * pause));
        run.signal(Signal::TERM);
        let ended = run.ended();
        assert!(matches!(ended.code, Some(0 | 143)), "after {pause}: {ended:?}");
        assert_eq!(ask::<i64>(client, "EXISTS job"), 0, "after {pause}: {ended:?}");
    }
}

#[test]
fn the_lock_stays_held_until_the_whole_group_has_ended() {
    let (server, client) = &mut TestServer::builder().start_and_connect();
    let files = Files::new();
    let mut run = run(server, &files, &[], &format!("({UNTIL_GO}; echo end > ended) & exit 5"));
    let owner = await_owner(client, "job");
    // That is said a while after the command itself has ended.
    run.tells("processes of its group still run");
    assert_eq!(ask::<Vec<String>>(client, "HKEYS job"), [owner.as_str()]);
    run.still_runs();
    files.go();
    let ended = run.ended();
    ended.fails(5, &["processes of its group still run"]);
    assert!(files.path("ended").exists());
    eventually("the release", SOON, || (ask::<i64>(client, "EXISTS job") == 0).then_some(()));
}

/// Notes of `run` can be JSON objects too; the output is the command's own.
#[test]
fn notes_can_be_json() {
    let (server, client) = &mut TestServer::builder().start_and_connect();
    ask::<redis::Value>(client, "RLOCK.ACQUIRE job other 100000");
    let ended = rlock(server, &["--json", "run", "job", "--no-wait", "--", "echo", "ran"]);
    ended.is(124, "");
    let note: serde_json::Value = serde_json::from_str(&ended.stderr).expect("one object");
    assert!(note["note"].as_str().unwrap().starts_with("the lock job was not acquired in time"), "{note}");
    let ended = rlock(server, &["--json", "run", "free", "--", "no-such-program"]);
    let error: serde_json::Value = serde_json::from_str(&ended.stderr).expect("one object");
    assert_eq!((ended.code, &error["code"]), (Some(127), &127.into()));
}

#[test]
fn wrong_calls_give_125_and_say_what_is_right() {
    let of_run: [(&[&str], &str); 14] = [
        (&["--lease", "30"], "like 500ms, 30s or 1m30s"),
        (&["--lease", "999ms"], "set 1s or more"),
        (&["--session-grace", "900ms"], "set 1s or more"),
        (
            &["--session-grace", "4s", "--grace", "2s"],
            "quarter of the session grace\n  → lengthen --session-grace",
        ),
        (&["--max-hold", "999ms"], "set 1s or more"),
        (&["--max-hold", "4s", "--grace", "3s"], "longer than half of --max-hold"),
        (&["--lease", "2s", "--grace", "1500ms"], "lengthen --lease"),
        (&["--wait", "1s", "--no-wait"], "cannot be used with"),
        (&["--read", "--write"], "cannot be used with"),
        (&["--read", "--fair"], "cannot be used with"),
        (&["--write", "--fair"], "cannot be used with"),
        (&["--signal", "STOP"], "choose one of"),
        (&["--fence-env", "A=B"], "--fence-env"),
        (&["--conflict-exit-code", "256"], "--conflict-exit-code"),
    ];
    for (options, text) in of_run {
        at("redis://127.0.0.1:1", &[&["run", "job"], options, &["--", "true"]].concat()).fails(125, &[text]);
    }
    let others: [(&[&str], &str); 10] = [
        (&["run", "job"], "COMMAND"),
        (&["run", "job", "--permits", "0", "--", "true"], "0"),
        (&["release", "job"], "--owner"),
        (&["release", "c", "--holder", "*"], "cannot be used with"),
        (&["release", "c", "--owner", "x", "--yes"], "cannot be used with"),
        (&["ls", "--waiting", "invoice:*"], "cannot be used with"),
        (&["top", "--json"], "--json needs --once"),
        (&["top", "--once", "--interval", "5ms"], "set 100ms or more"),
        (&["--url", "http://x", "run", "job", "--", "true"], "redis://"),
        (&["no-such-subcommand"], "--help"),
    ];
    for (arguments, text) in others {
        at("redis://127.0.0.1:1", arguments).fails(125, &[text]);
    }
}
