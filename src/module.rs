//! The module as the server calls it.

use std::ffi::CStr;

use crate::ffi::{
    Args, Callbacks, Ctx, EventCtx, Handle, InfoPage, LoadError, ServerEvent, StringRef, TaskCtx,
    WaitOutcome, apply_options, declare, fault, listen, register, register_info,
};
use crate::options::AtLoad;
use crate::{command, discovery, eviction, options, server_events, server_fault, stats, waiters};

/// rlock.
pub(crate) struct Rlock;

impl Callbacks for Rlock {
    fn load(&self, ctx: Ctx<'_>, args: Args<'_>) -> Result<(), LoadError> {
        // Checks come first, registration second: a refused load leaves nothing behind. `listen` comes last: Redis 7.0
        // does not forget the listeners of a module that it has not loaded.
        let at_load = AtLoad::read(args)?;
        register_all(ctx, &at_load)?;
        apply_options(ctx)?;
        eviction::check(ctx);
        server_fault::check(ctx);
        listen(ctx)?;
        discovery::at_load(ctx);
        Ok(())
    }

    fn key_changed(&self, ctx: EventCtx<'_>, key: StringRef<'_>, event: &CStr) {
        server_events::key_changed(ctx, key, event);
    }

    fn sorted_set_changed(&self, ctx: EventCtx<'_>, key: StringRef<'_>) {
        server_events::sorted_set_changed(ctx, key);
    }

    fn key_loaded(&self, key: StringRef<'_>) {
        discovery::key_loaded(key);
    }

    fn server_event(&self, ctx: EventCtx<'_>, event: ServerEvent) {
        server_events::server_event(ctx, event);
    }

    fn beat(&self, ctx: TaskCtx<'_>) {
        server_events::beat(ctx);
    }

    fn timer_fired(&self, ctx: TaskCtx<'_>) {
        waiters::timer_fired(ctx);
    }

    fn answer(&self, ctx: EventCtx<'_>, outcome: &WaitOutcome) {
        waiters::answer(ctx, outcome);
    }

    fn client_disconnected(&self, ctx: EventCtx<'_>, handle: Handle) {
        waiters::client_disconnected(ctx, handle);
    }

    fn show_info(&self, page: &InfoPage) {
        stats::show(page);
    }
}

/// Registers all that the server forgets where the load fails after it.
fn register_all(ctx: Ctx<'_>, at_load: &AtLoad) -> Result<(), LoadError> {
    declare(ctx)?;
    register::<command::Acquire>(ctx)?;
    register::<command::Release>(ctx)?;
    register::<command::Renew>(ctx)?;
    register::<command::Cancel>(ctx)?;
    register::<command::Info>(ctx)?;
    register::<command::List>(ctx)?;
    register::<command::Hot>(ctx)?;
    register::<command::ForceRelease>(ctx)?;
    fault::register(ctx)?;
    options::register(ctx, at_load)?;
    register_info(ctx)
}
