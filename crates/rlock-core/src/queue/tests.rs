//! The queues against what they promise, in virtual time.

use super::*;
use crate::queue::DropReason;

fn lock(key: &str) -> LockId {
    LockId { db: 0, key: key.as_bytes().into() }
}

fn waiter(owner: &str, ticket: u64) -> Waiter {
    Waiter {
        owner: owner.as_bytes().into(),
        mode: Mode::Mutex,
        lease: LeaseMs::new(1_000).expect("a lease"),
        fenced: false,
        fair: false,
        since: MonoMs(0),
        until: None,
        ticket: Ticket(ticket),
        via: Via::Block,
        client_id: ticket,
    }
}

fn enqueued(owner: &str, ticket: u64, channel: &str) -> Waiter {
    Waiter { via: Via::Enqueue(channel.as_bytes().into()), ..waiter(owner, ticket) }
}

fn owners(queues: &Queues, key: &str) -> Vec<String> {
    let names = queues.in_order(&lock(key)).map(|waiter| String::from_utf8_lossy(&waiter.owner).into_owned());
    names.collect()
}

#[test]
fn who_comes_first_is_served_first() {
    let mut queues = Queues::default();
    for (ticket, owner) in ["a", "b", "c"].into_iter().enumerate() {
        queues.join(&lock("k"), waiter(owner, ticket as u64));
    }
    queues.join(&lock("other"), waiter("z", 9));
    assert_eq!(owners(&queues, "k"), ["a", "b", "c"]);
    assert_eq!(queues.pop(&lock("k")).map(|waiter| waiter.ticket), Some(Ticket(0)));
    assert_eq!(owners(&queues, "k"), ["b", "c"]);
    assert_eq!(queues.len(), 3);
}

#[test]
fn a_repeat_keeps_the_place_and_ends_the_earlier_call() {
    let mut queues = Queues::default();
    queues.join(&lock("k"), waiter("a", 1));
    queues.join(&lock("k"), waiter("b", 2));
    let replaced = queues.join(&lock("k"), enqueued("a", 3, "news"));
    assert_eq!(replaced.map(|waiter| waiter.ticket), Some(Ticket(1)));
    assert_eq!(owners(&queues, "k"), ["a", "b"]);
    assert!(queues.leave(Ticket(1)).is_none(), "the earlier call waits no more");
    assert!(queues.leave(Ticket(3)).is_some());
}

/// Clients ask again now and then: who had waited for an hour was shown as somebody who had just come.
#[test]
fn a_repeat_has_waited_since_its_place_was_taken() {
    let mut queues = Queues::default();
    for (ticket, since) in [(1, 100), (2, 250)] {
        let waiter = Waiter { since: MonoMs(since), ..waiter("a", ticket) };
        queues.join(&lock("k"), waiter);
    }
    assert_eq!(queues.head(&lock("k")).map(|head| (head.ticket, head.since)), Some((Ticket(2), MonoMs(100))));
    queues.leave(Ticket(2));
    queues.join(&lock("k"), Waiter { since: MonoMs(300), ..waiter("a", 3) });
    assert_eq!(
        queues.head(&lock("k")).map(|head| head.since),
        Some(MonoMs(300)),
        "another place, another time"
    );
}

#[test]
fn as_many_wait_as_may_and_a_repeat_needs_no_new_place() {
    let mut queues = Queues::default();
    let two = Limits { server: 3, lock: 2 };
    let admit =
        |queues: &Queues, key, owner: &str| queues.admit(&lock(key), owner.as_bytes(), Mode::Mutex, two);
    for (key, owner, ticket) in [("k", "a", 1), ("k", "b", 2)] {
        assert_eq!(admit(&queues, key, owner), Ok(()));
        queues.join(&lock(key), waiter(owner, ticket));
    }
    assert_eq!(admit(&queues, "k", "c"), Err(Error::QueueFull));
    assert_eq!(admit(&queues, "k", "b"), Ok(()));
    queues.join(&lock("k"), waiter("b", 4));
    assert_eq!(admit(&queues, "l", "c"), Ok(()));
    queues.join(&lock("l"), waiter("c", 5));
    assert_eq!(admit(&queues, "m", "d"), Err(Error::QueueFull));
    assert_eq!(queues.len(), 3);
}

