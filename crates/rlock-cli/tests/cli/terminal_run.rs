//! `rlock run` on a terminal: the command has it while it runs, and no use of it suspends rlock.

use std::fs;
use std::path::Path;

use rlock_testkit::{TestServer, eventually};
use rustix::process::{Pid, getpgid, kill_process_group};

use crate::support::terminal::Terminal;
use crate::support::{Files, RLOCK, SOON, Signal, ask, state, url};

#[test]
fn the_terminal_returns_to_the_group_that_had_it() {
    let server = TestServer::start();
    let script = format!(
        "'{RLOCK}' run inner -- sh -c 'read -r line; echo inner $line'; read -r line; echo outer $line; \
         '{RLOCK}' run inner -- no-such-program; read -r line; echo after $line"
    );
    let mut terminal = Terminal::start(&server, &["run", "outer", "--", "sh", "-c", &script], &[]);
    terminal.type_text("one\n");
    terminal.shows("inner one");
    terminal.type_text("two\n");
    terminal.shows("outer two");
    terminal.shows("was not found");
    terminal.type_text("three\n");
    terminal.shows("after three");
    assert_eq!(terminal.ended().0, Some(0));
}

/// rlock is in the background while the command has the terminal.
#[test]
fn a_terminal_that_stops_writers_in_the_background_does_not_stop_rlock() {
    let server = TestServer::start();
    let script = "stty tostop; echo ready; read -r line; echo got $line; exit 3";
    let mut terminal = Terminal::start(&server, &["run", "job", "--", "sh", "-c", script], &[]);
    terminal.shows("ready");
    terminal.signal(Signal::TSTP);
    terminal.shows("cannot be suspended");
    terminal.type_text("go\n");
    terminal.shows("got go");
    assert_eq!(terminal.ended().0, Some(3));
}

/// A read from the background stops the whole group of the reader: also rlock, which lost its lock while its command continued.
#[test]
fn a_pager_beside_rlock_does_not_stop_rlock() {
    let (server, client) = &mut TestServer::builder().start_and_connect();
    let files = Files::new();
    let write = |name: &str, text: &str| fs::write(files.path(name), text).unwrap();
    write("front.sh", "front() { [ $(ps -o tpgid= -p $$) = $(ps -o pgid= -p $$) ]; }");
    write("command.sh", "touch started; until [ -e end ]; do sleep 0.05; done");
    let reader = "until [ -e started ]; do sleep 0.05; done; while front; do sleep 0.05; done; \
        echo $$ > reader; read -r line < /dev/tty; echo read $line";
    write("reader.sh", &format!(". ./front.sh; {reader}"));
    let script = files.script(&format!(
        ". ./front.sh; until front; do sleep 0.05; done; \
         '{RLOCK}' --url {} run job --lease 3s -- sh ./command.sh | sh ./reader.sh",
        url(server)
    ));
    let mut terminal = Terminal::start(server, &["run", "outer", "--", "sh", "-c", &script], &[]);
    let reader = files.pid("reader");
    let stopped = || (state(Path::new(&format!("/proc/{reader}"))) == Some('T')).then_some(());
    eventually("the reader to stop", SOON, stopped);
    let mut last = i64::MAX;
    for _ in 0..2 {
        eventually("a renewal", SOON, || {
            let left = ask::<i64>(client, "PTTL job");
            assert!(left > 0, "the lock was lost: {left}");
            (std::mem::replace(&mut last, left) < left).then_some(())
        });
    }
    write("end", "");
    eventually("the release", SOON, || (ask::<i64>(client, "EXISTS job") == 0).then_some(()));
    let group = getpgid(Pid::from_raw(reader)).unwrap();
    terminal.type_text("all\n");
    kill_process_group(group, Signal::CONT).unwrap();
    terminal.shows("read all");
    assert_eq!(terminal.ended().0, Some(0));
}
