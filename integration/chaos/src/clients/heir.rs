//! One that waits for its own lock to be free: so that in every round somebody is next when no token can be given, and
//! nobody else comes to the lock who would show it.

use super::desk::Desk;
use super::native::Want;

impl Desk {
    /// Holds the lock for up to a second; then who waits behind it is to have it, or to be told why not.
    pub(crate) fn heir(&mut self, want: &Want) {
        let Some(holder) = self.takes(want) else { return };
        let heir = self.joins(want);
        self.sleep_us(0, 1_000_000);
        self.give_back(want, holder);
        if let Some(heir) = heir {
            self.await_message(want, heir, false);
        }
    }
}
