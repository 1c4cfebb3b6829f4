//! Which tie a call leaves, and what the end of a connection finds.

use super::*;
use crate::locks::Grant;
use crate::types::MonoMs;

const LOCK: LockName<'static> = LockName { db: 0, key: b"k" };
const OTHER: LockName<'static> = LockName { db: 1, key: b"k" };

fn by(client: u64) -> Option<Session> {
    Some(Session { client, grace: LeaseMs::SHORTEST })
}

fn tied_to(locks: &Locks, lock: LockName<'_>) -> Option<u64> {
    locks.session(lock, b"a", Mode::Mutex).map(|session| session.client)
}

#[test]
fn the_last_success_decides_but_a_tie_moves_only_to_a_younger_connection() {
    let cases = [
        // Before, asked, whether the connection of the tie is gone, after.
        (None, None, false, None),
        (None, by(5), false, by(5)),
        (by(5), None, false, None),
        (by(5), by(5), false, by(5)),
        (by(5), by(6), false, by(6)),
        (by(5), by(4), false, by(5)),
        (by(5), by(4), true, by(4)),
        (by(5), None, true, None),
    ];
    for (before, asked, gone, after) in cases {
        assert_eq!(tied(before, asked, gone), after, "{before:?} {asked:?} {gone}");
    }
    let longer = Some(Session { client: 5, grace: LeaseMs::new(9).expect("a lease") });
    assert_eq!(tied(by(5), longer, false), longer, "the same connection sets another grace period");
}

#[test]
fn a_tie_is_watched_until_it_is_gone_and_leaves_nothing_behind() {
    let mut locks = Locks::default();
    locks.tie(LOCK, b"a", Mode::Mutex, by(5));
    assert!(locks.is_watched() && locks.is_idle() && locks.has_session(5) && locks.has_ties());
    assert_eq!(locks.next_in(UnixMs(0), MonoMs(0)), None, "a tie arms no timer");
    locks.tie(LOCK, b"a", Mode::Mutex, by(4));
    assert_eq!(tied_to(&locks, LOCK), Some(5));
    locks.tie(LOCK, b"a", Mode::Mutex, None);
    assert!(!locks.is_watched() && !locks.has_session(5) && !locks.has_ties() && !locks.knows(LOCK));
}

#[test]
fn the_end_of_a_connection_finds_its_holds_one_by_one() {
    let mut locks = Locks::default();
    for owner in [b"a", b"b"] {
        locks.tie(LOCK, owner, Mode::Read, by(5));
    }
    locks.tie(OTHER, b"a", Mode::Write, by(6));
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
    assert!(locks.has_session(6));
}

#[test]
fn a_call_of_the_owner_supersedes_the_end_and_an_older_connection_may_take_over() {
    let mut locks = Locks::default();
    locks.tie(LOCK, b"a", Mode::Mutex, by(5));
    locks.supersede_ended(LOCK, b"a", Mode::Mutex);
    assert_eq!(tied_to(&locks, LOCK), Some(5), "a release keeps a living tie");
    locks.session_ended(5);
    locks.tie(LOCK, b"a", Mode::Mutex, by(4));
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
    locks.tie(LOCK, b"a", Mode::Mutex, by(5));
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
        locks.tie(lock, b"a", Mode::Mutex, by(5));
    }
    locks.void_ties(Databases::One(0));
    assert_eq!((tied_to(&locks, LOCK), tied_to(&locks, OTHER)), (None, Some(5)));
    locks.tie(LOCK, b"a", Mode::Mutex, by(6));
    assert_eq!(tied_to(&locks, LOCK), Some(6), "a tie of after that counts");
    locks.void_ties(Databases::All);
    locks.session_ended(5);
    assert_eq!(locks.next_ended_tie(), None);
    locks.tie(LOCK, b"a", Mode::Mutex, by(6));
    locks.demoted();
    assert!(!locks.has_ties() && !locks.has_session(6) && tied_to(&locks, LOCK).is_none());
}

#[test]
fn parked_ends_arm_no_timer() {
    let mut locks = Locks::default();
    locks.tie(LOCK, b"a", Mode::Mutex, by(5));
    locks.session_ended(5);
    locks.park_sessions();
    assert_eq!(locks.next_in(UnixMs(0), MonoMs(0)), None);
    locks.unpark_sessions();
    assert_eq!(locks.next_in(UnixMs(0), MonoMs(0)), Some(0));
}

#[test]
fn the_number_of_ties_is_bounded() {
    let mut locks = Locks::default();
    assert!(!locks.may_tie(LOCK, b"a", Mode::Mutex, 0));
    locks.tie(LOCK, b"a", Mode::Mutex, by(5));
    assert!(locks.may_tie(LOCK, b"a", Mode::Mutex, 1), "the same party has its tie");
    assert!(!locks.may_tie(LOCK, b"b", Mode::Mutex, 1));
}
