//! FAIR, beside Redisson's fair lock.

mod fair;
mod fair_after_load;
mod fair_scripts;
mod fair_turns;
mod scene;
