//! No lock at all: a message from one client to another, as a measure of what any notice takes.

use super::fleet::{Clients, Fleet};
use super::tally::Tally;
use crate::resp::{Reply, command};

/// A publisher on connection 0 and a subscriber on connection 1.
pub(crate) struct Publish {
    tally: Tally,
}

impl Publish {
    /// Subscribes.
    pub(crate) fn start(fleet: &mut Fleet) -> Publish {
        fleet.send(1, &command(&["SUBSCRIBE", "news"]));
        Publish { tally: Tally::new(2) }
    }
}

impl Clients for Publish {
    fn on_reply(&mut self, _: usize, reply: &Reply<'_>, fleet: &mut Fleet) {
        match reply {
            Reply::Array(items) if items[0] == Reply::Text(b"message") => {
                self.tally.granted(1, fleet.arrived(1));
                fleet.after(self.tally.hold, 0);
            }
            Reply::Array(_) => self.tally.waits(),
            Reply::Int(1) => {}
            other => panic!("PUBLISH was answered {other:?}"),
        }
    }

    fn on_timer(&mut self, _: usize, fleet: &mut Fleet) {
        let publish = command(&["PUBLISH", "news", "0"]);
        self.tally.releases();
        fleet.send(0, &publish);
    }

    fn tally(&mut self) -> &mut Tally {
        &mut self.tally
    }
}
