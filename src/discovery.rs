//! What a server has and nobody here knows of, when it has loaded it, gets it with a slot, or becomes the primary.
//!
//! - Those who stand in Redisson's fair queues: nobody here knows whether they live. Natives among them have gone with
//!   the server that they waited at, and nobody would take them out.
//! - Read leases: Redisson's renewal of another reader would end a longer one of ours.
//!
//! All keys are gone through a few at a time, at each beat, and those that come one by one are looked at; what is to be
//! written is the timer's.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;

use rlock_core::bugs::{Bug, planted};
use rlock_core::locks::{LockName, LockRef};
use rlock_core::{events, names, read_repair};

use crate::ffi::{Ctx, Scan, Shared, TaskCtx, is_primary, listen_to_keys};
use crate::waiters;

/// How many steps are gone at a beat, each of a key or a few: a beat takes some 3 ms, and a million keys half a minute, for
/// which Redisson's watchdog lets a lock live.
const STEPS_AT_A_BEAT: u32 = 4_000;

/// After so many finds a beat goes no further.
const FINDS_AT_A_BEAT: usize = 200;

/// So many keys that have come are remembered, none of them with a longer name, and a beat looks at so many of them, leases
/// of a lock included.
const ARRIVALS: usize = 10_000;
const LONGEST_NAME: usize = 1_024;
const LOOKS_AT_A_BEAT: usize = 1_000;

/// Whether keys have come at all is asked of the server's statistics every so many beats, until they have.
const BEATS_BETWEEN_QUESTIONS: u32 = 10;

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
    /// What is to be looked for after it.
    again: Option<Sought>,
}

static SEARCH: Shared<RefCell<Option<Option<Search>>>> = Shared::lazy();

/// The keys that have come from another server, and are to be looked at.
#[derive(Default)]
struct Arrived {
    keys: VecDeque<(i32, Box<[u8]>)>,
    /// Whether there were more than are remembered.
    more: bool,
}

static ARRIVED: Shared<RefCell<Option<Arrived>>> = Shared::lazy();

/// A key has come from another server: it is looked at with the next beats.
pub(crate) fn arrived(ctx: Ctx<'_>, key: &[u8]) {
    ARRIVED.with(|arrived| {
        if arrived.keys.len() < ARRIVALS && key.len() <= LONGEST_NAME {
            arrived.keys.push_back((ctx.db(), key.into()));
        } else {
            arrived.more = true;
        }
    });
}

/// Looks at some of the keys that have come. Of a lock and its leases each may be the one that comes last.
fn check_arrivals(ctx: TaskCtx<'_>) {
    let mut looks = 0_usize;
    while looks < LOOKS_AT_A_BEAT {
        let Some((db, key)) = ARRIVED.with(|arrived| arrived.keys.pop_front()) else { break };
        looks = looks.saturating_add(check_arrival(ctx, db, key));
    }
    // What was not remembered is looked for when no more come.
    let all_came = |arrived: &mut Arrived| arrived.keys.is_empty() && std::mem::take(&mut arrived.more);
    if ARRIVED.with(all_came) {
        run_again(Sought::All);
    }
}

/// Looks at one of them; how many looks it took.
fn check_arrival(ctx: TaskCtx<'_>, db: i32, key: Box<[u8]>) -> usize {
    if let Some(lock) = names::lock_of_fair_key(&key) {
        events::fair_list_found(waiters::core(&ctx), LockRef { db, key: lock.into() });
        return 1;
    }
    if names::is_read_lease_key(&key) {
        check_lease_key(ctx, db, &key);
        return 1;
    }
    if planted(Bug::EdgeReadLeaseUnknown) {
        return 1;
    }
    let leases = read_repair::lock_found(waiters::core(&ctx), LockName { db, key: &key }, FINDS_AT_A_BEAT);
    if leases > FINDS_AT_A_BEAT {
        run_again(Sought::ReadLeases);
    }
    leases.clamp(1, FINDS_AT_A_BEAT)
}

/// What is known of keys that come from another server.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Arrivals {
    /// Nobody has asked yet since the module was loaded, or this server became the primary.
    NotAsked,
    /// None have come.
    None,
    /// Some have, and the next are heard of.
    Some,
}

static ARRIVALS_SEEN: Shared<Cell<Arrivals>> = Shared::cell(Arrivals::NotAsked);

