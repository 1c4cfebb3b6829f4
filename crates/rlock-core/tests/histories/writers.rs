//! Histories of a waiting Redisson writer among native readers, run in `rlock-core` and in the oracle side by side.

use rlock_oracle::operations::{Kinds, Ms, Op, Options, Owner, Script, Span, Wait, Word};

use crate::build::{self, BLOCK, DELETE, LOCK, LONG, OPTIONS, acquire, check, read};

/// A reader releases.
fn release(owner: usize) -> Op {
    build::release(owner, Word::Read)
}

fn redisson(script: Script) -> Op {
    build::redisson(script, 4, LONG)
}

/// A Redisson writer waits, and these operations happen.
fn while_one_waits_to_write(ops: impl IntoIterator<Item = Op>) {
    let options = Options { turn_ms: 100_000, kinds: Kinds::ReadWrite, ..OPTIONS };
    check(options, [Op::Listen(true)].into_iter().chain(ops));
}

/// The lock has two readers, and the module yields to the waiting writer: a third reader waits.
fn kept_waiting() -> Vec<Op> {
    vec![read(0, 60_000, Wait::No), read(1, 60_000, Wait::No), read(2, 60_000, BLOCK)]
}

#[test]
fn a_turn_from_its_beginning_to_its_end() {
    let mut ops = kept_waiting();
    ops.extend([release(0), release(1), redisson(Script::Write), read(3, 60_000, BLOCK), Op::Pass(Span(30))]);
    ops.extend([redisson(Script::EndWrite), Op::Pass(Span(30)), read(0, 60_000, Wait::No)]);
    while_one_waits_to_write(ops);
}

#[test]
fn a_writer_that_stopped_waiting_keeps_no_reader_out() {
    let mut ops = kept_waiting();
    ops.extend([Op::Pass(Span(700)), Op::Listen(false), Op::Pass(Span(1_001)), read(3, 60_000, Wait::No)]);
    while_one_waits_to_write(ops);
}

/// If no event showed that the lock was free, the count of its readers continued: the next reader was held back as if
/// natives had read all the time.
#[test]
fn readers_are_counted_anew_where_the_lock_was_free() {
    for free in [DELETE, Op::Flush, Op::Pass(Span(20))] {
        while_one_waits_to_write([
            read(0, 10, Wait::No),
            read(1, 10, Wait::No),
            free,
            read(2, 60_000, Wait::No),
            read(3, 60_000, Wait::No),
            read(0, 60_000, Wait::No),
        ]);
    }
}

/// Each renewal, and each re-entry of a reader, counted as a new reader.
#[test]
fn a_reader_that_keeps_reading_is_counted_once() {
    let renew = Op::Renew { lock: LOCK, owner: Owner(0), word: Word::Read, lease: Ms(60_000) };
    let again = read(0, 60_000, Wait::No);
    while_one_waits_to_write([again, renew, renew, again, again, read(1, 60_000, Wait::No)]);
}

/// A reader whose lease had ended, but whose field was still there, counted as alive: when it waited, it was let in
/// ahead of the waiting writer.
#[test]
fn a_dead_reader_that_reads_again_counts_as_a_new_reader() {
    while_one_waits_to_write([
        read(0, 60_000, Wait::No),
        read(1, 10, Wait::No),
        Op::Pass(Span(20)),
        read(1, 60_000, BLOCK),
        Op::Pass(Span(20)),
    ]);
}

/// The lock was left free for a yield window, and no client acquired it. A waiter at the end of the window waited for
/// another one, and a waiter that joined within the window made it begin again.
#[test]
fn a_moment_that_has_passed_is_over() {
    let wait = [Op::Pass(Span(14)), read(2, 60_000, BLOCK), Op::Pass(Span(2))];
    let taken = [redisson(Script::Write), read(2, 60_000, BLOCK), Op::Pass(Span(20))];
    let given_back = [redisson(Script::EndWrite), Op::Pass(Span(2)), Op::Deliver(0)];
    // A forced release led to another window.
    let forced = [redisson(Script::Read), Op::Pass(Span(20)), Op::ForceRelease { lock: LOCK, owner: None }];
    for ops in
        [&wait[..], &[taken, given_back].concat(), &[&forced[..], &[read(2, 60_000, Wait::No)]].concat()]
    {
        let mut all = vec![read(0, 60_000, Wait::No), read(1, 60_000, Wait::No), read(2, 60_000, Wait::No)];
        all.extend([release(0), release(1)]);
        all.extend(ops);
        while_one_waits_to_write(all);
    }
}

/// The lock ended with the leases of its readers, and no command freed it: at the next request it is still left free for a yield window,
/// which the oracle did not demand.
#[test]
fn a_lock_that_ends_with_its_leases_is_left_free() {
    for word in [Word::Read, Word::Write] {
        while_one_waits_to_write([
            read(0, 100, Wait::No),
            read(1, 100, Wait::No),
            read(2, 100, Wait::No),
            Op::Pass(Span(105)),
            acquire(2, word, LONG, Wait::No),
            Op::Pass(Span(20)),
            read(2, LONG, Wait::No),
        ]);
    }
}

/// Only native read leases hold new readers back: not those that have ended, nor those of Redisson readers, which were found.
#[test]
fn only_native_leases_hold_readers_back() {
    while_one_waits_to_write([
        redisson(Script::Read),
        read(0, 30, Wait::No),
        read(1, 30, Wait::No),
        read(2, 30, Wait::No),
        Op::Pass(Span(2_000)),
        read(2, 10, Wait::No),
    ]);
}
