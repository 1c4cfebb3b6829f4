//! Histories that once went wrong, or that chance seldom finds, run in `rlock-core` and in the oracle side by
//! side.

use rlock_oracle::operations::{
    Channel, Count, Ground, Ms, Op, Options, OtherWrite, Owner, Span, Wait, WaitMs, Word,
};

use crate::build::{self, BLOCK, DELETE, LOCK, LONG, OPTIONS, check, once};

fn acquire(owner: usize, wait: Wait) -> Op {
    once(build::acquire(owner, Word::None, LONG, wait))
}

fn release(owner: usize) -> Op {
    build::release(owner, Word::None)
}

/// The lock is left to Redisson waiters, while owners 3 and 4 wait natively.
fn window_is_open() -> Vec<Op> {
    let waiting = (1..5).map(|owner| acquire(owner, BLOCK));
    let mut ops = vec![Op::Listen(true), acquire(0, Wait::No)];
    ops.extend(waiting);
    ops.extend([release(0), release(1), release(2)]);
    ops
}

/// The lock is left to Redisson waiters, which are notified, and one of them acquires it. A command frees it again
/// before the timer fires: the rest of the window still counted as theirs, none of them was notified that the lock
/// is free, and native waiters waited for the window to end.
#[test]
fn a_window_ends_when_a_client_takes_the_lock() {
    let taken = Op::ByOther { lock: LOCK, what: OtherWrite::Take { owner: Owner(4), lease: Some(Ms(LONG)) } };
    let mut ops = window_is_open();
    ops.extend([taken, Op::ForceRelease { lock: LOCK, owner: None }, Op::Pass(Span(1))]);
    check(OPTIONS, ops);
}

/// The end of a window was kept by the wall clock. When that was set back, native waiters slept until it had
/// caught up, or for as much longer as it had been set back; set forward, it left Redisson waiters no window.
#[test]
fn a_window_is_as_long_as_it_is_whatever_the_clock_does() {
    for steps in [&[-100_i64][..], &[-10], &[-5, -5, -5], &[5], &[100], &[-100, 100], &[100, -100]] {
        let mut ops = window_is_open();
        for step in steps {
            ops.extend([Op::Pass(Span(2)), Op::Step(*step)]);
        }
        ops.push(Op::Pass(Span(20)));
        check(OPTIONS, ops);
    }
}

/// The same if the timer fires late, or the server refuses writes, as the clock steps.
#[test]
fn a_window_ends_after_a_step_that_the_timer_could_not_check() {
    for ground in [Ground::Paused, Ground::Refused] {
        for step in [-100, -10, 10, 100] {
            let mut ops = window_is_open();
            ops.extend([Op::Ground(ground), Op::Step(step), Op::Pass(Span(5)), Op::Step(step)]);
            ops.extend([Op::Stall(Span(30)), Op::Ground(Ground::Firm), Op::Pass(Span(20))]);
            check(OPTIONS, ops);
        }
    }
}

/// Owner 1 is granted the lock by a message, for 50 ms unless it confirms; owners 2 and 3 wait blocked.
fn unconfirmed() -> (Options, Vec<Op>) {
    let message = Wait::Enqueue(WaitMs(0), Channel(0));
    let waiting = [acquire(1, message), acquire(2, BLOCK), acquire(3, BLOCK)];
    let mut ops = vec![acquire(0, Wait::No)];
    ops.extend(waiting);
    ops.push(release(0));
    (Options { grant_confirm: 50, ..OPTIONS }, ops)
}

/// A grant by message was ended by force, or by another client's DEL, before its owner confirmed it. The next
/// holder had been granted the lock in the ordinary way, and when its lease ended INFO counted an unconfirmed
/// grant.
#[test]
fn the_holder_after_an_unconfirmed_grant_is_not_counted_as_unconfirmed() {
    let forced = Op::ForceRelease { lock: LOCK, owner: None };
    let put = Op::ByOther {
        lock: LOCK,
        what: OtherWrite::Put { owner: Owner(4), holds: Count(1), lease: Some(Ms(LONG)) },
    };
    let longer = Op::ByOther { lock: LOCK, what: OtherWrite::Expire(Ms(200)) };
    for end in [&[forced][..], &[DELETE], &[Op::Flush], &[put], &[longer], &[DELETE, put], &[release(1)]] {
        let (options, mut ops) = unconfirmed();
        ops.push(Op::Pass(Span(10)));
        ops.extend(end);
        ops.extend([Op::Pass(Span(5)), Op::Pass(Span(120_000)), Op::Pass(Span(120_000))]);
        check(options, ops);
    }
}

/// One that does end so is counted, once.
#[test]
fn an_unconfirmed_grant_is_counted_when_it_ends() {
    for late in [[Op::Pass(Span(60)), Op::Pass(Span(1))], [Op::Stall(Span(60)), Op::Pass(Span(1))]] {
        let (options, mut ops) = unconfirmed();
        ops.extend(late);
        check(options, ops);
    }
}

