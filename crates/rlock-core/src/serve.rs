//! Hand-offs: in the commands that free a lock, and by the timer for all other causes: a lease end, another client's DEL,
//! FLUSHALL, a client that disconnects with a pending grant.

use crate::bugs::{Bug, planted};
use crate::decide::{self, told};
use crate::decision::{Change, Decision, HashChange, Reply, UnlockMessage};
use crate::error::Error;
use crate::fair::{self, Next};
use crate::foreign::{self, call_foreign_waiters, foreign_turn, remember_reads};
use crate::leave::refuse;
use crate::living::{self, Dead};
use crate::message::{self, DropReason};
use crate::port::{Note, Server, Site};
use crate::queue::{Cause, Grant, Via, Waiter};
use crate::read_write;
use crate::shape::LockState;
use crate::timer::{Share, look_again, look_soon};
use crate::token::Token;
use crate::types::{Expiry, Holds, LeaseMs, Mode, UnixMs};

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
    ForeignTurn,
    /// More waiters left its queue than are handled at once: the timer goes on with the others. These may all leave in
    /// other ways before that, so those who wait by Redisson's protocol are told as if nobody here took it.
    Later,
}

/// Serves a lock that may have become free unseen; where nobody here takes it, those who wait by
/// Redisson's protocol are told.
pub(crate) fn serve_unseen<S: Site>(site: &S, now: UnixMs) {
    let lock = site.lock();
    let Some((_, mode)) = head(site) else { return };
    match serve(site, now, Freed::Unseen) {
        Served::NotFree => return,
        Served::Free | Served::Later => {
            site.server().queues(|queues| queues.end_streak(lock));
            call_foreign_waiters(site, UnlockMessage::to_all(mode));
        }
        Served::Given | Served::ForeignTurn => {}
    }
    look_again(site);
}

/// Performs a change that was decided, and serves the queue if the change frees the lock: those who wait
/// by Redisson's protocol then hear of it only if nobody here takes the lock.
pub(crate) fn perform_and_serve<S: Site>(
    site: &S,
    key: S::Key,
    owner: Option<&[u8]>,
    change: &Change,
    now: UnixMs,
) -> Result<(), Error> {
    if *change != Change::default() {
        if let Some(message) = change.unlock_message.filter(|_| planted(Bug::PublishBeforeWrite)) {
            site.publish(message);
        }
        let silent = Change { unlock_message: None, ..*change };
        site.perform(key, owner, &silent)?;
        // Before the lock is served: a reader that gets it now has a lease of its own.
        remember_reads(site, change);
    } else {
        // Closed before the lock is served.
        drop(key);
    }
    let lock = site.lock();
    if planted(Bug::HandOffApart) {
        look_soon(site.server(), lock);
        return Ok(());
    }
    let served = serve(site, now, Freed::Now);
    match (change.unlock_message, served) {
        (Some(message), Served::Free | Served::NotFree | Served::Later) => {
            site.server().queues(|queues| queues.end_streak(lock));
            call_foreign_waiters(site, message);
        }
        // A writer reads on: Redisson's readers may join it as those did who waited here.
        (Some(message), Served::Given) if change.becomes == Some(Mode::Read) => {
            call_foreign_waiters(site, message);
        }
        _ => {}
    }
    look_again(site);
    Ok(())
}

/// Whether one who waits for a lock can have it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    /// Nobody holds it.
    Free,
    /// It can join those who hold it.
    Shared,
    /// Not before then.
    Until(Expiry),
}

/// Who waits first, and for what.
pub(crate) fn head<S: Site>(site: &S) -> Option<(Box<[u8]>, Mode)> {
    let lock = site.lock();
    site.server().queues(|queues| queues.head(lock).map(|head| (head.owner.clone(), head.mode)))
}

/// Whether this owner could have the lock in this mode, if it were its turn.
pub(crate) fn access<S: Site>(site: &S, owner: &[u8], mode: Mode) -> Access {
    access_and(site, owner, mode, Dead::Stay)
}

fn access_and<S: Site>(site: &S, owner: &[u8], mode: Mode, dead: Dead) -> Access {
    let key = site.open();
    let (state, key_until) = (site.state(&key, Some(owner)), site.expiry(&key));
    drop(key);
    match (mode, state) {
        (_, Ok(LockState::Free | LockState::Abandoned)) => Access::Free,
        (Mode::Read, Ok(LockState::ReadWrite(hash))) if !hash.writing || hash.writes.is_some() => {
            let kept_out = foreign::kept_out_ms(site).filter(|_| {
                let reads = planted(Bug::ForeignWriterBehindDead) && hash.reads.is_some();
                !reads && !living::holds_any(site, owner, &hash)
            });
            match kept_out {
                Some(left) => Access::Until(Expiry::At(site.server().now().after(left)).sooner(key_until)),
                None => Access::Shared,
            }
        }
        (Mode::Write, Ok(LockState::ReadWrite(hash))) if !hash.writing => {
            match living::first_living(site, None, key_until, dead) {
                Ok(Some(_)) if planted(Bug::DeadReaderBlocks) => Access::Until(key_until),
                Ok(Some(until)) => Access::Until(until.sooner(key_until)),
                Ok(None) => Access::Free,
                Err(_) => Access::Until(key_until),
            }
        }
        // Somebody else holds it, or the key holds something else for a while.
        _ => Access::Until(key_until),
    }
}

