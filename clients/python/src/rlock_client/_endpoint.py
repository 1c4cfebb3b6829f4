"""Where the server is: from a URL, or from the settings of a client of the driver."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Mapping
from typing import Any

from redis import connection as sync
from redis.asyncio import connection as driver
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

from ._errors import Invalid, Unreachable, Unsupported

FORMS = "write redis://[user:password@]host[:port][/database], rediss://… or unix://[user:password@]/path[?db=database]"
# What is taken from the driver's settings. Its retries, time-outs, codecs and pools are not: the machine repeats.
TAKEN = {"host", "port", "path", "db", "username", "password", "credential_provider"}
TAKEN |= {"socket_keepalive", "socket_keepalive_options", "socket_type"}

Settings = Mapping[str, Any]
Address = tuple[str, int] | None


class Endpoint:
    """Makes connections to one server. With `sentinels` they know its address; in a cluster it is one of `seeds`."""

    def __init__(self, settings: Settings, kind: Any = None) -> None:
        self.settings = {name: value for name, value in settings.items() if name in TAKEN or name.startswith("ssl_")}
        if not isinstance(self.settings.get("socket_keepalive_options"), Mapping):
            self.settings.pop("socket_keepalive_options", None)
        secure = isinstance(kind, type) and issubclass(kind, (sync.SSLConnection, driver.SSLConnection))
        self.tls, self.cluster = secure or bool(settings.get("ssl")), False
        self.sentinels: list[Endpoint] = []
        self.service = ""
        self.seeds: list[Address] = [None]

    def __str__(self) -> str:
        host, port = self.seeds[0] or (self.settings.get("host", "localhost"), self.settings.get("port", 6379))
        return self.service or self.settings.get("path") or f"{host}:{port}"

    async def connect(self, within: float, address: Address = None) -> Any:
        """A connection to this address, or the primary; the caller limits the time of all of it."""
        if not self.sentinels:
            return await self._opened(address)
        trouble: Exception = Unreachable("no sentinel was named")
        # One that answers nothing leaves time for the others.
        share = within / (len(self.sentinels) + 1)
        for sentinel in list(self.sentinels):
            try:
                return await asyncio.wait_for(self._connect_by(sentinel), share)
            except Exception as error:
                trouble = error
                self.sentinels.append(self.sentinels.pop(0))
        raise trouble

    async def _connect_by(self, sentinel: Endpoint) -> Any:
        asked = await sentinel._opened(None)
        try:
            address = await request(asked, "SENTINEL", "GET-MASTER-ADDR-BY-NAME", self.service)
        finally:
            await asked.disconnect(nowait=True)
        if not address:
            raise Unreachable(f"the sentinel knows no primary called {self.service}")
        connection = await self._opened((address[0].decode(), int(address[1])))
        role = await request(connection, "ROLE")
        # Sentinels are late at times: what they name may have been demoted.
        if isinstance(role, list) and role[0] != b"master":
            await connection.disconnect(nowait=True)
            raise Unreachable(f"a sentinel names {address[0].decode()}, which is no primary")
        return connection

    async def _opened(self, address: Address) -> Any:
        settings = dict(self.settings)
        kind: Any = driver.SSLConnection if self.tls else driver.Connection
        if address:
            settings["host"], settings["port"] = address
        if "path" in settings:
            kind = driver.UnixDomainSocketConnection
            settings = {name: value for name, value in settings.items() if not name.startswith("socket_")}
        # The driver's two faces do not know the same settings of TLS.
        known = inspect.signature(kind).parameters
        strange = {name: settings.pop(name) for name in [*settings] if name.startswith("ssl_") and name not in known}
        if any(strange.values()):
            text = f"the driver has no {', '.join(strange)} for asyncio; use other settings for the lock's client"
            raise Unsupported(text)
        fixed = {"protocol": 2, "retry": Retry(NoBackoff(), 0), "socket_timeout": None, "socket_connect_timeout": 5}
        connection = kind(**settings, **fixed)
        try:
            await connection.connect()
        except BaseException:
            await connection.disconnect(nowait=True)
            raise
        return connection


async def request(connection: Any, *words: str) -> Any:
    await connection.send_command(*words, check_health=False)
    return await connection.read_response()


def of(server: Any) -> Endpoint:
    """From a URL, or the settings of a Redis client of the driver, for asyncio or not, or of a RedisCluster."""
    if isinstance(server, str):
        try:
            settings = dict(driver.parse_url(server))
        except ValueError as error:
            raise Invalid(f"not the URL of a server ({error}); {FORMS}") from None
        return Endpoint(settings, settings.get("connection_class"))
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
