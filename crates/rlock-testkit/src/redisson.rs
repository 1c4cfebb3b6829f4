//! Redisson's scripts, written anew from their behaviour: the same reads and writes on the same keys, for locks whose
//! names have no brace. In scripts that publish, the last argument names the command for it: `spublish` in a cluster.

use redis::Connection;

use crate::commands::{ask, text};

/// Runs a script of the plain lock, the fenced one, or the read/write lock, by this owner and with this lease in ms.
#[track_caller]
pub fn run(client: &mut Connection, script: &str, key: &str, owner: &str, lease: i64) -> String {
    let lease_keys = format!("{{{key}}}:{owner}:rwlock_timeout");
    text(&ask(client, &["EVAL", script, "2", key, &lease_keys, &lease.to_string(), owner]))
}

/// A script of the fair lock, for a lease of 100 seconds and this budget; `now` is the time of the client's clock.
#[track_caller]
pub fn run_fair(
    client: &mut Connection,
    script: &str,
    key: &str,
    owner: &str,
    budget: i64,
    now: i64,
) -> String {
    let keys = ["redisson_lock_queue", "redisson_lock_timeout"].map(|prefix| format!("{prefix}:{{{key}}}"));
    let [now, budget] = [now, budget].map(|number| number.to_string());
    text(&ask(client, &["EVAL", script, "3", key, &keys[0], &keys[1], "100000", owner, &now, &budget]))
}

/// Acquires the plain lock: null, or the rest of its lease.
pub const TAKES: &str = "
    if redis.call('exists', KEYS[1]) == 0 or redis.call('hexists', KEYS[1], ARGV[2]) == 1 then
        redis.call('hincrby', KEYS[1], ARGV[2], 1)
        redis.call('pexpire', KEYS[1], ARGV[1])
        return nil
    end
    return redis.call('pttl', KEYS[1])";

/// Releases the plain or the fenced lock.
pub const GIVES_BACK: &str = "
    if redis.call('hexists', KEYS[1], ARGV[2]) == 0 then return nil end
    if redis.call('hincrby', KEYS[1], ARGV[2], -1) > 0 then
        redis.call('pexpire', KEYS[1], ARGV[1])
        return 0
    end
    redis.call('del', KEYS[1])
    redis.call(ARGV[3] or 'publish', 'redisson_lock__channel:{' .. KEYS[1] .. '}', '0')
    return 1";

/// Renews the plain, the fair or the fenced lock.
pub const RENEW: &str = "
    if redis.call('hexists', KEYS[1], ARGV[2]) == 0 then return 0 end
    return redis.call('pexpire', KEYS[1], ARGV[1])";

/// Acquires the fenced lock: the token, or null.
pub const FENCED_TAKES: &str = "
    if redis.call('exists', KEYS[1]) == 1 and redis.call('hexists', KEYS[1], ARGV[2]) == 0 then return nil end
    redis.call('hincrby', KEYS[1], ARGV[2], 1)
    redis.call('pexpire', KEYS[1], ARGV[1])
    return redis.call('incr', 'redisson_lock_token:{' .. KEYS[1] .. '}')";

/// Acquires a read hold: null, or the rest of the lock's lease.
pub const READ: &str = "
    local mode = redis.call('hget', KEYS[1], 'mode')
    if not mode then
        redis.call('hset', KEYS[1], 'mode', 'read')
        redis.call('hset', KEYS[1], ARGV[2], 1)
        redis.call('set', KEYS[2] .. ':1', 1, 'px', ARGV[1])
        redis.call('pexpire', KEYS[1], ARGV[1])
        return nil
    end
    if mode == 'read' or redis.call('hexists', KEYS[1], ARGV[2] .. ':write') == 1 then
        local hold = redis.call('hincrby', KEYS[1], ARGV[2], 1)
        redis.call('set', KEYS[2] .. ':' .. hold, 1, 'px', ARGV[1])
        local left = redis.call('pttl', KEYS[1])
        redis.call('pexpire', KEYS[1], math.max(left, tonumber(ARGV[1])))
        return nil
    end
    return redis.call('pttl', KEYS[1])";

/// Releases a read hold.
pub const UNREAD: &str = "
    local mode = redis.call('hget', KEYS[1], 'mode')
    if not mode then redis.call(ARGV[3] or 'publish', 'redisson_rwlock:{' .. KEYS[1] .. '}', '0') return 1 end
    if redis.call('hexists', KEYS[1], ARGV[2]) == 0 then return nil end
    local left = redis.call('hincrby', KEYS[1], ARGV[2], -1)
    if left == 0 then redis.call('hdel', KEYS[1], ARGV[2]) end
    redis.call('del', KEYS[2] .. ':' .. (left + 1))
    if redis.call('hlen', KEYS[1]) > 1 then
        local longest = -3
        for _, reader in ipairs(redis.call('hkeys', KEYS[1])) do
            local holds = tonumber(redis.call('hget', KEYS[1], reader))
            if holds then
                for hold = holds, 1, -1 do
                    local lease = '{' .. KEYS[1] .. '}:' .. reader .. ':rwlock_timeout:' .. hold
                    longest = math.max(longest, redis.call('pttl', lease))
                end
            end
        end
        if longest > 0 then
            redis.call('pexpire', KEYS[1], longest)
            return 0
        end
        if mode == 'write' then return 0 end
    end
    redis.call('del', KEYS[1])
    redis.call(ARGV[3] or 'publish', 'redisson_rwlock:{' .. KEYS[1] .. '}', '0')
    return 1";

