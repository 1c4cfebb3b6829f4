//! Slots that move.

use std::sync::Arc;
use std::thread::sleep;
use std::time::Duration;

use super::Faults;
use crate::dice::Dice;
use crate::history::Harm;
use crate::places::Place;
use crate::plan::Fault;

/// The words of servers between which a slot moves.
const MOVES: &[&str] = &["moved", "TRYAGAIN", "ASK"];

/// How long the copy of a key takes where a slot moves as a whole, in microseconds.
const COPY_US: [u64; 3] = [0, 20_000, 60_000];

impl Faults {
    /// The slot of a lock moves: key by key, with all keys at once, or as a whole where the servers can.
    pub(super) fn move_slot(&mut self, fault: Fault, dice: &mut Dice, together: bool) {
        let shared = Arc::clone(&self.shared);
        let Place::Cluster(cluster) = &shared.place else { return };
        let key = dice.below(shared.scene.keys.len() as u64) as usize;
        let whole = cluster.moves_whole_slots() && dice.one_in(2);
        let copy_us = dice.one_of(&COPY_US);
        if whole {
            shared.recorder.count(&format!("fault: {} as a whole", fault.name()));
        }
        let (name, begin) = (&shared.scene.keys[key].name, self.now());
        let mut trouble = None;
        for _ in 0..50 {
            let moved = if whole {
                cluster.move_whole_slot_of(name, copy_us)
            } else {
                cluster.move_slot_of(name, together)
            };
            trouble = moved.err();
            if trouble.is_none() {
                break;
            }
            sleep(Duration::from_millis(20));
        }
        if let Some(error) = trouble {
            shared.recorder.violation("move", key, format!("the slot of {name} does not move: {error}"));
        }
        // Waiters there may learn this only by the next beat.
        sleep(Duration::from_millis(300));
        self.event(fault, begin, Some(key), Harm { places: true, answers: MOVES, ..Harm::STALLS });
    }
}