#[test]
fn waits_end_in_time_and_leave_nothing_behind() {
    let mut queues = Queues::default();
    let until = |owner, ticket, until| Waiter { until: Some(MonoMs(until)), ..waiter(owner, ticket) };
    queues.join(&lock("k"), until("a", 1, 100));
    queues.join(&lock("k"), until("b", 2, 50));
    assert_eq!(queues.next_in(UnixMs(0), MonoMs(20)), Some(30));
    let ended: Vec<_> =
        queues.timed_out(MonoMs(50), 9).into_iter().map(|(_, waiter)| waiter.ticket).collect();
    assert_eq!(ended, [Ticket(2)]);
    queues.timed_out(MonoMs(100), 9);
    assert!(queues.is_idle());
    assert_eq!(queues.next_in(UnixMs(0), MonoMs(100)), None);
    assert_eq!(format!("{queues:?}"), format!("{:?}", Queues { next_place: 2, ..Queues::default() }));
}

#[test]
fn a_lock_is_looked_at_a_millisecond_after_its_lease_ends() {
    let mut queues = Queues::default();
    queues.join(&lock("k"), waiter("a", 1));
    assert_eq!(queues.next_in(UnixMs(0), MonoMs(0)), None, "nobody has said when");
    queues.found_held(&lock("k"), Expiry::At(UnixMs(500)), Expiry::At(UnixMs(500)));
    assert_eq!(queues.next_in(UnixMs(200), MonoMs(0)), Some(301));
    assert_eq!(queues.due(UnixMs(500), 9), []);
    assert_eq!(queues.due(UnixMs(501), 9), [lock("k")]);
    queues.found_held(&lock("k"), Expiry::Never, Expiry::Never);
    assert_eq!(queues.next_in(UnixMs(200), MonoMs(0)), None, "only an event can free it");
    queues.sweep(Sweep::Clock);
    queues.continue_sweeps(UnixMs(7), 9);
    assert_eq!(queues.due(UnixMs(7), 9), [lock("k")]);
    queues.pop(&lock("k"));
    assert_eq!(queues.due(UnixMs(i64::MAX), 9), []);
}

#[test]
fn locks_are_looked_at_a_few_at_a_time() {
    let mut queues = Queues::default();
    for (ticket, key) in ["a", "b", "c", "d", "e"].into_iter().enumerate() {
        queues.join(&lock(key), waiter("w", ticket as u64));
    }
    let keys = |locks: &[&str]| locks.iter().map(|key| lock(key)).collect::<Vec<_>>();
    queues.check_some_now(UnixMs(1), 2);
    assert_eq!(queues.due(UnixMs(1), 9), keys(&["a", "b"]));
    queues.pop(&lock("b"));
    queues.check_some_now(UnixMs(2), 2);
    assert_eq!(queues.due(UnixMs(2), 9), keys(&["a", "c", "d"]), "goes on after b, which is gone");
    assert_eq!(queues.due(UnixMs(2), 2), keys(&["a", "c"]));
    queues.check_some_now(UnixMs(3), 2);
    queues.check_some_now(UnixMs(4), 2);
    assert_eq!(queues.due(UnixMs(4), 9), keys(&["d", "e", "a", "c"]), "and starts over");
}

#[test]
fn what_foreign_waiters_were_told_is_the_latest_end_since_they_were_called() {
    let (mut queues, key) = (Queues::default(), lock("k"));
    queues.join(&key, waiter("a", 1));
    for (seen, told) in [(500, 500), (900, 900), (300, 900)] {
        queues.found_held(&key, Expiry::At(UnixMs(seen)), Expiry::At(UnixMs(seen)));
        assert_eq!(queues.told(&key), Some(Expiry::At(UnixMs(told))));
    }
    queues.forget_announced_end(&key);
    queues.found_held(&key, Expiry::At(UnixMs(200)), Expiry::At(UnixMs(200)));
    assert_eq!(queues.told(&key), Some(Expiry::At(UnixMs(200))));
    queues.found_held(&key, Expiry::Never, Expiry::Never);
    queues.found_held(&key, Expiry::At(UnixMs(400)), Expiry::At(UnixMs(400)));
    assert_eq!(queues.told(&key), Some(Expiry::Never));
    queues.note_cause(&key, Cause::Deleted);
    let freed = Some((Expiry::At(UnixMs(400)), Some(Cause::Deleted)));
    assert_eq!(queues.found_free(&key), freed, "the lease is the last one");
    assert_eq!(queues.found_free(&key), None, "noted once");
}

