//! Loading, refused loads and unloads, and panics.

mod guard;
mod lifecycle;
mod refused_loads;
mod refused_unloads;
