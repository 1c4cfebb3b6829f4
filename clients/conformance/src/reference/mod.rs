//! The reference driver program, on the Rust client; see clients/conformance/PROTOCOL.md.

mod answers;
mod locks;
mod raw;
mod request;
mod serve;
mod wrong;

pub use serve::serve;
pub use wrong::Wrong;
