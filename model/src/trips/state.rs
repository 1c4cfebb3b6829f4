//! A state of clients and server, and the state after one step.

use std::fmt;

use rlock_core::locks::{Lens, LockName, Locks, Ticket};
use rlock_core::{Expiry, UnixMs};
use rlock_machine::{MS, Nanos, State as Stage};
use rlock_sim::{Sim, Value, World};

use super::client::Client;
use super::network::Way;
use super::server::{CONFIRM_MS, channel, settings};

/// What may happen between clients and server.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Trips {
    /// Its name on the command line.
    pub(crate) name: &'static str,
    /// A summary.
    pub(crate) about: &'static str,
    /// How many steps to explore.
    pub(crate) depth: u32,
    /// How often something is held up.
    pub(crate) delays: u8,
    /// How many command links and subscriptions break.
    pub(crate) cuts: u8,
    /// How often the server restarts.
    pub(crate) restarts: u8,
    /// How many clients die.
    pub(crate) deaths: u8,
    /// Whether the holds end with their connections.
    pub(crate) session: bool,
}

/// Clients and server.
#[derive(Clone, Debug)]
pub(crate) struct State {
    pub(crate) world: World,
    pub(crate) locks: Locks,
    pub(crate) clients: [Client; 2],
    /// What may yet happen.
    pub(crate) delays: u8,
    pub(crate) cuts: u8,
    pub(crate) restarts: u8,
    pub(crate) deaths: u8,
}

/// One step. The number is the client's. What is on the way arrives at once, and timers fire at once, unless something was held up:
/// this takes the depth of a search for what matters.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Step {
    /// The caller asks for the lock.
    Start(usize),
    /// The caller releases the lock, or has noticed that it is lost.
    Release(usize),
    /// The caller gives up waiting.
    Cancel(usize),
    /// Something is held up from now on.
    Hold(usize, Way),
    /// It is not any more.
    Let(usize, Way),
    /// The command link breaks.
    Cut(usize),
    /// There is another command link.
    Connect(usize),
    /// The subscription breaks, and another one takes its place.
    Resubscribe(usize),
    /// The server reads what is left on a command link that the client has given up.
    ReadLate(usize),
    /// The server learns that this link has ended.
    EndLate(usize),
    /// The server learns that a subscription has ended.
    EndSubscription(usize),
    /// The client dies, and another one takes its place.
    Die(usize),
    /// The server restarts with its data.
    Restart,
    /// Time passes until the next moment at which something ends or is due.
    Pass,
}

impl fmt::Display for Step {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{self:?}")
    }
}

impl State {
    /// The time of the clients' clocks.
    pub(crate) fn now(&self) -> Nanos {
        i64::try_from(self.world.clock.0).unwrap_or(i64::MAX / MS) * MS
    }

    /// Works on the server, and passes its messages on.
    pub(crate) fn serve<T>(&mut self, work: impl FnOnce(&Sim) -> T) -> T {
        let sim = Sim::resume(self.world.clone(), std::mem::take(&mut self.locks));
        let result = work(&sim);
        (self.world, self.locks) = sim.into_parts();
        for message in std::mem::take(&mut self.world.messages) {
            let to = self.clients.iter_mut().find(|client| {
                *message.channel == channel(client.id, client.links.channel) && message.received
            });
            // A message to a subscription that was given up is lost.
            if let Some(client) = to {
                client.links.messages.push_back(message.text.into());
            }
        }
        self.world.unsubscribed.clear();
        result
    }

    /// In how many ms the next thing ends or is due.
    pub(crate) fn next_moment(&self) -> Option<u64> {
        let (now, unix) = (self.now(), self.world.now);
        let timers = self.clients.iter().filter_map(|client| client.timer);
        // From here on a message is too old to be held at once.
        let halves = self.clients.iter().filter_map(|client| {
            let lease = CONFIRM_MS * MS;
            client.first_sent.map(|sent| sent + lease - lease / 100 - 2 * MS - lease / 2 + MS)
        });
        let clients = timers.chain(halves).map(|at| (at - now + MS - 1) / MS);
        let keys = self.world.keys.values().filter_map(|value| match value.expiry() {
            Expiry::At(at) => Some(at.0 - unix.0 + 1),
            Expiry::Never => None,
        });
        let timer = self.world.timer.map(|at| i64::try_from(at.0).unwrap_or(i64::MAX) - now / MS);
        let moments = clients.chain(keys).chain(timer).filter(|ms| *ms > 0);
        moments.min().and_then(|ms| u64::try_from(ms).ok())
    }

    /// Whether nothing is left to do for a client, and nothing on the way.
    pub(crate) fn is_quiet(&self) -> bool {
        self.clients.iter().all(|client| {
            let (stage, links) = (client.machine.state(), &client.links);
            matches!(stage, Stage::New | Stage::Ended)
                && links.requests.is_empty()
                && links.messages.is_empty()
                && links.late.is_none()
        })
    }

    /// What of the server affects the future.
    pub(crate) fn form(&self) -> Vec<i64> {
        let number = |name: &[u8]| name.iter().skip(1).fold(0, |sum, byte| sum * 16 + i64::from(*byte));
        let mut tickets: Vec<Ticket> = self.locks.calls.tickets().collect();
        tickets.sort_unstable();
        let rank =
            |ticket| tickets.binary_search(&ticket).map_or(-1, |rank| i64::try_from(rank).unwrap_or(-1));
        let lens = Lens {
            now: self.world.now,
            clock: self.world.clock,
            turns: settings().turns,
            ticket: &rank,
            name: &number,
            lock: &|_: LockName<'_>| 0,
            client: &|id| i64::try_from(id).unwrap_or(-1),
        };
        let mut form = vec![self.world.now.0];
        form.push(self.world.timer.map_or(-1, |at| i64::try_from(at.0).unwrap_or(-1)));
        self.locks.canonical_form(&lens, &mut form);
        for value in self.world.keys.values() {
            if let Value::Lock(hold) = value {
                let ends = if let Expiry::At(UnixMs(at)) = hold.expiry { at } else { -1 };
                form.extend([number(&hold.owner), hold.holds.get(), ends]);
            }
        }
        form.extend(self.world.subscribed.iter().map(|name| number(name)));
        form
    }
}
