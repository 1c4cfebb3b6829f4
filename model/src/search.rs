//! Breadth first through every state that can be reached, so that the first counterexample is a shortest one.

use std::collections::HashSet;
use std::fmt::Display;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use crate::state::Violation;

/// What can be explored.
pub(crate) trait Space {
    /// One of its states.
    type State;
    /// What leads from one state to another.
    type Action: Copy + Display;

    /// The state in which everything begins.
    fn first(&self) -> Self::State;
    /// What can happen in a state.
    fn possible(&self, state: &Self::State) -> Vec<Self::Action>;
    /// The state after that; or which property it violates.
    fn after(&self, state: &Self::State, action: Self::Action) -> Result<Self::State, Violation>;
    /// The same for two states from which the same can happen.
    fn fingerprint(&self, state: &Self::State) -> u64;
    /// A state in a line, for the story of a violation.
    fn summary(&self, state: &Self::State) -> String;
}

/// How a state was reached: from which other, by what.
struct Step<A> {
    from: Option<u32>,
    action: Option<A>,
}

/// What was explored.
pub(crate) struct Explored {
    /// Different states.
    pub(crate) states: usize,
    /// Steps from one to another, or to itself.
    pub(crate) steps: u64,
    /// The deepest step that was explored in full.
    pub(crate) depth: u32,
}

/// A shortest way to a violation.
pub(crate) struct Counterexample<A> {
    /// The actions that lead to it.
    pub(crate) actions: Vec<A>,
    /// The violated property.
    pub(crate) violation: Violation,
}

/// Explores a space to a depth, or until another one has found a violation; calls `progress` for each level.
pub(crate) fn explore<S: Space>(
    space: &S,
    depth: u32,
    found: &AtomicBool,
    mut progress: impl FnMut(&Explored, f64),
) -> Result<Explored, Counterexample<S::Action>> {
    let started = Instant::now();
    let first = space.first();
    let mut seen = HashSet::from([space.fingerprint(&first)]);
    let mut trail = vec![Step { from: None, action: None }];
    let mut level = vec![(0_u32, first)];
    let mut explored = Explored { states: 1, steps: 0, depth: 0 };
    for at in 1..=depth {
        let mut next = Vec::new();
        // Each is dropped when it is done: a level of a million states takes gigabytes.
        for (from, state) in level {
            if found.load(Ordering::Relaxed) {
                return Ok(explored);
            }
            for action in space.possible(&state) {
                explored.steps += 1;
                let after = space.after(&state, action).map_err(|violation| {
                    let mut actions = way_to(&trail, from);
                    actions.push(action);
                    found.store(true, Ordering::Relaxed);
                    Counterexample { actions, violation }
                })?;
                if seen.insert(space.fingerprint(&after)) {
                    let number = u32::try_from(trail.len()).unwrap_or(u32::MAX);
                    trail.push(Step { from: Some(from), action: Some(action) });
                    // The last level is checked, and nothing follows it.
                    if at < depth {
                        next.push((number, after));
                    }
                }
            }
        }
        explored.states = seen.len();
        explored.depth = at;
        progress(&explored, started.elapsed().as_secs_f64());
        level = next;
    }
    Ok(explored)
}

fn way_to<A: Copy>(trail: &[Step<A>], to: u32) -> Vec<A> {
    let mut actions = Vec::new();
    let mut at = Some(to);
    while let Some(step) = at.and_then(|at| trail.get(usize::try_from(at).ok()?)) {
        actions.extend(step.action);
        at = step.from;
    }
    actions.reverse();
    actions
}

/// The story of a violation: each action, followed by the state it leads to.
pub(crate) fn story<S: Space>(space: &S, counterexample: &Counterexample<S::Action>) -> String {
    let count = counterexample.actions.len();
    let mut lines = vec![
        format!("VIOLATED: {}", counterexample.violation),
        format!("after {count} steps, each followed by the state it leads to:"),
    ];
    let mut state = space.first();
    for (number, action) in (1..).zip(&counterexample.actions) {
        lines.push(format!("  {number:2}. {action}"));
        match space.after(&state, *action) {
            Ok(after) => {
                lines.push(format!("      {}", space.summary(&after)));
                state = after;
            }
            Err(_) => lines.push("      here it goes wrong".to_owned()),
        }
    }
    lines.join("\n")
}
