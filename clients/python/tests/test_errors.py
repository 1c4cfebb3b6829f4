"""Bad input and bad luck: the same short errors, each with what to do."""

from __future__ import annotations

import inspect
import subprocess
import sys
import typing
from collections.abc import Iterator
from typing import Any

import pytest
import redis

import rlock_client
from rlock_client import (
    Client,
    Error,
    Invalid,
    ModuleMissing,
    NotALock,
    Permission,
    QueueFull,
    Refused,
    Timeout,
    Unreachable,
)
from rlock_client._endpoint import of
from support import Server


def error_of(client: Client, lock: str = "a", wait: float | None = 5) -> Error:
    with client, pytest.raises(Error) as caught:
        client.lock(lock).acquire(wait)
    assert len(str(caught.value)) < 300
    return caught.value


@pytest.mark.parametrize("wait", [0, 5])
def test_no_module(wait: float) -> None:
    server = Server(module=False)
    error = error_of(Client(server.url), wait=wait)
    server.stop()
    assert isinstance(error, ModuleMissing)
    assert f"the server 127.0.0.1:{server.port} has no rlock module" in str(error)
    assert "add `loadmodule /path/to/librlock.so`" in str(error)


@pytest.mark.parametrize("version", ["3.5.3", "4.6.0", "5.0.0", "5.0.0rc1"])
def test_a_driver_that_is_too_old(version: str) -> None:
    program = f"import redis; redis.__version__ = {version!r}; import rlock_client"
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=20, check=False)
    assert ran.stderr.strip().endswith("Unsupported: this redis-py is too old; update it to 5.0.1 or later")


@pytest.fixture(scope="module")
def locked() -> Iterator[Server]:
    server = Server("--requirepass", "secret")
    server.redis = redis.Redis(port=server.port, password="secret", protocol=2)
    yield server
    server.stop()


@pytest.mark.parametrize("password", ["", ":wrong@", "nobody:secret@"])
def test_a_wrong_password(locked: Server, password: str) -> None:
    error = error_of(Client(f"redis://{password}127.0.0.1:{locked.port}"))
    assert isinstance(error, Permission)
    assert "check the user's password" in str(error)


def test_the_right_password(locked: Server) -> None:
    with Client(f"redis://:secret@127.0.0.1:{locked.port}/2") as client, client.lock("a", wait=5) as held:
        held.check()


@pytest.mark.parametrize("rules", ["-subscribe", "resetchannels", "-pubsub"])
def test_a_user_who_may_not_wait(locked: Server, rules: str) -> None:
    locked.do("ACL", "SETUSER", "u", "reset", "on", ">p", "~*", "+@all", "&*", rules)
    client = Client(f"redis://u:p@127.0.0.1:{locked.port}")
    client.lock("mine").try_acquire().release()
    error = error_of(client)
    assert isinstance(error, Permission)
    assert "+subscribe +pubsub|numsub &rlock:grants:*" in str(error)


@pytest.mark.parametrize("wait", [0, 5])
def test_a_key_that_is_no_lock(server: Server, name: str, wait: float) -> None:
    server.do("SET", name, "1")
    error = error_of(Client(server.url), name, wait)
    assert isinstance(error, NotALock)
    assert f"the key {name} holds something else" in str(error)
    server.do("DEL", name)


def test_a_lock_that_becomes_something_else_is_lost(server: Server, name: str) -> None:
    with Client(server.url, lease=0.6) as client:
        held = client.lock(name).acquire()
        server.do("SET", name, "1")
        assert held.lost.wait(5)
        server.do("DEL", name)


def test_a_full_queue(own_server: Server) -> None:
    own_server.do("CONFIG", "SET", "rlock.max-waiters", "0")
    with Client(own_server.url) as other, other.lock("a"):
        error = error_of(Client(own_server.url))
    assert isinstance(error, QueueFull)
    assert "try again later, or raise the server's limit" in str(error)


def test_a_replica(server: Server) -> None:
    replica = Server("--replicaof", "127.0.0.1", str(server.port))
    error = error_of(Client(replica.url), wait=1)
    assert isinstance(error, Timeout)
    assert isinstance(error.__cause__, Unreachable)
    assert "not acquired within 1." in str(error)
    assert f"s: the server 127.0.0.1:{replica.port} is a replica" in str(error)
    error = error_of(Client(replica.url, response_timeout=0.5), wait=0)
    assert isinstance(error, Unreachable)
    assert error.server == f"127.0.0.1:{replica.port}"
    replica.stop()


def test_a_database_that_is_not_there(server: Server) -> None:
    error = error_of(Client(server.url + "/99"))
    assert isinstance(error, Refused)


@pytest.mark.parametrize(
    ("url", "text"),
    [
        ("redis+sentinel://one", "lacks the name that the Sentinels have for the primary"),
        ("redis+cluster://", "names no host"),
        ("redis+other://one", "must specify one of"),
        ("unix://?db=1", "names no path"),
        ("", "must specify one of"),
    ],
)
def test_urls_that_are_none(url: str, text: str) -> None:
    with pytest.raises(Invalid, match=text):
        Client(url)


def test_urls() -> None:
    place = of("redis+sentinel://app:pw@one,two:5000/main/3?sentinel_password=x")
    assert (place.service, [str(one) for one in place.sentinels]) == ("main", ["one:26379", "two:5000"])
    assert (place.settings["username"], place.settings["db"]) == ("app", 3)
    assert place.sentinels[0].settings["password"] == "x"
    place = of("valkeys+cluster://one:7,[::1]")
    assert (place.cluster, place.tls, place.seeds) == (True, True, [("one", 7), ("::1", 6379)])
    assert of("valkey://one/2").settings["db"] == 2
    assert of("valkey+unix:///run/s?db=2").settings["db"] == 2


def test_type_hints_of_what_is_public() -> None:
    for name in rlock_client.__all__:
        kind = getattr(rlock_client, name)
        for one in [kind, *vars(kind).values()] if isinstance(kind, type) else []:
            if isinstance(one, type) or inspect.isfunction(one):
                typing.get_type_hints(one)


def test_options_that_are_none() -> None:
    with Client("redis://localhost:1") as client:
        make: Any = client
        with pytest.raises(TypeError, match=r"semaphore\(\) got an unexpected keyword argument 'fenced'"):
            make.semaphore("a", 2, fenced=True)
        with pytest.raises(TypeError, match=r"read_write_lock\(\) got an unexpected keyword argument 'fair'"):
            make.read_write_lock("a", fair=True)
        for name in ("", b"", "x" * 1025):
            with pytest.raises(Invalid, match="1 to 1024 bytes"):
                client.lock(name)
        with pytest.raises(Invalid, match=r"from 0\.1 .*ends between two renewals"):
            client.lock("a", lease=0.099)
