//! The queues against what they promise, in virtual time.

use super::*;
use crate::slots::{SlotRange, SlotSet};
use crate::types::{Expiry, LeaseMs, MonoMs, UnixMs, Wanted};

pub(super) fn lock(key: &str) -> LockName<'_> {
    LockName { db: 0, key: key.as_bytes() }
}

pub(super) fn waiter(owner: &str, ticket: u64) -> Waiter {
    Waiter {
        owner: owner.as_bytes().into(),
        wanted: Wanted::Mutex,
        lease: LeaseMs::new(1_000).expect("a lease"),
        fenced: false,
        fair: false,
        since: MonoMs(0),
        until: None,
        ticket: Ticket(ticket),
        via: Via::Block,
        client_id: ticket,
        session: None,
        user: None,
    }
}

/// A call with SESSION on this connection.
pub(super) fn with(client: u64) -> Call {
    Call { client, grace: Some(LeaseMs::SHORTEST) }
}

/// One without.
pub(super) fn plain(client: u64) -> Call {
    Call { client, grace: None }
}

/// The owners whose holds the end of this connection finds, a stale entry as `None`.
pub(super) fn ended(locks: &mut Locks, client: u64) -> Vec<Option<u8>> {
    locks.session_ended(client);
    std::iter::from_fn(|| {
        let tie = locks.next_ended_tie()?;
        let owner = tie.grace.map(|_| tie.owner[0]);
        locks.tie_has_ended(tie);
        Some(owner)
    })
    .collect()
}

/// Whether there are no waiters, no pending grants, and no grants to revoke or departed owners to remove.
pub(super) fn is_idle(locks: &Locks) -> bool {
    let Locks { agenda, calls, .. } = locks;
    let (revoke, leave) = (agenda.has(Job::Revoke), agenda.has(Job::LeaveFairList));
    calls.waiting() == 0 && !calls.has_undelivered() && !revoke && !leave
}

pub(super) fn enqueued(owner: &str, ticket: u64, channel: &str) -> Waiter {
    Waiter { via: Via::Enqueue(channel.as_bytes().into()), ..waiter(owner, ticket) }
}

fn owners(locks: &Locks, key: &str) -> Vec<String> {
    let names =
        locks.records.in_order(lock(key)).map(|waiter| String::from_utf8_lossy(&waiter.owner).into_owned());
    names.collect()
}

#[test]
fn waiters_are_served_in_the_order_of_their_arrival() {
    let mut locks = Locks::default();
    for (ticket, owner) in ["a", "b", "c"].into_iter().enumerate() {
        locks.join(lock("k"), waiter(owner, ticket as u64));
    }
    locks.join(lock("other"), waiter("z", 9));
    assert_eq!(owners(&locks, "k"), ["a", "b", "c"]);
    assert_eq!(locks.pop(lock("k")).map(|waiter| waiter.ticket), Some(Ticket(0)));
    assert_eq!(owners(&locks, "k"), ["b", "c"]);
    assert_eq!(locks.calls.waiting(), 3);
}

#[test]
fn a_repeat_keeps_the_place_and_ends_the_earlier_call() {
    let mut locks = Locks::default();
    locks.join(lock("k"), waiter("a", 1));
    locks.join(lock("k"), waiter("b", 2));
    let replaced = locks.join(lock("k"), enqueued("a", 3, "news"));
    assert_eq!(replaced.map(|waiter| waiter.ticket), Some(Ticket(1)));
    assert_eq!(owners(&locks, "k"), ["a", "b"]);
    assert!(locks.leave(Ticket(1)).is_none(), "the earlier call waits no more");
    assert!(locks.leave(Ticket(3)).is_some());
}

/// Clients repeat their calls: after an hour of this a waiter was shown as if it had just joined.
#[test]
fn a_repeat_has_waited_since_its_place_was_taken() {
    let mut locks = Locks::default();
    for (ticket, since) in [(1, 100), (2, 250)] {
        let waiter = Waiter { since: MonoMs(since), ..waiter("a", ticket) };
        locks.join(lock("k"), waiter);
    }
    assert_eq!(
        locks.records.head(lock("k")).map(|head| (head.ticket, head.since)),
        Some((Ticket(2), MonoMs(100)))
    );
    locks.leave(Ticket(2));
    locks.join(lock("k"), Waiter { since: MonoMs(300), ..waiter("a", 3) });
    assert_eq!(
        locks.records.head(lock("k")).map(|head| head.since),
        Some(MonoMs(300)),
        "another place, another time"
    );
}

