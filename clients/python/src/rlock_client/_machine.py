"""One acquisition, from its first request to its last: decisions only.

The machine reads no clock and does no I/O. The engine feeds it inputs with the time, and carries out what it returns.
Times are in nanoseconds.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, NamedTuple, ParamSpec

from ._errors import Error

MS = 1_000_000

# A waiter that has heard nothing asks again after this time, and then as often as the holder's lease lasts.
FIRST_LOOK = 1_000 * MS
LONGEST_LOOK = 30_000 * MS
# The pause after a request that failed; each next is twice as long.
FIRST_PAUSE = 20 * MS
LONGEST_PAUSE = 1_000 * MS
# Renewals that are due so soon go along with those that are due now.
WINDOW = 100 * MS
DOUBLINGS = 6
# A request without an answer can be carried out late: a release is repeated after this time.
STRAY = 1_000 * MS

Command = Literal["ENQUEUE", "ACQUIRE", "RENEW", "CANCEL", "RELEASE"]
Why = Literal["expired", "taken", "closed", "forked"]
Phase = Literal["new", "asking", "queued", "confirming", "held", "releasing", "lost", "cancelling", "ended"]
WAITING = ("new", "asking", "queued", "confirming")
# What a failure means for the next command. Final: refused, and the same would be refused again. Passing: refused for
# now. Draining: refused until another server takes over. Gone: the key holds something else. Unanswered: the server may
# have carried it out.
Failure = Literal["final", "passing", "draining", "gone", "unsent", "unanswered"]


class Plan(NamedTuple):
    lease: int
    wait: int | None = None  # None waits for ever, 0 asks once
    renew: bool = True
    fenced: bool = False
    response: int = 5_000 * MS  # how long the server may take to answer a command
    grace: int | None = None  # of a session


class Granted(NamedTuple):
    """ACQUIRE was answered with holds, and perhaps a token."""

    token: int


class Waits(NamedTuple):
    """ACQUIRE was answered with a place in the queue."""

    holder_lease: int | None = None


class Failed(NamedTuple):
    failure: Failure
    error: Error


# None is the server's null.
Answer = Granted | Waits | Failed | int | None


class Send(NamedTuple):
    number: int
    command: Command
    wait_ms: int = 0  # of ENQUEUE; 0 is for ever
    look: bool = False  # also ask for the holder's lease
    lease_ms: int | None = None  # of RENEW, where it is not the whole lease


class Tell(NamedTuple):
    """`ended`: nothing of the acquisition is left here nor, as far as it is known, in the server."""

    what: Literal["acquired", "timed_out", "denied", "error", "renewed", "renewal_failed", "lost", "released", "ended"]
    error: Error | None = None
    token: int = 0
    outcome: Literal["ok", "lost", "unknown", "error"] = "ok"  # of released
    silent: bool = False  # of timed_out: no server answered at the end


Output = Send | Tell
P = ParamSpec("P")


def end_of(sent_at: int, time: int) -> int:
    """When a lease or a grace ends by the local clock: before the server's, whose clock may run faster."""
    return sent_at + time - time // 100 - 2 * MS


