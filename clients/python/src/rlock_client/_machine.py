"""The decisions of one acquisition, from its first request to its last.

The machine reads no clock and does no I/O. The engine feeds it inputs with the time, and carries out what it returns.
Times are in nanoseconds.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, NamedTuple, ParamSpec

from ._errors import Error

MS = 1_000_000

# A waiter without a message asks again after FIRST_LOOK, and later at the holder's lease end or after LONGEST_LOOK.
FIRST_LOOK = 1_000 * MS
LONGEST_LOOK = 30_000 * MS
# The pause after a request that failed; each next is twice as long.
FIRST_PAUSE = 20 * MS
LONGEST_PAUSE = 1_000 * MS
# Renewals that are due within this time are sent together with those that are due now.
WINDOW = 100 * MS
DOUBLINGS = 6
# The server can run an unanswered request late, so a release is repeated after this time.
STRAY = 1_000 * MS

ELSEWHERE = -1  # `kept` of a detached hold, which ends in another process

Command = Literal["ENQUEUE", "ACQUIRE", "RENEW", "CANCEL", "RELEASE"]
Why = Literal["expired", "overdue", "taken", "closed", "forked"]
Phase = Literal["new", "asking", "queued", "confirming", "held", "releasing", "lost", "cancelling", "ended"]
Told = Literal[
    "acquired", "timed_out", "denied", "error", "unheld", "renewed", "renewal_failed", "lost", "released", "ended"
]
Outcome = Literal["ok", "lost", "unknown", "error"]
WAITING = ("new", "asking", "queued", "confirming")
# What a failure means for the next command. Final: refused, as a repeat would be. Passing: refused for now, or not
# sent. Draining: refused until another server takes over. Gone: the key holds something else. Unanswered: the server
# may have run the command.
Failure = Literal["final", "passing", "draining", "gone", "unanswered"]


class Plan(NamedTuple):
    lease: int
    wait: int | None = None  # None waits for ever, 0 asks once
    renew: bool = True
    fenced: bool = False
    confirm_first: bool = False  # grants by message: the owner may have been used before
    response: int = 5_000 * MS  # how long the server may take to answer a command
    grace: int | None = None  # of a session; None without one
    at_least: int = 0  # how long the lock stays held from its acquisition, even if released sooner
    max_hold: int | None = None  # how long the lock is renewed, from its acquisition


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
    lease_ms: int | None = None  # of RENEW; None for the whole lease
    keep: bool = False  # RENEW without SESSION, so that only the lease ends the hold


class Tell(NamedTuple):
    """An event of the acquisition. `ended`: nothing of it is left here, nor in the server as far as it is known."""

    what: Told
    error: Error | None = None
    token: int = 0
    outcome: Outcome = "ok"  # of released
    silent: bool = False  # of timed_out: no server answered at the end


Output = Send | Tell
P = ParamSpec("P")


def end_of(sent_at: int, time: int) -> int:
    """The end of a lease or a grace by the local clock, a little early, since the server's clock may run faster."""
    return sent_at + time - time // 100 - 2 * MS


