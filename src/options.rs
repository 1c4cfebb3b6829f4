//! The options `rlock.*`: in the configuration file, by CONFIG SET, and as arguments at load.

use rlock_core::locks::{Limits, TieLimits, Turns};
use rlock_core::settings::{AtOnce, Settings};
use rlock_core::types::MAX_LEASE_MS;
use rlock_core::{Admission, LeaseMs, departures};

use crate::ffi::{Args, BoolOption, Ctx, LoadError, NumberOption, register_bool, register_number};
use crate::waiters;

/// `rlock.accept`: whether owners without a hold may acquire. `no` drains a server: waiters are sent away,
/// holders can still re-enter, renew and release.
pub(crate) static ACCEPT: BoolOption = BoolOption::new(c"accept", true, |ctx| {
    if !ACCEPT.get() {
        departures::drain(waiters::node(&ctx));
    }
});

/// `rlock.max-waiters`: the most waiters on the whole server.
static MAX_WAITERS: NumberOption = NumberOption::new(c"max-waiters", 100_000, 0..=10_000_000);

/// `rlock.max-waiters-per-key`: the most waiters for one lock.
static MAX_WAITERS_PER_KEY: NumberOption = NumberOption::new(c"max-waiters-per-key", 50_000, 0..=10_000_000);

/// `rlock.grant-confirm-ms`: how long a grant by message lasts unless its owner confirms it.
static GRANT_CONFIRM: NumberOption = NumberOption::new(c"grant-confirm-ms", 5_000, 1..=MAX_LEASE_MS);

/// `rlock.foreign-turn-grants`: the native grants in a row after which a lock is left to Redisson clients.
static YIELD_AFTER_GRANTS: NumberOption = NumberOption::new(c"foreign-turn-grants", 100, 1..=i64::MAX >> 32);

/// `rlock.foreign-turn-ms`: the time after which a lock is left to Redisson clients, whatever the number of grants.
static YIELD_AFTER: NumberOption = NumberOption::new(c"foreign-turn-ms", 1_000, 1..=MAX_LEASE_MS);

/// `rlock.foreign-window-ms`: how long a lock is left to Redisson clients; 0 is never.
static YIELD_WINDOW: NumberOption = NumberOption::new(c"foreign-window-ms", 20, 0..=60_000);

/// `rlock.fair-turn-ms`: how long a free lock is left to the head of the fair list.
static FAIR_TURN: NumberOption = NumberOption::new(c"fair-turn-ms", 5_000, 1..=MAX_LEASE_MS);

/// `rlock.max-ties`: how many holds and waits may be tied to connections.
static MAX_TIES: NumberOption = NumberOption::new(c"max-ties", 1_000_000, 0..=10_000_000);

/// `rlock.max-share-per-user`: how many percent of the waiters and of the ties one user may have, other than the default user;
/// with 100, no user is limited.
static MAX_SHARE_PER_USER: NumberOption = NumberOption::new(c"max-share-per-user", 50, 1..=100);

/// `rlock.hot-locks`: how many locks RLOCK.HOT knows at most; 0 counts none.
static HOT_LOCKS: NumberOption = NumberOption::new(c"hot-locks", 128, 0..=1_024);

static NUMBERS: [&NumberOption; 10] = [
    &MAX_WAITERS,
    &MAX_WAITERS_PER_KEY,
    &GRANT_CONFIRM,
    &YIELD_AFTER_GRANTS,
    &YIELD_AFTER,
    &YIELD_WINDOW,
    &FAIR_TURN,
    &MAX_TIES,
    &MAX_SHARE_PER_USER,
    &HOT_LOCKS,
];

/// The options as the rules read them.
pub(crate) fn settings() -> Settings {
    let size = |option: &NumberOption| usize::try_from(option.get()).unwrap_or(usize::MAX);
    let share = |option: &NumberOption| share_of(size(option), size(&MAX_SHARE_PER_USER));
    Settings {
        admission: if ACCEPT.get() { Admission::Open } else { Admission::HoldersOnly },
        limits: Limits {
            server: size(&MAX_WAITERS),
            lock: size(&MAX_WAITERS_PER_KEY),
            user: share(&MAX_WAITERS),
        },
        grant_confirm: LeaseMs::new(GRANT_CONFIRM.get()).unwrap_or(LeaseMs::SHORTEST),
        turns: Turns {
            after_grants: u32::try_from(YIELD_AFTER_GRANTS.get()).unwrap_or(u32::MAX),
            after_ms: YIELD_AFTER.get().unsigned_abs(),
        },
        yield_window: LeaseMs::new(YIELD_WINDOW.get()),
        fair_turn: LeaseMs::new(FAIR_TURN.get()).unwrap_or(LeaseMs::SHORTEST),
        max_ties: TieLimits { server: size(&MAX_TIES), user: share(&MAX_TIES) },
        hot_locks: size(&HOT_LOCKS),
        at_once: AtOnce::USUAL,
    }
}

