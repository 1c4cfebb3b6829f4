//! Effects: the plain commands that replicas and the AOF get for a change.

use std::ffi::c_int;

use redis_module::raw;
use rlock_core::UnixMs;

use super::api::{api, optional_api};
use super::ctx::Ctx;
use super::string::StringRef;

impl Ctx<'_> {
    /// Sends `DEL key` to replicas and AOF.
    #[must_use]
    pub(crate) fn replicate_del(self, key: StringRef<'_>) -> bool {
        // SAFETY: the format says: one string.
        let status = unsafe {
            api!(RedisModule_Replicate)(self.as_ptr(), c"DEL".as_ptr(), c"s".as_ptr(), key.as_ptr())
        };
        status == raw::REDISMODULE_OK as c_int
    }

    /// Sends `HSET key field value` to replicas and AOF.
    #[must_use]
    pub(crate) fn replicate_hset(self, key: StringRef<'_>, field: StringRef<'_>, value: i64) -> bool {
        let (name, format) = (c"HSET".as_ptr(), c"ssl".as_ptr());
        let replicate = api!(RedisModule_Replicate);
        // SAFETY: the format says: two strings and a long long.
        let status = unsafe { replicate(self.as_ptr(), name, format, key.as_ptr(), field.as_ptr(), value) };
        status == raw::REDISMODULE_OK as c_int
    }

    /// Sends `PEXPIREAT key at` to replicas and AOF.
    #[must_use]
    pub(crate) fn replicate_pexpireat(self, key: StringRef<'_>, at: UnixMs) -> bool {
        let (name, format) = (c"PEXPIREAT".as_ptr(), c"sl".as_ptr());
        // SAFETY: the format says: a string and a long long.
        let status = unsafe { api!(RedisModule_Replicate)(self.as_ptr(), name, format, key.as_ptr(), at.0) };
        status == raw::REDISMODULE_OK as c_int
    }

    /// Sends `SET key value` to replicas and AOF.
    #[must_use]
    pub(crate) fn replicate_set(self, key: StringRef<'_>, value: i64) -> bool {
        let (name, format) = (c"SET".as_ptr(), c"sl".as_ptr());
        // SAFETY: the format says: a string and a long long.
        let status = unsafe { api!(RedisModule_Replicate)(self.as_ptr(), name, format, key.as_ptr(), value) };
        status == raw::REDISMODULE_OK as c_int
    }

    /// Sends `HSET key mode-field mode field value` to replicas and AOF.
    #[must_use]
    pub(crate) fn replicate_hset_mode(
        self,
        key: StringRef<'_>,
        mode: [StringRef<'_>; 2],
        field: StringRef<'_>,
        value: i64,
    ) -> bool {
        let (name, format, [mode_field, mode]) = (c"HSET".as_ptr(), c"ssssl".as_ptr(), mode);
        let replicate = api!(RedisModule_Replicate);
        let [key, mode_field, mode, field] = [key, mode_field, mode, field].map(StringRef::as_ptr);
        // SAFETY: the format says: four strings and a long long.
        let status = unsafe { replicate(self.as_ptr(), name, format, key, mode_field, mode, field, value) };
        status == raw::REDISMODULE_OK as c_int
    }

    /// Sends `HSET key field text` to replicas and AOF.
    #[must_use]
    pub(crate) fn replicate_hset_text(
        self,
        key: StringRef<'_>,
        field: StringRef<'_>,
        text: StringRef<'_>,
    ) -> bool {
        let (name, format) = (c"HSET".as_ptr(), c"sss".as_ptr());
        let replicate = api!(RedisModule_Replicate);
        let [key, field, text] = [key, field, text].map(StringRef::as_ptr);
        // SAFETY: the format says: three strings.
        let status = unsafe { replicate(self.as_ptr(), name, format, key, field, text) };
        status == raw::REDISMODULE_OK as c_int
    }

    /// Sends `HDEL key field` to replicas and AOF.
    #[must_use]
    pub(crate) fn replicate_hdel(self, key: StringRef<'_>, field: StringRef<'_>) -> bool {
        let (name, format) = (c"HDEL".as_ptr(), c"ss".as_ptr());
        let replicate = api!(RedisModule_Replicate);
        // SAFETY: the format says: two strings.
        let status = unsafe { replicate(self.as_ptr(), name, format, key.as_ptr(), field.as_ptr()) };
        status == raw::REDISMODULE_OK as c_int
    }

    /// Sends `ZADD key score member` to replicas and AOF.
    #[must_use]
    pub(crate) fn replicate_zadd(self, key: StringRef<'_>, member: StringRef<'_>, score: UnixMs) -> bool {
        let (name, format) = (c"ZADD".as_ptr(), c"sls".as_ptr());
        let replicate = api!(RedisModule_Replicate);
        // SAFETY: the format says: a string, a long long and a string.
        let status =
            unsafe { replicate(self.as_ptr(), name, format, key.as_ptr(), score.0, member.as_ptr()) };
        status == raw::REDISMODULE_OK as c_int
    }

    /// Sends `ZREM key member` to replicas and AOF.
    #[must_use]
    pub(crate) fn replicate_zrem(self, key: StringRef<'_>, member: StringRef<'_>) -> bool {
        let (name, format) = (c"ZREM".as_ptr(), c"ss".as_ptr());
        let replicate = api!(RedisModule_Replicate);
        // SAFETY: the format says: two strings.
        let status = unsafe { replicate(self.as_ptr(), name, format, key.as_ptr(), member.as_ptr()) };
        status == raw::REDISMODULE_OK as c_int
    }

    /// Sends `SET key 1 PXAT at` to replicas and AOF.
    #[must_use]
    pub(crate) fn replicate_lease(self, key: StringRef<'_>, at: UnixMs) -> bool {
        let (name, format, one, pxat) = (c"SET".as_ptr(), c"sccl".as_ptr(), c"1".as_ptr(), c"PXAT".as_ptr());
        let replicate = api!(RedisModule_Replicate);
        // SAFETY: the format says: a string, two of C, and a long long.
        let status = unsafe { replicate(self.as_ptr(), name, format, key.as_ptr(), one, pxat, at.0) };
        status == raw::REDISMODULE_OK as c_int
    }

    /// Publishes to the subscribers of replicas; false if the server did not take it. Not needed in a
    /// cluster, whose own bus reaches them.
    #[must_use]
    pub(crate) fn publish_to_replicas(self, channel: StringRef<'_>, message: StringRef<'_>) -> bool {
        if self.in_cluster() {
            return true;
        }
        // `A`: to the replicas, not into the AOF, which has no subscribers.
        let (name, format) = (c"PUBLISH".as_ptr(), c"Ass".as_ptr());
        let replicate = api!(RedisModule_Replicate);
        // SAFETY: the format says: two strings.
        let status = unsafe { replicate(self.as_ptr(), name, format, channel.as_ptr(), message.as_ptr()) };
        status == raw::REDISMODULE_OK as c_int
    }
}
