//! What a server has and nobody here knows of, when it has loaded it, gets it with a slot, or becomes the primary.
//!
//! - Those who stand in Redisson's fair queues: nobody here knows whether they live. Natives among them have gone with
//!   the server that they waited at, and nobody would take them out.
//! - Read leases: Redisson's renewal of another reader would end a longer one of ours. Those that come with a slot are
//!   known as soon as anybody has waited here or read, since which time changes of keys are heard of.
//!
//! The keys are gone through a few at a time, at each beat; what is to be written is the timer's.

use std::cell::RefCell;
use std::collections::VecDeque;

use rlock_core::bugs::{Bug, planted};
use rlock_core::queue::LockId;
use rlock_core::{foreign, names, timer};

use crate::ffi::{Ctx, Scan, Shared, is_primary, listen_to_keys};

/// How many steps are gone at a beat, each of a key or a few: a beat takes some 3 ms, and a million keys half a minute, for
/// which Redisson's watchdog lets a lock live.
const STEPS_AT_A_BEAT: u32 = 4_000;

/// After so many finds a beat goes no further.
const FINDS_AT_A_BEAT: usize = 200;

/// So many keys that have come are remembered, and each is looked at so often: its lock may come after it.
const ARRIVALS: usize = 10_000;
const LOOKS_AT_AN_ARRIVAL: u32 = 100;

/// What is looked for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sought {
    /// Who waits, and read leases.
    All,
    /// Who waits by Redisson's protocol is known by its own server to live.
    ReadLeases,
}

/// Where the search has come to.
struct Search {
    sought: Sought,
    db: i32,
    scan: Scan,
}

static SEARCH: Shared<RefCell<Option<Option<Search>>>> = Shared::lazy();

/// A lease key that has come, and how often it is to be looked at.
struct Arrival {
    db: i32,
    key: Box<[u8]>,
    looks: u32,
}

static ARRIVED: Shared<RefCell<Option<VecDeque<Arrival>>>> = Shared::lazy();

/// A key has come from another server: it is looked at with the next beats.
pub(crate) fn arrived(ctx: Ctx<'_>, key: &[u8]) {
    if !names::is_read_lease_key(key) {
        return;
    }
    ARRIVED.with(|arrived| {
        if arrived.len() < ARRIVALS {
            arrived.push_back(Arrival { db: ctx.db(), key: key.into(), looks: LOOKS_AT_AN_ARRIVAL });
        }
    });
}

/// Looks at some of the lease keys that have come.
fn look_at_arrivals(ctx: Ctx<'_>) {
    let some =
        |arrived: &mut VecDeque<Arrival>| arrived.drain(..arrived.len().min(FINDS_AT_A_BEAT)).collect();
    let some: Vec<Arrival> = ARRIVED.with(some);
    for Arrival { db, key, looks } in some {
        let looks = if look_at_lease(ctx, db, &key) { 0 } else { looks.saturating_sub(1) };
        if looks > 0 {
            ARRIVED.with(|arrived| arrived.push_back(Arrival { db, key, looks }));
        }
    }
}

/// Begins to look for them, from the start if it is under way.
pub(crate) fn look_for(sought: Sought) {
    let search = Search { sought, db: 0, scan: Scan::new() };
    drop(SEARCH.with(|under_way| under_way.replace(search)));
}

/// Forgets the search and what has come; called when the module is unloaded, too.
pub(crate) fn tear_down() {
    SEARCH.clear();
    ARRIVED.clear();
}

/// Goes on with the search, if there is one. A replica leaves it to its primary, and begins anew when it is promoted.
pub(crate) fn look_on(ctx: Ctx<'_>) {
    if !is_primary(ctx) {
        return tear_down();
    }
    // As the timer does: to look at a lease that has ended deletes its key.
    if !ctx.may_write() {
        return;
    }
    look_at_arrivals(ctx);
    let Some(mut search) = SEARCH.with(Option::take) else { return };
    if !ctx.select(search.db) {
        return;
    }
    let (found, more) = steps(&mut search, ctx);
    let next =
        if more { search } else { Search { db: search.db.saturating_add(1), scan: Scan::new(), ..search } };
    SEARCH.with(|under_way| under_way.replace(next));
    for find in found {
        match find {
            Find::Queue(lock) => timer::fair_queue_found(&ctx, lock),
            Find::Lease(db, key) => drop(look_at_lease(ctx, db, &key)),
        }
    }
}

/// A key that is worth a look.
enum Find {
    Queue(LockId),
    Lease(i32, Box<[u8]>),
}

/// Goes the steps of one beat: what was found, and whether there may be more in this database.
fn steps(search: &mut Search, ctx: Ctx<'_>) -> (Vec<Find>, bool) {
    let Search { sought, db, ref mut scan } = *search;
    let mut found = Vec::new();
    for _ in 0..STEPS_AT_A_BEAT {
        let more = scan.step_keys(ctx, |key| {
            let queue = names::lock_of_fair_queue(key).filter(|_| sought == Sought::All);
            found.extend(queue.map(|name| Find::Queue(LockId { db, key: name.into() })));
            found.extend(names::is_read_lease_key(key).then(|| Find::Lease(db, key.into())));
        });
        if !more || found.len() >= FINDS_AT_A_BEAT {
            return (found, more);
        }
    }
    (found, true)
}

/// A key that looks like a reader's lease: tells the rules of it; false if there is no such reader.
fn look_at_lease(ctx: Ctx<'_>, db: i32, key: &[u8]) -> bool {
    let is_one = |(name, reader): (&[u8], &[u8])| {
        foreign::read_lease_found(&ctx, &LockId { db, key: name.into() }, reader)
    };
    // Redisson's renewals are heard of from now on, if the server lets us.
    let found = !planted(Bug::EdgeReadLeaseUnknown) && names::readers_of_lease_key(key).any(is_one);
    if found {
        let _ = listen_to_keys(ctx);
    }
    found
}
