//! Which tie a call leaves, and what the end of a connection finds.

use super::super::forgotten::Forgotten;
use super::super::tests::{ended, is_idle, plain, with};
use super::*;
use crate::error::Error;
use crate::locks::{Databases, Grant, LockRef, Ticket, TieLimits, Via, Waiter};
use crate::types::{LeaseMs, MonoMs, UnixMs};

const LOCK: LockName<'static> = LockName { db: 0, key: b"k" };
const OTHER: LockName<'static> = LockName { db: 1, key: b"k" };

fn by(client: u64) -> Option<Session> {
    Some(Session { client, grace: LeaseMs::SHORTEST })
}

fn may_tie(locks: &mut Locks, owner: &[u8], mode: Mode, most: usize) -> bool {
    locks.may_tie(LOCK, (owner, mode), None, TieLimits { server: most, user: most }).is_ok()
}

fn may_tie_waiter(locks: &mut Locks, owner: &[u8], mode: Mode, most: usize) -> bool {
    locks.may_tie_waiter(LOCK, (owner, mode), None, TieLimits { server: most, user: most }).is_ok()
}

fn tied_to(locks: &Locks, lock: LockName<'_>) -> Option<u64> {
    locks.session(lock, b"a", Mode::Mutex).map(|session| session.client)
}

#[test]
fn a_tie_is_watched_until_it_is_gone_and_leaves_nothing_behind() {
    let mut locks = Locks::default();
    locks.tie(LOCK, b"a", Mode::Mutex, (with(5), None));
    assert!(
        locks.is_watched() && is_idle(&locks) && locks.sessions.has_session(5) && locks.sessions.has_ties()
    );
    assert_eq!(locks.next_in(UnixMs(0), MonoMs(0)), None, "a tie arms no timer");
    locks.tie(LOCK, b"a", Mode::Mutex, (with(4), None));
    assert_eq!(tied_to(&locks, LOCK), Some(5));
    locks.tie(LOCK, b"a", Mode::Mutex, (plain(4), None));
    assert!(!locks.sessions.has_session(5) && tied_to(&locks, LOCK).is_none());
    locks.untie(LOCK, b"a", Mode::Mutex);
    assert!(!locks.is_watched() && !locks.sessions.has_ties() && !locks.records.knows(LOCK));
}

#[test]
fn the_end_of_a_connection_finds_its_holds_one_by_one() {
    let mut locks = Locks::default();
    for owner in [b"a", b"b"] {
        locks.tie(LOCK, owner, Mode::Read, (with(5), None));
    }
    locks.tie(OTHER, b"a", Mode::Write, (with(6), None));
    locks.session_ended(7);
    assert_eq!(locks.next_ended_tie(), None);
    locks.session_ended(5);
    assert_eq!(locks.next_in(UnixMs(0), MonoMs(0)), Some(0));
    for owner in [b"a", b"b"] {
        let ended = locks.next_ended_tie().expect("a tie");
        assert_eq!((ended.lock.name(), &*ended.owner, ended.mode), (LOCK, &owner[..], Mode::Read));
        locks.untie(LOCK, owner, Mode::Read);
    }
    assert_eq!((locks.next_ended_tie(), locks.next_in(UnixMs(0), MonoMs(0))), (None, None));
    assert!(locks.sessions.has_session(6));
}

#[test]
fn a_call_of_the_owner_supersedes_the_end_and_an_older_connection_may_take_over() {
    let mut locks = Locks::default();
    locks.tie(LOCK, b"a", Mode::Mutex, (with(5), None));
    locks.supersede_ended(LOCK, b"a", Mode::Mutex);
    assert_eq!(tied_to(&locks, LOCK), Some(5), "a release keeps a living tie");
    locks.session_ended(5);
    for call in [plain(4), with(4)] {
        locks.tie(LOCK, b"a", Mode::Mutex, (call, None));
    }
    assert_eq!((tied_to(&locks, LOCK), locks.next_ended_tie()), (Some(4), None));
    locks.session_ended(4);
    locks.supersede_ended(LOCK, b"a", Mode::Mutex);
    assert_eq!((tied_to(&locks, LOCK), locks.next_ended_tie()), (None, None));
}

