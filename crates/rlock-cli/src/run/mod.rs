//! `rlock run` and `rlock lead`: a command under a lock.

mod event;
mod group;
mod keeper;
mod kind;
mod launch;
mod lead;
mod nesting;
mod progress;
mod request;
mod seen;
mod signals;
mod supervisor;
mod system;
mod timing;
mod work;

use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use rlock_client::{Any, Guard, Held};
use rustix::process::Signal;

#[cfg(target_os = "linux")]
pub(crate) use launch::launcher;

use event::{Event, LockEvent};
use group::Group;
use keeper::{Keeper, Release};
use kind::Kind;
pub(crate) use lead::lead;
use progress::{EVERY_LINE, Progress};
use request::{Request, Wait};
use supervisor::Supervisor;
use timing::Timing;

use crate::args::{CommandArgs, RunArgs};
use crate::clock::Moment;
use crate::error::Error;
use crate::names;
use crate::output::Notes;
use crate::server::Place;

/// The lock was lost.
const LOST: u8 = 123;

/// The lock was not acquired in time.
const NOT_ACQUIRED: u8 = 124;

/// The answer to Ctrl-Z. rlock must continue for its renewals, so the shell would never take a `fg`; and a suspended
/// command must not keep a lock.
const NO_SUSPENSION: &str = "a command that holds a lock cannot be suspended: it continues";

/// How often a wait checks whether the server can be reached.
const LOOK: Duration = Duration::from_millis(200);

/// Runs the command, and returns the code to exit with.
pub(crate) fn run(place: Place, arguments: &RunArgs, notes: Notes) -> Result<u8, Error> {
    let wait = match (arguments.no_wait, arguments.wait) {
        (true, _) | (_, Some(Duration::ZERO)) => Wait::No,
        (_, Some(wait)) => Wait::AtMost(wait),
        (_, None) => Wait::ForEver,
    };
    let CommandArgs { lease, session_grace, grace, quiet, .. } = arguments.under;
    let notes = if quiet { notes.quiet() } else { notes };
    let timing = Timing::new(lease, session_grace, arguments.max_hold, grace)?;
    let key = names::bytes(&arguments.under.key);
    let (events, inbox) = channel();
    signals::listen(events.clone())?;
    let (kind, fenced) = (Kind::of(arguments), arguments.under.fence_env.is_some());
    let at_least = arguments.at_least.unwrap_or_default();
    let request = Request { place, key, timing, wait, kind, fenced, at_least };
    let keeper = Keeper::start(request, events)?;
    let progress = Progress::new(&keeper, notes, &names::bytes(&arguments.under.key), EVERY_LINE);
    let awaited = match await_lock(&keeper, &inbox, notes, progress) {
        // A limited wait would time out: it ends at once, with the reason.
        Err(error @ Error::Nested { .. }) if wait != Wait::ForEver => Ok(Awaited::Nested(error)),
        awaited => awaited.inspect_err(|_| keeper.abandon()),
    };
    let (missed, code) = match awaited? {
        Awaited::Held(guard) => {
            let running = Running { keeper, inbox: &inbox, timing, notes };
            return running.run(&arguments.under, guard, || ()).map(|ended| ended.code);
        }
        Awaited::Signal(signal) => {
            // Without a receiver, the keeper releases a lock that was granted at this very moment.
            drop(inbox);
            keeper.abandon();
            return Ok(group::ended_by(signal.as_raw()).0);
        }
        // Without another holder no machine does the job: that must not pass for a success.
        Awaited::NotAcquired(Some(why)) => (not_acquired(arguments, &format!(": {why}")), NOT_ACQUIRED),
        Awaited::NotAcquired(None) => {
            (not_acquired(arguments, "; `rlock status` shows its holder"), arguments.conflict_exit_code)
        }
        Awaited::Nested(error) => (format!("{error}; it cannot be acquired"), arguments.conflict_exit_code),
    };
    notes.say(&missed);
    keeper.abandon();
    Ok(code)
}

fn not_acquired(arguments: &RunArgs, why: &str) -> String {
    let key = names::shown(&names::bytes(&arguments.under.key));
    format!("the lock {key} was not acquired in time{why}")
}

/// How the wait for the lock ended.
enum Awaited {
    Held(Guard<Any>),
    /// With the reason, where that is not another holder.
    NotAcquired(Option<Error>),
    /// Before its time was over: a run around this one holds the lock.
    Nested(Error),
    Signal(Signal),
}

