//! How a hold is tied to a connection, and untied.

use super::sessions::Sessions;
use super::ties::Hold;
use super::{Call, LockName, Locks, Session, Tie, User};
use crate::types::Mode;

impl Locks {
    /// The connection to which a hold is tied.
    pub fn session(&self, lock: LockName<'_>, owner: &[u8], mode: Mode) -> Option<Session> {
        self.tie_of(lock, owner, mode)?.session()
    }

    /// The history of the tie of a hold; `None` if the hold was never tied.
    pub fn tie_of(&self, lock: LockName<'_>, owner: &[u8], mode: Mode) -> Option<Tie> {
        let ties =
            self.records.known(lock)?.ties.as_deref().filter(|ties| self.sessions.counts(lock.db, ties))?;
        ties.holds.get(&(Box::from(owner), mode)).copied()
    }

    /// Whether the entry of this hold in the index by connection is not stale.
    pub(super) fn is_indexed_by(&self, client: u64, (lock, owner, mode): &Hold) -> bool {
        self.tie_of(lock.name(), owner, *mode).is_some_and(|tie| tie.indexed_by() == client)
    }

    pub(super) fn has_tied_holds(&self, lock: LockName<'_>) -> bool {
        // First what costs a plain lock nothing.
        self.sessions.has_ties() && self.records.known(lock).is_some_and(|record| record.ties.is_some())
    }

    /// A call of an owner has succeeded: with SESSION it ties the hold, and the tie counts for this user; without, it unties the hold.
    pub fn tie(&mut self, lock: LockName<'_>, owner: &[u8], mode: Mode, (call, user): (Call, Option<User>)) {
        if call.grace.is_none() && !self.sessions.has_ties() {
            return;
        }
        let before = self.tie_of(lock, owner, mode);
        let after = Sessions::tied_after(before, call);
        // The entry of a hold that is untied still counts for the user that tied it.
        let untied = before.is_some() && call.grace.is_none();
        let user = if untied { self.user_of_tie(lock, owner, mode).flatten() } else { user };
        self.set_tie((lock, owner, mode), after, user);
    }

    /// Sets the history of the tie of a hold, which counts for this user.
    fn set_tie(
        &mut self,
        (lock, owner, mode): (LockName<'_>, &[u8], Mode),
        tie: Option<Tie>,
        user: Option<User>,
    ) {
        self.remove_void_ties(lock);
        self.untie(lock, owner, mode);
        let Some(tie) = tie else { return };
        let generation = self.sessions.generation(lock.db);
        self.records.edit(lock, |record| {
            let ties = record.ties.get_or_insert_default();
            ties.generation = generation;
            ties.holds.insert((owner.into(), mode), tie);
        });
        let name = self.records.shared_name(lock);
        let client = tie.indexed_by();
        if self.sessions.note_tied(client) {
            self.agenda.change();
        }
        let user = user.map(|user| self.users.tied(user));
        if let Some(before) = self.sessions.add_hold(client, (name, owner.into(), mode), user) {
            self.users.untied(&before);
        }
    }

    /// The end of the connection of a tie has shortened the lease, or does not, since the owner lives.
    pub(super) fn end_tie(&mut self, lock: LockName<'_>, owner: &[u8], mode: Mode) {
        let user = self.user_of_tie(lock, owner, mode).flatten();
        let ended = self.tie_of(lock, owner, mode).map(Tie::ended);
        self.set_tie((lock, owner, mode), ended, user);
    }

    /// An entry of a hold by its connection is not needed any more.
    pub(super) fn remove_hold(&mut self, client: u64, hold: &Hold) {
        if let Some(user) = self.sessions.remove_hold(client, hold) {
            self.users.untied(&user);
        }
    }

    /// The user for which the tie of a hold counts; `None` if it was never tied.
    pub(super) fn user_of_tie(&self, lock: LockName<'_>, owner: &[u8], mode: Mode) -> Option<Option<User>> {
        let tie = self.tie_of(lock, owner, mode)?;
        Some(self.sessions.user_of(tie.indexed_by(), &(lock.to_ref(), owner.into(), mode)))
    }

    /// A hold has ended, and the history of its tie with it.
    pub fn untie(&mut self, lock: LockName<'_>, owner: &[u8], mode: Mode) {
        if !self.has_tied_holds(lock) {
            return;
        }
        let name = self.records.shared_name(lock);
        let removed = self.records.edit_known(lock, |record| {
            let ties = record.ties.as_deref_mut()?;
            let tie = ties.holds.remove(&(Box::from(owner), mode));
            if ties.holds.is_empty() {
                record.ties = None;
            }
            tie
        });
        if let Some(tie) = removed.flatten() {
            self.remove_hold(tie.indexed_by(), &(name, owner.into(), mode));
        }
    }

    /// The owner has released some of its holds: it lives, whatever became of the connection of the tie.
    pub fn supersede_ended(&mut self, lock: LockName<'_>, owner: &[u8], mode: Mode) {
        if self.tie_of(lock, owner, mode).is_some_and(|tie| self.sessions.is_over(tie)) {
            self.end_tie(lock, owner, mode);
        }
    }
}

#[cfg(test)]
#[path = "tying_tests.rs"]
mod tests;
