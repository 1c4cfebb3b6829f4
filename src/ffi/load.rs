//! Load and unload: what the server calls first and last.

use std::ffi::{CStr, CString, c_char, c_int};
use std::io;

use redis_module::raw;

use super::api::{api, missing, optional_api};
use super::args::Args;
use super::callbacks::{self, Callbacks};
use super::command::add_acl_category;
use super::ctx::Ctx;
use super::guard::{Callback, guarded, install_panic_hook};
use super::load_error::LoadError;
use super::log::warn;
use super::moved;
use super::reply::reset_errors;
use super::slots;
use super::string::{OwnedString, free_constants};

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
        #[allow(non_snake_case, unreachable_pub)]
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
        #[allow(non_snake_case, unreachable_pub)]
        pub unsafe extern "C" fn RedisModule_OnUnload(
            ctx: *mut redis_module::raw::RedisModuleCtx,
        ) -> std::ffi::c_int {
            // SAFETY: by the promise of the server.
            unsafe { $crate::ffi::on_unload(&$module, ctx) }
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
        warn(c"not loaded: rlock is already loaded; unload it first to load another version");
        return status;
    }
    install_panic_hook();
    reset_errors();
    callbacks::install(module);
    // SAFETY: the server passes a context and a vector that are valid for this call.
    let (ctx, args) = unsafe { (Ctx::from_raw(ctx), Args::from_raw(argv, argc)) };
    let load = || check_server(ctx).and_then(|()| module.load(ctx, args));
    let Err(error) = guarded(Callback::Load, Err(LoadError::Panicked), load) else {
        return raw::REDISMODULE_OK as c_int;
    };
    guarded(Callback::Unload, (), || give_back(module));
    let line = CString::new(format!("not loaded: {error}")).unwrap_or_default();
    warn(&line);
    raw::REDISMODULE_ERR as c_int
}

/// Frees the server's objects that the module holds.
fn give_back(module: &dyn Callbacks) {
    module.tear_down();
    moved::tear_down();
    free_constants();
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

/// Unloads the module, unless it is needed.
///
/// # Safety
/// The context is that of the server's call.
pub(crate) unsafe fn on_unload(module: &'static dyn Callbacks, ctx: *mut raw::RedisModuleCtx) -> c_int {
    guarded(Callback::Unload, raw::REDISMODULE_ERR as c_int, || {
        // SAFETY: the context is valid for this call.
        let ctx = unsafe { Ctx::from_raw(ctx) };
        if ctx.has_queued_commands() {
            warn(c"not unloaded: a client has queued commands in a transaction; try again after its EXEC (see CLIENT LIST)");
            return raw::REDISMODULE_ERR as c_int;
        }
        if ctx.is_named_in_rules() {
            warn(c"not unloaded: ACL rules name commands of rlock; remove them (see ACL LIST)");
            return raw::REDISMODULE_ERR as c_int;
        }
        if module.is_idle() {
            give_back(module);
            return raw::REDISMODULE_OK as c_int;
        }
        warn(c"not unloaded: clients wait for locks; see RLOCK.LIST, or set rlock.accept no");
        raw::REDISMODULE_ERR as c_int
    })
}