#[test]
fn grants_are_revoked_before_sessions_end() {
    let mut locks = Locks::default();
    let grant = Grant { ticket: Ticket(1), owner: (*b"a").into(), mode: Mode::Mutex, ends: UnixMs(9) };
    locks.granted(LOCK, grant);
    locks.tie(LOCK, b"a", Mode::Mutex, (with(5), None));
    locks.session_ended(5);
    locks.undeliverable(Ticket(1));
    assert_eq!(locks.next_ended_tie(), None);
    assert!(locks.next_revoke().is_some());
    assert!(locks.next_ended_tie().is_some());
}

#[test]
fn replaced_databases_and_replicas_have_no_ties() {
    let mut locks = Locks::default();
    for lock in [LOCK, OTHER] {
        locks.tie(lock, b"a", Mode::Mutex, (with(5), None));
    }
    locks.sessions.void_ties(Databases::One(0));
    assert_eq!((tied_to(&locks, LOCK), tied_to(&locks, OTHER)), (None, Some(5)));
    locks.tie(LOCK, b"a", Mode::Mutex, (with(6), None));
    assert_eq!(tied_to(&locks, LOCK), Some(6), "a tie of after that counts");
    locks.sessions.void_ties(Databases::All);
    assert_eq!(ended(&mut locks, 5), [None]);
    locks.tie(LOCK, b"a", Mode::Mutex, (with(6), None));
    locks.demoted();
    assert!(!locks.sessions.has_ties() && !locks.sessions.has_session(6) && tied_to(&locks, LOCK).is_none());
}

fn permits(locks: &mut Locks, owners: std::ops::Range<u8>, call: Call) {
    for owner in owners {
        locks.tie(LOCK, &[owner], Mode::Permit, (call, None));
    }
}

/// All ties of a semaphore that was deleted were freed at once: 68 ms for fifty thousand.
#[test]
fn the_ties_of_a_lock_that_has_ended_are_freed_a_few_at_a_time() {
    let mut locks = Locks::default();
    permits(&mut locks, 0..6, with(5));
    locks.untie_all(LOCK);
    assert!(!locks.records.knows(LOCK) && locks.session(LOCK, &[3], Mode::Permit).is_none());
    assert_eq!((locks.sessions.tie_count(), locks.next_in(UnixMs(0), MonoMs(0))), (5, Some(0)));
    locks.free_untied(2);
    assert_eq!(locks.sessions.tie_count(), 3);
    locks.free_untied(3);
    assert_eq!((locks.sessions.tie_count(), locks.sessions.has_session(5)), (0, false));
    assert_eq!(locks.next_in(UnixMs(0), MonoMs(0)), None);
    // A lock with one tie, as most are, leaves nothing to be done.
    permits(&mut locks, 0..1, with(5));
    locks.untie_all(LOCK);
    assert_eq!((locks.sessions.tie_count(), locks.next_in(UnixMs(0), MonoMs(0))), (0, None));
}

#[test]
fn a_stale_entry_ends_no_hold_that_was_acquired_again() {
    let mut locks = Locks::default();
    permits(&mut locks, 0..5, with(5));
    locks.untie_all(LOCK);
    // Acquired again: on the same connection, on another one, and without a session.
    permits(&mut locks, 2..3, with(5));
    permits(&mut locks, 3..4, with(4));
    permits(&mut locks, 4..5, plain(5));
    assert_eq!(ended(&mut locks, 5), [None, Some(2), None, None]);
    // That of the hold whose connection has ended, and that of the hold on another one.
    assert_eq!((locks.session(LOCK, &[3], Mode::Permit), locks.sessions.tie_count()), (by(4), 2));
    locks.free_untied(9);
    assert_eq!((locks.session(LOCK, &[3], Mode::Permit), locks.sessions.tie_count()), (by(4), 2));
    assert_eq!(ended(&mut locks, 4), [Some(3)]);
}

