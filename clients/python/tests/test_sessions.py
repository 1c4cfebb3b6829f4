"""Sessions: what a crash frees soon, and what a broken connection does not lose."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import redis

from rlock_client import Client, Closed, Invalid, LockLost
from rlock_client import _endpoint as endpoint
from support import Proxy, Server


def ties(server: Server, name: str) -> list[int]:
    """The connections that the holds of a lock are tied to."""
    info = server.do("RLOCK.INFO", name)
    holders = dict(zip(info[::2], info[1::2], strict=True))[b"holders"]
    fields = [dict(zip(one[::2], one[1::2], strict=True)) for one in holders]
    return [one[b"session"] for one in fields if one.get(b"session")]


def test_heartbeats_end_with_the_last_session(server: Server, client: Client, name: str) -> None:
    def pings() -> int:
        return int(server.redis.info("commandstats").get("cmdstat_hello", {"calls": 0})["calls"])

    guards = [client.lock(f"{name}:{number}", session_grace=0.4).acquire() for number in range(20)]
    before = pings()
    time.sleep(1)
    assert pings() - before >= 5
    for guard in guards:
        guard.release()
    time.sleep(0.3)
    before = pings()
    time.sleep(1)
    assert pings() - before <= 2


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


def test_a_first_connection_has_its_time_however_short_the_grace_is(proxy: Proxy, name: str) -> None:
    proxy.holding.set()
    threading.Timer(0.6, proxy.holding.clear).start()
    with Client(proxy.url, session_grace=0.4) as client, client.lock(name, wait=10) as held:
        held.check()


def test_an_older_connection_ties_what_a_younger_one_has_untied(server: Server, name: str) -> None:
    """The server refuses it as a closed one: the client gave up, and its clean-up ended the hold."""
    with Client(server.url, lease=1.5, session_grace=1) as older, Client(server.url, session_grace=5) as younger:
        older.lock(f"{name}:first").acquire().release()
        younger.lock(name, owner="job").acquire().detach()
        held = older.lock(name, owner="job").try_acquire()
        (tied,) = ties(server, name)
        with redis.Redis(port=server.port) as youngest:
            youngest.execute_command("RLOCK.RENEW", name, "job", 1500)
        assert ties(server, name) == []
        time.sleep(1.8)
        held.check()
        assert ties(server, name) == [tied]
        held.release()
        assert server.do("EXISTS", name) == 0
