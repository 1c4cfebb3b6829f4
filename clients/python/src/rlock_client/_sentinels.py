"""Finds the primary by asking all known Sentinels."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from ._clock import now
from ._endpoint import Endpoint
from ._errors import Error, Permission, Unreachable
from ._link import Link
from ._machine import MS, Failed
from ._wire import Words, pairs, refusal

if TYPE_CHECKING:
    from ._engine import Engine

MOST = 32  # the most Sentinels that are used
# After the first answer the other Sentinels have this time, so that one that hangs delays no caller for longer.
LATE = 250 * MS
SWITCH = b"+switch-master"
# In this order, as the address must not be older than the epoch. In a fail-over, a Sentinel changes the epoch first.
QUESTIONS = (b"MASTER", b"SENTINELS", b"GET-MASTER-ADDR-BY-NAME")

Place = tuple[str, int]


class Answer(NamedTuple):
    epoch: int  # of the configuration
    place: Place | None  # None: the Sentinel does not know the service


class Watch(Link):
    """A connection to one Sentinel. Its time-outs do not depend on the leases and graces of locks."""

    tells = False

    def __init__(self, engine: Engine, sentinels: Sentinels, place: Endpoint) -> None:
        self._sentinels = sentinels
        super().__init__(engine, place)

    def pace(self) -> int:
        return self.engine.limit

    def patience(self, least: int = 0) -> int:
        return self.engine.limit


class Ears(Watch):
    """The connection for the messages of a Sentinel about fail-overs."""

    pulses = ((b"PING",), (b"SUBSCRIBE", SWITCH))

    def came(self) -> None:
        self.send((b"SUBSCRIBE", SWITCH), lambda value, sent_at: None)

    def message(self, payload: bytes) -> None:
        words = payload.decode("utf-8", "replace").split(" ")
        if len(words) == 5 and words[0] == self._sentinels.service and words[4].isdigit():
            self._sentinels.moved((words[3], int(words[4])), self.place)


class Asker(Watch):
    """The connection for questions to a Sentinel, which stays open between them."""

    def __init__(self, engine: Engine, sentinels: Sentinels, place: Endpoint) -> None:
        self._answer: asyncio.Future[Answer] | None = None
        self._refused: set[bytes] = set()
        super().__init__(engine, sentinels, place)

    def ask(self) -> asyncio.Future[Answer]:
        """The Sentinel's answer, or the reason why it does not answer."""
        if self._answer is None or self._answer.done():
            self._answer = self.loop.create_future()
            self._answer.add_done_callback(lambda answer: answer.cancelled() or answer.exception())
            if self.up:
                self._ask()
            else:
                self.hurry()
        return self._answer

    def came(self) -> None:
        self._refused.clear()
        if self._answer is not None and not self._answer.done():
            self._ask()

    def went(self) -> None:
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(self.trouble)

    def _ask(self) -> None:
        replies: dict[bytes, Any] = {}
        for word in QUESTIONS:
            # A refused question is not repeated, since it would fill ACL LOG.
            if word not in self._refused:
                words: Words = (b"SENTINEL", word, self._sentinels.service.encode())
                self.send(words, partial(self._told, replies, word), self.engine.limit)

    def _told(self, replies: dict[bytes, Any], word: bytes, value: Any, sent_at: int) -> None:
        if isinstance(value, Exception):
            refused = refusal(value, self.server).error
            if isinstance(refused, Permission):
                self._refused.add(word)
            replies[word] = refused
        elif isinstance(value, list):
            replies[word] = value
        if word != QUESTIONS[-1] or isinstance(value, Failed) or self._answer is None or self._answer.done():
            return
        address = replies.get(word)
        if isinstance(address, Permission):
            self._answer.set_exception(address)
            return
        for one in replies[b"SENTINELS"] if isinstance(replies.get(b"SENTINELS"), list) else []:
            self._sentinels.add((one := pairs(one))["ip"].decode(), int(one["port"]))
        primary = pairs(replies[b"MASTER"]) if isinstance(replies.get(b"MASTER"), list) else {}
        place = (address[0].decode(), int(address[1])) if isinstance(address, list) else None
        self._answer.set_result(Answer(int(primary.get("config-epoch", 0)), place))


