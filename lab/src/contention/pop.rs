//! Waiters by BLPOP on a list that holds a token while the lock is free: the cost of the server's queue of
//! blocked clients. (It is not a usable lock: if a holder dies, its token never comes back.)

use super::fleet::{Clients, Fleet};
use super::tally::{LOCK, Tally};
use crate::resp::{Reply, command};

/// The clients; the number of a connection is that of its client.
pub(crate) struct Pop {
    tally: Tally,
}

impl Pop {
    /// Starts this many clients; the first has the token.
    pub(crate) fn start(clients: usize, fleet: &mut Fleet) -> Pop {
        let mut tally = Tally::new(clients);
        for waiter in 1..clients {
            fleet.send(waiter, &command(&["BLPOP", LOCK, "0"]));
            tally.waits();
        }
        Pop { tally }
    }
}

impl Clients for Pop {
    fn on_reply(&mut self, client: usize, reply: &Reply<'_>, fleet: &mut Fleet) {
        match reply {
            Reply::Array(_) => {
                self.tally.granted(client, fleet.arrived(client));
                fleet.after(self.tally.hold, client);
            }
            Reply::Int(_) => fleet.send(client, &command(&["BLPOP", LOCK, "0"])),
            other => panic!("client {client} got {other:?}"),
        }
    }

    fn on_timer(&mut self, client: usize, fleet: &mut Fleet) {
        let release = command(&["RPUSH", LOCK, "token"]);
        self.tally.releases();
        fleet.send(client, &release);
    }

    fn tally(&mut self) -> &mut Tally {
        &mut self.tally
    }
}