/// The fencing token that an acquisition gets now.
pub(crate) fn next_token<S: Site>(site: &S, now: UnixMs) -> Result<Token, Error> {
    Token::after(site.last_token()?, now)
}

/// Gives the lock to the one who waits first, if it is free. In a command that writes, the server has
/// checked that writing is allowed; elsewhere ask for [`Site::ground`] first.
#[expect(clippy::too_many_lines, reason = "to be split: the loop over the queue, and its outcome")]
fn serve<S: Site>(site: &S, now: UnixMs, freed: Freed) -> Served {
    let (server, lock) = (site.server(), site.lock());
    let Some((owner, mode)) = head(site) else { return Served::NotFree };
    server.queues(|queues| queues.note_unserved(lock, false));
    if server.queues(|queues| queues.sending_away() == Some(DropReason::Demoted)) {
        // A replica grants nothing, also one that takes writes.
        return Served::NotFree;
    }
    let first = access_and(site, &owner, mode, Dead::ClearedAway);
    match first {
        Access::Until(_) => {
            server.queues(|queues| queues.close_window(lock));
            return Served::NotFree;
        }
        Access::Free if is_left_to_foreign_waiters(site, mode, now, freed) => return Served::ForeignTurn,
        Access::Free | Access::Shared => {}
    }
    let (mut given, mut opened, mut later) = (false, false, false);
    let share = Share::of(server);
    loop {
        if share.is_used_up(server) {
            // Nobody can barge in: they are behind those who still wait.
            later = true;
            server.queues(|queues| queues.note_unserved(lock, true));
            break;
        }
        let head = match fair::next(site, now) {
            Next::Waiter(head) => head,
            Next::Foreign if !given => return Served::ForeignTurn,
            Next::Later => {
                server.queues(|queues| queues.note_unserved(lock, true));
                later = true;
                break;
            }
            Next::Foreign | Next::Nobody => break,
        };
        if let Access::Until(_) = access(site, &head.owner, head.mode) {
            // Readers have it; or another module has heard of an event of ours, and taken the lock.
            break;
        }
        match hand_to(site, &head, now) {
            Handed::Over(change) => {
                server.queues(|queues| queues.count_served(1));
                given = true;
                opened |= change.becomes == Some(Mode::Read);
            }
            Handed::SentAway => {
                server.queues(|queues| queues.count_served(1));
                continue;
            }
            Handed::Not => break,
        }
        // Others read as well, and a writer that waits to read too.
        if head.mode == Mode::Mutex || planted(Bug::OneReaderAtATime) {
            break;
        }
    }
    if opened {
        // Redisson's readers may join, who were told of the end of another lease.
        call_foreign_waiters(site, UnlockMessage::WriterGone);
    }
    match (given, server.queues(|queues| queues.head(lock).is_none()) && first == Access::Free) {
        (true, _) => Served::Given,
        (false, false) if later => Served::Later,
        (false, true) => Served::Free,
        (false, false) => Served::NotFree,
    }
}

/// What became of one to whom the lock was to be given.
enum Handed {
    /// It has the lock, by this change.
    Over(Change),
    /// It could have no token, or nobody hears its channel: it waits no more.
    SentAway,
    /// It could not be given.
    Not,
}

/// Gives the lock to one who waits and can have it, or sends it away.
fn hand_to<S: Site>(site: &S, head: &Waiter, now: UnixMs) -> Handed {
    let Some(token) = token_for(site, head, now) else {
        return if planted(Bug::WaitWithoutToken) { Handed::Not } else { Handed::SentAway };
    };
    let lease = match &head.via {
        Via::Block => head.lease,
        Via::Enqueue(channel) => {
            let unconfirmed = head.lease.min(site.server().settings().grant_confirm);
            let lease = if planted(Bug::NoConfirmation) { head.lease } else { unconfirmed };
            if !offer(site, head, channel, lease, token) {
                return Handed::SentAway;
            }
            lease
        }
    };
    give(site, head, lease, token, now).map_or(Handed::Not, Handed::Over)
}

/// What is to be done where a lock is free, before it is given away: true if it is left to those who wait by
/// Redisson's protocol.
fn is_left_to_foreign_waiters<S: Site>(site: &S, mode: Mode, now: UnixMs, freed: Freed) -> bool {
    let (server, lock) = (site.server(), site.lock());
    let (clock, longest) = (server.clock(), server.settings().foreign_window);
    if server.queues(|queues| queues.window(lock, clock, longest)).is_some() {
        return true;
    }
    let (ended, unconfirmed) =
        server.queues(|queues| (queues.note_free(lock), queues.take_unconfirmed(lock)));
    if let (Freed::Unseen, Some((ended, seen))) = (freed, ended) {
        note_end(site, ended, seen, unconfirmed, now);
    }
    foreign_turn(site, mode)
}

