//! The rlock module.