fn await_lock(
    keeper: &Keeper,
    inbox: &Receiver<Event>,
    notes: Notes,
    mut progress: Progress<'_>,
) -> Result<Awaited, Error> {
    let mut troubled = false;
    loop {
        progress.tick();
        match inbox.recv_timeout(LOOK) {
            Ok(Event::Lock(LockEvent::Held(guard))) => return Ok(Awaited::Held(guard)),
            Ok(Event::Lock(LockEvent::NotAcquired(why))) => return Ok(Awaited::NotAcquired(why)),
            Ok(Event::Lock(LockEvent::Unreachable(error))) => notes.say(&format!("{error}; still waiting")),
            Ok(Event::Lock(LockEvent::Failed(error))) => return Err(error),
            Ok(Event::Lock(LockEvent::Polling)) => notes.say(
                "this user may not subscribe to rlock:grants:*, so rlock polls the lock and other waiters may \
                 overtake; grant +subscribe and &rlock:grants:*",
            ),
            Ok(Event::Signal(signal)) => return Ok(Awaited::Signal(signal)),
            Ok(Event::Lock(LockEvent::Seen(seen))) => progress.saw(seen),
            Ok(Event::Lock(LockEvent::Changed) | Event::ChildChanged) => {}
            Err(RecvTimeoutError::Timeout) => {
                let trouble = keeper.trouble();
                if let Some(error) = trouble.as_ref().filter(|_| !troubled) {
                    notes.say(&format!("{error}; still waiting"));
                }
                troubled = trouble.is_some();
            }
            Err(RecvTimeoutError::Disconnected) => return Err(gone()),
        }
    }
}

/// Only a bug could end all threads that send events.
fn gone() -> Error {
    Error::System { what: "the lock's thread has ended", cause: std::io::ErrorKind::BrokenPipe.into() }
}

/// What a command under a lock needs.
struct Running<'a> {
    keeper: Keeper,
    inbox: &'a Receiver<Event>,
    timing: Timing,
    notes: Notes,
}

/// How a command under a lock ended.
struct Ended {
    /// The code to exit with.
    code: u8,
    /// Whether a signal to rlock has ended it.
    by_signal: bool,
}

impl Running<'_> {
    /// Runs the command; `ended` is called when it has ended, or could not be started, before the lock is released.
    fn run(self, arguments: &CommandArgs, guard: Guard<Any>, ended: impl FnOnce()) -> Result<Ended, Error> {
        let limit = self.timing.max_hold.map(|time| Moment::now().after(time));
        // This process may have been stopped since it acquired the lock.
        let until = until(&guard.held());
        if until.is_none_or(|until| Moment::now() >= self.timing.end_at(until)) {
            self.notes.say("the lock was lost before the command was started");
            ended();
            self.keeper.release(guard);
            return Ok(Ended { code: LOST, by_signal: false });
        }
        let token = guard.token().map(|token| token.to_string().into());
        let variables =
            self.keeper.variables(&guard).into_iter().chain(arguments.fence_env.clone().zip(token));
        let start = || {
            let suspension = signals::refuse_suspension(self.notes)?;
            let variables: Vec<_> = variables.collect();
            Ok((suspension, Group::start(&arguments.command, &variables, self.notes)?))
        };
        let (suspension, group) = match start() {
            Ok(started) => started,
            Err(error) => {
                ended();
                // On another machine it may run.
                self.keeper.release_fully(guard);
                return Err(error);
            }
        };
        self.keeper.watch(guard.held());
        let supervisor = Supervisor::new(group, &self, guard.held(), limit, arguments.signal, suspension);
        let supervised = supervisor.watch();
        ended();
        let release = self.keeper.release(guard);
        let code = if supervised.lost { LOST } else { self.verdict(supervised.code.0, &release) };
        Ok(Ended { code, by_signal: supervised.by_signal })
    }

    /// The code to exit with after a command that ended by itself.
    fn verdict(&self, code: u8, release: &Release) -> u8 {
        match release {
            Release::Done => code,
            Release::NotHeld => {
                self.notes.say(&format!(
                    "the command ended with code {code}, but the lock was lost before its release: another owner \
                     may have held it at the same time; check the results of both"
                ));
                LOST
            }
            Release::Unknown => {
                self.notes.say(
                    "the server did not confirm the release; the lock is free at its lease end at the latest",
                );
                code
            }
        }
    }
}

/// Until when the lock is certainly held without another renewal; `None` if it is lost.
fn until(held: &Held) -> Option<Moment> {
    // In this order: if the process is stopped in between, the moment is too early, which is safe.
    let now = Moment::now();
    held.check().ok().map(|left| now.after(left))
}
