"""The face for threads, against a server."""

from __future__ import annotations

import gc
import os
import re
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest
import redis

from rlock_client import Client, Closed, Denied, Event, Invalid, LockLost, Timeout
from support import Proxy, Server, eventually


def test_exclusion_and_release(server: Server, client: Client, name: str) -> None:
    lock = client.lock(name)
    with lock as held:
        held.check()
        # It leads to this process: docs/OPERATIONS.md.
        assert re.fullmatch(rf"test@[\w.-]+:{os.getpid()}:[0-9a-f]{{32}}:\d+", held.owner.decode())
        with pytest.raises(Denied, match=f"another owner holds the lock {name}; wait"):
            lock.try_acquire()
        assert lock.locked()
    assert not lock.locked()
    assert not server.do("EXISTS", name)
    with pytest.raises(LockLost, match="it was released"):
        held.check()
    with pytest.raises(LockLost):
        held.release()


def test_a_wait_ends_at_its_time(client: Client, name: str) -> None:
    with client.lock(name):
        began = time.monotonic()
        with pytest.raises(Timeout, match=r"was not acquired within .* s; wait longer, or see its holder"):
            client.lock(name, wait=timedelta(seconds=0.3)).acquire()
        assert 0.298 <= time.monotonic() - began < 0.55


def test_five_hundred_waits_on_one_link(server: Server, client: Client, name: str) -> None:
    guard = client.lock(name).acquire()
    done: list[int] = []

    def wait(number: int) -> None:
        with client.lock(name):
            done.append(number)

    threading.stack_size(256 * 1024)
    threads = [threading.Thread(target=wait, args=(number,)) for number in range(500)]
    threading.stack_size(0)
    for thread in threads:
        thread.start()
    eventually(lambda: server.waiters(name) == 500, 30)
    assert len(server.clients()) == 2
    guard.release()
    for thread in threads:
        thread.join(60)
    assert len(done) == 500


def test_the_event_of_a_loss_is_a_whole_one(client: Client, name: str) -> None:
    with pytest.raises(LockLost), client.lock(name) as held:
        event = held.lost
        assert isinstance(event, threading.Event)
        assert repr(event)
        event.clear()
        client.close(0)
        assert event.wait(5)
        event.clear()
        assert event.is_set()


def test_leaving_a_block_whose_lock_was_lost(server: Server, client: Client, name: str) -> None:
    lock = client.lock(name, lease=1)
    with pytest.raises(LockLost), lock as held:
        lock.force_release()
        assert held.lost.wait(2)
    # Unless another error is on its way.
    with pytest.raises(ZeroDivisionError), lock as held:
        lock.force_release()
        assert held.lost.wait(2)
        _ = 1 / 0
    # Its release finds the loss.
    with pytest.raises(LockLost, match="forced release, deletion or fail-over"), lock as held:
        server.do("DEL", name)
    assert held.lost.is_set()


def test_a_named_owner_re_enters(server: Server, client: Client, name: str) -> None:
    owner = "me \x00 %"
    lock = client.lock(name, owner=owner)
    with lock as outer:
        assert outer.owner == owner.encode()
        with lock as inner, client.lock(name, owner=owner.encode(), fenced=True).try_acquire():
            assert server.do("HGET", name, owner) == b"3"
        eventually(lambda: server.do("HGET", name, owner) == b"1")
        outer.check()
        with pytest.raises(LockLost, match="it was released"):
            inner.check()
        with pytest.raises(Denied):
            client.lock(name, owner="another").try_acquire()
    assert not lock.locked()
    lock.try_acquire().release()
    eventually(lambda: not lock._engine.acquisitions)


def test_a_named_owner_waits_for_two_locks(server: Server, client: Client, name: str) -> None:
    names = [f"{name}:1", f"{name}:2"]
    held = [client.lock(each).acquire() for each in names]
    with ThreadPoolExecutor() as pool:
        waiting = [pool.submit(client.lock(each, owner="me").acquire, 10) for each in names]
        eventually(lambda: server.waiters(names[0]) and server.waiters(names[1]))
        for number in (1, 0):
            held[number].release()
            with waiting[number].result(1) as mine:
                assert mine.name == names[number].encode()
    assert not server.do("EXISTS", *names)


