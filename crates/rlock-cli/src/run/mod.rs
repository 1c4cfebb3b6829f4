//! `rlock run`: a command under a lock.

mod group;
mod keeper;
mod signals;
mod supervisor;
mod system;
mod timing;

use std::io::Write;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use rustix::process::Signal;

use group::{ExitCode, Group};
use keeper::{Keeper, LockEvent, Release, Request, Wait};
pub(crate) use signals::{EndSignal, parse as parse_signal};
use supervisor::Supervisor;
use timing::Timing;

use crate::args::RunArgs;
use crate::clock::Moment;
use crate::error::Error;
use crate::names;
use crate::server::Target;

/// The lock was lost.
const LOST: u8 = 123;

/// The lock was not acquired in time.
const NOT_ACQUIRED: u8 = 124;

/// How long to wait for the outcome of the release; the keeper gives up before.
const RELEASE_PATIENCE: Duration = Duration::from_secs(8);

/// Everything that `run` reacts to.
#[derive(Debug)]
enum Event {
    /// A signal for the command.
    Signal(Signal),
    /// A process below us ended or stopped.
    ChildChanged,
    /// News of the lock.
    Lock(LockEvent),
}

/// Runs the command, and returns the code to exit with.
pub(crate) fn run(target: Target, arguments: &RunArgs) -> Result<u8, Error> {
    let wait = match (arguments.no_wait, arguments.wait) {
        (true, _) | (_, Some(Duration::ZERO)) => Wait::No,
        (_, Some(wait)) => Wait::AtMost(wait),
        (_, None) => Wait::ForEver,
    };
    let timing = Timing::new(arguments.lease, arguments.grace)?;
    let key = names::bytes(&arguments.key);
    let (events, inbox) = channel();
    signals::listen(events.clone())?;
    let keeper = Keeper::start(Request { target, key, timing, wait }, events)?;
    let awaited = await_lock(&inbox).inspect_err(|error| {
        // The lock may be ours, and only the answer lost.
        if error.is_transport() {
            keeper.abandon();
        }
    });
    match awaited? {
        Awaited::Held(until) => Held { keeper, inbox, timing }.run(arguments, until),
        Awaited::NotAcquired => {
            say(&format!(
                "the lock {} was not acquired in time",
                names::shown(&names::bytes(&arguments.key))
            ));
            Ok(NOT_ACQUIRED)
        }
        Awaited::Signal(signal) => {
            keeper.abandon();
            Ok(group::ended_by(signal.as_raw()).0)
        }
    }
}

/// How the wait for the lock ended.
enum Awaited {
    Held(Moment),
    NotAcquired,
    Signal(Signal),
}

fn await_lock(inbox: &Receiver<Event>) -> Result<Awaited, Error> {
    loop {
        match inbox.recv() {
            Ok(Event::Lock(LockEvent::Held(until))) => return Ok(Awaited::Held(until)),
            Ok(Event::Lock(LockEvent::NotAcquired)) => return Ok(Awaited::NotAcquired),
            Ok(Event::Lock(LockEvent::Failed(error))) => return Err(error),
            Ok(Event::Signal(signal)) => return Ok(Awaited::Signal(signal)),
            Ok(Event::Lock(LockEvent::Trouble(error))) => say(&format!("{error}; the wait goes on")),
            Ok(_) => {}
            Err(_) => return Err(gone()),
        }
    }
}

/// Only a bug could end all threads that tell us something.
fn gone() -> Error {
    Error::System { what: "the lock's thread is gone", cause: std::io::ErrorKind::BrokenPipe.into() }
}

/// A lock that is ours, and nothing runs under it yet.
struct Held {
    keeper: Keeper,
    inbox: Receiver<Event>,
    timing: Timing,
}

impl Held {
    fn run(self, arguments: &RunArgs, until: Moment) -> Result<u8, Error> {
        // We may have been stopped since the lock was ours.
        if Moment::now() >= self.timing.end_at(until) {
            say("the lock was lost before the command was started");
            self.release();
            return Ok(LOST);
        }
        let group = match Group::start(&arguments.command) {
            Ok(group) => group,
            Err(error) => {
                self.release();
                return Err(error);
            }
        };
        let supervisor = Supervisor::new(group, self.timing, arguments.signal, until);
        let (ExitCode(code), lost) = supervisor.watch(&self.inbox);
        let release = self.release();
        Ok(if lost { LOST } else { verdict(code, &release) })
    }

    /// Releases and waits for the outcome.
    fn release(&self) -> Release {
        self.keeper.release();
        let last = Moment::now().after(RELEASE_PATIENCE);
        while let Ok(event) = self.inbox.recv_timeout(last.left()) {
            if let Event::Lock(LockEvent::Released(release)) = event {
                return release;
            }
        }
        Release::Unknown
    }
}

/// The code to exit with after a command that ended by itself.
fn verdict(code: u8, release: &Release) -> u8 {
    match release {
        Release::Done => code,
        Release::NotHeld => {
            say(&format!(
                "the command ended with code {code}, but the lock had been taken away from it: another \
                 may have run at the same time; check what both did"
            ));
            LOST
        }
        Release::Unknown => {
            say("the server did not confirm the release; the lock ends with its lease at the latest");
            code
        }
    }
}

/// Tells the user something, on standard error; where nobody can hear it, it is lost.
fn say(text: &str) {
    let _ = writeln!(std::io::stderr(), "rlock: {text}");
}