/// Keys that come from another server are not heard of before somebody has waited or read here. That there are any is seen
/// by the server's statistics, soon after the first.
fn ask_for_arrivals(ctx: TaskCtx<'_>) {
    let before = ARRIVALS_SEEN.get();
    if before == Arrivals::Some {
        return;
    }
    let come = ctx.has_statistics(c"commandstats", &[c"cmdstat_restore", c"cmdstat_restore-asking"]);
    ARRIVALS_SEEN.replace(if come { Arrivals::Some } else { Arrivals::None });
    if come {
        let _ = listen_to_keys(*ctx);
        // Outside a cluster no queues come with a slot, and those who wait here by Redisson's protocol live; as they do
        // where the module was just loaded.
        let all = before == Arrivals::None && ctx.in_cluster();
        run_again(if all { Sought::All } else { Sought::ReadLeases });
    }
}

/// Begins to look for them, from the start if it is under way.
pub(crate) fn start(sought: Sought) {
    let search = Search { sought, db: 0, scan: Scan::new(), again: None };
    drop(SEARCH.with(|under_way| under_way.replace(search)));
}

/// Looks for them after the search that is under way: that ends, however often it is asked for another.
pub(crate) fn run_again(sought: Sought) {
    let under_way = |search: &mut Option<Search>| {
        let again = &mut search.as_mut()?.again;
        *again = Some(again.map_or(sought, |again| if again == Sought::All { again } else { sought }));
        Some(())
    };
    if SEARCH.with(under_way).is_none() {
        start(sought);
    }
}

/// Forgets the search and what has come; called when the module is unloaded, too.
pub(crate) fn tear_down() {
    SEARCH.clear();
    ARRIVED.clear();
    ARRIVALS_SEEN.replace(Arrivals::NotAsked);
}

/// Goes on with the search, if there is one, at each beat. A replica leaves it to its primary, and begins anew when it is promoted.
pub(crate) fn on_beat(ctx: TaskCtx<'_>, beats: u32) {
    if !is_primary(*ctx) {
        return tear_down();
    }
    // As the timer does: to look at a lease that has ended deletes its key.
    if !ctx.may_write() {
        return;
    }
    if beats.is_multiple_of(BEATS_BETWEEN_QUESTIONS) {
        ask_for_arrivals(ctx);
    }
    check_arrivals(ctx);
    let Some(mut search) = SEARCH.with(Option::take) else { return };
    if !ctx.select(search.db) {
        if let Some(sought) = search.again {
            start(sought);
        }
        return;
    }
    let (found, more) = steps(&mut search, ctx);
    let next =
        if more { search } else { Search { db: search.db.saturating_add(1), scan: Scan::new(), ..search } };
    SEARCH.with(|under_way| under_way.replace(next));
    for find in found {
        match find {
            Find::Queue(lock) => events::fair_list_found(waiters::core(&ctx), lock),
            Find::Lease(db, key) => check_lease_key(ctx, db, &key),
        }
    }
}

/// A key that is worth a look.
enum Find {
    Queue(LockRef),
    Lease(i32, Box<[u8]>),
}

/// Goes the steps of one beat: what was found, and whether there may be more in this database.
fn steps(search: &mut Search, ctx: TaskCtx<'_>) -> (Vec<Find>, bool) {
    let Search { sought, db, ref mut scan, .. } = *search;
    let mut found = Vec::new();
    for _ in 0..STEPS_AT_A_BEAT {
        let more = scan.step_keys(*ctx, |key| {
            let queue = names::lock_of_fair_key(key).filter(|_| sought == Sought::All);
            found.extend(queue.map(|name| Find::Queue(LockRef { db, key: name.into() })));
            found.extend(names::is_read_lease_key(key).then(|| Find::Lease(db, key.into())));
        });
        if !more || found.len() >= FINDS_AT_A_BEAT {
            return (found, more);
        }
    }
    (found, true)
}

/// A key that looks like a reader's lease: tells the rules of it, if there is such a reader.
fn check_lease_key(ctx: TaskCtx<'_>, db: i32, key: &[u8]) {
    if planted(Bug::EdgeReadLeaseUnknown) {
        return;
    }
    let mut found = false;
    for (name, reader, hold) in names::readers_of_lease_key(key) {
        found |= read_repair::read_lease_found(waiters::core(&ctx), LockName { db, key: name }, reader, hold);
    }
    if found {
        // Redisson's renewals are heard of from now on, if the server lets us.
        let _ = listen_to_keys(*ctx);
    }
}
