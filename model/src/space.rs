//! A scene as a space to explore.

use crate::action::{self, Action};
use crate::check::check;
use crate::form::{Renaming, fingerprint, renamings};
use crate::scene::Scene;
use crate::search::Space;
use crate::state::{State, Violation};

/// The server of a scene, with everybody who uses it.
pub(crate) struct Server<'a> {
    scene: &'a Scene,
    renamings: Vec<Renaming>,
}

impl<'a> Server<'a> {
    pub(crate) fn of(scene: &'a Scene) -> Self {
        Self { scene, renamings: renamings(scene) }
    }
}

impl Space for Server<'_> {
    type State = State;
    type Action = Action;

    fn first(&self) -> State {
        State::first(self.scene)
    }

    fn possible(&self, state: &State) -> Vec<Action> {
        action::possible(self.scene, state)
    }

    fn after(&self, state: &State, action: Action) -> Result<State, Violation> {
        let after = state.after(self.scene, action)?;
        check(self.scene, &after)?;
        Ok(after)
    }

    fn fingerprint(&self, state: &State) -> u64 {
        fingerprint(self.scene, &self.renamings, state)
    }

    fn summary(&self, state: &State) -> String {
        state.summary(self.scene)
    }
}
