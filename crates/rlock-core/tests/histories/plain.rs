//! Histories that once went wrong, or that chance seldom finds, run in `rlock-core` and in the oracle side by
//! side.

use rlock_oracle::operations::{
    Channel, Count, Foreign, Ground, Ms, Op, Options, Owner, Span, Wait, WaitMs, Word,
};

use crate::build::{self, BLOCK, DELETE, LOCK, LONG, OPTIONS, check, once};

fn acquire(owner: usize, wait: Wait) -> Op {
    once(build::acquire(owner, Word::None, LONG, wait))
}

fn release(owner: usize) -> Op {
    build::release(owner, Word::None)
}

/// The lock is left to foreign waiters, while owners 3 and 4 wait here.
fn window_is_open() -> Vec<Op> {
    let waiting = (1..5).map(|owner| acquire(owner, BLOCK));
    let mut ops = vec![Op::Listen(true), acquire(0, Wait::No)];
    ops.extend(waiting);
    ops.extend([release(0), release(1), release(2)]);
    ops
}

/// The lock is left to foreign waiters, who were told, and one of them takes it. A command takes it away again
/// before the timer has looked: the rest of the window was counted as the foreign waiters' turn still, nobody
/// of them was told that the lock is free, and our own waiters waited for the window to end.
#[test]
fn a_window_ends_when_somebody_takes_the_lock() {
    let taken = Op::Foreign { lock: LOCK, what: Foreign::Take { owner: Owner(4), lease: Some(Ms(LONG)) } };
    let mut ops = window_is_open();
    ops.extend([taken, Op::ForceRelease { lock: LOCK, owner: None }, Op::Pass(Span(1))]);
    check(OPTIONS, ops);
}

/// The end of a window was kept by the wall clock. When that was set back, our own waiters slept until it had
/// caught up, or for as much longer as it had been set back; set forward, the foreign waiters had no turn.
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

/// The same where the timer comes late, or the server refuses writes as the clock steps.
#[test]
fn a_window_ends_after_a_step_that_the_timer_could_not_look_at() {
    for ground in [Ground::Paused, Ground::Refused] {
        for step in [-100, -10, 10, 100] {
            let mut ops = window_is_open();
            ops.extend([Op::Ground(ground), Op::Step(step), Op::Pass(Span(5)), Op::Step(step)]);
            ops.extend([Op::Stall(Span(30)), Op::Ground(Ground::Firm), Op::Pass(Span(20))]);
            check(OPTIONS, ops);
        }
    }
}

/// Owner 1 is granted the lock by a message, for 50 ms unless it is heard of; owners 2 and 3 wait blocked.
fn unconfirmed() -> (Options, Vec<Op>) {
    let message = Wait::Enqueue(WaitMs(0), Channel(0));
    let waiting = [acquire(1, message), acquire(2, BLOCK), acquire(3, BLOCK)];
    let mut ops = vec![acquire(0, Wait::No)];
    ops.extend(waiting);
    ops.push(release(0));
    (Options { grant_confirm: 50, ..OPTIONS }, ops)
}

/// A grant by message was ended by force, or by a foreign DEL, before its owner was heard of. The next holder
/// had been granted the lock in the ordinary way, and when its lease ended INFO counted a grant that nobody
/// had confirmed.
#[test]
fn who_comes_after_an_unconfirmed_grant_is_not_taken_for_it() {
    let forced = Op::ForceRelease { lock: LOCK, owner: None };
    let put = Op::Foreign {
        lock: LOCK,
        what: Foreign::Put { owner: Owner(4), holds: Count(1), lease: Some(Ms(LONG)) },
    };
    let longer = Op::Foreign { lock: LOCK, what: Foreign::Expire(Ms(200)) };
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

/// Hand-offs in a row were counted on after the lock had ended with nobody waiting for it: for an hour, in 88
/// bytes for each such lock, while every call of the server took the longer way. Foreign waiters could have
/// had such a lock.
#[test]
fn a_lock_that_ends_with_nobody_waiting_ends_its_streak() {
    for end in [vec![Op::Pass(Span(60_001))], vec![DELETE], vec![Op::Flush]] {
        let mut ops = vec![Op::Listen(true)];
        for _ in 0..3 {
            // One hand-off each, after the second of which foreign waiters would have a turn.
            ops.extend([acquire(0, Wait::No), acquire(1, BLOCK), release(0), Op::Deliver(0)]);
            ops.extend(&end);
        }
        check(OPTIONS, ops);
    }
}

/// What happens between the departure of a client with a grant on its way and the timer's look.
fn before_a_take_back(what: Op) {
    let ops =
        vec![acquire(0, Wait::No), acquire(1, BLOCK), release(0), Op::Disconnect(0), what, Op::Pass(Span(1))];
    check(OPTIONS, ops);
}

#[test]
fn nothing_is_taken_back_from_an_owner_that_was_heard_of() {
    before_a_take_back(Op::Cancel { lock: LOCK, owner: Owner(1) });
    before_a_take_back(Op::Renew { lock: LOCK, owner: Owner(1), word: Word::None, lease: Ms(LONG) });
}

#[test]
fn nothing_is_taken_back_that_has_another_lease() {
    before_a_take_back(Op::Foreign { lock: LOCK, what: Foreign::Expire(Ms(5)) });
    before_a_take_back(Op::Foreign { lock: LOCK, what: Foreign::Persist });
}

#[test]
fn a_take_back_waits_until_writes_are_taken() {
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
        Op::Foreign { lock: LOCK, what: Foreign::Token(Some(Count(3))) },
        fenced(4, Wait::No),
    ];
    check(OPTIONS, ops);
}

/// A token key that holds no integer, or the largest token: who asks is told, who waited for a token is told
/// when its turn has come, and the next one behind it has the lock.
#[test]
fn a_waiter_that_can_have_no_token_neither_stops_the_queue_nor_is_lost() {
    let message = Wait::Enqueue(WaitMs(0), Channel(0));
    for token in [None, Some(Count(1 << 53))] {
        let spoil = Op::Foreign { lock: LOCK, what: Foreign::Token(token) };
        let mut ops = vec![acquire(0, Wait::No), fenced(1, BLOCK), fenced(2, message), acquire(3, BLOCK)];
        ops.extend([spoil, fenced(4, BLOCK), fenced(0, Wait::No), release(0), Op::Deliver(0), release(3)]);
        ops.extend([fenced(1, Wait::No), acquire(1, Wait::No)]);
        check(OPTIONS, ops);
        // The last in the queue: the lock is free then, and foreign waiters are told so.
        let ops = vec![acquire(0, Wait::No), fenced(1, BLOCK), spoil, release(0), acquire(2, Wait::No)];
        check(OPTIONS, ops);
    }
}
