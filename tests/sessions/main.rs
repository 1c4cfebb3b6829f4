//! SESSION.

mod dead_ties;
mod late_calls;
mod session;
mod session_ends;
mod session_kinds;
mod session_shares;
