//! Random histories of natives that read, and of Redisson's that write and read by their scripts on the same keys, against
//! the oracle: as those of all operations, but such that turns to write come, and end in every way.

use proptest::prelude::*;
use rlock_oracle::operations::{
    self, Budget, Count, Foreign, History, Kinds, Lock, Ms, Op, Options, Owner, Script, Span, Wait, WaitMs,
    Word,
};

const LOCK: Lock = Lock(0);

fn lease() -> impl Strategy<Value = Ms> {
    prop_oneof![3 => Just(60_000), 1 => 1..50_i64, 1 => 50..1_500_i64].prop_map(Ms)
}

fn acquire() -> impl Strategy<Value = Op> {
    let word = prop_oneof![6 => Just(Word::Read), 1 => Just(Word::Write)];
    let wait = prop_oneof![Just(Wait::No), Just(Wait::Block(WaitMs(0))), Just(Wait::Block(WaitMs(30)))];
    (0..5_usize, word, lease(), wait).prop_map(|(owner, word, lease, wait)| {
        let (owner, holds, fenced, fair) = (Owner(owner), None, false, false);
        Op::Acquire { lock: LOCK, owner, lease, word, holds, wait, fenced, fair }
    })
}

/// One of Redisson's: of the native owners' names one, and one of its own.
fn script() -> impl Strategy<Value = Op> {
    let script = prop_oneof![
        1 => Just(Script::Read),
        4 => Just(Script::Write),
        1 => Just(Script::EndRead),
        3 => Just(Script::EndWrite),
        1 => Just(Script::RenewRead),
        1 => Just(Script::RenewWrite),
    ];
    (script, 4..6_usize, lease()).prop_map(|(script, owner, lease)| {
        let what = Foreign::Redisson { script, owner: Owner(owner), lease };
        Op::Foreign { lock: LOCK, what }
    })
}

fn op() -> impl Strategy<Value = Op> {
    let owner = || (0..5_usize).prop_map(Owner);
    let release = owner().prop_map(|owner| {
        let (word, down_to, lease) = (Word::Read, Some(Count(0)), None);
        Op::Release { lock: LOCK, owner, word, down_to, lease }
    });
    let (lock, word) = (LOCK, Word::Read);
    prop_oneof![
        9 => acquire(),
        6 => release,
        1 => (owner(), lease()).prop_map(move |(owner, lease)| Op::Renew { lock, owner, word, lease }),
        1 => owner().prop_map(move |owner| Op::Cancel { lock, owner }),
        3 => script(),
        1 => prop::bool::weighted(0.6).prop_map(Op::Listen),
        3 => prop_oneof![0..40_u64, 40..1_200_u64].prop_map(|ms| Op::Pass(Span(ms))),
        1 => (0..60_u64).prop_map(|ms| Op::Stall(Span(ms))),
        1 => any::<u8>().prop_map(Op::Deliver),
        1 => any::<u8>().prop_map(Op::Disconnect),
        1 => Just(Op::Foreign { lock, what: Foreign::Delete }),
        1 => Just(Op::ForceRelease { lock, owner: None }),
        1 => prop::bool::weighted(0.7).prop_map(Op::Primary),
    ]
}

fn history() -> impl Strategy<Value = History> {
    let options = (1..5_u32, prop_oneof![1..300_u64, Just(100_000)], 0..30_u64);
    let options = options.prop_map(|(turn_grants, turn_ms, window)| Options {
        max_waiters: 8,
        max_waiters_per_key: 5,
        grant_confirm: 500,
        turn_grants,
        turn_ms,
        window,
        fair_turn: 5_000,
        kinds: Kinds::ReadWrite,
        budget: Budget::Usual,
    });
    (options, prop::collection::vec(op(), 1..60)).prop_map(|(options, mut ops)| {
        ops.insert(0, Op::Listen(true));
        History { options, ops }
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn natives_and_redissons_writers_have_their_turns(history in history()) {
        operations::check(&history);
    }
}

/// Found by chance among all operations: a server that was the primary before knows nothing of the leases that it gave, and
/// the oracle took it to task for a turn that it could not know to be due.
#[test]
fn who_is_the_primary_no_more_knows_of_no_turns() {
    let read = |owner, lease| {
        let (lock, owner, lease, word) = (LOCK, Owner(owner), Ms(lease), Word::Read);
        Op::Acquire { lock, owner, lease, word, holds: None, wait: Wait::No, fenced: false, fair: false }
    };
    let options = Options {
        max_waiters: 8,
        max_waiters_per_key: 5,
        grant_confirm: 1,
        turn_grants: 2,
        turn_ms: 1,
        window: 1,
        fair_turn: 1,
        kinds: Kinds::ReadWrite,
        budget: Budget::Usual,
    };
    let ops =
        vec![read(1, 420), Op::Primary(false), Op::Listen(true), read(0, 1), Op::Pass(Span(1)), read(2, 1)];
    operations::check(&History { options, ops });
}
