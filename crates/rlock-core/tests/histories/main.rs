//! Histories that once went wrong, or that chance seldom finds, in `rlock-core` and in the oracle side by side.

mod build;
mod channels;
mod fuzz_finds;
mod plain;
mod read_write;
mod writers;
