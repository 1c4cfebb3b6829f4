//! Random histories of a server with locks, against an oracle that is written in plain terms. A failure prints
//! the shortest history that fails, and proptest keeps its seed beside this file.

use arbitrary::{Arbitrary, Unstructured};
use proptest::prelude::{Just, ProptestConfig, Strategy, any, prop, prop_oneof, proptest};
use rlock_oracle::operations::{
    self, Budget, ByList, Count, FairOp, FairScript, Ground, History, Kinds, Lock, Ms, Op, Options, Owner,
    Span, TiedOp, Wait, WaitMs, Word,
};

/// A history from records of bytes, so that shrinking drops operations and makes each one simpler.
fn history() -> impl Strategy<Value = History> {
    // The seventh byte says what the locks are.
    let kinds = prop_oneof![0..KINDS_WITH_FAIR.start, KINDS_WITH_FAIR.end..=u8::MAX];
    let options = (any::<[u8; 6]>(), kinds).prop_map(|(bytes, kinds)| read(&[&bytes[..], &[kinds]].concat()));
    // The first four bytes choose among the operations; ACQUIRE, the first of them, comes more often.
    let chosen = prop_oneof![any::<[u8; 4]>(), Just([0; 4])];
    let op =
        (chosen, any::<[u8; 16]>()).prop_map(|(chosen, rest)| read::<Op>(&[&chosen[..], &rest].concat()));
    let ops = prop::collection::vec(op, 0..80);
    (options, budget(), ops, any::<bool>())
        .prop_map(|(options, budget, ops, near)| met(Options { budget, ..options }, ops, near))
}

/// How much is done in one event-loop cycle.
fn budget() -> impl Strategy<Value = Budget> {
    prop_oneof![
        4 => Just(Budget::Usual),
        3 => (1..4_usize).prop_map(Budget::HalfDone),
    ]
}

/// The history. If `near`, most of it happens to one lock, among few owners, while others listen: this finds faults
/// sooner that need several things at once.
fn met(options: Options, mut ops: Vec<Op>, near: bool) -> History {
    if near {
        ops.iter_mut().for_each(bring_near);
        ops.insert(0, Op::Listen(true));
    }
    History { options, ops }
}

fn bring_near(op: &mut Op) {
    let lock = match op {
        Op::Acquire { lock, owner, .. } | Op::Release { lock, owner, .. } | Op::Renew { lock, owner, .. } => {
            owner.0 %= 3;
            lock
        }
        Op::Cancel { lock, .. }
        | Op::ForceRelease { lock, .. }
        | Op::ByOther { lock, .. }
        | Op::ByList { lock, .. } => lock,
        _ => return,
    };
    if lock.0 != 2 {
        *lock = Lock(0);
    }
}

/// The same of locks with FAIR.
fn fair_history() -> impl Strategy<Value = History> {
    let options = (any::<[u8; 6]>(), any::<u8>())
        .prop_map(|(bytes, turn)| read(&[&bytes[..], &[KINDS_WITH_FAIR.start, turn]].concat()));
    // The first byte chooses among what there is with FAIR, the next four among all operations.
    let op = (any::<u8>(), any::<[u8; 4]>(), any::<[u8; 16]>()).prop_map(|(fair, chosen, rest)| {
        let FairOp(op) = read(&[&[fair][..], &chosen, &rest].concat());
        op
    });
    let ask = any::<[u8; 16]>().prop_map(|rest| {
        let FairOp(op) = read(&[&[u8::MAX, 0, 0, 0, 0][..], &rest].concat());
        op
    });
    let ops = prop::collection::vec(prop_oneof![2 => op, 1 => ask], 0..80);
    (options, budget(), ops, any::<bool>())
        .prop_map(|(options, budget, ops, near)| met(Options { budget, ..options }, ops, near))
}

