//! The histories of the oracle on a real server. The clocks of the server stand still except where time passes in the
//! history, so a history always passes or always fails.
//!
//! Left out are roles, pauses, refused writes, moved slots, time that passes while the server is busy, and histories with
//! permits or SESSION.
//!
//! `RLOCK_INPUT` names one input of the corpus, and `RLOCK_EVERY=1` takes all of them. `RLOCK_SEED` is the first seed of
//! the crossed histories, and `RLOCK_HISTORIES` their number.

mod lines;
mod lockstep;
mod server;

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use rlock_oracle::operations::{History, Kinds};
use server::Server;

/// Of the corpus, `cargo test` takes one input in this number: all take minutes on a busy machine.
const EVERY: u64 = 8;
/// The number of crossed histories that `cargo test` runs.
const CROSSED: u64 = 30;

/// The inputs of the corpus, in the order of their names.
fn inputs() -> Vec<PathBuf> {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus");
    let folders =
        ["operations", "mutants"].map(|folder| fs::read_dir(corpus.join(folder)).expect("the corpus"));
    let mut inputs: Vec<_> =
        folders.into_iter().flatten().map(|entry| entry.expect("an entry").path()).collect();
    inputs.sort();
    inputs
}

/// The history of an input, unless it is one of those that are left out.
fn history(input: &[u8]) -> Option<History> {
    let history = History::of_input(input)?;
    (!matches!(history.options.kinds, Kinds::Permits | Kinds::Tied(_))).then_some(history)
}

fn number(name: &str) -> Option<u64> {
    env::var(name).ok().map(|value| value.parse().unwrap_or_else(|_| panic!("{name} must be a number")))
}

#[test]
fn the_corpus_happens_to_a_server_as_to_the_oracle() {
    let only = env::var("RLOCK_INPUT").ok();
    let every = if only.is_some() { 1 } else { number("RLOCK_EVERY").unwrap_or(EVERY) };
    let Some(mut server) = Server::start() else { return };
    for path in inputs().iter().step_by(usize::try_from(every).expect("a small number")) {
        let name = path.file_name().expect("a file").to_string_lossy().into_owned();
        if only.as_ref().is_none_or(|only| *only == name)
            && let Some(history) = history(&fs::read(path).expect("an input"))
        {
            lockstep::check(&mut server, &format!("repeat with RLOCK_INPUT={name}"), &history);
        }
    }
    if only.is_none() {
        server.end();
    }
}

/// The start of one input, the end of another one, and some other bytes.
fn crossed(inputs: &[PathBuf], seed: u64) -> Vec<u8> {
    let mut dice = fastrand::Rng::with_seed(seed);
    let mut read = || fs::read(&inputs[dice.usize(..inputs.len())]).expect("an input");
    let (mut start, end) = (read(), read());
    start.truncate(dice.usize(start.len() / 2..=start.len()));
    start.extend(&end[dice.usize(..=end.len() / 2)..]);
    for _ in 0..dice.usize(..6) {
        // The first bytes are options.
        let at = dice.usize(..start.len());
        start[at] = dice.u8(..);
    }
    start
}

#[test]
fn crossed_histories_happen_to_a_server_as_to_the_oracle() {
    let Some(mut server) = Server::start() else { return };
    let inputs = inputs();
    let first = number("RLOCK_SEED").unwrap_or(120);
    for seed in first..first + number("RLOCK_HISTORIES").unwrap_or(CROSSED) {
        if let Some(history) = history(&crossed(&inputs, seed)) {
            let repeat = format!("repeat with RLOCK_SEED={seed} RLOCK_HISTORIES=1");
            lockstep::check(&mut server, &repeat, &history);
        }
    }
}
