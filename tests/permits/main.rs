//! PERMITS.

mod permits;
mod permits_beside;
mod permits_waiting;
