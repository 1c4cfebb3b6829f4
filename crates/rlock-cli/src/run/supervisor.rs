//! Watching the command and the clock.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Receiver;
use std::time::Duration;

use rlock_client::{Error as ClientError, Held, State};
use rustix::process::Signal;

use super::event::Event;
use super::group::{ExitCode, Group};
use super::keeper::Keeper;
use super::timing::Timing;
use super::{NO_SUSPENSION, Running, until};
use crate::args::EndSignal;
use crate::clock::Moment;
use crate::output::Notes;

/// How often to check for the end of a group that should be gone: not all its processes are children of rlock.
const GROUP_TICK: Duration = Duration::from_millis(50);

/// After this time a note says that processes in the background keep the lock.
const BACKGROUND_NOTICE: Duration = Duration::from_secs(2);

/// The command is being ended: when its grace is over.
#[derive(Debug, Clone, Copy)]
struct Ending {
    kill_at: Moment,
}

/// How a command ended.
pub(super) struct Supervised {
    pub(super) code: ExitCode,
    /// Whether the lock was lost before.
    pub(super) lost: bool,
    /// Whether a signal to rlock told it to end.
    pub(super) by_signal: bool,
}

/// The signals that tell a command to end.
const ENDING: [Signal; 4] = [Signal::TERM, Signal::INT, Signal::HUP, Signal::QUIT];

/// One command under a lock that is held.
pub(super) struct Supervisor<'a> {
    group: Group,
    keeper: &'a Keeper,
    inbox: &'a Receiver<Event>,
    held: Held,
    timing: Timing,
    notes: Notes,
    signal: EndSignal,
    /// Set by an attempt to suspend rlock.
    suspension: Arc<AtomicBool>,
    /// Until when the lock may be held.
    limit: Option<Moment>,
    /// Until when the lock was certainly held, at the last check, and may be held.
    until: Moment,
    /// Whether a note has said that the lock is not renewed.
    troubled: bool,
    /// Set once, never cleared: a lock that was lost for a moment stays lost.
    ending: Option<Ending>,
    /// Since when only processes in the background are left.
    background: Option<Moment>,
    noticed: bool,
    by_signal: bool,
}

impl<'a> Supervisor<'a> {
    pub(super) fn new(
        group: Group,
        run: &'a Running<'_>,
        held: Held,
        limit: Option<Moment>,
        signal: EndSignal,
        suspension: Arc<AtomicBool>,
    ) -> Supervisor<'a> {
        Supervisor {
            group,
            keeper: &run.keeper,
            inbox: run.inbox,
            until: until(&held).unwrap_or_else(Moment::now),
            held,
            limit,
            timing: run.timing,
            notes: run.notes,
            signal,
            suspension,
            troubled: false,
            ending: None,
            background: None,
            noticed: false,
            by_signal: false,
        }
    }

    /// Returns when the whole group has ended.
    pub(super) fn watch(mut self) -> Supervised {
        loop {
            while let Ok(event) = self.inbox.try_recv() {
                self.react(event);
            }
            if self.group.is_gone() {
                let code = self.group.leader().unwrap_or(ExitCode(u8::MAX));
                return Supervised { code, lost: self.ending.is_some(), by_signal: self.by_signal };
            }
            self.look_at_lock();
            self.obey_clock(Moment::now());
            self.look_at_background();
            if self.suspension.swap(false, Ordering::Relaxed) {
                self.notes.say(NO_SUSPENSION);
            }
            if let Ok(event) = self.inbox.recv_timeout(self.pause()) {
                self.react(event);
            }
        }
    }

    fn react(&mut self, event: Event) {
        match event {
            Event::Signal(signal) => {
                self.by_signal |= ENDING.contains(&signal);
                self.group.signal(signal);
            }
            Event::Lock(_) | Event::ChildChanged => {}
        }
    }

    /// Asks the client crate, which knows without asking the server.
    fn look_at_lock(&mut self) {
        if let Some(until) = until(&self.held) {
            self.until = self.limit.map_or(until, |limit| limit.min(until));
            let overdue = self.held.state() == State::Renewing && until.left() < self.timing.overdue();
            if overdue && !self.troubled && self.ending.is_none() {
                let why = self.keeper.failure();
                self.notes.say(&format!("the lock could not be renewed yet: {why}; trying again"));
            }
            self.troubled = overdue;
        }
    }

    /// Ends the command when its time has come.
    fn obey_clock(&mut self, now: Moment) {
        match self.ending {
            None if now >= self.until => {
                // Stopped or suspended: another owner may hold the lock already.
                self.ending = Some(Ending { kill_at: now });
                self.group.signal(Signal::KILL);
                self.notes.say(
                    "the lock was lost: its lease ended while this process did not run; killing the command",
                );
            }
            None => match self.held.check() {
                Err(ClientError::LockLost { why, .. }) => self.end(&format!("the lock was lost: {why}")),
                _ if self.limit.is_some_and(|limit| now >= self.timing.end_at(limit)) => {
                    self.end("the lock is held for as long as --max-hold allows");
                }
                _ if now >= self.timing.end_at(self.until) => {
                    self.end("the lock was lost: it could not be renewed before its lease end");
                }
                _ => {}
            },
            Some(Ending { kill_at }) if now >= kill_at => self.group.signal(Signal::KILL),
            Some(_) => {}
        }
    }

    /// Tells the command to end, once.
    fn end(&mut self, why: &str) {
        if self.ending.is_some() {
            return;
        }
        let grace_over = Moment::now().after(self.timing.grace);
        let kill_at = grace_over.min(self.timing.kill_at(self.until));
        self.ending = Some(Ending { kill_at });
        self.group.signal(self.signal.0);
        // A stopped process can end only once it continues.
        self.group.signal(Signal::CONT);
        self.notes.say(&format!("{why}; ending the command"));
    }

    /// The lock is held until the last process of the group has ended; a note avoids a surprise.
    fn look_at_background(&mut self) {
        if self.group.leader().is_none() {
            return;
        }
        let since = *self.background.get_or_insert_with(Moment::now);
        if !self.noticed && Moment::now().since(since) >= BACKGROUND_NOTICE {
            self.notes.say(
                "the command has ended, but processes of its group still run: the lock stays held until they end",
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
        due.min(if waits_for_group { GROUP_TICK } else { self.timing.tick() })
    }
}