#[test]
fn waits_end_in_time_and_leave_nothing_behind() {
    let mut locks = Locks::default();
    let until = |owner, ticket, until| Waiter { until: Some(MonoMs(until)), ..waiter(owner, ticket) };
    locks.join(lock("k"), until("a", 1, 100));
    locks.join(lock("k"), until("b", 2, 50));
    assert_eq!(locks.next_in(UnixMs(0), MonoMs(20)), Some(30));
    let ended: Vec<_> =
        locks.remove_timed_out(MonoMs(50), 9).into_iter().map(|(_, waiter)| waiter.ticket).collect();
    assert_eq!(ended, [Ticket(2)]);
    locks.remove_timed_out(MonoMs(100), 9);
    assert!(is_idle(&locks));
    assert_eq!(locks.next_in(UnixMs(0), MonoMs(100)), None);
    assert_eq!(locks.rearm(UnixMs(0), MonoMs(100)), Rearm::Keep);
    assert_eq!(
        format!("{locks:?}"),
        format!("{:?}", Locks { calls: locks.calls.emptied(), ..Locks::default() })
    );
}

#[test]
fn a_lock_is_checked_a_millisecond_after_its_lease_ends() {
    let mut locks = Locks::default();
    locks.join(lock("k"), waiter("a", 1));
    assert_eq!(locks.next_in(UnixMs(0), MonoMs(0)), None, "no lease end is known");
    locks.found_held(lock("k"), Expiry::At(UnixMs(500)), Expiry::At(UnixMs(500)));
    assert_eq!(locks.next_in(UnixMs(200), MonoMs(0)), Some(301));
    assert_eq!(locks.line_up_due(UnixMs(500), 9), []);
    assert_eq!(locks.line_up_due(UnixMs(501), 9), [lock("k").to_ref()]);
    locks.found_held(lock("k"), Expiry::Never, Expiry::Never);
    assert_eq!(locks.next_in(UnixMs(200), MonoMs(0)), None, "only an event can free it");
    locks.sweep(Sweep::Clock);
    locks.continue_sweeps(UnixMs(7), 9);
    assert_eq!(locks.line_up_due(UnixMs(7), 9), [lock("k").to_ref()]);
    locks.pop(lock("k"));
    assert_eq!(locks.line_up_due(UnixMs(i64::MAX), 9), []);
}

#[test]
fn locks_are_checked_a_few_at_a_time() {
    let mut locks = Locks::default();
    for (ticket, key) in ["a", "b", "c", "d", "e"].into_iter().enumerate() {
        locks.join(lock(key), waiter("w", ticket as u64));
    }
    let keys = |locks: &[&str]| locks.iter().map(|key| lock(key).to_ref()).collect::<Vec<_>>();
    locks.check_some_now(UnixMs(1), 2);
    assert_eq!(locks.line_up_due(UnixMs(1), 9), keys(&["a", "b"]));
    locks.pop(lock("b"));
    locks.check_some_now(UnixMs(2), 2);
    assert_eq!(locks.line_up_due(UnixMs(2), 9), keys(&["a", "c", "d"]), "continues after b, which is gone");
    assert_eq!(locks.line_up_due(UnixMs(2), 2), keys(&["a", "c"]));
    locks.check_some_now(UnixMs(3), 2);
    locks.check_some_now(UnixMs(4), 2);
    assert_eq!(locks.line_up_due(UnixMs(4), 9), keys(&["d", "e", "a", "c"]), "and starts over");
}

