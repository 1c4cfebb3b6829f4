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

pub(crate) use state::Trips;

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
