"""The address and settings of the server, from a URL or a client of redis-py."""

from __future__ import annotations

import asyncio
import copy
import inspect
import os
import ssl
from collections.abc import Mapping
from functools import partial
from typing import Any
from urllib.parse import urlsplit

from redis import connection as sync
from redis.asyncio import connection as driver
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import AuthenticationError, BusyLoadingError, ResponseError

from ._errors import Error, Invalid, Unreachable, Unsupported
from ._wire import HELLO, REPLICA, is_replica, refusal

FORMS = (
    "write redis://[user:password@]host[:port][/database], rediss://… for TLS, "
    "unix://[user:password@]/path[?db=database], redis+sentinel://[user:password@]host:port,host:port/service[/database]"
    "[?sentinel_password=…], or redis+cluster://[user:password@]host:port,host:port"
)
# The driver's settings that are used. Its retries, time-outs, codecs and pools are not, since the machine repeats.
TAKEN = {"host", "port", "path", "db", "username", "password", "credential_provider"}
TAKEN |= {"socket_keepalive", "socket_keepalive_options", "socket_type"}
# Error replies of the server. In the driver, two of these classes are connection errors.
REPLIES = (ResponseError, BusyLoadingError, AuthenticationError)

Settings = Mapping[str, Any]
Address = tuple[str, int] | None


class Endpoint:
    """Opens connections to one server, the first of `seeds`. A cluster has several seeds."""

    def __init__(self, settings: Settings, kind: Any = None) -> None:
        self.settings = {name: value for name, value in settings.items() if name in TAKEN or name.startswith("ssl_")}
        if not isinstance(self.settings.get("socket_keepalive_options"), Mapping):
            self.settings.pop("socket_keepalive_options", None)
        secure = isinstance(kind, type) and issubclass(kind, (sync.SSLConnection, driver.SSLConnection))
        self.tls, self.cluster = secure or bool(settings.get("ssl")), False
        self.sentinels: list[Endpoint] = []
        self.service, self.by = "", ""  # by: for errors, the Sentinel that named this server
        self.seeds: list[Address] = [None]

    def __str__(self) -> str:
        host, port = self.seeds[0] or (self.settings.get("host", "localhost"), self.settings.get("port", 6379))
        return self.settings.get("path") or f"{host}:{port}"

    def at(self, address: Address, by: str = "") -> Endpoint:
        """The endpoint of another server, with the same settings."""
        other = copy.copy(self)
        other.seeds, other.by = [address], by
        return other

    def silent(self, why: str) -> Unreachable:
        return Unreachable(f"does not answer: {why}{self.by}", server=str(self))

    def demoted(self) -> Unreachable:
        error = Unreachable(f"{REPLICA}{self.by}", server=str(self))
        error.replica = True
        return error

    async def open(self, within: float, primary: bool = False) -> Any:
        """Opens a connection in `within` seconds. With `primary`, a server that says it is a replica is an error."""
        try:
            return await asyncio.wait_for(self._opened(primary), within)
        except Error:
            raise
        except Exception as error:
            raise self._failed(error) from error

    def _failed(self, error: Exception) -> Error:
        if isinstance(error, asyncio.TimeoutError):
            return self.silent("no connection in time")
        if isinstance(error, REPLIES) and not isinstance(error, BusyLoadingError):
            return refusal(error, str(self)).error
        # The operating system's error, without the text that the driver adds.
        cause = error.__cause__ or error.__context__ or error
        code = cause.errno if isinstance(cause, OSError) and not isinstance(cause, ssl.SSLError) else None
        plain = os.strerror(code).lower() if code is not None and code > 0 else str(cause)
        return self.silent(plain or type(error).__name__)

    async def _opened(self, primary: bool) -> Any:
        settings, address = dict(self.settings), self.seeds[0]
        kind: Any = driver.SSLConnection if self.tls else driver.Connection
        if address:
            settings["host"], settings["port"] = address
        if "path" in settings:
            kind = driver.UnixDomainSocketConnection
            settings = {name: value for name, value in settings.items() if not name.startswith("socket_")}
        # The driver's classes for asyncio lack some TLS settings of its classes for threads.
        known = inspect.signature(kind).parameters
        strange = {name: settings.pop(name) for name in [*settings] if name.startswith("ssl_") and name not in known}
        if any(strange.values()):
            text = f"the driver has no {', '.join(strange)} for asyncio; use other settings for the lock's client"
            raise Unsupported(text)
        fixed = {"protocol": 2, "retry": Retry(NoBackoff(), 0), "socket_timeout": None, "socket_connect_timeout": 5}
        connection = kind(**settings, **fixed)
        connection.disconnect = partial(disconnect, connection, connection.disconnect)
        try:
            await connection.connect()
            if primary and await says_replica(connection):
                raise self.demoted()
        except BaseException:
            await connection.disconnect()
            raise
        return connection


