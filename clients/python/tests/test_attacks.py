"""Signals, forks and closes at the worst moments: no lock, no waiter and no thread is left behind."""

from __future__ import annotations

import asyncio
import gc
import os
import random
import signal
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest

from rlock_client import AsyncClient, Client, Closed, Denied, Error, LockLost, Timeout
from rlock_client._client import Guard
from rlock_client._clock import now
from rlock_client._promise import Flag
from support import Server, eventually
from test_links import in_child


class Struck(BaseException):
    pass


@pytest.fixture
def strike() -> Iterator[Any]:
    """Raises in the main thread after this time, wherever it is then."""

    def raise_it(*_: object) -> None:
        raise Struck

    before = signal.signal(signal.SIGALRM, raise_it)
    yield lambda seconds: signal.setitimer(signal.ITIMER_REAL, seconds)
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


# A finalizer that a signal ends tells Python so; the engine looks after its lock.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_signals_in_the_middle(server: Server, client: Client, name: str, strike: Any) -> None:
    seed = random.randrange(2**32)
    print("seed", seed)
    times, struck = random.Random(seed), 0
    guard = client.lock(f"{name}:held").acquire()
    for number in range(300):
        try:
            strike(times.uniform(0.0001, 0.004))
            with client.lock(f"{name}:{number}" if number % 3 else f"{name}:held", wait=1):
                pass
            strike(0)
        except Struck:
            struck += 1
        except Timeout:
            # The signal came in a finalizer, or a weak reference's callback: these raise nothing.
            # Only the lock that is held keeps a wait until its end.
            assert number % 3 == 0
        finally:
            try:
                strike(0)
            except Struck:
                struck += 1
    assert struck > 50
    gc.collect()
    guard.check()
    eventually(lambda: server.waiters(f"{name}:held") == 0, 5)
    guard.release()
    eventually(lambda: not server.do("KEYS", f"{name}:*"), 5)


def test_a_signal_handler_that_uses_locks(client: Client, name: str) -> None:
    inside = False

    def handle(*_: object) -> None:
        nonlocal inside
        if not inside:
            inside = True
            with client.lock(f"{name}:handler", wait=5):
                pass
            inside = False

    before = signal.signal(signal.SIGALRM, handle)
    signal.setitimer(signal.ITIMER_REAL, 0.002, 0.002)
    try:
        for _ in range(100):
            with client.lock(name, wait=5) as held:
                held.check()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def test_forks_under_load(server: Server, client: Client, name: str) -> None:
    stop = threading.Event()

    def load() -> None:
        while not stop.is_set():
            with client.lock(name, wait=5) as held:
                held.check()

    def child() -> None:
        with client.lock(f"{name}:child", wait=5) as held:
            held.check()
        client.close()

    threads = [threading.Thread(target=load) for _ in range(3)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(10):
            assert in_child(child) == 0
    finally:
        stop.set()
        for thread in threads:
            thread.join(10)


def test_a_close_at_any_moment(server: Server, name: str) -> None:
    """`wait_for` can lose the cancellation of an attempt to connect, and `close` waited for its end for ever."""
    for number in range(20):
        client = Client(server.url)
        ended: list[str] = []

        def use(client: Client = client, ended: list[str] = ended) -> None:
            try:
                while True:
                    with client.lock(name, wait=5):
                        pass
            except Error as error:
                ended.append(type(error).__name__)

        threads = [threading.Thread(target=use) for _ in range(5)]
        for thread in threads:
            thread.start()
        time.sleep(number * 0.0015)
        threads += [threading.Thread(target=client.close) for _ in range(3)]
        for thread in threads[5:]:
            thread.start()
        for thread in threads:
            thread.join(15)
            assert not thread.is_alive()
        assert len(ended) == 5
        server.do("DEL", name)


@pytest.mark.parametrize("end", ["", "sys.exit(3)", "raise SystemExit(3)", "client.close()"])
def test_exits(server: Server, name: str, end: str) -> None:
    """With a held lock, a thread that waits, and a handler of the exit that uses locks."""
    program = f"""
import atexit, sys, threading, time
from rlock_client import Client, Error
client = Client({server.url!r}, lease=1)
held = client.lock({name!r}).acquire()
def wait():
    try:
        client.lock({name!r}).acquire()
    except Error:
        pass
def late():
    try:
        with client.lock({name + ":late"!r}, wait=1):
            print("late")
    except Error as error:
        print(type(error).__name__)
threading.Thread(target=wait, daemon=True).start()
atexit.register(late)
time.sleep(0.2)
{end}
"""
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=20, check=False)
    assert ran.stdout == ("Closed\n" if "close" in end else "late\n")
    assert (ran.stderr, ran.returncode) == ("", 3 if "3" in end else 0)
    eventually(lambda: not server.do("KEYS", f"{name}*"), 5)


