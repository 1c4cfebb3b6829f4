"""One acquisition, from its first request to its last: decisions only.

The machine reads no clock and does no I/O. The engine feeds it inputs with the time, and carries out what it returns.
Times are in nanoseconds.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import Concatenate, Literal, NamedTuple, ParamSpec

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


class Phase(enum.Enum):
    NEW = "new"
    ASKING = "asking"
    QUEUED = "queued"
    CONFIRMING = "confirming"
    HELD = "held"
    RELEASING = "releasing"
    LOST = "lost"
    LEAVING = "cancelling"
    ENDED = "ended"


WAITING = (Phase.NEW, Phase.ASKING, Phase.QUEUED, Phase.CONFIRMING)


class Failure(enum.Enum):
    """What the failure of a command means for the next one."""

    FINAL = "final"  # refused, and the same request would be refused again
    PASSING = "passing"  # refused for now
    DRAINING = "draining"  # refused until another server takes over
    NO_LOCK = "gone"  # refused: the key holds something else
    UNSENT = "unsent"
    UNANSWERED = "unanswered"  # the server may have carried it out


class Plan(NamedTuple):
    lease: int
    wait: int | None  # None waits for ever, 0 asks once
    renew: bool = True
    fenced: bool = False
    response: int = 5_000 * MS  # how long the server may take to answer a command


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


class Timer(NamedTuple):
    at: int | None


class Tell(NamedTuple):
    """`ended`: nothing of the acquisition is left here nor, as far as it is known, in the server."""

    what: Literal["held", "timeout", "denied", "error", "renewed", "renewal_failed", "lost", "released", "ended"]
    error: Error | None = None
    token: int = 0
    outcome: Literal["ok", "lost", "unknown", "error"] = "ok"  # of released


Output = Send | Timer | Tell


def lease_end(sent_at: int, lease: int) -> int:
    """When a lease ends by the local clock: before the server's, whose clock may run faster."""
    return sent_at + lease - lease // 100 - 2 * MS


P = ParamSpec("P")


def _input(take: Callable[Concatenate[Machine, P], None]) -> Callable[Concatenate[Machine, int, P], list[Output]]:
    """An input takes the time before its arguments, and returns what is to be done."""

    def run(self: Machine, now: int, /, *arguments: P.args, **named: P.kwargs) -> list[Output]:
        self._out, self._now = [], now
        # Before anything else: a reply that comes too late must not bring a lost lock back.
        if self.phase is Phase.HELD and now >= self.deadline:
            self._lose("expired")
        take(self, *arguments, **named)
        timer = self._wake_at()
        if timer != self._timer:
            self._timer = timer
            self._out.append(Timer(timer))
        return self._out

    return run


