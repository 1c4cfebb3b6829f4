//! Clusters, and slots that move.

mod cluster;
mod migration;
mod migration_arrivals;
mod migration_modes;
mod migration_ties;
mod permits_elsewhere;
mod whole_slots;