/// The count of hand-offs in a row continued after the lock had ended without waiters: for an hour, in 88 bytes
/// for each of these locks, while every call of the server took the longer way. Redisson waiters could have
/// acquired the lock meanwhile.
#[test]
fn a_lock_that_ends_without_waiters_ends_its_streak() {
    for end in [vec![Op::Pass(Span(60_001))], vec![DELETE], vec![Op::Flush]] {
        let mut ops = vec![Op::Listen(true)];
        for _ in 0..3 {
            // One hand-off each; after the second the module would yield to Redisson waiters.
            ops.extend([acquire(0, Wait::No), acquire(1, BLOCK), release(0), Op::Deliver(0)]);
            ops.extend(&end);
        }
        check(OPTIONS, ops);
    }
}

/// An operation between the disconnect of a client with an undelivered grant and the timer's next cycle.
fn before_a_revocation(what: Op) {
    let ops =
        vec![acquire(0, Wait::No), acquire(1, BLOCK), release(0), Op::Disconnect(0), what, Op::Pass(Span(1))];
    check(OPTIONS, ops);
}

#[test]
fn a_confirmed_grant_is_not_revoked() {
    before_a_revocation(Op::Cancel { lock: LOCK, owner: Owner(1) });
    before_a_revocation(Op::Renew { lock: LOCK, owner: Owner(1), word: Word::None, lease: Ms(LONG) });
}

#[test]
fn a_grant_with_another_lease_is_not_revoked() {
    before_a_revocation(Op::ByOther { lock: LOCK, what: OtherWrite::Expire(Ms(5)) });
    before_a_revocation(Op::ByOther { lock: LOCK, what: OtherWrite::Persist });
}

#[test]
fn a_revocation_waits_until_writes_are_accepted() {
    let refused = Op::Ground(Ground::Refused);
    let ops = vec![
        acquire(0, Wait::No),
        acquire(1, BLOCK),
        release(0),
        Op::Disconnect(0),
        refused,
        Op::Pass(Span(50)),
        Op::Ground(Ground::Firm),
        Op::Pass(Span(50)),
    ];
    check(OPTIONS, ops);
}

fn fenced(owner: usize, wait: Wait) -> Op {
    build::fenced(acquire(owner, wait))
}

/// Tokens grow in the same millisecond, after the clock was set back, after the lock is gone, and from owner to
/// owner, whether the lock was free, entered again or handed over.
#[test]
fn tokens_grow() {
    let message = Wait::Enqueue(WaitMs(0), Channel(0));
    let ops = vec![
        fenced(0, Wait::No),
        fenced(0, Wait::No),
        Op::Step(-100),
        fenced(0, Wait::No),
        fenced(1, BLOCK),
        fenced(2, message),
        acquire(3, BLOCK),
        release(0),
        fenced(1, Wait::No),
        release(1),
        release(2),
        release(3),
        DELETE,
        fenced(4, Wait::No),
        Op::ByOther { lock: LOCK, what: OtherWrite::Token(Some(Count(3))) },
        fenced(4, Wait::No),
    ];
    check(OPTIONS, ops);
}

/// A token key that holds no integer, or the largest token: a caller gets an error, a waiter for a token gets the
/// error when its turn comes, and the next waiter is granted the lock.
#[test]
fn a_waiter_that_can_have_no_token_neither_stops_the_queue_nor_is_lost() {
    let message = Wait::Enqueue(WaitMs(0), Channel(0));
    for token in [None, Some(Count(1 << 53))] {
        let spoil = Op::ByOther { lock: LOCK, what: OtherWrite::Token(token) };
        let mut ops = vec![acquire(0, Wait::No), fenced(1, BLOCK), fenced(2, message), acquire(3, BLOCK)];
        ops.extend([spoil, fenced(4, BLOCK), fenced(0, Wait::No), release(0), Op::Deliver(0), release(3)]);
        ops.extend([fenced(1, Wait::No), acquire(1, Wait::No)]);
        check(OPTIONS, ops);
        // The last in the queue: the lock becomes free, and Redisson waiters are notified.
        let ops = vec![acquire(0, Wait::No), fenced(1, BLOCK), spoil, release(0), acquire(2, Wait::No)];
        check(OPTIONS, ops);
    }
}

/// The lock ended, and its last waiter was sent away, since its channel had no subscriber: the lock was free, and the row of hand-offs
/// ended.
#[test]
fn a_free_lock_whose_waiter_was_sent_away_ends_its_streak() {
    let channel = Channel(1);
    let mut ops =
        vec![acquire(0, Wait::No), acquire(1, BLOCK), acquire(2, Wait::Enqueue(WaitMs(0), channel))];
    ops.extend([Op::Subscribe(channel, false), release(0), DELETE, Op::Pass(Span(5)), Op::Listen(true)]);
    ops.extend([acquire(0, Wait::No), acquire(1, BLOCK), acquire(2, BLOCK), release(0), release(1)]);
    check(OPTIONS, ops);
}
