//! Nothing is left behind: the server's memory after very many cycles of every kind is what it was before.
//!
//! `RLOCK_LEAK_CYCLES` says how many contended cycles; `make leaks` asks for a million.

mod calls;
mod memory;
mod modes;
mod report;
mod valgrind;
mod wire;
mod work;
