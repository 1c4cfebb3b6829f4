"""Holds that outlast their guard, end sooner than it, or go to another process; and several locks as one."""

from __future__ import annotations

import asyncio
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from rlock_client import AsyncClient, Client, Denied, Event, Invalid, LockLost, Timeout
from support import Proxy, Server, eventually


def test_the_renewals_end_after_max_hold(server: Server, name: str) -> None:
    with Client(server.url, lease=0.4) as client:
        with pytest.raises(LockLost, match="held for max_hold") as error, client.lock(name, max_hold=0.5) as held:
            held.lost.wait(5)
        assert error.value.why == "overdue"


def test_a_renewal_whose_timer_is_set_late_is_on_time(server: Server, name: str) -> None:
    """While it is further away than the next look, it has none."""
    renewed: list[float] = []

    def hear(event: Event) -> None:
        if event.kind == "renewed":
            renewed.append(time.monotonic())

    with Client(server.url, lease=6, on_event=hear) as client, client.lock(name):
        began = time.monotonic()
        eventually(lambda: renewed)
    assert 1.7 < renewed[0] - began < 2.7  # a third of the lease, in one piece with those before it


def test_what_is_neither_detached_nor_adopted(client: Client, name: str) -> None:
    with client.lock(name) as held:
        inner = held.reenter()
        with pytest.raises(Invalid, match="has other guards"):
            held.detach()
        inner.release()
        # A block leaves a lock alone that it has detached.
        assert 20 < held.detach() < 30
    with client.lock(name).adopt(held.owner), pytest.raises(Invalid, match="uses the owner"):
        client.lock(name).adopt(held.owner.decode())


def test_several_locks_are_one(client: Client, name: str) -> None:
    # Text and bytes name the same lock.
    with client.lock_all([name, name.encode(), f"{name}:b"]) as held:
        assert held.check() > 20
        with pytest.raises(Denied):
            client.lock_all([name]).try_acquire()
    with pytest.raises(LockLost, match="was released"):
        held.check()
    for names in ((), "name"):
        with pytest.raises(Invalid, match="at least one lock"):
            client.lock_all(names)


def test_several_locks_are_lost_with_one(server: Server, name: str) -> None:
    with Client(server.url, lease=0.5) as client:
        with pytest.raises(LockLost) as error, client.lock_all([f"{name}:a", f"{name}:b"]) as held:
            client.lock(f"{name}:b").force_release()
            assert held.lost.wait(5)
            with pytest.raises(LockLost):
                held.check()
        assert (error.value.lock, error.value.why) == (f"{name}:b", "taken")
        assert eventually(lambda: not client.lock(f"{name}:a").locked())


def test_a_silent_server_does_not_prolong_the_wait_for_several_locks(proxy: Proxy, name: str) -> None:
    with Client(proxy.url, response_timeout=3) as client:
        with client.lock_all([f"{name}:a"]):
            pass
        proxy.holding.set()
        began = time.monotonic()
        with pytest.raises(Timeout):
            client.lock_all([f"{name}:a", f"{name}:b"]).acquire(0.4)
        assert time.monotonic() - began < 2
        proxy.holding.clear()


def test_nobody_waits_in_a_circle(server: Server, name: str) -> None:
    names = [f"{name}:{number}" for number in range(4)]
    inside = threading.Lock()
    with Client(server.url) as one, Client(server.url) as two:

        def work(client: Client, order: int) -> None:
            for round_ in range(10):
                with client.lock_all([*names[(order + round_) % 4 :], names[0]], wait=30):
                    assert inside.acquire(blocking=False)
                    inside.release()

        with ThreadPoolExecutor(4) as pool:
            list(pool.map(work, [one, two] * 2, range(4)))


def test_a_task_is_cancelled_when_its_locks_are_lost(server: Server, name: str) -> None:
    names = [f"{name}:a", f"{name}:b"]

    async def lose() -> None:
        async with AsyncClient(server.url, lease=0.5) as client:
            with pytest.raises(LockLost) as error:
                async with client.lock_all(names):
                    for each in names:
                        await client.lock(each).force_release()
                    await asyncio.sleep(5)
            assert error.value.why == "taken"

    asyncio.run(lose())
