//! Slots that move as a whole, with all their keys at one moment: `CLUSTER MIGRATION` of Redis from 8.4 on, and
//! `CLUSTER MIGRATESLOTS` of Valkey from 9.0 on.

use std::ffi::{c_char, c_int, c_void};
use std::slice;

use redis_module::raw;
use rlock_core::slots::SlotRange;
use rlock_core::valkey::Valkey;

use super::api::optional_api;
use super::ctx::Ctx;
use super::moved;

/// What happens to slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SlotMove {
    /// Their keys begin to arrive. The other server decides about their locks until the end.
    Begins,
    /// All their keys are here, and this server decides from now on.
    Arrived,
    /// The slots did not arrive: the server deletes those of their keys that did.
    Failed,
    /// The slots have left: another server decides.
    Left,
}

/// The event of Valkey from 9.0 on, `VALKEYMODULE_EVENT_ATOMIC_SLOT_MIGRATION`. The bindings know those of Redis only, where this
/// number is another event.
const VALKEY_EVENT: u64 = 19;

/// The bit by which a module says that it knows of keys that are here before their slot is
/// (`VALKEYMODULE_OPTIONS_HANDLE_ATOMIC_SLOT_MIGRATION`). Valkey from 9.0 on moves no slots while a module is loaded that does
/// not say so. Redis ignores the bit.
const VALKEY_OPTION: c_int = 1 << 5;

/// Ranges of slots in an event of Valkey, whose first member is the version of the structure.
#[repr(C)]
struct ValkeyInfo {
    version: u64,
    job: [c_char; raw::REDISMODULE_NODE_ID_LEN as usize + 1],
    ranges: *const ValkeyRange,
    count: u32,
}

#[repr(C)]
struct ValkeyRange {
    first: c_int,
    last: c_int,
}

/// The event by which this server reports slots that move as a whole; `None` if it cannot move slots as a whole.
pub(super) fn event(ctx: Ctx<'_>) -> Option<u64> {
    // It came with them to Redis.
    if optional_api!(RedisModule_ClusterGetLocalSlotRanges).is_some() {
        return Some(raw::REDISMODULE_EVENT_CLUSTER_SLOT_MIGRATION);
    }
    moves_whole_slots(ctx).then_some(VALKEY_EVENT)
}

/// The module's option that is for this server.
pub(super) fn option(ctx: Ctx<'_>) -> c_int {
    if moves_whole_slots(ctx) { VALKEY_OPTION } else { 0 }
}

fn moves_whole_slots(ctx: Ctx<'_>) -> bool {
    moved::version(ctx).is_some_and(Valkey::moves_whole_slots)
}

/// The meaning of an event; `None` for other events, and where nothing changes for locks.
pub(super) fn slot_move(id: u64, subevent: u64) -> Option<SlotMove> {
    match id {
        raw::REDISMODULE_EVENT_CLUSTER_SLOT_MIGRATION => match subevent {
            raw::REDISMODULE_SUBEVENT_CLUSTER_SLOT_MIGRATION_IMPORT_STARTED => Some(SlotMove::Begins),
            raw::REDISMODULE_SUBEVENT_CLUSTER_SLOT_MIGRATION_IMPORT_FAILED => Some(SlotMove::Failed),
            raw::REDISMODULE_SUBEVENT_CLUSTER_SLOT_MIGRATION_IMPORT_COMPLETED => Some(SlotMove::Arrived),
            raw::REDISMODULE_SUBEVENT_CLUSTER_SLOT_MIGRATION_MIGRATE_COMPLETED => Some(SlotMove::Left),
            _ => None,
        },
        // IMPORT_STARTED, IMPORT_ABORTED, IMPORT_COMPLETED and EXPORT_COMPLETED. The start of an export and its abort change
        // nothing.
        VALKEY_EVENT => match subevent {
            0 => Some(SlotMove::Begins),
            2 => Some(SlotMove::Failed),
            4 => Some(SlotMove::Arrived),
            5 => Some(SlotMove::Left),
            _ => None,
        },
        _ => None,
    }
}

/// The slots that move.
///
/// # Safety
/// The data are those of an event of this id that has a meaning for [`slot_move`], or null.
pub(super) unsafe fn ranges(id: u64, data: *const c_void) -> Vec<SlotRange> {
    if id == VALKEY_EVENT {
        // SAFETY: by the promise of the caller.
        return unsafe { ranges_of_valkey(data) };
    }
    // SAFETY: by the promise of the caller.
    let info = unsafe { data.cast::<raw::RedisModuleClusterSlotMigrationInfoV1>().as_ref() };
    // SAFETY: the server's array, for as long as the callback runs.
    let Some(array) = info.and_then(|info| unsafe { info.slots.as_ref() }) else { return Vec::new() };
    let count = usize::try_from(array.num_ranges).unwrap_or(0);
    // SAFETY: the array ends with this number of ranges.
    let ranges = unsafe { array.ranges.as_slice(count) };
    ranges.iter().map(|range| SlotRange { first: range.start, last: range.end }).collect()
}

/// # Safety
/// The data are those of Valkey's event, or null.
unsafe fn ranges_of_valkey(data: *const c_void) -> Vec<SlotRange> {
    // SAFETY: by the promise of the caller; the structure of version 1 is the beginning of later ones.
    let Some(info) = (unsafe { data.cast::<ValkeyInfo>().as_ref() }) else { return Vec::new() };
    let count = usize::try_from(info.count).unwrap_or(0);
    if info.ranges.is_null() || info.version == 0 {
        return Vec::new();
    }
    // SAFETY: the server's array of this number of ranges, for as long as the callback runs.
    let ranges = unsafe { slice::from_raw_parts(info.ranges, count) };
    let slot = |number: c_int| u16::try_from(number).unwrap_or(u16::MAX);
    ranges.iter().map(|range| SlotRange { first: slot(range.first), last: slot(range.last) }).collect()
}
