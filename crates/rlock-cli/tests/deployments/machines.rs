//! Several machines with one job, some of which die, as the primary does: `make jobs` runs these.

mod figures;
mod leaders;
mod once;
#[path = "../cli/support/mod.rs"]
mod support;