class Machine:
    """The inputs are its public methods."""

    def __init__(self, plan: Plan, up: bool = True) -> None:
        self.phase = Phase.NEW
        self.deadline = 0  # by the local clock, while the lock is held
        self.down = not up
        self.why: Why | None = None
        self._plan = plan
        self._out: list[Output] = []
        self._now = 0
        self._number = 0
        self._pending: int | None = None  # the request whose reply counts
        self._end: int | None = None
        self._next: int | None = None  # when the next request is due
        self._asks = 0
        self._looks = 0
        self._pause = FIRST_PAUSE
        self._token = 0
        self._renew_at = 0
        self._failures = 0
        self._stray = False  # a request was not answered
        self._repeated = False  # nor a release
        self._queued = False
        self._give_up = 0
        self._timer: int | None = None
        self._error: Error | None = None

    @_input
    def start(self) -> None:
        wait = self._plan.wait
        self._end = None if wait is None else self._now + (wait or 2 * self._plan.response)
        self._ask()

    @_input
    def cancel(self, error: Error | None) -> None:
        if self.phase in WAITING:
            self._leave("error", error)

    @_input
    def lose(self, why: Why) -> None:
        if self.phase is Phase.HELD:
            self._lose(why)

    @_input
    def extend(self, sent_at: int) -> None:
        """Another hold of the same owner was acquired, which renewed the lease."""
        if self.phase is Phase.HELD:
            self._extend(sent_at)

    def _send(self, command: Command, wait_ms: int = 0, look: bool = False) -> None:
        self._number += 1
        self._pending = self._number
        self._out.append(Send(self._number, command, wait_ms, look))

    def _ask(self) -> None:
        self.phase = Phase.ASKING
        self._next = self._pending = None
        if self.down:
            return
        self._asks += 1
        self._give_up = self._now + self._plan.lease + STRAY
        if self._plan.wait == 0:
            self._send("ACQUIRE")
            return
        self._queued = True
        left = 0 if self._end is None else max(1, -(-(self._end - self._now) // MS))
        self._send("ENQUEUE", left, self._looks > 0)

    def _confirm(self, token: int) -> None:
        self.phase, self._token, self._next = Phase.CONFIRMING, token, None
        self._give_up = self._now + self._plan.lease + STRAY
        # The token of the message may be one of an earlier grant.
        self._send("ACQUIRE" if self._plan.fenced else "RENEW")

    def _hold(self, sent_at: int) -> None:
        deadline = lease_end(sent_at, self._plan.lease)
        if deadline <= self._now:
            # The reply lay in a buffer for longer than the lease: only the server can tell.
            self._confirm(self._token)
            return
        self.phase, self.deadline = Phase.HELD, deadline
        self._renew_at = sent_at + self._plan.lease // 3
        self._pending = self._next = None
        self._out.append(Tell("held", token=self._token))

    @_input
    def reply(self, number: int, sent_at: int, answer: Answer) -> None:
        if isinstance(answer, Failed) and answer.failure is Failure.UNANSWERED:
            self._stray = True
        if number != self._pending:
            return
        self._pending = None
        if self.phase is Phase.ASKING:
            self._asked(sent_at, answer)
        elif self.phase is Phase.CONFIRMING:
            if isinstance(answer, Granted):
                self._token = answer.token
            if isinstance(answer, Granted) or answer == 1:
                self._hold(sent_at)
            elif isinstance(answer, Failed):
                self._failed(answer)
            else:
                self._ask()
        elif self.phase is Phase.HELD:
            self._renewed(sent_at, answer)
        elif self.phase is Phase.RELEASING:
            self._released(answer)
        elif self.phase is Phase.LEAVING:
            self._left(answer)

    def _asked(self, sent_at: int, answer: Answer) -> None:
        if isinstance(answer, Granted):
            self._token = answer.token
            self._hold(sent_at)
        elif isinstance(answer, Waits):
            self.phase, self._pause = Phase.QUEUED, FIRST_PAUSE
            lease = LONGEST_LOOK if answer.holder_lease is None else answer.holder_lease
            self._next = self._now + (min(max(lease, FIRST_LOOK), LONGEST_LOOK) if self._looks else FIRST_LOOK)
        elif isinstance(answer, Failed):
            self._failed(answer)
        else:
            self._refuse("denied")

    def _failed(self, answer: Failed) -> None:
        """A request for the lock failed: it is made again, unless that is pointless."""
        self._error = answer.error
        final = answer.failure in (Failure.FINAL, Failure.NO_LOCK)
        if final or (answer.failure is Failure.DRAINING and self._plan.wait == 0):
            # It was not carried out, but those before it may have been.
            if self._asks > 1 or self.phase is Phase.CONFIRMING:
                self._leave("error", answer.error)
            else:
                self._refuse("error", answer.error)
            return
        self.phase = Phase.ASKING
        self._rest()

    def _rest(self) -> None:
        self._next = self._now + self._pause
        self._pause = min(self._pause * 2, LONGEST_PAUSE)

    @_input
    def message(self, word: str, token: int) -> None:
        if self.phase not in (Phase.ASKING, Phase.QUEUED):
            return
        if word == "granted":
            self._confirm(token)
        elif word == "dropped":
            self.phase, self._pending = Phase.ASKING, None
            self._rest()
        elif self._asks > 1:
            # This may be the end of the wait before the repeat.
            self._leave("timeout")
        else:
            self._refuse("timeout")

    @_input
    def link_down(self) -> None:
        self.down, self._pending = True, None

    @_input
    def link_up(self) -> None:
        self.down, self._pause = False, FIRST_PAUSE
        if self.phase in (Phase.ASKING, Phase.QUEUED, Phase.CONFIRMING):
            self._ask()
        elif self.phase is Phase.HELD and self._plan.renew:
            self._send("RENEW")
        elif self.phase is Phase.RELEASING:
            self._next = None
            self._send("RELEASE")
        elif self.phase is Phase.LEAVING:
            self._depart()

    @_input
    def tick(self) -> None:
        due = self._next is not None and self._now >= self._next and not self.down
        if self.phase in WAITING:
            if self._end is not None and self._now >= self._end:
                failed = self._plan.wait == 0 and self._error is not None
                self._leave("error" if failed else "timeout", self._error)
            elif due:
                self._looks += self.phase is Phase.QUEUED
                self._ask()
        elif self.phase is Phase.HELD:
            window = min(WINDOW, self._plan.lease // 30)
            if self._renews() and self._now >= self._renew_at - window:
                self._send("RENEW")
        elif self.phase is Phase.RELEASING:
            if self._now >= self._give_up:
                self._settle("unknown", self._error)
            elif due:
                self._next = None
                self._send("RELEASE")
        elif self.phase is Phase.LEAVING:
            if self._now >= self._give_up:
                self._finish()
            elif due:
                self._depart()

    def _renews(self) -> bool:
        return self._plan.renew and self._pending is None and not self.down

    def _renewed(self, sent_at: int, answer: Answer) -> None:
        if isinstance(answer, Failed) and answer.failure is not Failure.NO_LOCK:
            # Short pauses first: most failures are over soon.
            self._renew_at = self._now + self._plan.lease // 12 // 2 ** (DOUBLINGS - min(self._failures, DOUBLINGS))
            self._failures += 1
            self._out.append(Tell("renewal_failed", answer.error))
        elif answer == 1:
            self._failures = 0
            self._extend(sent_at)
            self._out.append(Tell("renewed"))
        else:
            self._lose("taken")

    def _extend(self, sent_at: int) -> None:
        self.deadline = max(self.deadline, lease_end(sent_at, self._plan.lease))
        self._renew_at = sent_at + self._plan.lease // 3

    def _lose(self, why: Why) -> None:
        self.phase, self.why, self._pending = Phase.LOST, why, None
        self._out.append(Tell("lost"))
        if why == "taken":
            # The server has nothing left to release.
            self._finish()

    @_input
    def release(self) -> None:
        if self.phase is Phase.LOST:
            # The server may have the hold still, and others wait for it.
            self.phase, self._queued = Phase.LEAVING, False
            self._give_up = self._now + self._plan.lease
            self._depart()
        elif self.phase is Phase.HELD:
            self.phase, self._give_up, self._next = Phase.RELEASING, self.deadline, None
            if not self.down:
                self._send("RELEASE")

    def _released(self, answer: Answer) -> None:
        if isinstance(answer, Failed) and answer.failure is not Failure.NO_LOCK:
            self._error = answer.error
            if answer.failure is Failure.FINAL:
                self._settle("error", answer.error)
                return
            self._repeated |= answer.failure is Failure.UNANSWERED
            self._rest()
        elif isinstance(answer, int):
            self._settle("ok")
        else:
            self._settle("unknown" if self._repeated else "lost", self._error)

    def _settle(self, outcome: Literal["ok", "lost", "unknown", "error"], error: Error | None = None) -> None:
        self._out.append(Tell("released", error, outcome=outcome))
        self._done()

    def _left(self, answer: Answer) -> None:
        if isinstance(answer, Failed) and answer.failure not in (Failure.FINAL, Failure.NO_LOCK):
            self._rest()
        else:
            self._done()

    def _done(self) -> None:
        """The server has answered the release; a request that is still under way would come after it."""
        if not self._stray or self.down:
            self._finish()
            return
        self.phase, self._stray, self._queued = Phase.LEAVING, False, True
        self._next, self._give_up = self._now + STRAY, self._now + 3 * STRAY

    def _leave(self, kind: Literal["timeout", "error"], error: Error | None = None) -> None:
        """Ends the acquisition without the lock, and leaves nothing of it in the server."""
        if self._asks == 0:
            self._refuse(kind, error)
            return
        self._out.append(Tell(kind, error or self._error))
        self.phase, self._pause = Phase.LEAVING, FIRST_PAUSE
        self._depart()

    def _depart(self) -> None:
        self._next = None
        if self.down:
            return
        # In this order: a grant between the two is released by the second.
        if self._queued:
            self._send("CANCEL")
        self._send("RELEASE")

    def _refuse(self, kind: Literal["timeout", "denied", "error"], error: Error | None = None) -> None:
        self._out.append(Tell(kind, error or self._error))
        self._finish()

    def _finish(self) -> None:
        self.phase, self._pending = Phase.ENDED, None
        self._out.append(Tell("ended"))

    def _wake_at(self) -> int | None:
        next_at = None if self.down else self._next
        if self.phase in WAITING:
            times = (self._end, next_at)
        elif self.phase is Phase.HELD:
            times = (self.deadline, self._renew_at if self._renews() else None)
        elif self.phase in (Phase.RELEASING, Phase.LEAVING):
            times = (self._give_up, next_at)
        else:
            return None
        return min((at for at in times if at is not None), default=None)
