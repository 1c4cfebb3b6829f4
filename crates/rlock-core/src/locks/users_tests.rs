//! What counts for a user, whatever becomes of its waiters and ties.

use super::super::tests::{enqueued, lock, waiter, with};
use super::*;
use crate::error::Error;
use crate::locks::{Call, Databases, Limits, LockName, Locks, Session, Ticket, TieLimits};
use crate::types::{LeaseMs, Mode, PermitLimit, Wanted};

fn user(name: &str) -> Option<User> {
    Some(name.as_bytes().into())
}

fn by(client: u64) -> Option<Session> {
    Some(Session { client, grace: LeaseMs::SHORTEST })
}

fn usage(locks: &Locks, name: &str) -> (usize, usize) {
    let usage = locks.users.usage(Some(name.as_bytes()));
    (usage.waiters, usage.ties())
}

#[test]
fn as_many_wait_as_may_and_a_repeat_needs_no_new_place() {
    let mut locks = Locks::default();
    let two = Limits { server: 3, lock: 2, user: usize::MAX };
    let admit =
        |locks: &Locks, key, owner: &str| locks.admit(lock(key), (owner.as_bytes(), Mode::Mutex), None, two);
    for (key, owner, ticket) in [("k", "a", 1), ("k", "b", 2)] {
        assert_eq!(admit(&locks, key, owner), Ok(()));
        locks.join(lock(key), waiter(owner, ticket));
    }
    assert_eq!(admit(&locks, "k", "c"), Err(Error::QueueFull));
    assert_eq!(admit(&locks, "k", "b"), Ok(()));
    locks.join(lock("k"), waiter("b", 4));
    assert_eq!(admit(&locks, "l", "c"), Ok(()));
    locks.join(lock("l"), waiter("c", 5));
    assert_eq!(admit(&locks, "m", "d"), Err(Error::QueueFull));
    assert_eq!(locks.calls.waiting(), 3);
}

#[test]
fn a_user_gets_its_share_of_the_places_and_the_default_user_the_rest() {
    let mut locks = Locks::default();
    let limits = Limits { server: 4, lock: 4, user: 2 };
    let admit = |locks: &Locks, owner: &str, user: Option<&str>| {
        locks.admit(lock("k"), (owner.as_bytes(), Mode::Mutex), user.map(str::as_bytes), limits)
    };
    for (ticket, owner) in ["a", "b"].into_iter().enumerate() {
        assert_eq!(admit(&locks, owner, Some("eve")), Ok(()));
        locks.join(lock("k"), Waiter { user: user("eve"), ..waiter(owner, ticket as u64) });
    }
    assert_eq!(admit(&locks, "c", Some("eve")), Err(Error::UserQueueFull));
    assert_eq!(admit(&locks, "a", Some("eve")), Ok(()), "a repeat needs no other place");
    for (ticket, owner) in ["c", "d"].into_iter().enumerate() {
        assert_eq!(admit(&locks, owner, None), Ok(()));
        locks.join(lock("k"), waiter(owner, 10 + ticket as u64));
    }
    assert_eq!(admit(&locks, "e", None), Err(Error::QueueFull));
    assert_eq!(admit(&locks, "e", Some("bob")), Err(Error::QueueFull));
    assert_eq!(admit(&locks, "c", Some("eve")), Err(Error::UserQueueFull), "the place would count for eve");
    assert_eq!(admit(&locks, "a", Some("bob")), Ok(()), "the place would count for bob");
    assert_eq!(locks.users.largest_usage(), (2, 0));
}

#[test]
fn a_place_counts_for_the_user_of_the_last_call() {
    let mut locks = Locks::default();
    for (ticket, name) in [(1, "eve"), (2, "bob")] {
        locks.join(lock("k"), Waiter { user: user(name), session: by(5), ..waiter("a", ticket) });
    }
    assert_eq!((usage(&locks, "eve"), usage(&locks, "bob")), ((0, 0), (1, 1)));
    locks.join(lock("k"), waiter("a", 3));
    assert!(locks.users.0.is_empty());
}

#[test]
fn a_user_gets_its_share_of_the_ties() {
    let mut locks = Locks::default();
    let limits = TieLimits { server: 4, user: 2 };
    let may_tie = |locks: &mut Locks, owner: &str, user: Option<&str>| {
        locks.may_tie(lock("k"), (owner.as_bytes(), Mode::Permit), user.map(str::as_bytes), limits)
    };
    for owner in ["a", "b"] {
        assert_eq!(may_tie(&mut locks, owner, Some("eve")), Ok(()));
        locks.tie(lock("k"), owner.as_bytes(), Mode::Permit, (with(5), user("eve")));
    }
    assert_eq!(may_tie(&mut locks, "c", Some("eve")), Err(Error::UserHasTooManyTies));
    assert_eq!(may_tie(&mut locks, "a", Some("eve")), Ok(()));
    assert_eq!(may_tie(&mut locks, "a", Some("bob")), Ok(()));
    locks.tie(lock("k"), b"a", Mode::Permit, (with(6), user("bob")));
    assert_eq!((usage(&locks, "eve"), usage(&locks, "bob")), ((0, 1), (0, 1)));
    // Waiters with SESSION count too.
    let tied = Waiter { user: user("eve"), session: by(5), ..waiter("w", 1) };
    let waits = |locks: &mut Locks, user: &str| {
        locks.may_tie_waiter(lock("l"), (b"w", Mode::Mutex), Some(user.as_bytes()), limits)
    };
    assert_eq!(waits(&mut locks, "eve"), Ok(()));
    locks.join(lock("l"), tied);
    assert_eq!((usage(&locks, "eve"), waits(&mut locks, "eve")), ((1, 2), Ok(())));
    assert_eq!(may_tie(&mut locks, "b", Some("eve")), Ok(()));
    assert_eq!(may_tie(&mut locks, "c", Some("eve")), Err(Error::UserHasTooManyTies));
    locks.tie(lock("k"), b"d", Mode::Permit, (with(7), None));
    assert_eq!(may_tie(&mut locks, "e", Some("bob")), Err(Error::TooManyTies));
    assert_eq!(may_tie(&mut locks, "d", Some("bob")), Ok(()), "the tie is there already");
}

