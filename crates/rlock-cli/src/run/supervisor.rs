//! Watching the command and the clock.

use std::sync::mpsc::Receiver;
use std::time::Duration;

use rustix::process::Signal;

use super::group::{ExitCode, Group};
use super::keeper::LockEvent;
use super::timing::Timing;
use super::{EndSignal, Event, say};
use crate::clock::Moment;

/// The longest sleep: timers stand still in a suspended machine, the lease does not.
const TICK: Duration = Duration::from_millis(500);

/// How often the group is looked for when it should be gone: not all its processes are our children.
const GROUP_TICK: Duration = Duration::from_millis(50);

/// After this time we tell that processes in the background keep the lock.
const BACKGROUND_NOTICE: Duration = Duration::from_secs(2);

/// Why we end the command, and when the grace is over.
#[derive(Debug, Clone, Copy)]
struct Ending {
    kill_at: Moment,
}

/// One command under a lock that is held.
pub(super) struct Supervisor {
    group: Group,
    timing: Timing,
    signal: EndSignal,
    until: Moment,
    /// Set once, never taken back: who lost a lock for a moment has lost it.
    ending: Option<Ending>,
    /// Since when only processes in the background are left.
    background: Option<Moment>,
    noticed: bool,
}

impl Supervisor {
    pub(super) fn new(group: Group, timing: Timing, signal: EndSignal, until: Moment) -> Supervisor {
        Supervisor { group, timing, signal, until, ending: None, background: None, noticed: false }
    }

    /// Returns when the whole group has ended: the command's code, and whether the lock was lost before.
    pub(super) fn watch(mut self, inbox: &Receiver<Event>) -> (ExitCode, bool) {
        loop {
            // All news before the clock: a renewal may have arrived while we were stopped.
            while let Ok(event) = inbox.try_recv() {
                self.react(event);
            }
            if self.group.is_gone() {
                let code = self.group.leader().unwrap_or(ExitCode(u8::MAX));
                return (code, self.ending.is_some());
            }
            self.obey_clock(Moment::now());
            self.look_at_background();
            if let Ok(event) = inbox.recv_timeout(self.pause()) {
                self.react(event);
            }
        }
    }

    fn react(&mut self, event: Event) {
        match event {
            Event::Signal(signal) => self.group.signal(signal),
            Event::Lock(LockEvent::Held(until)) => self.until = until,
            Event::Lock(LockEvent::Trouble(error)) => {
                say(&format!("the lock could not be renewed yet: {error}; it is tried again"));
            }
            Event::Lock(LockEvent::Lost(why)) => self.end(&format!("the lock was lost: {why}")),
            Event::Lock(_) | Event::ChildChanged => {}
        }
    }

    /// Ends the command when its time has come.
    fn obey_clock(&mut self, now: Moment) {
        match self.ending {
            None if now >= self.until => {
                // Stopped or suspended: somebody else may hold the lock already.
                say("the lock was lost: its lease ended while this process did not run; killing the command");
                self.ending = Some(Ending { kill_at: now });
                self.group.signal(Signal::KILL);
            }
            None if now >= self.timing.end_at(self.until) => {
                self.end("the lock was lost: it could not be renewed before its lease ends");
            }
            Some(Ending { kill_at }) if now >= kill_at => self.group.signal(Signal::KILL),
            _ => {}
        }
    }

    /// Tells the command to end, once.
    fn end(&mut self, why: &str) {
        if self.ending.is_some() {
            return;
        }
        say(&format!("{why}; ending the command"));
        let grace_over = Moment::now().after(self.timing.grace);
        let kill_at = grace_over.min(self.timing.kill_at(self.until));
        self.ending = Some(Ending { kill_at });
        self.group.signal(self.signal.0);
        // A process that is stopped can only end once it goes on.
        self.group.signal(Signal::CONT);
    }

    /// The lock is held until the last process of the group has ended; that should surprise nobody.
    fn look_at_background(&mut self) {
        if self.group.leader().is_none() {
            return;
        }
        let since = *self.background.get_or_insert_with(Moment::now);
        if !self.noticed && Moment::now().since(since) >= BACKGROUND_NOTICE {
            say(
                "the command has ended, but processes of its group still run: the lock is held until they end",
            );
            self.noticed = true;
        }
    }

    /// How long nothing can become due.
    fn pause(&self) -> Duration {
        let due = match self.ending {
            None => self.timing.end_at(self.until).left(),
            Some(Ending { kill_at }) if kill_at.left().is_zero() => GROUP_TICK,
            Some(Ending { kill_at }) => kill_at.left(),
        };
        let waits_for_group = self.group.leader().is_some() && !self.noticed;
        due.min(if waits_for_group { GROUP_TICK } else { TICK })
    }
}
