//! Clusters and Sentinel: slots that move, fail-overs.

mod cluster;
mod cluster_changes;
mod cluster_contests;
mod moved;
mod sentinel;
