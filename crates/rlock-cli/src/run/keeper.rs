//! The lock: acquired, renewed and released by a thread of its own.
//!
//! This is all that `run` knows of locking. A thread, since a server may hang: whoever watches the command
//! must never wait for one.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::Duration;

use redis::{Value, cmd};
use uuid::Uuid;

use super::Event;
use super::timing::Timing;
use crate::clock::Moment;
use crate::duration::ms;
use crate::error::Error;
use crate::server::{Link, LockInfo, PATIENCE, Target, integer};

/// How long to wait for the lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wait {
    No,
    AtMost(Duration),
    ForEver,
}

/// What the keeper tells.
#[derive(Debug)]
pub(super) enum LockEvent {
    /// The lock is ours until this moment, unless it is renewed.
    Held(Moment),
    /// Somebody else had it all the time.
    NotAcquired,
    /// It could not even be asked for.
    Failed(Error),
    /// The wait or a renewal failed, and is tried again: nothing is lost yet.
    Trouble(Error),
    /// The lock is not ours any more, and why.
    Lost(&'static str),
    /// What came of the release.
    Released(Release),
}

/// What came of a release.
#[derive(Debug)]
pub(super) enum Release {
    /// The lock was ours to the end.
    Done,
    /// It was not ours any more.
    NotHeld,
    /// Nobody knows: it ends with its lease at the latest.
    Unknown,
}

/// Which lock is wanted, and how.
#[derive(Debug, Clone)]
pub(super) struct Request {
    pub(super) target: Target,
    pub(super) key: Vec<u8>,
    pub(super) timing: Timing,
    pub(super) wait: Wait,
}

/// The handle of the thread.
pub(super) struct Keeper {
    release: Sender<()>,
    request: Request,
    names: Arc<Names>,
}

/// Owners that are never used again: the client's own number and that of the acquisition.
struct Names {
    client: Uuid,
    acquisition: AtomicU32,
}

impl Names {
    fn owner(&self) -> String {
        format!("{}:{}", self.client, self.acquisition.load(Ordering::Relaxed))
    }
}

impl Keeper {
    /// Begins to acquire the lock.
    pub(super) fn start(request: Request, events: Sender<Event>) -> Result<Keeper, Error> {
        let names = Arc::new(Names { client: Uuid::new_v4(), acquisition: AtomicU32::new(1) });
        let (release, asked) = channel();
        let link = Link::new(request.target.clone());
        let work = Work { request: request.clone(), names: names.clone(), link, events, asked };
        thread::Builder::new()
            .name("lock".to_string())
            .spawn(move || work.run())
            .map_err(|cause| Error::System { what: "no thread for the lock", cause })?;
        Ok(Keeper { release, request, names })
    }

    /// Stops renewing, then releases; the outcome comes as an event.
    pub(super) fn release(&self) {
        // A thread that has ended has told so.
        let _ = self.release.send(());
    }

    /// Leaves the queue, or gives back what was granted at this very moment.
    pub(super) fn abandon(&self) {
        let mut link = Link::new(self.request.target.clone());
        let owner = self.names.owner();
        let mut cancel = cmd("RLOCK.CANCEL");
        cancel.arg(&self.request.key).arg(&owner);
        // When we are gone the server finds that out by itself: no need to insist.
        if link.ask(&cancel, GOODBYE).is_ok() {
            let _ = link.ask(&release_command(&self.request.key, &owner), GOODBYE);
        }
    }
}

/// How long a process that was told to end may still talk to the server.
const GOODBYE: Duration = Duration::from_secs(1);

/// First and longest pause before a connection is tried again.
const PAUSES: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(2));

/// How much longer than the wait the server may take to say that it is over.
const SLACK: Duration = Duration::from_secs(1);

/// Refusals that pass by themselves while the servers sort themselves out.
const PASSING: [&str; 5] = ["UNBLOCKED", "LOADING", "CLUSTERDOWN", "TRYAGAIN", "MASTERDOWN"];

struct Work {
    request: Request,
    names: Arc<Names>,
    link: Link,
    events: Sender<Event>,
    asked: Receiver<()>,
}

impl Work {
    fn run(mut self) {
        match self.acquire() {
            Ok(Some(until)) => {
                self.tell(LockEvent::Held(until));
                self.keep(until);
            }
            Ok(None) => self.tell(LockEvent::NotAcquired),
            Err(error) => self.tell(LockEvent::Failed(error)),
        }
    }

    fn tell(&self, event: LockEvent) {
        // Nobody listens only when the process is about to end.
        let _ = self.events.send(Event::Lock(event));
    }

    /// Waits for the lock as long as wanted. An outage does not end the wait, except at the very start:
    /// then the address is wrong more often than not.
    fn acquire(&mut self) -> Result<Option<Moment>, Error> {
        let start = Moment::now();
        // Nobody should wait for ever for a server that does not answer or has no module.
        self.link.ask(&LockInfo::command(&self.request.key, 0), PATIENCE)?;
        let mut pause = PAUSES.0;
        loop {
            let error = match self.ask_for_lock(start) {
                Ok(outcome) => return Ok(outcome),
                Err(error) => error,
            };
            let retry = error.is_transport() || error.is_refusal(&PASSING);
            if !retry || self.wait_left(start).is_some_and(|left| left <= pause) {
                return Err(error);
            }
            if pause == PAUSES.0 {
                self.tell(LockEvent::Trouble(error));
            }
            thread::sleep(pause);
            pause = pause.saturating_mul(2).min(PAUSES.1);
        }
    }

