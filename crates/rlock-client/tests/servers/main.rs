//! Clusters and Sentinel: slots that move, fail-overs.

#![forbid(unsafe_code)]

mod cluster;
mod cluster_changes;
mod cluster_contests;
mod cluster_faults;
mod moved;
mod sentinel;