class Machine:
    """The inputs are its public methods, given by `take`."""

    def __init__(self, plan: Plan, up: bool = True) -> None:
        self.phase: Phase = "new"
        self.down = not up
        self.why: Why | None = None
        self.ended = False  # lost since a lease that is not renewed came to its end
        self._plan = plan
        self._out: list[Output] = []
        self._now = self._number = self._token = self._deadline = 0
        self._pending: int | None = None  # the request whose reply counts
        self._next: int | None = None  # when the next request is due
        self._until: int | None = None  # when the wait ends, or a release or a cancellation is given up
        self._pause = FIRST_PAUSE
        self._asked_at = self._asks = self._looks = self._failures = 0
        self._heard_at = 0  # the last message
        # With a session the hold ends with this connection, which lived at `proven`.
        self._tied, self._proven = False, 0
        self._stray = False  # a request was not answered
        self._repeated = False  # nor a release
        self._queued = False
        self._error: Error | None = None

    def take(self, now: int, work: Callable[P, None], *arguments: P.args, **named: P.kwargs) -> list[Output]:
        """One input at this time: what is to be done."""
        self._out, self._now = [], now
        # Before anything else: a reply that comes too late must not bring a lost lock back.
        if self.phase == "held" and now >= self.end:
            self._lose("expired")
        work(*arguments, **named)
        return self._out

    @property
    def end(self) -> int:
        """Of a held lock, by the local clock: by its lease, and with a session by the life of the connection."""
        grace = self._plan.grace
        return self._deadline if grace is None else min(self._deadline, end_of(self._proven, grace))

    @property
    def wake_at(self) -> int | None:
        """When it needs a tick."""
        times = (self.end if self.phase == "held" else self._until, None if self.down else self._next)
        return min((at for at in times if at is not None), default=None)

    def start(self) -> None:
        wait = self._plan.wait
        self._until = None if wait is None else self._now + (wait or 2 * self._plan.response)
        self._ask()

    def cancel(self, error: Error | None) -> None:
        if self.phase in WAITING:
            self._leave("error", error)

    def lose(self, why: Why) -> None:
        if self.phase == "held":
            self._lose(why)

    def extend(self, sent_at: int) -> None:
        """A request that was sent at this time renewed the lease."""
        if self.phase == "held":
            self._deadline = max(self._deadline, end_of(sent_at, self._plan.lease))
            if self._plan.renew and self._pending is None:
                self._next = sent_at + self._plan.lease // 3

    def alive(self, sent_at: int) -> None:
        """A command that was sent on the link at this time was answered."""
        if self._tied:
            self._proven = max(self._proven, sent_at)

    def link_down(self) -> None:
        self.down, self._pending, self._tied = True, None, False

    def link_up(self) -> None:
        self.down, self._pause = False, FIRST_PAUSE
        if self.phase != "held" or self._plan.renew or self._plan.grace:
            self._request()

    def tick(self) -> None:
        late = self._until is not None and self._now >= self._until
        early = min(WINDOW, self._plan.lease // 30) if self.phase == "held" else 0
        if late and self.phase in WAITING:
            self._leave("error" if self._plan.wait == 0 else "timed_out", self._error)
        elif late and self.phase == "releasing":
            self._settle("unknown", self._error)
        elif late and self.phase == "cancelling":
            self._finish()
        elif self._next is not None and self._now >= self._next - early and not self.down:
            self._looks += self.phase == "queued"
            self._request()

    def message(self, word: str, token: int) -> None:
        if self.phase not in ("asking", "queued"):
            return
        self._heard_at = self._now
        if word == "granted":
            self._confirm(token)
        else:
            # "dropped" or "timeout", maybe of an earlier wait of this owner: only the clock ends this one.
            self.phase, self._pending = "asking", None
            self._rest()

    def release(self) -> None:
        if self.phase == "lost":
            # The server may have the hold still, and others wait for it.
            self.phase, self._queued, self._until = "cancelling", False, self._now + self._plan.lease
            self._request()
        elif self.phase == "held":
            self.phase, self._until = "releasing", self._deadline
            self._request()

    def reply(self, number: int, sent_at: int, answer: Answer) -> None:
        if isinstance(answer, Failed) and answer.failure == "unanswered":
            self._stray = True
        if number != self._pending:
            return
        self._pending = None
        if self.phase == "held":
            self._renewed(sent_at, answer)
        elif self.phase == "releasing":
            self._released(answer)
        elif self.phase != "cancelling":
            self._asked(sent_at, answer)
        elif isinstance(answer, Failed) and answer.failure not in ("final", "gone"):
            self._rest()
        else:
            self._done()

    def _send(self, command: Command, wait_ms: int = 0, look: bool = False, lease_ms: int | None = None) -> None:
        self._number += 1
        self._pending, self._next = self._number, None
        self._out.append(Send(self._number, command, wait_ms, look, lease_ms))

    def _request(self) -> None:
        """Sends what the phase needs, for the first time or again."""
        if self.phase in ("asking", "queued", "confirming"):
            self._ask()
        elif self.down:
            return
        elif self.phase == "held":
            left = self._deadline - self._now
            # A fixed lease is only tied to another connection: it ends when it would have.
            self._send("RENEW", lease_ms=None if self._plan.renew else (left + left // 99) // MS + 4)
        elif self.phase in ("releasing", "cancelling"):
            # In this order: a grant between the two is released by the second.
            if self.phase == "cancelling" and self._queued:
                self._send("CANCEL")
            self._send("RELEASE")

    def _ask(self) -> None:
        self.phase = "asking"
        if self.down:
            return
        self._asks, self._asked_at = self._asks + 1, self._now
        if self._plan.wait == 0:
            self._send("ACQUIRE")
            return
        self._queued = True
        left = 0 if self._until is None else max(1, -(-(self._until - self._now) // MS))
        self._send("ENQUEUE", left, self._looks > 0)

    def _confirm(self, token: int) -> None:
        self.phase, self._token, self._asked_at = "confirming", token, self._now
        # The token of the message may be one of an earlier grant.
        self._send("ACQUIRE" if self._plan.fenced else "RENEW")

    def _hold(self, sent_at: int) -> None:
        self.phase, self._tied, self._proven = "held", True, sent_at
        self.extend(sent_at)
        if self.end <= self._now:
            # The reply lay in a buffer for longer than the lease: only the server can tell.
            self._confirm(self._token)
        else:
            self._out.append(Tell("acquired", token=self._token))

    def _asked(self, sent_at: int, answer: Answer) -> None:
        if isinstance(answer, Failed):
            self._failed(answer)
        elif isinstance(answer, Granted):
            self._token = answer.token
            self._hold(sent_at)
        elif self.phase == "confirming":
            self._hold(sent_at) if answer == 1 else self._ask()
        elif isinstance(answer, Waits):
            self.phase, self._pause, self._error = "queued", FIRST_PAUSE, None
            lease = LONGEST_LOOK if answer.holder_lease is None else answer.holder_lease
            self._next = self._now + (min(max(lease, FIRST_LOOK), LONGEST_LOOK) if self._looks else FIRST_LOOK)
        else:
            self._leave("denied", clean=True)

    def _failed(self, answer: Failed) -> None:
        """A request for the lock failed: it is made again, unless that is pointless."""
        self._error = answer.error
        if answer.failure in ("final", "gone") or (answer.failure == "draining" and self._plan.wait == 0):
            # It was not carried out, but those before it may have been.
            self._leave("error", clean=self._asks == 1 and self.phase == "asking")
        else:
            self.phase = "asking"
            self._rest()

    def _rest(self) -> None:
        self._next = self._now + self._pause
        self._pause = min(self._pause * 2, LONGEST_PAUSE)

    def _renewed(self, sent_at: int, answer: Answer) -> None:
        if isinstance(answer, Failed) and answer.failure != "gone":
            # Short pauses first: most failures are over soon.
            self._next = self._now + self._plan.lease // 12 // 2 ** (DOUBLINGS - min(self._failures, DOUBLINGS))
            self._failures += 1
            self._out.append(Tell("renewal_failed", answer.error))
        elif answer == 1:
            self._failures, self._tied, self._proven = 0, True, max(self._proven, sent_at)
            if self._plan.renew:
                self.extend(sent_at)
            self._out.append(Tell("renewed"))
        else:
            self._lose("taken")

    def _lose(self, why: Why) -> None:
        self.phase, self.why = "lost", why
        self.ended = not self._plan.renew and self._now >= self._deadline
        self._pending = self._next = self._until = None
        self._out.append(Tell("lost"))
        if why == "taken":
            # The server has nothing left to release.
            self._finish()

    def _released(self, answer: Answer) -> None:
        if isinstance(answer, Failed) and answer.failure != "gone":
            self._error = answer.error
            if answer.failure == "final":
                self._settle("error", answer.error)
                return
            self._repeated |= answer.failure == "unanswered"
            self._rest()
        elif isinstance(answer, int):
            self._settle("ok")
        else:
            self._settle("unknown" if self._repeated else "lost", self._error)

    def _settle(self, outcome: Literal["ok", "lost", "unknown", "error"], error: Error | None = None) -> None:
        self.why = "taken" if outcome == "lost" else None
        self._out.append(Tell("released", error, outcome=outcome))
        self._done()

    def _done(self) -> None:
        """The server has answered the release; a request that is still under way would come after it."""
        if not self._stray or self.down:
            self._finish()
            return
        self.phase, self._stray, self._queued = "cancelling", False, True
        self._next, self._until = self._now + STRAY, self._now + 3 * STRAY

    def _leave(
        self, kind: Literal["timed_out", "denied", "error"], error: Error | None = None, clean: bool = False
    ) -> None:
        """Ends the acquisition without the lock, and leaves nothing of it in the server, which is `clean` at times."""
        unanswered = self.phase != "queued" and self._now > max(self._asked_at, self._heard_at) + WINDOW
        self._out.append(Tell(kind, error or self._error, silent=self.down or unanswered))
        if clean or self._asks == 0:
            self._finish()
            return
        self.phase, self._pause = "cancelling", FIRST_PAUSE
        self._until = self._asked_at + self._plan.lease + STRAY
        self._request()

    def _finish(self) -> None:
        self.phase = "ended"
        self._pending = self._next = self._until = None
        self._out.append(Tell("ended"))