#[test]
fn redisson_waiters_may_know_the_latest_end_since_they_were_called() {
    let (mut locks, key) = (Locks::default(), lock("k"));
    locks.join(key, waiter("a", 1));
    for (seen, announced) in [(500, 500), (900, 900), (300, 900)] {
        locks.found_held(key, Expiry::At(UnixMs(seen)), Expiry::At(UnixMs(seen)));
        assert_eq!(locks.records.announced_end(key), Some(Expiry::At(UnixMs(announced))));
    }
    locks.records.forget_announced_end(key);
    locks.found_held(key, Expiry::At(UnixMs(200)), Expiry::At(UnixMs(200)));
    assert_eq!(locks.records.announced_end(key), Some(Expiry::At(UnixMs(200))));
    locks.found_held(key, Expiry::Never, Expiry::Never);
    locks.found_held(key, Expiry::At(UnixMs(400)), Expiry::At(UnixMs(400)));
    assert_eq!(locks.records.announced_end(key), Some(Expiry::Never));
    locks.records.note_cause(key, Cause::Deleted);
    let freed = Some((Expiry::At(UnixMs(400)), Some(Cause::Deleted)));
    assert_eq!(locks.records.found_free(key), freed, "the lease is the last one");
    assert_eq!(locks.records.found_free(key), None, "noted once");
}

#[test]
fn only_an_unconfirmed_grant_is_revoked() {
    let grant =
        |ticket| Grant { ticket: Ticket(ticket), owner: (*b"a").into(), mode: Mode::Mutex, ends: UnixMs(9) };
    let key = lock("k");
    // Answered in time.
    let mut locks = Locks::default();
    locks.granted(key, grant(1));
    locks.answered(Ticket(1));
    locks.undeliverable(Ticket(1));
    assert_eq!(locks.next_revoke(), None);
    // The client disconnected first.
    locks.granted(key, grant(2));
    locks.undeliverable(Ticket(2));
    assert_eq!(locks.next_revoke(), Some((key.to_ref(), grant(2))));
    // Another connection of the owner confirmed the grant before, or after, the client disconnected.
    locks.granted(key, grant(3));
    locks.confirm(key, b"a");
    locks.undeliverable(Ticket(3));
    assert_eq!(locks.next_revoke(), None);
    locks.granted(key, grant(4));
    locks.undeliverable(Ticket(4));
    locks.confirm(key, b"a");
    assert_eq!(locks.next_revoke(), None);
    // Another call of the same owner got it: the id is another.
    locks.granted(key, grant(5));
    locks.undeliverable(Ticket(1));
    assert_eq!(locks.next_revoke(), None);
    locks.answered(Ticket(5));
    assert!(is_idle(&locks));
}

#[test]
fn a_dead_channel_removes_all_of_its_waiters_and_no_others() {
    let mut locks = Locks::default();
    locks.join(lock("k"), enqueued("a", 1, "dead"));
    locks.join(lock("k"), enqueued("b", 2, "alive"));
    locks.join(lock("k"), enqueued("c", 3, "dead"));
    locks.join(lock("k"), waiter("d", 4));
    locks.join(lock("l"), enqueued("a", 5, "dead"));
    assert_eq!(locks.drop_channel(lock("k"), b"dead", 9), 2);
    assert_eq!(owners(&locks, "k"), ["b", "d"]);
    assert_eq!(owners(&locks, "l"), ["a"]);
    assert_eq!(locks.drop_channel(lock("k"), b"dead", 9), 0);
}

#[test]
fn a_grant_by_message_is_unconfirmed_until_its_owner_confirms_it() {
    let (mut locks, key) = (Locks::default(), lock("k"));
    locks.join(key, waiter("next", 1));
    locks.records.note_unconfirmed(key, b"a");
    locks.confirm(key, b"b");
    locks.records.note_cause(key, Cause::Expired);
    assert!(locks.records.take_unconfirmed(key));
    assert!(!locks.records.take_unconfirmed(key), "counted once");
    locks.records.note_unconfirmed(key, b"a");
    locks.confirm(key, b"a");
    assert!(!locks.records.take_unconfirmed(key), "its owner confirmed it");
    locks.records.note_unconfirmed(key, b"a");
    locks.records.note_cause(key, Cause::Deleted);
    assert!(!locks.records.take_unconfirmed(key), "a client ended it");
    locks.records.note_unconfirmed(key, b"a");
    let grant = Grant { ticket: Ticket(2), owner: (*b"b").into(), mode: Mode::Mutex, ends: UnixMs(9) };
    locks.granted(key, grant);
    assert!(!locks.records.take_unconfirmed(key), "another owner has the lock by now");
}

