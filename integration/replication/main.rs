//! Replicas, the AOF, and fail-overs.

mod aof;
mod async_load;
mod attach;
mod demotion;
mod demotion_undone;
mod fencing;
mod replication;
