//! Commands: how they are registered, and how the server calls them.

use std::ffi::{CStr, CString, c_int};
use std::io;
use std::mem;
use std::ptr;

use redis_module::raw;
use rlock_core::Error;

use super::api::{api, optional_api};
use super::args::Args;
use super::block::blocked_so_far;
use super::contexts::{CommandCtx, ScopedCtx};
use super::ctx::Ctx;
use super::guard::{Callback, guarded};
use super::load_error::LoadError;
use super::outbox::messages_last;
use super::reply::count_error;
use super::spec::{Arena, Audience, Spec, text};

/// The module's ACL category, on servers where modules can have one.
pub(super) const ACL_CATEGORY: &CStr = c"rlock";

/// One command.
pub(crate) trait Command {
    /// The answer of the command.
    type Answer: Respond;
    /// The command's description of itself for the server.
    const SPEC: Spec;

    /// Parses, decides and performs; the reply is sent after it.
    fn run(ctx: CommandCtx<'_>) -> Result<Self::Answer, Error>;
}

/// An answer that knows how to send itself.
pub(crate) trait Respond {
    /// Sends exactly one reply.
    fn send(&self, ctx: Ctx<'_>);
}

/// Registers a command with the server.
pub(crate) fn register<C: Command>(ctx: Ctx<'_>) -> Result<(), LoadError> {
    let spec = &C::SPEC;
    let key = c_int::from(spec.key.flags() != 0);
    let (name, flags) = (spec.name.as_ptr(), spec.flags.as_ptr());
    let create = api!(RedisModule_CreateCommand);
    // SAFETY: the context is that of the load; `handle::<C>` is a function for as long as the module is loaded.
    let status = unsafe { create(ctx.as_ptr(), name, Some(handle::<C>), flags, key, key, key) };
    // SAFETY: as above; null if the command is unknown.
    let command = unsafe { api!(RedisModule_GetCommand)(ctx.as_ptr(), name) };
    if status != raw::REDISMODULE_OK as c_int || command.is_null() {
        return Err(LoadError::Refused("a command", spec.name));
    }
    // SAFETY: the command was just made, and the description lives until the call returns.
    unsafe { describe(command, spec)? };
    if let Some(set_categories) = optional_api!(RedisModule_SetCommandACLCategories) {
        let categories = categories(spec);
        // SAFETY: as above.
        if unsafe { set_categories(command, categories.as_ptr()) } != raw::REDISMODULE_OK as c_int {
            return Err(LoadError::Refused("the ACL categories of", spec.name));
        }
    }
    Ok(())
}

/// Redis 7.2 takes categories for a command, and none of a module's own.
fn categories(spec: &Spec) -> CString {
    let mut categories = spec.acl.to_bytes().to_vec();
    if spec.audience == Audience::LockUsers && optional_api!(RedisModule_AddACLCategory).is_some() {
        categories.push(b' ');
        categories.extend_from_slice(ACL_CATEGORY.to_bytes());
    }
    CString::new(categories).unwrap_or_default()
}

/// # Safety
/// The command must be the module's, and the load still under way.
unsafe fn describe(command: *mut raw::RedisModuleCommand, spec: &Spec) -> Result<(), LoadError> {
    let version = raw::RedisModuleCommandInfoVersion {
        version: 1,
        sizeof_historyentry: size_of::<raw::RedisModuleCommandHistoryEntry>(),
        sizeof_keyspec: size_of::<raw::RedisModuleCommandKeySpec>(),
        sizeof_arg: size_of::<raw::RedisModuleCommandArg>(),
    };
    // SAFETY: all zero is the end of the list of key specs.
    let mut key_specs: [raw::RedisModuleCommandKeySpec; 2] = unsafe { mem::zeroed() };
    let [first, _] = &mut key_specs;
    first.flags = spec.key.flags().into();
    first.begin_search_type = raw::RedisModuleKeySpecBeginSearchType_REDISMODULE_KSPEC_BS_INDEX;
    first.bs.index.pos = 1;
    first.find_keys_type = raw::RedisModuleKeySpecFindKeysType_REDISMODULE_KSPEC_FK_RANGE;
    first.fk.range =
        raw::RedisModuleCommandKeySpec__bindgen_ty_2__bindgen_ty_1 { lastkey: 0, keystep: 1, limit: 0 };
    let mut arena = Arena::default();
    let info = raw::RedisModuleCommandInfo {
        version: &raw const version,
        summary: spec.summary.as_ptr(),
        complexity: spec.complexity.as_ptr(),
        since: c"0.1.0".as_ptr(),
        tips: text(spec.tips),
        arity: spec.arity,
        key_specs: if spec.key.flags() == 0 { ptr::null_mut() } else { key_specs.as_mut_ptr() },
        args: arena.list(spec.args),
        // SAFETY: the rest is a pointer that may be null: no history.
        ..unsafe { mem::zeroed() }
    };
    // SAFETY: by the promise of this function; the server copies all of it.
    match unsafe { api!(RedisModule_SetCommandInfo)(command, &raw const info) } {
        status if status == raw::REDISMODULE_OK as c_int => Ok(()),
        _ => Err(LoadError::Refused("the description of", spec.name)),
    }
}

/// Makes the module's ACL category, where the server can have one.
pub(super) fn add_acl_category(ctx: Ctx<'_>) -> Result<(), LoadError> {
    let Some(add) = optional_api!(RedisModule_AddACLCategory) else { return Ok(()) };
    // SAFETY: the context is that of the load.
    if unsafe { add(ctx.as_ptr(), ACL_CATEGORY.as_ptr()) } == raw::REDISMODULE_OK as c_int {
        return Ok(());
    }
    // A category outlives the module that made it: it is there when the module is loaded again.
    match io::Error::last_os_error().raw_os_error() {
        Some(libc::EBUSY) => Ok(()),
        _ => Err(LoadError::Refused("the ACL category", ACL_CATEGORY)),
    }
}

/// What the server calls for the command `C`.
unsafe extern "C" fn handle<C: Command>(
    ctx: *mut raw::RedisModuleCtx,
    argv: *mut *mut raw::RedisModuleString,
    argc: c_int,
) -> c_int {
    // SAFETY: the server passes a context and a vector that are valid for this call.
    let (ctx, args) = unsafe { (Ctx::from_raw(ctx), Args::from_raw(argv, argc)) };
    messages_last(ctx, || respond::<C>(ctx, args));
    raw::REDISMODULE_OK as c_int
}

#[inline(always)]
fn respond<C: Command>(ctx: Ctx<'_>, args: Args<'_>) {
    let blocked = blocked_so_far();
    let answer = guarded(Callback::Command, None, || Some(C::run(ScopedCtx::new(ctx, args))));
    guarded(Callback::Reply, (), || {
        let error = match answer {
            Some(Ok(answer)) => return answer.send(ctx),
            Some(Err(error)) => error,
            // It had blocked its client, which is answered once the doubt is cleared.
            None if blocked_so_far() != blocked => return,
            None => Error::Internal("a command panicked"),
        };
        count_error();
        ctx.reply_error(&error);
    });
}
