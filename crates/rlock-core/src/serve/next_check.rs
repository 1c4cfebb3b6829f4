//! When a lock with waiters is checked next.

use crate::access::Access;
use crate::first::Dead;
use crate::locks::Due;
use crate::port::Server;
use crate::timing::check_soon;
use crate::turn::Turn;
use crate::types::{LeaseMs, Wanted};
use crate::yielding::expire_window;

/// The time until the next check of a free lock that was not granted.
const AGAIN: LeaseMs = LeaseMs::SHORTEST;

impl<P: Server> Turn<'_, '_, P> {
    /// Sets the next check of a lock with waiters: after its lease end, or at the end of a yield window or of a Redisson turn; now, if its
    /// permits need a repair.
    pub(crate) fn schedule_next_check(&mut self) {
        let held_against = self.schedule_without_repair();
        if matches!(held_against, Some(Wanted::Permit(_))) && self.needs_repair() {
            check_soon(self.at.node, self.at.name());
        }
    }

    /// As [`Self::schedule_next_check`], but permits stay as they are. Returns what the first waiter wants, if it cannot have that now.
    pub(crate) fn schedule_without_repair(&mut self) -> Option<Wanted> {
        let (wanted, access) = self.first_access(Dead::Stay)?;
        let is_held = matches!(access, Access::Until { .. });
        let at = &self.at;
        match access {
            Access::Free | Access::Shared => {
                let (now, window) = (at.node.port.now(), expire_window(at.node, at.name()));
                let redisson_turn = at.fair_turn_ends().map(|until| until.after(LeaseMs::SHORTEST));
                at.locks(|locks, lock| {
                    let again = now.after(window.unwrap_or(AGAIN));
                    // The turn of a Redisson waiter begins after the window. Before it, the deadline is the waiter's own.
                    let turn = redisson_turn.filter(|_| window.is_none());
                    locks.check_at(lock, Some(Due::At(turn.map_or(again, |turn| turn.max(again)))));
                });
            }
            Access::InDoubt => at.locks(|locks, lock| locks.note_in_doubt(lock)),
            Access::Until { until, key_end } => at.locks(|locks, lock| {
                locks.records.note_unserved(lock, false);
                locks.found_held(lock, key_end, until);
            }),
        }
        is_held.then_some(wanted)
    }
}
