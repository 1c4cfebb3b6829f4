"""Connections, one for commands and one for messages: connect, send in batches, read, ask for life, again, for ever."""

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
# A connection has at least this time, whatever the lease is: it takes several round trips.
LEAST_TO_CONNECT = 1_000 * MS
NO_GRACE = 2**62

# Takes the reply, the server's error or what became of the command, and when it was sent.
Receiver = Callable[[Any, int], object]


class Sent(NamedTuple):
    """A command that waits for its reply."""

    receive: Receiver
    at: int
    until: int


class Link:
    """A connection to one server, and the next one when it is lost. Lives in the engine's loop.

    Subclasses say who uses it, and what happens when it comes, goes and brings a message.
    """

    # What asks whether the server is there; the next one where it is refused, and nothing after the last.
    pulses: tuple[Words, ...] = (HELLO, (b"PING",))
    tells = True  # the user, of its ends

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
        """The last one that it was connected to, or should be."""
        return str(self.place)

    def came(self) -> None: ...
    def went(self) -> None: ...  # or did not come
    def message(self, payload: bytes) -> None: ...
    def lives(self, value: Any, sent_at: int) -> None: ...

    def users(self) -> list[Acquisition]:
        return []

    async def open(self, within: float) -> Any:
        return await self.place.open(within)

    def grace(self) -> int:
        """The shortest of the sessions that end with it."""
        return NO_GRACE

    def pace(self) -> int:
        """How often it is asked whether it lives."""
        return min(self.engine.response, self.grace() // 4)

    def patience(self, least: int = 0) -> int:
        """For an answer, or the next connection: half the grace of a session, so that both fit into it."""
        return min(max(self.engine.response, least), self.grace() // 2 if self.engine.reached else NO_GRACE)

    def beat(self) -> None:
        """Asks now whether it lives, and then again and again; not while it is down."""
        if self._heart is not None:
            self._heart.cancel()
        if self.up and self._pulses:
            self._heart = self.loop.call_later(self.pace() / 1e9, self.beat)
            self.send(self._pulses[0], self._beaten, self.patience())

    def _beaten(self, value: Any, sent_at: int) -> None:
        if isinstance(value, Exception):
            # What the server refuses is not repeated: it would fill ACL LOG.
            self._pulses.pop(0)
        if not isinstance(value, Failed):
            self.lives(value, sent_at)

    def send(self, words: Words, receive: Receiver, within: int | None = None) -> None:
        """Sends a command; a connection that does not answer it within this time (in ns) is given up."""
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
        """One for all commands, since most are answered long before."""
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
            # The reply may have arrived while this thread stood still.
            self._set_alarm(at + GRACE, partial(self._late, True))
        else:
            self._set_alarm(first, self._late)

    def kept(self) -> Error:
        """Why it does not answer."""
        return self.place.silent("no reply in time") if self.up else self.trouble

    def drop(self, why: Error) -> None:
        """Gives the connection up; another one follows."""
        if self.up:
            self._doubt = self._doubt or why
            self.stream.abort()

    def hurry(self) -> None:
        """Ends the pause before the next attempt to connect."""
        self._again.set()

    async def close(self) -> None:
        # Python 3.10 and 3.11 can lose a cancellation in `wait_for`, which comes to its end at that moment.
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
            # Clients that lost the same server should not come back in step.
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._again.wait(), pause * random.uniform(0.5, 1))
            pause = min(pause * 2, LONGEST_PAUSE, within / 4e9)

    def _fail(self, error: Error) -> None:
        """A wrong password stays wrong, and an address where nothing was ever found may be wrong: waits end."""
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
    """To a server that says it is the primary, wherever its address comes from; in a cluster to any of its nodes."""

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
    """For the commands of locks; sessions end with it."""

    looks = True  # for how long another owner still holds a lock, as far as this user may
    surveys = True  # the slots of a cluster, as far as this user may

    def __init__(self, engine: Engine, address: Address) -> None:
        self.address, self.used_at = address, 0
        self.subscription: Subscription | None = None
        super().__init__(engine, engine.endpoint.at(address))

    def users(self) -> list[Acquisition]:
        return [one for one in self.engine.acquisitions.values() if one.link is self]

    def listen(self) -> None:
        """Sees to it that messages arrive."""
        if self.subscription is None:
            self.subscription = Subscription(self)
        elif self.subscription.hearing == "no" and self.subscription.up:
            self.subscription.came()

    def came(self) -> None:
        self.looks = self.surveys = True
        if self.engine.ending:
            return
        # Renewals first: their locks have a deadline.
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
    """The link for the messages to waiters, at the server of a link for commands."""

    # unmapped: no slot of the server is known; asking; heard: the server has confirmed it; sure: it is the server of
    # the commands, which makes the grants.
    hearing = "no"

    def __init__(self, commands: Commands) -> None:
        self.commands, self.channel = commands, b""
        super().__init__(commands.engine, commands.engine.endpoint.at(commands.address))

    def users(self) -> list[Acquisition]:
        return [one for one in self.commands.users() if one.waits]

    def came(self) -> None:
        # Each connection has a channel of its own: one that is half-open must not count as its receiver.
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
        # All that may be said there, and by a user without more permissions.
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
        """The server of the command link must know the subscription. In a cluster, both have the same address."""
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
        """No messages for this user: waits end. The next one subscribes again, for the rules may have changed."""
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
            # What a connection that is given up still brings may be older than a fail-over.
            current = self.hearing == "sure" and self.trusted and self.commands.trusted and one.link is self.commands
            engine.give(one, one.machine.message, message.word, message.token, message.lease, current)
        elif message.word == "granted" and engine.may_release(message.claim):
            # Of an acquisition that has ended: the server has granted a repeat of its requests.
            self.commands.send(release_of(message.claim), ignore)