#[test]
fn a_grant_is_taken_back_only_while_nobody_heard_of_its_owner() {
    let grant =
        |ticket| Grant { ticket: Ticket(ticket), owner: (*b"a").into(), mode: Mode::Mutex, ends: UnixMs(9) };
    let key = lock("k");
    // Answered in time.
    let mut queues = Queues::default();
    queues.granted(&key, grant(1));
    queues.answered(&key, Ticket(1));
    queues.undeliverable(&key, Ticket(1));
    assert_eq!(queues.next_revoke(), None);
    // The client went first.
    queues.granted(&key, grant(2));
    queues.undeliverable(&key, Ticket(2));
    assert_eq!(queues.next_revoke(), Some((key.clone(), grant(2))));
    // The owner was heard of by another connection before, or after, its client went.
    queues.granted(&key, grant(3));
    queues.confirm(&key, b"a");
    queues.undeliverable(&key, Ticket(3));
    assert_eq!(queues.next_revoke(), None);
    queues.granted(&key, grant(4));
    queues.undeliverable(&key, Ticket(4));
    queues.confirm(&key, b"a");
    assert_eq!(queues.next_revoke(), None);
    // Another call of the same owner got it: the id is another.
    queues.granted(&key, grant(5));
    queues.undeliverable(&key, Ticket(1));
    assert_eq!(queues.next_revoke(), None);
    queues.answered(&key, Ticket(5));
    assert!(queues.is_idle());
}

#[test]
fn a_dead_channel_takes_all_who_wait_on_it_along_and_nobody_else() {
    let mut queues = Queues::default();
    queues.join(&lock("k"), enqueued("a", 1, "dead"));
    queues.join(&lock("k"), enqueued("b", 2, "alive"));
    queues.join(&lock("k"), enqueued("c", 3, "dead"));
    queues.join(&lock("k"), waiter("d", 4));
    queues.join(&lock("l"), enqueued("a", 5, "dead"));
    assert_eq!(queues.drop_channel(&lock("k"), b"dead", 9), 2);
    assert_eq!(owners(&queues, "k"), ["b", "d"]);
    assert_eq!(owners(&queues, "l"), ["a"]);
    assert_eq!(queues.drop_channel(&lock("k"), b"dead", 9), 0);
}

#[test]
fn a_grant_by_message_counts_as_unconfirmed_until_its_owner_is_heard_of() {
    let (mut queues, key) = (Queues::default(), lock("k"));
    queues.join(&key, waiter("next", 1));
    queues.note_unconfirmed(&key, b"a");
    queues.confirm(&key, b"b");
    queues.note_cause(&key, Cause::Expired);
    assert!(queues.take_unconfirmed(&key));
    assert!(!queues.take_unconfirmed(&key), "counted once");
    queues.note_unconfirmed(&key, b"a");
    queues.confirm(&key, b"a");
    assert!(!queues.take_unconfirmed(&key), "it was heard of");
    queues.note_unconfirmed(&key, b"a");
    queues.note_cause(&key, Cause::Deleted);
    assert!(!queues.take_unconfirmed(&key), "somebody ended it");
    queues.note_unconfirmed(&key, b"a");
    let grant = Grant { ticket: Ticket(2), owner: (*b"b").into(), mode: Mode::Mutex, ends: UnixMs(9) };
    queues.granted(&key, grant);
    assert!(!queues.take_unconfirmed(&key), "another has the lock by now");
}

