"""The engine: one thread with an event loop, which keeps the links and carries out what the machines decide."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import random
import re
import secrets
import selectors
import socket
import sys
import threading
import weakref
from collections import Counter, deque
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, ParamSpec

from redis.crc import key_slot

from . import _wire as wire
from ._clock import now
from ._endpoint import Address, Endpoint
from ._errors import Closed, Denied, Error, Invalid, LockLost, OutcomeUnknown, Permission, Timeout, Unreachable
from ._events import Event
from ._link import LEAST_TO_CONNECT, Commands, Link, ignore
from ._machine import ELSEWHERE, MS, WAITING, WINDOW, Failed, Granted, Machine, Send, Tell, Waits
from ._promise import Flag, Promise
from ._sentinels import Sentinels
from ._wire import Claim, Spec

P = ParamSpec("P")
Reader = Callable[[Any, int], Any]
NAP = 1.0  # s between two checks of all deadlines, since timers stand still while the machine is suspended
FAR = 1_250 * MS  # a later deadline gets its timer at a later check; most locks are released before
BLOCKS_END = 250 * MS  # how long blocks may take, after a close, to end and release their locks
SETTLES = 250 * MS  # between two redirections, since servers of a cluster can name each other for a slot
KEEP = 60_000 * MS  # how long an unused link to a server without slots is kept, as the server may get slots
KEPT = 1_000  # how many detached and `at_least` holds are remembered, for late messages
engines: weakref.WeakSet[Engine] = weakref.WeakSet()
inherited: list[Any] = []


class Acquisition:
    """The acquisition of a lock by one owner. It keeps no guard alive, since a guard without references must end."""

    def __init__(self, spec: Spec, owner: bytes, limit: int, pid: int) -> None:
        self.spec, self.owner, self.pid = spec, owner, pid
        self.claim = (spec.key, owner, spec.mode)
        # Held while the machine decides, so that `check` reads no deadline that a renewal is just moving.
        self.mutex = threading.RLock()
        # The machine ends a single request after two of its response times, which are the caller's limit together.
        self.machine = Machine(spec.plan._replace(response=limit // 2), up=False)
        self.acquired: Promise[int] = Promise()
        self.released: Promise[None] = Promise()
        self.ended: Promise[None] = Promise()
        self.flags: list[Flag] = []  # set by a loss, those of GuardAll included
        self.on_lost: dict[int, Callable[[], None]] = {}  # called by a loss; the key is the id of a guard
        self.guards: set[weakref.ref[Any]] = set()
        self.level = 1  # how many holds the server has at least, while no re-entry is under way
        self.entry: Promise[int] = self.acquired  # the last re-entry
        self.began, self.held_since = now(), 0
        self.received = self.detached = False  # whether the caller received the lock, or detached it
        self.link: Commands | None = None  # to the server of the lock, as far as it is known
        self.tied: Link | None = None  # the link of the last command that was answered by a place or a hold
        self.followed_at = 0
        self.untied = 0  # the number of the last command that was refused as UNTIED
        self.give_up_at: int | None = None  # when an unanswered release becomes OutcomeUnknown
        self.timer: asyncio.TimerHandle | None = None
        self.timer_at = 0
        self.holder_lease: Any = None

    @property
    def waits(self) -> bool:
        return self.spec.plan.wait != 0 and self.machine.phase in WAITING

    def flag(self, flag: Flag) -> Flag:
        """Registers a flag that a loss sets. After a loss, sets it now."""
        self.flags.append(flag)
        if self.machine.why is not None:
            flag.set()
        return flag

    def is_held(self) -> bool:
        return self.machine.phase == "held" and now() < self.machine.end

    def check(self) -> float:
        """The seconds for which the lock is still held by the local clock. Raises LockLost if it is not."""
        if self.pid != os.getpid():
            raise self.loss("forked")
        with self.mutex:
            at = now()
            held, left = self.machine.phase == "held", self.machine.end - at
        if held and left > 0:
            return left / 1e9
        raise self.loss("released" if not held else "overdue" if self.machine.overdue(at) else "expired")

    def leave(self) -> None:
        """The machine's input after the end of a guard. Needs the mutex, as a named owner can add a guard."""
        if not self.guards:
            machine = self.machine
            (machine.detach if self.detached else machine.release if self.received else machine.abandon)()

    def lose(self, error: LockLost) -> None:
        for flag in self.flags:
            flag.set()
        for tell in list(self.on_lost.values()):
            tell()
        self.released.settle(error=error)

    def loss(self, why: str) -> LockLost:
        return LockLost(lock=self.spec.lock, why=self.machine.why or why, ended=self.machine.ended)


