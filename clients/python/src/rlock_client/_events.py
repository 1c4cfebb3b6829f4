"""The events of locks and connections."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Literal, NamedTuple

from ._errors import Error

Kind = Literal[
    "acquired", "denied", "timed_out", "released", "renewed", "renewal_failed", "lost", "disconnected", "reconnected"
]
log = logging.getLogger("rlock_client")


class Event(NamedTuple):
    """Something that happened to a lock or a connection, passed to the `on_event` of the client.

    `seconds` is the wait for acquired and timed_out, the time held for released and lost, the outage for reconnected.
    """

    kind: Kind
    lock: str = ""
    seconds: float = 0.0
    why: str = ""  # of lost
    error: Error | None = None  # of renewal_failed and disconnected
    server: str = ""  # of disconnected and reconnected


def hook(receiver: Callable[[Event], object] | None) -> Callable[[Event], None]:
    """A function that passes events to the log and the user's receiver.

    It logs the errors of the receiver, which would otherwise end the renewals of all locks.
    """

    def tell(event: Event) -> None:
        if event.kind == "lost" and event.why != "closed":
            log.warning("the lock %s was lost: %s", event.lock, event.why)
        elif event.kind in ("disconnected", "reconnected"):
            log.warning("%s: %s %s", event.server, event.kind, event.error or "")
        try:
            if receiver is not None:
                receiver(event)
        except BaseException:
            log.exception("the receiver of events failed; locks are not affected")

    return tell
