"""The face for asyncio, against a server."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import threading
import time
from collections.abc import Coroutine
from typing import Any

import pytest

from rlock_client import AsyncClient, Client, LockLost
from support import Proxy, Server, eventually


def run(work: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(work, 60))


async def soon(true: Any) -> None:
    await asyncio.to_thread(eventually, true)


def test_re_entries_leave_nothing_in_memory(server: Server, name: str) -> None:
    async def work() -> None:
        async with AsyncClient(server.url) as client, client.lock(name) as held:
            for _ in range(20):
                await (await held.reenter()).release()
            assert len(held._one.on_lost) == 1

    run(work())


def test_tasks_exclude_each_other_with_one_handle(server: Server, name: str) -> None:
    async def work() -> None:
        inside = most = 0
        async with AsyncClient(server.url) as client:
            lock = client.lock(name)

            async def one() -> None:
                nonlocal inside, most
                async with lock:
                    inside += 1
                    most = max(most, inside)
                    await asyncio.sleep(0.001)
                    inside -= 1

            await asyncio.gather(*(one() for _ in range(50)))
        assert (inside, most) == (0, 1)

    run(work())


def test_the_task_is_cancelled_when_the_lock_is_lost(server: Server, name: str) -> None:
    async def work() -> None:
        async with AsyncClient(server.url, lease=0.6) as client:
            lock = client.lock(name)
            with pytest.raises(LockLost, match="forced release"):
                async with lock as held:
                    await lock.force_release()
                    await asyncio.sleep(20)
            assert held.lost.is_set()
            # The task is as before.
            task = asyncio.current_task()
            assert task is not None
            if hasattr(task, "cancelling"):
                assert task.cancelling() == 0
            await asyncio.sleep(0.01)

    run(work())


def test_another_error_on_its_way_goes_first(server: Server, name: str) -> None:
    async def work() -> None:
        async with AsyncClient(server.url, lease=0.6) as client:
            lock = client.lock(name)
            with pytest.raises(ZeroDivisionError):
                async with lock as held:
                    await lock.force_release()
                    try:
                        await asyncio.sleep(20)
                    except asyncio.CancelledError:
                        _ = 1 / 0
            # A block that does not look at its cancellation learns of the loss at its end.
            with pytest.raises(LockLost):
                async with lock as held:
                    await lock.force_release()
                    end = time.monotonic() + 5
                    while not held.lost.is_set() and time.monotonic() < end:
                        try:
                            await asyncio.sleep(0.01)
                        except asyncio.CancelledError:
                            break

    run(work())


def test_a_cancellation_from_outside_stays_one(server: Server, name: str) -> None:
    async def work() -> None:
        async with AsyncClient(server.url) as client:
            lock = client.lock(name)
            entered = asyncio.Event()

            async def one() -> None:
                async with lock:
                    entered.set()
                    await asyncio.sleep(20)

            task = asyncio.create_task(one())
            await entered.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            # The exit has released it before the task ended.
            assert not await lock.locked()

    run(work())


def test_a_task_that_is_cancelled_at_the_end_of_its_block_ends_now(server: Server, proxy: Proxy, name: str) -> None:
    async def work() -> None:
        async with AsyncClient(proxy.url) as client:
            lock = client.lock(name)
            leaving = asyncio.Event()

            async def one() -> None:
                async with lock:
                    proxy.holding.set()
                    leaving.set()

            task = asyncio.create_task(one())
            await leaving.wait()
            await asyncio.sleep(0.05)
            task.cancel()
            began = time.monotonic()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert time.monotonic() - began < 0.05
            # The release goes on without it.
            proxy.holding.clear()
            assert not await lock.locked()

    run(work())


def test_cancelling_at_any_moment_leaves_no_lock(server: Server, name: str) -> None:
    async def work() -> None:
        async with AsyncClient(server.url) as client:
            for number in range(60):
                lock = client.lock(f"{name}:{number}")
                task = asyncio.create_task(lock.acquire())
                await asyncio.sleep(number * 0.00005)
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await (await task).release()
                del task
            for number in range(60):
                await soon(lambda number=number: not server.do("EXISTS", f"{name}:{number}"))

    run(work())


def test_two_loops_use_one_client(server: Server, name: str) -> None:
    client = AsyncClient(server.url)

    async def work() -> None:
        for _ in range(20):
            async with client.lock(name):
                await asyncio.sleep(0.001)

    threads = [threading.Thread(target=run, args=(work(),)) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    asyncio.run(client.close())


def test_a_loop_that_was_closed_holds_no_lock(server: Server, name: str) -> None:
    with Client(server.url) as other:
        client = AsyncClient(server.url)
        guard = other.lock(name).acquire()
        loop = asyncio.new_event_loop()
        task = loop.create_task(client.lock(name).acquire())
        loop.run_until_complete(asyncio.sleep(0.1))
        eventually(lambda: server.waiters(name) == 1)
        # Without cancelling its tasks.
        loop.close()
        guard.release()
        # The grant that nobody receives is given back.
        other.lock(name, wait=5).acquire().release()
        task._log_destroy_pending = False  # type: ignore[attr-defined]
        del task, loop
        gc.collect()
        asyncio.run(client.close())


def test_blocks_end_with_a_close_and_release_their_locks(server: Server, name: str) -> None:
    async def work() -> None:
        client = AsyncClient(server.url)
        entered = asyncio.Event()

        async def block() -> None:
            async with client.lock(name):
                entered.set()
                await asyncio.sleep(20)

        task = asyncio.create_task(block())
        await entered.wait()
        await client.close()
        with pytest.raises(LockLost, match="its client was closed"):
            await task
        assert not server.do("EXISTS", name)

    run(work())