#[test]
fn foreign_waiters_get_a_turn_after_so_many_grants_or_so_long() {
    let turns = Turns { after_grants: 2, after_ms: 100 };
    let mut queues = Queues::default();
    let key = lock("k");
    queues.join(&key, waiter("a", 1));
    assert!(!queues.yield_is_due(&key, turns, MonoMs(1_000)));
    queues.count_grant(&key, MonoMs(0));
    assert!(!queues.yield_is_due(&key, turns, MonoMs(99)));
    assert!(queues.yield_is_due(&key, turns, MonoMs(100)));
    queues.count_grant(&key, MonoMs(1));
    assert!(queues.yield_is_due(&key, turns, MonoMs(1)));
    let (longest, left) = (LeaseMs::new(40), LeaseMs::new);
    queues.open_window(&key, MonoMs(50));
    assert_eq!(queues.window(&key, MonoMs(49), longest), left(1));
    assert_eq!(queues.window(&key, MonoMs(50), longest), None);
    assert!(!queues.yield_is_due(&key, turns, MonoMs(1)), "the count starts anew");
    queues.open_window(&key, MonoMs(50));
    assert_eq!(queues.window(&key, MonoMs(9), longest), None, "the option was lowered meanwhile");
    queues.open_window(&key, MonoMs(90));
    queues.found_held(&key, Expiry::Never, Expiry::Never);
    assert_eq!(queues.window(&key, MonoMs(60), longest), None, "the turn was taken");
}

#[test]
fn a_streak_goes_on_while_nobody_waits_and_is_forgotten_in_the_end() {
    let turns = Turns { after_grants: 2, after_ms: u64::MAX };
    let (mut queues, key) = (Queues::default(), lock("k"));
    for (ticket, owner) in [(1, "a"), (2, "b")] {
        queues.join(&key, waiter(owner, ticket));
        queues.count_grant(&key, MonoMs(5));
        queues.pop(&key);
    }
    assert!(queues.is_idle() && !queues.is_blank());
    assert!(queues.yield_is_due(&key, turns, MonoMs(5)));
    queues.forget_old(UnixMs(0), MonoMs(3_600_004), 9);
    assert!(!queues.is_blank());
    queues.forget_old(UnixMs(0), MonoMs(3_600_005), 9);
    assert!(queues.is_blank());
}

#[test]
fn streaks_end_with_locks_that_nobody_waits_for() {
    let mut queues = Queues::default();
    queues.join(&lock("awaited"), waiter("a", 1));
    for key in ["awaited", "k", "l"] {
        queues.count_grant(&lock(key), MonoMs(5));
    }
    queues.sweep(Sweep::Keys(Databases::All, Cause::Flushed));
    queues.continue_sweeps(UnixMs(0), 9);
    let turns = Turns { after_grants: 1, after_ms: u64::MAX };
    let left = ["awaited", "k", "l"].map(|key| queues.yield_is_due(&lock(key), turns, MonoMs(5)));
    assert_eq!(left, [true, false, false]);
}

#[test]
fn everybody_is_sent_away_with_what_is_known_of_them() {
    let mut queues = Queues::default();
    queues.join(&lock("k"), waiter("a", 1));
    queues.join(&lock("l"), waiter("b", 2));
    let mut gone: Vec<_> = queues.drain_all();
    gone.sort_by_key(|(_, waiter)| waiter.ticket);
    let gone: Vec<_> = gone.into_iter().map(|(lock, waiter)| (lock, waiter.ticket)).collect();
    assert_eq!(gone, [(lock("k"), Ticket(1)), (lock("l"), Ticket(2))]);
    assert!(queues.is_idle());
}

#[test]
fn who_is_sent_away_leaves_lists_where_this_server_stays_the_primary() {
    let mut queues = Queues::default();
    for (owner, ticket) in [("before", 1), ("then", 2)] {
        queues.join(&lock("k"), Waiter { fair: true, ..waiter(owner, ticket) });
    }
    queues.join(&lock("l"), waiter("plain", 3));
    queues.leave(Ticket(1));
    let mut demoted = queues.clone();
    assert_eq!((queues.drain_all_but_fair_lists().len(), demoted.drain_all().len()), (2, 2));
    assert_eq!(queues.next_in(UnixMs(0), MonoMs(0)), Some(0));
    assert!(queues.is_leaving(&lock("k"), b"before") && queues.is_leaving(&lock("k"), b"then"));
    queues.forget_all_departed(&lock("k"));
    assert!(queues.is_idle() && demoted.is_idle());
}

