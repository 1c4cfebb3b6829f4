//! Panics on demand, to show that the guard holds: in builds with the feature `fault-injection`, which no release has. In all
//! others every function here does nothing.

#[cfg(not(feature = "fault-injection"))]
pub(crate) use off::{register, strike_answer, strike_blocked};
#[cfg(feature = "fault-injection")]
pub(crate) use on::{register, strike_answer, strike_blocked};

#[cfg(not(feature = "fault-injection"))]
pub(super) use off::strike;
#[cfg(feature = "fault-injection")]
pub(super) use on::strike;

#[cfg(not(feature = "fault-injection"))]
mod off {
    use super::super::guard::Callback;
    use super::super::{Ctx, LoadError};

    #[inline(always)]
    pub(in crate::ffi) fn strike(_: Callback) {}

    #[inline(always)]
    pub(crate) fn strike_answer() {}

    #[inline(always)]
    pub(crate) fn strike_blocked() {}

    #[inline(always)]
    pub(crate) fn register(_: Ctx<'_>) -> Result<(), LoadError> {
        Ok(())
    }
}

#[cfg(feature = "fault-injection")]
mod on {
    use std::sync::atomic::{AtomicBool, Ordering};

    use rlock_core::Error;

    use super::super::guard::Callback;
    use super::super::{
        self as ffi, Arg, ArgKind, Audience, Command, CommandCtx, Ctx, KeyUse, LoadError, Respond, Spec,
    };

    /// The environment variable by which a test lets the load itself panic.
    const AT_LOAD: &str = "RLOCK_FAULT_AT_LOAD";

    static UNLOAD: AtomicBool = AtomicBool::new(false);
    static COMMAND: AtomicBool = AtomicBool::new(false);
    static CONFIG: AtomicBool = AtomicBool::new(false);
    static SET_OPTION: AtomicBool = AtomicBool::new(false);
    static INFO: AtomicBool = AtomicBool::new(false);
    static SERVER_EVENT: AtomicBool = AtomicBool::new(false);
    static DISCONNECT: AtomicBool = AtomicBool::new(false);
    static TIMER: AtomicBool = AtomicBool::new(false);
    static KEY_EVENT: AtomicBool = AtomicBool::new(false);
    static SCAN: AtomicBool = AtomicBool::new(false);
    static ANSWER: AtomicBool = AtomicBool::new(false);
    static BLOCKED: AtomicBool = AtomicBool::new(false);

    /// Panics once if `RLOCK.FAULT` has named this kind of callback.
    pub(in crate::ffi) fn strike(callback: Callback) {
        let struck = match callback {
            Callback::Load => std::env::var_os(AT_LOAD).is_some(),
            Callback::Unload => UNLOAD.swap(false, Ordering::Relaxed),
            Callback::Command => COMMAND.swap(false, Ordering::Relaxed),
            // A fault there would leave a client without an answer, which no guard can mend.
            Callback::Reply | Callback::Unblocked => false,
            Callback::Free => false,
            Callback::Disconnect => DISCONNECT.swap(false, Ordering::Relaxed),
            Callback::Timer => TIMER.swap(false, Ordering::Relaxed),
            Callback::KeyEvent => KEY_EVENT.swap(false, Ordering::Relaxed),
            Callback::Config => CONFIG.swap(false, Ordering::Relaxed),
            Callback::SetOption => SET_OPTION.swap(false, Ordering::Relaxed),
            Callback::Info => INFO.swap(false, Ordering::Relaxed),
            Callback::ServerEvent => SERVER_EVENT.swap(false, Ordering::Relaxed),
            Callback::Scan => SCAN.swap(false, Ordering::Relaxed),
        };
        assert!(!struck, "a planted fault\nof two lines with a \0 in them");
    }

    /// Panics once if `RLOCK.FAULT` has named answers: the waiter has left its queue.
    pub(crate) fn strike_answer() {
        assert!(!ANSWER.swap(false, Ordering::Relaxed), "a planted fault before an answer");
    }

    /// Panics once, after a client was blocked, if `RLOCK.FAULT` has named that.
    pub(crate) fn strike_blocked() {
        assert!(!BLOCKED.swap(false, Ordering::Relaxed), "a planted fault after a client was blocked");
    }

    /// Registers `RLOCK.FAULT`.
    pub(crate) fn register(ctx: Ctx<'_>) -> Result<(), LoadError> {
        ffi::register::<Fault>(ctx)
    }

    /// `RLOCK.FAULT kind`: the next callback of that kind panics.
    struct Fault;

    /// The answer of [`Fault`].
    struct Armed;

    impl Respond for Armed {
        fn send(&self, ctx: Ctx<'_>) {
            ctx.reply_integer(1);
        }
    }

    impl Command for Fault {
        type Answer = Armed;
        const SPEC: Spec = Spec {
            name: c"rlock.fault",
            flags: c"fast",
            acl: c"fast dangerous",
            audience: Audience::Operators,
            summary: c"Lets the next callback of a kind panic",
            complexity: c"O(1)",
            tips: None,
            arity: 2,
            key: KeyUse::None,
            args: &[Arg::new(c"kind", ArgKind::String)],
        };

        fn run(ctx: CommandCtx<'_>) -> Result<Armed, Error> {
            let kind = ctx.args().from(1).next().unwrap_or_default();
            let flag = match kind {
                b"unload" => &UNLOAD,
                b"command" => &COMMAND,
                b"config" => &CONFIG,
                b"set-option" => &SET_OPTION,
                b"info" => &INFO,
                b"server-event" => &SERVER_EVENT,
                b"disconnect" => &DISCONNECT,
                b"timer" => &TIMER,
                b"key-event" => &KEY_EVENT,
                b"scan" => &SCAN,
                b"answer" => &ANSWER,
                b"blocked" => &BLOCKED,
                _ => return Err(Error::UnknownOption(kind.to_vec())),
            };
            flag.store(true, Ordering::Relaxed);
            Ok(Armed)
        }
    }
}
