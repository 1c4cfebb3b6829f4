//! The options `rlock.*`: in the configuration file, by CONFIG SET, and as arguments at load.

use rlock_core::Admission;
use rlock_core::queue::Limits;

use crate::ffi::{Args, BoolOption, Ctx, LoadError, NumberOption, register_bool, register_number};

/// `rlock.accept`: whether those who hold nothing yet may acquire. `no` drains a server: holders can
/// still re-enter, renew and release.
pub(crate) static ACCEPT: BoolOption = BoolOption::new(c"accept", true);

/// `rlock.max-waiters`: how many may wait on the whole server.
static MAX_WAITERS: NumberOption = NumberOption::new(c"max-waiters", 100_000, 0..=10_000_000);

/// `rlock.max-waiters-per-key`: how many may wait for one lock.
static MAX_WAITERS_PER_KEY: NumberOption = NumberOption::new(c"max-waiters-per-key", 50_000, 0..=10_000_000);

/// Who may acquire now.
pub(crate) fn admission() -> Admission {
    if ACCEPT.get() { Admission::Open } else { Admission::HoldersOnly }
}

/// How many may wait.
pub(crate) fn limits() -> Limits {
    let size = |option: &NumberOption| usize::try_from(option.get()).unwrap_or(usize::MAX);
    Limits { server: size(&MAX_WAITERS), lock: size(&MAX_WAITERS_PER_KEY) }
}

/// Registers the options. The arguments at load are pairs of name and value, `accept no`, and go before
/// the defaults.
pub(crate) fn register(ctx: Ctx<'_>, args: Args<'_>) -> Result<(), LoadError> {
    let at_load = pairs(args)?;
    let given = |name: &std::ffi::CStr| {
        let pair = at_load.iter().find(|(known, _)| known.eq_ignore_ascii_case(name.to_bytes()));
        pair.map(|(_, value)| *value)
    };
    let accept = given(ACCEPT.name()).map(yes_or_no).transpose()?;
    register_bool(ctx, &ACCEPT, accept)?;
    for option in [&MAX_WAITERS, &MAX_WAITERS_PER_KEY] {
        let value = given(option.name()).map(|value| number(option, value)).transpose()?;
        register_number(ctx, option, value)?;
    }
    Ok(())
}

/// The arguments after the module's path, each name known and given once.
fn pairs<'a>(args: Args<'a>) -> Result<Vec<(&'a [u8], &'a [u8])>, LoadError> {
    let known = [ACCEPT.name(), MAX_WAITERS.name(), MAX_WAITERS_PER_KEY.name()];
    let mut pairs: Vec<(&[u8], &[u8])> = Vec::new();
    let mut words = args.all();
    while let Some(name) = words.next() {
        let shown = name.escape_ascii();
        if !known.iter().any(|known| name.eq_ignore_ascii_case(known.to_bytes())) {
            return Err(LoadError::BadArgument(format!("unknown argument '{shown}'")));
        }
        if pairs.iter().any(|(other, _)| other.eq_ignore_ascii_case(name)) {
            return Err(LoadError::BadArgument(format!("'{shown}' may be given only once")));
        }
        let Some(value) = words.next() else {
            return Err(LoadError::BadArgument(format!("'{shown}' must be followed by a value")));
        };
        pairs.push((name, value));
    }
    Ok(pairs)
}

fn yes_or_no(word: &[u8]) -> Result<bool, LoadError> {
    match word {
        word if word.eq_ignore_ascii_case(b"yes") => Ok(true),
        word if word.eq_ignore_ascii_case(b"no") => Ok(false),
        _ => Err(LoadError::BadArgument("'accept' must be followed by yes or no".to_owned())),
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