#[test]
fn a_count_continues_without_waiters_and_is_forgotten_in_the_end() {
    let turns = Turns { after_grants: 2, after_ms: u64::MAX };
    let (mut locks, key) = (Locks::default(), lock("k"));
    for (ticket, owner) in [(1, "a"), (2, "b")] {
        locks.join(key, waiter(owner, ticket));
        locks.records.count_admitted(key, MonoMs(5));
        locks.pop(key);
    }
    assert!(is_idle(&locks) && locks.is_watched());
    assert!(locks.records.yielding(key).is_some_and(|yielding| yielding.is_due(turns, MonoMs(5))));
    locks.forget_old(UnixMs(0), MonoMs(3_600_004), 9);
    assert!(locks.is_watched());
    locks.forget_old(UnixMs(0), MonoMs(3_600_005), 9);
    assert!(!locks.is_watched());
}

#[test]
fn counts_end_with_locks_that_have_no_waiters() {
    let mut locks = Locks::default();
    locks.join(lock("awaited"), waiter("a", 1));
    for key in ["awaited", "k", "l"] {
        locks.records.count_admitted(lock(key), MonoMs(5));
    }
    locks.sweep(Sweep::Keys(Databases::All, Cause::Flushed));
    locks.continue_sweeps(UnixMs(0), 9);
    assert_eq!(
        ["awaited", "k", "l"].map(|key| locks.records.yielding(lock(key)).is_some()),
        [true, false, false]
    );
}

#[test]
fn all_waiters_are_drained_with_the_names_of_their_locks() {
    let mut locks = Locks::default();
    locks.join(lock("k"), waiter("a", 1));
    locks.join(lock("l"), waiter("b", 2));
    let mut gone: Vec<_> = locks.drain_all();
    gone.sort_by_key(|(_, waiter)| waiter.ticket);
    let gone: Vec<_> = gone.into_iter().map(|(lock, waiter)| (lock, waiter.ticket)).collect();
    assert_eq!(gone, [(lock("k").to_ref(), Ticket(1)), (lock("l").to_ref(), Ticket(2))]);
    assert!(is_idle(&locks));
}

#[test]
fn drained_waiters_leave_fair_lists_where_this_server_stays_the_primary() {
    let mut locks = Locks::default();
    for (owner, ticket) in [("before", 1), ("then", 2)] {
        locks.join(lock("k"), Waiter { fair: true, ..waiter(owner, ticket) });
    }
    locks.join(lock("l"), waiter("plain", 3));
    locks.leave(Ticket(1));
    let mut demoted = locks.clone();
    assert_eq!((locks.drain_all_but_fair_lists().len(), demoted.drain_all().len()), (2, 2));
    assert_eq!(locks.next_in(UnixMs(0), MonoMs(0)), Some(0));
    assert!(locks.records.is_leaving(lock("k"), b"before") && locks.records.is_leaving(lock("k"), b"then"));
    locks.forget_all_departed(lock("k"));
    assert!(is_idle(&locks) && is_idle(&demoted));
}

/// The end of a walk counted for owners that left during it as well: entries of theirs that it had passed stayed in the
/// list for ever.
#[test]
fn the_next_walk_looks_for_owners_that_left_during_a_walk() {
    let (mut locks, key) = (Locks::default(), lock("k"));
    for (owner, ticket) in [("first", 1), ("last", 2)] {
        locks.join(key, Waiter { fair: true, ..waiter(owner, ticket) });
    }
    locks.leave(Ticket(1));
    locks.walked(key, &Walked { taken: Vec::new(), passed: 1, weight: 1, at_head: false });
    locks.leave(Ticket(2));
    locks.walked(key, &Walked { taken: vec![(*b"first").into()], passed: 0, weight: 1, at_head: true });
    assert!(locks.records.is_leaving(key, b"last"));
    assert_eq!((locks.records.walked_so_far(key), locks.next_absent(key, 9)), (Some(0), Vec::new()));
}

