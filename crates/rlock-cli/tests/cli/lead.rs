//! `rlock lead`: of several processes one leads at a time.

use std::fs;
use std::time::{Duration, Instant};

use crate::support::{
    Files, Running, SOON, Signal, ask, await_end_of, await_owner, await_waiters, rlock, start,
};
use rlock_testkit::{TestServer, eventually};

/// A command that notes when its term begins and ends.
fn term(files: &Files, name: &str) -> String {
    let (log, pid) = (files.path("log").display().to_string(), files.path("pid").display().to_string());
    let trap = format!("trap 'echo {name} ends >>{log}; exit 0' TERM");
    format!("echo $$ >{pid}; {trap}; echo {name} begins >>{log}; while :; do sleep 0.1; done")
}

/// Starts a process that wants to lead, and runs [`term`].
#[track_caller]
fn lead(server: &TestServer, files: &Files, options: &[&str], name: &str) -> Running {
    start(server, &[&["lead", "cluster"], options, &["--", "sh", "-c", &term(files, name)]].concat())
}

#[track_caller]
fn await_log(files: &Files, lines: &[&str]) {
    eventually(&format!("the terms {lines:?}"), SOON, || {
        let log = fs::read_to_string(files.path("log")).unwrap_or_default();
        log.lines().eq(lines.iter().copied()).then_some(())
    });
}

#[test]
fn one_leads_and_the_next_follows() {
    let server = TestServer::start();
    let files = Files::new();
    let file = files.path("leads").display().to_string();
    fs::write(&file, "of a process that crashed\n").unwrap();
    let first = lead(&server, &files, &[], "one");
    await_log(&files, &["one begins"]);
    let second = lead(&server, &files, &["--lead-file", &file], "two");
    await_waiters(&mut server.connect(), "cluster", 1);
    assert!(!fs::exists(&file).unwrap(), "it does not lead yet");
    first.tells("leading as ");
    first.signal(Signal::TERM);
    first.ended().is(0, "");
    await_log(&files, &["one begins", "one ends", "two begins"]);
    let owner = await_owner(&mut server.connect(), "cluster");
    assert_eq!(fs::read_to_string(&file).unwrap(), format!("{owner}\n"));
    second.signal(Signal::TERM);
    second.ended().is(0, "");
    assert!(!fs::exists(&file).unwrap(), "it leads no more");
    assert_eq!(ask::<i64>(&mut server.connect(), "EXISTS cluster"), 0);
}

#[test]
fn a_leader_that_crashes_is_replaced_when_its_session_ends() {
    let server = TestServer::start();
    let files = Files::new();
    let lead = |name: &str| lead(&server, &files, &["--session-grace", "1s"], name);
    let first = lead("one");
    await_log(&files, &["one begins"]);
    let command = files.pid("pid");
    let second = lead("two");
    await_waiters(&mut server.connect(), "cluster", 1);
    let crashed = Instant::now();
    first.signal(Signal::KILL);
    // The command ends with it, long before the next one leads.
    await_end_of(&[command], Duration::from_millis(900));
    await_log(&files, &["one begins", "two begins"]);
    assert!(crashed.elapsed() < Duration::from_secs(3), "{:?}", crashed.elapsed());
    second.signal(Signal::INT);
    assert!(second.ended().stderr.contains("leading as "));
}

#[test]
fn a_lead_that_is_lost_ends_the_command_and_is_sought_again() {
    let server = TestServer::start();
    let files = Files::new();
    let one = lead(&server, &files, &["--lease", "2s"], "one");
    await_log(&files, &["one begins"]);
    rlock(&server, &["force-release", "cluster", "--yes"]).is(0, "cluster  released\n");
    await_log(&files, &["one begins", "one ends", "one begins"]);
    one.tells("the lock was lost: the server no longer has it");
    one.signal(Signal::TERM);
    one.ended().is(0, "");
}

#[test]
fn a_leader_without_its_server_stops_and_leads_again_once_it_is_back() {
    let server = TestServer::start();
    let files = Files::new();
    let one = lead(&server, &files, &["--lease", "2s"], "one");
    await_log(&files, &["one begins"]);
    let port = server.port();
    drop(server);
    await_log(&files, &["one begins", "one ends"]);
    std::thread::sleep(Duration::from_secs(2));
    let server = TestServer::builder().port(port).start();
    await_log(&files, &["one begins", "one ends", "one begins"]);
    one.signal(Signal::TERM);
    one.ended().is(0, "");
    drop(server);
}

/// A command that fails at once does not keep the lead, nor the processor.
#[test]
fn a_command_that_ends_gives_the_lead_up_for_a_moment() {
    let server = TestServer::start();
    let files = Files::new();
    let command = format!("echo began >>{}; exit 3", files.path("log").display());
    let one = start(&server, &["lead", "cluster", "--", "sh", "-c", &command]);
    one.tells("no longer leading: the command ended with code 3; waiting for the lead");
    assert_eq!(ask::<i64>(&mut server.connect(), "EXISTS cluster"), 0);
    let threads = || fs::read_dir(format!("/proc/{}/task", one.pid())).unwrap().count();
    await_log(&files, &["began", "began"]);
    let before = threads();
    await_log(&files, &["began", "began", "began", "began"]);
    // Each term had a thread of its own, for good.
    eventually("no more threads than before", SOON, || (threads() <= before).then_some(()));
    one.signal(Signal::TERM);
    let code = one.ended().code;
    assert!(code == Some(143) || code == Some(3), "{code:?}");
}

#[test]
fn a_signal_ends_it_while_it_waits() {
    let (server, client) = &mut TestServer::builder().start_and_connect();
    ask::<redis::Value>(client, "RLOCK.ACQUIRE cluster other 100000");
    let waits = start(server, &["lead", "cluster", "--", "true"]);
    waits.tells("waiting for the lock cluster, held by other");
    waits.signal(Signal::TERM);
    assert_eq!(waits.ended().code, Some(143));
    await_waiters(client, "cluster", 0);
}

#[test]
fn what_cannot_lead_says_why() {
    let server = TestServer::start();
    rlock(&server, &["lead", "cluster", "--", "no-such-program"]).fails(127, &["was not found"]);
    assert_eq!(ask::<i64>(&mut server.connect(), "EXISTS cluster"), 0);
    let nowhere = ["lead", "cluster", "--lead-file", "/no/such/folder/file", "--", "true"];
    let texts = ["the file of --lead-file, /no/such/folder/file: ", "name a file in a folder that exists"];
    rlock(&server, &nowhere).fails(125, &texts);
    assert_eq!(ask::<i64>(&mut server.connect(), "EXISTS cluster"), 0);
    rlock(&server, &["lead", "", "--", "true"]).fails(125, &["the lock's name is empty"]);
}
