//! lock_all and RedLock, on several servers.

mod all;
mod all_rule;
mod cancel;
mod clusters_and_threads;
mod five;
mod red;
mod red_history;
mod red_keeping;
