<?php

/** Locks with one lease (in ms). The function connects: the connection is of this object alone. */
final class Locks
{
    private ?Redis $redis = null;

    public function __construct(private Closure $connect, public readonly int $leaseMs = 30_000)
    {
    }

    /** Waits for up to $waitMs. Null: another owner holds the lock. */
    public function acquire(string $name, int $waitMs = 0): ?Held
    {
        $owner = sprintf('php@%s:%d:%s:1', gethostname(), getmypid(), bin2hex(random_bytes(8)));
        $words = ['RLOCK.ACQUIRE', $name, $owner, $this->leaseMs, 'HOLDS', 1, 'FENCED'];
        $end = self::now() + $waitMs;
        try {
            $sent = self::now();
            $reply = $this->send(0, ...$words);
            while ($reply === null && ($left = (int) ceil($end - self::now())) > 0) {
                $reply = $this->send($left, ...$words, ...['BLOCK', $left]);
                // The reply may be old by now: a renewal dates the start of the lease.
                $sent = self::now();
                if ($reply !== null && $this->send(0, 'RLOCK.RENEW', $name, $owner, $this->leaseMs) !== 1) {
                    $reply = null;
                }
            }
        } catch (RedisException $error) {
            // The server may have granted the lock. If this fails too, the lease ends it.
            try {
                $this->send(0, 'RLOCK.CANCEL', $name, $owner);
                $this->send(0, 'RLOCK.RELEASE', $name, $owner, 'ALL');
            } catch (RedisException) {
            }
            throw $error;
        }
        return $reply === null ? null : new Held($this, $name, $owner, $reply[2], $sent);
    }

    /** Fails without an answer after 2 s or a third of the lease, and longer by what the command may wait. */
    public function send(int $waitMs, string|int ...$words): mixed
    {
        try {
            $this->redis ??= ($this->connect)();
            $this->redis->setOption(Redis::OPT_READ_TIMEOUT, min(2, $this->leaseMs / 3_000) + $waitMs / 1000);
            $this->redis->clearLastError();
            $reply = $this->redis->rawCommand(...$words);
            $error = $this->redis->getLastError();
        } catch (RedisException $exception) {
            // A late reply would be taken for that of the next command.
            $this->redis?->close();
            $this->redis = null;
            throw $exception;
        }
        // Errors and nulls are both false, and a null in place of a list is [].
        if ($error !== null) {
            throw new RedisException($error);
        }
        return $reply === false || $reply === [] ? null : $reply;
    }

    public static function now(): float
    {
        return hrtime(true) / 1e6;
    }
}

/** A held lock. PHP has no background: call keep() between the steps of long work. */
final class Held
{
    private float $until;
    private float $renewAt;

    public function __construct(
        private Locks $locks,
        private string $name,
        public readonly string $owner,
        public readonly int $token,
        float $sent,
    ) {
        $this->extend($sent);
    }

    /** Throws if others may hold the lock; reads the clock and sends nothing. */
    public function check(): void
    {
        if (Locks::now() >= $this->until) {
            throw new RuntimeException("the lock {$this->name} is lost");
        }
    }

    /** Renews when a third of the lease has passed. A failed renewal is tried again soon, a refused one loses the lock. */
    public function keep(): void
    {
        $this->check();
        $sent = Locks::now();
        if ($sent < $this->renewAt) {
            return;
        }
        $this->renewAt = $sent + $this->locks->leaseMs / 30;
        try {
            $renewed = $this->locks->send(0, 'RLOCK.RENEW', $this->name, $this->owner, $this->locks->leaseMs) === 1;
            $this->check(); // a lost lock stays lost
            $renewed ? $this->extend($sent) : $this->until = 0;
        } catch (RedisException) {
        }
        $this->check();
    }

    /** False: the lock was lost before. After an exception the outcome is unknown: let the lease end. */
    public function release(): bool
    {
        $lost = Locks::now() >= $this->until;
        $this->until = 0;
        return $this->locks->send(0, 'RLOCK.RELEASE', $this->name, $this->owner, 'ALL') !== null && !$lost;
    }

    /** The server's lease began after the command was sent, and its clock may run faster. */
    private function extend(float $sent): void
    {
        $this->until = $sent + $this->locks->leaseMs * 0.99 - 2;
        $this->renewAt = $sent + $this->locks->leaseMs / 3;
    }
}