#[test]
fn freeing_keeps_the_entry_of_a_hold_that_was_tied_to_the_same_connection_again() {
    let mut locks = Locks::default();
    // Twice, so that two lists are freed.
    for _ in 0..2 {
        permits(&mut locks, 0..4, with(5));
        locks.untie_all(LOCK);
    }
    permits(&mut locks, 2..4, with(5));
    locks.untie(LOCK, &[3], Mode::Permit);
    locks.free_untied(9);
    assert_eq!((locks.sessions.tie_count(), locks.next_in(UnixMs(0), MonoMs(0))), (1, None));
    assert_eq!(ended(&mut locks, 5), [Some(2)]);
}

/// After FLUSHALL the ties of a lock are freed as those of a deleted one, also if the lock is tied before the sweep comes to it.
#[test]
fn void_ties_are_freed_a_few_at_a_time() {
    for tied_before_the_sweep in [true, false] {
        let mut locks = Locks::default();
        permits(&mut locks, 0..4, with(5));
        locks.sessions.void_ties(Databases::All);
        if !tied_before_the_sweep {
            locks.remove_void_ties(LOCK);
        }
        permits(&mut locks, 3..4, with(6));
        locks.remove_void_ties(LOCK);
        assert_eq!((locks.session(LOCK, &[3], Mode::Permit), locks.sessions.tie_count()), (by(6), 4));
        locks.free_untied(9);
        assert_eq!((locks.session(LOCK, &[3], Mode::Permit), locks.sessions.tie_count()), (by(6), 1));
    }
}

#[test]
fn void_ties_whose_connection_ended_before_the_sweep_do_not_return() {
    let mut locks = Locks::default();
    permits(&mut locks, 0..2, with(5));
    locks.sessions.void_ties(Databases::One(0));
    assert_eq!((ended(&mut locks, 5), locks.sessions.has_ties()), (vec![None, None], false));
    permits(&mut locks, 1..2, with(6));
    assert_eq!((locks.session(LOCK, &[0], Mode::Permit), locks.sessions.tie_count()), (None, 1));
}

/// A demotion forgets the entries, and what is still to be freed harms no tie of after it.
#[test]
fn what_is_freed_after_a_demotion_unties_nothing() {
    let mut locks = Locks::default();
    permits(&mut locks, 0..4, with(5));
    locks.untie_all(LOCK);
    locks.demoted();
    assert_eq!(locks.sessions.tie_count(), 0);
    locks.promoted();
    permits(&mut locks, 2..4, with(5));
    locks.free_untied(9);
    assert_eq!((locks.sessions.tie_count(), locks.next_in(UnixMs(0), MonoMs(0))), (2, None));
    assert_eq!(ended(&mut locks, 5), [Some(2), Some(3)]);
}

/// All ties of a lock were looked up in one beat: fifty thousand of one semaphore.
#[test]
fn a_sweep_comes_to_every_tie_a_few_at_a_time() {
    let mut locks = Locks::default();
    for owner in 0..5_u8 {
        locks.tie(LOCK, &[owner], Mode::Permit, (with(5 + u64::from(owner) / 3), None));
    }
    locks.tie(OTHER, b"a", Mode::Mutex, (with(6), None));
    let mut next = || locks.sessions.next_swept_tie().map(|(lock, owner, _)| (lock.db, owner[0]));
    for _ in 0..2 {
        for owner in 0..5 {
            assert_eq!(next(), Some((0, owner)));
        }
        assert_eq!([next(), next()], [Some((1, b'a')), None]);
    }
}

