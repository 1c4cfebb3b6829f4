//! Which connection may tie a hold, after which calls and ends of connections.

use super::super::tests::{ended, plain, with};
use crate::error::Error;
use crate::locks::{Call, Databases, LockName, Locks, TieLimits};
use crate::types::{LeaseMs, Mode, MonoMs, UnixMs};

const LOCK: LockName<'static> = LockName { db: 0, key: b"k" };

fn tied_to(locks: &Locks) -> Option<u64> {
    locks.session(LOCK, b"a", Mode::Mutex).map(|session| session.client)
}

/// The tie of before, and the connections of the last calls, with SESSION (true) or without.
fn after(calls: &[(u64, bool)]) -> Locks {
    let mut locks = Locks::default();
    for (client, ties) in calls {
        let call = if *ties { with(*client) } else { plain(*client) };
        locks.tie(LOCK, b"a", Mode::Mutex, (call, None));
    }
    locks
}

fn check(locks: &Locks, client: u64) -> Result<(), Error> {
    locks.check_tie_moves(LOCK, (b"a", Mode::Mutex), client)
}

#[test]
fn the_last_success_decides_but_a_late_call_of_an_older_connection_ties_nothing() {
    let tied_to_another = Err(Error::TiedToAnother);
    let untied = Err(Error::Untied);
    let cases = [
        // The calls, the connection that has ended, the tie after them, and what a call with SESSION on 5 gets.
        (&[][..], 0, None, Ok(())),
        (&[(5, true)], 0, Some(5), Ok(())),
        (&[(4, true)], 0, Some(4), Ok(())),
        (&[(6, true)], 0, Some(6), tied_to_another.clone()),
        (&[(6, true)], 6, Some(6), untied.clone()),
        // Untied by the connection itself, by an older one, and by a younger one.
        (&[(5, true), (5, false)], 0, None, Ok(())),
        (&[(5, true), (4, false)], 0, None, Ok(())),
        (&[(5, true), (6, false)], 0, None, untied.clone()),
        (&[(5, true), (6, true), (6, false)], 0, None, untied.clone()),
        (&[(5, true), (6, true), (6, false)], 6, None, untied.clone()),
        // An older connection adopts the hold, which a younger one has untied, or which has ended.
        (&[(6, true), (6, false), (5, false)], 0, None, Ok(())),
        (&[(6, true), (5, false)], 6, None, Ok(())),
        (&[(6, true), (6, false), (4, false), (4, true)], 0, Some(4), tied_to_another.clone()),
        (&[(6, true), (6, false), (4, false), (4, true)], 4, Some(4), untied.clone()),
        (&[(6, true), (6, false), (4, false), (4, true), (4, false)], 0, None, untied),
        (&[(6, true), (6, false), (4, false), (4, true), (7, true)], 0, Some(7), tied_to_another),
    ];
    for (calls, ended, tie, answer) in cases {
        let mut locks = after(calls);
        locks.session_ended(ended);
        assert_eq!((tied_to(&locks), check(&locks, 5)), (tie, answer.clone()), "{calls:?}, {ended} ended");
        // A grant comes without this check: it keeps the tie where the call would be refused.
        locks.tie(LOCK, b"a", Mode::Mutex, (with(5), None));
        let kept = if answer.is_ok() { Some(5) } else { tie };
        assert_eq!(tied_to(&locks), kept, "a grant after {calls:?}, {ended} ended");
    }
    let mut locks = after(&[(5, true)]);
    let longer = LeaseMs::new(9).expect("a lease");
    locks.tie(LOCK, b"a", Mode::Mutex, (Call { client: 5, grace: Some(longer) }, None));
    let grace = locks.session(LOCK, b"a", Mode::Mutex).map(|session| session.grace);
    assert_eq!(grace, Some(longer), "the same connection sets another grace period");
    for (owner, mode) in [(b"b", Mode::Mutex), (b"a", Mode::Read)] {
        assert_eq!(locks.check_tie_moves(LOCK, (owner, mode), 4), Ok(()), "another hold");
    }
}

/// A late RENEW of a closed connection tied the hold anew that its successor had untied, and shortened its lease.
#[test]
fn what_is_known_of_an_untied_hold_lasts_until_it_ends() {
    let mut locks = after(&[(5, true), (6, true), (6, false)]);
    assert_eq!((ended(&mut locks, 5), ended(&mut locks, 6)), (vec![], vec![]), "no end finds it");
    assert_eq!((check(&locks, 4), locks.sessions.tie_count()), (Err(Error::Untied), 1));
    assert_eq!(locks.next_in(UnixMs(0), MonoMs(0)), None);
    assert!(locks.is_watched() && locks.sessions.next_swept_tie().is_some(), "the sweep finds it");
    locks.untie(LOCK, b"a", Mode::Mutex);
    assert!(!locks.is_watched() && !locks.sessions.has_ties() && !locks.records.knows(LOCK));
    assert_eq!(check(&locks, 4), Ok(()));
    for by_delete in [true, false] {
        let mut locks = after(&[(6, true), (6, false)]);
        if by_delete {
            locks.untie_all(LOCK)
        } else {
            locks.sessions.void_ties(Databases::All)
        };
        assert_eq!(check(&locks, 4), Ok(()));
        locks.remove_void_ties(LOCK);
        assert!(!locks.sessions.has_ties());
    }
}

/// The end of a connection was forgotten with it: an older one tied the hold anew, whether or not a successor had a call in between.
#[test]
fn the_end_of_a_connection_is_known_until_the_hold_ends() {
    type Ending = fn(&mut Locks);
    let endings: [Ending; 2] = [
        |locks| assert_eq!(ended(locks, 5), [Some(b'a')]),
        // The owner has released some of its holds before the end had its effect.
        |locks| {
            locks.session_ended(5);
            locks.supersede_ended(LOCK, b"a", Mode::Mutex);
        },
    ];
    for ending in endings {
        let mut locks = after(&[(5, true)]);
        ending(&mut locks);
        assert_eq!((tied_to(&locks), locks.sessions.tie_count()), (None, 1));
        assert_eq!((check(&locks, 4), check(&locks, 6)), (Err(Error::Untied), Ok(())));
        locks.tie(LOCK, b"a", Mode::Mutex, (plain(6), None));
        assert_eq!(check(&locks, 4), Err(Error::Untied));
    }
}

/// It counts as a tie: else a user could have more of them than its share.
#[test]
fn an_untied_hold_counts_for_the_user_that_tied_it() {
    let mut locks = Locks::default();
    locks.tie(LOCK, b"a", Mode::Mutex, (with(5), Some((*b"user").into())));
    locks.tie(LOCK, b"a", Mode::Mutex, (plain(5), None));
    let usage = |locks: &Locks| locks.users.usage(Some(b"user")).ties();
    assert_eq!(usage(&locks), 1);
    let may = |locks: &mut Locks, owner: &[u8]| {
        locks.may_tie(LOCK, (owner, Mode::Mutex), Some(b"user"), TieLimits { server: 9, user: 1 })
    };
    assert_eq!(may(&mut locks, b"b"), Err(Error::UserHasTooManyTies));
    assert_eq!(may(&mut locks, b"a"), Ok(()));
    locks.untie(LOCK, b"a", Mode::Mutex);
    assert_eq!(usage(&locks), 0);
}
