//! The sorted set in an open key.

use std::ffi::c_int;
use std::ptr;

use redis_module::raw;
use rlock_core::UnixMs;

use super::api::{api, optional_api};
use super::key::{Key, KeyType};
use super::string::{OwnedString, StringRef};

/// Which end of a range of scores a walk begins at.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Edge {
    /// The lowest score.
    Lowest,
    /// The highest score.
    Highest,
}

impl Key<'_> {
    /// The score of a member.
    pub(crate) fn score(&self, member: StringRef<'_>) -> Option<f64> {
        if self.key_type() != KeyType::SortedSet {
            return None;
        }
        let mut score = 0.0;
        // SAFETY: the key is open, for a sorted set.
        let status = unsafe { api!(RedisModule_ZsetScore)(self.as_ptr(), member.as_ptr(), &raw mut score) };
        (status == raw::REDISMODULE_OK as c_int).then_some(score)
    }

    /// Visits the members with scores above this one, in their order, until `visit` returns false. Minus infinity stands
    /// for all members, also those with that score.
    pub(crate) fn for_each_member(
        &self,
        above: f64,
        from: Edge,
        mut visit: impl FnMut(OwnedString, f64) -> bool,
    ) {
        if self.key_type() != KeyType::SortedSet {
            return;
        }
        let begin = match from {
            Edge::Lowest => api!(RedisModule_ZsetFirstInScoreRange),
            Edge::Highest => api!(RedisModule_ZsetLastInScoreRange),
        };
        let step = match from {
            Edge::Lowest => api!(RedisModule_ZsetRangeNext),
            Edge::Highest => api!(RedisModule_ZsetRangePrev),
        };
        let excluded = c_int::from(above > f64::NEG_INFINITY);
        // SAFETY: the key is open, for a sorted set; the lower bound is left out where it is a number.
        let mut status = unsafe { begin(self.as_ptr(), above, f64::INFINITY, excluded, 0) };
        while status == raw::REDISMODULE_OK as c_int {
            let mut score = 0.0;
            // SAFETY: a walk is under way; the server makes the string for us to free, or returns null at the end.
            let member = unsafe {
                OwnedString::from_raw(api!(RedisModule_ZsetRangeCurrentElement)(
                    self.as_ptr(),
                    &raw mut score,
                ))
            };
            let Some(member) = member else { break };
            if !visit(member, score) {
                break;
            }
            // SAFETY: a walk is under way. 0: it has ended.
            status = if unsafe { step(self.as_ptr()) } == 0 { raw::REDISMODULE_ERR as c_int } else { status };
        }
        // SAFETY: the key is open; without a walk this does nothing.
        unsafe { api!(RedisModule_ZsetRangeStop)(self.as_ptr()) };
    }

    /// Sets the score of a member, and makes the sorted set if needed.
    #[must_use]
    pub(crate) fn set_score(&mut self, member: StringRef<'_>, end: UnixMs) -> bool {
        #[expect(clippy::cast_precision_loss, reason = "lease ends are below 2^53")]
        let score = end.0 as f64;
        // SAFETY: the key is open; no flags are given. The server copies the member.
        let status =
            unsafe { api!(RedisModule_ZsetAdd)(self.as_ptr(), score, member.as_ptr(), ptr::null_mut()) };
        status == raw::REDISMODULE_OK as c_int
    }

    /// Removes a member, and the key with the last one; false if it was not there.
    pub(crate) fn remove_member(&mut self, member: StringRef<'_>) -> bool {
        let mut removed = 0;
        // SAFETY: the key is open.
        let status = unsafe { api!(RedisModule_ZsetRem)(self.as_ptr(), member.as_ptr(), &raw mut removed) };
        status == raw::REDISMODULE_OK as c_int && removed == 1
    }

    /// Deletes the key, and frees its value in the background; it stays open and is empty.
    #[must_use]
    pub(crate) fn unlink(&mut self) -> bool {
        // SAFETY: the key is open.
        let status = unsafe { api!(RedisModule_UnlinkKey)(self.as_ptr()) };
        status == raw::REDISMODULE_OK as c_int
    }
}