#[test]
fn a_demotion_leaves_the_ties_of_waiters() {
    let mut locks = Locks::default();
    locks.tie(lock("k"), b"a", Mode::Mutex, (with(5), user("eve")));
    locks.join(lock("k"), Waiter { user: user("bob"), session: by(5), ..waiter("b", 1) });
    locks.demoted();
    assert_eq!((usage(&locks, "eve"), usage(&locks, "bob"), locks.sessions.tie_count()), ((0, 0), (1, 1), 1));
    locks.leave(Ticket(1));
    assert!(locks.users.0.is_empty());
}

/// The counts anew, from the waiters and the entries of ties.
fn counted(locks: &Locks) -> BTreeMap<User, Usage> {
    let mut users: BTreeMap<User, Usage> = BTreeMap::new();
    let names: Vec<LockName<'_>> = locks.records.iter().map(|(name, _)| name).collect();
    for waiter in names.iter().flat_map(|name| locks.records.in_order(*name)) {
        let Some(user) = &waiter.user else { continue };
        let usage = users.entry(user.clone()).or_default();
        usage.waiters += 1;
        usage.tied_waiters += usize::from(waiter.session.is_some());
    }
    for user in locks.sessions.holds.values().flat_map(BTreeMap::values).flatten() {
        users.entry(user.clone()).or_default().tied_holds += 1;
    }
    users
}

/// Numbers that look random: each test run has the same.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % sides
    }
}

fn call(dice: &mut Dice, session: Option<Session>) -> Call {
    Call { client: dice.roll(4), grace: session.map(|session| session.grace) }
}

fn step(locks: &mut Locks, dice: &mut Dice, number: u64) {
    let key = ["k", "l"][dice.roll(2) as usize];
    let (name, owner) = (lock(key), ["a", "b", "c"][dice.roll(3) as usize]);
    let permit = Wanted::Permit(PermitLimit::new(2).expect("a limit"));
    let wanted = [Wanted::Mutex, Wanted::Read, permit][dice.roll(3) as usize];
    let of = [None, user("eve"), user("bob")][dice.roll(3) as usize].clone();
    let session = by(dice.roll(4)).filter(|session| session.client > 0);
    match dice.roll(13) {
        0 | 1 => {
            let waiter = enqueued(owner, number, ["x", "y"][dice.roll(2) as usize]);
            locks.join(name, Waiter { wanted, session, user: of, fair: number.is_multiple_of(2), ..waiter });
        }
        2 => drop(locks.join(name, Waiter { wanted, session, user: of, ..waiter(owner, number) })),
        3 | 4 => locks.tie(name, owner.as_bytes(), wanted.mode(), (call(dice, session), of)),
        5 => locks.untie(name, owner.as_bytes(), wanted.mode()),
        6 => locks.untie_all(name),
        // As a grant does.
        7 => {
            if let Some(head) = locks.records.head(name).cloned() {
                locks.tie(name, &head.owner, head.mode(), (head.call(), head.user));
                locks.leave(head.ticket);
            }
        }
        8 => locks.session_ended(dice.roll(4)),
        9 => {
            if let Some(tie) = locks.next_ended_tie() {
                locks.tie_has_ended(tie);
            }
            drop(locks.next_ended_waiters(2));
        }
        10 => locks.free_untied(2),
        11 => match dice.roll(5) {
            0 => locks.sessions.void_ties(Databases::All),
            1 => locks.demoted(),
            2 => locks.promoted(),
            3 => drop(locks.drain_all()),
            _ => drop(locks.drop_channel(name, b"x", 1)),
        },
        _ => drop(locks.cancel(name, owner.as_bytes())),
    }
}

#[test]
fn the_counts_are_those_of_the_waiters_and_ties_after_every_step() {
    for seed in 0..40 {
        let (mut locks, mut dice) = (Locks::default(), Dice(seed));
        for number in 0..400 {
            step(&mut locks, &mut dice, number);
            let counted = counted(&locks);
            assert_eq!(locks.users.0, counted, "seed {seed}, step {number}");
            let ties: usize = locks.sessions.holds.values().map(BTreeMap::len).sum();
            let tied = |waiter: &&Waiter| waiter.session.is_some();
            let waiting: usize =
                ["k", "l"].map(|key| locks.records.in_order(lock(key)).filter(tied).count()).iter().sum();
            assert_eq!(locks.sessions.tie_count(), ties + waiting, "seed {seed}, step {number}");
        }
    }
}
