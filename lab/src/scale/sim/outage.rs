//! A primary that fails, and the clients that come back to its replica.

use super::{BEGIN_NS, Event, Input, Simulation};

/// A primary's end, and its replica's promotion.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Outage {
    pub(crate) at_ns: u64,
    pub(crate) stop_ns: u64,
    /// Its clients try again at random within this time.
    pub(crate) retry_ns: u64,
}

impl Simulation {
    /// The first primary fails.
    pub(crate) fn fails(&mut self, outage: Outage) {
        self.retry_ns = outage.retry_ns;
        let at = BEGIN_NS + outage.at_ns;
        self.schedule(at, Event::Fails(0));
        self.schedule(at + outage.stop_ns, Event::Returns(0));
    }

    /// Held locks are replicated, queues are not: their waiters ask again.
    pub(super) fn goes_down(&mut self, primary: u32) {
        let mut lost = Vec::new();
        let places = &self.places;
        self.queues.retain(|lock, queue| {
            let stays = u32::from(places[*lock as usize]) != primary;
            if !stays {
                lost.extend(queue.drain(..).map(Input::Command));
            }
            stays
        });
        let it = &mut self.primaries[primary as usize];
        it.is_down = true;
        it.inbox.append(&mut lost);
    }

    pub(super) fn returns(&mut self, primary: u32) {
        let it = &mut self.primaries[primary as usize];
        it.is_down = false;
        for input in std::mem::take(&mut it.inbox) {
            match input {
                Input::Expired(lock) => self.schedule(self.now, Event::Expires(lock)),
                Input::Command(process) => {
                    let again = self.now + self.retries.below(self.retry_ns.max(1));
                    self.schedule(again, Event::Arrives(process));
                }
            }
        }
    }
}
