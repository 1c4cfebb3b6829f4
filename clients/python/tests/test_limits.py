"""The caller's own limit wins, whatever becomes of the server: every call ends in time, and says why."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from rlock_client import AsyncClient, Client, LockLost, Unreachable
from support import Proxy, Server, eventually

LIMIT = 2.0  # of a call, by default
ENDS: dict[str, tuple[int, str]] = {
    "killed": (signal.SIGKILL, "connection refused"),
    "stopped": (signal.SIGSTOP, "no (reply|connection) in time"),
}


@pytest.fixture(params=[*ENDS])
def ending(request: pytest.FixtureRequest, own_server: Server) -> Iterator[tuple[Server, Callable[[], None], str]]:
    """A server, what ends it, and what is said then."""
    number, text = ENDS[request.param]
    said = f"the server 127.0.0.1:{own_server.port} does not answer: {text}"
    yield own_server, lambda: own_server.process.send_signal(number), said
    own_server.process.send_signal(signal.SIGCONT)


def took(began: float, limit: float = LIMIT) -> bool:
    return time.monotonic() - began < limit + 1  # on a busy machine


def connected(client: Client, name: str) -> bool:
    """On a busy machine, the first connection takes longer than half a second; a wait for a lock ends then."""
    with contextlib.suppress(Unreachable):
        client.lock(name).locked()
        return True
    return False


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_the_end_of_a_block_by_an_error(ending: Any, name: str, error: type[BaseException]) -> None:
    server, end, _ = ending
    with Client(server.url, response_timeout=0.5) as client:
        eventually(lambda: connected(client, name))
        with pytest.raises(error), client.lock(name):
            end()
            began = time.monotonic()
            raise error
        assert took(began, 0.5 if error is ValueError else 0.1)


def test_calls_end_in_time(ending: Any, name: str) -> None:
    server, end, said = ending
    with Client(server.url, lease=3) as client:
        lock, held = client.lock(name), client.lock(f"{name}:held").acquire()
        calls: list[Callable[[], Any]] = [lock.try_acquire, lock.info, lock.locked, lock.force_release]
        end()
        began = time.monotonic()
        with pytest.raises(Unreachable, match="does not answer"):
            held.reenter()
        assert took(began)
        for call in calls:
            began = time.monotonic()
            with pytest.raises(Unreachable, match=said):
                call()
            assert took(began), call
        with pytest.raises(LockLost, match="server unreachable"):
            held.release()


def test_a_cancelled_task_ends_now(ending: Any, name: str) -> None:
    server, end, _ = ending

    async def work() -> None:
        client = AsyncClient(server.url)
        await client.lock(name).locked()  # connects, which the first limit is not for

        async def block() -> None:
            async with client.lock(name):
                end()
                await asyncio.sleep(20)

        for limit in (1.0, 0.2):
            began = time.monotonic()
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(block() if limit == 1 else client.lock(name).try_acquire(), limit)
            assert limit - 0.01 <= time.monotonic() - began < limit + 0.6
        began = time.monotonic()
        await client.close()
        assert took(began)

    asyncio.run(work())


def test_the_limit_of_an_answer_is_of_the_lock_s_own_lease(server: Server, proxy: Proxy, name: str) -> None:
    lost: list[str] = []
    client = Client(proxy.url, lease=1, response_timeout=3, on_event=lambda event: lost.append(event.kind))
    with client, client.lock(name, lease=60) as held:
        held.check()
        lost.clear()
        threading.Timer(0.6, proxy.holding.clear).start()
        proxy.holding.set()
        assert client.lock(f"{name}:other", lease=60).try_acquire().check() > 50
        assert "disconnected" not in lost