def test_a_client_that_its_own_thread_collects(server: Server, name: str) -> None:
    """The collector runs in any thread. Refused as a call by a receiver of events, the close left thread and links."""
    client: Any = Client(server.url, on_event=lambda event: gc.collect() if event.kind == "released" else None)
    client.itself = client  # only the collector finds it
    gc.disable()
    try:
        held = client.lock(name).acquire()
        thread = held._engine._thread
        del client, held
        eventually(lambda: not thread.is_alive(), 5)
    finally:
        gc.enable()


def test_a_fork_beside_a_connection_that_is_given_up(server: Server, client: Client, name: str) -> None:
    """It is closed, and its end is not noticed yet."""
    held = client.lock(name).acquire()
    engine, given_up, forked = held._engine, threading.Event(), threading.Event()

    def stand_still() -> None:
        given_up.set()
        forked.wait(10)

    def give_up() -> None:
        engine.links[None].drop(engine.links[None].kept())
        asyncio.get_running_loop().call_soon(stand_still)

    assert engine._loop is not None
    engine._loop.call_soon_threadsafe(give_up)
    given_up.wait(10)

    def child() -> None:
        client.lock(f"{name}:child").try_acquire().release()
        client.close()

    try:
        assert in_child(child) == 0
    finally:
        forked.set()
    held.release()


def test_a_guard_that_outlives_its_loop(server: Server, name: str) -> None:

    client = AsyncClient(server.url)
    guards = [asyncio.run(acquire(client, name))]
    assert server.do("EXISTS", name)
    guards.clear()
    gc.collect()
    eventually(lambda: not server.do("EXISTS", name))
    asyncio.run(client.close())


async def acquire(client: AsyncClient, name: str) -> Any:
    return await client.lock(name).acquire()


def test_a_release_beside_a_re_entry_of_its_guard_ends(client: Client, name: str) -> None:
    """The re-entry counted from a moment at which the release had taken its guard away: the release waited for it."""
    release: list[threading.Thread] = []

    class Late(Guard):
        def __init__(self, lock: Any, one: Any) -> None:
            release.append(threading.Thread(target=held.release, daemon=True))
            release[0].start()
            eventually(lambda: held not in one.guards)
            super().__init__(lock, one)

    held = client.lock(name).acquire()
    held.__class__ = Late
    with pytest.raises(LockLost, match="it was released"):
        held.reenter().check()
    release[0].join(10)
    assert not release[0].is_alive()
    assert not client.lock(name).locked()


def test_an_acquire_of_the_same_owner_beside_a_detach(client: Client, name: str) -> None:
    """It got another guard of the hold: the detach waited for its end, and its release left the lock held."""
    lock = client.lock(name, owner="me")
    tried: list[bool] = []

    class Late(Guard):
        def _end(self) -> None:
            if not tried:
                tried.append(True)
                with pytest.raises(Denied):
                    lock.try_acquire()
                with pytest.raises(LockLost, match="it was released"):
                    self.reenter()
            super()._end()

    held = lock.acquire()
    held.__class__ = Late
    assert held.detach() > 20
    lock.adopt("me").release()
    assert not lock.locked()


