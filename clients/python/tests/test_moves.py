"""Servers that are demoted while they run: the clients leave them."""

from __future__ import annotations

import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import redis
from redis import sentinel as driver_sentinel

from rlock_client import Client, LockLost
from support import SERVER, Proxy, Server, eventually, free_port

make_sentinel: Any = driver_sentinel.Sentinel


class Service:
    """A primary, its replica, and three Sentinels."""

    def __init__(self, tmp_path: Path) -> None:
        self.path = tmp_path
        self.primary = Server(*(words := ["--repl-diskless-sync-delay", "0"]))
        self.replica = Server("--replicaof", "127.0.0.1", str(self.primary.port), *words)
        self.watchers: dict[int, Any] = {}
        try:
            eventually(lambda: self.replica.redis.info("replication")["master_link_status"] == "up")
            for _ in range(3):
                self.watch(free_port(), 2)
            eventually(lambda: all(self.known(port) == (1, 2) for port in self.ports), 20)
        except BaseException:
            self.stop()
            raise

    @property
    def ports(self) -> list[int]:
        return list(self.watchers)

    def watch(self, port: int, quorum: int) -> None:
        config = self.path / f"sentinel-{port}.conf"
        config.write_text(
            f"port {port}\nbind 127.0.0.1\ndir {self.path}\n"
            f"sentinel monitor primary 127.0.0.1 {self.primary.port} {quorum}\n"
            "sentinel down-after-milliseconds primary 5000\nsentinel failover-timeout primary 20000\n"
        )
        quiet: Any = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        self.watchers[port] = subprocess.Popen([SERVER, str(config), "--sentinel"], **quiet)

    def ask(self, port: int, *words: str) -> Any:
        return ask(port, *words)

    def known(self, port: int) -> tuple[int, int]:
        try:
            told = self.ask(port, "SENTINEL", "MASTER", "primary")
        except redis.RedisError:
            return (0, 0)
        fields = dict(zip(told[::2], told[1::2], strict=True))
        return int(fields[b"num-slaves"]), int(fields[b"num-other-sentinels"])

    def fail_over(self) -> None:
        # A Sentinel that knows a replica and has no connection to it yet refuses.
        def begins() -> bool:
            try:
                return bool(self.ask(self.ports[-1], "SENTINEL", "FAILOVER", "primary") == b"OK")
            except redis.ResponseError as error:
                return "INPROG" in str(error)

        eventually(begins, 20)

    def driver(self, *ports: int) -> Any:
        return make_sentinel([("127.0.0.1", port) for port in ports or self.ports], socket_timeout=1).master_for(
            "primary"
        )

    def stop(self) -> None:
        for one in self.watchers.values():
            one.kill()
            one.wait()
        self.replica.stop()
        self.primary.stop()


def ask(port: int, *words: str) -> Any:
    """The reply as it is: the driver would translate it."""
    make: Any = redis.Connection
    connection = make(port=port, protocol=2, socket_timeout=5)
    try:
        connection.send_command(*words)
        return connection.read_response()
    finally:
        connection.disconnect()


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    service = Service(tmp_path)
    yield service
    service.stop()


def holds_at(server: Server, name: str) -> bytes | None:
    try:
        return server.redis.hkeys(name)[0] if server.redis.exists(name) else None
    except redis.RedisError:
        return None


class Mute:
    """A Sentinel that answers as the test sets it, after some time."""

    def __init__(self, port: int, primary: tuple[str, int]) -> None:
        self.primary, self.epoch, self.late = primary, 0, 0.0
        self._listener = socket.create_server(("127.0.0.1", port))
        self.port = port
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                one, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(one,), daemon=True).start()

    def _serve(self, one: socket.socket) -> None:
        def array(*parts: str) -> str:
            return f"*{len(parts)}\r\n" + "".join(f"${len(part)}\r\n{part}\r\n" for part in parts)

        with one, one.makefile("rb") as lines:
            while line := lines.readline():
                words = []
                for _ in range(int(line[1:])):
                    lines.readline()
                    words.append(lines.readline().strip().decode())
                answers = {
                    "MASTER": array("name", "primary", "config-epoch", str(self.epoch)),
                    "SENTINELS": "*0\r\n",
                    "GET-MASTER-ADDR-BY-NAME": array(self.primary[0], str(self.primary[1])),
                }
                if words[-2:-1] == ["MASTER"]:
                    time.sleep(self.late)
                plain = "+OK\r\n" if words[0] != "SUBSCRIBE" else "*3\r\n$9\r\nsubscribe\r\n$1\r\na\r\n:1\r\n"
                one.sendall(answers.get(words[1] if len(words) > 1 else "", plain).encode())

    def close(self) -> None:
        self._listener.close()


