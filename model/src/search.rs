//! Breadth first through every state that can be reached, so that the first counterexample is a shortest one.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use crate::action::Action;
use crate::check::check;
use crate::form::{fingerprint, renamings};
use crate::ghost::Violation;
use crate::possible::possible;
use crate::scene::Scene;
use crate::state::State;

/// How a state was reached: from which other, by what.
struct Step {
    from: Option<u32>,
    action: Option<Action>,
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
pub(crate) struct Counterexample {
    /// The actions that lead to it.
    pub(crate) actions: Vec<Action>,
    /// The violated property.
    pub(crate) violation: Violation,
}

/// Explores a scene to a depth, or until another scene has found a violation; calls `progress` for each level.
pub(crate) fn explore(
    scene: &Scene,
    depth: u32,
    found: &AtomicBool,
    mut progress: impl FnMut(&Explored, f64),
) -> Result<Explored, Counterexample> {
    let started = Instant::now();
    let (first, renamings) = (State::first(scene), renamings(scene));
    let mut seen = HashSet::from([fingerprint(scene, &renamings, &first)]);
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
            for action in possible(scene, &state) {
                explored.steps += 1;
                let after = state.after(scene, action);
                let after = after.and_then(|after| check(scene, &after).map(|()| after));
                let after = after.map_err(|violation| {
                    let mut actions = way_to(&trail, from);
                    actions.push(action);
                    found.store(true, Ordering::Relaxed);
                    Counterexample { actions, violation }
                })?;
                if seen.insert(fingerprint(scene, &renamings, &after)) {
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

fn way_to(trail: &[Step], to: u32) -> Vec<Action> {
    let mut actions = Vec::new();
    let mut at = Some(to);
    while let Some(step) = at.and_then(|at| trail.get(usize::try_from(at).ok()?)) {
        actions.extend(step.action);
        at = step.from;
    }
    actions.reverse();
    actions
}
