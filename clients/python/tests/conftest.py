from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator

import pytest

from rlock_client import Client
from support import Proxy, Server

numbers = itertools.count(1)


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    server = Server()
    yield server
    server.stop()


@pytest.fixture
def own_server() -> Iterator[Server]:
    server = Server()
    yield server
    server.stop()


@pytest.fixture
def proxy(server: Server) -> Iterator[Proxy]:
    proxy = Proxy(server.port)
    yield proxy
    proxy.close()


@pytest.fixture
def client(server: Server) -> Iterator[Client]:
    with Client(server.url, name="test") as client:
        yield client


@pytest.fixture
def name() -> str:
    return f"lock:{next(numbers)}"


@pytest.fixture(autouse=True)
def nothing_left() -> Iterator[None]:
    """A test that closes its clients leaves no thread of them."""
    yield
    left = [one for one in threading.enumerate() if one.name == "rlock-client"]
    assert not left, left
