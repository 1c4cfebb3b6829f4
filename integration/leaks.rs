//! Nothing is left behind: the server's memory after very many cycles of every kind is what it was before.
//!
//! `RLOCK_LEAK_CYCLES` says how many contended cycles; `make leaks` asks for a million.

#[path = "leaks/calls.rs"]
mod calls;
#[path = "leaks/memory.rs"]
mod memory;
#[path = "leaks/modes.rs"]
mod modes;
#[path = "leaks/report.rs"]
mod report;
#[path = "leaks/valgrind.rs"]
mod valgrind;
#[path = "leaks/wire.rs"]
mod wire;
#[path = "leaks/work.rs"]
mod work;
