//! Random histories of a server with locks, against an oracle that is told in plain words. A failure prints
//! the shortest history that fails, and proptest keeps its seed beside this file.

use arbitrary::{Arbitrary, Unstructured};
use proptest::prelude::{Just, ProptestConfig, Strategy, any, prop, prop_oneof, proptest};
use rlock_oracle::operations::{self, History, Op, Options};

/// A history from records of bytes, so that shrinking drops operations and makes each one simpler.
fn history() -> impl Strategy<Value = History> {
    let options = any::<[u8; 7]>().prop_map(|bytes| read::<Options>(&bytes));
    // The first four bytes choose among the operations; ACQUIRE, the first of them, comes more often.
    let chosen = prop_oneof![any::<[u8; 4]>(), Just([0; 4])];
    let op =
        (chosen, any::<[u8; 16]>()).prop_map(|(chosen, rest)| read::<Op>(&[&chosen[..], &rest].concat()));
    let ops = prop::collection::vec(op, 0..80);
    (options, ops).prop_map(|(options, ops)| History { options, ops })
}

fn read<T: for<'a> Arbitrary<'a>>(bytes: &[u8]) -> T {
    T::arbitrary(&mut Unstructured::new(bytes)).expect("enough bytes, or zeroes")
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(5_000))]

    #[test]
    fn core_does_what_the_oracle_says(history in history()) {
        operations::check(&history);
    }
}

/// Whatever the fuzzer has found worth keeping.
#[test]
fn the_stored_corpus_passes() {
    let corpus = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/corpus/operations");
    let mut count = 0;
    for entry in std::fs::read_dir(corpus).expect("the corpus") {
        let bytes = std::fs::read(entry.expect("an entry").path()).expect("an input");
        let history = History::arbitrary_take_rest(Unstructured::new(&bytes)).expect("a history");
        operations::check(&history);
        count += 1;
    }
    assert!(count > 0, "{corpus} is empty");
}
