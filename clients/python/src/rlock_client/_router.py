"""Which link a command goes by, and whether messages arrive."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from redis.crc import key_slot

from . import _wire as wire
from ._acquisition import Acquisition
from ._clock import now
from ._endpoint import Endpoint
from ._errors import Error, Unreachable
from ._events import Event, Hook
from ._link import Link
from ._machine import Failed, Phase

Address = tuple[str, int] | None


class Router:
    """The links of one engine; lives in its loop. `give` is for inputs of machines."""

    def __init__(
        self,
        endpoint: Endpoint,
        response: int,
        name: str,
        channel: bytes,
        hook: Hook,
        acquisitions: dict[tuple[bytes, bytes], Acquisition],
        give: Callable[..., None],
    ) -> None:
        self.endpoint, self._response, self._name, self.channel = endpoint, response, name, channel
        self._hook, self._acquisitions, self._give = hook, acquisitions, give
        self._links: dict[Address, Link] = {}
        self._slots: dict[int, Address] = {}
        self._subscription: Link | None = None
        self._hearing = "no"  # asking, heard: the server has confirmed it, sure: so has that of the commands
        self._lost_at: dict[Link, int] = {}
        self.closing = False

    def all(self) -> list[Link]:
        return [link for link in [*self._links.values(), self._subscription] if link is not None]

    def link_for(self, key: bytes) -> Link:
        if not self.endpoint.cluster:
            return self._link(None)
        return self._link(self._slots.get(key_slot(key)) or self.endpoint.seeds[0])

    def hears(self) -> bool:
        """Whether messages arrive. Subscribes before the first wait."""
        if self._subscription is None:
            self._subscription = self._new(None, self._subscribe, self._unsubscribed, self._message)
        elif self._hearing == "no" and self._subscription.up:
            self._subscribe(self._subscription)
        return self._hearing == "sure"

    def refusal(self, error: Exception, lock: str, link: Link | None) -> tuple[Link | None, Failed]:
        """What a refusal means, and where a cluster sends the next command, unless it is all commands of the slot."""
        code, text = wire.code_and_text(error)
        asking = None
        if self.endpoint.cluster and code in ("MOVED", "ASK"):
            _, slot, place = text.split(" ")[:3]
            host, _, port = place.rpartition(":")
            if code == "ASK":
                asking = self._link((host, int(port)))
            else:
                self._slots[int(slot)] = (host, int(port))
        elif code == "READONLY" and self.endpoint.follows and link is not None:
            link.drop("the server is no longer a primary")
        return asking, wire.refusal(error, lock, self.endpoint.follows)

    def _link(self, address: Address) -> Link:
        if address not in self._links:
            self._links[address] = self._new(address, self._up, self._down)
        return self._links[address]

    def _new(self, address: Address, up: Callable[[Link], None], down: Callable[[Link], None], *message: Any) -> Link:
        def went_up(link: Link) -> None:
            lost_at = self._lost_at.pop(link, None)
            if lost_at is not None:
                self._hook(Event("reconnected", server=str(self.endpoint), seconds=(now() - lost_at) / 1e9))
            up(link)

        def went_down(link: Link, error: Error) -> None:
            if not self.closing:
                self._lost_at[link] = now()
                self._hook(Event("disconnected", server=str(self.endpoint), error=error))
            down(link)

        def connect() -> Any:
            return self.endpoint.connect(self._response / 1e9, address)

        follows = self.endpoint.follows
        return Link(connect, self._response, self._name, follows, went_up, went_down, self._refused, *message)

    def _up(self, link: Link) -> None:
        # Renewals first: their locks have a deadline.
        for one in sorted(self._acquisitions.values(), key=lambda one: one.machine.phase is not Phase.HELD):
            if not one.waits and self.link_for(one.spec.key) is link:
                self._give(one, one.machine.link_up)
        if self._hearing in ("heard", "sure"):
            self._count()

    def _down(self, link: Link) -> None:
        for one in list(self._acquisitions.values()):
            if one.link is link:
                self._give(one, one.machine.link_down)
        self._elsewhere(link)

    def _elsewhere(self, link: Link) -> None:
        """In a cluster, the slots of a server that is gone are asked for at another one."""
        if not self.endpoint.cluster:
            return
        gone = next(address for address, one in self._links.items() if one is link)
        self._slots = {slot: address for slot, address in self._slots.items() if address != gone}
        seeds = self.endpoint.seeds
        if gone == seeds[0]:
            known = dict.fromkeys([*seeds, *(address for address in self._links if address)])
            self.endpoint.seeds = [*(address for address in known if address != gone), seeds[0]]
        for one in list(self._acquisitions.values()):
            if one.link is link and self.link_for(one.spec.key).up:
                self._give(one, one.machine.link_up)

    def _refused(self, link: Link, error: Error) -> None:
        """No connection. A wrong password stays wrong, and an address where nothing was ever found may be wrong."""
        if link is not self._subscription:
            self._elsewhere(link)
        if isinstance(error, Unreachable) and (link.connected_once or self.endpoint.cluster):
            return
        for one in list(self._acquisitions.values()):
            if one.link is link or (link is self._subscription and one.waits):
                self._give(one, one.machine.cancel, error)

    def _subscribe(self, link: Link) -> None:
        self._hearing = "asking"

        def receive(value: Any, sent_at: int) -> None:
            if isinstance(value, Exception):
                self._unheard(value)
            elif not isinstance(value, Failed):
                self._count()

        link.send((b"SUBSCRIBE", self.channel), receive)

    def _count(self) -> None:
        """The server of the command link must know the subscription: that server makes the grants."""
        self._hearing = "heard"

        def receive(value: Any, sent_at: int) -> None:
            if isinstance(value, Exception):
                self._unheard(value)
            elif isinstance(value, Failed) or self._subscription is None or self._hearing != "heard":
                return
            elif value[1] == 0:
                self._subscription.drop("the subscription is on another server")
            else:
                self._hearing = "sure"
                for one in self._waiting():
                    self._give(one, one.machine.link_up)

        self._link(None).send((b"PUBSUB", b"NUMSUB", self.channel), receive)

    def _unsubscribed(self, link: Link) -> None:
        self._hearing = "no"

    def _unheard(self, error: Exception) -> None:
        """No messages for this user: waits end. The next one subscribes again, for the rules may have changed."""
        self._hearing = "no"
        for one in self._waiting():
            self._give(one, one.machine.cancel, wire.refusal(error).error)

    def _waiting(self) -> list[Acquisition]:
        return [one for one in self._acquisitions.values() if one.waits]

    def _message(self, payload: bytes) -> None:
        word, whose, token = wire.parse(payload) or ("", (b"", b""), 0)
        one = self._acquisitions.get(whose)
        if one is not None:
            self._give(one, one.machine.message, word, token)


def ignore(value: Any, sent_at: int) -> None:
    pass
