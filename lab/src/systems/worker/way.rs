//! The ways of the systems whose protocol this program speaks.

use std::sync::atomic::AtomicBool;

use super::dflockd::Dflockd;
use super::postgres::Postgres;
use super::redis::{Command, Poller, Rlock};
use crate::systems::system::System;

/// One client of a system, with a connection.
pub(in crate::systems) trait Way: Send {
    /// Waits for the lock; `false` if the client stops because of `leaving`, as pollers do. After that nothing is measured.
    fn acquire(&mut self, key: &str, leaving: &AtomicBool) -> bool;
    /// Releases the lock, and awaits the answer.
    fn release(&mut self, key: &str);
    /// Renews the lock, where a lease is renewed by a command of the lock.
    fn renew(&mut self, key: &str) {
        panic!("{key}: nothing to renew");
    }
    /// How many clients wait for the lock.
    fn waiting(&mut self, key: &str) -> usize;
    /// Leaves the lock to others for a while before it asks again.
    fn pause(&self) {}
}

/// Connects a client.
pub(super) fn connect(system: &str, port: u16, lease_ms: &str) -> Box<dyn Way> {
    match System::named(system) {
        Some(System::Rlock | System::RlockValkey) => Box::new(Rlock::connect(port, lease_ms, &[])),
        Some(System::RlockSession) => Box::new(Rlock::connect(port, lease_ms, &["SESSION", "1000"])),
        Some(System::RlockDurable) => Box::new(Rlock::connect(port, lease_ms, &[]).durable()),
        Some(System::SetRedis) => Box::new(Poller::connect(port, lease_ms, Command::Delex)),
        Some(System::SetValkey) => Box::new(Poller::connect(port, lease_ms, Command::DelIfEq)),
        Some(System::Postgres) => Box::new(Postgres::connect(port)),
        Some(System::Dflockd) => Box::new(Dflockd::connect(port, lease_ms)),
        other => panic!("not a system of this program: {system}, {other:?}"),
    }
}
