//! Sharing with waiting Redisson clients: they learn of a release from its message, and then compete for the lock.
//!
//! A lock with constant hand-offs would never be free for them. A lock with overlapping native readers would never be
//! free for a Redisson writer. The module therefore yields regularly: it leaves the lock free for a yield window. Until
//! the lock is free it holds new readers back, as behind a native writer.

use crate::bugs::{Bug, planted};
use crate::core::Core;
use crate::decision::{Change, HashChange, LockEvent, UnlockMessage};
use crate::locks::{HeldBack, LockName};
use crate::look::{Picture, look};
use crate::note::Note;
use crate::port::{Lock, Server};
use crate::types::{Holds, LeaseMs, Mode, MonoMs};
use crate::view::{Kind, Need, Others};

/// How often it is looked whether those who come to read are still kept waiting for somebody, in ms.
const LOOK_MS: i64 = 500;

/// Tells those who wait by Redisson's protocol to try again, and says how many here heard it.
pub(crate) fn notify_redisson<P: Server>(
    core: Core<'_, P>,
    lock: &P::Lock<'_>,
    message: UnlockMessage,
) -> u64 {
    core.locks(|locks| locks.forget_announced_end(lock.name()));
    lock.publish(message)
}

/// Leaves the lock to those who wait by Redisson's protocol, if they have been passed over for long
/// enough and there are any: true then.
pub(crate) fn foreign_turn<P: Server>(core: Core<'_, P>, lock: &P::Lock<'_>, mode: Mode) -> bool {
    let settings = core.port.settings();
    let clock = core.port.clock();
    let due = core.locks(|locks| {
        locks.yield_is_due(lock.name(), settings.turns, clock) || locks.yields_to_writers(lock.name(), clock)
    });
    let Some(window) = settings.foreign_window.filter(|_| due) else { return false };
    if UnlockMessage::to_all(mode).map_or(0, |message| notify_redisson(core, lock, message)) == 0 {
        core.locks(|locks| {
            locks.end_streak(lock.name());
            locks.admit_readers(lock.name(), clock);
        });
        return false;
    }
    core.port.note(Note::Yielded);
    core.locks(|locks| {
        // A moment that has begun goes on, and lasts no longer.
        let until = match locks.readers_held_back(lock.name()) {
            Some(HeldBack::Window { until }) if until > clock => until.min(clock.after(window)),
            _ => clock.after(window),
        };
        locks.open_window(lock.name(), until);
        // Who waits here is kept from the lock by the window now.
        locks.admit_readers(lock.name(), clock);
    });
    true
}

/// Whether one who holds nothing is kept from a read/write lock in this state, for the sake of one of Redisson's.
pub(crate) fn holds_back<P: Server>(
    core: Core<'_, P>,
    picture: &mut Picture<'_, P::Lock<'_>>,
    mode: Mode,
) -> bool {
    let view = picture.view();
    if !view.is_free_for(mode) {
        let joins = mode == Mode::Read && view.kind == Kind::Reading && !view.holds_any();
        return joins && yields_to_waiting_writer(core, picture.close());
    }
    // In memory only: the key of a free lock may be open.
    let name = picture.name();
    match core.locks(|locks| locks.readers_held_back(name)) {
        None => return false,
        Some(HeldBack::UntilFree { .. }) => native_reads_ended(core, name),
        Some(HeldBack::Window { .. }) => {}
    }
    match core.locks(|locks| locks.readers_held_back(name)) {
        Some(HeldBack::Window { until }) => window_left(core, name, until).is_some(),
        Some(HeldBack::UntilFree { .. }) | None => false,
    }
}

/// Whether those who come to read a lock that others read are to wait: one of Redisson's has waited to write for long
/// enough.
fn yields_to_waiting_writer<P: Server>(core: Core<'_, P>, lock: &mut P::Lock<'_>) -> bool {
    let settings = core.port.settings();
    if planted(Bug::ForeignWriterStarves) || settings.foreign_window.is_none() {
        return false;
    }
    if core.locks(|locks| locks.readers_held_back(lock.name())).is_some() {
        return held_back_for(core, lock).is_some();
    }
    let clock = core.port.clock();
    core.locks(|locks| locks.writers_yield_is_due(lock.name(), settings.turns, clock))
        && close(core, lock).is_some()
}

/// For how long yet those who come to read are kept waiting, before it is looked whether it is for anybody.
pub(crate) fn held_back_for<P: Server>(core: Core<'_, P>, lock: &mut P::Lock<'_>) -> Option<LeaseMs> {
    match core.locks(|locks| locks.readers_held_back(lock.name()))? {
        HeldBack::Window { until } => window_left(core, lock.name(), until),
        HeldBack::UntilFree { check_at } => {
            time_left(check_at, core.port.clock()).or_else(|| close(core, lock))
        }
    }
}

