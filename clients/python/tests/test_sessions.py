"""Sessions: what a crash frees soon, and what a broken connection does not lose."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import pytest

from rlock_client import AsyncClient, Client, Closed, Denied, Invalid, LockLost
from rlock_client import _endpoint as endpoint
from support import Proxy, Server, eventually


def ties(server: Server, name: str) -> list[int]:
    """The connections that the holds of a lock are tied to."""
    info = server.do("RLOCK.INFO", name)
    holders = dict(zip(info[::2], info[1::2], strict=True))[b"holders"]
    fields = [dict(zip(one[::2], one[1::2], strict=True)) for one in holders]
    return [one[b"session"] for one in fields if one.get(b"session")]


def test_a_killed_process_frees_its_lock_after_the_grace(server: Server, client: Client, name: str) -> None:
    program = f"""
from rlock_client import Client
client = Client({server.url!r}, session_grace=0.5)
held = client.lock({name!r}).acquire()
read = client.read_write_lock({name + ":rw"!r}).read().acquire()
print("held", flush=True)
input()
"""
    words = [sys.executable, "-c", program]
    child = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    assert child.stdout.readline() == "held\n"
    time.sleep(1)
    with pytest.raises(Denied):
        client.lock(name).try_acquire()
    child.kill()
    child.communicate()
    began = time.monotonic()
    client.lock(name, wait=10).acquire().release()
    client.read_write_lock(name + ":rw", wait=10).write().acquire().release()
    assert 0.3 < time.monotonic() - began < 5  # their leases have 30 s


def are_tied_later(server: Server, name: str, before: list[int]) -> bool:
    return ties(server, name) > before


def test_every_hold_is_tied_to_the_next_connection(server: Server, proxy: Proxy, name: str) -> None:
    with Client(proxy.url, session_grace=1) as client:
        guards: list[Any] = [client.lock(f"{name}:{number}").acquire() for number in range(50)]
        guards.append(client.semaphore(f"{name}:permit", 1).acquire())
        guards.append(client.lock(f"{name}:fixed", lease=60, renew=False).acquire())
        names = [guard.name.decode() for guard in guards]
        for _ in range(3):
            before = ties(server, names[0])
            proxy.cut()
            for one in names:
                eventually(partial(are_tied_later, server, one, before))
        time.sleep(1.5)
        for guard in guards:
            guard.check()
            guard.release()


def test_a_server_out_of_reach_ends_a_hold_after_the_grace(server: Server, proxy: Proxy, name: str) -> None:
    with Client(proxy.url) as client:
        held = client.lock(name, session_grace=1).acquire()
        other = client.lock(f"{name}:other").acquire()
        time.sleep(1.5)
        proxy.refusing = True
        proxy.cut()
        began = time.monotonic()
        assert held.lost.wait(5)
        assert time.monotonic() - began < 1.2
        with pytest.raises(LockLost, match="no renewal was confirmed") as caught:
            held.check()
        assert caught.value.why == "expired"
        # It has no session.
        other.check()
        proxy.refusing = False
        other.release()
    server.do("DEL", name)


def test_reentry_downgrade_and_waits_keep_the_session(server: Server, client: Client, name: str) -> None:
    held = client.lock(name, session_grace=5, fenced=True).acquire()
    held.reenter().release()
    eventually(lambda: len(ties(server, name)) == 1)
    held.release()
    lock = client.read_write_lock(name, session_grace=5)
    reader = lock.write().acquire().downgrade()
    assert len(ties(server, name)) == 1
    reader.release()
    with client.lock(name):
        assert not ties(server, name)


def test_heartbeats_end_with_the_last_session(server: Server, client: Client, name: str) -> None:
    def pings() -> int:
        return int(server.redis.info("commandstats").get("cmdstat_hello", {"calls": 0})["calls"])

    guards = [client.lock(f"{name}:{number}", session_grace=0.4).acquire() for number in range(20)]
    before = pings()
    time.sleep(2)
    assert 10 <= pings() - before <= 25  # one every 100 ms, and not one for each lock
    for guard in guards:
        guard.release()
    time.sleep(0.3)
    before = pings()
    time.sleep(1)
    assert pings() - before <= 2


def test_asyncio_has_sessions_too(server: Server, name: str) -> None:
    async def work() -> None:
        async with AsyncClient(server.url, session_grace=0.4) as client, client.lock(name) as held:
            await asyncio.sleep(1)
            assert held.check() < 0.4
            assert len(ties(server, name)) == 1

    asyncio.run(work())


def test_options(server: Server, client: Client) -> None:
    for grace in (0, 0.099, -1, "1"):
        with pytest.raises(Invalid, match=r"a session grace is a number of seconds from 0\.1"):
            client.lock("a", session_grace=grace)  # type: ignore[arg-type]
    with pytest.raises(Invalid):
        Client(server.url, session_grace=0.01)
    with pytest.raises(TypeError, match="leaze"):
        client.lock("a", leaze=3)  # type: ignore[call-arg]


def test_a_question_while_the_client_is_closed(server: Server, proxy: Proxy, name: str) -> None:
    client = Client(proxy.url)
    client.lock(name).acquire().release()
    proxy.holding.set()
    with ThreadPoolExecutor() as pool:
        asked = pool.submit(client.lock(name).locked)
        time.sleep(0.2)
        client.close(0.1)
        assert isinstance(asked.exception(10), Closed)
    proxy.holding.clear()


def test_a_re_entry_by_another_connection(server: Server, proxy: Proxy, name: str) -> None:
    """As in a cluster whose slots move: the heartbeats of the first connection prove the session no more."""
    other = Proxy(server.port)
    with Client(proxy.url, session_grace=0.6) as client, Client(server.url) as another:
        held = client.lock(name).acquire()
        before = ties(server, name)
        engine: Any = held._engine
        engine.link_for = lambda key: engine.link(("127.0.0.1", other.port))
        engine.endpoint.at = lambda address: endpoint.of(other.url)
        inner = held.reenter()
        assert ties(server, name) > before
        proxy.refusing = True
        proxy.cut()
        time.sleep(1)
        # The heartbeats of the other connection count.
        inner.check()
        proxy.refusing = False
        time.sleep(0.2)
        other.refusing = True
        other.cut()
        with another.lock(name, wait=5):
            for guard in (held, inner):
                with pytest.raises(LockLost, match="no renewal was confirmed"):
                    guard.check()
    other.close()


def test_once_the_next_server_was_asked_the_old_one_proves_no_session(server: Server, proxy: Proxy, name: str) -> None:
    """A renewal behind ASKING was carried out, and its connection ended: heartbeats of the old one proved the hold."""
    other = Proxy(server.port)

    def eat(data: bytes) -> bool:
        other.refusing |= b"RLOCK.RENEW" in data
        return other.refusing

    with Client(proxy.url, lease=6, session_grace=0.6) as client, Client(server.url) as another:
        held = client.lock(name).acquire()
        engine: Any = held._engine
        send = engine._send
        engine.endpoint.at = lambda address: endpoint.of(other.url)
        engine._send = lambda one, command: send(one, command, engine.link(("127.0.0.1", other.port)))
        other.eat = eat
        with another.lock(name, wait=5), pytest.raises(LockLost, match="no renewal was confirmed"):
            held.check()
        assert other.refusing
    other.close()