/// Locks with SESSION, and those with permits.
fn session_history() -> impl Strategy<Value = History> {
    let kinds = prop_oneof![KINDS_WITH_PERMITS, KINDS_WITH_PERMITS.prop_map(|byte| byte / 6 * 6)];
    let options = (any::<[u8; 6]>(), kinds).prop_map(|(bytes, kinds)| read(&[&bytes[..], &[kinds]].concat()));
    // The first byte chooses among what there is with SESSION, the next four among all operations.
    let op = (any::<u8>(), any::<[u8; 4]>(), any::<[u8; 16]>()).prop_map(|(tied, chosen, rest)| {
        let TiedOp(op) = read(&[&[tied][..], &chosen, &rest].concat());
        op
    });
    let ask = any::<[u8; 16]>().prop_map(|rest| read(&[&[0; 4][..], &rest].concat()));
    let ops = prop::collection::vec(prop_oneof![2 => op, 1 => ask], 0..80);
    (options, budget(), ops, any::<bool>())
        .prop_map(|(options, budget, ops, near)| met(Options { budget, ..options }, ops, near))
}

fn read<T: for<'a> Arbitrary<'a>>(bytes: &[u8]) -> T {
    T::arbitrary(&mut Unstructured::new(bytes)).expect("enough bytes, or zeroes")
}

/// The values of that byte with which locks are asked for with FAIR.
const KINDS_WITH_FAIR: std::ops::Range<u8> = 144..192;
/// Those with which they have permits or sessions.
const KINDS_WITH_PERMITS: std::ops::Range<u8> = 32..64;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn core_does_what_the_oracle_says(history in history()) {
        operations::check(&history);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn core_does_with_fair_what_the_oracle_says(history in fair_history()) {
        operations::check(&history);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(800))]

    #[test]
    fn core_does_with_sessions_and_permits_what_is_certain(history in session_history()) {
        operations::check(&history);
    }
}

/// Whatever the fuzzer has found worth keeping; and inputs that find a mutant which those do not, named after it.
#[test]
fn the_stored_corpus_passes() {
    for folder in ["operations", "mutants"] {
        let corpus = format!("{}/../../fuzz/corpus/{folder}", env!("CARGO_MANIFEST_DIR"));
        let mut count = 0;
        for entry in std::fs::read_dir(&corpus).expect("the corpus") {
            let bytes = std::fs::read(entry.expect("an entry").path()).expect("an input");
            let history = History::arbitrary_take_rest(Unstructured::new(&bytes)).expect("a history");
            operations::check(&history);
            count += 1;
        }
        assert!(count > 0, "{corpus} is empty");
    }
}

/// The server refused writes, and the timer noticed the end of a lease while an owner waited. Later the lock was free,
/// without waiters: only the oracle took this for new, and forgot the row of hand-offs.
#[test]
fn a_lease_that_ended_while_writes_were_refused() {
    let lock = Lock(0);
    let theirs = || {
        let (script, owner) = (FairScript::Lock, Owner(5));
        Op::ByList { lock, what: ByList::Script { script, owner, ahead: 0, budget: 1, lease: Ms(1) } }
    };
    let ask = |owner, holds: Option<i64>, wait| Op::Acquire {
        lock,
        owner: Owner(owner),
        lease: Ms(1),
        word: Word::None,
        holds: holds.map(Count),
        wait: Wait::Block(WaitMs(wait)),
        fenced: false,
        fair: true,
    };
    let ops = [
        theirs(),
        ask(0, None, 0),
        Op::Step(60_000),
        ask(1, Some(0), 3),
        Op::Ground(Ground::Refused),
        Op::Pass(Span(22)),
        theirs(),
        Op::Ground(Ground::Firm),
        ask(0, None, 0),
        theirs(),
    ];
    let options = Options {
        max_waiters: 8,
        max_waiters_per_key: 5,
        grant_confirm: 1,
        turn_grants: 1,
        turn_ms: 1,
        window: 1,
        fair_turn: 1,
        kinds: Kinds::Fair,
        budget: Budget::Usual,
    };
    operations::check(&History { options, ops: ops.into() });
}
