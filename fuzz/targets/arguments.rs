//! Any bytes as the arguments of every command, and as names.

#![no_main]

libfuzzer_sys::fuzz_target!(|line: &[u8]| rlock_oracle::arguments::check(line));