/// Renews a read hold.
pub const RENEW_READ: &str = "
    local holds = redis.call('hget', KEYS[1], ARGV[2])
    if not holds then return 0 end
    redis.call('pexpire', KEYS[1], ARGV[1])
    for hold = tonumber(holds), 1, -1 do redis.call('pexpire', KEYS[2] .. ':' .. hold, ARGV[1]) end
    return 1";

/// Acquires a write hold.
pub const WRITE: &str = "
    local mode = redis.call('hget', KEYS[1], 'mode')
    local me = ARGV[2] .. ':write'
    if not mode then
        redis.call('hset', KEYS[1], 'mode', 'write')
        redis.call('hset', KEYS[1], me, 1)
        redis.call('pexpire', KEYS[1], ARGV[1])
        return nil
    end
    if mode == 'write' and redis.call('hexists', KEYS[1], me) == 1 then
        redis.call('hincrby', KEYS[1], me, 1)
        redis.call('pexpire', KEYS[1], redis.call('pttl', KEYS[1]) + ARGV[1])
        return nil
    end
    return redis.call('pttl', KEYS[1])";

/// Releases a write hold.
pub const UNWRITE: &str = "
    local me = ARGV[2] .. ':write'
    if redis.call('hget', KEYS[1], 'mode') ~= 'write' then return nil end
    if redis.call('hexists', KEYS[1], me) == 0 then return nil end
    if redis.call('hincrby', KEYS[1], me, -1) > 0 then
        redis.call('pexpire', KEYS[1], ARGV[1])
        return 0
    end
    redis.call('hdel', KEYS[1], me)
    if redis.call('hlen', KEYS[1]) == 1 then
        redis.call('del', KEYS[1])
    else
        redis.call('hset', KEYS[1], 'mode', 'read')
    end
    redis.call(ARGV[3] or 'publish', 'redisson_rwlock:{' .. KEYS[1] .. '}', '1')
    return 1";

/// The beginning of every fair script: it drops the heads whose deadline has passed by the caller's clock.
macro_rules! without_the_dead {
    ($rest:literal) => {
        concat!(
            "
    local now, budget, me = tonumber(ARGV[3]), tonumber(ARGV[4]), ARGV[2]
    local head = redis.call('lindex', KEYS[2], 0)
    while head and tonumber(redis.call('zscore', KEYS[3], head) or 0) <= now do
        redis.call('zrem', KEYS[3], head)
        redis.call('lpop', KEYS[2])
        head = redis.call('lindex', KEYS[2], 0)
    end
    local function acquire()
        redis.call('lpop', KEYS[2])
        redis.call('zrem', KEYS[3], me)
        for _, other in ipairs(redis.call('zrange', KEYS[3], 0, -1)) do
            redis.call('zincrby', KEYS[3], -budget, other)
        end
        redis.call('hset', KEYS[1], me, 1)
        redis.call('pexpire', KEYS[1], ARGV[1])
    end
    local function re_enter()
        redis.call('hincrby', KEYS[1], me, 1)
        redis.call('pexpire', KEYS[1], ARGV[1])
    end
    local function free()
        redis.call('del', KEYS[1])
        local channel = 'redisson_lock__channel:{' .. KEYS[1] .. '}:'
        if head then redis.call(ARGV[5] or 'publish', channel .. head, '0') end
        return 1
    end
    local free_for_me = redis.call('exists', KEYS[1]) == 0 and (not head or head == me)
    local mine = redis.call('hexists', KEYS[1], me) == 1",
            $rest
        )
    };
}

/// Acquires the fair lock or joins its queue: null, or the ms to wait.
pub const FAIR_TAKES: &str = without_the_dead!(
    "
    if free_for_me then return acquire() end
    if mine then return re_enter() end
    local deadline = redis.call('zscore', KEYS[3], me)
    if deadline then return math.floor(tonumber(deadline) - budget - now) end
    local last, left = redis.call('lindex', KEYS[2], -1), redis.call('pttl', KEYS[1])
    if last and last ~= me then left = (tonumber(redis.call('zscore', KEYS[3], last)) or now) - now end
    if redis.call('zadd', KEYS[3], left + budget + now, me) == 1 then redis.call('rpush', KEYS[2], me) end
    return math.floor(left)"
);

/// `tryLock()` of the fair lock, which neither waits nor joins the queue: null if it acquires the lock.
pub const FAIR_TRIES: &str = without_the_dead!(
    "
    if mine then return re_enter() end
    if not free_for_me then return 1 end
    return acquire()"
);

/// Leaves the queue.
pub const FAIR_GIVES_UP: &str = "
    local behind = false
    for _, other in ipairs(redis.call('zrange', KEYS[3], 0, -1)) do
        if behind then redis.call('zincrby', KEYS[3], -tonumber(ARGV[4]), other) end
        if other == ARGV[2] then behind = true end
    end
    redis.call('zrem', KEYS[3], ARGV[2])
    redis.call('lrem', KEYS[2], 0, ARGV[2])
    return 1";

/// Releases the fair lock, and notifies the head of the queue on that waiter's channel.
pub const FAIR_GIVES_BACK: &str = without_the_dead!(
    "
    if not mine then return nil end
    if redis.call('hincrby', KEYS[1], me, -1) > 0 then
        redis.call('pexpire', KEYS[1], ARGV[1])
        return 0
    end
    return free()"
);

/// Releases the fair lock by force, whatever its holder.
pub const FAIR_FORCED: &str =
    without_the_dead!("\n    if redis.call('exists', KEYS[1]) == 1 then return free() end\n    return 0");
