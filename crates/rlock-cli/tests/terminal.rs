//! On a terminal: colours, questions, redrawing, and commands that read what is typed.

mod support;

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::FromRawFd;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;

use rlock_testkit::{TestServer, eventually};
use support::{Files, SOON, ask, await_end_of, bare, url};

/// The program in a session of its own, with a terminal that the test types on and reads.
struct Terminal {
    child: Child,
    keyboard: File,
    screen: Receiver<String>,
    seen: String,
}

impl Terminal {
    #[track_caller]
    fn start(server: &TestServer, arguments: &[&str], environment: &[(&str, &str)]) -> Terminal {
        let (mut ours, mut theirs) = (0, 0);
        let none = std::ptr::null_mut();
        // SAFETY: openpty writes two descriptors; the other results are not wanted.
        let outcome = unsafe { libc::openpty(&mut ours, &mut theirs, none, none.cast(), none.cast()) };
        assert_eq!(outcome, 0, "openpty");
        // SAFETY: both descriptors are new, and owned by nobody else.
        let (keyboard, theirs) = unsafe { (File::from_raw_fd(ours), File::from_raw_fd(theirs)) };
        let mut command = bare();
        command.args(["--url", &url(server)]).args(arguments).env("TERM", "xterm");
        command.envs(environment.iter().copied());
        let copy = || Stdio::from(theirs.try_clone().expect("a copy"));
        command.stdin(copy()).stdout(copy()).stderr(copy());
        let lead_session = || {
            // SAFETY: setsid and this ioctl take no memory of ours.
            match unsafe { (libc::setsid(), libc::ioctl(0, libc::TIOCSCTTY, 0)) } {
                (-1, _) | (_, -1) => Err(std::io::Error::last_os_error()),
                _ => Ok(()),
            }
        };
        // SAFETY: between fork and exec there are two system calls and no allocation.
        unsafe { command.pre_exec(lead_session) };
        let child = command.spawn().expect("rlock");
        let mut output = keyboard.try_clone().expect("a copy");
        let (sender, screen) = channel();
        thread::spawn(move || {
            let mut buffer = [0; 4096];
            // The read fails once nobody has the terminal any more.
            while let Ok(length @ 1..) = output.read(&mut buffer) {
                if sender.send(String::from_utf8_lossy(&buffer[..length]).into_owned()).is_err() {
                    return;
                }
            }
        });
        Terminal { child, keyboard, screen, seen: String::new() }
    }

    fn type_text(&mut self, text: &str) {
        self.keyboard.write_all(text.as_bytes()).expect("typing");
    }

    /// Waits until the text has appeared, and forgets everything up to it.
    #[track_caller]
    fn shows(&mut self, text: &str) {
        loop {
            if let Some(place) = self.seen.find(text) {
                self.seen.drain(..place + text.len());
                return;
            }
            match self.screen.recv_timeout(SOON) {
                Ok(more) => self.seen.push_str(&more),
                Err(error) => panic!("{error}: no {text:?} in {:?}", self.seen),
            }
        }
    }

