//! Slots whose keys arrive before the slot itself, since all their keys change servers at one moment.
//!
//! Until that moment the other server decides: it renews leases of keys that are here already, and the renewals follow the keys. A
//! lease that has ended by this server's clock may last on the other. If the module opened its key outside a command, this server
//! would delete the key, and a holder would lose its lock. Clients' commands do not reach the module: the server redirects them.

use std::cell::RefCell;

use rlock_core::facts::WriteAccess;
use rlock_core::slots::{SlotRange, SlotSet};

use crate::ffi::{Ctx, Shared, StringRef};

static ARRIVING: Shared<RefCell<Option<SlotSet>>> = Shared::lazy();

/// The keys of these slots begin to arrive.
pub(crate) fn begin(ranges: &[SlotRange]) {
    ARRIVING.with(|arriving| arriving.add(&SlotSet::of(ranges)));
}

/// These slots have arrived, or will not arrive.
pub(crate) fn end(ranges: &[SlotRange]) {
    ARRIVING.with(|arriving| arriving.remove(&SlotSet::of(ranges)));
}

/// Whether a key's slot has yet to arrive. The server has the last word: a slot that it owns is here.
pub(crate) fn is_arriving(ctx: Ctx<'_>, key: StringRef<'_>) -> bool {
    ARRIVING.with(|arriving| arriving.has(key.bytes())) && ctx.write_access(key) != WriteAccess::Allowed
}
