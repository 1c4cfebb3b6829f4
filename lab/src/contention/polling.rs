//! Waiters that poll: SET NX PX every 100 ms, released by a compare-and-delete script.

use std::time::Duration;

use super::fleet::{Clients, Fleet};
use super::tally::{LEASE, LOCK, Tally, owner};
use crate::contender::COMPARE_AND_DELETE;
use crate::resp::{Reply, command};
use crate::rng::Rng;

/// The pause between two tries of a waiter, and between a release and the next try of the same client
/// (without it, that client would always win).
const INTERVAL: Duration = Duration::from_millis(100);

/// The client's next step, or the answer that it waits for.
#[derive(Clone, Copy, PartialEq)]
enum State {
    Trying,
    Holding,
    Releasing,
}

/// The clients; the number of a connection is that of its client.
pub(crate) struct Polling {
    tally: Tally,
    states: Vec<State>,
    denied: Vec<bool>,
    rng: Rng,
    begun: bool,
}

impl Polling {
    /// Starts this many clients; the first takes the lock, `seed` decides when the others try.
    pub(crate) fn start(clients: usize, seed: u64, fleet: &mut Fleet) -> Polling {
        let (states, denied) = (vec![State::Trying; clients], vec![false; clients]);
        let polling =
            Polling { tally: Tally::new(clients), states, denied, rng: Rng::new(seed), begun: false };
        polling.try_acquire(0, fleet);
        polling
    }

    fn try_acquire(&self, client: usize, fleet: &mut Fleet) {
        fleet.send(client, &command(&["SET", LOCK, &owner(client), "NX", "PX", LEASE]));
    }

    fn acquired(&mut self, client: usize, fleet: &mut Fleet) {
        self.tally.granted(client, fleet.arrived(client));
        self.states[client] = State::Holding;
        if self.begun {
            return fleet.after(self.tally.hold, client);
        }
        self.begun = true;
        for waiter in 1..self.states.len() {
            let first = self.rng.below(INTERVAL.as_micros() as u64);
            fleet.after(Duration::from_micros(first), waiter);
        }
    }
}

impl Clients for Polling {
    fn on_reply(&mut self, client: usize, reply: &Reply<'_>, fleet: &mut Fleet) {
        match (self.states[client], reply) {
            (State::Trying, Reply::Text(b"OK")) => self.acquired(client, fleet),
            (State::Trying, Reply::Null) => {
                if !std::mem::replace(&mut self.denied[client], true) {
                    self.tally.waits();
                }
                fleet.after(INTERVAL, client);
            }
            (State::Releasing, Reply::Int(1)) => {
                self.states[client] = State::Trying;
                fleet.after(INTERVAL, client);
            }
            (_, other) => panic!("client {client} got {other:?}"),
        }
    }

    fn on_timer(&mut self, client: usize, fleet: &mut Fleet) {
        if self.states[client] == State::Holding {
            self.states[client] = State::Releasing;
            let release = command(&["EVAL", COMPARE_AND_DELETE, "1", LOCK, &owner(client)]);
            self.tally.releases();
            fleet.send(client, &release);
        } else {
            self.try_acquire(client, fleet);
        }
    }

    fn tally(&mut self) -> &mut Tally {
        &mut self.tally
    }
}