class Machine:
    """The state of one acquisition. Its inputs are the public methods, called by `take`.

    A grant by message is a hold at once if it cannot be older than the first request, since the owner is new. A later
    RENEW confirms the hold, unless the lock is released first. Any other grant by message must be confirmed first.
    """

    def __init__(self, plan: Plan, up: bool = True) -> None:
        self.phase: Phase = "new"
        self.down = not up
        self.why: Why | None = None
        self.ended = False  # lost at the end of a lease that is not renewed
        self.pending: int | None = None  # the request whose reply counts
        self.kept: int | None = None  # until when the hold outlasts its release, or ELSEWHERE
        self.lease_end = 0  # by the local clock
        self._plan = plan
        self._out: list[Output] = []
        self._now = self._number = self._token = 0
        self._next: int | None = None  # when the next request is due
        self._until: int | None = None  # when the wait ends, or a release or a cancellation is given up
        self._pause = FIRST_PAUSE
        self._asked_at = self._asks = self._looks = self._failures = 0
        self._first_sent = 0  # no grant of this owner is older
        self._renew_at = self._held_at = 0
        self._heard_at = 0  # when the last message arrived
        self._unconfirmed: int | None = None  # the lease of a grant by message that no RENEW has confirmed
        # tied: all requests were sent on the present connection, or it confirmed the hold. A session's hold ends with
        # this connection. proven: when the last command was sent that this connection answered.
        self.tied, self._proven = False, 0
        self._stray = False  # a request was not answered
        self._overtaken = False  # a request was under way when a message ended the wait
        self._repeated = False  # a release was not answered
        self._queued = self._adopts = False
        self._error: Error | None = None

    def take(self, now: int, work: Callable[P, None], *arguments: P.args, **named: P.kwargs) -> list[Output]:
        """Processes one input at this time, and returns what the engine must do."""
        self._out, self._now = [], now
        # Before the input, since a late reply must not turn a lost lock into a held one.
        if self.phase == "held" and now >= self.end:
            self._lose("overdue" if self.overdue(now) else "expired")
        work(*arguments, **named)
        return self._out

    @property
    def end(self) -> int:
        """The end of a hold by the local clock: lease end, or with a session the end of its grace if that is sooner."""
        grace = self._plan.grace
        return self.lease_end if grace is None else min(self.lease_end, end_of(self._proven, grace))

    @property
    def wake_at(self) -> int | None:
        """When the machine needs a tick."""
        if self.phase == "held":
            return min(self.end, self._renew_at) if self._renews() else self.end
        if self.down or self._next is None or (self._until is not None and self._until < self._next):
            return self._until
        return self._next

    def start(self) -> None:
        wait = self._plan.wait
        self._until = None if wait is None else self._now + (wait or 2 * self._plan.response)
        self._ask()

    def adopt(self) -> None:
        """Starts with a hold that another process has detached."""
        self._adopts = True
        self.start()

    def cancel(self, error: Error | None) -> None:
        if self.phase in WAITING:
            self._leave("error", error)

    def abandon(self) -> None:
        """The caller is gone, and has not received the lock."""
        self.cancel(None)
        self._end(None)

    def lose(self, why: Why) -> None:
        if self.phase == "held":
            self._lose(why)

    def extend(self, sent_at: int) -> None:
        """A request that was sent at this time renewed the lease."""
        if self.phase == "held":
            self._confirmed(sent_at)

    def alive(self, sent_at: int) -> None:
        """A command that was sent on the link at this time was answered."""
        if self.tied:
            self._proven = max(self._proven, sent_at)

    def link_down(self) -> None:
        self.down, self.pending, self.tied = True, None, False

    def link_up(self) -> None:
        self.down, self._pause = False, FIRST_PAUSE
        if self.phase == "held" and (self._renewed_now() or self._plan.grace):
            self._renew()
        else:
            self._request()

    def tick(self) -> None:
        late = self._until is not None and self._now >= self._until
        if self.phase == "held":
            if self._renews() and self._now >= self._renew_at - min(WINDOW, self._plan.lease // 30):
                self._renew()
        elif late and self.phase in WAITING:
            self._leave("error" if self._plan.wait == 0 else "timed_out", self._error)
        elif late and self.phase == "releasing":
            self._settle("unknown", self._error)
        elif late and self.phase == "cancelling":
            self._finish()
        elif self._next is not None and self._now >= self._next and not self.down:
            self._looks += self.phase == "queued"
            self._request()

    def message(self, word: str, token: int = 0, lease: int = 0, current: bool = False) -> None:
        """A message about the wait has arrived.

        `current`: it came by the channel of the last ENQUEUE, from the same server, while the command link is up.
        """
        if self.phase not in ("asking", "queued"):
            return
        self._heard_at = self._now
        if word != "granted":
            # "dropped" or "timeout" may be of an earlier wait of this owner, so only the clock ends this wait.
            self._overtaken |= self.pending is not None
            self.phase, self.pending = "asking", None
            self._rest()
            return
        self._token, self.lease_end = token, end_of(self._first_sent, lease)
        # After a repeat, the token may be that of an earlier grant.
        proved = current and self.tied and not self._plan.confirm_first and (self._asks == 1 or not self._plan.fenced)
        # Half of the lease must be left, since a RENEW must reach the server before lease end.
        if not proved or self.lease_end - self._now < lease // 2 or self.end <= self._now:
            self._confirm()
            return
        # The server may run an unanswered repeat after this grant has ended.
        self._stray |= self._asks > 1 and (self.pending is not None or self._overtaken)
        self._unconfirmed, self._renew_at = lease, self._now + lease // 10
        self._begin_hold()

    def release(self) -> None:
        until = self._held_at + self._plan.at_least
        self._end(until if self._now < until else None)

    def detach(self) -> None:
        """Leaves the hold to another process."""
        self._end(ELSEWHERE)

    def reply(self, number: int, sent_at: int, answer: Answer) -> None:
        if isinstance(answer, Failed) and answer.failure == "unanswered":
            self._stray = True
        if number != self.pending:
            return
        self.pending = None
        if self.phase == "held":
            self._renewed(sent_at, answer)
        elif self.phase == "releasing":
            self._released(sent_at, answer)
        elif self.phase != "cancelling":
            self._asked(sent_at, answer)
        elif isinstance(answer, Failed) and answer.failure not in ("final", "gone"):
            self._rest()
        else:
            self._done()

    def _send(self, command: Command, *more: Any, **named: Any) -> None:
        self._number += 1
        self.pending, self._next = self._number, None
        self._out.append(Send(self._number, command, *more, **named))

    def _request(self) -> None:
        """Sends what the phase needs, for the first time or again."""
        self._next = None
        if self.phase in ("asking", "queued", "confirming"):
            self._ask()
        elif self.down:
            return
        elif self.phase in ("cancelling", "releasing"):
            left = self._plan.lease if self.kept == ELSEWHERE else (self.kept or 0) - self._now
            if left > 0:
                self._send("RENEW", lease_ms=-(-left // MS), keep=True)
                return
            # In this order, so that RELEASE also ends a grant that is made between the two commands.
            if self.phase == "cancelling" and self._queued:
                self._send("CANCEL")
            self._send("RELEASE")

    def _ask(self) -> None:
        self.phase, self._next, self.pending = "confirming" if self._adopts else "asking", None, None
        if self.down:
            return
        if self._adopts:
            self._send("RENEW")
            return
        if self._asks == 0:
            self._first_sent = self._proven = self._now
            self.tied = True
        self._asks, self._asked_at = self._asks + 1, self._now
        if self._plan.wait == 0:
            self._send("ACQUIRE")
            return
        self._queued = True
        left = 0 if self._until is None else max(1, -(-(self._until - self._now) // MS))
        self._send("ENQUEUE", left, self._looks > 0)

    def _confirm(self) -> None:
        self.phase, self._asked_at = "confirming", self._now
        self._send("ACQUIRE" if self._plan.fenced else "RENEW")

    def _asked(self, sent_at: int, answer: Answer) -> None:
        if isinstance(answer, Failed):
            self._failed(answer)
        elif isinstance(answer, Granted) or (self.phase == "confirming" and answer == 1):
            self._token = answer.token if isinstance(answer, Granted) else self._token
            self.lease_end, self.tied, self._proven = end_of(sent_at, self._plan.lease), True, sent_at
            self._renew_at = sent_at + self._plan.lease // 3
            if self.end <= self._now:
                # The reply was in a buffer for longer than the lease, so that only the server knows the state.
                self._confirm()
            else:
                self._begin_hold()
        elif self.phase == "confirming":
            self._leave("unheld") if self._adopts else self._ask()
        elif isinstance(answer, Waits):
            self.phase, self._pause, self._error = "queued", FIRST_PAUSE, None
            lease = LONGEST_LOOK if answer.holder_lease is None else answer.holder_lease
            self._next = self._now + (min(max(lease, FIRST_LOOK), LONGEST_LOOK) if self._looks else FIRST_LOOK)
            self.alive(sent_at)
        else:
            self._leave("denied", clean=True)

    def _begin_hold(self) -> None:
        self.phase, self._held_at, self.pending, self._next, self._until = "held", self._now, None, None, None
        # A RENEW of the process that detached the hold may be carried out late, with another lease.
        self._renew_at = min(self._renew_at, self._now + STRAY) if self._adopts else self._renew_at
        self._out.append(Tell("acquired", token=self._token))

    def _failed(self, answer: Failed) -> None:
        """Repeats a failed request for the lock, unless a repeat is pointless."""
        self._error = answer.error
        if answer.failure in ("final", "gone") or (answer.failure == "draining" and self._plan.wait == 0):
            # The server did not run this request, but may have run earlier ones.
            self._leave("error", clean=self._asks == 1 and self.phase == "asking")
        else:
            self.phase = "confirming" if self._adopts else "asking"
            self._rest()

    def _rest(self) -> None:
        self._next = self._now + self._pause
        self._pause = min(self._pause * 2, LONGEST_PAUSE)

    def overdue(self, now: int) -> bool:
        """Whether the lock was held for as long as the plan allows."""
        return self._plan.max_hold is not None and now >= self._held_at + self._plan.max_hold

    def _renewed_now(self) -> bool:
        """Whether a RENEW prolongs the lease now. A confirmed lease without renewal keeps its end."""
        return (self._plan.renew and not self.overdue(self._now)) or self._unconfirmed is not None

    def _renews(self) -> bool:
        wanted = self._renewed_now() or self._adopts or (self._plan.grace is not None and not self.tied)
        return wanted and self.pending is None and not self.down

    def _renew(self) -> None:
        left = self.lease_end - self._now
        # A lease that is not renewed keeps its end, and only gets a new tie.
        self._send("RENEW", lease_ms=None if self._renewed_now() else (left + left // 99) // MS + 4)

    def _confirmed(self, sent_at: int) -> None:
        """The server has confirmed the hold by a command that was sent at this time, from which the lease counts."""
        if self._renewed_now():
            self.lease_end = max(self.lease_end, end_of(sent_at, self._plan.lease))
        self._unconfirmed, self._renew_at = None, sent_at + self._plan.lease // 3

    def _renewed(self, sent_at: int, answer: Answer) -> None:
        if isinstance(answer, Failed) and answer.failure != "gone":
            # Short pauses first, since most failures are over soon.
            lease = self._unconfirmed or self._plan.lease
            self._renew_at = self._now + lease // 12 // 2 ** (DOUBLINGS - min(self._failures, DOUBLINGS))
            self._failures += 1
            self._out.append(Tell("renewal_failed", answer.error))
        elif answer == 1:
            self._failures, self._adopts, self.tied, self._proven = 0, False, True, max(self._proven, sent_at)
            self._confirmed(sent_at)
            self._out.append(Tell("renewed"))
        else:
            self._lose("taken")

    def _lose(self, why: Why) -> None:
        self.phase, self.why = "lost", why
        self.ended = not self._plan.renew and self._now >= self.lease_end
        self.pending = None
        self._out.append(Tell("lost"))
        if why == "taken":
            # The server has nothing left to release.
            self._done()

    def _end(self, kept: int | None) -> None:
        """The caller no longer has the lock. Until `kept`, the server still keeps it from others."""
        if self.phase == "lost":
            self.phase, self._queued, self._until = "cancelling", False, self._now + self._plan.lease
            self.kept = kept
            if kept is not None:
                # Without a release, which would free the lock before `kept`. The lease will end.
                self._finish()
                return
            # The server may still have the hold, and other owners may wait for its end.
            self._request()
        elif self.phase == "held":
            self.phase, self._until, self.kept = "releasing", self.lease_end, kept
            self._request()

    def _released(self, sent_at: int, answer: Answer) -> None:
        if isinstance(answer, Failed) and answer.failure != "gone":
            self._error = answer.error
            if answer.failure == "final":
                self._settle("error", answer.error)
                return
            self._repeated |= answer.failure == "unanswered"
            self._rest()
        elif answer == 0 and self.kept is not None:
            # The reply to RENEW. Only RENEW was sent before, which ends no hold, so the lock was lost.
            self._settle("lost")
        elif isinstance(answer, int):
            if self.kept == ELSEWHERE:
                self.lease_end = end_of(sent_at, self._plan.lease)
            self._settle("ok")
        else:
            self._settle("unknown" if self._repeated else "lost", self._error)

    def _settle(self, outcome: Outcome, error: Error | None = None) -> None:
        self.why = "taken" if outcome == "lost" else None
        self._out.append(Tell("released", error, outcome=outcome))
        if outcome == "lost":
            self.kept = None
        # The process that adopts the hold sets its lease. If it is unknown what became of the hold, its lease ends it.
        self._stray &= self.kept is None or (outcome == "ok" and self.kept != ELSEWHERE)
        self._done()

    def _done(self) -> None:
        """The server has answered. Ends, or first waits for what a stray request may do after the answer."""
        if not self._stray or self.down:
            self._finish()
            return
        self.phase, self._stray, self._queued = "cancelling", False, True
        self._next, self._until = self._now + STRAY, self._now + 3 * STRAY

    def _leave(self, kind: Told, error: Error | None = None, clean: bool = False) -> None:
        """Ends the acquisition without the lock. Unless the server is `clean`, clears it of the requests."""
        unanswered = self.phase != "queued" and self._now > max(self._asked_at, self._heard_at) + WINDOW
        self._out.append(Tell(kind, error or self._error, silent=self.down or unanswered))
        if clean or self._asks == 0 or self._adopts:
            self._finish()
            return
        self.phase, self._pause = "cancelling", FIRST_PAUSE
        self._until = self._asked_at + self._plan.lease + STRAY
        self._request()

    def _finish(self) -> None:
        self.phase = "ended"
        self.pending = self._next = self._until = None
        self._out.append(Tell("ended"))
