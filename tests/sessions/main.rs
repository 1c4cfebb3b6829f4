//! SESSION.

mod session;
mod session_ends;
