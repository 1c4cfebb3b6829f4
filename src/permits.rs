//! The permits of a lock, read from its sorted set.

use rlock_core::facts::{Holder, MOST_ENDED, Permits};
use rlock_core::shape::{self, Scores};
use rlock_core::{Error, Fields, Holds, UnixMs};

use crate::ffi::{Ctx, Edge, Key, OwnedString, StringRef};

/// What a sorted set holds as this owner sees it: a lock with permits, or an error. One whose permits have all ended is
/// a free lock.
pub(crate) fn state(key: &Key<'_>, owner: Option<StringRef<'_>>, now: UnixMs) -> Result<Fields, Error> {
    let own = owner.and_then(|owner| key.score(owner));
    let (Some(lowest), Some(highest)) = (edge(key, Edge::Lowest), edge(key, Edge::Highest)) else {
        return Err(Error::NotPermits);
    };
    let scores = Scores { lowest, highest, own };
    let is_alive = shape::permits(scores, key.expiry(), now)?;
    Ok(if is_alive { Fields::permits(key.len(), own.is_some(), key.expiry()) } else { Fields::ABANDONED })
}

/// The lowest or the highest score.
fn edge(key: &Key<'_>, from: Edge) -> Option<f64> {
    let mut found = None;
    key.for_each_member(f64::NEG_INFINITY, from, |_, score| {
        found = Some(score);
        false
    });
    found
}

/// The permits as this owner sees them.
pub(crate) fn of(key: &Key<'_>, owner: Option<StringRef<'_>>, now: UnixMs) -> Permits {
    let is_own = |member: &OwnedString| owner.is_some_and(|owner| **member == *owner.bytes());
    let mut permits =
        Permits { own: owner.and_then(|owner| shape::end(key.score(owner)?)), ..Permits::default() };
    key.for_each_member(f64::NEG_INFINITY, Edge::Lowest, |member, score| {
        let has_ended = is_before(score, now);
        if has_ended && !is_own(&member) {
            permits.ended.push(Holder { owner: Box::from(&*member), holds: Holds::ONE });
        }
        has_ended && permits.ended.len() < MOST_ENDED
    });
    let other = |from, above| {
        let mut found = None;
        key.for_each_member(above, from, |member, score| {
            found = shape::end(score).filter(|_| !is_own(&member));
            found.is_none()
        });
        found
    };
    permits.first_end = other(Edge::Lowest, score(now));
    permits.last_end = other(Edge::Highest, score(now));
    permits
}

/// The score of a permit that ends now.
pub(crate) fn score(now: UnixMs) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "times are below 2^53")]
    let score = now.0 as f64;
    score
}

/// Whether a permit with this score has ended.
fn is_before(score: f64, now: UnixMs) -> bool {
    shape::end(score).is_none_or(|end| end <= now)
}

/// How many permits are alive: the sorted set knows that without a walk. `None` where the server has no ZCOUNT by this name.
pub(crate) fn living(ctx: Ctx<'_>, name: StringRef<'_>, now: UnixMs) -> Option<u32> {
    let after = OwnedString::new(format!("({}", now.0).as_bytes());
    let living = ctx.count(c"ZCOUNT", &[name, after.borrow(), OwnedString::new(b"+inf").borrow()]);
    u32::try_from(living?).ok()
}
