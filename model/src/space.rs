//! A scene as a space to explore.

use crate::action::Action;
use crate::check::check;
use crate::form::{Renaming, fingerprint, renamings};
use crate::ghost::Violation;
use crate::possible::possible;
use crate::scene::Scene;
use crate::search::Space;
use crate::state::State;

/// The server of a scene, with all of its clients.
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
        possible(self.scene, state)
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
