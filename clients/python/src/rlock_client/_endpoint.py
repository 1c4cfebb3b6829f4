"""Where the server is: from a URL, or from the settings of a client of the driver."""

from __future__ import annotations

import asyncio
import inspect
import os
import re
import socket
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from redis import connection as sync
from redis.asyncio import connection as driver
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

from ._errors import Invalid, Unreachable, Unsupported

FORMS = "write redis://[user:password@]host[:port][/database], rediss://… or unix://[user:password@]/path[?db=database]"
# What is taken from the driver's settings. Its retries, time-outs, codecs and pools are not: the machine repeats.
TAKEN = {"host", "port", "path", "db", "username", "password", "credential_provider"}
TAKEN |= {"socket_keepalive", "socket_type"}

Settings = dict[str, Any]


def taken(settings: Mapping[str, Any]) -> Settings:
    kept = {name: value for name, value in settings.items() if name in TAKEN or name.startswith("ssl_")}
    options = settings.get("socket_keepalive_options")
    return {**kept, "socket_keepalive_options": options} if isinstance(options, Mapping) else kept


class Endpoint:
    """Makes connections. `sentinels`: the settings of each; `cluster`: the server is one of a cluster."""

    def __init__(self, settings: Settings, tls: bool = False, cluster: bool = False) -> None:
        self.settings, self.tls, self.cluster = taken(settings), tls, cluster
        self.sentinels: list[tuple[Settings, bool]] = []
        self.service = ""
        self.seeds: list[tuple[str, int]] = []
        if cluster:
            self.settings.pop("db", None)

    @property
    def follows(self) -> bool:
        """Whether another server may become the primary."""
        return bool(self.sentinels)

    def __str__(self) -> str:
        named = self.service or self.settings.get("path")
        return named or f"{self.settings.get('host', 'localhost')}:{self.settings.get('port', 6379)}"

    def connection(self, address: tuple[str, int] | None) -> driver.AbstractConnection:
        settings = dict(self.settings)
        if address:
            settings["host"], settings["port"] = address
        return make(settings, self.tls)

    async def connect(self, within: float, address: tuple[str, int] | None = None) -> driver.AbstractConnection:
        """A connection to this address, or the primary; the caller limits the time of all of it."""
        if not self.sentinels:
            return await opened(self.connection(address))
        trouble: Exception = Unreachable("no sentinel was named")
        # One that answers nothing leaves time for the others.
        share = within / (len(self.sentinels) + 1)
        for settings, tls in list(self.sentinels):
            try:
                return await asyncio.wait_for(self._connect_by(make(settings, tls)), share)
            except Exception as error:
                trouble = error
                self.sentinels.append(self.sentinels.pop(0))
        raise trouble

    async def _connect_by(self, sentinel: driver.AbstractConnection) -> driver.AbstractConnection:
        host, port = await ask_sentinel(sentinel, self.service)
        connection = await opened(self.connection((host, port)))
        role = await request(connection, "ROLE")
        # Sentinels are late at times: what they name may have been demoted.
        if isinstance(role, list) and role[0] != b"master":
            await connection.disconnect(nowait=True)
            raise Unreachable(f"a sentinel names {host}:{port}, which is no primary")
        return connection


def make(settings: Settings, tls: bool) -> driver.AbstractConnection:
    kind: Any = driver.SSLConnection if tls else driver.Connection
    # The driver's two faces do not know the same settings of TLS.
    known = inspect.signature(kind).parameters
    strange = {name for name in settings if name.startswith("ssl_") and name not in known}
    if any(settings[name] for name in strange):
        raise Unsupported(
            f"the driver has no {', '.join(strange)} for asyncio; use other settings for the lock's client"
        )
    settings = {name: value for name, value in settings.items() if name not in strange}
    if "path" in settings:
        kind = driver.UnixDomainSocketConnection
        settings = {name: value for name, value in settings.items() if not name.startswith("socket_")}
    fixed = {"protocol": 2, "retry": Retry(NoBackoff(), 0), "socket_timeout": None, "socket_connect_timeout": 5}
    made: driver.AbstractConnection = kind(**settings, **fixed)
    return made


async def opened(connection: Any) -> driver.AbstractConnection:
    try:
        await connection.connect()
    except BaseException:
        await connection.disconnect(nowait=True)
        raise
    made: driver.AbstractConnection = connection
    return made


async def request(connection: Any, *words: str) -> Any:
    await connection.send_command(*words, check_health=False)
    return await connection.read_response()


async def ask_sentinel(connection: Any, service: str) -> tuple[str, int]:
    try:
        await connection.connect()
        address = await request(connection, "SENTINEL", "GET-MASTER-ADDR-BY-NAME", service)
    finally:
        await connection.disconnect(nowait=True)
    if not address:
        raise Unreachable(f"the sentinel knows no primary called {service}")
    return address[0].decode(), int(address[1])


def from_url(url: str) -> Endpoint:
    try:
        settings = dict(driver.parse_url(url))
    except ValueError as error:
        raise Invalid(f"not the URL of a server ({error}); {FORMS}") from None
    return Endpoint(settings, tls=settings.pop("connection_class", None) is driver.SSLConnection)


def from_client(client: Any) -> Endpoint:
    """The settings of a redis.Redis or redis.asyncio.Redis, with Sentinel or not, or of a RedisCluster."""
    if hasattr(client, "nodes_manager"):
        manager = client.nodes_manager
        settings = dict(getattr(manager, "connection_kwargs", None) or client.connection_kwargs)
        nodes = list(manager.startup_nodes.values())
        tls = bool(settings.pop("ssl", False)) or is_tls(settings.get("connection_class"))
        endpoint = Endpoint({**settings, "host": nodes[0].host, "port": int(nodes[0].port)}, tls, cluster=True)
        endpoint.seeds = [(node.host, int(node.port)) for node in nodes]
        return endpoint
    pool = getattr(client, "connection_pool", None)
    if pool is None:
        raise Invalid(f"not a client of redis-py: {type(client).__name__}; pass redis.Redis(…), or a URL")
    endpoint = Endpoint(pool.connection_kwargs, is_tls(pool.connection_class))
    manager = getattr(pool, "sentinel_manager", None)
    if manager is not None:
        pools = [sentinel.connection_pool for sentinel in manager.sentinels]
        endpoint.sentinels = [(taken(one.connection_kwargs), is_tls(one.connection_class)) for one in pools]
        endpoint.service = pool.service_name
    return endpoint


def is_tls(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, (sync.SSLConnection, driver.SSLConnection))


def of(server: Any) -> Endpoint:
    return from_url(server) if isinstance(server, str) else from_client(server)


def called(name: str | None) -> str:
    """`<name>@<host>:<pid>`, as connections are called and owners begin."""
    program = Path(sys.argv[0]).stem if sys.argv else ""
    return f"{plain(name or program, 'rlock-client')}@{plain(socket.gethostname(), 'localhost')}:{os.getpid()}"


def plain(word: str, default: str) -> str:
    """At most 64 characters that mean nothing to servers and channels."""
    return re.sub(r"[^A-Za-z0-9._-]", "_", word.strip()[:64]) or default
