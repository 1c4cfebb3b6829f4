//! The waiters on channels without a subscriber leave, a few at a time.

use std::iter::from_fn;
use std::rc::Rc;

use super::{LockRef, Locks, Waiter};
use crate::types::MonoMs;
use crate::weight::take_weighed;

impl Locks {
    /// A round of checks of all channels begins, unless one is under way.
    pub fn begin_channel_round(&mut self) {
        if self.channels.begin_round() {
            self.agenda.change();
        }
    }

    /// A channel was checked. If it has no subscriber, as at the check before, its waiters are removed and returned, up to a
    /// weight of `most`. The round continues with the same channel if some are left.
    pub fn channel_checked(
        &mut self,
        channel: &Rc<[u8]>,
        has_subscriber: bool,
        now: MonoMs,
        most: usize,
    ) -> Vec<(LockRef, Waiter)> {
        if !self.channels.checked(channel, has_subscriber, now) {
            return Vec::new();
        }
        let next = || self.channels.first_on(channel).and_then(|ticket| self.leave(ticket));
        let gone = take_weighed(most, from_fn(next)).items;
        self.channels.check_again(channel);
        gone
    }
}