/// Another client removed an entry from the middle, and those before it moved toward the end: the walk may have missed
/// one.
#[test]
fn a_walk_that_was_disturbed_is_repeated() {
    let key = lock("k");
    let flush = |locks: &mut Locks| locks.sweep(Sweep::Keys(Databases::All, Cause::Flushed));
    for disturb in [|locks: &mut Locks| locks.records.disturb_walk(lock("k")), flush] {
        let mut locks = Locks::default();
        for (owner, ticket) in [("a", 1), ("b", 2)] {
            locks.join(key, Waiter { fair: true, ..waiter(owner, ticket) });
            locks.leave(Ticket(ticket));
        }
        let none = Walked { taken: Vec::new(), passed: 1, weight: 1, at_head: true };
        disturb(&mut locks);
        locks.walked(key, &none);
        assert_eq!(locks.records.walked_so_far(key), Some(0));
        locks.walked(key, &none);
        assert_eq!(locks.records.walked_so_far(key), None, "they are not in the list");
        assert_eq!(locks.next_absent(key, 1), [Box::from(*b"a")]);
        assert_eq!(locks.next_absent(key, 9), [Box::from(*b"b")]);
        assert!(is_idle(&locks));
    }
}

/// A waiter that joins after the mark stays.
#[test]
fn only_waiters_from_before_the_mark_are_dropped() {
    let mut locks = Locks::default();
    for owner in ["a", "b", "c"] {
        let ticket = locks.calls.new_ticket();
        locks.join(lock("k"), waiter(owner, ticket.0));
    }
    locks.drop_waiters(DropReason::Drained);
    let ticket = locks.calls.new_ticket();
    locks.join(lock("k"), waiter("later", ticket.0));
    assert_eq!(locks.next_in(UnixMs(0), MonoMs(0)), Some(0));
    let (first, why) = locks.next_dropped(2);
    assert_eq!((first.len(), why), (2, Some(DropReason::Drained)));
    assert_eq!(locks.next_dropped(2).0.len(), 1);
    assert_eq!((locks.calls.dropping(), locks.next_dropped(2).0.len()), (None, 0));
    assert_eq!(owners(&locks, "k"), ["later"]);
}

/// One that is asked for again and again while it is under way still comes to its end.
#[test]
fn a_sweep_comes_to_every_lock_of_its_database() {
    let mut locks = Locks::default();
    for (db, ticket) in [(0, 1), (1, 2), (1, 3), (2, 4)] {
        let key = LockRef { db, key: format!("k{ticket}").into_bytes().into() };
        locks.join(key.name(), waiter("a", ticket));
    }
    let sweep = Sweep::Keys(Databases::One(1), Cause::Flushed);
    locks.sweep(sweep.clone());
    for _ in 0..2 {
        locks.continue_sweeps(UnixMs(7), 1);
        locks.sweep(sweep.clone());
    }
    let due: Vec<_> = locks.line_up_due(UnixMs(7), 9).into_iter().map(|lock| lock.db).collect();
    assert_eq!(due, [1, 1]);
    locks.continue_sweeps(UnixMs(7), 9);
    assert_eq!(locks.line_up_due(UnixMs(7), 9).len(), 2);
}

/// A set of slots that moves in many pieces is one sweep, and so are those that follow while it is to come: each of them took a
/// sweep of its own through all locks before. Slots that leave while it is under way are swept after it.
#[test]
fn slots_that_leave_in_many_pieces_are_one_sweep() {
    let slots = |first: u16| -> Vec<SlotRange> {
        (first..16_384).step_by(2).map(|slot| SlotRange { first: slot, last: slot }).collect()
    };
    let mut locks = Locks::default();
    for ticket in 0..100 {
        let key = LockRef { db: 0, key: format!("k{ticket}").into_bytes().into() };
        locks.join(key.name(), waiter("a", ticket));
    }
    locks.sweep(Sweep::SlotsMoved(SlotSet::of(&slots(0))));
    locks.continue_sweeps(UnixMs(7), 60);
    locks.sweep(Sweep::SlotsMoved(SlotSet::of(&slots(1)[..1_000])));
    locks.sweep(Sweep::SlotsMoved(SlotSet::of(&slots(1)[1_000..])));
    let swept = |locks: &mut Locks| {
        for cycle in 1.. {
            if locks.sweeps.is_empty() {
                return cycle;
            }
            locks.continue_sweeps(UnixMs(7), 200);
        }
        0
    };
    assert!(swept(&mut locks) <= 3);
    assert_eq!(locks.line_up_due(UnixMs(7), 200).len(), 100);
}
