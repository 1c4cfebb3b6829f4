//! The outcome of a planned fail-over: no second holder, no lock lost, each client at the new primary.

use std::collections::{BTreeMap, BTreeSet};

use super::{BOUND, MS};
use crate::run::Problem;

/// What a replica may not have yet when it is promoted.
const LAG: i64 = 100 * MS;

/// From the answer to the last check that said that the lock was held.
pub(super) struct Interval {
    pub(super) from: i64,
    pub(super) to: i64,
    pub(super) guard: String,
}

#[derive(Default)]
pub(super) struct Log {
    pub(super) holds: Vec<Interval>,
    /// When those were acquired that were lost.
    pub(super) lost: Vec<(i64, String)>,
    /// The clients that have held the lock at the new primary, and those that ask again and again instead of waiting.
    pub(super) at_the_new: BTreeSet<String>,
    pub(super) asking: BTreeSet<String>,
    /// By client: how its requests for the lock ended.
    outcomes: BTreeMap<String, BTreeMap<String, u64>>,
}

impl Log {
    pub(super) fn count(&mut self, client: &str, outcome: &str) {
        *self.outcomes.entry(client.to_string()).or_default().entry(outcome.to_string()).or_default() += 1;
    }

    /// How many clients had this outcome.
    pub(super) fn clients_with(&self, outcome: &str) -> usize {
        self.outcomes.values().filter(|outcomes| outcomes.contains_key(outcome)).count()
    }

    /// What the log shows that must not be. `promoted`: when, if a lock that is acquired between that and the switch may be lost.
    pub(super) fn problems(&mut self, promoted: Option<i64>) -> Vec<Problem> {
        let may_be_lost =
            |at: i64| promoted.is_some_and(|promoted| (promoted - LAG..promoted + BOUND).contains(&at));
        let unsafe_until = promoted.map_or(0, |promoted| promoted + BOUND);
        self.holds.sort_by_key(|hold| hold.from);
        let mut problems = Vec::new();
        let mut latest: Option<&Interval> = None;
        for hold in &self.holds {
            if let Some(before) = latest.filter(|before| hold.from < before.to) {
                let end = before.to.min(hold.to);
                let both = (end - hold.from) / MS;
                let exempt = (may_be_lost(before.from) || may_be_lost(hold.from)) && end <= unsafe_until;
                if !exempt {
                    let [one, other] = [&before.guard, &hold.guard];
                    problems.push(Problem::Wrong(format!("two holders for {both} ms: {one} and {other}")));
                }
            }
            latest = latest.filter(|before| before.to > hold.to).or(Some(hold));
        }
        let moved = |client: &&String| self.at_the_new.contains(*client) || self.asking.contains(*client);
        let stuck = self.outcomes.keys().filter(|client| !moved(client));
        problems
            .extend(stuck.map(|client| format!("{client} never held the lock at the new primary").into()));
        let lost = self.lost.iter().filter(|(from, _)| !may_be_lost(*from));
        problems.extend(lost.map(|(_, guard)| Problem::Late(format!("{guard} was lost"))));
        problems
    }

    pub(super) fn shown(&self) -> String {
        let each = self.outcomes.iter().map(|(client, outcomes)| format!("{client} {outcomes:?}"));
        each.collect::<Vec<_>>().join(", ")
    }
}
