//! A driver program under test: started, asked, heard.

use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Map, Value};

use crate::clock::boot_ns;

/// How a driver is started.
#[derive(Clone, Debug)]
pub struct Launch {
    /// The program and its arguments.
    pub command: Vec<String>,
    /// Where it runs.
    pub dir: PathBuf,
}

/// A line of a driver, and when the runner got it.
#[derive(Clone, Debug)]
pub(crate) struct Line {
    pub(crate) received: i64,
    pub(crate) fields: Map<String, Value>,
}

#[derive(Default)]
struct Inbox {
    lines: Vec<Line>,
    /// A line that is not a JSON object.
    fault: Option<String>,
    ended: bool,
}

pub(crate) struct Driver {
    child: Child,
    input: Option<ChildStdin>,
    inbox: Arc<(Mutex<Inbox>, Condvar)>,
}

impl Driver {
    pub(crate) fn start(launch: &Launch) -> Result<Driver, String> {
        let (program, arguments) = launch.command.split_first().ok_or("an empty command")?;
        let program = if program.contains('/') { launch.dir.join(program) } else { PathBuf::from(program) };
        let mut command = Command::new(&program);
        command.args(arguments).current_dir(&launch.dir).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().map_err(|error| format!("{}: {error}", program.display()))?;
        let (input, output) = (child.stdin.take(), child.stdout.take());
        let output = output.ok_or("no stdout")?;
        let inbox: Arc<(Mutex<Inbox>, Condvar)> = Arc::default();
        let filled = inbox.clone();
        std::thread::spawn(move || {
            for line in BufReader::new(output).lines() {
                let Ok(line) = line else { break };
                let received = boot_ns();
                let mut inbox = filled.0.lock().unwrap_or_else(PoisonError::into_inner);
                match serde_json::from_str(&line) {
                    Ok(Value::Object(fields)) => inbox.lines.push(Line { received, fields }),
                    _ => inbox.fault = Some(format!("not a JSON object: {line}")),
                }
                filled.1.notify_all();
            }
            filled.0.lock().unwrap_or_else(PoisonError::into_inner).ended = true;
            filled.1.notify_all();
        });
        Ok(Driver { child, input, inbox })
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn send(&mut self, request: &Value) -> Result<(), String> {
        let input = self.input.as_mut().ok_or("stdin is closed")?;
        writeln!(input, "{request}")
            .and_then(|()| input.flush())
            .map_err(|error| format!("the driver: {error}"))
    }

    /// The last line that `wanted` takes, waiting for one; `None` after `within`. Most callers want a line of this moment.
    pub(crate) fn line(
        &self,
        within: Duration,
        wanted: impl Fn(&Line) -> bool,
    ) -> Result<Option<Line>, String> {
        let end = Instant::now() + within;
        let mut inbox = self.inbox.0.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if let Some(fault) = &inbox.fault {
                return Err(fault.clone());
            }
            if let Some(line) = inbox.lines.iter().rev().find(|line| wanted(line)) {
                return Ok(Some(line.clone()));
            }
            if inbox.ended {
                return Err("the driver ended".to_string());
            }
            let left = end.checked_duration_since(Instant::now()).filter(|left| !left.is_zero());
            let Some(left) = left else { return Ok(None) };
            inbox = self.inbox.1.wait_timeout(inbox, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Everything so far.
    pub(crate) fn lines(&self) -> Vec<Line> {
        self.inbox.0.lock().unwrap_or_else(PoisonError::into_inner).lines.clone()
    }

    /// What hears this driver beside the thread that asks it.
    pub(crate) fn ear(&self) -> Ear {
        Ear(self.inbox.clone())
    }

    /// Forgets what earlier scenarios heard.
    pub(crate) fn clear(&self) {
        self.inbox.0.lock().unwrap_or_else(PoisonError::into_inner).lines.clear();
    }

    pub(crate) fn signal(&self, signal: Signal) {
        if let Some(pid) = i32::try_from(self.pid()).ok().and_then(Pid::from_raw) {
            // The child is not reaped before the drop of this value: the id is still its own.
            let _ = kill_process(pid, signal);
        }
    }

    /// SIGSTOP; returns when every thread stands still, or after a second.
    pub(crate) fn stop(&self) {
        self.signal(rustix::process::Signal::STOP);
        let end = Instant::now() + Duration::from_secs(1);
        while Instant::now() < end && !self.stands_still() {
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    fn stands_still(&self) -> bool {
        let threads = std::fs::read_dir(format!("/proc/{}/task", self.pid())).into_iter().flatten().flatten();
        let states =
            threads.map(|thread| std::fs::read_to_string(thread.path().join("stat")).unwrap_or_default());
        // The state stands behind the name, which is in parentheses.
        let mut states =
            states.map(|stat| stat.rsplit(") ").next().is_some_and(|rest| rest.starts_with('T')));
        states.all(|stopped| stopped)
    }

    /// The number of threads in the system's table.
    pub(crate) fn threads(&self) -> usize {
        std::fs::read_dir(format!("/proc/{}/task", self.pid())).map_or(0, Iterator::count)
    }

    /// Waits until it ends by itself; its exit code.
    pub(crate) fn ends(&mut self, within: Duration) -> Option<i32> {
        let end = Instant::now() + within;
        loop {
            if let Ok(Some(status)) = self.child.try_wait() {
                return Some(status.code().unwrap_or(-1));
            }
            if Instant::now() >= end {
                return None;
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

/// Hears a driver for one of many threads that ask it.
#[derive(Clone)]
pub(crate) struct Ear(Arc<(Mutex<Inbox>, Condvar)>);

impl Ear {
    /// Takes the answer to a request, waiting for it; drops events.
    pub(crate) fn take(&self, id: u64, within: Duration) -> Result<Line, String> {
        let end = Instant::now() + within;
        let mut inbox = self.0.0.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if let Some(fault) = &inbox.fault {
                return Err(fault.clone());
            }
            inbox.lines.retain(|line| !line.fields.contains_key("event"));
            let place =
                inbox.lines.iter().position(|line| line.fields.get("id").and_then(Value::as_u64) == Some(id));
            if let Some(place) = place {
                return Ok(inbox.lines.swap_remove(place));
            }
            let left = end.checked_duration_since(Instant::now()).filter(|left| !left.is_zero());
            let left = left.filter(|_| !inbox.ended).ok_or_else(|| format!("no answer to {id}"))?;
            inbox = self.0.1.wait_timeout(inbox, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        // It may have ended; SIGKILL ends a stopped process as well.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
