//! Waiters by RLOCK.ACQUIRE … BLOCK, each with a separate connection.

use super::fleet::{Clients, Fleet};
use super::tally::{LEASE, LOCK, Tally, owner};
use crate::resp::{Reply, command};

/// The clients; the number of a connection is that of its client.
pub(crate) struct Block {
    tally: Tally,
    /// The current acquisition of each client.
    numbers: Vec<usize>,
    begun: bool,
}

impl Block {
    /// Starts this many clients; the first takes the lock.
    pub(crate) fn start(clients: usize, fleet: &mut Fleet) -> Block {
        let mut block = Block { tally: Tally::new(clients), numbers: (0..clients).collect(), begun: false };
        block.acquire(0, fleet);
        block
    }

    fn acquire(&mut self, client: usize, fleet: &mut Fleet) {
        self.numbers[client] += self.numbers.len();
        let owner = owner(self.numbers[client]);
        let words = ["RLOCK.ACQUIRE", LOCK, &owner, LEASE, "HOLDS", "1", "BLOCK", "0"];
        fleet.send(client, &command(&words));
    }
}

impl Clients for Block {
    fn on_reply(&mut self, client: usize, reply: &Reply<'_>, fleet: &mut Fleet) {
        match reply {
            Reply::Array(_) if !self.begun => {
                self.begun = true;
                for waiter in 1..self.numbers.len() {
                    self.acquire(waiter, fleet);
                    self.tally.waits();
                }
            }
            Reply::Array(_) => {
                self.tally.granted(client, fleet.arrived(client));
                fleet.after(self.tally.hold, client);
            }
            Reply::Int(1) => self.acquire(client, fleet),
            other => panic!("client {client} got {other:?}"),
        }
    }

    fn on_timer(&mut self, client: usize, fleet: &mut Fleet) {
        let owner = owner(self.numbers[client]);
        let release = command(&["RLOCK.RELEASE", LOCK, &owner, "HOLDS", "0"]);
        self.tally.releases();
        fleet.send(client, &release);
    }

    fn tally(&mut self) -> &mut Tally {
        &mut self.tally
    }
}
