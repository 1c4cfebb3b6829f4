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
from typing import Any, Concatenate, ParamSpec, TypeVar

from . import _machine as machine
from . import _wire as wire
from ._acquisition import Acquisition
from ._clock import now
from ._endpoint import Endpoint, called
from ._errors import Closed, Denied, Invalid, LockLost, OutcomeUnknown, Timeout, Unreachable
from ._events import Event, Hook
from ._machine import MS, Answer, Failed, Failure, Phase, Send, Tell, Timer
from ._promise import Flag, Promise
from ._router import Router, ignore
from ._wire import Spec

T = TypeVar("T")
P = ParamSpec("P")
NAP = 1.0  # timers stand still in suspend: while locks are held, the deadlines are looked at so often
BLOCKS_END = 250 * MS  # the time that blocks have, after a close, to end and release their locks
engines: weakref.WeakSet[Engine] = weakref.WeakSet()
inherited: list[Any] = []


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
        self.acquisitions: dict[tuple[bytes, bytes], Acquisition] = {}
        channel = f"rlock:grants:{self.random}".encode()
        self.router = Router(
            self.endpoint, self.response, self.called, channel, self.hook, self.acquisitions, self._input
        )
        self._numbers = itertools.count(1)
        self._start = threading.RLock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._first, self._ready = [True], Flag()
        self._tasks: set[asyncio.Task[None]] = set()
        self._nap: asyncio.TimerHandle | None = None
        self._end_by = self._blocks_end_by = 0
        self._ended: Promise[None] = Promise()

    def after_fork(self) -> None:
        """In the child: the parent still holds the locks, and its connections must be neither used nor shut down."""
        # Finalizers of these would act on what the parent shares.
        inherited.append((self._loop, self._thread, self.router, self.acquisitions, self._tasks))
        null = os.open(os.devnull, os.O_RDWR)
        for link in self.router.all():
            if link.descriptor >= 0:
                # In its place, since the parent's objects still own the number.
                os.dup2(null, link.descriptor)
        os.close(null)
        for one in self.acquisitions.values():
            one.why, one.lost = "forked", Flag()
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
                # A signal handler may do the same in between: the first thread stays.
                threading.Thread(target=self._run, args=(self._ready,), name="rlock-client", daemon=True).start()
                self._ready.wait()
            assert self._loop is not None
            self._loop.call_soon_threadsafe(lambda: work(*arguments, **named))

    def acquire(self, spec: Spec, wait: int | None, owner: bytes = b"") -> Acquisition:
        if self.pid != os.getpid():
            self.after_fork()
        owner = owner or f"{self.called}:{self.random}:{next(self._numbers)}".encode()
        return Acquisition(spec, owner, wait, self.response)

    def begin(self, one: Acquisition) -> Promise[int]:
        self.post(self._begin, one)
        return one.acquired

    def drop(self, one: Acquisition, guard: int = 0) -> bool:
        """A guard has ended: whether it was the last of its hold. For finalizers too: it does not block."""
        holds = one.end_guard(guard)
        loop = self._loop
        if loop is not None and one.pid == os.getpid():
            try:  # noqa: SIM105, a signal has less to interrupt
                loop.call_soon_threadsafe(self._drop, one, holds)
            except RuntimeError:
                pass  # the engine has ended
        return holds == 0

    def call(self, work: Callable[P, Coroutine[Any, Any, T]], *arguments: P.args, **named: P.kwargs) -> Promise[T]:
        """Runs a coroutine in the engine's loop."""
        promise: Promise[T] = Promise()

        async def run() -> None:
            try:
                promise.settle(await work(*arguments, **named))
            except BaseException as error:
                promise.settle(error=Closed() if isinstance(error, asyncio.CancelledError) else error)

        def begin() -> None:
            task = asyncio.get_running_loop().create_task(run())
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

        self.post(begin)
        return promise

    def begin_close(self, timeout: int) -> Promise[None]:
        """Ends all waits, marks held locks as lost, and ends the thread. Sends releases for at most this time."""
        if threading.current_thread() is self._thread:
            raise Invalid("a receiver of events must not close the client; let another thread do it")
        with self._start:
            self.closed = True
            if self._loop is None or self.pid != os.getpid():
                self._ended.settle()
                return self._ended
            with contextlib.suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._close, now() + timeout)
            return self._ended

    def close(self, timeout: int) -> None:
        self.begin_close(timeout).result()
        self.join()

    def join(self) -> None:
        """The thread is at its end."""
        if self._thread is not None:
            self._thread.join()

    # In the engine's thread.

    def _run(self, ready: Flag) -> None:
        try:
            self._first.pop()
        except IndexError:
            return
        loop = asyncio.new_event_loop()
        self._thread, self._stop = threading.current_thread(), asyncio.Event()
        self._loop = loop
        ready.set()
        if self.closed:
            self._stop.set()
        try:
            loop.run_until_complete(self._serve())
        finally:
            self.closed = True
            for one in list(self.acquisitions.values()):
                one.acquired.settle(error=Closed())
                one.released.settle(error=OutcomeUnknown(lock=one.spec.lock))
            loop.close()
            self._ended.settle()

    async def _serve(self) -> None:
        await self._stop.wait()
        self.router.closing = True
        await asyncio.gather(*(link.close() for link in self.router.all()))
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _close(self, by: int) -> None:
        for one in list(self.acquisitions.values()):
            self._input(one, one.machine.cancel, Closed())
            self._input(one, one.machine.lose, "closed")
        self._end_by, self._blocks_end_by = by, min(by, now() + BLOCKS_END)
        self._stop_when_idle()

    def _stop_when_idle(self) -> None:
        phases = {one.machine.phase for one in self.acquisitions.values()}
        end = self._blocks_end_by if phases == {Phase.LOST} else self._end_by
        if not phases or now() >= end:
            self._stop.set()
        else:
            asyncio.get_running_loop().call_later(0.005, self._stop_when_idle)

    def _begin(self, one: Acquisition) -> None:
        self.acquisitions[one.owner, one.spec.mode] = one
        self._look_again()
        one.link = self.router.link_for(one.spec.key)
        ready = one.wait == 0 or self.router.hears()
        if ready and one.link.up:
            self._input(one, one.machine.link_up)
        self._input(one, one.machine.start)

    def _drop(self, one: Acquisition, holds: int) -> None:
        if holds == 0:
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
        one.link, asking = one.asking or self.router.link_for(one.spec.key), one.asking
        if asking is not None:
            one.asking = None
            asking.send((b"ASKING",), ignore)

        def receive(value: Any, sent_at: int) -> None:
            answer = self._answer(one, send, value)
            self._input(one, one.machine.reply, send.number, sent_at, answer)

        if send.look:
            one.link.send((b"PTTL", one.spec.key), lambda value, sent_at: setattr(one, "holder_lease", value))
        words = wire.words_of(send.command, one.spec, one.owner, send.wait_ms, self.router.channel)
        one.link.send(words, receive, one.within)

    def _answer(self, one: Acquisition, send: Send, value: Any) -> Answer:
        if isinstance(value, Exception):
            one.asking, refused = self.router.refusal(value, one.spec.lock, one.link)
            return refused
        if isinstance(value, Failed):
            return value
        if send.command in ("ENQUEUE", "ACQUIRE"):
            return wire.acquired(value, one.holder_lease)
        return wire.integer(value, f"RLOCK.{send.command}")

    def _tell(self, one: Acquisition, told: Tell) -> None:
        lock, what, at = one.spec.lock, told.what, now()
        waited, held = (at - one.began) / 1e9, (at - one.held_since) / 1e9
        if what == "held":
            one.held_since = at
            one.acquired.settle(told.token)
            self.hook(Event("acquired", lock, waited))
        elif what in ("timeout", "denied", "error"):
            error = told.error or Closed()
            if what == "timeout" and one.wait == 0:
                error = self.router.link_for(one.spec.key).trouble
            elif what != "error":
                error = Timeout(lock=lock, waited=waited) if what == "timeout" else Denied(lock=lock)
                error.__cause__ = told.error
                self.hook(Event("timed_out", lock, waited) if what == "timeout" else Event("denied", lock))
            one.acquired.settle(error=error)
        elif what in ("renewed", "renewal_failed"):
            self.hook(Event("renewed", lock) if what == "renewed" else Event("renewal_failed", lock, error=told.error))
        elif what == "lost" or told.outcome == "lost":
            one.why = why = one.machine.why or "taken"
            one.lost.set()
            for tell in one.on_lost:
                tell()
            one.released.settle(error=LockLost(lock=lock, why=why))
            self.hook(Event("lost", lock, held, why))
        elif what == "ended":
            self.acquisitions.pop((one.owner, one.spec.mode), None)
        elif told.outcome == "ok":
            one.released.settle()
            self.hook(Event("released", lock, held))
        else:
            error = told.error or Unreachable("no reply")
            if told.outcome == "unknown":
                error = OutcomeUnknown(lock=lock)
                error.__cause__ = told.error
            one.released.settle(error=error)

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
            self._look_again()
            # A signal can end a finalizer, or a release before it was posted.
            if one.is_forgotten():
                self._drop(one, 0)
            if one.machine.phase is Phase.HELD and now() >= one.machine.deadline:
                self._input(one, one.machine.tick)

    # Other commands.

    async def ask(self, key: bytes, *words: bytes) -> tuple[Any, int]:
        """The reply to one command, and when it was sent. Asks again where it was surely not carried out."""
        by = now() + self.response
        while True:
            future: asyncio.Future[tuple[Any, int]] = asyncio.get_running_loop().create_future()
            link = self.router.link_for(key)
            link.send(words, lambda *reply, future=future: future.done() or future.set_result(reply))
            value, sent_at = await future
            if isinstance(value, Exception):
                _, value = self.router.refusal(value, Spec(key, 0).lock, link)
            if not isinstance(value, Failed):
                return value, sent_at
            again = value.failure is Failure.PASSING or (
                value.failure is Failure.UNSENT and isinstance(value.error, Unreachable)
            )
            if not again or now() >= by:
                raise value.error
            await asyncio.sleep(0.005)

    async def reenter(self, one: Acquisition) -> tuple[int, int]:
        """One more hold of the same owner: its token, and the number of its guard."""
        number, holds = one.add_guard()
        try:
            if one.spec.permits:
                # The server counts one permit, however many guards there are here.
                one.check()
                return 0, number
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
            self.drop(one, number)
            raise
        return answer.token if isinstance(answer, machine.Granted) else 0, number


def forked() -> None:
    for engine in list(engines):
        engine.after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=forked)
