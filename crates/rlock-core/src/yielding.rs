//! Sharing with waiting Redisson clients: they learn of a release from its message, and then compete for the lock.
//!
//! A lock with constant hand-offs would never be free for them. A lock with overlapping native readers would never be
//! free for a Redisson writer. The module therefore yields regularly: it leaves the lock free for a yield window. Until
//! the lock is free it holds new readers back, as behind a native writer.

use crate::bugs::{Bug, planted};
use crate::decision::{Change, HashChange, LockEvent, UnlockMessage};
use crate::locks::HeldBack;
use crate::look::look;
use crate::port::{Note, Server, Site};
use crate::types::{Holds, LeaseMs, Mode};
use crate::view::{Kind, Need, Others, View};

/// How often it is looked whether those who come to read are still kept waiting for somebody, in ms.
const LOOK_MS: i64 = 500;

/// Tells those who wait by Redisson's protocol to try again, and says how many here heard it.
pub(crate) fn notify_redisson<S: Site>(site: &S, message: UnlockMessage) -> u64 {
    let lock = site.lock();
    site.server().locks(|locks| locks.forget_announced_end(lock));
    site.publish(message)
}

/// Leaves the lock to those who wait by Redisson's protocol, if they have been passed over for long
/// enough and there are any: true then.
pub(crate) fn foreign_turn<S: Site>(site: &S, mode: Mode) -> bool {
    let (server, lock, settings) = (site.server(), site.lock(), site.server().settings());
    let clock = server.clock();
    let due = server.locks(|locks| {
        locks.yield_is_due(lock, settings.turns, clock) || locks.yields_to_writers(lock, clock)
    });
    let Some(window) = settings.foreign_window.filter(|_| due) else { return false };
    if notify_redisson(site, UnlockMessage::to_all(mode)) == 0 {
        server.locks(|locks| {
            locks.end_streak(lock);
            locks.admit_readers(lock, clock);
        });
        return false;
    }
    server.note(Note::Yielded);
    server.locks(|locks| {
        // A moment that has begun goes on, and lasts no longer.
        let until = match locks.readers_held_back(lock) {
            Some(HeldBack::Window { until }) if until > clock => until.min(clock.after(window)),
            _ => clock.after(window),
        };
        locks.open_window(lock, until);
        // Who waits here is kept from the lock by the window now.
        locks.admit_readers(lock, clock);
    });
    true
}

/// Whether one who holds nothing is kept from a read/write lock in this state, for the sake of one of Redisson's.
pub(crate) fn holds_back<S: Site>(site: &S, view: &View, mode: Mode) -> bool {
    if !view.is_free_for(mode) {
        let joins = mode == Mode::Read && view.kind == Kind::Reading && !view.holds_any();
        return joins && yields_to_waiting_writer(site);
    }
    let (server, lock) = (site.server(), site.lock());
    match server.locks(|locks| locks.readers_held_back(lock)) {
        None => return false,
        Some(HeldBack::UntilFree { .. }) => native_reads_ended(site),
        Some(HeldBack::Window { .. }) => {}
    }
    held_back_for(site).is_some()
}

/// Whether those who come to read a lock that others read are to wait: one of Redisson's has waited to write for long
/// enough.
fn yields_to_waiting_writer<S: Site>(site: &S) -> bool {
    let (server, lock, settings) = (site.server(), site.lock(), site.server().settings());
    if planted(Bug::ForeignWriterStarves) || settings.foreign_window.is_none() {
        return false;
    }
    if server.locks(|locks| locks.readers_held_back(lock)).is_some() {
        return held_back_for(site).is_some();
    }
    let clock = server.clock();
    server.locks(|locks| locks.writers_yield_is_due(lock, settings.turns, clock)) && close(site).is_some()
}

/// For how long yet those who come to read are kept waiting, before it is looked whether it is for anybody.
pub(crate) fn held_back_for<S: Site>(site: &S) -> Option<LeaseMs> {
    let (server, lock, clock) = (site.server(), site.lock(), site.server().clock());
    let closed = server.locks(|locks| locks.readers_held_back(lock))?;
    let (HeldBack::UntilFree { check_at: until } | HeldBack::Window { until }) = closed;
    let left = until.0.checked_sub(clock.0).and_then(|left| LeaseMs::new(left.try_into().ok()?));
    // No moment lasts for longer than any does: the option was lowered meanwhile.
    let longest = if let HeldBack::Window { .. } = closed { server.settings().foreign_window } else { left };
    match (left.filter(|left| longest.is_some_and(|longest| *left <= longest)), closed) {
        (Some(left), _) => Some(left),
        (None, HeldBack::UntilFree { .. }) => close(site),
        (None, HeldBack::Window { .. }) => {
            server.locks(|locks| locks.admit_readers(lock, clock));
            None
        }
    }
}

