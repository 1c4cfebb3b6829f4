//! How long a grant may be late, and how long other clients may wait meanwhile.

mod dead_readers;
mod late_grants;
mod long_names;
mod stalls;
