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
        self as ffi, Arg, ArgType, Audience, Command, CommandCtx, Ctx, KeyUse, LoadError, Respond, Spec,
    };

    /// The environment variable by which a test lets the load itself panic.
    const AT_LOAD: &str = "RLOCK_FAULT_AT_LOAD";

    /// A type of this alignment, with contents.
    trait Aligned: Clone + PartialEq {
        fn filled(with: u8) -> Self;
    }

    macro_rules! aligned {
        ($($name:ident $align:literal)*) => {
            $(#[repr(align($align))]
            #[derive(Clone, PartialEq)]
            struct $name([u8; $align]);

            impl Aligned for $name {
                fn filled(with: u8) -> Self {
                    Self([with; $align])
                }
            })*
        };
    }

    aligned! { To1 1 To8 8 To16 16 To32 32 To64 64 To4096 4096 }

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

    /// Whether blocks of several sizes of this type are aligned, and keep what they hold while they grow and shrink.
    fn keeps_aligned<T: Aligned>() -> bool {
        let is_aligned = |list: &Vec<T>| list.as_ptr().addr().is_multiple_of(align_of::<T>());
        (1..40).all(|count| {
            let mut lists: Vec<Vec<T>> = (0..count).map(|n| vec![T::filled(n); 1]).collect();
            let mut all_are = lists.iter().all(is_aligned);
            for (n, list) in (0..count).zip(&mut lists) {
                list.resize(usize::from(count), T::filled(n));
                all_are &= is_aligned(list);
                list.truncate(usize::from(count).div_ceil(2));
                list.shrink_to_fit();
                all_are &= is_aligned(list) && list.iter().all(|one| *one == T::filled(n));
            }
            all_are
        })
    }

    /// Whether blocks in which the unwinder keeps its part of a panic are aligned as it takes them to be.
    fn are_the_unwinders() -> bool {
        let is_usual = |list: &Vec<u64>| list.capacity() < 4 || list.as_ptr().addr().is_multiple_of(16);
        let mut grown: Vec<Vec<u64>> =
            (1..200).map(|len: usize| Vec::with_capacity((len % 20).max(1))).collect();
        let mut all_are = grown.iter().all(is_usual);
        for (len, list) in grown.iter_mut().enumerate() {
            list.resize(len, 7);
            all_are &= is_usual(list);
            list.truncate(len % 9);
            list.shrink_to_fit();
            all_are &= is_usual(list) && list.iter().all(|one| *one == 7);
        }
        all_are
    }

    /// Whether all alignments are kept, in zeroed memory too.
    fn are_all_aligned() -> bool {
        let zeroed: Vec<Vec<u128>> = (1..100).map(|len| vec![0; len]).collect();
        let is_zeroed = |list: &Vec<u128>| list.as_ptr().is_aligned() && list.iter().all(|one| *one == 0);
        zeroed.iter().all(is_zeroed)
            && are_the_unwinders()
            && keeps_aligned::<To1>()
            && keeps_aligned::<To8>()
            && keeps_aligned::<To16>()
            && keeps_aligned::<To32>()
            && keeps_aligned::<To64>()
            && keeps_aligned::<To4096>()
    }

    /// Registers `RLOCK.FAULT`.
    pub(crate) fn register(ctx: Ctx<'_>) -> Result<(), LoadError> {
        ffi::register::<Fault>(ctx)
    }

    /// `RLOCK.FAULT kind`: the next callback of that kind panics. `RLOCK.FAULT alignment` checks the allocator instead, and is an
    /// error if a block is not aligned.
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
            args: &[Arg::new(c"kind", ArgType::String)],
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
                b"alignment" if are_all_aligned() => return Ok(Armed),
                b"alignment" => return Err(Error::Internal("a block is not aligned")),
                _ => return Err(Error::UnknownOption(kind.to_vec())),
            };
            flag.store(true, Ordering::Relaxed);
            Ok(Armed)
        }
    }
}