/// Keeps those waiting who come to read, if anybody of Redisson's listens and anybody reads who will give the lock back;
/// and says for how long before the next look. Where only the dead are left, nobody of Redisson's can write before the
/// key's end. Not for longer than the leases last that natives were given, those that read already: where Redisson's
/// readers come without a gap it would be for ever, and nobody would be served by it.
fn close<S: Site>(site: &S) -> Option<LeaseMs> {
    let (server, lock, settings) = (site.server(), site.lock(), site.server().settings());
    let clock = server.clock();
    let for_ever = planted_endless(site);
    let look_in = if for_ever { LeaseMs::new(LOOK_MS) } else { native_reads_last(site) };
    let listened = site.listening_redisson_writers() > 0 || for_ever;
    let wanted = settings.foreign_window.is_some() && listened && is_read(site);
    let again = look_in.filter(|_| wanted);
    server.locks(|locks| match again {
        Some(again) => locks.hold_readers_back(lock, HeldBack::UntilFree { check_at: clock.after(again) }),
        None => locks.admit_readers(lock, clock),
    });
    again
}

/// For how long natives may read yet that do, no longer than until the next look: a clock that was set back leaves more
/// than any lease lasts.
fn native_reads_last<S: Site>(site: &S) -> Option<LeaseMs> {
    let (server, lock) = (site.server(), site.lock());
    let ends = server.locks(|locks| locks.read_end(lock))?;
    LeaseMs::new(ends.0.saturating_sub(server.now().0).min(LOOK_MS))
}

/// With a bug planted: whether those who come to read are kept waiting already, and so go on waiting for nobody.
fn planted_endless<S: Site>(site: &S) -> bool {
    planted(Bug::ForeignWriterForEver)
        && site.server().locks(|locks| locks.readers_held_back(site.lock()).is_some())
}

/// Whether one of the readers lives; in doubt one does.
fn is_read<S: Site>(site: &S) -> bool {
    look(site, None, Need::AnyOther).map_or(true, |picture| match picture.view().kind {
        Kind::Free | Kind::Abandoned | Kind::Mutex => false,
        Kind::Reading => picture.view().others != Others::Dead,
        Kind::Writing => true,
    })
}

/// Nobody reads the lock any more. If that was for one of Redisson's, the lock is left to it for a moment.
pub(crate) fn native_reads_ended<S: Site>(site: &S) {
    let (server, lock) = (site.server(), site.lock());
    let window = server.settings().foreign_window.filter(|_| !planted(Bug::ForeignWriterNoMoment));
    let until = window.map(|window| server.clock().after(window));
    server.locks(|locks| locks.forget_read_end(lock, until));
}

/// Remembers what a change means for those who wait by Redisson's protocol: who has come to read, and for how long; or
/// that nobody reads any more.
pub(crate) fn note_reads<S: Site>(site: &S, change: &Change) {
    // Before the lock is named: where nobody waits a mutex does without that, which takes a copy of its name.
    if change.mode == Mode::Mutex {
        return;
    }
    let (server, lock) = (site.server(), site.lock());
    let first_hold = match change.hash {
        HashChange::Set(holds) | HashChange::Replace(holds) => holds == Holds::ONE,
        HashChange::Keep | HashChange::Remove | HashChange::Delete => false,
    };
    // Nobody held the lock, though nobody may have told of it.
    let alone = first_hold && change.becomes.is_some() && !planted(Bug::ForeignWriterTooEarly);
    match (change.mode, change.hash, change.leases().set) {
        (_, HashChange::Delete, _) => native_reads_ended(site),
        (Mode::Write, ..) if alone => server.locks(|locks| locks.forget_read_end(lock, None)),
        (Mode::Read, _, Some((_, _, ends))) => {
            let clock = server.clock();
            let comes = first_hold && matches!(change.event, Some(LockEvent::Acquire | LockEvent::HandOff));
            server.locks(|locks| {
                if alone {
                    locks.forget_read_end(lock, None);
                }
                locks.note_read_end(lock, ends, clock);
                if comes {
                    locks.count_reader(lock);
                }
            });
        }
        _ => {}
    }
}
