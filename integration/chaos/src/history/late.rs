//! Lateness that no lock can prevent: holders that work on after their lease has ended, since they check no clock.

use super::{Attempt, History, Outcome};

/// How often that happened, and what fencing tokens made of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Late {
    /// Holders that released after their lease had ended.
    pub(crate) overslept: usize,
    /// Those of them whose lock another owner had got by that time.
    pub(crate) overtaken: usize,
    /// Those of the latter where both had a token, so that a resource could tell.
    pub(crate) fenced: usize,
    /// Those whose write a resource would have refused, having seen the larger token.
    pub(crate) refused: usize,
}

/// Counts them.
pub(crate) fn count(history: &History) -> Late {
    let mut late = Late::default();
    let held = |attempt: &&Attempt| attempt.outcome == Outcome::Held;
    for sleeper in history.attempts.iter().filter(held).filter(|attempt| attempt.dead) {
        let Some(wrote) = sleeper.released else { continue };
        late.overslept += 1;
        let after = history.attempts.iter().filter(held).filter(|other| {
            let begin = other.begin().unwrap_or(u64::MAX);
            other.key == sleeper.key
                && begin > sleeper.end()
                && begin < wrote
                && other.mode.excludes(sleeper.mode)
        });
        let tokens: Vec<Option<i64>> =
            after.map(|other| other.tokens.iter().map(|token| token.number).max()).collect();
        late.overtaken += usize::from(!tokens.is_empty());
        let own = sleeper.tokens.iter().map(|token| token.number).max();
        if let (Some(own), Some(seen)) = (own, tokens.into_iter().flatten().max()) {
            late.fenced += 1;
            late.refused += usize::from(own < seen);
        }
    }
    late
}
