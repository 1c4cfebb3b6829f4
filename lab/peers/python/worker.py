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
    print(time.monotonic_ns() - wall, time.process_time_ns() - used)


class Crowd:
    """Waiters for a lock that is held; each has it once."""

    def __init__(self, way: Ways, count: int, key: str) -> None:
        self.way, self.key = way, key
        self.order: list[tuple[int, int, int]] = []
        self.first = way[0](key)
        self.threads = [threading.Thread(target=self.wait, args=(number,)) for number in range(count)]
        for thread in self.threads:
            thread.start()
            time.sleep(0.001)
        time.sleep(0.3)

    def wait(self, number: int) -> None:
        acquire, release = self.way
        held = acquire(self.key)
        acquired = time.monotonic_ns()
        time.sleep(0.001)
        self.order.append((number, acquired, time.monotonic_ns()))
        release(held)

    def open(self) -> None:
        print(0, time.monotonic_ns())
        self.way[1](self.first)
        for thread in self.threads:
            thread.join()
        for _, acquired, released in self.order:
            print(acquired, released)
        numbers = [number for number, _, _ in self.order]
        print(max(sum(other > number for other in numbers[:place]) for place, number in enumerate(numbers)), 0)


def serve(way: Ways) -> None:
    for line in sys.stdin:
        name, count, key = line.split()
        if name == "pairs":
            pairs(way, int(count), key)
        elif name == "take":
            held = way[0](key)
            print(time.monotonic_ns(), 0)
        elif name == "give":
            released = time.monotonic_ns()
            way[1](held)
            print(released, 0)
        elif name == "wait":
            crowd = Crowd(way, int(count), key)
            print(0, 0)
        elif name == "open":
            crowd.open()
        else:
            raise ValueError(line)
        sys.stdout.flush()


serve(ways(sys.argv[1], sys.argv[2]))
