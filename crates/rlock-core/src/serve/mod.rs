//! Hand-offs: in the commands that free a lock, and by the timer for all other causes: a lease end, another client's DEL,
//! FLUSHALL, a client that disconnects with a pending grant.

mod grant;
mod next_check;

pub(crate) use self::grant::next_token;
use self::grant::{Handed, hand_to};
pub(crate) use self::next_check::schedule_next_check;
use crate::access::{Access, access, access_and_bury, head};
use crate::core::Core;
use crate::decision::{Change, UnlockMessage};
use crate::error::Error;
use crate::fair::{self, Next};
use crate::locks::{Cause, DropReason, Wanted};
use crate::look::Picture;
use crate::note::Note;
use crate::port::{Lock, Server};
use crate::timing::Share;
use crate::tying;
use crate::types::{Expiry, Mode, UnixMs};
use crate::yielding::{foreign_turn, note_reads, notify_redisson, window_left};

/// Why a free lock comes to be looked at.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Freed {
    /// The command under way has released it.
    Now,
    /// It was found free: its lease has ended, or somebody without the module has deleted it.
    Unseen,
}

/// What became of a lock that may be free.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Served {
    /// It is not free.
    NotFree,
    /// The one who waited first has it.
    Given,
    /// Nobody here took it.
    Free,
    /// It is left to foreign waiters, who were told.
    Yielded,
    /// More waiters left its queue than are handled at once: the timer goes on with the others. These may all leave in
    /// other ways before that, so those who wait by Redisson's protocol are told as if nobody here took it.
    Later,
}

/// Serves a lock that may have become free unseen; where nobody here takes it, those who wait by
/// Redisson's protocol are told.
pub(crate) fn serve_found_free<P: Server>(core: Core<'_, P>, lock: &mut P::Lock<'_>, now: UnixMs) {
    let Some((_, Wanted { mode, .. })) = head(core, lock) else { return };
    match serve(core, lock, now, Freed::Unseen) {
        Served::NotFree => return,
        Served::Free | Served::Later => {
            core.locks(|locks| locks.end_count(lock.name()));
            if let Some(message) = UnlockMessage::to_all(mode) {
                notify_redisson(core, lock, message);
            }
        }
        Served::Given | Served::Yielded => {}
    }
    schedule_next_check(core, lock);
}

/// Performs a change that was decided, and serves the queue if the change frees the lock: those who wait
/// by Redisson's protocol then hear of it only if nobody here takes the lock.
pub(crate) fn perform_and_serve<'l, 'n, P: Server>(
    core: Core<'_, P>,
    picture: Picture<'l, P::Lock<'n>>,
    change: &Change,
    now: UnixMs,
) -> Result<&'l mut P::Lock<'n>, Error> {
    let owner = picture.owner();
    let lock = picture.commit(&Change { unlock_message: None, ..change.clone() })?;
    tying::holds_changed(core, lock.name(), owner, change);
    // Before the lock is served: a reader that gets it now has a lease of its own.
    note_reads(core, lock, change);
    let served = serve(core, lock, now, Freed::Now);
    match (change.unlock_message, served) {
        (Some(message), Served::Free | Served::NotFree | Served::Later) => {
            // Where a writer reads on, the lock is free for readers only.
            if change.becomes != Some(Mode::Read) {
                core.locks(|locks| locks.end_count(lock.name()));
            }
            notify_redisson(core, lock, message);
        }
        // A writer reads on: Redisson's readers may join it as those did who waited here.
        (Some(message), Served::Given) if change.becomes == Some(Mode::Read) => {
            notify_redisson(core, lock, message);
        }
        _ => {}
    }
    schedule_next_check(core, lock);
    Ok(lock)
}

