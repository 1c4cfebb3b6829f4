//! What Redisson's scripts do, written anew: the same reads and writes on the same keys.

/// KEYS: the lock. ARGV: lease, owner. Null when it has the lock, else the ms that it may wait at most.
pub(crate) const TAKE: &str = "
    if redis.call('exists', KEYS[1]) == 0 or redis.call('hexists', KEYS[1], ARGV[2]) == 1 then
        redis.call('hincrby', KEYS[1], ARGV[2], 1)
        redis.call('pexpire', KEYS[1], ARGV[1])
        return nil
    end
    return redis.call('pttl', KEYS[1])";

/// KEYS: the lock. ARGV: lease, owner, the command that publishes, the channel. Null where it held nothing, 1 when free.
pub(crate) const GIVE_BACK: &str = "
    if redis.call('hexists', KEYS[1], ARGV[2]) == 0 then return nil end
    if redis.call('hincrby', KEYS[1], ARGV[2], -1) > 0 then
        redis.call('pexpire', KEYS[1], ARGV[1])
        return 0
    end
    redis.call('del', KEYS[1])
    redis.call(ARGV[3], ARGV[4], '0')
    return 1";

/// KEYS: the lock. ARGV: lease, owner.
pub(crate) const RENEW: &str = "
    if redis.call('hexists', KEYS[1], ARGV[2]) == 0 then return 0 end
    redis.call('pexpire', KEYS[1], ARGV[1])
    return 1";

/// KEYS: the lock, the beginning of the owner's lease keys. ARGV: lease, owner.
pub(crate) const READ: &str = "
    local mode = redis.call('hget', KEYS[1], 'mode')
    if mode and mode ~= 'read' and redis.call('hexists', KEYS[1], ARGV[2] .. ':write') == 0 then
        return redis.call('pttl', KEYS[1])
    end
    if not mode then redis.call('hset', KEYS[1], 'mode', 'read') end
    local hold = redis.call('hincrby', KEYS[1], ARGV[2], 1)
    redis.call('set', KEYS[2] .. ':' .. hold, 1, 'px', ARGV[1])
    local left = redis.call('pttl', KEYS[1])
    redis.call('pexpire', KEYS[1], math.max(left, tonumber(ARGV[1])))
    return nil";

/// KEYS: as READ. ARGV: lease, owner, the command that publishes, the channel, what all lease keys begin with.
pub(crate) const UNREAD: &str = "
    local mode = redis.call('hget', KEYS[1], 'mode')
    if not mode then redis.call(ARGV[3], ARGV[4], '0') return 1 end
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
                    longest = math.max(longest, redis.call('pttl', ARGV[5] .. reader .. ':rwlock_timeout:' .. hold))
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
    redis.call(ARGV[3], ARGV[4], '0')
    return 1";

/// KEYS: as READ. ARGV: lease, owner. Sets the end of the whole lock to that of this reader.
pub(crate) const RENEW_READ: &str = "
    local holds = redis.call('hget', KEYS[1], ARGV[2])
    if not holds then return 0 end
    redis.call('pexpire', KEYS[1], ARGV[1])
    for hold = tonumber(holds), 1, -1 do redis.call('pexpire', KEYS[2] .. ':' .. hold, ARGV[1]) end
    return 1";

/// KEYS: the lock. ARGV: lease, owner.
pub(crate) const WRITE: &str = "
    local mode, me = redis.call('hget', KEYS[1], 'mode'), ARGV[2] .. ':write'
    if not mode then
        redis.call('hset', KEYS[1], 'mode', 'write', me, 1)
        redis.call('pexpire', KEYS[1], ARGV[1])
        return nil
    end
    return redis.call('pttl', KEYS[1])";

/// KEYS: the lock. ARGV: lease, owner, the command that publishes, the channel.
pub(crate) const UNWRITE: &str = "
    local me = ARGV[2] .. ':write'
    if redis.call('hget', KEYS[1], 'mode') ~= 'write' then return nil end
    if redis.call('hexists', KEYS[1], me) == 0 then return nil end
    redis.call('hdel', KEYS[1], me)
    if redis.call('hlen', KEYS[1]) == 1 then
        redis.call('del', KEYS[1])
    else
        redis.call('hset', KEYS[1], 'mode', 'read')
    end
    redis.call(ARGV[3], ARGV[4], '1')
    return 1";

/// Drops heads of the fair list whose deadline has passed by the caller's clock. KEYS: the lock, the list, the
/// deadlines. ARGV: lease, owner, now, budget.
macro_rules! without_the_dead {
    ($rest:literal) => {
        concat!(
            "
    local now, me, budget = tonumber(ARGV[3]), ARGV[2], tonumber(ARGV[4])
    while true do
        local first = redis.call('lindex', KEYS[2], 0)
        if not first then break end
        local deadline = redis.call('zscore', KEYS[3], first)
        if deadline and tonumber(deadline) > now then break end
        redis.call('zrem', KEYS[3], first)
        redis.call('lpop', KEYS[2])
    end",
            $rest
        )
    };
}

/// Null when it has the lock, else the ms that it may wait.
pub(crate) const TAKE_FAIR: &str = without_the_dead!(
    "
    local first = redis.call('lindex', KEYS[2], 0)
    if redis.call('exists', KEYS[1]) == 0 and (not first or first == me) then
        redis.call('lpop', KEYS[2])
        redis.call('zrem', KEYS[3], me)
        for _, other in ipairs(redis.call('zrange', KEYS[3], 0, -1)) do
            redis.call('zincrby', KEYS[3], -budget, other)
        end
        redis.call('hset', KEYS[1], me, 1)
        redis.call('pexpire', KEYS[1], ARGV[1])
        return nil
    end
    if redis.call('hexists', KEYS[1], me) == 1 then
        redis.call('hincrby', KEYS[1], me, 1)
        redis.call('pexpire', KEYS[1], ARGV[1])
        return nil
    end
    local mine = redis.call('zscore', KEYS[3], me)
    if mine then return math.floor(tonumber(mine) - budget - now) end
    local last, left = redis.call('lindex', KEYS[2], -1), redis.call('pttl', KEYS[1])
    if last and last ~= me then left = (tonumber(redis.call('zscore', KEYS[3], last)) or now) - now end
    if redis.call('zadd', KEYS[3], left + budget + now, me) == 1 then redis.call('rpush', KEYS[2], me) end
    return math.floor(left)"
);

/// ARGV further: the command that publishes, what the waiters' channels begin with.
pub(crate) const GIVE_BACK_FAIR: &str = without_the_dead!(
    "
    if redis.call('hexists', KEYS[1], me) == 0 then return nil end
    redis.call('del', KEYS[1])
    local next = redis.call('lindex', KEYS[2], 0)
    if next then redis.call(ARGV[5], ARGV[6] .. next, '0') end
    return 1"
);

/// Gives up waiting.
pub(crate) const LEAVE_FAIR: &str = "
    local behind = false
    for _, other in ipairs(redis.call('zrange', KEYS[3], 0, -1)) do
        if behind then redis.call('zincrby', KEYS[3], -tonumber(ARGV[4]), other) end
        if other == ARGV[2] then behind = true end
    end
    redis.call('zrem', KEYS[3], ARGV[2])
    redis.call('lrem', KEYS[2], 0, ARGV[2])
    return 1";
