//! Options that CONFIG GET and CONFIG SET know.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

use redis_module::raw;

use super::api::{api, optional_api};
use super::contexts::{Event, EventCtx, ScopedCtx};
use super::ctx::Ctx;
use super::guard::{Callback, guarded};
use super::load_error::LoadError;

/// A yes-or-no option, `rlock.<name>` for CONFIG.
pub(crate) struct BoolOption {
    name: &'static CStr,
    default: bool,
    value: AtomicBool,
    set: fn(EventCtx<'_>),
}

impl BoolOption {
    /// An option, its default, and what is called after it was set.
    pub(crate) const fn new(name: &'static CStr, default: bool, set: fn(EventCtx<'_>)) -> Self {
        Self { name, default, value: AtomicBool::new(default), set }
    }

    /// The value in force.
    pub(crate) fn get(&self) -> bool {
        self.value.load(Ordering::Relaxed)
    }

    /// The name after `rlock.`.
    pub(crate) fn name(&self) -> &'static CStr {
        self.name
    }
}

/// An option with a number, `rlock.<name>` for CONFIG.
pub(crate) struct NumberOption {
    name: &'static CStr,
    default: i64,
    range: RangeInclusive<i64>,
    value: AtomicI64,
}

impl NumberOption {
    /// An option, its default, and what it may be set to.
    pub(crate) const fn new(name: &'static CStr, default: i64, range: RangeInclusive<i64>) -> Self {
        Self { name, default, range, value: AtomicI64::new(default) }
    }

    /// The value in force.
    pub(crate) fn get(&self) -> i64 {
        self.value.load(Ordering::Relaxed)
    }

    /// The valid values.
    pub(crate) fn range(&self) -> &RangeInclusive<i64> {
        &self.range
    }

    /// The name after `rlock.`.
    pub(crate) fn name(&self) -> &'static CStr {
        self.name
    }
}

/// Registers an option. `at_load` is its value in the load-time arguments, which overrides the
/// default. The configuration file overrides both.
pub(crate) fn register_bool(
    ctx: Ctx<'_>,
    option: &'static BoolOption,
    at_load: Option<bool>,
) -> Result<(), LoadError> {
    let data = std::ptr::from_ref(option).cast_mut().cast();
    let default = c_int::from(at_load.unwrap_or(option.default));
    let (name, flags) = (option.name.as_ptr(), raw::REDISMODULE_CONFIG_DEFAULT);
    let register = api!(RedisModule_RegisterBoolConfig);
    // SAFETY: the context is that of the load; the option is static, and only read through `data`.
    let status =
        unsafe { register(ctx.as_ptr(), name, default, flags, Some(get), Some(set), Some(apply_bool), data) };
    if status == raw::REDISMODULE_OK as c_int {
        Ok(())
    } else {
        Err(LoadError::Refused("the option", option.name))
    }
}

/// Registers an option with a number; see [`register_bool`].
pub(crate) fn register_number(
    ctx: Ctx<'_>,
    option: &'static NumberOption,
    at_load: Option<i64>,
) -> Result<(), LoadError> {
    let data = std::ptr::from_ref(option).cast_mut().cast();
    let (default, flags) = (at_load.unwrap_or(option.default), raw::REDISMODULE_CONFIG_DEFAULT);
    let (name, least, most) = (option.name.as_ptr(), *option.range.start(), *option.range.end());
    let register = api!(RedisModule_RegisterNumericConfig);
    let (get, set) = (Some(get_number as _), Some(set_number as _));
    // SAFETY: as in `register_bool`.
    let status = unsafe { register(ctx.as_ptr(), name, default, flags, least, most, get, set, None, data) };
    if status == raw::REDISMODULE_OK as c_int {
        Ok(())
    } else {
        Err(LoadError::Refused("the option", option.name))
    }
}

unsafe extern "C" fn get_number(_: *const c_char, option: *mut c_void) -> i64 {
    // SAFETY: the server passes back what `register_number` gave it, a static option.
    let option = unsafe { &*option.cast::<NumberOption>() };
    guarded(Callback::Config, option.default, || option.get())
}

unsafe extern "C" fn set_number(
    _: *const c_char,
    value: i64,
    option: *mut c_void,
    _: *mut *mut raw::RedisModuleString,
) -> c_int {
    // SAFETY: as in `get_number`.
    let option = unsafe { &*option.cast::<NumberOption>() };
    guarded(Callback::SetOption, raw::REDISMODULE_ERR as c_int, || {
        option.value.store(value, Ordering::Relaxed);
        raw::REDISMODULE_OK as c_int
    })
}

/// Lets the server set every registered option to its value.
pub(crate) fn apply(ctx: Ctx<'_>) -> Result<(), LoadError> {
    // SAFETY: the context is that of the load.
    let status = unsafe { api!(RedisModule_LoadConfigs)(ctx.as_ptr()) };
    if status == raw::REDISMODULE_OK as c_int { Ok(()) } else { Err(LoadError::BadConfiguration) }
}

unsafe extern "C" fn get(_: *const c_char, option: *mut c_void) -> c_int {
    // SAFETY: the server passes back what `register_bool` gave it, a static option.
    let option = unsafe { &*option.cast::<BoolOption>() };
    guarded(Callback::Config, option.default.into(), || option.get().into())
}

/// Called once all options of a CONFIG SET have their values.
unsafe extern "C" fn apply_bool(
    ctx: *mut raw::RedisModuleCtx,
    option: *mut c_void,
    _: *mut *mut raw::RedisModuleString,
) -> c_int {
    // SAFETY: the context is valid for this call; the option is as in `get`.
    let (ctx, option) = unsafe { (Ctx::from_raw(ctx), &*option.cast::<BoolOption>()) };
    // A failure would set the option back, and what was done after it cannot be undone.
    guarded(Callback::SetOption, (), || (option.set)(ScopedCtx::new(ctx, Event)));
    raw::REDISMODULE_OK as c_int
}

unsafe extern "C" fn set(
    _: *const c_char,
    value: c_int,
    option: *mut c_void,
    _: *mut *mut raw::RedisModuleString,
) -> c_int {
    // SAFETY: as in `get`.
    let option = unsafe { &*option.cast::<BoolOption>() };
    guarded(Callback::SetOption, raw::REDISMODULE_ERR as c_int, || {
        option.value.store(value != 0, Ordering::Relaxed);
        raw::REDISMODULE_OK as c_int
    })
}
