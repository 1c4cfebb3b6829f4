//! What locks cost, in instructions of the server.
//!
//! Times say little on a machine that is shared; instructions are the same in each run, but for one in a thousand.
//! `make cost STORE=1` stores them for docs/BENCHMARKS.md, on any server.

mod ground;
mod growth;
mod hand_offs;
mod idle;
mod laps;
mod limit;
mod many_permits;
mod plain;
mod profile;
mod session_end;
mod store;
