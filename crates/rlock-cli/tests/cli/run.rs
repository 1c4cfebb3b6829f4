//! `rlock run`: the command, its code, and waiting for the lock.

use std::fs;
use std::time::{Duration, Instant};

use crate::support::{
    Files, Running, SOON, Signal, ask, await_owner, await_waiters, bare, rlock, start, url,
};
use rlock_testkit::{TestServer, eventually};

#[test]
fn exits_with_the_commands_code() {
    let server = TestServer::start();
    for code in [0, 1, 2, 123, 255] {
        let ended = rlock(&server, &["run", "job", "--", "sh", "-c", &format!("exit {code}")]);
        ended.is(code, "");
        assert_eq!(ended.stderr, "");
    }
}

#[test]
fn a_command_that_a_signal_ended_gives_128_and_its_number() {
    let server = TestServer::start();
    for (signal, code) in [("TERM", 143), ("KILL", 137), ("INT", 130), ("SEGV", 139)] {
        let ended = rlock(&server, &["run", "job", "--", "sh", "-c", &format!("kill -{signal} $$")]);
        ended.is(code, "");
    }
}

#[test]
fn a_command_that_cannot_be_run_gives_127_or_126_and_the_lock_back() {
    let server = TestServer::start();
    let files = Files::new();
    fs::write(files.path("plain"), "no program").unwrap();
    let plain = files.path("plain").display().to_string();
    rlock(&server, &["run", "job", "--", "no-such-program"])
        .fails(127, &["'no-such-program' was not found", "PATH"]);
    rlock(&server, &["run", "job", "--", &plain]).fails(126, &["Permission denied", "chmod +x"]);
    assert_eq!(ask::<i64>(&mut server.connect(), "EXISTS job"), 0);
}

#[test]
fn a_lock_without_a_name_or_with_a_long_one_is_refused_before_anything_else() {
    let run = |name: &str| {
        let mut command = bare();
        // Without a server.
        command.args(["--url", "redis://127.0.0.1:1", "run", name, "--no-wait", "--", "echo", "ran"]);
        Running::start(command).ended()
    };
    run("").fails(125, &["the lock's name is empty", "is a variable unset?"]);
    run(&"k".repeat(1_025)).fails(125, &["the lock's name has 1025 bytes: use 1 to 1024"]);
    run(&"k".repeat(1_024)).fails(125, &["no answer from 127.0.0.1:1"]);
}

