//! The program on a terminal of its own.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::Instant;

use rlock_testkit::{TestServer, eventually};
use rustix::process::{Pid, kill_process};
use rustix::pty::{OpenptFlags, ioctl_tiocgptpeer, openpt, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

use super::{RLOCK, SOON, Signal, program, url};

/// The program in a session of its own, with a terminal that the test types on and reads.
pub(crate) struct Terminal {
    child: Child,
    keyboard: File,
    screen: Receiver<String>,
    seen: String,
}

impl Terminal {
    #[track_caller]
    pub(crate) fn start(server: &TestServer, arguments: &[&str], environment: &[(&str, &str)]) -> Terminal {
        Terminal::sized((80, 24), server, arguments, environment)
    }

    /// As [`Terminal::start`], with these columns and rows.
    #[track_caller]
    pub(crate) fn sized(
        size: (u16, u16),
        server: &TestServer,
        arguments: &[&str],
        environment: &[(&str, &str)],
    ) -> Terminal {
        Terminal::at(size, &url(server), arguments, environment)
    }

    /// As [`Terminal::sized`], for servers that a URL names.
    #[track_caller]
    pub(crate) fn at(
        size: (u16, u16),
        url: &str,
        arguments: &[&str],
        environment: &[(&str, &str)],
    ) -> Terminal {
        let (keyboard, theirs) = open(size);
        let mut command = program(&["setsid", "--ctty", RLOCK]);
        command.args(arguments).env("REDIS_URL", url).env("TERM", "xterm");
        command.envs(environment.iter().copied());
        let copy = || Stdio::from(theirs.try_clone().expect("a copy"));
        command.stdin(copy()).stdout(copy()).stderr(copy());
        let child = command.spawn().expect("rlock");
        let mut output = keyboard.try_clone().expect("a copy");
        let (sender, screen) = channel();
        thread::spawn(move || {
            let (mut buffer, mut rest) = ([0; 4096], Vec::new());
            // The read fails once no process has the terminal any more.
            while let Ok(length @ 1..) = output.read(&mut buffer) {
                rest.extend_from_slice(&buffer[..length]);
                // A character may come in two parts.
                let whole = std::str::from_utf8(&rest).map_or_else(|error| error.valid_up_to(), str::len);
                let text: Vec<u8> = rest.drain(..whole).collect();
                if sender.send(String::from_utf8(text).expect("UTF-8")).is_err() {
                    return;
                }
            }
        });
        Terminal { child, keyboard, screen, seen: String::new() }
    }

    /// Sends a signal to the program.
    #[track_caller]
    pub(crate) fn signal(&self, signal: Signal) {
        // The child has not been waited for, so its process id is its own.
        kill_process(Pid::from_child(&self.child), signal).expect("it takes signals");
    }

    /// Gives the terminal another size, as a user does that drags its corner.
    pub(crate) fn resize(&self, size: (u16, u16)) {
        set_size(&self.keyboard, size);
    }

    /// The lines of the next whole picture between `begin` and `end` that is as wanted, without colours.
    #[track_caller]
    pub(crate) fn picture(
        &mut self,
        (begin, end): (&str, &str),
        mut wanted: impl FnMut(&[String]) -> bool,
    ) -> Vec<String> {
        let by = Instant::now() + SOON;
        loop {
            while let Some(rest) = self.seen.split_once(begin).map(|(_, rest)| rest) {
                let Some((picture, rest)) = rest.split_once(end) else { break };
                let lines: Vec<String> = without_colours(picture).lines().map(str::to_string).collect();
                self.seen = rest.to_string();
                if wanted(&lines) {
                    return lines;
                }
            }
            match self.screen.recv_timeout(by.saturating_duration_since(Instant::now())) {
                Ok(more) => self.seen.push_str(&more),
                Err(error) => panic!("{error}: this picture did not appear, at last {:?}", self.seen),
            }
        }
    }

    /// Reads on until the whole screen of this size is as wanted, and returns its lines.
    #[track_caller]
    pub(crate) fn screen(
        &mut self,
        parser: &mut vt100::Parser,
        mut wanted: impl FnMut(&[String]) -> bool,
    ) -> Vec<String> {
        let by = Instant::now() + SOON;
        loop {
            parser.process(self.seen.as_bytes());
            self.seen.clear();
            let (_, columns) = parser.screen().size();
            let lines: Vec<String> = parser.screen().rows(0, columns).collect();
            if wanted(&lines) {
                return lines;
            }
            match self.screen.recv_timeout(by.saturating_duration_since(Instant::now())) {
                Ok(more) => self.seen.push_str(&more),
                Err(error) => panic!("{error}: another screen, at last {lines:#?}"),
            }
        }
    }

    pub(crate) fn type_text(&mut self, text: &str) {
        self.keyboard.write_all(text.as_bytes()).expect("typing");
    }

    /// Waits until the text has appeared, and forgets everything up to it.
    #[track_caller]
    pub(crate) fn shows(&mut self, text: &str) {
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

    /// Waits for the end, and returns the code and all output that was not checked.
    #[track_caller]
    pub(crate) fn ended(&mut self) -> (Option<i32>, String) {
        let status = eventually("the program to end", SOON, || self.child.try_wait().expect("an own child"));
        // Until no process has the terminal any more.
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

/// A new terminal: its keyboard and screen, and what a program gets of it.
#[track_caller]
pub(crate) fn open(size: (u16, u16)) -> (File, OwnedFd) {
    let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
    let keyboard = openpt(flags).expect("a terminal");
    unlockpt(&keyboard).expect("its lock");
    let theirs = ioctl_tiocgptpeer(&keyboard, flags).expect("its other side");
    set_size(&keyboard, size);
    (keyboard.into(), theirs)
}

#[track_caller]
fn set_size(terminal: impl AsFd, (columns, rows): (u16, u16)) {
    let size = Winsize { ws_col: columns, ws_row: rows, ws_xpixel: 0, ws_ypixel: 0 };
    tcsetwinsize(terminal, size).expect("its size");
}

/// A text without the sequences that choose a colour.
pub(crate) fn without_colours(text: &str) -> String {
    let mut parts = text.split("\x1b[");
    let mut plain = parts.next().unwrap_or_default().to_string();
    for part in parts {
        plain.push_str(part.split_once('m').map_or(part, |(_, rest)| rest));
    }
    plain.replace('\r', "")
}
