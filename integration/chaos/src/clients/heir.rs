//! One that waits for its own lock to be free: so that in every round somebody is next when no token can be given, and
//! nobody else comes to the lock who would show it.

use super::desk::{Desk, SOON};
use super::native::{Want, told};
use crate::history::Outcome;
use crate::wire::Trouble;

impl Desk {
    /// Holds the lock for up to a second; then who waits behind it is to have it, or to be told why not.
    pub(crate) fn heir(&mut self, want: &Want) {
        let mut holder = self.begin(want.key, want.mode(), want.line(), None);
        let answer = self.acquire(want, &holder.owner, &[], SOON);
        holder.answered = self.now();
        match answer.as_ref().map(told) {
            Ok(Some(told)) => self.note_token(want, &mut holder, told, want.lease),
            Ok(None) => return self.without(holder, Outcome::Denied),
            Err(Trouble::Refused(..)) => return self.without(holder, Outcome::Refused),
            Err(Trouble::Lost) => return self.withdraw(want, holder),
        }
        holder.outcome = Outcome::Held;
        let since = holder.requested;
        self.confirmed(&mut holder, since, want.lease);
        let heir = self.joins(want);
        self.sleep_us(0, 1_000_000);
        self.give_back(want, holder);
        if let Some(heir) = heir {
            self.await_message(want, heir, false);
        }
    }
}
