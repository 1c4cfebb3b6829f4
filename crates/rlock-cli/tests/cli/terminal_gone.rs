//! A terminal that is gone: its window was closed, or the connection to it was lost.

use std::io::{Read, Write};
use std::process::Command;

use rlock_testkit::{TestServer, eventually};

use crate::support::terminal::spawn;
use crate::support::{RLOCK, SOON, ask, program, url};

/// Starts the program in a session of its own and takes its terminal away when it has shown `text`; returns how it ended.
#[track_caller]
fn ends_without_its_terminal(server: &TestServer, mut command: Command, text: &str) -> Option<i32> {
    command.env("TERM", "xterm");
    let (mut keyboard, mut child) = spawn(command, (80, 24), &url(server));
    let (mut shown, mut buffer) = (String::new(), [0; 4096]);
    while !shown.contains(text) {
        let length = keyboard.read(&mut buffer).expect("its screen");
        shown.push_str(&String::from_utf8_lossy(&buffer[..length]));
    }
    keyboard.flush().expect("nothing to type");
    drop(keyboard);
    let status = eventually("the program to end", SOON, || child.try_wait().expect("an own child"));
    status.code()
}

/// `rlock top` burned a core and asked its servers for ever; it did not see HUP and INT either.
#[test]
fn a_terminal_that_is_gone_ends_what_it_showed() {
    let (server, client) = &mut TestServer::builder().start_and_connect();
    ask::<redis::Value>(client, "RLOCK.ACQUIRE job alice:1 600000");
    let calls: [(&[&str], &str); 3] = [
        (&["top", "--interval", "100ms"], "ACQUIRED/s"),
        (&["watch", "job"], "alice:1"),
        (&["force-release", "job"], "[y/N]"),
    ];
    for (arguments, text) in calls {
        let mut command = program(&["setsid", "--ctty", RLOCK]);
        command.args(arguments);
        ends_without_its_terminal(server, command, text);
        // A program that ignores HUP, or does not get it, sees the end of its input or output.
        let mut command = program(&["setsid", "--ctty", "sh", "-c", "trap '' HUP; exec \"$@\"", "sh", RLOCK]);
        command.args(arguments);
        let code = ends_without_its_terminal(server, command, text);
        assert!(code.is_some(), "{arguments:?}: ended by a signal");
    }
    // The release was not confirmed.
    assert_eq!(ask::<Vec<String>>(client, "HKEYS job"), ["alice:1"]);
}
