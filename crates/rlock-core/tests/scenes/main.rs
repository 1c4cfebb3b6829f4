//! Scenes that the oracle does not know, step by step in `rlock-core`.

mod dead_readers;
mod fair;
mod fair_regressions;
mod fair_scene;
mod half_done;
mod much_at_once;
mod not_blocked;
mod sessions;
mod swapped;
mod writers_turns;
