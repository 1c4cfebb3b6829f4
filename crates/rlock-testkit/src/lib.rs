//! Real servers for rlock's tests: started, awaited and always stopped.
//!
//! * [`TestServer`] runs one server of its own per test, on a free port and in a temporary
//!   directory, with the freshly built module loaded ([`module_path()`]).
//! * [`eventually`] and [`Subscriber`] wait for things without fixed sleeps.
//! * [`ReplicaStream`] and [`aof_commands`] show exactly what a server replicates and persists.
//! * [`docs`] holds what `tests/docs.rs` needs to run the examples of the documentation.
//!
//! Everything panics with a message that says what to do: a test has no better use for an error.

// One place needs it: process.rs, with the reason.
#![deny(unsafe_code)]

mod aof;
mod binary;
mod builder;
mod cli;
mod client;
mod conf;
mod datadir;
pub mod docs;
mod module;
mod port;
mod process;
mod replica_stream;
mod replication;
mod server;
mod subscriber;
mod version;
mod wait;
mod wire;

pub use aof::{aof_all_commands, aof_commands};
pub use builder::{ServerBuilder, StartFailure};
pub use datadir::DataDir;
pub use module::{fault_module_path, module_path, reacting_module_path};
pub use port::free_port;
pub use replica_stream::ReplicaStream;
pub use replication::wait_for_replicas_in_sync;
pub use server::{Stopped, TestServer};
pub use subscriber::Subscriber;
pub use version::{ServerName, ServerVersion};
pub use wait::eventually;

/// A command as a server replicates or persists it: its words, the name first.
pub type Command = Vec<Vec<u8>>;
