"""Keeping a connection up: connect, send in batches, read, PING, and connect again, for ever."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any

from redis import exceptions as driver
from redis.asyncio.connection import AbstractConnection

from ._clock import now
from ._errors import Error, Unreachable
from ._machine import Failed, Failure
from ._version import __version__
from ._wire import Words, pack, refusal

FIRST_PAUSE = 0.01
LONGEST_PAUSE = 1.0
GRACE = 0.02
VERSION = (b"SETINFO", b"LIB-VER", __version__.encode())
# Errors of the server that the driver counts among those of the connection.
REPLIES = (driver.ResponseError, driver.BusyLoadingError, driver.AuthenticationError)

# Takes the reply, the server's error or what became of the command, and when it was sent.
Receiver = Callable[[Any, int], None]


class Link:
    """A connection to one server, and the next one when it is lost. Lives in the engine's loop."""

    def __init__(
        self,
        connect: Callable[[], Awaitable[AbstractConnection]],
        response: int,
        name: str,
        follows: bool,
        up: Callable[[Link], None],
        down: Callable[[Link, Error], None],
        refused: Callable[[Link, Error], None],
        message: Callable[[bytes], None] | None = None,
    ) -> None:
        self.up = self.connected_once = False
        self.descriptor = -1  # of the socket, for the child of a fork
        self.trouble: Error = Unreachable("no connection yet")
        self._connect, self._response, self._name = connect, response, name.encode()
        self._tell_up, self._tell_down, self._tell_refused, self._tell_message = up, down, refused, message
        # A server may be demoted without a word to its clients. A subscription's own server is asked for nothing else.
        self._pulse: Words = (b"ROLE",) if follows and message is None else (b"PING",)
        self._outbox: list[tuple[Words, Receiver, int]] = []
        self._waiting: deque[tuple[Receiver, int, int]] = deque()  # when it was sent, and when the reply is late
        self._woken = asyncio.Event()
        self._doubt: asyncio.Future[str] | None = None
        self._alarm: asyncio.TimerHandle | None = None
        self._alarm_at = self._idle_since = 0
        self._task = asyncio.get_running_loop().create_task(self._keep())

    def send(self, words: Words, receive: Receiver, within: int | None = None) -> None:
        """Sends a command; a connection that does not answer it within this time (in ns) is given up."""
        if not self.up:
            receive(Failed(Failure.UNSENT, self.trouble), now())
            return
        self._outbox.append((words, receive, self._response if within is None else within))
        self._woken.set()

    def drop(self, why: str) -> None:
        """Gives the connection up; another one follows."""
        if self._doubt is not None and not self._doubt.done():
            self._doubt.set_result(why)

    async def close(self) -> None:
        # Python 3.10 and 3.11 can lose a cancellation in `wait_for`, which comes to its end at that moment.
        while not self._task.done():
            self._task.cancel()
            await asyncio.wait([self._task], timeout=0.05)

    async def _keep(self) -> None:
        pause = FIRST_PAUSE
        while True:
            try:
                connection = await asyncio.wait_for(self._connect(), self._response / 1e9)
            except Exception as error:
                self.trouble = connect_error(error)
                self._tell_refused(self, self.trouble)
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
            pause = min(pause * 2, LONGEST_PAUSE, self._response / 1e9)

    async def _use(self, connection: Any) -> None:
        loop = asyncio.get_running_loop()
        self.descriptor = connection._writer.get_extra_info("socket").fileno()
        self.up, self.connected_once, self._doubt = True, True, loop.create_future()
        tasks = [loop.create_task(work) for work in (self._read(connection), self._write(connection))]
        why = "it was closed"
        self._idle_since = now()
        self._set_alarm()
        try:
            for words in ((b"SETNAME", self._name), (b"SETINFO", b"LIB-NAME", b"rlock-client"), VERSION):
                # A user without this permission, or an older server, leaves the connection without a name.
                self.send((b"CLIENT", *words), ignore)
            self._tell_up(self)
            done, _ = await asyncio.wait([*tasks, self._doubt], return_when=asyncio.FIRST_COMPLETED)
            failure = next(iter(done)).exception()
            why = next(iter(done)).result() if failure is None else f"{failure}" or type(failure).__name__
        finally:
            if self._alarm is not None:
                self._alarm.cancel()
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            self._went(Unreachable(why))

    def _went(self, error: Error) -> None:
        self.up = False
        unanswered, unsent = list(self._waiting), self._outbox
        self._waiting, self._outbox = deque(), []
        for receive, sent_at, _ in unanswered:
            receive(Failed(Failure.UNANSWERED, error), sent_at)
        for _, receive, _ in unsent:
            receive(Failed(Failure.UNSENT, error), now())
        self.trouble = error
        self._tell_down(self, error)

    async def _read(self, connection: Any) -> str:
        while True:
            try:
                value = await connection.read_response(disconnect_on_error=False)
            except REPLIES as error:
                value = error
            if self._tell_message and isinstance(value, list) and value and value[0] == b"message":
                self._tell_message(value[2])
            elif self._waiting:
                receive, sent_at, _ = self._waiting.popleft()
                receive(value, sent_at)
            else:
                return f"a reply that nobody asked for: {value!r}"

    async def _write(self, connection: Any) -> str:
        while True:
            await self._woken.wait()
            self._woken.clear()
            batch, self._outbox = self._outbox, []
            sent_at = now()
            self._waiting.extend((receive, sent_at, sent_at + within) for _, receive, within in batch)
            if batch and min(within for _, _, within in batch) + sent_at < self._alarm_at:
                self._set_alarm()
            # Else the driver would connect anew, and nobody would know.
            if not connection.is_connected:
                return "it was closed"
            await connection.send_packed_command(pack([words for words, _, _ in batch]), check_health=False)

    def _set_alarm(self) -> None:
        """For the first command that must have been answered; an idle connection is asked whether it is alive."""
        if self._alarm is not None:
            self._alarm.cancel()
        idle = self._idle_since + self._response
        self._alarm_at = min((by for _, _, by in self._waiting), default=idle)
        self._alarm = asyncio.get_running_loop().call_later(max(0, self._alarm_at - now()) / 1e9, self._look)

    def _look(self, again: bool = False) -> None:
        if self._waiting and now() >= min(by for _, _, by in self._waiting):
            if again:
                self.drop("no reply in time")
            else:
                # The reply may have arrived while this thread stood still.
                self._alarm = asyncio.get_running_loop().call_later(GRACE, self._look, True)
            return
        if not self._waiting and now() >= self._idle_since + self._response:
            self._idle_since = now()
            self.send(self._pulse, self._pulsed)
        self._set_alarm()

    def _pulsed(self, value: Any, sent_at: int) -> None:
        if isinstance(value, list) and self._pulse == (b"ROLE",) and value[0] != b"master":
            self.drop("the server is no longer a primary")


def ignore(value: Any, sent_at: int) -> None:
    pass


def connect_error(error: Exception) -> Error:
    if isinstance(error, Error):
        return error
    if isinstance(error, asyncio.TimeoutError):
        return Unreachable("no connection in time")
    if isinstance(error, REPLIES) and not isinstance(error, driver.BusyLoadingError):
        return refusal(error).error
    return Unreachable(str(error) or type(error).__name__)