async def disconnect(connection: Any, drivers: Any, **named: Any) -> None:
    """Disconnects, and closes the socket at once. The driver alone would wait for the server to end TLS."""
    writer = connection._writer
    await drivers(**named | {"nowait": True})
    if writer is not None:
        writer.transport.abort()


async def says_replica(connection: Any) -> bool:
    await connection.send_command(*HELLO, check_health=False)
    try:
        return is_replica(await connection.read_response(disconnect_on_error=False))
    except REPLIES:  # an older server, a proxy, or a refused user, whose first command will fail
        return False


def of_url(url: str) -> Endpoint:
    scheme, _, rest = url.partition("://")
    base, _, kind = scheme.lower().partition("+")
    base = "unix" if kind == "unix" else base.replace("valkey", "redis")
    if kind not in ("sentinel", "cluster"):
        settings = dict(driver.parse_url(f"{base}://{rest}" if kind in ("", "unix") else url))
        if base == "unix" and "path" not in settings:
            raise ValueError("it names no path")
        return Endpoint(settings, settings.get("connection_class"))
    parts = urlsplit(f"//{rest}")
    login, at, hosts = parts.netloc.rpartition("@")
    service, _, database = parts.path.strip("/").partition("/")
    if kind == "sentinel" and not service:
        raise ValueError("it lacks the name that the Sentinels have for the primary")
    # The driver parses user, database and options, as in the URL of one server.
    path = f"/{database}" if kind == "sentinel" else ""
    settings = dict(driver.parse_url(f"{base}://{login}{at}localhost{path}?{parts.query}"))
    secure = settings.get("connection_class")
    servers = [urlsplit(f"//{host}") for host in hosts.split(",")]
    if not all(one.hostname for one in servers):
        raise ValueError("it names no host")
    addresses = [(str(one.hostname), one.port or (26379 if kind == "sentinel" else 6379)) for one in servers]
    endpoint = Endpoint(settings, secure)
    if kind == "cluster":
        endpoint.cluster, endpoint.seeds = True, [*addresses]
        endpoint.settings.pop("db", None)
        return endpoint
    tls = {name: value for name, value in settings.items() if name.startswith("ssl_")}
    users = {name: settings.get(f"sentinel_{name}") for name in ("username", "password")}
    endpoint.sentinels = [Endpoint({"host": host, "port": port, **users, **tls}, secure) for host, port in addresses]
    endpoint.service = service
    return endpoint


def of(server: Any) -> Endpoint:
    """The endpoint of a URL, or of a redis-py client: Redis or RedisCluster, for threads or for asyncio."""
    if isinstance(server, str):
        try:
            return of_url(server)
        except ValueError as error:
            raise Invalid(f"not the URL of a server ({error}); {FORMS}") from None
    if hasattr(server, "nodes_manager"):
        manager = server.nodes_manager
        settings = dict(getattr(manager, "connection_kwargs", None) or server.connection_kwargs)
        settings.pop("db", None)
        endpoint = Endpoint(settings, settings.get("connection_class"))
        endpoint.seeds = [(node.host, int(node.port)) for node in manager.startup_nodes.values()]
        endpoint.cluster = True
        return endpoint
    pool = getattr(server, "connection_pool", None)
    if pool is None:
        raise Invalid(f"not a client of redis-py: {type(server).__name__}; pass redis.Redis(…), or a URL")
    endpoint = Endpoint(pool.connection_kwargs, pool.connection_class)
    if getattr(pool, "sentinel_manager", None) is not None:
        endpoint.sentinels = [of(sentinel) for sentinel in pool.sentinel_manager.sentinels]
        endpoint.service = pool.service_name
    return endpoint