def test_a_re_entry_beside_a_detach(client: Client, name: str) -> None:
    """The detach had counted the guards, and the re-entry had found the guard."""
    held = client.lock(name).acquire()

    class Guards(set["weakref.ref[Any]"]):
        def __len__(self) -> int:
            number = super().__len__()
            if not re_entry:
                re_entry.append(pool.submit(held.reenter))
                eventually(lambda: len(list(self)) == 2 or re_entry[0].done())
                time.sleep(0.1)
            return number

    re_entry: list[Future[Any]] = []
    with ThreadPoolExecutor() as pool:
        held._one.guards = Guards(held._one.guards)
        try:
            assert pool.submit(held.detach).result(5) > 20
            with pytest.raises(LockLost, match="it was released"):
                re_entry[0].result(5)
        finally:
            client.close(0)


def test_a_detach_in_the_child_of_a_fork(client: Client, name: str) -> None:
    """The thread of the engine had the mutex at the fork, and nobody in the child gives it back."""
    held = client.lock(name).acquire()
    one, inside, forked = held._one, threading.Event(), threading.Event()

    def stay() -> None:
        with one.mutex:
            inside.set()
            forked.wait(10)

    def child() -> None:
        signal.alarm(5)
        with pytest.raises(LockLost, match="before the fork"):
            held.detach()

    thread = threading.Thread(target=stay)
    thread.start()
    inside.wait(10)
    try:
        assert in_child(child) == 0
    finally:
        forked.set()
        thread.join()
    held.release()


def test_a_close_beside_an_acquisition_that_has_not_begun(server: Server, name: str) -> None:
    """Another one of its owner waits for its turn behind it, and waited for ever."""
    client = Client(server.url)
    first = client.lock(name, owner="me")._ask(Guard, None, now())
    ended: list[Exception] = []

    def wait() -> None:
        try:
            client.lock(name, owner="me").acquire(20)
        except Error as error:
            ended.append(error)

    thread = threading.Thread(target=wait, daemon=True)
    thread.start()
    # From here on it posts, under the lock that a close needs too.
    eventually(lambda: client._engine._loop)
    client.close()
    thread.join(5)
    assert [type(error) for error in ended] == [Closed]
    assert isinstance(first, Guard)
    with pytest.raises(Closed):
        first._acquired()


def test_a_flag_that_two_threads_set() -> None:
    """Both found it unset, and the second found its gate open."""
    flag = Flag()
    flag._gate.release()
    flag.set()
    assert flag.is_set()

    class Gate:
        def acquire(self, timeout: float) -> bool:
            waited._flag = True
            return True

        def release(self) -> None:
            raise RuntimeError("release unlocked lock")  # the second thread was there

    waited = Flag()
    waited._gate = Gate()  # type: ignore[assignment]
    assert waited.wait(1)


def test_what_fails_in_the_engine_stops_nothing_else(client: Client, name: str) -> None:
    """What other threads have posted by then is done in one piece."""
    began, posted = threading.Event(), threading.Event()

    def stay() -> None:
        began.set()
        posted.wait(10)

    client.lock(name).acquire().release()
    client._engine.post(stay)
    began.wait(10)
    client._engine.post(lambda: 1 / 0)
    with ThreadPoolExecutor() as pool:
        holds = [pool.submit(client.lock(f"{name}:{number}").acquire) for number in range(3)]
        eventually(lambda: len(client._engine._inbox) == 4)
        posted.set()
        for hold in holds:
            hold.result(0.9).release()  # sooner than the next look


def test_a_system_without_eventfd(server: Server, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "eventfd", raising=False)
    with Client(server.url) as client:
        for _ in range(20):
            began = time.monotonic()
            with client.lock(name):
                pass
            assert time.monotonic() - began < 0.9
