//! What rlock has to do, said a second time: plainly, slowly, from docs/COMMANDS.md and without the code of
//! `rlock-core`. The property tests of `rlock-core` and the fuzz targets run the real thing against it.
//!
//! Checks panic where the two differ: it is how a test and a fuzz target fail.
//!
//! # Layout
//!
//! - [`arguments`]: raw arguments into every parser, names and messages.
//! - [`operations`]: what clients, others, and time do to the locks of a server.

#![forbid(unsafe_code)]

pub mod arguments;
pub mod operations;
