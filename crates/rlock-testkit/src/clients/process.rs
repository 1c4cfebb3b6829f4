//! A process that a test starts: its output is read, and its end is awaited with a deadline.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Instant;

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};

use super::SOON;

/// The process. Dropping it kills it.
pub struct Process {
    child: Child,
    lines: Receiver<String>,
}

impl Process {
    /// Starts a program; a thread reads its output.
    pub fn start(command: &mut Command) -> Process {
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("{command:?}: {error}"));
        let output = BufReader::new(child.stdout.take().expect("its output"));
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            // Until an end of the output, or of the test.
            output.lines().map_while(Result::ok).try_for_each(|line| sender.send(line))
        });
        Process { child, lines }
    }

    /// Stops the process, and returns when all its threads stand still.
    ///
    /// The signal alone does not stop a process: one of its threads must take it, and on a busy machine the others
    /// keep running until that thread is scheduled.
    pub fn stop(&self) {
        self.signal(Signal::STOP);
        crate::eventually("the stop of the process", SOON, || {
            // Only stops are waited for: the end of the process is left to `Child`.
            let stopped = WaitIdOptions::STOPPED | WaitIdOptions::NOHANG;
            waitid(WaitId::Pid(self.pid()), stopped).ok().flatten().map(drop)
        });
    }

    /// Resumes a stopped process.
    pub fn go_on(&self) {
        self.signal(Signal::CONT);
    }

    /// The signal of Ctrl-C.
    pub fn interrupt(&self) {
        self.signal(Signal::INT);
    }

    fn signal(&self, signal: Signal) {
        // The child is not reaped yet, so the id is its own.
        kill_process(self.pid(), signal).expect("the process takes signals");
    }

    fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    /// The rest of the next line that has `words`: the text after them.
    pub fn says(&mut self, words: &str) -> String {
        let by = Instant::now() + SOON;
        loop {
            let left = by.saturating_duration_since(Instant::now());
            let line = self.lines.recv_timeout(left);
            let line = line.unwrap_or_else(|error| panic!("the process did not say {words:?}: {error}"));
            if let Some((_, rest)) = line.split_once(words) {
                return rest.trim().to_string();
            }
        }
    }

    /// Waits for the end of the process.
    pub fn ends(&mut self) -> ExitStatus {
        crate::eventually("the end of the process", SOON, || {
            self.child.try_wait().expect("the process is a child")
        })
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
