//! Those who stand in Redisson's fair queues when a server has loaded them, or becomes the primary: nobody here knows
//! whether they live. Natives among them have gone with the server that they waited at, and nobody would take them out.
//!
//! The keys are gone through a few at a time, at each beat; what is to be done is the timer's.

use std::cell::RefCell;

use rlock_core::queue::LockId;
use rlock_core::{names, timer};

use crate::ffi::{Ctx, Scan, Shared, is_primary};

/// How many steps are gone at a beat, each of a few keys: a million keys take some minutes, and a beat some 100 us.
const STEPS_AT_A_BEAT: u32 = 500;

/// Where the search has come to.
struct Search {
    db: i32,
    scan: Scan,
}

static SEARCH: Shared<RefCell<Option<Option<Search>>>> = Shared::lazy();

/// Begins to look for them, from the start if it is under way.
pub(crate) fn look_for() {
    let search = Search { db: 0, scan: Scan::new() };
    drop(SEARCH.with(|under_way| under_way.replace(search)));
}

/// Gives back what the search holds; called when the module is unloaded.
pub(crate) fn tear_down() {
    SEARCH.clear();
}

/// Goes on with the search, if there is one. A replica leaves it to its primary, and begins anew when it is promoted.
pub(crate) fn look_on(ctx: Ctx<'_>) {
    let Some(mut search) = SEARCH.with(Option::take) else { return };
    if !is_primary(ctx) || !ctx.select(search.db) {
        return;
    }
    let mut found = Vec::new();
    let each = |key: &[u8]| {
        let lock = names::lock_of_fair_queue(key);
        found.extend(lock.map(|name| LockId { db: search.db, key: name.into() }));
    };
    if steps(&mut search.scan, ctx, each) {
        SEARCH.with(|under_way| under_way.replace(search));
    } else {
        let next = Search { db: search.db.saturating_add(1), scan: Scan::new() };
        SEARCH.with(|under_way| under_way.replace(next));
    }
    for lock in found {
        timer::fair_queue_found(&ctx, lock);
    }
}

/// Goes the steps of one beat; false if there are no more keys.
fn steps(scan: &mut Scan, ctx: Ctx<'_>, mut each: impl FnMut(&[u8])) -> bool {
    (0..STEPS_AT_A_BEAT).all(|_| scan.step_keys(ctx, &mut each))
}