class Waker(int):
    """The number of an eventfd, closed with its last reference. After that, another file can have the number."""

    def __del__(self) -> None:
        os.close(self)


class Selector(selectors.DefaultSelector):
    """Opens gates just before each wait. During the wait, the threads behind the gates can use the interpreter."""

    def __init__(self) -> None:
        super().__init__()
        self.last: deque[Callable[[], object]] = deque()

    def select(self, timeout: float | None = None) -> Any:
        while self.last:
            self.last.popleft()()
        return super().select(timeout)


class Engine:
    """The engine of one client. Its thread starts with the first call. Other threads only post to its loop."""

    def __init__(
        self, endpoint: Endpoint, name: str | None, response: int, limit: int, hook: Callable[[Event], None]
    ) -> None:
        # response: the limit of an answer. limit: that of each call that does not wait for a lock.
        self.endpoint, self.response, self.limit, self.hook = endpoint, response, limit, hook
        self.to_connect = min(limit, LEAST_TO_CONNECT)
        self.name = name or (Path(sys.argv[0]).stem if sys.argv else "")
        self.closed = self.reached = False  # reached: a server was found at the address, even a replica
        self._reset()
        engines.add(self)

    def _reset(self) -> None:
        """Starts a new identity without thread and links, for a new client and in the child of a fork."""
        self.pid, self.random = os.getpid(), secrets.token_hex(16)
        self.called = f"{plain(self.name) or 'rlock-client'}@{plain(socket.gethostname()) or 'localhost'}:{self.pid}"
        self.acquisitions: dict[Claim, Acquisition] = {}
        # Acquisitions of owners that the caller named. Each stays here while it has guards, lost or not.
        self.named: weakref.WeakValueDictionary[Claim, Acquisition] = weakref.WeakValueDictionary()
        self.links: dict[Address, Commands] = {}
        self.slots: dict[int, Address] = {}
        self.sentinels: Sentinels | None = None
        self.numbers = itertools.count(1)
        self.working = False  # whether commands are collected until the end of this step
        self.ending = False  # no new links
        self._kept: deque[Claim] = deque(maxlen=KEPT)
        self._survey_at, self._survey_due = 0, False
        self._closing: deque[asyncio.Task[None]] = deque(maxlen=KEPT)
        self._start = threading.RLock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._inbox: deque[tuple[Callable[..., object], tuple[Any, ...]]] = deque()
        self._wake: Callable[[], object] = int
        self._thread: threading.Thread | None = None
        self._once, self._ready, self._ended = threading.Lock(), Flag(), Promise[None]()
        self._promises: dict[Promise[Any], Error | None] = {}  # with the last error of the server
        self.graces: Counter[int | None] = Counter()
        self._end_by = 0

    def after_fork(self) -> None:
        """Resets the engine in the child of a fork, without an effect on the locks and connections of the parent."""
        # Kept for ever, since their finalizers would act on files that the parent shares.
        inherited.append((self._loop, self._wake, self._thread, self._links(), self.acquisitions))
        null = os.open(os.devnull, os.O_RDWR)
        for link in self._links():
            # A dropped link has no open socket.
            if link.up and (number := link.stream.fileno()) >= 0:
                # Puts another file under the socket's number, which objects of the parent still own.
                os.dup2(null, number)
        os.close(null)
        for one in self.acquisitions.values():
            one.machine.why = "forked"
            for flag in one.flags:
                flag.mark()
        self._reset()

    # In any thread.

    def _check_caller(self) -> None:
        if self.pid != os.getpid():
            self.after_fork()
        if threading.current_thread() is self._thread:
            raise Invalid("a receiver of events must not use locks, or close the client; let another thread do it")

    def post(self, work: Callable[..., object], *arguments: Any) -> None:
        self._check_caller()
        with self._start:
            if self.closed:
                raise Closed
            if self._loop is None:
                # A signal handler may start another thread meanwhile, of which only the first runs the loop.
                threading.Thread(target=self._run, args=(self._ready,), name="rlock-client", daemon=True).start()
                self._ready.wait()
            self._inbox.append((work, arguments))
            self._wake()

    def acquire(self, spec: Spec) -> Acquisition:
        """A new acquisition, or the earlier one of an owner that the caller named, while anything of that is left."""
        self._check_caller()
        if not spec.owner:
            return Acquisition(spec, f"{self.called}:{self.random}:{next(self.numbers)}".encode(), self.limit, self.pid)
        new = Acquisition(spec, spec.owner, self.limit, self.pid)
        with self._start:
            if self.closed:
                raise Closed
            one = self.named.get(new.claim)
            if one is None or (one.machine.phase == "ended" and not (one.machine.why and one.guards)):
                one = self.named[new.claim] = new
        return one

    def turn(self, change: Promise[Any], within: int | None) -> Promise[None]:
        """A promise for the next try of an owner with an earlier acquisition: at `change`, or after `within` ns."""
        turn = self.ask(self._turn, NAP if within is None else min(NAP, within / 1e9))
        change.then(turn.settle)
        return turn

    def drop(self, one: Acquisition) -> None:
        """A guard has ended. This does not block, so finalizers can call it."""
        if self._loop is not None and one.pid == os.getpid():
            try:  # a signal has less to interrupt than in a context manager
                self._inbox.append((self._drop, (one,)))
                self._wake()
            except RuntimeError:
                pass  # the engine has ended

    def ask(self, work: Callable[..., object], *arguments: Any) -> Promise[Any]:
        """A promise that `work` settles in the engine's thread. It is the first argument of `work`."""
        promise: Promise[Any] = Promise()
        self.post(work, promise, *arguments)
        return promise

    def close(self, timeout: int | None = None) -> Promise[None]:
        """Ends all waits, marks held locks as lost, and ends the thread. Sends releases for at most this time (ns)."""
        # A finalizer, which gives no time, may run in the engine's thread.
        if timeout is not None:
            self._check_caller()
        with self._start:
            self.closed, self._end_by = True, now() + (0 if timeout is None else timeout)
            if self._loop is None:
                self._ended.settle()
            else:
                with contextlib.suppress(RuntimeError):
                    self._inbox.append((self._stop.set, ()))
                    self._wake()
        return self._ended

    def join(self) -> None:
        """Waits for the end of the thread."""
        if self._thread is not None:
            self._thread.join()

    # In the engine's thread.

    def _work(self, waker: Waker | None = None) -> None:
        """Does the work that other threads have posted. Flushes its commands at once, since callers wait for them."""
        if waker is not None:
            os.eventfd_read(waker)
        self.working = True
        try:
            for _ in range(len(self._inbox)):
                work, arguments = self._inbox.popleft()
                work(*arguments)
        finally:
            self.working = False
            for link in self._links():
                link.flush()
            if self._inbox:
                self._wake()

    def _run(self, ready: Flag) -> None:
        if not self._once.acquire(blocking=False):
            return
        selector = Selector()
        loop, self._last = asyncio.SelectorEventLoop(selector), selector.last
        self._wake = partial(loop.call_soon_threadsafe, self._work)
        if hasattr(os, "eventfd"):
            # An eventfd takes a fifth of the time of the loop's own wake-up, which reads twice.
            waker = Waker(os.eventfd(0))
            loop.add_reader(waker, self._work, waker)
            self._wake = partial(os.eventfd_write, waker, 1)
        self._thread, self._stop, self._loop = threading.current_thread(), asyncio.Event(), loop
        ready.set()
        try:
            loop.run_until_complete(self._serve())
        finally:
            self.closed = True
            for one in list(self.acquisitions.values()):
                one.acquired.settle(error=Closed())
                one.released.settle(error=OutcomeUnknown(lock=one.spec.lock))
                one.ended.settle()
            for promise in [*self._promises]:
                promise.settle(error=Closed())
            loop.close()
            self._wake = int
            self._ended.settle()

    async def _serve(self) -> None:
        if self.endpoint.sentinels:
            self.sentinels = Sentinels(self)
        self._look()
        if not self.closed:
            await self._stop.wait()
        for one in list(self.acquisitions.values()):
            self.give(one, one.machine.cancel, Closed())
            self.give(one, one.machine.lose, "closed")
        blocks_end_by = now() + BLOCKS_END
        while phases := {one.machine.phase for one in self.acquisitions.values()}:
            if now() >= self._end_by or (phases == {"lost"} and now() >= blocks_end_by):
                break
            await asyncio.sleep(0.005)
        self.ending = True
        await asyncio.gather(*(link.close() for link in self._links()), *self._closing, return_exceptions=True)

    def _look(self) -> None:
        asyncio.get_running_loop().call_later(NAP, self._look)
        if self.sentinels is not None and self.acquisitions:
            self.sentinels.look()
        if any(one.machine.down for one in self.acquisitions.values()):
            self.survey()
        for one in list(self.acquisitions.values()):
            # A signal may have interrupted a finalizer, or a release before it was posted.
            if not one.guards:
                self._drop(one)
            if one.machine.phase == "held" and now() >= one.machine.end:
                self.give(one, one.machine.tick)
            elif one.timer is None:
                self._set_timer(one)
        self._work()

    def own_links(self) -> list[Link]:
        return [*self.links.values(), *(link.subscription for link in self.links.values() if link.subscription)]

    def _links(self) -> list[Link]:
        return self.own_links() + (self.sentinels.links() if self.sentinels else [])

    def leave(self, why: Error) -> None:
        """Drops all links, since their server is not the primary. They ask for its address and resolve it anew."""
        for link in self.own_links():
            link.drop(why)

    def link(self, address: Address) -> Commands:
        link = self.links.get(address) or self.links.setdefault(address, Commands(self, address))
        link.used_at = now()
        return link

    def link_for(self, key: bytes) -> Commands:
        seed = self.endpoint.seeds[0]
        return self.link(self.slots.get(key_slot(key), seed) if self.endpoint.cluster else seed)

    def begin(self, one: Acquisition) -> None:
        grace = one.spec.plan.grace
        self.acquisitions[one.claim] = one
        self.graces[grace] += 1
        if grace and self.graces[grace] == 1:
            for link in self.links.values():
                link.beat()
        one.link = self.link_for(one.spec.key)
        if one.waits:
            one.link.listen()
        one.machine.down = not self._linked(one)
        self.give(one, one.machine.adopt if one.spec.adopts else one.machine.start)

    def _linked(self, one: Acquisition) -> bool:
        """Whether the links are up that the acquisition needs. Only a wait needs the link for messages."""
        link = one.link
        if link is None or not link.up:
            return False
        return not one.waits or (link.subscription is not None and link.subscription.hearing == "sure")

    def match(self, one: Acquisition) -> None:
        """Informs the acquisition's machine if its links went up or down."""
        if (ready := self._linked(one)) == one.machine.down:
            self.give(one, one.machine.link_up if ready else one.machine.link_down)

    def follow(self, one: Acquisition, under_way: int | None = None) -> None:
        """Moves an acquisition to the server that has its lock by now, which for the machine is a new connection.

        `under_way` is the refused command, or None. Does nothing while another command is pending, whose answer will
        redirect it.
        """
        link = self.link_for(one.spec.key)
        if one.machine.pending == under_way and (under_way is not None or link is not one.link):
            one.link = link
            if one.waits:
                link.listen()
            self.give(one, one.machine.link_down)

    def tag(self, address: Address) -> int | None:
        """A hash tag whose slot is at this server of a cluster; None if no slot of the server is known."""
        mine = {slot for slot, at in self.slots.items() if at == address}
        return next((number for number in range(2**18) if mine and key_slot(b"%d" % number) in mine), None)

    def survey(self) -> None:
        """Asks a server of the cluster where the slots are."""
        if not self.endpoint.cluster or self.ending:
            return
        if (early := self._survey_at - now()) > 0:
            if not self._survey_due:
                self._survey_due = True
                asyncio.get_running_loop().call_later(early / 1e9, self.survey)
            return
        self._survey_due = False
        if links := [link for link in self.links.values() if link.up and link.surveys]:
            self._survey_at = now() + SETTLES // 5
            link = random.choice(links)
            link.send((b"CLUSTER", b"SLOTS"), partial(self._surveyed, link))
        else:
            self.link(self.endpoint.seeds[0])

    def _surveyed(self, link: Commands, value: Any, sent_at: int) -> None:
        # A refused command is not repeated, since it would fill ACL LOG.
        link.surveys &= not isinstance(value, Exception)
        if isinstance(value, list) and value:
            self._map(link, value)
        for each in list(self.links.values()):
            if each.subscription is not None and each.subscription.hearing == "unmapped":
                each.subscription.came()

    def _map(self, link: Commands, ranges: list[Any]) -> None:
        slots: dict[int, Address] = {}
        for first, last, (host, port, *_), *_ in ranges:
            at = (str(link.place).rpartition(":")[0] if host in (None, b"", b"?") else host.decode(), int(port))
            slots |= dict.fromkeys(range(first, last + 1), at)
        for address, unused in list(self.links.items()):
            if address not in slots.values() and not unused.users() and unused.used_at + KEEP < now():
                del self.links[address]
                for one in filter(None, (unused, unused.subscription)):
                    self._closing.append(asyncio.get_running_loop().create_task(one.close()))
        if slots == self.slots:
            return
        self.slots, seeds = slots, self.endpoint.seeds
        seeds += [address for address in {*slots.values()} if address not in seeds]
        for each in list(self.acquisitions.values()):
            self.follow(each)

    def kept(self, one: Acquisition) -> Error:
        """The error that says why the server does not answer."""
        link: Link = one.link or self.link_for(one.spec.key)
        deaf = one.link.subscription if one.link and link.up and one.spec.plan.wait != 0 else None
        return (deaf if deaf is not None and not deaf.up else link).kept()

    def _drop(self, one: Acquisition) -> None:
        self.give(one, one.leave)
        if one.machine.phase == "releasing" and one.give_up_at is None and not one.released.is_set():
            one.give_up_at = now() + self.limit
            self._set_timer(one)
        holds = len(one.guards)
        if 0 < holds < one.level and one.entry.is_set() and one.link is not None and one.machine.phase == "held":
            # Optional, since the last guard releases all holds.
            one.level = holds
            one.link.send(wire.release_of(one.claim, holds), ignore)

    def give(self, one: Acquisition, work: Callable[P, None], *arguments: P.args, **named: P.kwargs) -> None:
        """Runs an input of the acquisition's machine, and does what the machine returns."""
        with one.mutex:
            outputs = one.machine.take(now(), work, *arguments, **named)
        for output in outputs:
            if isinstance(output, Send):
                self._send(one, output)
            else:
                self._tell(one, output)
        self._set_timer(one)
        if one.machine.down and self._linked(one):
            # It lacked only the subscription, which it no longer needs, or it has moved to another server.
            self.give(one, one.machine.link_up)

    def _set_timer(self, one: Acquisition) -> None:
        at = one.machine.wake_at
        if one.give_up_at is not None and (at is None or one.give_up_at < at):
            at = one.give_up_at
        if one.timer is not None:
            if at is not None and one.timer_at <= at:
                return  # the timer is due before, and sets the next one
            one.timer.cancel()
            one.timer = None
        if at is None or (left := at - now()) > FAR:
            return
        if one.machine.phase == "held" and at < one.machine.end:
            # Renewals that are due at nearly the same time are sent together.
            at -= min(max(0, left), at % max(1, min(WINDOW, one.spec.plan.lease // 30)))
        one.timer_at, one.timer = at, asyncio.get_running_loop().call_later(max(0, at - now()) / 1e9, self._tick, one)

    def _tick(self, one: Acquisition) -> None:
        one.timer = None
        if one.give_up_at is not None and now() >= one.give_up_at:
            # The release continues until lease end, but its caller waits no longer.
            one.give_up_at = None
            one.released.settle(error=OutcomeUnknown(lock=one.spec.lock, cause=self.kept(one)))
        self.give(one, one.machine.tick)

    def _send(self, one: Acquisition, send: Send, asking: Commands | None = None) -> None:
        """Sends a command of the machine. `asking`: a server that is getting the lock's slot, for this command only."""
        link, queues = asking or one.link or self.link_for(one.spec.key), send.command == "ENQUEUE"

        def receive(value: Any, sent_at: int) -> None:
            if isinstance(value, Exception):
                code, there, value = self.refusal(value, link, one.spec.lock)
                waits = one.machine.pending == send.number
                if there is not None and waits and self._redirect(one, send, code, there):
                    return
                if code == "UNTIED" and waits and link is one.link and one.untied != send.number:
                    one.untied, plain = send.number, send._replace(command="RENEW", keep=True)
                    link.send(wire.words_of(plain, one.spec, one.owner, b""), kept, within)
                    return
            elif value is None and asking is not None and queues:
                value = Failed("passing", Denied(lock=one.spec.lock))  # null to ACQUIRE, sent for ENQUEUE
            answer = value if isinstance(value, Failed) else wire.answer(send.command, value, one.holder_lease)
            # The answer does not count if the acquisition has left its connection before.
            counts = one.machine.pending == send.number or link is one.link
            if counts and (answer == 1 or isinstance(answer, (Granted, Waits))):
                one.tied = link
            self.give(one, one.machine.reply, send.number, sent_at, answer)

        def kept(value: Any, sent_at: int) -> None:
            """Sends the UNTIED command again. The answer shows that its connection is open, so it may tie the hold."""
            if isinstance(value, Failed):
                receive(value, sent_at)
            elif one.machine.pending == send.number and link is one.link:
                self._send(one, send)

        def looked(value: Any, sent_at: int) -> None:
            one.holder_lease = value
            if isinstance(value, Exception):
                # A command without permission is not repeated, since it would fill ACL LOG.
                link.looks &= not isinstance(wire.refusal(value, "").error, Permission)

        within, asked = answered_within(self.response, one.spec.plan.lease), send
        if asking is not None:
            # The command may tie the hold to this server. Until its answer, heartbeats of other servers prove nothing.
            one.machine.tied &= one.tied is asking
            link.send((b"ASKING",), ignore)
            # ACQUIRE for ENQUEUE, since this server sends no grants before it has the slot.
            asked = send._replace(command="ACQUIRE" if queues else send.command)
        elif send.look and link.looks:
            link.send((b"PTTL", one.spec.key), looked)
        channel = link.subscription.channel if link.subscription else b""
        link.send(wire.words_of(asked, one.spec, one.owner, channel), receive, within)

    def _redirect(self, one: Acquisition, send: Send, code: str, there: Commands) -> bool:
        """Sends a refused command to the server of the cluster that has the slot. Returns whether it will be sent."""
        if code == "ASK":
            if there.up:
                self._send(one, send, there)
            return there.up
        if now() < one.followed_at + SETTLES:
            return False
        one.followed_at = now()
        self.follow(one, send.number)
        return True

    def refusal(self, error: Exception, link: Link, lock: str = "") -> tuple[str, Commands | None, Failed]:
        """The code of an error reply, the link to which a cluster redirects the command, and the failure it means."""
        there, (code, *words) = None, wire.text_of(error).split(" ")
        if code == "READONLY" and not self.endpoint.cluster:
            self.leave(link.place.demoted())
        elif self.endpoint.cluster and code in ("MOVED", "ASK", "CLUSTERDOWN", "TRYAGAIN"):
            if code in ("MOVED", "ASK"):
                host, _, port = words[1].rpartition(":")
                there = self.link((host or str(link.place).rpartition(":")[0], int(port)))
            if there is not None and code == "MOVED":
                self.slots[int(words[0])] = there.address
            self.survey()
        elif isinstance(link, Commands) and link.subscription and wire.NOT_SERVED in str(error):
            link.subscription.drop(link.place.silent("the slot of its channel has moved"))
        return code, there, wire.refusal(error, link.server, lock)

    def may_release(self, claim: Claim) -> bool:
        """Whether a late grant may be released: its owner is of this client, and no kept hold has the same claim."""
        return claim[1].startswith(f"{self.called}:{self.random}:".encode()) and claim not in self._kept

    def _tell(self, one: Acquisition, told: Tell) -> None:
        if told.what == "ended":
            if one.machine.kept is not None:
                self._kept.append(one.claim)
            if self.acquisitions.pop(one.claim, None):
                self.graces[one.spec.plan.grace] -= 1
            one.give_up_at = None
            one.ended.settle()
            return
        lock, at, what, error, why = one.spec.lock, now(), told.what, told.error, one.machine.why or ""
        if told.silent and (error is None or isinstance(error, Unreachable)):
            error = self.kept(one)  # the newest reason
        waited, held = (at - one.began) / 1e9, (at - one.held_since) / 1e9
        if what == "acquired":
            one.held_since = at
            one.acquired.settle(told.token, last=self._last)
        elif what == "timed_out":
            one.acquired.settle(error=Timeout(lock=lock, waited=waited, cause=error))
        elif what == "unheld":
            one.acquired.settle(error=LockLost(lock=lock, why="taken"))
        elif what == "denied":
            one.acquired.settle(error=Denied(lock=lock))
        elif what == "error":
            one.acquired.settle(error=error or self.kept(one))
        elif what == "lost" or told.outcome == "lost":
            what = "lost"
            one.lose(LockLost(lock=lock, why=why))
        elif told.outcome == "unknown":
            one.released.settle(error=OutcomeUnknown(lock=lock, cause=error))
        elif what == "released":
            one.released.settle(error=error, last=self._last)
        if what != "error" and what != "unheld" and told.outcome in ("ok", "lost") and one.machine.kept != ELSEWHERE:
            seconds = {"acquired": waited, "timed_out": waited, "released": held, "lost": held}.get(what, 0.0)
            why, error = why if what == "lost" else "", error if what == "renewal_failed" else None
            self.hook(Event(what, lock, seconds, why, error))

    # Other commands.

    def query(self, promise: Promise[Any], words: wire.Words, read: Reader, one: Acquisition | None = None) -> None:
        """Sends a command of a lock, and settles the promise with `read(reply, sent_at)`. `one`: that it re-enters."""
        key, loop = words[1], asyncio.get_running_loop()
        link = self.link_for(key)
        if promise.is_set():
            return
        if one is not None and one.spec.plan.grace and link is not one.link:
            # The session of the hold will be that of this connection, whose heartbeats count from its RENEW on.
            self.follow(one, one.machine.pending)
        if promise not in self._promises:
            self._expect(promise)
            loop.call_later(self.limit / 1e9, self._give_up, promise, key)

        def receive(value: Any, sent_at: int) -> None:
            if isinstance(value, Exception):
                _, _, value = self.refusal(value, link, wire.shown(key))
            try:
                if not isinstance(value, Failed):
                    promise.settle(read(value, sent_at))
                elif value.failure != "passing" or self.closed:
                    promise.settle(error=Closed() if self.closed else value.error)
                elif promise in self._promises:
                    # The server did not run the command.
                    self._promises[promise] = value.error
                    loop.call_later(0.005, self.query, promise, words, read, one)
            except Error as error:
                promise.settle(error=error)

        link.send(words, receive)

    def _expect(self, promise: Promise[Any]) -> None:
        self._promises[promise] = None
        promise.then(partial(self._promises.pop, promise, None))

    def _turn(self, turn: Promise[None], delay: float) -> None:
        self._expect(turn)
        asyncio.get_running_loop().call_later(delay, turn.settle)

    def _give_up(self, promise: Promise[Any], key: bytes) -> None:
        promise.settle(error=self._promises.get(promise) or self.link_for(key).kept())

    def enter(self, promise: Promise[int], one: Acquisition) -> None:
        """Adds a hold of the same owner, and settles the promise with its token.

        Entries wait for each other, since each names the number of holds that it leads to.
        """
        before, one.entry = one.entry, promise

        def enter() -> None:
            if self.closed or one.spec.permits:
                # The server counts one permit, for any number of guards.
                promise.settle(0, Closed() if self.closed else None)
            else:
                # Never the first hold, since a lost lock must not be acquired again unnoticed.
                words = wire.acquire(one.spec, one.owner, one.level + 1)
                self.query(promise, words, partial(self._reentered, one), one)

        before.then(enter)

    def _reentered(self, one: Acquisition, value: Any, sent_at: int) -> int:
        answer = wire.answer("ACQUIRE", value)
        if isinstance(answer, Failed):
            raise answer.error
        if isinstance(answer, Granted):
            one.level = value[0]
            self.give(one, one.machine.extend, sent_at)
        else:
            self.give(one, one.machine.lose, "taken")
        one.check()
        return answer.token if isinstance(answer, Granted) else 0


def answered_within(response: int, lease: int) -> int:
    """How long a lock's command may take: a sixth of the lease, if that is less than the client's limit."""
    return min(response, max(50 * MS, lease // 6))


def plain(word: str) -> str:
    """At most 64 characters of the word. Those with a meaning in commands, channels or owners become `_`."""
    return re.sub(r"[^A-Za-z0-9._-]", "_", word.strip()[:64])


def forked() -> None:
    for engine in list(engines):
        engine.after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=forked)