/// What is left of a yield window; readers are admitted again after it.
fn window_left<P: Server>(core: Core<'_, P>, name: LockName<'_>, until: MonoMs) -> Option<LeaseMs> {
    let clock = core.port.clock();
    // No window lasts for longer than any does: the option was lowered meanwhile.
    let longest = core.port.settings().foreign_window;
    let left = time_left(until, clock).filter(|left| longest.is_some_and(|longest| *left <= longest));
    if left.is_none() {
        core.locks(|locks| locks.admit_readers(name, clock));
    }
    left
}

fn time_left(until: MonoMs, clock: MonoMs) -> Option<LeaseMs> {
    until.0.checked_sub(clock.0).and_then(|left| LeaseMs::new(left.try_into().ok()?))
}

/// Keeps those waiting who come to read, if anybody of Redisson's listens and anybody reads who will give the lock back;
/// and says for how long before the next look. Where only the dead are left, nobody of Redisson's can write before the
/// key's end. Not for longer than the leases last that natives were given, those that read already: where Redisson's
/// readers come without a gap it would be for ever, and nobody would be served by it.
fn close<P: Server>(core: Core<'_, P>, lock: &mut P::Lock<'_>) -> Option<LeaseMs> {
    let settings = core.port.settings();
    let clock = core.port.clock();
    let for_ever = planted_endless(core, lock);
    let look_in = if for_ever { LeaseMs::new(LOOK_MS) } else { native_reads_last(core, lock) };
    let listened = lock.listening_redisson_writers() > 0 || for_ever;
    let wanted = settings.foreign_window.is_some() && listened && is_read(core, lock);
    let again = look_in.filter(|_| wanted);
    core.locks(|locks| match again {
        Some(again) => {
            locks.hold_readers_back(lock.name(), HeldBack::UntilFree { check_at: clock.after(again) })
        }
        None => locks.admit_readers(lock.name(), clock),
    });
    again
}

/// For how long natives may read yet that do, no longer than until the next look: a clock that was set back leaves more
/// than any lease lasts.
fn native_reads_last<P: Server>(core: Core<'_, P>, lock: &P::Lock<'_>) -> Option<LeaseMs> {
    let ends = core.locks(|locks| locks.native_read_end(lock.name()))?;
    LeaseMs::new(ends.0.saturating_sub(core.port.now().0).min(LOOK_MS))
}

/// With a bug planted: whether those who come to read are kept waiting already, and so go on waiting for nobody.
fn planted_endless<P: Server>(core: Core<'_, P>, lock: &P::Lock<'_>) -> bool {
    planted(Bug::ForeignWriterForEver) && core.locks(|locks| locks.readers_held_back(lock.name()).is_some())
}

/// Whether one of the readers lives; in doubt one does.
fn is_read<P: Server>(core: Core<'_, P>, lock: &mut P::Lock<'_>) -> bool {
    look(core, lock, None, Need::AnyOther).map_or(true, |picture| match picture.view().kind {
        Kind::Free | Kind::Abandoned | Kind::Mutex | Kind::Permits => false,
        Kind::Reading => picture.view().others != Others::Dead,
        Kind::Writing => true,
    })
}

/// Nobody reads the lock any more. If that was for one of Redisson's, the lock is left to it for a moment.
pub(crate) fn native_reads_ended<P: Server>(core: Core<'_, P>, name: LockName<'_>) {
    let window = core.port.settings().foreign_window.filter(|_| !planted(Bug::ForeignWriterNoMoment));
    let until = window.map(|window| core.port.clock().after(window));
    core.locks(|locks| locks.forget_read_end(name, until));
}

/// Remembers what a change means for those who wait by Redisson's protocol: who has come to read, and for how long; or
/// that nobody reads any more.
pub(crate) fn note_reads<P: Server>(core: Core<'_, P>, lock: &P::Lock<'_>, change: &Change) {
    // Before the lock is named: where nobody waits a mutex does without that, which takes a copy of its name.
    if change.mode == Mode::Mutex {
        return;
    }
    let first_hold = match change.hash {
        HashChange::Set(holds) | HashChange::Replace(holds) => holds == Holds::ONE,
        HashChange::Keep | HashChange::Remove | HashChange::Delete => false,
    };
    // Nobody held the lock, though nobody may have told of it.
    let alone = first_hold && change.becomes.is_some() && !planted(Bug::ForeignWriterTooEarly);
    match (change.mode, change.hash, change.leases().set) {
        (_, HashChange::Delete, _) => native_reads_ended(core, lock.name()),
        (Mode::Write, ..) if alone => core.locks(|locks| locks.forget_read_end(lock.name(), None)),
        (Mode::Read, _, Some((_, _, ends))) => {
            let clock = core.port.clock();
            let comes = first_hold && matches!(change.event, Some(LockEvent::Acquire | LockEvent::HandOff));
            core.locks(|locks| {
                if alone {
                    locks.forget_read_end(lock.name(), None);
                    locks.reads_are_known(lock.name());
                }
                locks.note_read_end(lock.name(), ends, clock);
                if comes {
                    locks.count_reader(lock.name());
                }
            });
        }
        _ => {}
    }
}
