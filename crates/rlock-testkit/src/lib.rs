//! Real servers for rlock's tests: started, awaited and always stopped.
//!
//! * [`TestServer`] runs one server of its own per test, on a free port and in a temporary
//!   directory, with the freshly built module loaded ([`module_path()`]).
//! * [`eventually`], [`wait_for`] and [`Subscriber`] wait for things without fixed sleeps.
//! * [`ReplicaStream`] and [`aof_commands`] show exactly what a server replicates and persists.
//! * [`commands`] sends lines and shows replies as text, [`waiting::Waiting`] is a call that waits.
//! * [`prelude`] names what most tests use.
//! * [`redisson`] has Redisson's scripts, [`fair_list`] a fair list of owners that are gone.
//! * [`kinds`] and [`held`] have locks of every kind, held and awaited: on one server, and on several.
//! * [`clients`] has what the tests of the Rust client share: connections, proxies, processes, clusters.
//! * [`Wire`] speaks the protocol in [`Frame`]s, [`Inline`] sends lines and compares bytes.
//! * [`nodes`] moves a slot between two nodes of a cluster, [`valgrind`] runs a server in valgrind.
//! * [`screenshot`] draws a terminal's screen, [`rows()`] writes measurements as JSON. [`docs`] holds what `tests/docs.rs` needs to run the examples of the documentation.
//!
//! Everything panics with a message that says what to do: a test has no better use for an error.

mod aof;
mod binary;
mod builder;
mod cli;
mod client;
pub mod clients;
pub mod commands;
mod conf;
mod datadir;
pub mod docs;
mod door;
pub mod fair_list;
mod frame;
pub mod held;
mod inline;
pub mod kinds;
mod module;
pub mod nodes;
mod port;
pub mod prelude;
mod process;
pub mod redisson;
mod replica_stream;
mod replication;
pub mod rights;
mod rows;
pub mod screenshot;
mod server;
mod start;
mod subscriber;
mod tls;
pub mod valgrind;
mod version;
mod wait;
pub mod waiting;
pub mod whole_slots;
mod wire;

pub use aof::{aof_all_commands, aof_commands};
pub use builder::{ServerBuilder, StartFailure};
pub use datadir::DataDir;
pub use door::Door;
pub use frame::{Frame, parse};
pub use inline::Inline;
pub use module::{bare_module_path, fault_module_path, module_path, reacting_module_path};
pub use port::{answering_port, free_port};
pub use replica_stream::{ReplicaStream, shown};
pub use replication::wait_for_replicas_in_sync;
pub use rows::rows;
pub use server::{Stopped, TestServer};
pub use subscriber::Subscriber;
pub use tls::{certificates, tls_server};
pub use version::{ServerName, ServerVersion};
pub use wait::{eventually, poll, wait_for};
pub use wire::Wire;

/// A command as a server replicates or persists it: its words, the name first.
pub type Command = Vec<Vec<u8>>;
