//! On a terminal: colours, questions, and commands that read what is typed.

use crate::support::terminal::Terminal;
use crate::support::{Files, RLOCK, SOON, ask, await_end_of, rlock, url};
use rlock_testkit::{TestServer, eventually};

#[test]
fn colours_only_where_they_are_wanted() {
    let server = TestServer::start();
    let cases: [(&[(&str, &str)], bool); 4] = [
        (&[], true),
        (&[("NO_COLOR", "1")], false),
        (&[("NO_COLOR", "")], true),
        (&[("TERM", "dumb")], false),
    ];
    for (environment, colours) in cases {
        let (code, text) = Terminal::start(&server, &["ping"], environment).ended();
        assert_eq!(
            (code, text.contains("\x1b[32mok\x1b[0m")),
            (Some(0), colours),
            "{environment:?}: {text:?}"
        );
        assert_eq!(text.contains('\x1b'), colours, "{environment:?}: {text:?}");
    }
    let (_, json) = Terminal::start(&server, &["ping", "--json"], &[]).ended();
    assert!(!json.contains('\x1b'), "{json:?}");
    assert!(!rlock(&server, &["ping"]).stdout.contains('\x1b'), "no terminal, no colours");
}

#[test]
fn force_release_asks() {
    let (server, client) = &mut TestServer::builder().start_and_connect();
    for (answer, code, left) in [("\n", 1, 1), ("n\n", 1, 1), ("yes\n", 0, 0)] {
        ask::<redis::Value>(client, "RLOCK.ACQUIRE job alice:1 100000 HOLDS 1");
        let mut terminal = Terminal::start(server, &["force-release", "job"], &[]);
        terminal.shows("holder  alice:1");
        terminal.shows("[y/N] ");
        terminal.type_text(answer);
        assert_eq!(terminal.ended().0, Some(code), "{answer:?}");
        assert_eq!(ask::<i64>(client, "EXISTS job"), left, "{answer:?}");
    }
    let (code, text) = Terminal::start(server, &["force-release", "job"], &[]).ended();
    assert!(
        code == Some(1) && text.contains("nothing was released"),
        "no question about a free lock: {text:?}"
    );
}

#[test]
fn the_release_of_holders_shows_them_and_asks() {
    let (server, client) = &mut TestServer::builder().start_and_connect();
    let owner = "shop@web-2:10:0123456789abcdef:1";
    for (answer, code, left) in [("n\n", 1, 1), ("y\n", 0, 0)] {
        ask::<redis::Value>(client, &format!("RLOCK.ACQUIRE job {owner} 100000 HOLDS 1"));
        let mut terminal = Terminal::start(server, &["release", "--holder", "shop@web-2:*"], &[]);
        terminal.shows(&format!("job  {owner}  (shop on web-2, process 10)"));
        terminal.shows("Release all of these? [y/N] ");
        terminal.type_text(answer);
        assert_eq!(terminal.ended().0, Some(code), "{answer:?}");
        assert_eq!(ask::<i64>(client, "EXISTS job"), left, "{answer:?}");
    }
}

#[test]
fn force_release_asks_for_no_leave_to_delete_what_is_probably_no_lock() {
    let (server, client) = &mut TestServer::builder().start_and_connect();
    ask::<redis::Value>(client, "HSET counter visits 17");
    let (code, text) = Terminal::start(server, &["force-release", "counter"], &[]).ended();
    assert!(code == Some(125) && text.contains("its field visits does not look like an owner"), "{text:?}");
    let mut terminal = Terminal::start(server, &["force-release", "counter", "--any"], &[]);
    terminal.shows("[y/N] ");
    terminal.type_text("y\n");
    assert_eq!(terminal.ended().0, Some(0));
    assert_eq!(ask::<i64>(client, "EXISTS counter"), 0);
}

/// The output was a terminal, and so the file got its colours.
#[test]
fn a_question_that_goes_to_a_file_has_no_colours() {
    let server = TestServer::start();
    ask::<redis::Value>(&mut server.connect(), "RLOCK.ACQUIRE job alice:1 100000");
    let files = Files::new();
    let script = files.script(&format!("{RLOCK} --url {} force-release job 2> question", url(&server)));
    let mut terminal = Terminal::start(&server, &["run", "other", "--", "sh", "-c", &script], &[]);
    let question = eventually("the question", SOON, || {
        let text = std::fs::read_to_string(files.path("question")).ok()?;
        text.ends_with("[y/N] ").then_some(text)
    });
    assert!(question.starts_with("job  held, ") && !question.contains('\x1b'), "{question:?}");
    terminal.type_text("n\n");
    assert_eq!(terminal.ended().0, Some(1));
}

/// Between the question and the answer the lock passed on: the next holder was not meant.
#[test]
fn force_release_takes_the_lock_from_the_holder_that_it_showed() {
    let (server, client) = &mut TestServer::builder().start_and_connect();
    ask::<redis::Value>(client, "RLOCK.ACQUIRE job alice:1 100000");
    let mut terminal = Terminal::start(server, &["force-release", "job"], &[]);
    terminal.shows("[y/N] ");
    ask::<i64>(client, "RLOCK.RELEASE job alice:1");
    ask::<redis::Value>(client, "RLOCK.ACQUIRE job bob:1 100000");
    terminal.type_text("y\n");
    let (code, text) = terminal.ended();
    assert!(code == Some(1) && text.contains("alice:1 does not hold it"), "{text:?}");
    assert_eq!(ask::<Vec<String>>(client, "HKEYS job"), ["bob:1"]);
}

#[test]
fn control_c_reaches_the_command() {
    let server = TestServer::start();
    let script = "trap 'echo interrupted; exit 7' INT; echo ready; while :; do sleep 0.1; done";
    let mut terminal = Terminal::start(&server, &["run", "job", "--", "sh", "-c", script], &[]);
    terminal.shows("ready");
    terminal.type_text("\x03");
    terminal.shows("interrupted");
    assert_eq!(terminal.ended().0, Some(7));
    assert_eq!(ask::<i64>(&mut server.connect(), "EXISTS job"), 0);
}

/// No shell could continue it, and its lock would be held for ever.
#[test]
fn control_z_does_not_suspend_a_command_that_holds_a_lock() {
    let server = TestServer::start();
    let files = Files::new();
    let script = files.script("echo $$ > pid; echo ready; sleep 60");
    let mut terminal = Terminal::start(&server, &["run", "job", "--", "bash", "-c", &script], &[]);
    terminal.shows("ready");
    let pid = files.pid("pid");
    terminal.type_text("\x1a");
    terminal.shows("cannot be suspended");
    eventually("the command to continue", SOON, || {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).expect("it runs");
        (!stat.contains(") T")).then_some(())
    });
    terminal.type_text("\x03");
    assert_eq!(terminal.ended().0, Some(130));
    await_end_of(&[pid], SOON);
}
