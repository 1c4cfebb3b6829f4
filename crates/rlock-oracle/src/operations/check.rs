//! Running a whole history.

use super::follow;
use super::history::History;
use super::options::{Budget, Kinds};
use super::run::Run;

/// Runs a history in both, and panics if they differ.
pub fn check(history: &History) {
    let options = history.options;
    if options.budget != Budget::Usual || matches!(options.kinds, Kinds::Permits | Kinds::Tied(_)) {
        return follow::check(history);
    }
    let mut run = Run::new(options);
    for (number, op) in history.ops.iter().enumerate() {
        let op = options.kinds.of(*op);
        run.step(op, &format!("step {number}: {op:?}"));
    }
    run.end();
}
