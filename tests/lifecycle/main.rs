//! Loading, refused loads and unloads, the allocator, and panics.

mod allocator;
mod guard;
mod lifecycle;
mod refused_loads;
mod refused_unloads;
