//! How a hold is tied to a connection, and untied.

use super::ties::Hold;
use super::{LockName, Locks, Session, User};
use crate::types::Mode;

impl Locks {
    /// The connection to which a hold is tied.
    pub fn session(&self, lock: LockName<'_>, owner: &[u8], mode: Mode) -> Option<Session> {
        let ties =
            self.records.known(lock)?.ties.as_deref().filter(|ties| self.sessions.counts(lock.db, ties))?;
        ties.sessions.get(&(Box::from(owner), mode)).copied()
    }

    /// Whether a hold is tied to this connection.
    pub(super) fn is_tied_to(&self, client: u64, (lock, owner, mode): &Hold) -> bool {
        self.session(lock.name(), owner, *mode).is_some_and(|tie| tie.client == client)
    }

    pub(super) fn has_tied_holds(&self, lock: LockName<'_>) -> bool {
        // First what costs a plain lock nothing.
        self.sessions.has_ties() && self.records.known(lock).is_some_and(|record| record.ties.is_some())
    }

    /// A call of an owner has succeeded: its tie is the one that was asked for, or none. It counts for this user.
    pub fn tie(
        &mut self,
        lock: LockName<'_>,
        owner: &[u8],
        mode: Mode,
        (asked, user): (Option<Session>, Option<User>),
    ) {
        let before = self.session(lock, owner, mode);
        let after = self.sessions.tied_after(before, asked);
        self.remove_void_ties(lock);
        self.untie(lock, owner, mode);
        let Some(session) = after else { return };
        let generation = self.sessions.generation(lock.db);
        self.records.edit(lock, |record| {
            let ties = record.ties.get_or_insert_default();
            ties.generation = generation;
            ties.sessions.insert((owner.into(), mode), session);
        });
        let name = self.records.shared_name(lock);
        let client = session.client;
        if self.sessions.note_tied(client) {
            self.agenda.change();
        }
        let user = user.map(|user| self.users.tied(user));
        if let Some(before) = self.sessions.add_hold(client, (name, owner.into(), mode), user) {
            self.users.untied(&before);
        }
    }

    /// An entry of a hold by its connection is not needed any more.
    pub(super) fn remove_hold(&mut self, client: u64, hold: &Hold) {
        if let Some(user) = self.sessions.remove_hold(client, hold) {
            self.users.untied(&user);
        }
    }

    /// A hold is not tied any more.
    pub fn untie(&mut self, lock: LockName<'_>, owner: &[u8], mode: Mode) {
        if !self.has_tied_holds(lock) {
            return;
        }
        let name = self.records.shared_name(lock);
        let removed = self.records.edit_known(lock, |record| {
            let ties = record.ties.as_deref_mut()?;
            let tie = ties.sessions.remove(&(Box::from(owner), mode));
            if ties.sessions.is_empty() {
                record.ties = None;
            }
            tie
        });
        if let Some(session) = removed.flatten() {
            self.remove_hold(session.client, &(name, owner.into(), mode));
        }
    }

    /// The owner has released some of its holds: it lives, whatever became of the connection of the tie.
    pub fn supersede_ended(&mut self, lock: LockName<'_>, owner: &[u8], mode: Mode) {
        if self.session(lock, owner, mode).is_some_and(|tie| self.sessions.is_over(tie)) {
            self.untie(lock, owner, mode);
        }
    }
}

#[cfg(test)]
#[path = "tying_tests.rs"]
mod tests;
