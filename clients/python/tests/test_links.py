"""Links that are cut, held and refused; forks; servers that go and come."""

from __future__ import annotations

import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor, as_completed

import pytest

from rlock_client import Client, LockLost, OutcomeUnknown, Timeout
from support import Proxy, Server, eventually


@pytest.mark.parametrize("word", [b"RLOCK.RELEASE", b"SUBSCRIBE", b"NUMSUB"])
def test_a_reply_lost_at_each_command(server: Server, proxy: Proxy, name: str, word: bytes) -> None:
    """The command is carried out, its reply never arrives, and the connection breaks."""
    eaten = [0]

    def eat(data: bytes) -> bool:
        eaten[0] += word in data
        return word in data and eaten[0] <= 2

    proxy.eat = eat
    with Client(proxy.url, lease=0.6) as client:
        held = client.lock(name, wait=10).acquire()
        time.sleep(0.5)
        held.check()
        if word == b"RLOCK.RELEASE":
            with pytest.raises(OutcomeUnknown, match="free now or at its lease end"):
                held.release()
        else:
            held.release()
        assert eaten[0]
        eventually(lambda: not server.do("EXISTS", name), 3)


def in_child(work: object) -> int:
    """Runs it in a fork; the exit status."""
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            assert callable(work)
            work()
            status = 0
        finally:
            os._exit(status)
    deadline = time.monotonic() + 20
    while True:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_fork_while_holding(server: Server, client: Client, name: str) -> None:
    held = client.lock(name).acquire()
    owner = held.owner

    def child() -> None:
        assert held.lost.is_set()
        for work in (held.check, held.release):
            with pytest.raises(LockLost, match="it belongs to the process before the fork"):
                work()
        with pytest.raises(Timeout):
            client.lock(name, wait=0.2).acquire()
        with client.lock(name + ":child", wait=5) as own:
            assert own.owner.split(b":")[2] != owner.split(b":")[2]
        client.close()

    assert in_child(child) == 0
    held.check()
    time.sleep(0.2)
    assert client.lock(name).info().holders[0]["owner"] == owner
    held.release()


def test_a_fork_while_holding_several_locks(client: Client, name: str) -> None:
    held = client.lock_all([f"{name}:a", f"{name}:b"]).acquire()
    single = client.lock(name).acquire()
    events = [held.lost, single.lost]

    def child() -> None:
        for event in (held.lost, single.lost, *events):
            assert event.is_set()
            assert event.wait(5)
        with pytest.raises(LockLost, match="it belongs to the process before the fork"):
            held.release()

    assert in_child(child) == 0
    assert not any(event.is_set() for event in events)
    assert held.check() > 20
    held.release()
    single.release()


def test_a_fork_while_waiting(server: Server, client: Client, name: str) -> None:
    guard = client.lock(name).acquire()
    with ThreadPoolExecutor() as pool:
        waiting = [pool.submit(client.lock(name).acquire, 20) for _ in range(3)]
        eventually(lambda: server.waiters(name) == 3)

        def child() -> None:
            assert client.lock(name).locked()
            with client.lock(name + ":child", wait=5):
                pass
            client.close()

        for _ in range(3):
            assert in_child(child) == 0
        assert server.waiters(name) == 3
        guard.release()
        for one in as_completed(waiting, 10):  # in the order of the queue, which need not be theirs
            one.result().release()
    server.do("DEL", name)


def test_a_child_does_not_keep_the_connections_of_its_parent(server: Server, name: str) -> None:
    read, write = os.pipe()
    client = Client(server.url, name="parent")
    client.lock(name, wait=5).acquire().release()
    pid = os.fork()
    if pid == 0:
        os.close(write)
        os.read(read, 1)
        os._exit(0)
    os.close(read)
    client.close()
    # They end with the parent's, and not with the child.
    eventually(lambda: not server.clients(), 5)
    os.close(write)
    os.waitpid(pid, 0)


def test_a_thread_that_keeps_the_interpreter_busy(server: Server, name: str) -> None:
    """Pure Python shares the interpreter: renewals go on."""
    stop = threading.Event()

    def spin() -> None:
        while not stop.is_set():
            pass

    threads = [threading.Thread(target=spin) for _ in range(3)]
    with Client(server.url, lease=2) as client, client.lock(name) as held:
        for thread in threads:
            thread.start()
        try:
            end = time.monotonic() + 5
            while time.monotonic() < end:
                held.check()
                time.sleep(0.05)
        finally:
            stop.set()
            for thread in threads:
                thread.join()
