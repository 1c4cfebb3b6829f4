//! Broken connections, outages and restarts.

mod cluster_faults;
mod faults;
mod outage;
