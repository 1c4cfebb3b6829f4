//! Histories of a server with locks, in `rlock-core` and in an oracle side by side.

#![no_main]

use rlock_oracle::operations::{self, History};

libfuzzer_sys::fuzz_target!(|history: History| operations::check(&history));
