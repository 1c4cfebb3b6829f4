//! Histories of a server with locks, run in `rlock-core` on a simulated server, and in an oracle that knows the right
//! results. After each step all visible state is compared.

mod after;
mod bytes;
mod check;
mod commands;
mod fair;
mod fair_op;
mod follow;
mod found;
mod happenings;
mod hash;
mod history;
mod looks;
mod op;
mod options;
mod other_write;
mod output;
mod passing;
mod read_write;
mod read_write_end;
mod real;
mod real_other;
mod real_seen;
mod real_words;
mod redisson;
mod redisson_fair;
mod row;
mod run;
mod serving;
mod shown;
mod state;
mod tied_op;
mod values;
mod yielding;

pub use check::check;
pub use fair_op::FairOp;
pub use history::History;
pub use op::{
    ByList, CHANNELS, Channel, Count, FairScript, Ground, LOCKS, Line, Lock, Ms, OWNERS, Op, OtherWrite,
    Owner, Script, Span, Wait, WaitMs, Word,
};
pub use options::{Budget, Kinds, Options, Tied};
pub use output::Published;
pub use run::Run;
pub use shown::Seen;
pub use tied_op::TiedOp;
