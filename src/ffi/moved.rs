//! MOVE on a Valkey server that leaves the executing client in the database of the last key event: see
//! [`Valkey::stays_in_database_of_event`]. Replicas and the AOF would get the command, and all that follow, for the wrong
//! database.
//!
//! MOVE raises `move_from` in the database of its client, then `move_to` in the other one. After that the module returns
//! the client to the first one. COPY … DB raises `copy_to` alone, so that no event shows where its client was.

use std::cell::RefCell;
use std::ffi::{CStr, c_char};
use std::sync::atomic::{AtomicBool, Ordering};

use redis_module::raw;
use rlock_core::valkey::Valkey;

use super::api::{api, optional_api};
use super::ctx::Ctx;
use super::guard::{Callback, guarded};
use super::shared::Shared;

/// Whether this server is one of those.
static IS_NEEDED: AtomicBool = AtomicBool::new(false);

/// A move under way: the address of the key's string, by which the two events of one command are known, and the database of
/// the client.
type Move = (usize, i32);

/// The moves under way: another module may move a key within the events of another move.
static MOVES: Shared<RefCell<Option<Vec<Move>>>> = Shared::lazy();

/// The most moves under way: other modules may raise events by these names, without a move.
const DEEPEST: usize = 16;

/// The version of the server, if it is Valkey.
pub(super) fn version(ctx: Ctx<'_>) -> Option<Valkey> {
    let version = ctx.server_info_text(c"server", c"valkey_version")?;
    Valkey::parse(version.to_bytes())
}

/// Learns at load whether this server leaves clients in the wrong database, and returns that.
pub(crate) fn learn_moves(ctx: Ctx<'_>) -> bool {
    let is_needed = version(ctx).is_some_and(Valkey::stays_in_database_of_event);
    IS_NEEDED.store(is_needed, Ordering::Relaxed);
    is_needed
}

/// Whether this server leaves clients in the wrong database.
pub(crate) fn loses_moves() -> bool {
    IS_NEEDED.load(Ordering::Relaxed)
}

/// Follows MOVE: the last step of the callback of a key event, whatever key it is about.
///
/// # Safety
/// Context, event and key are those of a callback.
pub(super) unsafe fn follow(
    ctx: *mut raw::RedisModuleCtx,
    event: *const c_char,
    key: *mut raw::RedisModuleString,
) {
    if !loses_moves() {
        return;
    }
    // SAFETY: the event is a C string, by the promise of the caller.
    let event = unsafe { CStr::from_ptr(event) };
    guarded(Callback::KeyEvent, (), || match event.to_bytes() {
        b"move_from" => {
            // SAFETY: by the promise of the caller.
            let db = unsafe { Ctx::from_raw(ctx) }.db();
            MOVES.with(|moves| {
                if moves.len() >= DEEPEST {
                    moves.clear();
                }
                moves.push((key.addr(), db));
            });
        }
        b"move_to" => {
            let from = MOVES.with(|moves| {
                let at = moves.iter().rposition(|(moved, _)| *moved == key.addr())?;
                moves.drain(at..).next()
            });
            if let Some((_, db)) = from {
                // SAFETY: by the promise of the caller; the context's client is the one that moves the key. The database
                // exists: the client was there.
                unsafe { api!(RedisModule_SelectDb)(ctx, db) };
            }
        }
        _ => {}
    });
}
