//! From results to docs/BENCHMARKS.md and its plots.

pub(crate) mod client;
mod clients;
pub(crate) mod doc;
mod limits;
pub(crate) mod plots;
mod prose;
mod readme;
mod redisson;
mod stalls;
pub(crate) mod tables;
mod targets;
pub(crate) mod theme;