    /// What is left of the wait; `None` for ever.
    fn wait_left(&self, start: Moment) -> Option<Duration> {
        match self.request.wait {
            Wait::ForEver => None,
            // A lost reply is asked for again, for a while, even by who does not wait.
            Wait::No => Some(start.after(PATIENCE).left()),
            Wait::AtMost(wait) => Some(start.after(wait).left()),
        }
    }

    /// One attempt: until the lock is ours, or the wait is over, or something fails.
    fn ask_for_lock(&mut self, start: Moment) -> Result<Option<Moment>, Error> {
        loop {
            let mut command = cmd("RLOCK.ACQUIRE");
            command.arg(&self.request.key).arg(self.names.owner()).arg(ms(self.request.timing.lease));
            command.arg("HOLDS").arg(1);
            let wait = match self.request.wait {
                Wait::No => None,
                Wait::ForEver => Some(0),
                // Nothing left to wait is not for ever.
                Wait::AtMost(_) => self.wait_left(start).map(|left| ms(left).max(1)),
            };
            if let Some(wait) = wait {
                command.arg("BLOCK").arg(wait);
            }
            let within = match wait {
                None => Some(PATIENCE),
                Some(0) => None,
                Some(wait) => Some(Duration::from_millis(wait).saturating_add(SLACK)),
            };
            let sent = Moment::now();
            let answer = self.link.ask_waiting(&command, PATIENCE, within)?;
            if answer == Value::Nil {
                return Ok(None);
            }
            // Certain, if short after a wait: the lease began after the sending. It is not known when, for
            // the grant may have lain in a buffer for long; a renewal has a sending of its own.
            if Moment::now().since(sent) < self.request.timing.attempt() {
                return Ok(Some(self.request.timing.valid_until(sent)));
            }
            if let Some(until) = self.renew_once(PATIENCE)? {
                return Ok(Some(until));
            }
            // It had ended before we saw it. That owner's name is spent.
            self.names.acquisition.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Renews once: until when the lock is ours, or `None` if it is not.
    fn renew_once(&mut self, within: Duration) -> Result<Option<Moment>, Error> {
        let mut command = cmd("RLOCK.RENEW");
        command.arg(&self.request.key).arg(self.names.owner()).arg(ms(self.request.timing.lease));
        let sent = Moment::now();
        let answer = self.link.ask(&command, within)?;
        Ok((integer(&answer) == Some(1)).then(|| self.request.timing.valid_until(sent)))
    }

    /// Renews until told to release.
    fn keep(&mut self, mut until: Moment) {
        let mut next = Moment::now().after(self.request.timing.renewal());
        let mut troubled = false;
        loop {
            match self.asked.recv_timeout(next.left()) {
                Err(RecvTimeoutError::Timeout) => {}
                Ok(()) => return self.give_back(until),
                Err(RecvTimeoutError::Disconnected) => return,
            }
            let sent = Moment::now();
            match self.renew_once(self.request.timing.attempt()) {
                Ok(Some(renewed)) => {
                    until = renewed;
                    troubled = false;
                    self.tell(LockEvent::Held(until));
                    next = sent.after(self.request.timing.renewal());
                }
                Ok(None) => return self.lose("it was taken away, or its lease had ended"),
                Err(error) if error.is_refusal(&["WRONGLOCK", "WRONGTYPE"]) => {
                    return self.lose("its key holds something else");
                }
                Err(error) => {
                    if !troubled {
                        self.tell(LockEvent::Trouble(error));
                    }
                    troubled = true;
                    next = Moment::now().after(self.request.timing.retry());
                }
            }
        }
    }

    /// There is nothing to renew or to release any more.
    fn lose(&mut self, why: &'static str) {
        self.tell(LockEvent::Lost(why));
        if self.asked.recv().is_ok() {
            self.tell(LockEvent::Released(Release::NotHeld));
        }
    }

    /// Releases, and tells what came of it; tries until the lock has ended by itself, but not for long.
    fn give_back(&mut self, until: Moment) {
        let command = release_command(&self.request.key, &self.names.owner());
        let last = Moment::now().after(until.left().min(PATIENCE));
        let mut first = true;
        let release = loop {
            match self.link.ask(&command, last.left().clamp(GOODBYE / 4, GOODBYE)) {
                Ok(Value::Nil) if first => break Release::NotHeld,
                // An earlier one may have worked.
                Ok(Value::Nil) => break Release::Unknown,
                Ok(_) => break Release::Done,
                Err(error) if error.is_transport() && last.left() > PAUSES.0 => thread::sleep(PAUSES.0),
                Err(_) => break Release::Unknown,
            }
            first = false;
        };
        self.tell(LockEvent::Released(release));
    }
}

fn release_command(key: &[u8], owner: &str) -> redis::Cmd {
    let mut command = cmd("RLOCK.RELEASE");
    command.arg(key).arg(owner).arg("HOLDS").arg(0);
    command
}
