//! The module's section in the server's INFO.

use std::ffi::c_int;

use redis_module::raw;

use super::api::{api, optional_api};
use super::callbacks;
use super::ctx::Ctx;
use super::guard::{Callback, guarded};
use super::info_page::InfoPage;
use super::load_error::LoadError;

/// Registers the section.
pub(crate) fn register_info(ctx: Ctx<'_>) -> Result<(), LoadError> {
    // SAFETY: the context is that of the load.
    let status = unsafe { api!(RedisModule_RegisterInfoFunc)(ctx.as_ptr(), Some(on_info)) };
    if status == raw::REDISMODULE_OK as c_int {
        Ok(())
    } else {
        Err(LoadError::Refused("the section in", c"INFO"))
    }
}

unsafe extern "C" fn on_info(ctx: *mut raw::RedisModuleInfoCtx, _for_crash_report: c_int) {
    guarded(Callback::Info, (), || {
        // SAFETY: the context is valid for this callback; without a name the section is `rlock`.
        // An error means that the section was not asked for.
        let wanted = unsafe { api!(RedisModule_InfoAddSection)(ctx, std::ptr::null()) };
        if wanted == raw::REDISMODULE_OK as c_int {
            callbacks::with(|module| module.show_info(&InfoPage(ctx)));
        }
    });
}
