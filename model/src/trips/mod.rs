//! Clients and server together: two clients, each with the machine that all clients have (`rlock-machine`), a link for commands and
//! one for messages, at the simulated server. Links delay what is on the way, and break; a link that the client has given up may
//! still deliver requests, and the server learns late that it has ended. The server restarts with its data, and clients die.
//!
//! The clients hold what a message grants at once. That no two hold at the same time rests on an argument about time, which is
//! explored here: the times are those of real servers, and pass from each moment at which something ends or is due to the next.

mod check;
mod client;
mod network;
mod server;
mod state;
mod steps;

use std::hash::{DefaultHasher, Hash, Hasher};

use rlock_core::locks::Locks;
use rlock_machine::MS;
use rlock_sim::World;

use crate::ghost::Violation;
use crate::search::Space;
use client::Client;
use server::{channel, lock, settings};
pub(crate) use state::Trips;
use state::{State, Step};

/// All of them, in the order of exploration.
pub(crate) const TRIPS: [Trips; 3] = [
    Trips {
        name: "trips",
        about: "two clients wait for one lock, and hold it once the message comes; links are slow, and break",
        depth: 9,
        delays: 2,
        cuts: 1,
        restarts: 0,
        deaths: 0,
        session: false,
    },
    Trips {
        name: "restarts",
        about: "the same while the server restarts with its data",
        depth: 9,
        delays: 1,
        cuts: 0,
        restarts: 1,
        deaths: 1,
        session: false,
    },
    Trips {
        name: "tied",
        about: "the same with sessions, while a client dies",
        depth: 9,
        delays: 1,
        cuts: 1,
        restarts: 0,
        deaths: 1,
        session: true,
    },
];

impl Space for Trips {
    type State = State;
    type Action = Step;

    fn first(&self) -> State {
        let mut world = World::new(settings());
        world.subscribed = (0..2).map(|client| channel(client, 0).into()).collect();
        let mut state = State {
            world,
            locks: Locks::default(),
            clients: [0, 1].map(|id| Client::new(id, self.session)),
            delays: self.delays,
            cuts: self.cuts,
            restarts: self.restarts,
            deaths: self.deaths,
        };
        let begun = steps::begin(self, &mut state);
        assert_eq!(begun, Ok(()), "nothing has gone wrong yet");
        state
    }

    fn possible(&self, state: &State) -> Vec<Step> {
        steps::possible(state)
    }

    fn after(&self, state: &State, step: Step) -> Result<State, Violation> {
        let mut next = state.clone();
        steps::perform(self, &mut next, step)?;
        check::check(&next)?;
        steps::settle(self, &mut next)?;
        Ok(next)
    }

    fn fingerprint(&self, state: &State) -> u64 {
        let mut hasher = DefaultHasher::new();
        state.form().hash(&mut hasher);
        (&state.clients, state.delays, state.cuts, state.restarts, state.deaths).hash(&mut hasher);
        hasher.finish()
    }

    fn summary(&self, state: &State) -> String {
        let holder = state.world.hold(&lock());
        let holder = holder.map_or("free".to_owned(), |hold| {
            let left = hold.expiry.left(state.world.now);
            format!("held by {} for {left} ms", hold.owner.escape_ascii())
        });
        let clients = state.clients.iter().map(|client| {
            let end = client.machine.end_of_hold().saturating_sub(state.now()) / MS;
            let held = if client.believes(state.now()) { format!(" for {end} ms") } else { String::new() };
            format!("{} {:?}{held}", client.owner().escape_ascii(), client.machine.state())
        });
        let clients = clients.collect::<Vec<_>>().join(", ");
        format!("t={}; {holder}; {clients}; {} wait", state.world.clock.0, self.waiting(state))
    }
}

impl Trips {
    fn waiting(&self, state: &State) -> usize {
        state.locks.records.waiting_for(lock().name())
    }
}
