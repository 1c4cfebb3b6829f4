//! Which waiters leave when their channel has no subscriber.

use super::super::tests::{enqueued, lock};
use super::*;
use crate::locks::Locks;
use crate::types::UnixMs;

/// One round of checks at this time, in which only these channels have a subscriber. Returns how many waiters leave.
fn round(locks: &mut Locks, at: u64, subscribed: &[&str], most: usize) -> usize {
    locks.begin_channel_round();
    let mut gone = 0;
    while let Some(channel) = locks.channels.next_channel() {
        let has_subscriber = subscribed.iter().any(|name| name.as_bytes() == &*channel);
        gone += locks.channel_checked(&channel, has_subscriber, MonoMs(at), most).len();
    }
    assert_eq!(locks.next_in(UnixMs(0), MonoMs(at)), None, "the round is over");
    gone
}

fn join(locks: &mut Locks, key: &str, owner: &str, ticket: u64, channel: &str) {
    locks.join(lock(key), enqueued(owner, ticket, channel));
}

#[test]
fn a_channel_without_a_subscriber_at_two_checks_in_a_row_loses_its_waiters() {
    let mut locks = Locks::default();
    join(&mut locks, "k", "a", 1, "dead");
    join(&mut locks, "k", "b", 2, "alive");
    join(&mut locks, "l", "a", 3, "dead");
    join(&mut locks, "l", "c", 4, "back");
    assert_eq!(round(&mut locks, 10_000, &["alive"], 9), 0);
    assert_eq!(round(&mut locks, 20_000, &["alive", "back"], 9), 2);
    let left: Vec<_> = locks.calls.tickets().collect();
    assert_eq!(left, [Ticket(2), Ticket(4)]);
    assert_eq!(round(&mut locks, 30_000, &["alive"], 9), 0, "a subscriber in between counts");
    assert_eq!(round(&mut locks, 40_000, &[], 9), 1);
    assert_eq!(round(&mut locks, 50_000, &[], 9), 1);
    assert!(locks.calls.waiting() == 0 && locks.channels.known.is_empty());
}

#[test]
fn a_new_waiter_begins_the_count_anew_and_two_quick_checks_are_one() {
    let mut locks = Locks::default();
    join(&mut locks, "k", "a", 1, "dead");
    assert_eq!(round(&mut locks, 10_000, &[], 9), 0);
    assert_eq!(round(&mut locks, 11_000, &[], 9), 0);
    join(&mut locks, "k", "b", 2, "dead");
    assert_eq!(round(&mut locks, 20_000, &[], 9), 0);
    // The last waiter of a channel left meanwhile.
    locks.leave(Ticket(1));
    locks.leave(Ticket(2));
    join(&mut locks, "k", "c", 3, "dead");
    assert_eq!(round(&mut locks, 30_000, &[], 9), 0);
    assert_eq!(round(&mut locks, 40_000, &[], 9), 1);
}

#[test]
fn a_round_continues_where_the_last_cycle_stopped() {
    let mut locks = Locks::default();
    for ticket in 0..5 {
        join(&mut locks, "k", &ticket.to_string(), ticket, "dead");
    }
    join(&mut locks, "k", "last", 9, "other");
    assert_eq!(round(&mut locks, 10_000, &["other"], 9), 0);
    locks.begin_channel_round();
    for (most, gone) in [(2, 2), (2, 2), (0, 0), (2, 1)] {
        let channel = locks.channels.next_channel().expect("a channel");
        assert_eq!(&*channel, b"dead");
        assert_eq!(locks.channel_checked(&channel, false, MonoMs(20_000), most).len(), gone);
        assert_eq!(locks.next_in(UnixMs(0), MonoMs(20_000)), Some(0), "the round continues");
    }
    // A subscriber in time keeps what is left.
    assert_eq!(locks.channels.next_channel().as_deref(), Some(&b"other"[..]));
    assert_eq!(locks.channels.next_channel(), None);
}

#[test]
fn a_replica_checks_no_channels() {
    let mut locks = Locks::default();
    join(&mut locks, "k", "a", 1, "dead");
    locks.begin_channel_round();
    locks.demoted();
    assert_eq!(locks.next_in(UnixMs(0), MonoMs(0)), None);
}

#[test]
fn blocked_waiters_have_no_channel() {
    let mut locks = Locks::default();
    locks.join(lock("k"), super::super::tests::waiter("a", 1));
    locks.begin_channel_round();
    assert_eq!((locks.channels.next_channel(), locks.next_in(UnixMs(0), MonoMs(0))), (None, None));
}