/// The share of one user, rounded up: of one place it has that one.
fn share_of(all: usize, percent: usize) -> usize {
    if percent < 100 { all.saturating_mul(percent).div_ceil(100) } else { usize::MAX }
}

/// The largest share of one user, in percent.
pub(crate) fn max_share_per_user() -> u64 {
    MAX_SHARE_PER_USER.get().unsigned_abs()
}

/// What the arguments at load say of the options.
pub(crate) struct AtLoad {
    accept: Option<bool>,
    numbers: [Option<i64>; NUMBERS.len()],
}

impl AtLoad {
    /// Reads the arguments: pairs of name and value, `accept no`.
    pub(crate) fn read(args: Args<'_>) -> Result<Self, LoadError> {
        let pairs = pairs(args)?;
        let given = |name: &std::ffi::CStr| {
            let pair = pairs.iter().find(|(known, _)| known.eq_ignore_ascii_case(name.to_bytes()));
            pair.map(|(_, value)| *value)
        };
        let accept = given(ACCEPT.name()).map(yes_or_no).transpose()?;
        let mut numbers = [None; NUMBERS.len()];
        for (place, option) in numbers.iter_mut().zip(NUMBERS) {
            *place = given(option.name()).map(|value| number(option, value)).transpose()?;
        }
        Ok(Self { accept, numbers })
    }
}

/// Registers the options. The arguments at load override the defaults.
pub(crate) fn register(ctx: Ctx<'_>, at_load: &AtLoad) -> Result<(), LoadError> {
    register_bool(ctx, &ACCEPT, at_load.accept)?;
    let mut numbers = NUMBERS.into_iter().zip(at_load.numbers);
    numbers.try_for_each(|(option, value)| register_number(ctx, option, value))
}

/// Name and value.
type Pair<'a> = (&'a [u8], &'a [u8]);

/// The arguments after the module's path, each name known and given once.
fn pairs(args: Args<'_>) -> Result<Vec<Pair<'_>>, LoadError> {
    let known = |name: &[u8]| {
        let mut names = NUMBERS.iter().map(|option| option.name()).chain([ACCEPT.name()]);
        names.any(|known| name.eq_ignore_ascii_case(known.to_bytes()))
    };
    let mut pairs: Vec<Pair<'_>> = Vec::new();
    let mut words = args.from(0);
    while let Some(name) = words.next() {
        let shown = name.escape_ascii();
        if !known(name) {
            return Err(LoadError::BadArgument(format!("unknown argument '{shown}'")));
        }
        if pairs.iter().any(|(other, _)| other.eq_ignore_ascii_case(name)) {
            return Err(LoadError::BadArgument(format!("'{shown}' appears twice; use it once")));
        }
        let Some(value) = words.next() else {
            return Err(LoadError::BadArgument(format!("'{shown}' needs a value")));
        };
        pairs.push((name, value));
    }
    Ok(pairs)
}

fn yes_or_no(word: &[u8]) -> Result<bool, LoadError> {
    match word {
        word if word.eq_ignore_ascii_case(b"yes") => Ok(true),
        word if word.eq_ignore_ascii_case(b"no") => Ok(false),
        _ => Err(LoadError::BadArgument("'accept' must be yes or no".to_owned())),
    }
}

fn number(option: &NumberOption, word: &[u8]) -> Result<i64, LoadError> {
    let range = option.range();
    let value = rlock_core::types::canonical_integer(word).filter(|value| range.contains(value));
    value.ok_or_else(|| {
        let name = option.name().to_string_lossy();
        LoadError::BadArgument(format!("'{name}' must be from {} to {}", range.start(), range.end()))
    })
}
