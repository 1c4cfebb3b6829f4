//! SESSION.

mod session;
mod session_ends;
mod session_kinds;