/// Gives the lock to the one who waits first, if it is free. In a command that writes, the server has
/// checked that writing is allowed; elsewhere ask for [`Lock::write_access`] first.
#[expect(clippy::too_many_lines, reason = "to be split: the loop over the queue, and its outcome")]
fn serve<P: Server>(core: Core<'_, P>, lock: &mut P::Lock<'_>, now: UnixMs, freed: Freed) -> Served {
    let Some((owner, wanted)) = head(core, lock) else { return Served::NotFree };
    core.locks(|locks| locks.note_unserved(lock.name(), false));
    if core.locks(|locks| locks.dropping() == Some(DropReason::Demoted)) {
        // A replica grants nothing, also one that takes writes.
        return Served::NotFree;
    }
    let first = access_and_bury(core, lock, &owner, wanted);
    match first {
        Access::Until(_) => {
            core.locks(|locks| locks.close_window(lock.name()));
            return Served::NotFree;
        }
        Access::InDoubt => {
            core.locks(|locks| locks.note_in_doubt(lock.name()));
            return Served::NotFree;
        }
        // Redisson knows no permits of this kind.
        _ if wanted.mode == Mode::Permit => note_found_free(core, lock, now, freed),
        Access::Free if yields_to_redisson(core, lock, wanted.mode, now, freed) => return Served::Yielded,
        Access::Free | Access::Shared => {}
    }
    let (mut given, mut opened, mut later) = (false, false, false);
    let share = Share::of(core);
    loop {
        if share.is_used_up(core) {
            // Nobody can barge in: they are behind those who still wait.
            later = true;
            core.locks(|locks| locks.note_unserved(lock.name(), true));
            break;
        }
        let head = match fair::next(core, lock, now) {
            Next::Waiter(head) => head,
            Next::Foreign if !given => return Served::Yielded,
            Next::Later => {
                core.locks(|locks| locks.note_unserved(lock.name(), true));
                later = true;
                break;
            }
            Next::Foreign | Next::Nobody => break,
        };
        match access(core, lock, &head.owner, head.wanted()) {
            Access::Free | Access::Shared => {}
            // Readers have it, or as many permits are out as it admits; or another module has heard of an event of ours, and taken the lock.
            Access::Until(_) => break,
            Access::InDoubt => {
                core.locks(|locks| locks.note_in_doubt(lock.name()));
                break;
            }
        }
        match hand_to(core, lock, &head, now) {
            Handed::Over(change) => {
                core.locks(|locks| locks.count_served(1));
                given = true;
                opened |= change.becomes == Some(Mode::Read);
            }
            Handed::SentAway => {
                core.locks(|locks| locks.count_served(1));
                continue;
            }
            Handed::Not => break,
        }
        // Others read as well, and a writer that waits to read too.
        if head.mode == Mode::Mutex {
            break;
        }
    }
    if opened {
        // Redisson's readers may join, who were told of the end of another lease.
        notify_redisson(core, lock, UnlockMessage::WriterGone);
    }
    match (given, core.locks(|locks| locks.head(lock.name()).is_none()) && first == Access::Free) {
        (true, _) => Served::Given,
        (false, false) if later => Served::Later,
        (false, true) => Served::Free,
        (false, false) => Served::NotFree,
    }
}

/// What is to be done where a lock is free, before it is given away: true if it is left to those who wait by
/// Redisson's protocol.
fn yields_to_redisson<P: Server>(
    core: Core<'_, P>,
    lock: &P::Lock<'_>,
    mode: Mode,
    now: UnixMs,
    freed: Freed,
) -> bool {
    if window_left(core, lock.name()).is_some() {
        return true;
    }
    note_found_free(core, lock, now, freed);
    foreign_turn(core, lock, mode)
}

/// A waiter can have the lock: what ended is noted, unless it was the command under way.
fn note_found_free<P: Server>(core: Core<'_, P>, lock: &P::Lock<'_>, now: UnixMs, freed: Freed) {
    let (ended, unconfirmed) =
        core.locks(|locks| (locks.found_free(lock.name()), locks.take_unconfirmed(lock.name())));
    if let (Freed::Unseen, Some((ended, seen))) = (freed, ended) {
        note_end(core, lock, ended, seen, unconfirmed, now);
    }
}

/// Notes that a lock was found free, and why: by its lease's end, or by what was seen to happen.
fn note_end<P: Server>(
    core: Core<'_, P>,
    lock: &P::Lock<'_>,
    ended: Expiry,
    seen: Option<Cause>,
    unconfirmed: bool,
    now: UnixMs,
) {
    // Some servers delete a key in the very millisecond in which it expires.
    let in_time = matches!(ended, Expiry::At(at) if at <= now);
    let seen = seen.filter(|seen| *seen != Cause::Other);
    let cause = seen.unwrap_or(if in_time { Cause::Expired } else { Cause::Other });
    core.port.note(Note::Found(cause));
    if cause != Cause::Expired {
        return;
    }
    lock.raise_expired();
    if unconfirmed {
        core.port.note(Note::Unconfirmed);
    }
}
