//! Replicas, the AOF, and fail-overs.

mod aof;
mod attach;
mod demotion;
mod demotion_undone;
mod fencing;
mod replication;
