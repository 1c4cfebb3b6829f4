//! What the server calls. `ffi` knows the rest of the module by this trait only.

use std::ffi::CStr;
use std::sync::OnceLock;

use super::args::Args;
use super::contexts::{EventCtx, TaskCtx};
use super::ctx::Ctx;
use super::event::ServerEvent;
use super::info_page::InfoPage;
use super::load_error::LoadError;
use super::string::StringRef;
use super::wait::{Handle, WaitOutcome};

/// The module. Each method runs inside the guard.
pub(crate) trait Callbacks: Sync {
    /// Reads the arguments of the load, registers everything, and listens last: see [`super::listen`].
    fn load(&self, ctx: Ctx<'_>, args: Args<'_>) -> Result<(), LoadError>;

    /// A key was changed, deleted or renamed, not by the module, or has expired.
    fn key_changed(&self, ctx: EventCtx<'_>, key: StringRef<'_>, event: &CStr);
    /// A sorted set was changed, not by an event of the module.
    fn sorted_set_changed(&self, ctx: EventCtx<'_>, key: StringRef<'_>);

    /// A key was loaded from a file.
    fn key_loaded(&self, key: StringRef<'_>);

    /// Something happened to the server.
    fn server_event(&self, ctx: EventCtx<'_>, event: ServerEvent);
    /// The server's heart beats, about ten times a second.
    fn beat(&self, ctx: TaskCtx<'_>);

    /// The timer has fired, and no longer exists.
    fn timer_fired(&self, ctx: TaskCtx<'_>);

    /// An unblocked client must be answered.
    fn answer(&self, ctx: EventCtx<'_>, outcome: &WaitOutcome);

    /// A client disconnects that is blocked, or unblocked and not yet answered.
    fn client_disconnected(&self, ctx: EventCtx<'_>, handle: Handle);

    /// Writes the module's section of INFO.
    fn show_info(&self, page: &InfoPage);
}

/// Set at load, before anything is registered that the server could call.
static CALLBACKS: OnceLock<&'static dyn Callbacks> = OnceLock::new();

pub(super) fn install(callbacks: &'static dyn Callbacks) {
    CALLBACKS.get_or_init(|| callbacks);
}

/// Runs `body` with the module.
pub(super) fn with(body: impl FnOnce(&'static dyn Callbacks)) {
    if let Some(callbacks) = CALLBACKS.get() {
        body(*callbacks);
    }
}
