//! Load and unload: what the server calls first and last.

use std::ffi::{CStr, CString, c_char, c_int};
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use redis_module::raw;

use super::allocator::learn_alignment;
use super::api::{api, missing, optional_api};
use super::args::Args;
use super::callbacks::{self, Callbacks};
use super::command::add_acl_category;
use super::ctx::Ctx;
use super::guard::{Callback, guarded, install_panic_hook};
use super::load_error::LoadError;
use super::log::warn;
use super::slots;
use super::string::OwnedString;

const MODULE_NAME: &CStr = c"rlock";
/// 10,000 per major, 100 per minor version: 0.1.0 is 100.
const MODULE_VERSION: c_int = number(env!("CARGO_PKG_VERSION_MAJOR")) * 10_000
    + number(env!("CARGO_PKG_VERSION_MINOR")) * 100
    + number(env!("CARGO_PKG_VERSION_PATCH"));

/// The number that these digits are.
#[expect(
    clippy::arithmetic_side_effects,
    clippy::indexing_slicing,
    reason = "computed when the module is built"
)]
const fn number(digits: &str) -> c_int {
    let (mut number, mut at) = (0, 0);
    while at < digits.len() {
        number = number * 10 + (digits.as_bytes()[at] - b'0') as c_int;
        at += 1;
    }
    number
}

/// The commands that the module uses by name: to send effects to replicas and AOF, to ask for permission, to read.
const NEEDED: [&CStr; 25] = [
    c"CLIENT",
    c"DEL",
    c"EXISTS",
    c"GET",
    c"HDEL",
    c"HSCAN",
    c"HSET",
    c"LINDEX",
    c"LPOP",
    c"LPOS",
    c"LPUSH",
    c"LRANGE",
    c"LREM",
    c"LSET",
    c"PEXPIREAT",
    c"PUBLISH",
    c"PUBSUB",
    c"RPOP",
    c"RPUSH",
    c"SET",
    c"ZADD",
    c"ZCOUNT",
    c"ZREM",
    c"ZREMRANGEBYRANK",
    c"ZSCORE",
];

/// Defines the two functions that the server calls by their names, for a module.
macro_rules! entry_points {
    ($module:expr) => {
        /// Called by the server when it loads the module.
        ///
        /// # Safety
        /// Only the server may call it, with a valid context and argument vector.
        #[unsafe(no_mangle)]
        #[allow(non_snake_case, unreachable_pub, unsafe_code)]
        pub unsafe extern "C" fn RedisModule_OnLoad(
            ctx: *mut redis_module::raw::RedisModuleCtx,
            argv: *mut *mut redis_module::raw::RedisModuleString,
            argc: std::ffi::c_int,
        ) -> std::ffi::c_int {
            // SAFETY: by the promise of the server.
            unsafe { $crate::ffi::on_load(&$module, ctx, argv, argc) }
        }

        /// Called by the server before it unloads the module.
        ///
        /// # Safety
        /// Only the server may call it.
        #[unsafe(no_mangle)]
        #[allow(non_snake_case, unreachable_pub, unsafe_code)]
        pub unsafe extern "C" fn RedisModule_OnUnload(
            ctx: *mut redis_module::raw::RedisModuleCtx,
        ) -> std::ffi::c_int {
            // SAFETY: by the promise of the server.
            unsafe { $crate::ffi::on_unload(ctx) }
        }
    };
}
pub(crate) use entry_points;

/// Loads the module.
///
/// # Safety
/// Context and argument vector are those of the server's call.
pub(crate) unsafe fn on_load(
    module: &'static dyn Callbacks,
    ctx: *mut raw::RedisModuleCtx,
    argv: *mut *mut raw::RedisModuleString,
    argc: c_int,
) -> c_int {
    // Before anything else: it makes the allocator work, without which not even a panic can be caught.
    let api_version = raw::REDISMODULE_APIVER_1 as c_int;
    let name = MODULE_NAME.as_ptr().cast::<c_char>();
    // SAFETY: the server passes a valid context.
    let status = unsafe { raw::Export_RedisModule_Init(ctx, name, MODULE_VERSION, api_version) };
    if status != raw::REDISMODULE_OK as c_int {
        // It fails only where the name is taken. The memory may be that of the module which has it: nothing of it
        // is touched. Every server has a log, so that this cannot panic outside the guard.
        warn(c"not loaded: rlock is already loaded; restart the server to load another version");
        return status;
    }
    learn_alignment();
    install_panic_hook();
    callbacks::install(module);
    // SAFETY: the server passes a context and a vector that are valid for this call.
    let (ctx, args) = unsafe { (Ctx::from_raw(ctx), Args::from_raw(argv, argc)) };
    let load = || check_server(ctx).and_then(|()| module.load(ctx, args));
    let Err(error) = guarded(Callback::Load, Err(LoadError::Panicked), load) else {
        COMMANDS_AT_LOAD.store(commands_so_far(ctx), Ordering::Relaxed);
        return raw::REDISMODULE_OK as c_int;
    };
    let line = CString::new(format!("not loaded: {error}")).unwrap_or_default();
    warn(&line);
    raw::REDISMODULE_ERR as c_int
}

