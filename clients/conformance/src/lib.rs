//! The conformance suite of rlock's clients.

pub mod machine;
