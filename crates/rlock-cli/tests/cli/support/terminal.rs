//! The program on a terminal of its own.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::Instant;

use rlock_testkit::{TestServer, eventually};

use super::{SOON, bare, url};

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

    /// As [`Terminal::start`], with so many columns and rows.
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
        let (mut ours, mut theirs) = (0, 0);
        let none = std::ptr::null_mut();
        // SAFETY: openpty writes two descriptors; the other results are not wanted.
        let outcome = unsafe { libc::openpty(&mut ours, &mut theirs, none, none.cast(), none.cast()) };
        assert_eq!(outcome, 0, "openpty");
        // SAFETY: both descriptors are new, and owned by nobody else.
        let (keyboard, theirs) = unsafe { (File::from_raw_fd(ours), File::from_raw_fd(theirs)) };
        set_size(&keyboard, size);
        let mut command = bare();
        command.args(arguments).env("REDIS_URL", url).env("TERM", "xterm");
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
            let (mut buffer, mut rest) = ([0; 4096], Vec::new());
            // The read fails once nobody has the terminal any more.
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
    pub(crate) fn signal(&self, signal: i32) {
        let pid = libc::pid_t::try_from(self.child.id()).expect("a process id");
        // SAFETY: the child has not been waited for, so its process id is its own.
        assert_eq!(unsafe { libc::kill(pid, signal) }, 0, "kill");
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
        wanted: impl Fn(&[String]) -> bool,
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
                Err(error) => panic!("{error}: no such picture, at last {:?}", self.seen),
            }
        }
    }

    /// Reads on until the whole screen of this size is as wanted, and returns its lines.
    #[track_caller]
    pub(crate) fn screen(
        &mut self,
        parser: &mut vt100::Parser,
        wanted: impl Fn(&[String]) -> bool,
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

    /// Waits for the end, and returns the code and all that was not looked at.
    #[track_caller]
    pub(crate) fn ended(&mut self) -> (Option<i32>, String) {
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

#[track_caller]
fn set_size(terminal: &File, (columns, rows): (u16, u16)) {
    let size = libc::winsize { ws_col: columns, ws_row: rows, ws_xpixel: 0, ws_ypixel: 0 };
    // SAFETY: this ioctl reads a size that outlives it.
    let outcome = unsafe { libc::ioctl(terminal.as_raw_fd(), libc::TIOCSWINSZ, &size) };
    assert_eq!(outcome, 0, "TIOCSWINSZ");
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
