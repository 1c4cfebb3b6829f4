//! The kinds of locks, options, events and errors, on one server.

mod blocking;
mod cancel;
mod errors;
mod events;
mod examples;
mod fenced;
mod lasting;
mod lock;
mod others;
mod read_write;
mod reentry;
mod scale;
mod session;
mod settings;
#[cfg(feature = "tls")]
mod tls;
