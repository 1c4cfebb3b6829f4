//! Broken connections, outages and restarts.

mod faults;
mod outage;
