"""Keeping a connection up: connect, send in batches, read, PING, and connect again, for ever."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from redis import exceptions as driver

from ._clock import now
from ._endpoint import Address
from ._errors import Error, Unreachable
from ._events import Event
from ._machine import Failed
from ._version import __version__
from ._wire import Words, pack, refusal

if TYPE_CHECKING:
    from ._engine import Engine

FIRST_PAUSE = 0.01
LONGEST_PAUSE = 1.0
GRACE = 0.02
VERSION = (b"SETINFO", b"LIB-VER", __version__.encode())
# Errors of the server that the driver counts among those of the connection.
REPLIES = (driver.ResponseError, driver.BusyLoadingError, driver.AuthenticationError)

# Takes the reply, the server's error or what became of the command, and when it was sent.
Receiver = Callable[[Any, int], object]


@dataclass(eq=False)
class Sent:
    """A command that waits for its reply."""

    receive: Receiver
    at: int
    alarm: asyncio.TimerHandle = field(init=False)


class Link:
    """A connection to one server, and the next one when it is lost. Lives in the engine's loop.

    Subclasses say what happens when it comes, goes, cannot be had, brings a message, or is asked whether it lives.
    """

    def __init__(self, engine: Engine, address: Address = None) -> None:
        self.engine, self.address = engine, address
        self.up = self.connected_once = False
        self.descriptor = -1  # of the socket, for the child of a fork
        self.trouble: Error = Unreachable("no connection yet")
        self._closing, self._went_at = False, 0
        self._outbox: list[tuple[Words, Receiver, int]] = []
        self._waiting: deque[Sent] = deque()
        self._woken = asyncio.Event()
        self.loop = asyncio.get_running_loop()
        self._doubt: asyncio.Future[str] = self.loop.create_future()
        self._heart: asyncio.TimerHandle | None = None
        self._task = self.loop.create_task(self._keep())

    def came(self) -> None: ...
    def went(self) -> None: ...
    def refused(self, error: Error) -> None: ...
    def message(self, payload: bytes) -> None: ...

    def lives(self, value: Any, sent_at: int) -> None: ...

    def pace(self) -> int:
        """How often it is asked whether it lives."""
        return self.engine.response

    def _patience(self) -> int:
        """For an answer, or the next connection: half the grace of a session, so that both fit into it."""
        return min(self.engine.response, 2 * self.pace())

    def beat(self, *pulse: bytes) -> None:
        """Asks now whether it lives, and then again and again; not while it is down."""
        if self._heart is not None:
            self._heart.cancel()
        if self.up:
            pace = self.pace()
            self._heart = self.loop.call_later(pace / 1e9, self.beat)
            self.send(pulse or (b"PING",), self.lives, self._patience())

    def send(self, words: Words, receive: Receiver, within: int | None = None) -> None:
        """Sends a command; a connection that does not answer it within this time (in ns) is given up."""
        if not self.up:
            receive(Failed("unsent", self.trouble), now())
            return
        self._outbox.append((words, receive, self.engine.response if within is None else within))
        self._woken.set()

    def drop(self, why: str) -> None:
        """Gives the connection up; another one follows."""
        if not self._doubt.done():
            self._doubt.set_result(why)

    async def close(self) -> None:
        # Python 3.10 and 3.11 can lose a cancellation in `wait_for`, which comes to its end at that moment.
        self._closing = True
        while not self._task.done():
            self._task.cancel()
            await asyncio.wait([self._task], timeout=0.05)

    async def _keep(self) -> None:
        pause = FIRST_PAUSE
        while True:
            within = self._patience() / 1e9
            try:
                connecting = self.engine.endpoint.connect(within, self.address)
                connection = await asyncio.wait_for(connecting, within)
            except Exception as error:
                self.trouble = connect_error(error)
                self.refused(self.trouble)
            else:
                began = now()
                try:
                    await self._use(connection)
                finally:
                    self.descriptor = -1
                    with contextlib.suppress(Exception):
                        await connection.disconnect(nowait=True)
                if now() - began > 1e9:
                    pause = FIRST_PAUSE
            # Clients that lost the same server should not come back in step.
            await asyncio.sleep(pause * random.uniform(0.5, 1))
            pause = min(pause * 2, LONGEST_PAUSE, within / 4)

    async def _use(self, connection: Any) -> None:
        self.descriptor = connection._writer.get_extra_info("socket").fileno()
        self.up, self.connected_once, self._doubt = True, True, self.loop.create_future()
        tasks = [self.loop.create_task(work) for work in (self._read(connection), self._write(connection))]
        why, server = "it was closed", str(self.engine.endpoint)
        try:
            if self._went_at:
                self.engine.hook(Event("reconnected", server=server, seconds=(now() - self._went_at) / 1e9))
            for words in (
                (b"SETNAME", self.engine.called.encode()),
                (b"SETINFO", b"LIB-NAME", b"rlock-client"),
                VERSION,
            ):
                # A user without this permission, or an older server, leaves the connection without a name.
                self.send((b"CLIENT", *words), ignore)
            self.came()
            self.beat()
            done, _ = await asyncio.wait([*tasks, self._doubt], return_when=asyncio.FIRST_COMPLETED)
            failure = next(iter(done)).exception()
            why = next(iter(done)).result() if failure is None else f"{failure}" or type(failure).__name__
        finally:
            self.up = False
            self.beat()
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            self.trouble = error = Unreachable(why)
            unanswered, unsent = list(self._waiting), self._outbox
            self._waiting, self._outbox = deque(), []
            for sent in unanswered:
                sent.alarm.cancel()
                sent.receive(Failed("unanswered", error), sent.at)
            for _, receive, _ in unsent:
                receive(Failed("unsent", error), now())
            self._went_at = now()
            if not self._closing:
                self.engine.hook(Event("disconnected", server=server, error=error))
            self.went()

    async def _read(self, connection: Any) -> str:
        while True:
            try:
                value = await connection.read_response(disconnect_on_error=False)
            except REPLIES as error:
                value = error
            if isinstance(value, list) and value and value[0] == b"message":
                self.message(value[2])
            elif self._waiting:
                sent = self._waiting.popleft()
                sent.alarm.cancel()
                sent.receive(value, sent.at)
            else:
                return f"a reply that nobody asked for: {value!r}"

    async def _write(self, connection: Any) -> str:
        while True:
            await self._woken.wait()
            self._woken.clear()
            batch, self._outbox = self._outbox, []
            at = now()
            for _, receive, within in batch:
                sent = Sent(receive, at)
                sent.alarm = self.loop.call_later(within / 1e9, self._late, sent)
                self._waiting.append(sent)
            # Else the driver would connect anew, and nobody would know.
            if not connection.is_connected:
                return "it was closed"
            await connection.send_packed_command(pack([words for words, _, _ in batch]), check_health=False)

    def _late(self, sent: Sent) -> None:
        # The reply may have arrived while this thread stood still.
        sent.alarm = self.loop.call_later(GRACE, self.drop, "no reply in time")


def ignore(*_: object) -> None: ...


def connect_error(error: Exception) -> Error:
    if isinstance(error, Error):
        return error
    if isinstance(error, asyncio.TimeoutError):
        return Unreachable("no connection in time")
    if isinstance(error, REPLIES) and not isinstance(error, driver.BusyLoadingError):
        return refusal(error).error
    return Unreachable(str(error) or type(error).__name__)