def test_a_taken_hold_of_a_named_owner(client: Client, name: str) -> None:
    lock = client.lock(name, owner="me")
    held = lock.acquire()
    lock.force_release()
    for call in (held.reenter, lock.acquire, held.release):
        with pytest.raises(LockLost, match="forced release"):
            call()
    lock.try_acquire().release()


def test_threads_of_one_owner(server: Server, client: Client, name: str) -> None:
    lock = client.lock(name, owner="me")
    other = client.lock(name)

    def work(number: int) -> None:
        for _ in range(50):
            with lock if number < 7 else other as held:
                held.check()

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(8)))
    assert not lock.locked()
    # Nor do re-entries at the same time lose the hold.
    held = lock.acquire()
    with ThreadPoolExecutor(8) as pool:
        guards = list(pool.map(lambda _: held.reenter(), range(40)))
    assert server.do("HGET", name, "me") == b"41"
    for guard in [held, *guards]:
        guard.release()
    assert not lock.locked()


def test_a_writer_reads_on(client: Client, name: str) -> None:
    lock = client.read_write_lock(name)
    writer = lock.write(fenced=True).acquire()
    assert writer.token > 0
    reader = writer.downgrade()
    with lock.read().try_acquire():
        reader.check()
    reader.release()


def test_info(client: Client, name: str) -> None:
    assert client.lock(name).info().kind == "none"
    with client.lock(name, fenced=True) as held:
        info = client.lock(name).info()
        assert (info.kind, info.holder_count, info.token) == ("mutex", 1, held.token)
        assert info.holders[0]["owner"] == held.owner
        assert 0 < info.lease_ms <= 30_000


@pytest.mark.parametrize("lock", [b"\x00\xff bytes%", "Schlüssel mit Lücke", "{tag}x"])
def test_names_are_bytes_or_text(server: Server, client: Client, lock: str | bytes) -> None:
    held = client.lock(lock).acquire()
    assert server.do("EXISTS", lock)
    with ThreadPoolExecutor() as pool:
        waiting = pool.submit(client.lock(lock).acquire, 10)
        eventually(lambda: client.lock(lock).info().waiter_count)
        held.release()
        waiting.result(10).release()


def test_a_guard_without_references_is_released(client: Client, name: str) -> None:
    client.lock(name).acquire()
    gc.collect()
    eventually(lambda: not client.lock(name).locked())


def test_a_cancelled_wait_leaves_nothing(server: Server, client: Client, name: str) -> None:
    """A signal in the middle: KeyboardInterrupt ends the wait."""
    program = f"""
import os, signal, sys, threading, time
from rlock_client import Client
client = Client({server.url!r})
threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()
try:
    client.lock({name!r}, wait=20).acquire()
except KeyboardInterrupt:
    print("interrupted", flush=True)
    client.close()
    assert not [one for one in threading.enumerate() if one.name == "rlock-client"]
"""
    with client.lock(name):
        ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=20, check=False)
        assert (ran.stdout, ran.stderr, ran.returncode) == ("interrupted\n", "", 0)
        assert server.waiters(name) == 0


def test_close_ends_waits_and_marks_holds_as_lost(server: Server, name: str) -> None:
    client = Client(server.url)
    held = client.lock(name).acquire()
    failures: list[Exception] = []

    def wait() -> None:
        try:
            client.lock(name).acquire()
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=wait) for _ in range(20)]
    for thread in threads:
        thread.start()
    eventually(lambda: server.waiters(name) == 20)
    client.close()
    for thread in threads:
        thread.join(5)
    assert [str(error) for error in failures] == ["this client was closed; create a new one"] * 20
    assert held.lost.is_set()
    assert repr(held.lost)
    with pytest.raises(LockLost, match="its client was closed"):
        held.check()
    with pytest.raises(LockLost, match="its client was closed"):
        held.release()
    assert server.waiters(name) == 0
    eventually(lambda: not server.clients())
    client.close()
    with pytest.raises(Closed):
        client.lock(name).acquire()
    server.do("DEL", name)


