//! Histories of readers and writers that once went wrong, or that chance seldom finds, run in `rlock-core` and in the oracle
//! side by side.

use rlock_oracle::operations::{
    Count, Kinds, Ms, Op, Options, OtherWrite, Owner, Script, Span, Wait, WaitMs, Word,
};

use crate::build::{self, BLOCK, DELETE, LOCK, LONG, OPTIONS, acquire, check, once, redisson};

fn release(owner: usize) -> Op {
    build::release(owner, Word::None)
}

fn read(owner: usize, lease: i64, wait: Wait) -> Op {
    once(build::read(owner, lease, wait))
}

fn write(owner: usize, wait: Wait) -> Op {
    once(acquire(owner, Word::Write, LONG, wait))
}

fn read_write(ops: Vec<Op>) {
    check(Options { kinds: Kinds::Mixed, ..OPTIONS }, ops);
}

/// A reader whose lease had ended asked to write while another read: the same call removed its field as that of a
/// dead reader, and the answer was an internal error instead of null, or of a place in the queue.
#[test]
fn a_dead_reader_may_ask_to_write() {
    for wait in [Wait::No, BLOCK] {
        read_write(vec![
            read(0, 10, Wait::No),
            read(1, 60_000, Wait::No),
            Op::Pass(Span(20)),
            write(0, wait),
        ]);
    }
}

/// An owner waited to write and to read. It got the write hold, and its read hold only in the timer's next cycle.
#[test]
fn a_writer_that_waits_to_read_too_gets_both() {
    read_write(vec![write(1, Wait::No), write(0, BLOCK), read(0, 60_000, BLOCK), release(1), Op::Deliver(0)]);
}

/// Another reader waited ahead of a writer that waits to read too, and disconnected: the writer was not checked.
#[test]
fn a_departing_waiter_may_have_kept_out_a_writer_that_waits_to_read_too() {
    let mut ops =
        vec![write(1, Wait::No), write(0, BLOCK), read(2, 60_000, BLOCK), read(0, 60_000, BLOCK), release(1)];
    ops.extend([Op::Disconnect(1), Op::Pass(Span(0))]);
    read_write(ops);
}

/// A waiter for a plain lock disconnected, while the key held a read/write lock whose readers had died: the writer
/// behind it slept until the key ended.
#[test]
fn a_departing_waiter_may_have_kept_out_another_kind_of_waiter() {
    let mut ops = vec![
        once(acquire(0, Word::None, 60_000, Wait::No)),
        once(acquire(1, Word::None, 60_000, BLOCK)),
        DELETE,
        redisson(Script::Read, 4, 10),
    ];
    ops.extend([write(2, BLOCK), Op::ByOther { lock: LOCK, what: OtherWrite::Persist }, Op::Pass(Span(20))]);
    ops.extend([Op::Disconnect(0), Op::Pass(Span(0))]);
    read_write(ops);
}

/// Redisson's reader re-entered for a shorter time than before. When another reader left, the key was to end with
/// the newest lease, and so would the first one have: a writer came in beside a reader that lived.
#[test]
fn a_reader_lives_as_long_as_the_longest_of_its_leases() {
    let mut ops =
        vec![redisson(Script::Read, 4, 60_000), redisson(Script::Read, 4, 10), read(0, 60_000, Wait::No)];
    ops.extend([release(0), Op::Pass(Span(20)), write(1, BLOCK), Op::Pass(Span(100))]);
    read_write(ops);
}

/// RELEASE with a LEASE shorter than before shortened only the newest hold's lease: the reader lived as long as the
/// one before it.
#[test]
fn a_lease_that_a_release_asks_for_is_that_of_every_hold() {
    let again = build::read(0, LONG, Wait::No);
    let (word, down_to, lease) = (Word::None, Some(Count(2)), Some(Ms(10)));
    let fewer = Op::Release { lock: LOCK, owner: Owner(0), word, down_to, lease };
    read_write(vec![read(0, 60_000, Wait::No), again, again, fewer, write(1, BLOCK), Op::Pass(Span(20))]);
}

/// A writer stopped to write and read on, and a reader that waited here joined it: Redisson's readers were not told
/// that they may, and slept until the end of the lease to write.
#[test]
fn a_downgrade_is_published_also_where_readers_join_here() {
    let down_to = Some(Count(0));
    let downgrade = Op::Release { lock: LOCK, owner: Owner(0), word: Word::Write, down_to, lease: None };
    read_write(vec![write(0, Wait::No), read(0, 60_000, Wait::No), read(1, 60_000, BLOCK), downgrade]);
}

