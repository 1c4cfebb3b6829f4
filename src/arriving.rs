//! Slots whose keys come before the slot does, all of whose keys are to change servers at one moment.
//!
//! Until that moment the other server decides: it renews leases of keys that are here already, and the renewals follow the keys.
//! A lease that has ended here by the clock may last there. The server deletes this key when the module opens it outside a
//! command, and a holder would lose its lock. Clients' commands do not reach the module: the server redirects them.

use std::cell::RefCell;

use rlock_core::facts::WriteAccess;
use rlock_core::slots::{SlotRange, SlotSet};

use crate::ffi::{Ctx, Shared, StringRef};

static ARRIVING: Shared<RefCell<Option<SlotSet>>> = Shared::lazy();

/// The keys of these slots begin to come.
pub(crate) fn begin(ranges: &[SlotRange]) {
    ARRIVING.with(|arriving| arriving.add(&SlotSet::of(ranges)));
}

/// These slots have come, or do not come after all.
pub(crate) fn end(ranges: &[SlotRange]) {
    ARRIVING.with(|arriving| arriving.remove(&SlotSet::of(ranges)));
}

/// Whether a key's slot is still to come. The server has the last word: a slot that it owns is here.
pub(crate) fn is_arriving(ctx: Ctx<'_>, key: StringRef<'_>) -> bool {
    ARRIVING.with(|arriving| arriving.has(key.bytes())) && ctx.write_access(key) != WriteAccess::Allowed
}