/// The token of a grant, if it is to have one; `None` where it can have none, and the waiter was told.
fn token_for<S: Site>(site: &S, head: &Waiter, now: UnixMs) -> Option<Option<Token>> {
    if !head.fenced || planted(Bug::HandOffWithoutToken) {
        return Some(None);
    }
    match next_token(site, now) {
        Ok(token) => Some(Some(token)),
        Err(_) if planted(Bug::WaitWithoutToken) => None,
        Err(why) => {
            refuse(site, head, why);
            None
        }
    }
}

/// Notes that a lock was found free, and why: by its lease's end, or by what was seen to happen.
fn note_end<S: Site>(site: &S, ended: Expiry, seen: Option<Cause>, unconfirmed: bool, now: UnixMs) {
    let server = site.server();
    // Some servers delete a key in the very millisecond in which it expires.
    let in_time = matches!(ended, Expiry::At(at) if at <= now);
    let seen = seen.filter(|seen| *seen != Cause::Other);
    let cause = seen.unwrap_or(if in_time { Cause::Expired } else { Cause::Other });
    server.note(Note::Found(cause));
    if cause != Cause::Expired {
        return;
    }
    site.raise_expired();
    if unconfirmed {
        server.note(Note::Unconfirmed);
    }
}

/// Offers the lock to an enqueued waiter by its message. Where nobody hears it, there is no grant, and
/// all who wait for this lock on that channel are gone with it.
fn offer<S: Site>(site: &S, head: &Waiter, channel: &[u8], lease: LeaseMs, token: Option<Token>) -> bool {
    let (server, lock) = (site.server(), site.lock());
    let granted = message::granted(lock, head, Holds::ONE, lease, told(token));
    if server.offer(channel, &granted) || planted(Bug::GrantUnheard) {
        return true;
    }
    let most = server.settings().at_once.served;
    let gone = server.queues(|queues| queues.drop_channel(lock, channel, most));
    server.queues(|queues| queues.count_served(gone));
    server.note(Note::Gone(gone));
    false
}

/// Makes the head of the queue the holder, and says by what change.
fn give<S: Site>(
    site: &S,
    head: &Waiter,
    lease: LeaseMs,
    token: Option<Token>,
    now: UnixMs,
) -> Option<Change> {
    let (server, lock) = (site.server(), site.lock());
    let (key, decision) = hand_off(site, head, lease, token, now)?;
    site.perform(key, Some(&head.owner), &decision.change).ok()?;
    remember_reads(site, &decision.change);
    let (clock, ends) = (server.clock(), now.after(lease));
    let told_end = server.queues(|queues| {
        queues.count_grant(lock, clock);
        let told_end = queues.told(lock);
        queues.leave(head.ticket);
        told_end
    });
    fair::clear_heads(site);
    if head.mode != Mode::Read
        && let Some(message) = decide::message_on_hand_off(told_end.unwrap_or(Expiry::Never), ends, head.mode)
    {
        call_foreign_waiters(site, message);
    }
    server.note(Note::HandedOff(clock.0.saturating_sub(head.since.0)));
    let (ticket, owner, mode) = (head.ticket, head.owner.clone(), head.mode);
    match head.via {
        Via::Enqueue(_) => server.queues(|queues| queues.granted_by_message(lock, &owner)),
        Via::Block => {
            // Who holds it by another call keeps it, whatever becomes of this answer.
            if decision.change.hash != HashChange::Keep {
                server.queues(|queues| queues.granted(lock, Grant { ticket, owner, mode, ends }));
            }
            server.answer(ticket, Ok(decision.reply));
        }
    }
    Some(decision.change)
}

/// What makes the head of the queue the holder, and the lock's key, open.
fn hand_off<S: Site>(
    site: &S,
    head: &Waiter,
    lease: LeaseMs,
    token: Option<Token>,
    now: UnixMs,
) -> Option<(S::Key, Decision)> {
    if head.mode == Mode::Mutex {
        let key = site.open();
        let state = site.state(&key, Some(&head.owner)).ok()?;
        let change = decide::hand_off(state, lease, token, now)?;
        let reply = Reply::Acquired { holds: Holds::ONE, lease_ms: lease.get(), token: told(token) };
        return Some((key, Decision { reply, change }));
    }
    let (seen, state) = living::state_to_acquire(site, Some(&head.owner), head.mode).ok()?;
    let decision = read_write::hand_off(state, head.mode, lease, token, now)?;
    let key = site.open();
    // Outside commands time goes on, and the lock may have ended while its readers were looked at.
    site.state(&key, Some(&head.owner)).is_ok_and(|state| state.holds_as(seen)).then_some((key, decision))
}