/// A writer waited to read behind another reader, and then read by another call. Its first call counted as one more
/// hold; and when the client of that call disconnects, the holder must keep its hold.
#[test]
fn a_read_by_another_call_does_not_add_a_hold_for_the_first() {
    for gone in [Op::Pass(Span(0)), Op::Disconnect(2)] {
        let waiting = [write(0, BLOCK), read(2, 60_000, BLOCK), read(0, 60_000, BLOCK)];
        let mut ops = vec![write(1, Wait::No)];
        ops.extend(waiting);
        ops.extend([release(1), read(0, 60_000, Wait::No), Op::Cancel { lock: LOCK, owner: Owner(2) }]);
        ops.extend([gone, Op::Pass(Span(1))]);
        read_write(ops);
    }
}

/// The same by a clock that is set to before 1970: a point in time that had passed by any other clock had not.
#[test]
fn a_departing_waiter_lets_others_in_whatever_the_clock_says() {
    let mut ops = vec![Op::Step(-127); 10];
    ops.extend([read(0, 60_000, Wait::No), write(1, BLOCK), read(2, 60_000, BLOCK), Op::Disconnect(0)]);
    ops.push(Op::Pass(Span(0)));
    read_write(ops);
}

/// Another client had set the end of a key too early. It was repaired in the same cycle in which a writer's wait ended:
/// the reader behind the writer waited for the next cycle.
#[test]
fn a_repaired_key_end_keeps_no_reader_waiting() {
    let writer = acquire(1, Word::Write, LONG, Wait::Block(WaitMs(1)));
    let mut ops = vec![read(4, 60_000, Wait::No), writer, Op::Stall(Span(1)), read(0, 60_000, BLOCK)];
    ops.extend([Op::ByOther { lock: LOCK, what: OtherWrite::Expire(Ms(1)) }, Op::Pass(Span(0))]);
    read_write(ops);
}

/// The lock, with dead readers only, was left to Redisson waiters, and a forced release removed these readers: the lock
/// was free already, and the yield window continues. (The oracle granted the lock to the native waiter.)
#[test]
fn a_forced_release_of_dead_readers_does_not_end_a_turn() {
    let options = Options { turn_ms: 39, window: 5, kinds: Kinds::ReadWrite, ..OPTIONS };
    let mut ops = vec![Op::Listen(true), write(1, Wait::No), read(0, 160, BLOCK)];
    ops.extend([
        release(1),
        Op::Deliver(0),
        Op::ByOther { lock: LOCK, what: OtherWrite::Persist },
        write(1, BLOCK),
    ]);
    ops.extend([Op::Stall(Span(179)), read(2, 1, Wait::No), Op::ForceRelease { lock: LOCK, owner: None }]);
    ops.push(Op::Pass(Span(10)));
    check(options, ops);
}

/// FLUSHDB deleted a lock with a reader, and the same name became a plain lock. The timer then found no reader, and ended
/// the count of the plain lock's hand-offs with them: a waiting Redisson client got its chance later.
#[test]
fn hand_offs_of_a_plain_lock_count_after_readers_of_the_same_name() {
    let options = Options { turn_grants: 1, kinds: Kinds::Mixed, ..build::OPTIONS };
    let plain = |owner, wait| acquire(owner, Word::None, LONG, wait);
    check(
        options,
        [
            Op::Listen(true),
            read(0, LONG, Wait::No),
            Op::Flush,
            plain(0, Wait::No),
            plain(1, BLOCK),
            Op::Flush,
            // The hand-off, before the timer checks the read leases.
            plain(0, Wait::No),
            Op::Pass(Span(0)),
            plain(2, BLOCK),
            DELETE,
            Op::Pass(Span(0)),
        ],
    );
}

/// It was queued behind its own wait to read, and waited for itself. The other way round nothing is in its way.
#[test]
fn a_waiting_reader_does_not_wait_to_write() {
    for again in [read(0, 50_000, BLOCK), write(0, Wait::No), release(1)] {
        read_write(vec![
            write(1, Wait::No),
            read(0, 60_000, BLOCK),
            write(0, BLOCK),
            again,
            write(0, BLOCK),
            Op::Pass(Span(0)),
        ]);
    }
    read_write(vec![
        read(1, 60_000, Wait::No),
        write(0, BLOCK),
        read(0, 60_000, BLOCK),
        write(0, BLOCK),
        release(1),
        Op::Pass(Span(0)),
    ]);
}