class Sentinels:
    """The Sentinels of the settings, and those that they name."""

    def __init__(self, engine: Engine) -> None:
        self.engine, self.service = engine, engine.endpoint.service
        self.asked: dict[Place, Asker] = {}
        self.heard: list[Ears] = []
        self.believed = Answer(0, None)
        self._search: asyncio.Task[Endpoint] | None = None
        for one in engine.endpoint.sentinels:
            self.add(str(one.settings.get("host", "localhost")), int(one.settings.get("port", 26379)), one)

    def links(self) -> list[Link]:
        return [*self.asked.values(), *self.heard]

    def add(self, host: str, port: int, place: Endpoint | None = None) -> None:
        if (host, port) not in self.asked and len(self.asked) < MOST:
            place = place or self.engine.endpoint.sentinels[0].at((host, port))
            self.asked[host, port] = Asker(self.engine, self, place)
            self.heard.append(Ears(self.engine, self, place))

    def moved(self, place: Place | None, by: Endpoint | str) -> None:
        """Ends the connections to servers other than the primary, which is at `place` by now."""
        primary = str(self.engine.endpoint.at(place))
        for link in self.engine.own_links():
            if link.server != primary:
                text = f"is no longer the primary: the Sentinel {by} names {primary}"
                link.drop(Unreachable(text, server=link.server))

    def look(self) -> None:
        """Asks all Sentinels for the primary. A newer answer ends connections to the old one."""
        for one in self.asked.values():
            one.ask().add_done_callback(partial(self._told, one))

    def _told(self, one: Asker, future: asyncio.Future[Answer]) -> None:
        if not future.cancelled() and future.exception() is None:
            answer = future.result()
            if answer.epoch > self.believed.epoch and answer.place is not None:
                self.moved(answer.place, one.place)
                self.believed = answer

    async def primary(self, within: float) -> Endpoint:
        """The primary, by the Sentinels that answer in `within` seconds. Calls at the same time share one search."""
        if self._search is None or self._search.done():
            self._search = asyncio.get_running_loop().create_task(self._find(within))
        return await asyncio.shield(self._search)

    async def _find(self, within: float) -> Endpoint:
        asked: dict[Asker, asyncio.Future[Answer]] = {}
        end, late = now() + round(within * 1e9), False
        while True:
            asked |= {one: one.ask() for one in self.asked.values() if one not in asked}
            waiting = [future for future in asked.values() if not future.done()]
            if not waiting or now() >= end:
                return self._choose(asked)
            await asyncio.wait(waiting, timeout=(end - now()) / 1e9, return_when=asyncio.FIRST_COMPLETED)
            done = [one.result() for one in asked.values() if one.done() and one.exception() is None]
            # Only an answer with the known configuration, or a newer one, shortens the time for the others.
            if not late and any(answer.epoch >= self.believed.epoch for answer in done):
                late, end = True, min(end, now() + LATE)

    def _choose(self, asked: dict[Asker, asyncio.Future[Answer]]) -> Endpoint:
        done = {one: future for one, future in asked.items() if future.done()}
        answers = {one: future.result() for one, future in done.items() if future.exception() is None}
        named = [answer for answer in answers.values() if answer.place is not None]
        if not named:
            raise self._trouble(asked, len(answers))
        self.engine.reached = True
        best = max(named, key=lambda answer: (answer.epoch, named.count(answer)))
        by = next(one.server for one, answer in answers.items() if answer == best)
        primary = self.engine.endpoint.at(best.place, f" (named by the Sentinel {by})")
        # A lower epoch is that of a Sentinel that was cut off, or of new Sentinels, which count if most answer.
        if best.epoch < self.believed.epoch and 2 * len(answers) <= len(asked):
            raise Unreachable(f"is the primary of an earlier time{primary.by}", server=str(primary))
        self.believed = best
        # The other connection of the client may still be to the old primary.
        self.moved(best.place, by)
        return primary

    def _trouble(self, asked: dict[Asker, asyncio.Future[Answer]], answers: int) -> Error:
        errors = [error for future in asked.values() if future.done() and (error := future.exception())]
        denied = [error for error in errors if isinstance(error, Permission)]
        if denied and len(denied) == len(asked):
            return denied[0]
        servers = ", ".join(one.server for one in [*asked][:3])
        if answers:
            return Unreachable(f"is unknown to the Sentinels {servers}", server=self.service)
        why = str(errors[0]).partition(";")[0] if errors else f"{servers}: no reply in time"
        return Unreachable(f"is unknown: no Sentinel answers ({why})", server=self.service)
