//! rlock: distributed locks as native commands of Redis and Valkey.
//!
//! - [`module`]: what the server calls: load, events, the timer, INFO.
//! - [`command`]: one file per command: parse, decide, perform.
//! - [`keyspace`]: what a key holds, read as the state of a lock.
//! - [`readers`]: the readers of a read/write lock.
//! - [`permits`]: the permits of a lock, in its sorted set.
//! - [`fair`]: Redisson's fair list of a lock.
//! - [`perform`]: the one executor of decisions: write, replicate, notify, publish.
//! - [`effects`]: whether effects have readers, such as replicas and the AOF.
//! - [`scope`]: the kind of callback in which a lock is changed: a command, or none.
//! - [`site`]: what the rules ask of a server, answered by this one.
//! - [`waiters`]: the queues, the blocked clients, the timer.
//! - [`arriving`]: slots whose keys arrive before the slot itself.
//! - [`discovery`]: waiters and read leases that the module does not know, after a start or a promotion.
//! - [`server_events`]: changes of keys and of the server outside RLOCK commands.
//! - [`options`]: the options `rlock.*`.
//! - [`stats`]: the counters and the section of rlock in INFO.
//! - [`eviction`]: the warning that locks may be evicted.
//! - [`server_fault`]: the warning about servers that lose data of any key.
//! - [`ffi`]: the server's C API, and every `unsafe`.
//!
//! The decisions themselves, and the steps around them, are in the crate `rlock-core`, which knows no server.

// Input reaches these lines: a panic in a module takes a database away.
#![warn(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]
#![warn(clippy::arithmetic_side_effects, clippy::panic)]
// The page of links above is for readers of the source; nothing here is public to other crates.
#![allow(rustdoc::private_intra_doc_links)]

mod arriving;
mod command;
mod discovery;
mod effects;
mod eviction;
mod fair;
#[expect(unsafe_code, reason = "it speaks to the server")]
mod ffi;
mod keyspace;
mod module;
mod options;
mod perform;
mod permits;
mod readers;
mod scope;
mod server_events;
mod server_fault;
mod site;
mod stats;
mod waiters;

ffi::entry_points!(module::Rlock);

#[global_allocator]
static ALLOCATOR: ffi::ServerAllocator = ffi::ServerAllocator;
