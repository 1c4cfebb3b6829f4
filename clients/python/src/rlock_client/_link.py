"""Links: connections that are opened anew after each end. A server has one for commands and one for messages."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from ._clock import now
from ._endpoint import Address, Endpoint
from ._errors import Error, Permission, Unreachable
from ._events import Event
from ._machine import MS, Failed
from ._stream import Stream
from ._version import __version__
from ._wire import HELLO, Words, is_replica, parse, release_of

if TYPE_CHECKING:
    from ._engine import Acquisition, Engine

FIRST_PAUSE = 0.01
LONGEST_PAUSE = 1.0
GRACE = 20 * MS
# A connection may take at least this time, whatever the lease is, since it needs several round trips.
LEAST_TO_CONNECT = 1_000 * MS
NO_GRACE = 2**62

# Is called with the reply, an error reply or a `Failed`, and with the time at which the command was sent.
Receiver = Callable[[Any, int], object]


class Sent(NamedTuple):
    """A command that waits for its reply."""

    receive: Receiver
    at: int
    until: int


class Link:
    """A connection to one server, opened anew after each end. It lives in the engine's loop.

    Subclasses define its users, and what happens when it is opened, has ended or receives a message.
    """

    # The command of heartbeats. If the server refuses it, the next one is used, and none after the last.
    pulses: tuple[Words, ...] = (HELLO, (b"PING",))
    tells = True  # whether the user gets events of this connection

    def __init__(self, engine: Engine, place: Endpoint) -> None:
        self.engine, self.place, self.loop = engine, place, asyncio.get_running_loop()
        self.up = False
        self.trouble: Error = place.silent("no connection yet")
        self.stream: Stream
        self._closing, self._went_at = False, 0
        self._doubt: Error | None = None
        self._outbox: list[Words] = []
        self._waiting: deque[Sent] = deque()
        self._heart: asyncio.TimerHandle | None = None
        self._alarm: asyncio.TimerHandle | None = None
        self._alarm_at = 0
        self._pulses = list(self.pulses)
        self._again = asyncio.Event()
        self._task = self.loop.create_task(self._keep())

    @property
    def trusted(self) -> bool:
        return self.up and self._doubt is None

    @property
    def server(self) -> str:
        """The server of the present or last connection, or of the next attempt."""
        return str(self.place)

    def came(self) -> None: ...
    def went(self) -> None: ...  # also after a failed attempt to connect
    def message(self, payload: bytes) -> None: ...
    def lives(self, value: Any, sent_at: int) -> None: ...

    def users(self) -> list[Acquisition]:
        return []

    async def open(self, within: float) -> Any:
        return await self.place.open(within)

    def grace(self) -> int:
        """The shortest grace of the sessions that end with this connection."""
        return NO_GRACE

    def pace(self) -> int:
        """The time between two heartbeats."""
        return min(self.engine.response, self.grace() // 4)

    def patience(self, least: int = 0) -> int:
        """The limit of an answer or a new connection. At most half the grace of a session, so that both fit in it."""
        return min(max(self.engine.response, least), self.grace() // 2 if self.engine.reached else NO_GRACE)

    def beat(self) -> None:
        """Sends a heartbeat now and after each `pace`. Sends none while the connection is down."""
        if self._heart is not None:
            self._heart.cancel()
        if self.up and self._pulses:
            self._heart = self.loop.call_later(self.pace() / 1e9, self.beat)
            self.send(self._pulses[0], self._beaten, self.patience())

    def _beaten(self, value: Any, sent_at: int) -> None:
        if isinstance(value, Exception):
            # A refused command is not repeated, since it would fill ACL LOG.
            self._pulses.pop(0)
        if not isinstance(value, Failed):
            self.lives(value, sent_at)

    def send(self, words: Words, receive: Receiver, within: int | None = None) -> None:
        """Sends a command. A connection that does not answer it within this time (in ns) is closed."""
        if not self.up:
            receive(Failed("passing", self.trouble), now())
            return
        if not self._outbox and not self.engine.working:
            self.loop.call_soon(self.flush)
        self._outbox.append(words)
        at = now()
        sent = Sent(receive, at, at + (within or self.engine.response))
        self._waiting.append(sent)
        if self._alarm is None or sent.until < self._alarm_at:
            self._set_alarm(sent.until, self._late)

    def flush(self) -> None:
        batch, self._outbox = self._outbox, []
        if self.up and batch:
            self.stream.write(batch)

    def _set_alarm(self, at: int, work: Callable[[], None]) -> None:
        """Sets the one timer of all commands, since most are answered long before their limit."""
        if self._alarm is not None:
            self._alarm.cancel()
        self._alarm_at, self._alarm = at, self.loop.call_later(max(0, at - now()) / 1e9, work)

    def _late(self, again: bool = False) -> None:
        self._alarm, at = None, now()
        first = min((sent.until for sent in self._waiting), default=None)
        if first is None:
            return
        if again and first + GRACE <= at:
            self.drop(self.place.silent("no reply in time"))
        elif first <= at:
            # The reply may have arrived while this thread was not running.
            self._set_alarm(at + GRACE, partial(self._late, True))
        else:
            self._set_alarm(first, self._late)

    def kept(self) -> Error:
        """The reason why the server does not answer."""
        return self.place.silent("no reply in time") if self.up else self.trouble

    def drop(self, why: Error) -> None:
        """Closes the connection, after which the link opens another one."""
        if self.up:
            self._doubt = self._doubt or why
            self.stream.abort()

    def hurry(self) -> None:
        """Ends the pause before the next attempt to connect."""
        self._again.set()

    async def close(self) -> None:
        # Repeated, since Python 3.10 and 3.11 can lose a cancellation that arrives as a `wait_for` ends.
        self._closing = True
        while not self._task.done():
            self._task.cancel()
            await asyncio.wait([self._task], timeout=0.05)

    async def _keep(self) -> None:
        pause = FIRST_PAUSE
        while True:
            within, began = self.patience(self.engine.to_connect), now()
            self._again.clear()
            try:
                connection = await self.open(within / 1e9)
            except Error as error:
                self.trouble = error
                self.went()
                self._fail(error)
            else:
                await self._use(connection)
                if now() - began > 1e9:
                    pause = FIRST_PAUSE
            # A random pause, so that clients of the same lost server do not reconnect in step.
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._again.wait(), pause * random.uniform(0.5, 1))
            pause = min(pause * 2, LONGEST_PAUSE, within / 4e9)

    def _fail(self, error: Error) -> None:
        """Ends the waits after a refused login. Outside a cluster, also if no server was ever found at the address."""
        if isinstance(error, Permission) or not (self.engine.reached or self.engine.endpoint.cluster):
            for one in self.users():
                self.engine.give(one, one.machine.cancel, error)
        elif self.tells and not self._went_at:
            self._gone(error)

    def _gone(self, error: Error) -> None:
        self._went_at = now()
        if self.tells and not self._closing:
            self.engine.hook(Event("disconnected", server=self.server, error=error))

    async def _use(self, connection: Any) -> None:
        why, self.stream = self.place.silent("it closed the connection"), Stream(connection, self._read)
        self.up, self._doubt, self._pulses = True, None, list(self.pulses)
        try:
            if self.tells and self._went_at:
                seconds = (now() - self._went_at) / 1e9
                self.engine.hook(Event("reconnected", server=self.server, seconds=seconds))
            # A user without this permission, or an older server, leaves the connection without a name.
            self.send((b"CLIENT", b"SETNAME", self.engine.called.encode()), ignore)
            self.send((b"CLIENT", b"SETINFO", b"LIB-NAME", b"rlock-client"), ignore)
            self.send((b"CLIENT", b"SETINFO", b"LIB-VER", __version__.encode()), ignore)
            self.came()
            self.beat()
            raise await self.stream.over
        except Exception as error:
            why.__cause__ = error
            why = self._doubt or why
        finally:
            self.up = False
            self.beat()
            self.trouble = why
            waiting, self._waiting, self._outbox = self._waiting, deque(), []
            if self._alarm is not None:
                self._alarm.cancel()
                self._alarm = None
            for sent in waiting:
                sent.receive(Failed("unanswered", why), sent.at)
            self._gone(why)
            self.went()
            with contextlib.suppress(Exception):
                await connection.disconnect()

    def _read(self, value: Any) -> None:
        kind = value[0] if isinstance(value, list) and value else None
        if kind in (b"message", b"smessage"):
            self.message(value[2])
        elif kind == b"sunsubscribe":
            self.drop(self.place.silent("the slot of its channel has moved"))
        elif self._waiting:
            sent = self._waiting.popleft()
            sent.receive(value, sent.at)
        else:
            self.drop(self.place.silent(f"a reply that nobody asked for: {value!r}"))


def ignore(*_: object) -> None: ...


class PrimaryLink(Link):
    """A link to a server that says it is the primary, at the address or by Sentinels; in a cluster, to any node."""

    async def open(self, within: float) -> Any:
        engine, began = self.engine, now()
        if engine.sentinels is not None:
            self.place = await engine.sentinels.primary(within / 2)
        try:
            connection = await self.place.open(within - (now() - began) / 1e9, primary=not engine.endpoint.cluster)
        except Unreachable as error:
            engine.reached |= error.replica
            raise
        engine.reached = True
        return connection


class Commands(PrimaryLink):
    """The link for the commands of locks. Sessions end with its connection."""

    looks = True  # whether this user may ask for the holder's lease (PTTL)
    surveys = True  # whether this user may ask for the slots of a cluster

    def __init__(self, engine: Engine, address: Address) -> None:
        self.address, self.used_at = address, 0
        self.subscription: Subscription | None = None
        super().__init__(engine, engine.endpoint.at(address))

    def users(self) -> list[Acquisition]:
        return [one for one in self.engine.acquisitions.values() if one.link is self]

    def listen(self) -> None:
        """Opens the link for messages, or subscribes again after a refusal."""
        if self.subscription is None:
            self.subscription = Subscription(self)
        elif self.subscription.hearing == "no" and self.subscription.up:
            self.subscription.came()

    def came(self) -> None:
        self.looks = self.surveys = True
        if self.engine.ending:
            return
        # Renewals first, since their locks have a deadline.
        for one in sorted(self.users(), key=lambda one: one.machine.phase != "held"):
            if not one.waits:
                self.engine.match(one)
        subscription = self.subscription
        if subscription is not None and subscription.hearing in ("heard", "sure"):
            subscription.count()
        self.engine.survey()

    def went(self) -> None:
        engine = self.engine
        for one in list(engine.acquisitions.values()):
            if one.link is self:
                engine.match(one)
            elif one.tied is self and one.spec.plan.grace:
                engine.give(one, one.machine.link_down)
        if engine.endpoint.cluster and not engine.ending:
            if self.address == engine.endpoint.seeds[0]:
                engine.endpoint.seeds.append(engine.endpoint.seeds.pop(0))
            engine.survey()
            for one in self.users():
                engine.follow(one)

    def grace(self) -> int:
        return min((grace for grace, count in self.engine.graces.items() if grace and count), default=NO_GRACE)

    def lives(self, value: Any, sent_at: int) -> None:
        if is_replica(value) and not self.engine.endpoint.cluster:
            self.engine.leave(self.place.demoted())
            return
        for one in list(self.engine.acquisitions.values()):
            if one.tied is self and one.spec.plan.grace:
                self.engine.give(one, one.machine.alive, sent_at)


class Subscription(PrimaryLink):
    """The link for the messages to waiters, to the server of a link for commands."""

    # no: not subscribed; unmapped: no slot of the server is known; asking: SUBSCRIBE is under way; heard: a server has
    # confirmed it; sure: this server is that of the commands, which makes the grants.
    hearing = "no"

    def __init__(self, commands: Commands) -> None:
        self.commands, self.channel = commands, b""
        super().__init__(commands.engine, commands.engine.endpoint.at(commands.address))

    def users(self) -> list[Acquisition]:
        return [one for one in self.commands.users() if one.waits]

    def came(self) -> None:
        # A new channel for each connection, since an old half-open one must not count as the receiver.
        engine, tag = self.engine, ""
        if engine.endpoint.cluster:
            number = engine.tag(self.commands.address)
            if number is None and self.commands.surveys:
                self.hearing = "unmapped"
                return
            tag = f":{{{number or 0}}}"
        self.channel = f"rlock:grants:{engine.random}:{next(engine.numbers)}{tag}".encode()
        self.hearing = "asking"
        subscribe = (b"SSUBSCRIBE" if tag else b"SUBSCRIBE", self.channel)
        # RESP 2 allows few commands on a subscribed connection, and a user may have permission for one of these only.
        self._pulses = [(b"PING",), subscribe]
        self.send(subscribe, self._subscribed)

    def went(self) -> None:
        self.hearing = "no"
        self._match()

    def _match(self) -> None:
        for one in self.users():
            self.engine.match(one)

    def _subscribed(self, value: Any, sent_at: int) -> None:
        if isinstance(value, Exception):
            self._unheard(value)
        elif not isinstance(value, Failed):
            self.count()

    def count(self) -> None:
        """Asks the server of the commands if it has the subscription. In a cluster, the common address proves it."""
        self.hearing = "heard"
        if self.engine.endpoint.cluster:
            self._sure()
        else:
            self.commands.send((b"PUBSUB", b"NUMSUB", self.channel), self._counted)

    def _counted(self, value: Any, sent_at: int) -> None:
        if isinstance(value, Exception):
            self._unheard(value)
        elif isinstance(value, Failed) or self.hearing != "heard" or value[0] != self.channel:
            return
        elif value[1] == 0:
            self.drop(self.place.silent("the subscription is on another server"))
        else:
            self._sure()

    def _sure(self) -> None:
        self.hearing = "sure"
        self._match()

    def _unheard(self, error: Exception) -> None:
        """Ends the waits of a user without permission to subscribe. The next wait tries again, as rules may change."""
        _, _, refused = self.engine.refusal(error, self.commands)
        self.hearing = "no"
        if refused.failure == "passing":
            self.drop(refused.error)  # the next connection subscribes again
            return
        for one in self.users():
            self.engine.give(one, one.machine.cancel, refused.error)

    def message(self, payload: bytes) -> None:
        engine, message = self.engine, parse(payload)
        one = engine.acquisitions.get(message.claim) if message else None
        if message is None:
            return
        if one is not None:
            # A message on a connection that is being closed may be older than a fail-over.
            current = self.hearing == "sure" and self.trusted and self.commands.trusted and one.link is self.commands
            engine.give(one, one.machine.message, message.word, message.token, message.lease, current)
        elif message.word == "granted" and engine.may_release(message.claim):
            # The server has granted a repeated request of an acquisition that has ended.
            self.commands.send(release_of(message.claim), ignore)
