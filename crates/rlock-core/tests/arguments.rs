//! Random arguments into every parser, against a second reading of the grammar. A failure prints the
//! shortest arguments that fail, and proptest keeps its seed beside this file.

use proptest::prelude::*;
use rlock_oracle::arguments;

/// Arguments in the place of a word: most of them nearly fit.
#[expect(clippy::too_many_lines, reason = "a list of words")]
fn word() -> impl Strategy<Value = Vec<u8>> {
    let near = [
        "ALL",
        "all",
        "HOLDS",
        "hOLDs",
        "LEASE",
        "LIMIT",
        "RESET",
        "BLOCK",
        "block",
        "ENQUEUE",
        "enqueue",
        "READ",
        "WRITE",
        "FAIR",
        "FENCED",
        "SESSION",
        "PERMITS",
        "mode",
        "me",
        "me:write",
        ":write",
        "news",
        "",
        "0",
        "1",
        "-1",
        "01",
        "+1",
        "1.0",
        "5",
        "100",
        "4294967295",
        "4294967296",
        "8796093022208",
        "8796093022209",
        "9007199254740992",
        "9007199254740993",
        "9223372036854775807",
        "9223372036854775808",
        "-9223372036854775808",
        "{a}b",
        "a}b",
        "a{}b",
        "read",
        "write",
        ">",
        ">me",
    ];
    prop_oneof![
        40 => prop::sample::select(near.to_vec()).prop_map(|word| word.as_bytes().to_vec()),
        4 => prop::collection::vec(any::<u8>(), 0..24),
        1 => (any::<u8>(), prop_oneof![500..525_usize, 1_020..1_030_usize]).prop_map(|(byte, length)| vec![byte; length]),
    ]
}

/// A call that fits, so that what is accepted is not left to luck; its options in any order.
fn call() -> impl Strategy<Value = Vec<Vec<u8>>> {
    let option = prop::sample::select(vec![
        "HOLDS 1",
        "holds 9007199254740992",
        "BLOCK 0",
        "Block 8796093022208",
        "ENQUEUE 5 news",
        "ALL",
        "LEASE 1",
        "lease 8796093022208",
        "HOLDS 0",
        "FENCED",
        "fenced",
        "READ",
        "write",
        "FAIR",
        "SESSION 0",
        "SESSION 1000",
        "PERMITS 2",
        "LIMIT 0",
        "LIMIT 7",
        "reset",
    ]);
    let first = prop::sample::select(vec!["me 1", "me 8796093022208", "me", "", "0", ">key"]);
    (first, prop::collection::vec(option, 0..4)).prop_map(|(first, options)| {
        let line = [&[first], &options[..]].concat().join(" ");
        line.split(' ').filter(|word| !word.is_empty()).map(|word| word.as_bytes().to_vec()).collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(5_000))]

    #[test]
    fn what_is_accepted_is_what_the_contract_says(
        words in prop_oneof![call(), prop::collection::vec(word(), 0..8)]
    ) {
        let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
        arguments::check_words(&words);
        arguments::check(&words.join(&b' '));
    }
}

/// Whatever the fuzzer has found worth keeping.
#[test]
fn the_stored_corpus_passes() {
    let corpus = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/corpus/arguments");
    let mut count = 0;
    for entry in std::fs::read_dir(corpus).expect("the corpus") {
        arguments::check(&std::fs::read(entry.expect("an entry").path()).expect("an input"));
        count += 1;
    }
    assert!(count > 0, "{corpus} is empty");
}
