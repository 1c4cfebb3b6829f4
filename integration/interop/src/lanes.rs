//! Parts beside one another, since they mostly wait: each in a process of its own, whose output is shown when it ends.

use std::io::{Write, stdout};
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::thread;

use crate::parts::{Lane, Part};

/// A part that failed.
pub(crate) struct Failed {
    pub(crate) name: &'static str,
    /// All that it printed.
    pub(crate) output: String,
}

/// Runs the parts in their lanes, and returns those that failed.
pub(crate) fn run(parts: &[&Part]) -> Vec<Failed> {
    let failed = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for lane in [Lane::Heavy, Lane::Light, Lane::Page] {
            let failed = &failed;
            scope.spawn(move || {
                for part in parts.iter().filter(|part| part.lane == lane) {
                    if let Err(part) = pass(part) {
                        failed.lock().unwrap_or_else(PoisonError::into_inner).push(part);
                    }
                }
            });
        }
    });
    failed.into_inner().unwrap_or_else(PoisonError::into_inner)
}

fn pass(part: &Part) -> Result<(), Failed> {
    let own = std::env::current_exe().expect("the path of this program");
    let mut command = Command::new(own);
    // One after the other as they were written: both go to one pipe.
    let (mut output, both) = std::io::pipe().expect("a pipe");
    let errors = both.try_clone().expect("a second handle of the pipe");
    command.arg(part.name).stdin(Stdio::null()).stdout(both).stderr(errors);
    let mut child = command.spawn().expect("this program again");
    // It has handles of the pipe, which would keep it open.
    drop(command);
    let mut text = Vec::new();
    let _ = std::io::Read::read_to_end(&mut output, &mut text);
    let passed = child.wait().is_ok_and(|status| status.success());
    let mut out = stdout().lock();
    let _ = out.write_all(&text).and_then(|()| out.flush());
    let output = || String::from_utf8_lossy(&text).into_owned();
    if passed { Ok(()) } else { Err(Failed { name: part.name, output: output() }) }
}
