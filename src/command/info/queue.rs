//! The waiters for a lock, here and in Redisson's fair list.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use rlock_core::facts::FairEntry;
use rlock_core::locks::{Via, Waiter};
use rlock_core::{Mode, MonoMs, PermitLimit, UnixMs};

use super::{mode, pair, session};
use crate::fair::SiteFairList;
use crate::ffi::{Ctx, Respond, StringRef};
use crate::{keyspace, waiters};

pub(super) struct Waiting {
    owner: Vec<u8>,
    mode: Mode,
    via: &'static str,
    /// How long it has waited in ms, or -1 if unknown.
    age_ms: i64,
    /// What is left of the wait in ms, or -1 for ever.
    left_ms: i64,
    /// The number of its client, or 0 for a Redisson waiter.
    client_id: u64,
    /// The connection with which the wait ends.
    session: Option<u64>,
    /// How many owners may hold the lock at once, as the waiter says.
    permits: Option<u32>,
}

/// The number of waiters, and the first of them, in their order.
pub(super) fn of(ctx: Ctx<'_>, name: StringRef<'_>, limit: usize) -> (usize, Vec<Waiting>) {
    let lock = keyspace::lock_name(ctx, name);
    let (count, fair, natives): (usize, usize, Vec<Waiter>) = waiters::locks(|locks| {
        let natives = locks.records.in_order(lock).take(limit).cloned().collect();
        (locks.records.waiting_for(lock), locks.records.count_fair(lock), natives)
    });
    let list = SiteFairList::of(ctx, name);
    // Owners that left a moment ago, and whose entries the timer removes, are no waiters.
    let leaving = waiters::locks(|locks| locks.records.count_leaving(lock));
    let redisson = list.len().saturating_sub(fair).saturating_sub(leaving);
    let mut entries = if redisson > 0 { list.entries(limit) } else { Vec::new() };
    entries.retain(|entry| !waiters::locks(|locks| locks.records.is_leaving(lock, &entry.owner)));
    let merged = merge(ctx, natives, entries.into());
    (count.saturating_add(redisson), merged.into_iter().take(limit).collect())
}

/// Natives in their order, and Redisson waiters before the first native that stands behind them in the list.
fn merge(ctx: Ctx<'_>, natives: Vec<Waiter>, mut list: VecDeque<FairEntry>) -> Vec<Waiting> {
    let (now, MonoMs(clock)) = (ctx.real_time(), ctx.clock());
    let known: BTreeSet<Box<[u8]>> =
        natives.iter().filter(|waiter| waiter.fair).map(|waiter| waiter.owner.clone()).collect();
    let is_redisson = |entry: &FairEntry| !known.contains(&entry.owner);
    // By place: a search of the list for each waiter and entry would take time by the square of their number.
    let places: BTreeMap<Box<[u8]>, usize> =
        list.iter().enumerate().map(|(place, entry)| (entry.owner.clone(), place)).collect();
    let listed = list.len();
    let mut merged = Vec::new();
    for waiter in natives {
        let place = places.get(&waiter.owner).copied().filter(|_| waiter.fair);
        while place.is_some_and(|place| place >= listed.saturating_sub(list.len()))
            && let Some(entry) = list.pop_front().filter(|entry| entry.owner != waiter.owner)
        {
            merged.extend(is_redisson(&entry).then(|| Waiting::redisson(entry, now)));
        }
        merged.push(Waiting::native(waiter, clock));
    }
    merged.extend(list.into_iter().filter(is_redisson).map(|entry| Waiting::redisson(entry, now)));
    merged
}

impl Waiting {
    fn native(waiter: Waiter, clock: u64) -> Self {
        let ms = |ms: u64| i64::try_from(ms).unwrap_or(i64::MAX);
        Self {
            age_ms: ms(clock.saturating_sub(waiter.since.0)),
            left_ms: waiter.until.map_or(-1, |until| ms(until.0.saturating_sub(clock))),
            client_id: waiter.client_id,
            session: waiter.session.map(|session| session.client),
            permits: waiter.wanted.limit().map(PermitLimit::get),
            mode: waiter.mode(),
            via: match waiter.via {
                Via::Block => "block",
                Via::Enqueue(_) => "enqueue",
            },
            owner: waiter.owner.into_vec(),
        }
    }

    fn redisson(entry: FairEntry, now: UnixMs) -> Self {
        Self {
            owner: entry.owner.into_vec(),
            mode: Mode::Mutex,
            via: "redisson",
            age_ms: -1,
            left_ms: entry.deadline.map_or(0, |deadline| deadline.0.saturating_sub(now.0).max(0)),
            client_id: 0,
            session: None,
            permits: None,
        }
    }
}

impl Respond for Waiting {
    fn send(&self, ctx: Ctx<'_>) {
        let more = i32::from(self.session.is_some()).saturating_add(self.permits.is_some().into());
        ctx.reply_map(more.saturating_add(6));
        ctx.reply_bytes(b"owner");
        ctx.reply_bytes(&self.owner);
        mode(ctx, self.mode);
        ctx.reply_bytes(b"via");
        ctx.reply_bytes(self.via.as_bytes());
        pair(ctx, "age-ms", self.age_ms);
        pair(ctx, "wait-left-ms", self.left_ms);
        pair(ctx, "client-id", i64::try_from(self.client_id).unwrap_or(i64::MAX));
        session(ctx, self.session);
        if let Some(limit) = self.permits {
            pair(ctx, "permits", limit.into());
        }
    }
}
