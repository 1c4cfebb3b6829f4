//! What `rlock run` shows on a terminal while it waits.

use std::time::{Duration, Instant};

use crate::support::terminal::Terminal;
use crate::support::{SOON, ask, await_waiters, rlock, start, url_of};
use rlock_testkit::{Subscriber, TestServer};

#[test]
fn a_wait_shows_the_holder_and_the_waiters_before() {
    let (server, client) = &mut TestServer::builder().start_and_connect();
    let _listener = Subscriber::channel(server, "news");
    ask::<redis::Value>(client, "RLOCK.ACQUIRE job alice:1 1000000");
    ask::<redis::Value>(client, "RLOCK.ACQUIRE job bob:1 1000000 ENQUEUE 0 news");
    let begin = Instant::now();
    let mut terminal = Terminal::start(server, &["run", "job", "--", "echo", "ran"], &[]);
    terminal.shows("rlock: waiting for the lock job, held by alice:1; 1 waiter before this one (");
    assert!(begin.elapsed() >= Duration::from_secs(1), "a short wait is not worth a word");
    ask::<i64>(client, "RLOCK.RELEASE job alice:1");
    // The same line, written anew.
    terminal.shows("\rrlock: waiting for the lock job, held by bob:1; next in the queue (");
    ask::<i64>(client, "RLOCK.RELEASE job bob:1");
    let (code, text) = terminal.ended();
    assert_eq!(code, Some(0));
    // The line ends before the command has the terminal.
    let (wait, ran) = text.split_once("\r\n").unwrap_or_else(|| panic!("no end of the line: {text:?}"));
    assert!(wait.contains("s)"), "{text:?}");
    assert_eq!(ran, "ran\r\n");
}

#[test]
fn a_wait_that_ends_otherwise_ends_its_line_too() {
    let (server, client) = &mut TestServer::builder().start_and_connect();
    ask::<redis::Value>(client, "RLOCK.ACQUIRE job alice:1 1000000");
    let arguments = ["run", "job", "--wait", "3s", "--", "echo", "ran"];
    let mut terminal = Terminal::start(server, &arguments, &[]);
    terminal.shows("held by alice:1; next in the queue (");
    let (code, text) = terminal.ended();
    assert_eq!(code, Some(124));
    assert!(text.contains("s)\x1b[K\r\nrlock: the lock job was not acquired in time"), "{text:?}");
    let mut terminal = Terminal::start(server, &["run", "job", "--", "echo", "ran"], &[]);
    terminal.shows("held by alice:1; next in the queue (");
    terminal.type_text("\x03");
    let (code, text) = terminal.ended();
    assert!(code == Some(130) && text.ends_with("\r\n"), "{code:?} {text:?}");
}

/// A user that may not read locks still sees that it waits.
#[test]
fn without_the_permission_a_wait_shows_less() {
    let (server, client) = &mut TestServer::builder().start_and_connect();
    let locks = "+rlock.acquire +rlock.release +rlock.renew +rlock.cancel +subscribe";
    ask::<()>(client, &format!("ACL SETUSER app on >pass ~job &rlock:grants:* -@all {locks}"));
    ask::<redis::Value>(client, "RLOCK.ACQUIRE job alice:1 1000000");
    let arguments = ["--url", &url_of("app:pass", server), "run", "job", "--", "echo", "ran"];
    let mut terminal = Terminal::start(server, &arguments, &[]);
    terminal.shows("rlock: waiting for the lock job (");
    ask::<i64>(client, "RLOCK.RELEASE job alice:1");
    let (code, text) = terminal.ended();
    assert!(code == Some(0) && text.ends_with("\r\nran\r\n"), "{code:?} {text:?}");
}

#[test]
fn only_a_terminal_has_a_line_that_changes() {
    let (server, client) = &mut TestServer::builder().start_and_connect();
    ask::<redis::Value>(client, "RLOCK.ACQUIRE job alice:1 1000000");
    let run = start(server, &["run", "job", "--wait", "3s", "--", "echo", "ran"]);
    let words = ["--json", "run", "job", "--wait", "3s", "--", "true"];
    let mut dumb = Terminal::start(server, &words[1..], &[("TERM", "dumb")]);
    let mut json = Terminal::start(server, &words, &[]);
    await_waiters(client, "job", 3);
    let ended = run.ended_within(SOON);
    let lines = |text: &str| text.matches("waiting for the lock job, held by alice:1; ").count();
    assert!(ended.code == Some(124) && lines(&ended.stderr) == 1, "{ended:?}");
    for terminal in [&mut dumb, &mut json] {
        let (code, text) = terminal.ended();
        assert!(code == Some(124) && lines(&text) == 1, "{text:?}");
    }
    ask::<i64>(client, "RLOCK.RELEASE job alice:1");
    rlock(server, &["run", "job", "--", "true"]).is(0, "");
}