@pytest.fixture
def servers() -> Iterator[tuple[Server, Server]]:
    both = Server(), Server()
    yield both
    for one in both:
        one.stop()


def test_both_connections_are_at_the_same_server(servers: tuple[Server, Server], name: str) -> None:
    """The first wait opened the second one at the new primary, and the first one stayed at the old."""
    old, new = servers
    mute = Mute(free_port(), ("127.0.0.1", old.port))
    driver = make_sentinel([("127.0.0.1", mute.port)], socket_timeout=1).master_for("primary")
    with Client(driver) as client:
        client.lock(name).try_acquire().release()
        mute.primary, mute.epoch = ("127.0.0.1", new.port), 1
        held = client.lock(name).acquire(5)
        assert holds_at(new, name) == held.owner
        eventually(lambda: (len(old.clients()), len(new.clients())) == (0, 2), 1)
        held.release()
    mute.close()


def test_a_sentinel_that_answers_late_is_heard(servers: tuple[Server, Server], name: str) -> None:
    """Each second it said that there is another primary, and was too late when the client looked for that one."""
    old, new = servers
    mutes = [Mute(free_port(), ("127.0.0.1", old.port)) for _ in range(3)]
    addresses = [("127.0.0.1", mute.port) for mute in mutes]
    # The client looks for the primary for half the time that a connection has: with this lease for 1 s.
    with Client(make_sentinel(addresses, socket_timeout=1).master_for("primary"), lease=30) as client:
        held = client.lock(name).try_acquire()
        mutes[2].primary, mutes[2].epoch, mutes[2].late = ("127.0.0.1", new.port), 1, 0.4
        eventually(lambda: moved_to(new), 4)
        time.sleep(1.5)
        assert moved_to(new)
        assert not moved_to(old)
        assert held.lost.is_set()
    for mute in mutes:
        mute.close()


def test_sentinels_that_are_set_up_anew(service: Service, name: str) -> None:
    """Their epoch is lower than the one that the client has believed, and all of them say so."""
    with Client(service.driver(), lease=10) as client:
        held = client.lock(name).acquire()
        service.fail_over()
        eventually(lambda: holds_at(service.replica, name) and service.replica.redis.role()[0] == b"master", 10)
        eventually(lambda: moved_to(service.replica), 10)
        for watcher in service.watchers.values():
            watcher.kill()
            watcher.wait()
        service.primary, service.replica = service.replica, service.primary
        for port in service.ports:
            service.watch(port, 2)
        service.primary.redis.client_kill_filter(_type="normal", skipme=True)
        eventually(lambda: moved_to(service.primary), 10)
        held.check()
        held.release()


def moved_to(server: Server) -> bool:
    return any("@" in one["name"] for one in server.redis.client_list())


def test_a_hung_sentinel_keeps_nobody_waiting(service: Service, name: str) -> None:
    service.watchers[service.ports[0]].send_signal(19)

    def quick() -> bool:
        began = time.monotonic()
        with Client(service.driver()) as client, client.lock(name, wait=5):
            return time.monotonic() - began < 1

    # A client that waited for the hung one would take a second or more each time; a busy machine is slow at times.
    assert any(quick() for _ in range(5))
    service.watchers[service.ports[0]].send_signal(18)


def test_nothing_is_left_at_the_sentinels(service: Service, name: str) -> None:
    def connections() -> int:
        told = [self_ for port in service.ports for self_ in service.ask(port, "CLIENT", "LIST").split(b"\n")]
        return sum(b"@" in one for one in told)

    with Client(service.driver(), name="a") as client, client.lock(name, wait=5):
        eventually(lambda: connections() == 6, 5)
    eventually(lambda: connections() == 0, 5)


def test_a_write_that_is_refused_by_a_replica_is_enough(name: str) -> None:
    """No heartbeat is due yet."""
    primary, other = Server(), Server()
    way = Proxy(primary.port)
    try:
        with Client(way.url, response_timeout=5) as client:
            client.lock(name).try_acquire().release()
            way.target = other.port
            primary.do("REPLICAOF", "127.0.0.1", "1")
            began = time.monotonic()
            client.lock(name).try_acquire().release()
            assert time.monotonic() - began < 1
    finally:
        way.close()
        other.stop()
        primary.stop()


def test_a_lost_lock_is_not_released_with_success(service: Service, name: str) -> None:
    """The lock was acquired at the old primary after the promotion: the new one does not know it."""
    with Client(service.driver(), lease=3) as client:
        held = client.lock(name).acquire()
        service.replica.redis.config_set("replica-read-only", "no")
        service.replica.do("DEL", name)
        service.fail_over()
        with pytest.raises(LockLost):
            eventually(lambda: held.lost.is_set(), 6)
            held.release()
