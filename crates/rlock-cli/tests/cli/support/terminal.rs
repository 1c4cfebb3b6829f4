//! The program on a terminal of its own.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::Instant;

use rlock_testkit::TestServer;
use rustix::process::{Pid, kill_process};
use rustix::pty::{OpenptFlags, ioctl_tiocgptpeer, openpt, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

use super::{RLOCK, SOON, Signal, await_end, program, url};

/// The program in a session of its own, with a terminal that the test types on and reads.
pub(crate) struct Terminal {
    child: Child,
    keyboard: File,
    screen: Receiver<String>,
    seen: String,
    parser: vt100::Parser,
}

impl Terminal {
    #[track_caller]
    pub(crate) fn start(server: &TestServer, arguments: &[&str], environment: &[(&str, &str)]) -> Terminal {
        Terminal::at((80, 24), &url(server), arguments, environment)
    }

    /// As [`Terminal::start`], with these columns and rows, for servers that a URL names.
    #[track_caller]
    pub(crate) fn at(
        size: (u16, u16),
        url: &str,
        arguments: &[&str],
        environment: &[(&str, &str)],
    ) -> Terminal {
        let mut command = program(&["setsid", "--ctty", RLOCK]);
        command.args(arguments).env("TERM", "xterm").envs(environment.iter().copied());
        let (keyboard, child) = spawn(command, size, url);
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
        Terminal { child, keyboard, screen, seen: String::new(), parser: parser(size) }
    }

    /// Sends a signal to the program.
    #[track_caller]
    pub(crate) fn signal(&self, signal: Signal) {
        // The child has not been waited for, so its process id is its own.
        kill_process(Pid::from_child(&self.child), signal).expect("it takes signals");
    }

    /// Gives the terminal another size, as a user does that drags its corner.
    pub(crate) fn resize(&mut self, size: (u16, u16)) {
        set_size(&self.keyboard, size);
        self.parser = parser(size);
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

    /// Reads on until the whole screen is as wanted, and returns its lines.
    #[track_caller]
    pub(crate) fn screen(&mut self, mut wanted: impl FnMut(&[String]) -> bool) -> Vec<String> {
        let by = Instant::now() + SOON;
        loop {
            self.parser.process(self.seen.as_bytes());
            self.seen.clear();
            let (_, columns) = self.parser.screen().size();
            let lines: Vec<String> = self.parser.screen().rows(0, columns).collect();
            if wanted(&lines) {
                return lines;
            }
            match self.screen.recv_timeout(by.saturating_duration_since(Instant::now())) {
                Ok(more) => self.seen.push_str(&more),
                Err(error) => panic!("{error}: another screen, at last {lines:#?}"),
            }
        }
    }

    /// The screen as it was returned last.
    pub(crate) fn cells(&self) -> &vt100::Screen {
        self.parser.screen()
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
        await_end(Pid::from_child(&self.child), SOON);
        let status = self.child.wait().expect("an own child");
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

fn parser((columns, rows): (u16, u16)) -> vt100::Parser {
    vt100::Parser::new(rows, columns, 0)
}

/// Starts a program with a new terminal; its keyboard and screen, and the process.
#[track_caller]
pub(crate) fn spawn(mut command: Command, size: (u16, u16), url: &str) -> (File, Child) {
    let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
    let keyboard = openpt(flags).expect("a terminal");
    unlockpt(&keyboard).expect("its lock");
    let theirs = ioctl_tiocgptpeer(&keyboard, flags).expect("its other side");
    set_size(&keyboard, size);
    let copy = || Stdio::from(theirs.try_clone().expect("a copy"));
    command.stdin(copy()).stdout(copy()).stderr(copy()).env("REDIS_URL", url);
    let child = command.spawn().expect("rlock");
    (keyboard.into(), child)
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
