//! Broken connections, outages and restarts.

#![forbid(unsafe_code)]

mod faults;
mod outage;
