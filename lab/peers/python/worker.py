"""One process that is measured: told by lines on its standard input, answering by lines, as lab/src/clients/process.rs says.

python worker.py rlock-client | redis-py URL
"""

import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import redis
from rlock_client import Client

LEASE = 30

Ways = tuple[Callable[[str], Any], Callable[[Any], Any]]


def ways(contender: str, url: str) -> Ways:
    """Ways to acquire, as long as it takes, and to release; everything else as each library has it."""
    if contender == "rlock-client":
        client = Client(url, lease=LEASE)
        return lambda key: client.lock(key).acquire(), lambda held: held.release()
    server = redis.Redis.from_url(url)

    def acquire(key: str) -> Any:
        lock = server.lock(key, timeout=LEASE, thread_local=False)
        if not lock.acquire():
            raise RuntimeError("not acquired")
        return lock

    return acquire, lambda held: held.release()


def pairs(way: Ways, count: int, key: str) -> None:
    acquire, release = way
    wall, used = time.monotonic_ns(), time.process_time_ns()
    for _ in range(count):
        release(acquire(key))
    print(time.monotonic_ns() - wall, time.process_time_ns() - used, flush=True)


def turns(way: Ways, count: int, key: str) -> None:
    acquire, release = way
    times = []
    for _ in range(count):
        held = acquire(key)
        acquired = time.monotonic_ns()
        time.sleep(0.001)
        times.append((acquired, time.monotonic_ns()))
        release(held)
    for acquired, released in times:
        print(acquired, released)
    sys.stdout.flush()


def crowd(way: Ways, count: int, key: str) -> None:
    acquire, release = way
    order: list[tuple[int, int]] = []

    def wait(number: int) -> None:
        held = acquire(key)
        order.append((number, time.monotonic_ns()))
        time.sleep(0.001)
        release(held)

    first = acquire(key)
    threads = [threading.Thread(target=wait, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
        time.sleep(0.001)
    time.sleep(0.3)
    opened = time.monotonic_ns()
    release(first)
    for thread in threads:
        thread.join()
    overtaken = max(sum(other > number for other, _ in order[:place]) for place, (number, _) in enumerate(order))
    print(order[-1][1] - opened, overtaken, flush=True)


WORK = {"pairs": pairs, "turns": turns, "crowd": crowd}
way = ways(sys.argv[1], sys.argv[2])
for line in sys.stdin:
    name, count, key = line.split()
    WORK[name](way, int(count), key)
