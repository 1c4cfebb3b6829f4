//! When a lock with waiters is checked next.

use crate::access::Access;
use crate::fair;
use crate::first::Dead;
use crate::locks::Due;
use crate::port::{Lock, Server};
use crate::turn::Turn;
use crate::types::LeaseMs;
use crate::yielding::expire_window;

/// The time until the next check of a free lock that was not granted.
const AGAIN: LeaseMs = LeaseMs::SHORTEST;

impl<P: Server> Turn<'_, P> {
    /// Sets the next check of a lock with waiters: after its lease end, or at the end of a yield window or of a Redisson turn.
    pub(crate) fn schedule_next_check(&mut self, lock: &mut P::Lock<'_>) {
        let node = self.node;
        let Some((_, access)) = self.first_access(lock, Dead::Stay) else { return };
        match access {
            Access::Free | Access::Shared => {
                let (now, window) = (node.port.now(), expire_window(node, lock.name()));
                let redisson_turn =
                    fair::fair_turn_ends(node, lock).map(|until| until.after(LeaseMs::SHORTEST));
                node.locks(|locks| {
                    let again = now.after(window.unwrap_or(AGAIN));
                    // The turn of a Redisson waiter begins after the window. Before it, the deadline is the waiter's own.
                    let turn = redisson_turn.filter(|_| window.is_none());
                    locks.check_at(lock.name(), Some(Due::At(turn.map_or(again, |turn| turn.max(again)))));
                });
            }
            Access::InDoubt => node.locks(|locks| locks.note_in_doubt(lock.name())),
            Access::Until { until, key_end } => node.locks(|locks| {
                locks.records.note_unserved(lock.name(), false);
                locks.found_held(lock.name(), key_end, until);
            }),
        }
    }
}
