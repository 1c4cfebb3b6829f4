//! From results to docs/BENCHMARKS.md and its plots.

pub(crate) mod doc;
pub(crate) mod plots;
mod readme;
mod stalls;
mod targets;
pub(crate) mod template;
#[cfg(test)]
mod tests;
pub(crate) mod theme;
