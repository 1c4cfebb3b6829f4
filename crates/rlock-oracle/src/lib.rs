//! A second implementation of rlock: plain, slow, written from docs/COMMANDS.md and without the code of
//! `rlock-core`. The property tests of `rlock-core` and the fuzz targets compare `rlock-core` with it.
//!
//! Checks panic if the two differ: that makes a test or a fuzz target fail.
//!
//! # Layout
//!
//! - [`arguments`]: raw arguments into every parser, names and messages.
//! - [`operations`]: the effects of clients, other programs and time on the locks of a server.

pub mod arguments;
pub mod operations;