/// The round that is under way may have passed the ties that have ended.
#[test]
fn a_refused_tie_hurries_the_sweep_until_it_has_come_to_every_tie() {
    let mut locks = Locks::default();
    permits(&mut locks, 0..2, with(5));
    assert!(locks.sessions.next_swept_tie().is_some());
    assert!(!locks.sessions.hurries_sweep());
    assert!(!may_tie(&mut locks, b"z", Mode::Mutex, 2));
    for left in [1, 2] {
        assert_eq!(std::iter::from_fn(|| locks.sessions.next_swept_tie()).count(), left);
        assert_eq!(locks.sessions.hurries_sweep(), left == 1);
    }
}

/// A demotion went through every record, and freed every tie: 0.44 s for a million.
#[test]
fn a_demotion_reads_no_record_and_ties_are_freed_a_few_at_a_time() {
    let mut locks = Locks::default();
    let names: Vec<LockRef> = (0..9_u8).map(|n| LockRef { db: 0, key: vec![n].into() }).collect();
    for lock in &names {
        locks.tie(lock.name(), b"a", Mode::Mutex, (with(5), None));
        locks.watch_end(lock.name(), UnixMs(7), Mode::Mutex);
    }
    for owner in 0..6_u8 {
        locks.tie(OTHER, &[owner], Mode::Permit, (with(u64::from(owner)), None));
    }
    locks.records.note_read_end(names[0].name(), UnixMs(7), MonoMs(0));
    let known = |locks: &Locks| names.iter().filter(|lock| locks.records.knows(lock.name())).count();
    locks.session_ended(5);
    locks.demoted();
    assert_eq!(known(&locks), 9, "no record was touched");
    assert!(
        !locks.sessions.has_ties()
            && !locks.is_watched()
            && !locks.records.knows_read_ends()
            && !locks.sessions.knows_ends()
    );
    assert_eq!(locks.next_in(UnixMs(9), MonoMs(0)), None, "nothing is due");
    for left in [6, 3, 0] {
        locks.forget_old(UnixMs(0), MonoMs(0), 3);
        assert_eq!(known(&locks), left);
    }
    locks.forget_old(UnixMs(0), MonoMs(0), 3);
    assert!(!locks.records.knows(OTHER));
    let is_free =
        |locks: &Locks| locks.sessions.forgotten == Forgotten::default() && locks.records.old_ties.is_empty();
    assert!(!is_free(&locks), "its ties are freed later");
    for _ in 0..9 {
        locks.forget_old(UnixMs(0), MonoMs(0), 3);
    }
    assert!(is_free(&locks));
}

/// Ties from before a demotion that are still in memory end no hold from after it, keep no new tie out, and are not
/// counted twice.
#[test]
fn a_server_that_is_the_primary_again_knows_only_new_ties() {
    let mut locks = Locks::default();
    for owner in [b"a", b"b"] {
        locks.tie(LOCK, owner, Mode::Read, (with(9), None));
    }
    locks.records.note_read_end(LOCK, UnixMs(7), MonoMs(0));
    locks.records.count_admitted(LOCK, MonoMs(0));
    locks.demoted();
    locks.promoted();
    assert_eq!((locks.records.read_end(LOCK), locks.session(LOCK, b"a", Mode::Read)), (None, None));
    locks.session_ended(9);
    assert_eq!((locks.next_ended_tie(), locks.next_in(UnixMs(0), MonoMs(0))), (None, None));
    assert!(may_tie(&mut locks, b"a", Mode::Read, 1));
    locks.tie(LOCK, b"a", Mode::Read, (with(4), None));
    assert_eq!(locks.session(LOCK, b"a", Mode::Read), by(4), "a tie of before holds no younger one back");
    assert_eq!((locks.sessions.tie_count(), locks.session(LOCK, b"b", Mode::Read)), (1, None));
    locks.untie(LOCK, b"b", Mode::Read);
    assert_eq!(locks.sessions.tie_count(), 1);
    locks.records.note_read_end(LOCK, UnixMs(3), MonoMs(0));
    assert_eq!(locks.records.read_end(LOCK), Some(UnixMs(3)));
    locks.reads_ended(LOCK, None);
    locks.untie_all(LOCK);
    assert!(!locks.records.knows(LOCK) && !locks.is_watched() && !locks.sessions.has_ties());
}

