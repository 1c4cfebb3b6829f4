//! Histories of what happens to a server with locks: in `rlock-core`, in a simulated server, and in an
//! oracle that says what should be seen. After each step everything that shows is compared.

mod commands;
mod happenings;
mod hash;
mod op;
mod read_write;
mod real;
mod redisson;
mod run;
mod serving;
mod state;
mod told;

pub use op::{
    CHANNELS, Channel, Count, Foreign, Ground, History, Kinds, LOCKS, Lock, Ms, OWNERS, Op, Options, Owner,
    Script, Span, Wait, WaitMs, Word,
};
pub use run::check;
