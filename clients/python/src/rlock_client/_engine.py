"""The engine: one thread with an event loop, which keeps the links and carries out what the machines decide."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import secrets
import threading
import weakref
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from typing import Any, Concatenate, ParamSpec, TypeVar

from redis.crc import key_slot

from . import _machine as machine
from . import _wire as wire
from ._clock import now
from ._endpoint import Endpoint, called
from ._errors import Closed, Denied, Error, Invalid, LockLost, OutcomeUnknown, Timeout, Unreachable
from ._events import Event, Hook
from ._link import Link
from ._machine import MS, Answer, Failed, Failure, Machine, Phase, Plan, Send, Tell, Timer, Why
from ._wire import Spec

T = TypeVar("T")
P = ParamSpec("P")
Address = tuple[str, int] | None
NAP = 1.0  # timers stand still in suspend: while locks are held, the deadlines are looked at so often
engines: weakref.WeakSet[Engine] = weakref.WeakSet()
inherited: list[Any] = []


def promise() -> Future[Any]:
    """A future that those who wait for it cannot cancel."""
    future: Future[Any] = Future()
    future.set_running_or_notify_cancel()
    return future


def fail(future: Future[Any], error: BaseException) -> None:
    if not future.done():
        future.set_exception(error)


class Acquisition:
    """One owner, from its first request to its last. It knows no guard: a guard that nobody has must end."""

    def __init__(self, spec: Spec, owner: bytes, wait: int | None, response: int) -> None:
        self.spec, self.owner, self.wait, self.pid = spec, owner, wait, os.getpid()
        # The machine decides under this lock: `check` never sees a deadline that has passed and is moved later.
        self.mutex = threading.RLock()
        self.within = min(response, max(50 * MS, spec.lease // 6))
        self.machine = Machine(Plan(spec.lease, wait, spec.renew, spec.fenced, self.within), up=False)
        self.acquired, self.released = promise(), promise()
        self.lost = threading.Event()
        self.on_lost: list[Callable[[], None]] = []
        self.why: Why | None = None
        self.holds = 1
        self.began, self.held_since = now(), 0
        self.link: Link | None = None
        self.asking: Link | None = None  # where the next command goes, in a cluster whose slot moves
        self.timer: asyncio.TimerHandle | None = None
        self.wake_at: int | None = None
        self.holder_lease: Any = None

    @property
    def waits(self) -> bool:
        return self.wait != 0 and self.machine.phase in machine.WAITING

    def check(self) -> None:
        """Raises LockLost unless the lock is held, by the local clock."""
        if self.pid != os.getpid():
            raise LockLost(lock=self.spec.lock, why="forked")
        with self.mutex:
            held = self.machine.phase is Phase.HELD
            if held and now() < self.machine.deadline:
                return
        raise LockLost(lock=self.spec.lock, why=self.why or ("expired" if held else "released"))


class Engine:
    """Other threads only post to the loop. One per client; the thread starts with the first call."""

    def __init__(self, endpoint: Endpoint, name: str | None, response: int, hook: Hook) -> None:
        self.endpoint, self.name, self.response, self.hook = endpoint, name, response, hook
        self.closed = False
        self._reset()
        engines.add(self)

    def _reset(self) -> None:
        """A new identity, without thread and links: of a new client, and in the child of a fork."""
        self.pid, self.called, self.random = os.getpid(), called(self.name), secrets.token_hex(16)
        self.channel = f"rlock:grants:{self.random}".encode()
        self.acquisitions: dict[tuple[bytes, bytes], Acquisition] = {}
        self.links: dict[Address, Link] = {}
        self.slots: dict[int, Address] = {}
        self.subscription: Link | None = None
        self._hearing = "no"
        self._numbers = itertools.count(1)
        self._start = threading.RLock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._lost_at: dict[Link, int] = {}
        self._nap: asyncio.TimerHandle | None = None
        self._end_by = 0
        self._ended = promise()

    def after_fork(self) -> None:
        """In the child: the parent still holds the locks, and its connections must be neither used nor shut down."""
        # Finalizers of these would act on what the parent shares.
        inherited.append((self._loop, self._thread, self.links, self.subscription, self.acquisitions, self._tasks))
        null = os.open(os.devnull, os.O_RDWR)
        for link in [*self.links.values(), self.subscription]:
            if link is not None and link.descriptor >= 0:
                # In its place, since the parent's objects still own the number.
                os.dup2(null, link.descriptor)
        os.close(null)
        for one in self.acquisitions.values():
            one.why, one.lost = "forked", threading.Event()
            one.lost.set()
        self._reset()

    # In any thread.

    def post(self, work: Callable[P, object], *arguments: P.args, **named: P.kwargs) -> None:
        if self.pid != os.getpid():
            self.after_fork()
        if threading.current_thread() is self._thread:
            raise Invalid("a receiver of events must not use locks; let another thread do it")
        with self._start:
            if self.closed:
                raise Closed
            if self._loop is None:
                ready = threading.Event()
                self._thread = threading.Thread(target=self._run, args=(ready,), name="rlock-client", daemon=True)
                self._thread.start()
                ready.wait()
            assert self._loop is not None
            self._loop.call_soon_threadsafe(lambda: work(*arguments, **named))

    def acquire(self, spec: Spec, wait: int | None, owner: bytes = b"") -> Acquisition:
        if self.pid != os.getpid():
            self.after_fork()
        owner = owner or f"{self.called}:{self.random}:{next(self._numbers)}".encode()
        one = Acquisition(spec, owner, wait, self.response)
        self.post(self._begin, one)
        return one

    def drop(self, one: Acquisition) -> bool:
        """A guard has ended: whether it was the last of its hold. For finalizers too: it does not block."""
        with one.mutex:
            one.holds -= 1
            holds = one.holds
        loop = self._loop
        if loop is not None and one.pid == os.getpid():
            # Without the loop, the engine has ended.
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(self._drop, one, holds)
        return holds <= 0

    def call(self, work: Callable[P, Coroutine[Any, Any, T]], *arguments: P.args, **named: P.kwargs) -> Future[T]:
        """Runs a coroutine in the engine's loop; whoever waits for it cannot cancel it."""
        future = promise()

        async def run() -> None:
            try:
                future.set_result(await work(*arguments, **named))
            except BaseException as error:
                fail(future, Closed() if isinstance(error, asyncio.CancelledError) else error)

        def begin() -> None:
            task = asyncio.get_running_loop().create_task(run())
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

        self.post(begin)
        return future

    def begin_close(self, timeout: int) -> Future[None]:
        """Ends all waits, marks held locks as lost, and ends the thread. Sends releases for at most this time."""
        if threading.current_thread() is self._thread:
            raise Invalid("a receiver of events must not close the client; let another thread do it")
        with self._start:
            self.closed = True
            if self._loop is None or self.pid != os.getpid():
                nothing = promise()
                nothing.set_result(None)
                return nothing
            with contextlib.suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._close, now() + timeout)
            return self._ended

    def close(self, timeout: int) -> None:
        self.begin_close(timeout).result()
        if self._thread is not None:
            self._thread.join()

    # In the engine's thread.

    def _run(self, ready: threading.Event) -> None:
        loop = asyncio.new_event_loop()
        self._loop, self._stop = loop, asyncio.Event()
        loop.call_soon(ready.set)
        try:
            loop.run_until_complete(self._serve())
        finally:
            self.closed = True
            for one in list(self.acquisitions.values()):
                fail(one.acquired, Closed())
                fail(one.released, OutcomeUnknown(lock=one.spec.lock))
            loop.close()
            self._ended.set_result(None)

    async def _serve(self) -> None:
        await self._stop.wait()
        links = [*self.links.values(), self.subscription]
        await asyncio.gather(*(link.close() for link in links if link is not None))
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _close(self, by: int) -> None:
        for one in list(self.acquisitions.values()):
            self._input(one, one.machine.cancel, Closed())
            self._input(one, one.machine.lose, "closed")
        self._end_by = by
        self._stop_when_idle()

    def _stop_when_idle(self) -> None:
        busy = any(one.machine.phase is not Phase.LOST for one in self.acquisitions.values())
        if not busy or now() >= self._end_by:
            self._stop.set()
        else:
            asyncio.get_running_loop().call_later(0.005, self._stop_when_idle)

    def _begin(self, one: Acquisition) -> None:
        self.acquisitions[one.owner, one.spec.mode] = one
        one.link = self._link_for(one.spec.key)
        ready = one.wait == 0 or self._hears()
        if ready and one.link.up:
            self._input(one, one.machine.link_up)
        self._input(one, one.machine.start)

    def _drop(self, one: Acquisition, holds: int) -> None:
        if holds <= 0:
            self._input(one, one.machine.cancel, None)
            self._input(one, one.machine.release)
        elif one.link is not None and one.machine.phase is Phase.HELD:
            # A courtesy: the last guard releases them all.
            one.link.send(wire.release(one.spec, one.owner, holds), ignore)

    def _input(
        self,
        one: Acquisition,
        take: Callable[Concatenate[int, P], list[machine.Output]],
        *arguments: P.args,
        **named: P.kwargs,
    ) -> None:
        with one.mutex:
            outputs = take(now(), *arguments, **named)
            one.why = one.machine.why or one.why
        for output in outputs:
            if isinstance(output, Send):
                self._send(one, output)
            elif isinstance(output, Timer):
                one.wake_at = output.at
            else:
                self._tell(one, output)
        self._set_timer(one)
        if one.machine.down and not one.waits and one.link is not None and one.link.up:
            # It only lacked the subscription, which it needs no more.
            self._input(one, one.machine.link_up)

    def _send(self, one: Acquisition, send: Send) -> None:
        one.link, asking = one.asking or self._link_for(one.spec.key), one.asking
        if asking is not None:
            one.asking = None
            asking.send((b"ASKING",), ignore)

        def receive(value: Any, sent_at: int) -> None:
            answer = self._answer(one, send, value)
            self._input(one, one.machine.reply, send.number, sent_at, answer)

        if send.look:
            one.link.send((b"PTTL", one.spec.key), lambda value, sent_at: setattr(one, "holder_lease", value))
        words = wire.words_of(send.command, one.spec, one.owner, send.wait_ms, self.channel)
        one.link.send(words, receive, one.within)

    def _answer(self, one: Acquisition, send: Send, value: Any) -> Answer:
        if isinstance(value, Exception):
            redirected = self._redirected(value)
            if redirected is not None:
                one.asking = redirected
            return self._refusal(value, one.spec.lock, one.link)
        if isinstance(value, Failed):
            return value
        if send.command in ("ENQUEUE", "ACQUIRE"):
            return wire.acquired(value, one.holder_lease)
        return wire.integer(value, f"RLOCK.{send.command}")

    def _redirected(self, error: Exception) -> Link | None:
        """Where a cluster sends the next command, unless it is all commands of the slot."""
        code, text = wire.code_and_text(error)
        if not self.endpoint.cluster or code not in ("MOVED", "ASK"):
            return None
        _, slot, place = text.split(" ")[:3]
        host, _, port = place.rpartition(":")
        if code == "ASK":
            return self._link((host, int(port)))
        self.slots[int(slot)] = (host, int(port))
        return None

    def _refusal(self, error: Exception, lock: str, link: Link | None) -> Failed:
        if self.endpoint.follows and link is not None and wire.code_and_text(error)[0] == "READONLY":
            link.drop("the server is no longer a primary")
        return wire.refusal(error, lock, self.endpoint.follows)

    def _tell(self, one: Acquisition, told: Tell) -> None:
        lock, what, at = one.spec.lock, told.what, now()
        waited, held = (at - one.began) / 1e9, (at - one.held_since) / 1e9
        if what == "held":
            one.held_since = at
            one.acquired.set_result(told.token)
            self._look_again()
            self.hook(Event("acquired", lock, waited))
        elif what in ("timeout", "denied", "error"):
            error = told.error or Closed()
            if what == "timeout" and one.wait == 0:
                error = self._link_for(one.spec.key).trouble
            elif what != "error":
                error = Timeout(lock=lock, waited=waited) if what == "timeout" else Denied(lock=lock)
                error.__cause__ = told.error
                self.hook(Event("timed_out", lock, waited) if what == "timeout" else Event("denied", lock))
            one.acquired.set_exception(error)
        elif what in ("renewed", "renewal_failed"):
            self.hook(Event("renewed", lock) if what == "renewed" else Event("renewal_failed", lock, error=told.error))
        elif what == "lost" or told.outcome == "lost":
            one.why = why = one.machine.why or "taken"
            one.lost.set()
            for tell in one.on_lost:
                tell()
            fail(one.released, LockLost(lock=lock, why=why))
            self.hook(Event("lost", lock, held, why))
        elif what == "ended":
            self.acquisitions.pop((one.owner, one.spec.mode), None)
        elif told.outcome == "ok":
            one.released.set_result(None)
            self.hook(Event("released", lock, held))
        else:
            error = told.error or Unreachable("no reply")
            if told.outcome == "unknown":
                error = OutcomeUnknown(lock=lock)
                error.__cause__ = told.error
            fail(one.released, error)

    # Timers.

    def _set_timer(self, one: Acquisition) -> None:
        if one.timer is not None:
            one.timer.cancel()
        one.timer, at = None, one.wake_at
        if at is None:
            return
        if one.machine.phase is Phase.HELD and at < one.machine.deadline:
            # Renewals that are due at nearly the same time go in one piece.
            early = at - at % max(1, min(machine.WINDOW, one.spec.lease // 30))
            at = early if early > now() else at
        delay = max(0, at - now()) / 1e9
        one.timer = asyncio.get_running_loop().call_later(delay, self._input, one, one.machine.tick)

    def _look_again(self) -> None:
        if self._nap is None:
            self._nap = asyncio.get_running_loop().call_later(NAP, self._look)

    def _look(self) -> None:
        self._nap = None
        for one in list(self.acquisitions.values()):
            if one.machine.phase is Phase.HELD:
                self._look_again()
                if now() >= one.machine.deadline:
                    self._input(one, one.machine.tick)

    # Links.

    def _link(self, address: Address) -> Link:
        if address not in self.links:
            self.links[address] = Link(
                lambda: self.endpoint.connect(self.response / 1e9, address),
                self.response,
                self.called,
                follows=self.endpoint.follows,
                up=self._up,
                down=self._down,
                refused=self._refused,
            )
        return self.links[address]

    def _link_for(self, key: bytes) -> Link:
        if not self.endpoint.cluster:
            return self._link(None)
        return self._link(self.slots.get(key_slot(key)) or self.endpoint.seeds[0])

    def _up(self, link: Link) -> None:
        self._restored(link)
        # Renewals first: their locks have a deadline.
        ones = sorted(self.acquisitions.values(), key=lambda one: one.machine.phase is not Phase.HELD)
        for one in ones:
            if not one.waits and self._link_for(one.spec.key) is link:
                self._input(one, one.machine.link_up)
        if self._hearing in ("yes", "sure"):
            self._count()

    def _down(self, link: Link, error: Error) -> None:
        self._broke(link, error)
        for one in list(self.acquisitions.values()):
            if one.link is link:
                self._input(one, one.machine.link_down)
        self._elsewhere(link)

    def _restored(self, link: Link) -> None:
        lost_at = self._lost_at.pop(link, None)
        if lost_at is not None:
            self.hook(Event("reconnected", server=str(self.endpoint), seconds=(now() - lost_at) / 1e9))

    def _broke(self, link: Link, error: Error) -> None:
        if not self._stop.is_set():
            self._lost_at[link] = now()
            self.hook(Event("disconnected", server=str(self.endpoint), error=error))

    def _elsewhere(self, link: Link) -> None:
        """In a cluster, the slots of a server that is gone are asked for at another one."""
        if not self.endpoint.cluster:
            return
        gone = next(address for address, one in self.links.items() if one is link)
        self.slots = {slot: address for slot, address in self.slots.items() if address != gone}
        if gone == self.endpoint.seeds[0]:
            others = [address for address in [*self.endpoint.seeds[1:], *self.links] if address not in (None, gone)]
            self.endpoint.seeds = list(dict.fromkeys([*others, gone]))
        for one in list(self.acquisitions.values()):
            if one.link is link and self._link_for(one.spec.key).up:
                self._input(one, one.machine.link_up)

    def _refused(self, link: Link, error: Error) -> None:
        """No connection. A wrong password stays wrong, and an address where nothing was ever found may be wrong."""
        self._elsewhere(link) if link is not self.subscription else None
        if isinstance(error, Unreachable) and (link.connected_once or self.endpoint.cluster):
            return
        for one in list(self.acquisitions.values()):
            if one.link is link or (link is self.subscription and one.waits):
                self._input(one, one.machine.cancel, error)

    # Messages.

    def _hears(self) -> bool:
        """Whether messages arrive. Subscribes before the first wait."""
        if self.subscription is None:
            self.subscription = Link(
                lambda: self.endpoint.connect(self.response / 1e9),
                self.response,
                self.called,
                follows=self.endpoint.follows,
                up=self._subscribe,
                down=self._unsubscribed,
                refused=self._refused,
                message=self._message,
            )
        elif self._hearing == "no" and self.subscription.up:
            self._subscribe(self.subscription)
        return self._hearing == "sure"

    def _subscribe(self, link: Link) -> None:
        self._restored(link)
        self._hearing = "asking"

        def receive(value: Any, sent_at: int) -> None:
            if isinstance(value, Exception):
                self._unheard(value)
            elif not isinstance(value, Failed):
                self._hearing = "yes"
                self._count()

        link.send((b"SUBSCRIBE", self.channel), receive)

    def _count(self) -> None:
        """The server of the command link must know the subscription: that server makes the grants."""
        link = self.subscription

        def receive(value: Any, sent_at: int) -> None:
            if isinstance(value, Exception):
                self._unheard(value)
            elif isinstance(value, Failed) or link is None or self._hearing != "yes":
                return
            elif value[1] == 0:
                link.drop("the subscription is on another server")
            else:
                self._hearing = "sure"
                for one in [one for one in self.acquisitions.values() if one.waits]:
                    self._input(one, one.machine.link_up)

        self._hearing = "yes"
        self._link(None).send((b"PUBSUB", b"NUMSUB", self.channel), receive)

    def _unsubscribed(self, link: Link, error: Error) -> None:
        self._hearing = "no"
        self._broke(link, error)

    def _unheard(self, error: Exception) -> None:
        """No messages for this user: waits end. The next one subscribes again, for the rules may have changed."""
        self._hearing = "no"
        for one in [one for one in self.acquisitions.values() if one.waits]:
            self._input(one, one.machine.cancel, wire.refusal(error).error)

    def _message(self, payload: bytes) -> None:
        word, whose, token = wire.parse(payload) or ("", (b"", b""), 0)
        one = self.acquisitions.get(whose)
        if one is not None:
            self._input(one, one.machine.message, word, token)

    # Other commands.

    async def ask(self, key: bytes, *words: bytes) -> tuple[Any, int]:
        """The reply to one command, and when it was sent. Asks again where it was surely not carried out."""
        by = now() + self.response
        while True:
            future: asyncio.Future[tuple[Any, int]] = asyncio.get_running_loop().create_future()
            link = self._link_for(key)
            link.send(words, lambda *reply, future=future: future.done() or future.set_result(reply))
            value, sent_at = await future
            if isinstance(value, Exception):
                self._redirected(value)
                value = self._refusal(value, key.decode("utf-8", "backslashreplace"), link)
            if not isinstance(value, Failed):
                return value, sent_at
            again = value.failure is Failure.PASSING or (
                value.failure is Failure.UNSENT and isinstance(value.error, Unreachable)
            )
            if not again or now() >= by:
                raise value.error
            await asyncio.sleep(0.005)

    async def reenter(self, one: Acquisition) -> int:
        """One more hold of the same owner. Returns its token."""
        with one.mutex:
            one.holds += 1
            holds = one.holds
        try:
            value, sent_at = await self.ask(one.spec.key, *wire.acquire(one.spec, one.owner, holds))
            answer = wire.acquired(value)
            if isinstance(answer, Failed):
                raise answer.error
            if isinstance(answer, machine.Granted):
                self._input(one, one.machine.extend, sent_at)
            else:
                self._input(one, one.machine.lose, "taken")
            one.check()
        except BaseException:
            self.drop(one)
            raise
        return answer.token if isinstance(answer, machine.Granted) else 0


def ignore(value: Any, sent_at: int) -> None:
    pass


def forked() -> None:
    for engine in list(engines):
        engine.after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=forked)