#[test]
fn parked_ends_arm_no_timer() {
    let mut locks = Locks::default();
    locks.tie(LOCK, b"a", Mode::Mutex, (with(5), None));
    locks.session_ended(5);
    locks.park_sessions();
    assert_eq!(locks.next_in(UnixMs(0), MonoMs(0)), None);
    locks.unpark_sessions();
    assert_eq!(locks.next_in(UnixMs(0), MonoMs(0)), Some(0));
}

/// The connection of the call before it was younger: its end is not noticed once no call of it waits.
#[test]
fn a_blocked_waiter_is_tied_to_the_connection_that_it_blocks() {
    let mut locks = Locks::default();
    for client in [6, 5] {
        let waiter = Waiter { session: by(client), ..crate::locks::tests::waiter("a", 10 - client) };
        locks.join(LOCK, waiter);
        assert_eq!(locks.records.head(LOCK).and_then(|waiter| waiter.session), by(client));
    }
}

#[test]
fn the_number_of_ties_is_bounded() {
    let mut locks = Locks::default();
    assert!(!may_tie(&mut locks, b"a", Mode::Mutex, 0));
    locks.tie(LOCK, b"a", Mode::Mutex, (with(5), None));
    assert!(may_tie(&mut locks, b"a", Mode::Mutex, 1), "the same owner has its tie");
    assert!(!may_tie(&mut locks, b"b", Mode::Mutex, 1));
    assert!(!may_tie_waiter(&mut locks, b"b", Mode::Mutex, 1));
}

#[test]
fn a_waiter_asks_again_by_no_older_connection() {
    let mut locks = Locks::default();
    let waiter = |client, ticket| Waiter {
        via: Via::Enqueue(b"c"[..].into()),
        session: by(client),
        ..crate::locks::tests::waiter("a", ticket)
    };
    locks.join(LOCK, waiter(5, 1));
    let check = |locks: &Locks, mode, client| locks.check_waiters_tie_moves(LOCK, (b"a", mode), client);
    assert_eq!(check(&locks, Mode::Mutex, 4), Err(Error::TiedToAnother));
    for (mode, client) in [(Mode::Mutex, 5), (Mode::Mutex, 6), (Mode::Write, 4)] {
        assert_eq!(check(&locks, mode, client), Ok(()));
    }
    locks.session_ended(5);
    assert_eq!(check(&locks, Mode::Mutex, 4), Ok(()));
    locks.join(LOCK, waiter(4, 2));
    assert_eq!(locks.records.head(LOCK).and_then(|waiter| waiter.session), by(4));
}

/// At the limit it was refused, though its tie was counted already: a client that asks again after a lost connection waited no
/// more.
#[test]
fn a_tied_waiter_that_asks_again_needs_no_other_tie() {
    let mut locks = Locks::default();
    locks.join(LOCK, Waiter { session: by(5), ..crate::locks::tests::waiter("a", 1) });
    locks.join(LOCK, crate::locks::tests::waiter("b", 2));
    assert!(may_tie_waiter(&mut locks, b"a", Mode::Mutex, 1));
    assert!(!may_tie_waiter(&mut locks, b"a", Mode::Write, 1), "in another mode it is another waiter");
    assert!(!may_tie_waiter(&mut locks, b"b", Mode::Mutex, 1), "it waits without a tie");
    assert!(!may_tie(&mut locks, b"a", Mode::Mutex, 1), "its hold is another one");
    locks.join(LOCK, Waiter { session: by(6), ..crate::locks::tests::waiter("a", 3) });
    assert_eq!(locks.sessions.tie_count(), 1);
}