/// Refuses a server that lacks a needed function or command.
fn check_server(ctx: Ctx<'_>) -> Result<(), LoadError> {
    if let Some(function) = missing() {
        return Err(LoadError::OldServer(function));
    }
    ctx.learn_mode();
    match NEEDED.into_iter().find(|name| !is_command(ctx, name)) {
        Some(name) => Err(LoadError::RenamedCommand(name)),
        None => Ok(()),
    }
}

/// Tells the server what holds for the whole module: the first step of a load, once everything is checked. The ACL
/// category stays on some servers if the load fails, and does no harm.
pub(crate) fn declare(ctx: Ctx<'_>) -> Result<(), LoadError> {
    // From here on closing a key does not break WATCH: perform does. A replica may answer reads with its old data while it loads
    // its primary's, since the module keeps no state of a replica's keys. HANDLE_IO_ERRORS concerns data types, and rlock has
    // none.
    let options =
        raw::REDISMODULE_OPTION_NO_IMPLICIT_SIGNAL_MODIFIED | raw::REDISMODULE_OPTIONS_HANDLE_REPL_ASYNC_LOAD;
    // SAFETY: the context is valid.
    unsafe { api!(RedisModule_SetModuleOptions)(ctx.as_ptr(), options as c_int | slots::option(ctx)) };
    add_acl_category(ctx)
}

/// Whether the server knows a command by this name; `rename-command` takes names away.
fn is_command(ctx: Ctx<'_>, name: &CStr) -> bool {
    let words = [
        OwnedString::new(name.to_bytes()),
        // Of a command with subcommands one must be named; to the others it is a word like any.
        OwnedString::new(if name == c"CLIENT" { b"LIST" } else { b"NUMSUB" }),
        OwnedString::new(b"x"),
        OwnedString::new(b"x"),
    ];
    let mut argv: Vec<_> = words.iter().map(|word| word.borrow().as_ptr()).collect();
    let argc = argv.len() as c_int;
    let mut keys = 0;
    // SAFETY: the vector and its strings live; the list of keys is for us to free.
    let list =
        unsafe { api!(RedisModule_GetCommandKeys)(ctx.as_ptr(), argv.as_mut_ptr(), argc, &raw mut keys) };
    if list.is_null() {
        // The server always sets the number in this case.
        return io::Error::last_os_error().raw_os_error() != Some(libc::ENOENT);
    }
    // SAFETY: made by the server for us to free.
    unsafe { api!(RedisModule_Free)(list.cast()) };
    true
}

/// How many commands the server had processed when it loaded the module.
static COMMANDS_AT_LOAD: AtomicU64 = AtomicU64::new(0);

/// Whether the server's heart has beaten since the load.
static IS_SETTLED: AtomicBool = AtomicBool::new(false);

/// Whether the server ends.
static SHUTS_DOWN: AtomicBool = AtomicBool::new(false);

/// The server's heart beats: the load is over.
pub(super) fn settle() {
    IS_SETTLED.store(true, Ordering::Relaxed);
}

/// The server shuts down.
pub(super) fn shut_down() {
    SHUTS_DOWN.store(true, Ordering::Relaxed);
}

/// How many commands the server has processed. It counts a command when that has ended.
fn commands_so_far(ctx: Ctx<'_>) -> u64 {
    ctx.server_info_number(c"stats", c"total_commands_processed")
}

/// Lets the server undo a load that it refuses after all, and refuses every other unload.
///
/// Servers keep pointers to commands that clients have sent and that have not run yet: those of paused and blocked clients,
/// in transactions and pipelines, and those that I/O threads have parsed. After an unload the next of these ends the server, and
/// no function of the module API shows all of them. Redis 7.0 ends itself at ACL LIST if a user's rules name a command that is
/// gone.
///
/// A LOADEX with an unknown option loads the module and unloads it within one command, before anything can refer to the module,
/// and Redis 8 ends itself if the module refuses that. Valkey 9.1 calls this at SHUTDOWN.
///
/// # Safety
/// The context is that of the server's call.
pub(crate) unsafe fn on_unload(ctx: *mut raw::RedisModuleCtx) -> c_int {
    guarded(Callback::Unload, raw::REDISMODULE_ERR as c_int, || {
        // SAFETY: the context is valid for this call.
        let ctx = unsafe { Ctx::from_raw(ctx) };
        let is_settled = IS_SETTLED.load(Ordering::Relaxed);
        if !is_settled && commands_so_far(ctx) == COMMANDS_AT_LOAD.load(Ordering::Relaxed) {
            return raw::REDISMODULE_OK as c_int;
        }
        if !SHUTS_DOWN.load(Ordering::Relaxed) {
            warn(c"not unloaded: a loaded rlock stays; to remove or replace it, restart the server, or fail over to another one");
        }
        raw::REDISMODULE_ERR as c_int
    })
}
