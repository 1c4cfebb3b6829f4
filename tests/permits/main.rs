//! PERMITS.

mod permits;
mod permits_waiting;
