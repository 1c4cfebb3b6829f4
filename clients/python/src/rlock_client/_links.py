"""The two kinds of links of an engine."""

from __future__ import annotations

from typing import Any

from ._acquisition import Acquisition
from ._link import Link
from ._machine import Failed
from ._wire import parse, refusal


class Commands(Link):
    """For the commands of locks; sessions end with it."""

    def users(self) -> list[Acquisition]:
        return [one for one in self.engine.acquisitions.values() if one.link is self]

    def came(self) -> None:
        if self.engine.endpoint.sentinels:
            # A server may be demoted without a word to its clients.
            self.pulse = b"ROLE"
        # Renewals first: their locks have a deadline.
        for one in sorted(self.engine.acquisitions.values(), key=lambda one: one.machine.phase != "held"):
            if not one.waits and self.engine.link_for(one.spec.key) is self:
                self.engine.give(one, one.machine.link_up)
        subscription = self.engine.subscription
        if subscription is not None and subscription.hearing in ("heard", "sure"):
            subscription.count()

    def went(self) -> None:
        """In a cluster, the slots of a server that is gone are asked for at another one."""
        engine, seeds = self.engine, self.engine.endpoint.seeds
        engine.slots = {slot: address for slot, address in engine.slots.items() if address != self.address}
        if self.address == seeds[0]:
            seeds.append(seeds.pop(0))
        for one in self.users():
            engine.give(one, one.machine.link_down)
            if engine.link_for(one.spec.key).up:
                engine.give(one, one.machine.link_up)

    def pace(self) -> int:
        """Four times in the shortest grace of a session."""
        return min([super().pace(), *(grace // 4 for grace, count in self.engine.graces.items() if count)])

    def lives(self, value: Any, sent_at: int) -> None:
        if isinstance(value, list) and value[0] != b"master":
            self.drop("the server is no longer a primary")
        elif not isinstance(value, Failed):
            for one in list(self.engine.acquisitions.values()):
                if one.tied is self and one.spec.plan.grace:
                    self.engine.give(one, one.machine.alive, sent_at)


class Subscription(Link):
    """For the messages to waiters."""

    hearing = "no"  # asking, heard: the server has confirmed it, sure: so has that of the commands

    def users(self) -> list[Acquisition]:
        return [one for one in self.engine.acquisitions.values() if one.waits]

    def came(self) -> None:
        self.hearing = "asking"
        self.send((b"SUBSCRIBE", self.engine.channel), self._subscribed)

    def went(self) -> None:
        self.hearing = "no"

    def _subscribed(self, value: Any, sent_at: int) -> None:
        if isinstance(value, Exception):
            self._unheard(value)
        elif not isinstance(value, Failed):
            self.count()

    def count(self) -> None:
        """The server of the command link must know the subscription: that server makes the grants."""
        self.hearing = "heard"
        self.engine.link(None).send((b"PUBSUB", b"NUMSUB", self.engine.channel), self._counted)

    def _counted(self, value: Any, sent_at: int) -> None:
        if isinstance(value, Exception):
            self._unheard(value)
        elif isinstance(value, Failed) or self.hearing != "heard":
            return
        elif value[1] == 0:
            self.drop("the subscription is on another server")
        else:
            self.hearing = "sure"
            for one in self.users():
                self.engine.give(one, one.machine.link_up)

    def _unheard(self, error: Exception) -> None:
        """No messages for this user: waits end. The next one subscribes again, for the rules may have changed."""
        self.hearing = "no"
        for one in self.users():
            self.engine.give(one, one.machine.cancel, refusal(error).error)

    def message(self, payload: bytes) -> None:
        word, whose, token = parse(payload) or ("", (b"", b""), 0)
        one = self.engine.acquisitions.get(whose)
        if one is not None:
            self.engine.give(one, one.machine.message, word, token)
