//! The conformance suite of rlock's clients: one runner, one protocol, scenarios as data.
//!
//! A client is tested through its *driver program* (clients/conformance/PROTOCOL.md). Between each client and its server
//! stands a proxy, which writes down what passes and holds or cuts by event.

pub mod clock;
mod driver;
mod judge;
mod mixed;
mod moves;
mod process;
mod proxy;
pub mod reference;
mod run;
mod scenario;
mod suite;

pub use driver::Launch;
pub use mixed::mixed;
pub use moves::{Way, moves};
pub use reference::Wrong;
pub use suite::{Choice, Drivers, Report, clients, launch, suite};
