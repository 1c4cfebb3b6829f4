//! Histories of one of Redisson's that waits to write among native readers, run in `rlock-core` and in the oracle side
//! by side.

use rlock_oracle::operations::{Kinds, Ms, Op, Options, Owner, Script, Span, Wait, Word};

use crate::build::{self, BLOCK, DELETE, LOCK, LONG, OPTIONS, check, read};

/// A reader goes.
fn release(owner: usize) -> Op {
    build::release(owner, Word::Read)
}

fn redisson(script: Script) -> Op {
    build::redisson(script, 4, LONG)
}

/// Redisson's waits to write, and these things happen.
fn while_one_waits_to_write(ops: impl IntoIterator<Item = Op>) {
    let options = Options { turn_ms: 100_000, kinds: Kinds::ReadWrite, ..OPTIONS };
    check(options, [Op::Listen(true)].into_iter().chain(ops));
}

/// Two read, and it is the turn of the one that waits to write: a third one waits.
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
fn who_waits_to_write_no_more_keeps_nobody_out() {
    let mut ops = kept_waiting();
    ops.extend([Op::Pass(Span(700)), Op::Listen(false), Op::Pass(Span(1_001)), read(3, 60_000, Wait::No)]);
    while_one_waits_to_write(ops);
}

/// Where nobody told that the lock was free, its readers were counted on: who came next was kept waiting as if natives
/// had read all the time.
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

/// Each renewal, and each time that a reader read again, counted as one more that came to read.
#[test]
fn who_reads_on_is_counted_once() {
    let renew = Op::Renew { lock: LOCK, owner: Owner(0), word: Word::Read, lease: Ms(60_000) };
    let again = read(0, 60_000, Wait::No);
    while_one_waits_to_write([again, renew, renew, again, again, read(1, 60_000, Wait::No)]);
}

/// A reader whose lease had ended, and whose field was there still, counted as one that reads: it came in by waiting,
/// ahead of the one that waited to write.
#[test]
fn a_dead_reader_that_comes_back_comes_to_read() {
    while_one_waits_to_write([
        read(0, 60_000, Wait::No),
        read(1, 10, Wait::No),
        Op::Pass(Span(20)),
        read(1, 60_000, BLOCK),
        Op::Pass(Span(20)),
    ]);
}

/// The lock had been left free, and nobody took it; whoever waited at the end of that moment waited for another one, and who
/// began to wait within it made it last anew.
#[test]
fn a_moment_that_has_passed_is_over() {
    let wait = [Op::Pass(Span(14)), read(2, 60_000, BLOCK), Op::Pass(Span(2))];
    let taken = [redisson(Script::Write), read(2, 60_000, BLOCK), Op::Pass(Span(20))];
    let given_back = [redisson(Script::EndWrite), Op::Pass(Span(2)), Op::Deliver(0)];
    // By force it came to another moment.
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