    /// Waits for the end, and returns the code and all that was not looked at.
    #[track_caller]
    fn ended(&mut self) -> (Option<i32>, String) {
        let status = eventually("the program to end", SOON, || self.child.try_wait().expect("an own child"));
        // Until nobody has the terminal any more.
        loop {
            match self.screen.recv_timeout(SOON) {
                Ok(more) => self.seen.push_str(&more),
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => panic!("the terminal is still in use"),
            }
        }
        assert_eq!(status.signal(), None);
        (status.code(), std::mem::take(&mut self.seen))
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

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
    assert!(!support::rlock(&server, &["ping"]).stdout.contains('\x1b'), "no terminal, no colours");
}

#[test]
fn force_release_asks() {
    let server = TestServer::start();
    let client = &mut server.connect();
    for (answer, code, left) in [("\n", 1, 1), ("n\n", 1, 1), ("yes\n", 0, 0)] {
        ask::<redis::Value>(client, "RLOCK.ACQUIRE job alice:1 100000 HOLDS 1");
        let mut terminal = Terminal::start(&server, &["force-release", "job"], &[]);
        terminal.shows("holder  alice:1");
        terminal.shows("[y/N] ");
        terminal.type_text(answer);
        assert_eq!(terminal.ended().0, Some(code), "{answer:?}");
        assert_eq!(ask::<i64>(client, "EXISTS job"), left, "{answer:?}");
    }
    let (code, text) = Terminal::start(&server, &["force-release", "job"], &[]).ended();
    assert!(
        code == Some(1) && text.contains("nothing was released"),
        "no question about a free lock: {text:?}"
    );
}

/// The output was a terminal, and so the file got its colours.
#[test]
fn a_question_that_goes_to_a_file_has_no_colours() {
    let server = TestServer::start();
    ask::<redis::Value>(&mut server.connect(), "RLOCK.ACQUIRE job alice:1 100000");
    let files = Files::new();
    let script = format!("{} --url {} force-release job 2> question", support::RLOCK, url(&server));
    let script = files.script(&script);
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
fn force_release_takes_the_lock_from_whom_it_showed() {
    let server = TestServer::start();
    let client = &mut server.connect();
    ask::<redis::Value>(client, "RLOCK.ACQUIRE job alice:1 100000");
    let mut terminal = Terminal::start(&server, &["force-release", "job"], &[]);
    terminal.shows("[y/N] ");
    ask::<i64>(client, "RLOCK.RELEASE job alice:1");
    ask::<redis::Value>(client, "RLOCK.ACQUIRE job bob:1 100000");
    terminal.type_text("y\n");
    let (code, text) = terminal.ended();
    assert!(code == Some(1) && text.contains("alice:1 does not hold it"), "{text:?}");
    assert_eq!(ask::<Vec<String>>(client, "HKEYS job"), ["bob:1"]);
}

#[test]
fn watch_redraws() {
    let server = TestServer::start();
    let mut terminal = Terminal::start(&server, &["watch", "job"], &[]);
    terminal.shows("\x1b[H\x1b[Jjob  \x1b[32mfree");
    ask::<redis::Value>(&mut server.connect(), "RLOCK.ACQUIRE job alice:1 100000");
    terminal.shows("\x1b[H\x1b[Jjob  \x1b[31mheld");
    terminal.shows("alice:1  1 hold");
    // Without any change the time goes on.
    terminal.shows("left");
    terminal.shows("left");
}

#[test]
fn a_command_under_a_lock_reads_what_is_typed() {
    let server = TestServer::start();
    let script = "read line; echo got $line; exit 3";
    let mut terminal = Terminal::start(&server, &["run", "job", "--", "sh", "-c", script], &[]);
    terminal.type_text("hello\n");
    terminal.shows("got hello");
    assert_eq!(terminal.ended().0, Some(3));
}

#[test]
fn control_c_reaches_the_command() {
    let server = TestServer::start();
    let script = "trap 'echo interrupted; exit 7' INT; echo ready; n=0; while [ $((n+=1)) -le 1200 ]; do sleep 0.05; done";
    let mut terminal = Terminal::start(&server, &["run", "job", "--", "sh", "-c", script], &[]);
    terminal.shows("ready");
    terminal.type_text("\x03");
    terminal.shows("interrupted");
    assert_eq!(terminal.ended().0, Some(7));
    assert_eq!(ask::<i64>(&mut server.connect(), "EXISTS job"), 0);
}

/// Nobody could let it go on, and its lock would be held for ever.
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
    eventually("the command to go on", SOON, || {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).expect("it runs");
        (!stat.contains(") T")).then_some(())
    });
    terminal.type_text("\x03");
    assert_eq!(terminal.ended().0, Some(130));
    await_end_of(&[pid], SOON);
}