#[test]
fn the_command_gets_its_arguments_input_and_output() {
    let server = TestServer::start();
    let files = Files::new();
    fs::write(files.path("input"), "from the input\n").unwrap();
    let mut command = bare();
    command.args(["--url", &url(&server), "run", "job", "--", "sh", "-c"]);
    command.args([r#"printf '<%s>' "$@"; cat; echo problem >&2"#, "sh", "a b", "", "--lease", "-x"]);
    command.stdin(fs::File::open(files.path("input")).unwrap());
    let ended = Running::start(command).ended();
    ended.is(0, "<a b><><--lease><-x>from the input\n");
    assert_eq!(ended.stderr, "problem\n");
}

#[test]
fn readers_run_together_and_writers_alone() {
    let server = TestServer::start();
    let client = &mut server.connect();
    let files = Files::new();
    let flag = files.path("end now").display().to_string();
    let waits = format!("while ! [ -e '{flag}' ]; do sleep 0.02; done");
    let one = start(&server, &["run", "pages", "--read", "--", "sh", "-c", &waits]);
    let two = start(&server, &["run", "pages", "--read", "--", "sh", "-c", &waits]);
    eventually("both to read", SOON, || (ask::<i64>(client, "HLEN pages") == 3).then_some(()));
    rlock(&server, &["run", "pages", "--write", "--no-wait", "--", "true"]).fails(124, &["not acquired"]);
    rlock(&server, &["run", "pages", "--read", "--no-wait", "--", "true"]).is(0, "");
    rlock(&server, &["run", "pages", "--no-wait", "--", "true"]).fails(125, &["READ or WRITE"]);
    let status = rlock(&server, &["status", "pages"]);
    assert!(status.stdout.contains("1 hold, read"), "{}", status.stdout);
    assert!(rlock(&server, &["ls"]).stdout.contains("pages"));
    fs::write(files.path("end now"), "").unwrap();
    one.ended().is(0, "");
    two.ended().is(0, "");
    rlock(&server, &["run", "pages", "--write", "--fence-env", "T", "--", "sh", "-c", "[ $T -gt 0 ]"])
        .is(0, "");
    assert_eq!(ask::<i64>(client, "EXISTS pages"), 0);
    for words in [["--read", "--write"], ["--read", "--fair"], ["--write", "--fair"]] {
        rlock(&server, &["run", "pages", words[0], words[1], "--", "true"])
            .fails(125, &["cannot be used with"]);
    }
}

#[test]
fn a_fair_lock_is_waited_for_in_redissons_list() {
    let server = TestServer::start();
    let client = &mut server.connect();
    ask::<redis::Value>(client, "RLOCK.ACQUIRE job other 100000");
    let waits = start(&server, &["run", "job", "--fair", "--", "echo", "done"]);
    eventually("it to stand in the list", SOON, || {
        (ask::<i64>(client, "LLEN redisson_lock_queue:{job}") == 1).then_some(())
    });
    ask::<i64>(client, "RLOCK.RELEASE job other");
    waits.ended().is(0, "done\n");
    assert_eq!(ask::<i64>(client, "EXISTS job redisson_lock_queue:{job}"), 0);
}

#[test]
fn the_command_finds_a_fencing_token_in_its_environment() {
    let server = TestServer::start();
    let client = &mut server.connect();
    let mut last = 0;
    for _ in 0..2 {
        let words = ["run", "job", "--fence-env", "TOKEN", "--", "sh", "-c", r#"printf %s "$TOKEN""#];
        let ended = rlock(&server, &words);
        let token: i64 = ask(client, "GET redisson_lock_token:{job}");
        ended.is(0, &token.to_string());
        assert!(token > last, "{token} after {last}");
        last = token;
    }
    // Without the option there is no token, and an existing variable stays.
    let mut command = bare();
    command.env("TOKEN", "mine").args(["--url", &url(&server), "run", "job", "--", "sh", "-c"]);
    command.arg(r#"printf %s "$TOKEN""#);
    Running::start(command).ended().is(0, "mine");
    assert_eq!(ask::<i64>(client, "GET redisson_lock_token:{job}"), last);
    rlock(&server, &["run", "job", "--fence-env", "A=B", "--", "true"]).fails(125, &["--fence-env"]);
}

#[test]
fn the_lock_is_held_while_the_command_runs_and_free_afterwards() {
    let server = TestServer::start();
    let client = &mut server.connect();
    let files = Files::new();
    let script = files.script("n=0; until [ -e go ] || [ $((n+=1)) -gt 1200 ]; do sleep 0.05; done");
    let run = start(&server, &["run", "job", "--lease", "40s", "--", "sh", "-c", &script]);
    let owner = await_owner(client, "job");
    assert!(owner.starts_with("rlock@") && owner.ends_with(":1") && owner.split(':').count() == 4, "{owner}");
    let left: i64 = ask(client, "PTTL job");
    assert!((30_000..=40_000).contains(&left), "{left}");
    fs::write(files.path("go"), "").unwrap();
    run.ended().is(0, "");
    assert_eq!(ask::<i64>(client, "EXISTS job"), 0);
}

#[test]
fn a_lock_that_is_held_for_longer_than_its_lease_is_renewed() {
    let server = TestServer::start();
    let client = &mut server.connect();
    // A lease that leaves a busy machine the time to renew it.
    let run = start(&server, &["run", "job", "--lease", "4s", "--", "sleep", "60"]);
    let owner = await_owner(client, "job");
    let start = Instant::now();
    while start.elapsed() < Duration::from_secs(9) {
        let holders: Vec<String> = ask(client, "HKEYS job");
        assert_eq!(holders, [owner.as_str()], "after {:?}", start.elapsed());
        std::thread::sleep(Duration::from_millis(20));
    }
    run.signal(Signal::TERM);
    run.ended().is(143, "");
}

#[test]
fn no_wait_gives_124_at_once_and_wait_after_its_time() {
    let server = TestServer::start();
    let client = &mut server.connect();
    ask::<redis::Value>(client, "RLOCK.ACQUIRE job other 100000");
    for arguments in [&["--no-wait"][..], &["--wait", "0s"], &["--wait", "600ms"]] {
        let start = Instant::now();
        let ended = rlock(&server, &[&["run", "job"], arguments, &["--", "echo", "ran"]].concat());
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
fn a_waiter_gets_the_lock_when_it_is_free() {
    let server = TestServer::start();
    let client = &mut server.connect();
    for wait in [&[][..], &["--wait", "1m"]] {
        ask::<redis::Value>(client, "RLOCK.ACQUIRE job other 100000");
        let run = start(&server, &[&["run", "job"], wait, &["--", "echo", "ran"]].concat());
        await_waiters(client, "job", 1);
        assert_eq!(ask::<i64>(client, "RLOCK.RELEASE job other"), 1);
        run.ended().is(0, "ran\n");
    }
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
    let others = start(&server, &["run", "other", "--", "sleep", "30"]);
    await_owner(&mut server.connect(), "other");
    rlock(&server, &["run", "job", "--no-wait", "--", "true"]).is(0, "");
    others.signal(Signal::TERM);
    assert_eq!(others.ended().code, Some(143));
}

#[test]
fn a_wait_survives_a_restart_of_the_server() {
    let server = TestServer::builder().conf("appendonly", "yes").start();
    let port = server.port();
    ask::<redis::Value>(&mut server.connect(), "RLOCK.ACQUIRE job other 100000");
    let run = start(&server, &["run", "job", "--", "echo", "ran"]);
    await_waiters(&mut server.connect(), "job", 1);
    let data = server.kill9();
    run.tells("still waiting");
    let server = TestServer::builder().conf("appendonly", "yes").port(port).dir(data).start();
    let client = &mut server.connect();
    await_waiters(client, "job", 1);
    assert_eq!(ask::<i64>(client, "RLOCK.RELEASE job other"), 1);
    run.ended().is(0, "ran\n");
}

#[test]
fn a_signal_during_the_wait_leaves_the_queue() {
    let server = TestServer::start();
    let client = &mut server.connect();
    ask::<redis::Value>(client, "RLOCK.ACQUIRE job other 100000");
    for (signal, code) in [(Signal::TERM, 143), (Signal::INT, 130), (Signal::HUP, 129)] {
        let run = start(&server, &["run", "job", "--", "echo", "ran"]);
        await_waiters(client, "job", 1);
        run.signal(signal);
        run.ended().is(code, "");
        await_waiters(client, "job", 0);
    }
}

/// Whether the signal or the lock comes first, no lock is left behind: here its lease would outlast the test.
#[test]
fn a_signal_at_the_moment_of_the_grant_leaves_no_lock() {
    let server = TestServer::start();
    let client = &mut server.connect();
    for pause in 0..20 {
        ask::<redis::Value>(client, "RLOCK.ACQUIRE job other 100000");
        let run = start(&server, &["run", "job", "--lease", "1h", "--", "echo", "ran"]);
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
    let server = TestServer::start();
    let client = &mut server.connect();
    let files = Files::new();
    let script = files.script(
        "(n=0; until [ -e go ] || [ $((n+=1)) -gt 1200 ]; do sleep 0.05; done; echo end > ended) & exit 5",
    );
    let mut run = start(&server, &["run", "job", "--", "sh", "-c", &script]);
    let owner = await_owner(client, "job");
    // That is said a while after the command itself has ended.
    run.tells("processes of its group still run");
    assert_eq!(ask::<Vec<String>>(client, "HKEYS job"), [owner.as_str()]);
    run.still_runs();
    fs::write(files.path("go"), "").unwrap();
    let ended = run.ended();
    ended.fails(5, &["processes of its group still run"]);
    assert!(files.path("ended").exists());
    eventually("the release", SOON, || (ask::<i64>(client, "EXISTS job") == 0).then_some(()));
}

/// Notes of `run` can be JSON objects too; the output is the command's own.
#[test]
fn notes_can_be_json() {
    let server = TestServer::start();
    let client = &mut server.connect();
    ask::<redis::Value>(client, "RLOCK.ACQUIRE job other 100000");
    let ended = rlock(&server, &["--json", "run", "job", "--no-wait", "--", "echo", "ran"]);
    ended.is(124, "");
    let note: serde_json::Value = serde_json::from_str(&ended.stderr).expect("one object");
    assert!(note["note"].as_str().unwrap().starts_with("the lock job was not acquired in time"), "{note}");
    let ended = rlock(&server, &["--json", "run", "free", "--", "no-such-program"]);
    let error: serde_json::Value = serde_json::from_str(&ended.stderr).expect("one object");
    assert_eq!((ended.code, &error["code"]), (Some(127), &127.into()));
}

#[test]
fn wrong_calls_give_125_and_say_what_is_right() {
    let server = TestServer::start();
    let cases: [(&[&str], &str); 8] = [
        (&["run", "job"], "COMMAND"),
        (&["run", "job", "--lease", "30", "--", "true"], "like 500ms, 30s or 1m30s"),
        (&["run", "job", "--lease", "999ms", "--", "true"], "set 1s or more"),
        (&["run", "job", "--wait", "1s", "--no-wait", "--", "true"], "cannot be used with"),
        (&["run", "job", "--signal", "STOP", "--", "true"], "choose one of"),
        (&["run", "job", "--lease", "2s", "--grace", "1500ms", "--", "true"], "lengthen --lease"),
        (&["--url", "http://x", "run", "job", "--", "true"], "redis://"),
        (&["no-such-subcommand"], "--help"),
    ];
    for (arguments, text) in cases {
        rlock(&server, arguments).fails(125, &[text]);
    }
}
