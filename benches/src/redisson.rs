//! What a Redisson client sends for its plain lock: equivalents written for the benchmarks, which do the
//! same reads and writes on the same keys.

pub(crate) use rlock_testkit::redisson::TAKES as ACQUIRE;

/// Version 3. KEYS: the lock, its channel. ARGV: message, lease in ms, owner.
pub(crate) const RELEASE_3: &str = "\
if redis.call('hexists', KEYS[1], ARGV[3]) == 0 then
    return nil
end
if redis.call('hincrby', KEYS[1], ARGV[3], -1) > 0 then
    redis.call('pexpire', KEYS[1], ARGV[2])
    return 0
end
redis.call('del', KEYS[1])
redis.call('publish', KEYS[2], ARGV[1])
return 1";

/// Version 4, which keeps the result for a repeat. KEYS: the lock, its channel, the latch. ARGV: message,
/// lease in ms, owner, the publishing command, how long the latch is kept in ms.
pub(crate) const RELEASE_4: &str = "\
local known = redis.call('get', KEYS[3])
if known ~= false then
    return tonumber(known)
end
if redis.call('hexists', KEYS[1], ARGV[3]) == 0 then
    return nil
end
if redis.call('hincrby', KEYS[1], ARGV[3], -1) > 0 then
    redis.call('pexpire', KEYS[1], ARGV[2])
    redis.call('set', KEYS[3], 0, 'px', ARGV[5])
    return 0
end
redis.call('del', KEYS[1])
redis.call(ARGV[4], KEYS[2], ARGV[1])
redis.call('set', KEYS[3], 1, 'px', ARGV[5])
return 1";

/// The usual release of a simple lock. KEYS: the lock. ARGV: the value that the caller has set.
pub(crate) const COMPARE_AND_DELETE: &str = "\
if redis.call('get', KEYS[1]) == ARGV[1] then
    return redis.call('del', KEYS[1])
end
return 0";

/// How long version 4 keeps the result of an unlock, in ms.
pub(crate) const LATCH_MS: &str = "12000";

/// The channel on which a lock's release is announced.
pub(crate) fn channel(lock: &str) -> String {
    format!("redisson_lock__channel:{{{lock}}}")
}

/// The key of the result of one unlock.
pub(crate) fn latch(lock: &str, request: &str) -> String {
    format!("redisson_unlock_latch:{{{lock}}}:{request}")
}