/// The end of a walk counted for owners that left during it as well: entries of theirs that it had passed stayed in the
/// list for ever.
#[test]
fn whoever_leaves_during_a_walk_is_looked_for_by_the_next() {
    let (mut queues, key) = (Queues::default(), lock("k"));
    for (owner, ticket) in [("first", 1), ("last", 2)] {
        queues.join(&key, Waiter { fair: true, ..waiter(owner, ticket) });
    }
    queues.leave(Ticket(1));
    queues.walked(&key, &Walked { taken: Vec::new(), passed: 1, at_head: false });
    queues.leave(Ticket(2));
    queues.walked(&key, &Walked { taken: vec![(*b"first").into()], passed: 0, at_head: true });
    assert!(queues.is_leaving(&key, b"last"));
    assert_eq!((queues.walked_so_far(&key), queues.next_absent(&key, 9)), (Some(0), Vec::new()));
}

/// Somebody else took an entry out of the middle, and those before it came nearer to the end: the walk may have missed one.
#[test]
fn a_walk_that_was_disturbed_is_repeated() {
    let (mut queues, key) = (Queues::default(), lock("k"));
    for (owner, ticket) in [("a", 1), ("b", 2)] {
        queues.join(&key, Waiter { fair: true, ..waiter(owner, ticket) });
        queues.leave(Ticket(ticket));
    }
    let none = Walked { taken: Vec::new(), passed: 1, at_head: true };
    queues.disturb_walk(&key);
    queues.walked(&key, &none);
    assert_eq!(queues.walked_so_far(&key), Some(0));
    queues.walked(&key, &none);
    assert_eq!(queues.walked_so_far(&key), None, "they are not in the list");
    assert_eq!(queues.next_absent(&key, 1), [Box::from(*b"a")]);
    assert_eq!(queues.next_absent(&key, 9), [Box::from(*b"b")]);
    assert!(queues.is_idle());
}

/// Whoever comes after the mark waits.
#[test]
fn those_who_are_sent_away_are_those_who_waited() {
    let mut queues = Queues::default();
    for owner in ["a", "b", "c"] {
        let ticket = queues.new_ticket();
        queues.join(&lock("k"), waiter(owner, ticket.0));
    }
    queues.drop_waiters(DropReason::Drained);
    let ticket = queues.new_ticket();
    queues.join(&lock("k"), waiter("later", ticket.0));
    assert_eq!(queues.next_in(UnixMs(0), MonoMs(0)), Some(0));
    let (first, why) = queues.next_dropped(2);
    assert_eq!((first.len(), why), (2, Some(DropReason::Drained)));
    assert_eq!(queues.next_dropped(2).0.len(), 1);
    assert_eq!((queues.dropping(), queues.next_dropped(2).0.len()), (None, 0));
    assert_eq!(owners(&queues, "k"), ["later"]);
}

/// One that is asked for again and again while it is under way still comes to its end.
#[test]
fn a_sweep_comes_to_every_lock_of_its_database() {
    let mut queues = Queues::default();
    for (db, ticket) in [(0, 1), (1, 2), (1, 3), (2, 4)] {
        let key = LockId { db, key: format!("k{ticket}").into_bytes().into() };
        queues.join(&key, waiter("a", ticket));
    }
    let sweep = Sweep::Keys(Databases::One(1), Cause::Flushed);
    queues.sweep(sweep);
    for _ in 0..2 {
        queues.continue_sweeps(UnixMs(7), 1);
        queues.sweep(sweep);
    }
    let due: Vec<_> = queues.due(UnixMs(7), 9).into_iter().map(|lock| lock.db).collect();
    assert_eq!(due, [1, 1]);
    queues.continue_sweeps(UnixMs(7), 9);
    assert_eq!(queues.due(UnixMs(7), 9).len(), 2);
}
