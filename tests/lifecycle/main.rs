//! Loading and unloading, and panics.

mod guard;
mod lifecycle;
mod refused_loads;
