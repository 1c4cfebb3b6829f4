//! How many waiters and ties each user has. One user gets a share of the places and of the ties, so that it cannot fill them all.

use std::collections::BTreeMap;
use std::rc::Rc;

use super::{User, Waiter};

/// What is counted for one user.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Its waiters.
    pub waiters: usize,
    /// Its waiters with SESSION.
    tied_waiters: usize,
    /// Its tied holds.
    tied_holds: usize,
}

impl Usage {
    /// Its ties, of holds and of waiters.
    pub fn ties(self) -> usize {
        self.tied_holds.saturating_add(self.tied_waiters)
    }
}

/// The users with a waiter or a tie. All of their waiters and ties share one copy of the name.
#[derive(Clone, Debug, Default)]
pub struct Users(BTreeMap<User, Usage>);

impl Users {
    /// What counts for a user.
    pub fn usage(&self, user: Option<&[u8]>) -> Usage {
        user.and_then(|user| self.0.get(user)).copied().unwrap_or_default()
    }

    /// The largest number of waiters, and of ties, that one user has.
    pub fn largest_usage(&self) -> (usize, usize) {
        let most = |count: fn(Usage) -> usize| self.0.values().copied().map(count).max().unwrap_or(0);
        (most(|usage| usage.waiters), most(Usage::ties))
    }

    /// The users with a waiter or a tie, for the model checker.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&[u8], Usage)> {
        self.0.iter().map(|(user, usage)| (&**user, *usage))
    }

    /// Adds to the counts of a user, and returns the shared copy of its name.
    fn add(&mut self, user: User, add: impl FnOnce(&mut Usage)) -> User {
        let known = self.0.get_key_value(&user).map(|(known, _)| Rc::clone(known));
        let shared = known.unwrap_or(user);
        add(self.0.entry(Rc::clone(&shared)).or_default());
        shared
    }

    fn subtract(&mut self, user: &User, subtract: impl FnOnce(&mut Usage)) {
        let Some(usage) = self.0.get_mut(user) else { return };
        subtract(usage);
        if *usage == Usage::default() {
            self.0.remove(user);
        }
    }

    /// A waiter has joined a queue.
    pub(super) fn joined(&mut self, waiter: &mut Waiter) {
        let tied = usize::from(waiter.session.is_some());
        waiter.user = waiter.user.take().map(|user| {
            self.add(user, |usage| {
                usage.waiters = usage.waiters.saturating_add(1);
                usage.tied_waiters = usage.tied_waiters.saturating_add(tied);
            })
        });
    }

    /// A waiter has left its queue.
    pub(super) fn left(&mut self, waiter: &Waiter) {
        let (Some(user), tied) = (&waiter.user, usize::from(waiter.session.is_some())) else { return };
        self.subtract(user, |usage| {
            usage.waiters = usage.waiters.saturating_sub(1);
            usage.tied_waiters = usage.tied_waiters.saturating_sub(tied);
        });
    }

    /// A hold was tied.
    pub(super) fn tied(&mut self, user: User) -> User {
        self.add(user, |usage| usage.tied_holds = usage.tied_holds.saturating_add(1))
    }

    /// A hold is not tied any more.
    pub(super) fn untied(&mut self, user: &User) {
        self.subtract(user, |usage| usage.tied_holds = usage.tied_holds.saturating_sub(1));
    }

    /// No hold is tied any more.
    pub(super) fn forget_holds(&mut self) {
        self.0.retain(|_, usage| {
            usage.tied_holds = 0;
            *usage != Usage::default()
        });
    }
}

#[cfg(test)]
#[path = "users_tests.rs"]
mod tests;