def test_a_client_without_references_ends(server: Server, name: str) -> None:
    client = Client(server.url)
    client.lock(name).acquire().release()
    del client
    gc.collect()
    eventually(lambda: not [one for one in threading.enumerate() if one.name == "rlock-client"])


def test_settings_of_a_driver_client_are_taken(server: Server, name: str) -> None:
    driver = redis.Redis(port=server.port, db=3, decode_responses=True, socket_timeout=0.1)
    with Client(driver) as client, client.lock(name):
        assert driver.exists(name)
    pool = redis.asyncio.Redis(port=server.port, db=3)
    with Client(pool) as client, client.lock(name):
        assert driver.exists(name)
    driver.close()


def test_connections_have_names(server: Server, client: Client, name: str) -> None:
    with client.lock(name):
        names = {one["name"] for one in server.clients()}
        assert len(names) == 1
        assert names.pop().startswith("test@")


def test_invalid_settings(client: Client) -> None:
    what: Any
    for what in ({"lease": 0}, {"lease": -1}, {"wait": -1}, {"wait": float("nan")}, {"lease": "1"}, {"lease": 1e12}):
        with pytest.raises(Invalid, match="is a number of seconds from"):
            client.lock("a", **what)
    for name in ("", b"", None, 7):
        with pytest.raises(Invalid, match="the name of a lock is"):
            client.lock(name)  # type: ignore[arg-type]
    for permits in (0, 2**31):
        with pytest.raises(Invalid, match="permits"):
            client.semaphore("a", permits)
    for owner in ("", b"", "é" * 257, 7):
        with pytest.raises(Invalid, match="an owner is a text or bytes, of 1 to 512 bytes"):
            client.lock("a", owner=owner)  # type: ignore[arg-type]
    for server in ("localhost", "http://localhost", 7):
        with pytest.raises(Invalid, match=r"not the URL of a server|not a client of redis-py"):
            Client(server)


def test_events(server: Server, name: str) -> None:
    events: list[Event] = []

    def receive(event: Event) -> None:
        events.append(event)
        raise SystemExit("the receiver's own error")

    with Client(server.url, on_event=receive) as client:
        with client.lock(name):
            with pytest.raises(Denied):
                client.lock(name).try_acquire()
            with pytest.raises(Timeout):
                client.lock(name).acquire(0.05)
        held = client.lock(name, lease=0.1, renew=False).acquire()
        assert held.lost.wait(5)
        with pytest.raises(LockLost, match="its lease ended, and it is not renewed; stop the work"):
            held.check()
    kinds = [(event.kind, event.why) for event in events]
    expected = [("acquired", ""), ("denied", ""), ("timed_out", ""), ("released", ""), ("acquired", "")]
    assert kinds == [*expected, ("lost", "expired")]
    assert events[2].seconds >= 0.048


def test_locks_are_not_for_receivers_of_events(server: Server, name: str) -> None:
    failures: list[Exception] = []

    def receive(event: Event) -> None:
        for work in (client.lock(name).locked, client.lock(name).acquire, client.close):
            try:
                work()
            except Exception as error:
                failures.append(error)

    with Client(server.url, on_event=receive) as client, client.lock(name):
        pass
    assert len(failures) == 6
    assert all(isinstance(error, Invalid) for error in failures)


def test_a_check_does_not_flip_back(server: Server, proxy: Proxy, name: str) -> None:
    with Client(proxy.url, lease=0.6) as client:
        held = client.lock(name).acquire()
        proxy.holding.set()
        states: list[bool] = []
        end = time.monotonic() + 1.5
        while time.monotonic() < end:
            try:
                held.check()
                states.append(True)
            except LockLost:
                states.append(False)
                proxy.holding.clear()
            time.sleep(0.001)
        assert states[0]
        assert states == sorted(states, reverse=True)
        assert not states[-1]
