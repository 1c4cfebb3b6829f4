<?php
// docs/clients/php.md on a real server: hand-off, a wait in vain, renewal, loss, a server that stops, a broken connection.
require 'page.php';

function check(bool $true, string $what): void
{
    $true || throw new Exception($what);
}

function refused(callable $call, string $class): float
{
    $start = Locks::now();
    try {
        $call();
    } catch (Exception $error) {
        check($error instanceof $class, (string) $error);
        return Locks::now() - $start;
    }
    throw new Exception("no $class");
}

$connect = (fn () => $this->connect)->call($locks);
$app = $connect();
[$short, $other] = [new Locks($connect, 3_000), new Locks($connect)];

// Another owner is denied; a repeated command adds no hold.
$held = $other->acquire('page');
check($other->acquire('page') === null, 'denied');
check($other->send(0, 'RLOCK.ACQUIRE', 'page', $held->owner, 30_000, 'HOLDS', 1)[0] === 1, 'no hold more');

// Longer than the usual time-out, to the end.
$start = Locks::now();
check($short->acquire('page', 3_000) === null, 'waited in vain');
check(Locks::now() - $start >= 3_000 && Locks::now() - $start < 4_500, 'for 3 s');

// The release hands the lock to the waiter.
$words = array_map(escapeshellarg(...), ['RLOCK.RELEASE', 'page', $held->owner, 'ALL']);
$process = popen("sleep 0.5; redis-cli -u {$_SERVER['REDIS_URL']} " . implode(' ', $words), 'r');
$next = $short->acquire('page', 10_000);
check($next !== null && $next->token > $held->token && !$held->release(), 'handed over');
pclose($process);

// Renewals keep it for several leases; a forced release is noticed at the next one.
for ($step = 0; $step < 50; $step++) {
    usleep(100_000);
    $next->keep();
}
check($app->rawCommand('RLOCK.FORCERELEASE', 'page') === 1, 'forced');
usleep(1_100_000);
refused($next->keep(...), RuntimeException::class);
refused($next->check(...), RuntimeException::class);
check($next->release() === false, 'lost');

// A server that stops: the deadline reports the loss, and no late reply is taken for another.
$held = $short->acquire('page');
$app->rawCommand('CLIENT', 'PAUSE', 20_000, 'WRITE');
$lost = refused(function () use ($held) {
    for (;;) {
        usleep(100_000);
        $held->keep();
    }
}, RuntimeException::class);
check($lost > 2_500 && $lost < 6_000, "lost after $lost");
refused(fn () => $short->acquire('stops'), RedisException::class);
$app->rawCommand('CLIENT', 'UNPAUSE');
check($held->release() === false, 'lost');
check($short->acquire('stops', 5_000)->release(), 'the next acquisition');

// A key of another type is an error, and not a denial.
$app->set('string', 1);
refused(fn () => $short->acquire('string'), RedisException::class);

// A connection that breaks during a wait.
$held = $other->acquire('page');
$id = $short->send(0, 'CLIENT', 'ID');
$process = popen("sleep 0.5; redis-cli -u {$_SERVER['REDIS_URL']} CLIENT KILL ID $id", 'r');
refused(fn () => $short->acquire('page', 10_000), RedisException::class);
pclose($process);
check($held->release() && $app->exists('page') === 0, 'nobody is left');
echo 'phpredis ', phpversion('redis'), ', PHP ', PHP_VERSION, ": ok\n";
