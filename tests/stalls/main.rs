//! How long a grant may be late, and how long other clients may wait meanwhile.

mod late_grants;
mod stalls;
