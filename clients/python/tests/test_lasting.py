"""Holds that outlast their guard, end sooner than it, or go to another process; and several locks as one."""

from __future__ import annotations

import asyncio
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from rlock_client import AsyncClient, Client, Denied, Invalid, LockLost, Timeout
from support import Proxy, Server, eventually


def test_a_lock_stays_held_at_least(client: Client, name: str) -> None:
    began = time.monotonic()
    with client.lock(name, at_least=0.5):
        pass
    with pytest.raises(Denied):
        client.lock(name).try_acquire()
    with client.lock(name, wait=5):
        assert 0.45 < time.monotonic() - began < 2


def test_an_acquisition_that_nobody_received_is_not_kept(server: Server, client: Client, name: str) -> None:
    held = client.lock(name).acquire()

    async def wait() -> None:
        async with AsyncClient(server.url) as other:
            waiting = asyncio.create_task(other.lock(name, at_least=20).acquire())
            while not server.waiters(name):
                await asyncio.sleep(0.005)
            held.release()
            waiting.cancel()
            await asyncio.gather(waiting, return_exceptions=True)
            eventually(lambda: not client.lock(name).locked())

    asyncio.run(wait())


def test_the_renewals_end_after_max_hold(server: Server, name: str) -> None:
    with Client(server.url, lease=0.4) as client:
        with pytest.raises(LockLost, match="held for max_hold") as error, client.lock(name, max_hold=0.5) as held:
            held.lost.wait(5)
        assert error.value.why == "overdue"


def test_a_hold_goes_to_another_client(server: Server, client: Client, name: str) -> None:
    with client.lock(name, session_grace=1) as held:
        assert 20 < held.detach() < 30
    with Client(server.url) as other:
        again = other.lock(name).adopt(held.owner)
        again.check()
        with pytest.raises(Denied):
            client.lock(name).try_acquire()
        with pytest.raises(Invalid, match="uses the owner"):
            other.lock(name).adopt(held.owner.decode())
        again.release()
        with pytest.raises(LockLost):
            other.lock(name).adopt(held.owner)
    assert not client.lock(name).locked()


def test_a_hold_with_other_guards_is_not_detached(client: Client, name: str) -> None:
    with client.lock(name) as held:
        inner = held.reenter()
        with pytest.raises(Invalid, match="has other guards"):
            held.detach()
        inner.release()


def test_several_locks_are_one(server: Server, client: Client, name: str) -> None:
    names = [f"{name}:{letter}" for letter in "cabb"]
    with client.lock_all(names) as held:
        assert held.check() > 20
        for each in names:
            assert server.do("EXISTS", each)
            with pytest.raises(Denied):
                client.lock_all([each, "other"]).try_acquire()
        eventually(lambda: not server.do("EXISTS", "other"))
    assert not any(server.do("EXISTS", each) for each in names)
    with pytest.raises(LockLost, match="was released"):
        held.check()
    with pytest.raises(Invalid, match="at least one lock"):
        client.lock_all([])
    with pytest.raises(Invalid, match="at least one lock"):
        client.lock_all("name")


def test_several_locks_are_lost_with_one(server: Server, name: str) -> None:
    with Client(server.url, lease=0.5) as client:
        with pytest.raises(LockLost) as error, client.lock_all([f"{name}:a", f"{name}:b"]) as held:
            client.lock(f"{name}:b").force_release()
            assert held.lost.wait(5)
            with pytest.raises(LockLost):
                held.check()
        assert (error.value.lock, error.value.why) == (f"{name}:b", "taken")
        assert eventually(lambda: not client.lock(f"{name}:a").locked())


def test_what_comes_before_a_missing_lock_is_kept(server: Server, client: Client, name: str) -> None:
    names = [f"{name}:{letter}" for letter in "abc"]
    with client.lock(names[1]) as held, Client(server.url) as other, ThreadPoolExecutor() as pool:
        waiting = pool.submit(other.lock_all(names, wait=20).acquire)
        eventually(lambda: server.waiters(names[1]) == 1)
        assert [server.do("EXISTS", each) for each in names] == [1, 1, 0]
        held.release()
        guard = waiting.result()
        guard.release()


def test_the_wait_for_several_locks_ends(server: Server, client: Client, name: str) -> None:
    with client.lock(f"{name}:b"):
        began = time.monotonic()
        with pytest.raises(Timeout, match=f"{name}:b"):
            client.lock_all([f"{name}:a", f"{name}:b"]).acquire(0.4)
        assert 0.39 < time.monotonic() - began < 2
        assert eventually(lambda: not server.do("EXISTS", f"{name}:a"))


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


def test_asyncio_has_several_locks_too(server: Server, name: str) -> None:
    names = [f"{name}:a", f"{name}:b"]

    async def lose() -> None:
        async with AsyncClient(server.url, lease=0.5) as client:
            async with client.lock_all(names, wait=5) as held:
                assert held.check() > 0.1
            with pytest.raises(LockLost) as error:
                async with client.lock_all(names) as held:
                    for each in names:
                        await client.lock(each).force_release()
                    await asyncio.sleep(5)
            assert error.value.why == "taken"
            with pytest.raises(Timeout):
                async with client.lock(names[1]):
                    await client.lock_all(names).acquire(0.2)
            task = asyncio.current_task()
            assert task is not None
            left = await (await client.lock(names[0]).acquire()).detach()
            assert 0.2 < left < 0.5

    asyncio.run(lose())
