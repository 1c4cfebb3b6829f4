"""The machine alone: inputs with the time, and exactly what it returns. Times are in ms."""

from __future__ import annotations

from typing import Any

import pytest

from rlock_client import Error
from rlock_client._machine import MS, Failed, Failure, Granted, Machine, Plan, Send, Tell, Waits

WHY = Error("test")
UNANSWERED = Failed("unanswered", WHY)


class Run:
    """A machine with a lease of 30 s, in milliseconds."""

    def __init__(self, wait: int | None = 8_000, up: bool = True, **more: Any) -> None:
        plan = Plan(30_000 * MS, None if wait is None else wait * MS, response=5_000 * MS, **more)
        self.machine = Machine(plan, up)
        self.timer: int | None = None

    def at(self, now: int, what: str, *arguments: Any) -> list[Any]:
        """What it returns, and its timer where that has changed."""
        if what == "reply":
            number, sent_at, answer = arguments
            arguments = (number, sent_at * MS, answer)
        outputs = self.machine.take(now * MS, getattr(self.machine, what), *arguments)
        before, self.timer = self.timer, self.machine.wake_at
        timer = [("timer", None if self.timer is None else self.timer / MS)]
        return [short(one) for one in outputs] + (timer if self.timer != before else [])

    def held(self, sent_at: int = 0) -> Run:
        assert self.at(sent_at, "start")[0][0] == "send"
        assert ("acquired", 0) in self.at(sent_at, "reply", 1, sent_at, Granted(0))
        return self


def short(output: Any) -> Any:
    if isinstance(output, Send):
        return ("send", output.command, *((output.wait_ms,) if output.command == "ENQUEUE" else ()))
    assert isinstance(output, Tell)
    return (output.what, output.token if output.what == "acquired" else output.outcome)


def test_a_free_lock_takes_one_request() -> None:
    run = Run()
    assert run.at(0, "start") == [("send", "ENQUEUE", 8_000), ("timer", 8_000)]
    # The lease counts from the sending: 30 s less 1 % and 2 ms.
    assert run.at(7, "reply", 1, 3, Granted(9)) == [("acquired", 9), ("timer", 10_003)]
    assert run.machine.end == (3 + 29_698) * MS


def test_asking_once() -> None:
    run = Run(wait=0)
    assert run.at(0, "start") == [("send", "ACQUIRE"), ("timer", 10_000)]
    assert run.at(1, "reply", 1, 0, None) == [("denied", "ok"), ("ended", "ok"), ("timer", None)]


def test_a_grant_is_confirmed_and_the_lease_counts_from_the_renewal() -> None:
    run = Run()
    run.at(0, "start")
    assert run.at(1, "reply", 1, 0, Waits()) == [("timer", 1_001)]
    assert run.at(500, "message", "granted", 7) == [("send", "RENEW"), ("timer", 8_000)]
    assert run.at(502, "reply", 2, 501, 1) == [("acquired", 7), ("timer", 10_501)]


def test_a_grant_may_come_before_the_reply() -> None:
    run = Run()
    run.at(0, "start")
    assert run.at(1, "message", "granted", 0) == [("send", "RENEW")]
    assert run.at(2, "reply", 1, 0, Waits()) == []
    assert run.at(3, "reply", 2, 1, 1)[0] == ("acquired", 0)


def test_a_fenced_grant_is_confirmed_by_an_acquire() -> None:
    run = Run(fenced=True)
    run.at(0, "start")
    run.at(1, "reply", 1, 0, Waits())
    assert run.at(2, "message", "granted", 7)[0] == ("send", "ACQUIRE")
    assert run.at(3, "reply", 2, 2, Granted(8))[0] == ("acquired", 8)


def test_a_confirmation_that_fails_asks_again_with_what_is_left() -> None:
    run = Run()
    run.at(0, "start")
    run.at(1, "reply", 1, 0, Waits())
    run.at(6_000, "message", "granted", 0)
    assert run.at(6_001, "reply", 2, 6_000, 0) == [("send", "ENQUEUE", 1_999)]


def test_silence_is_asked_into() -> None:
    run = Run(wait=None)
    run.at(0, "start")
    run.at(0, "reply", 1, 0, Waits())
    outputs = run.at(1_000, "tick")
    assert outputs == [("send", "ENQUEUE", 0), ("timer", None)]
    assert run.at(1_000, "reply", 2, 1_000, Waits(12_000 * MS)) == [("timer", 13_000)]
    run.at(13_000, "tick")
    assert run.at(13_000, "reply", 3, 13_000, Waits(None)) == [("timer", 43_000)]


def test_a_wait_ends_at_its_time_and_leaves_nothing() -> None:
    run = Run()
    run.at(0, "start")
    run.at(1, "reply", 1, 0, Waits())
    run.machine._next = None
    assert run.at(8_000, "tick")[:3] == [("timed_out", "ok"), ("send", "CANCEL"), ("send", "RELEASE")]
    assert run.at(8_001, "reply", 3, 8_000, None)[0] == ("ended", "ok")


def test_what_is_left_of_a_wait_is_never_nothing() -> None:
    run = Run()
    run.at(0, "start")
    run.at(1, "reply", 1, 0, Failed("passing", WHY))
    assert ("send", "ENQUEUE", 1) in Run(wait=1).at(0, "start")
    machine = Machine(Plan(1_000 * MS, 1), True)
    send = machine.take(0, machine.start)[0]
    assert isinstance(send, Send)
    assert send.wait_ms == 1


def test_a_lost_link_keeps_the_place_and_asks_again() -> None:
    run = Run()
    run.at(0, "start")
    run.at(1, "reply", 1, 0, Waits())
    assert run.at(100, "link_down") == [("timer", 8_000)]
    assert run.at(3_000, "link_up") == [("send", "ENQUEUE", 5_000)]


def test_without_a_link_nothing_is_sent_and_the_wait_ends() -> None:
    run = Run(up=False)
    assert run.at(0, "start") == [("timer", 8_000)]
    assert run.at(8_000, "tick") == [("timed_out", "ok"), ("ended", "ok"), ("timer", None)]


@pytest.mark.parametrize(
    ("failure", "outputs"),
    [
        ("final", [("error", "ok"), ("ended", "ok"), ("timer", None)]),
        ("gone", [("error", "ok"), ("ended", "ok"), ("timer", None)]),
        ("passing", [("timer", 21)]),
        ("draining", [("timer", 21)]),
        ("unanswered", [("timer", 21)]),
        ("unsent", [("timer", 21)]),
    ],
)
def test_failures_of_the_first_request(failure: Failure, outputs: list[Any]) -> None:
    run = Run()
    run.at(0, "start")
    assert run.at(1, "reply", 1, 0, Failed(failure, WHY)) == outputs


def test_asking_once_ends_with_the_error() -> None:
    run = Run(wait=0)
    run.at(0, "start")
    run.at(1, "reply", 1, 0, UNANSWERED)
    assert run.at(10_000, "tick")[:2] == [("error", "ok"), ("send", "RELEASE")]


def test_renewals() -> None:
    run = Run().held()
    assert run.at(10_000, "tick") == [("send", "RENEW"), ("timer", 29_698)]
    assert run.at(10_002, "reply", 2, 10_000, 1) == [("renewed", "ok"), ("timer", 20_000)]
    assert run.machine.end == 39_698 * MS


def test_a_failed_renewal_is_tried_again_soon_and_loses_nothing() -> None:
    run = Run().held()
    run.at(10_000, "tick")
    assert run.at(12_000, "reply", 2, 10_000, UNANSWERED) == [("renewal_failed", "ok"), ("timer", 12_039.0625)]
    assert run.machine.phase == "held"
    run.at(12_040, "tick")
    assert run.at(12_041, "reply", 3, 12_040, 1)[0] == ("renewed", "ok")


def test_each_way_to_lose_a_lock() -> None:
    run = Run().held()
    run.at(10_000, "tick")
    assert run.at(10_001, "reply", 2, 10_000, 0)[:2] == [("lost", "ok"), ("ended", "ok")]
    assert run.machine.why == "taken"
    run = Run().held()
    assert run.at(29_698, "tick") == [("lost", "ok"), ("timer", None)]
    assert run.machine.why == "expired"
    run = Run().held()
    assert run.at(5, "lose", "closed")[0] == ("lost", "ok")
    assert run.machine.why == "closed"


def test_lost_is_for_good() -> None:
    run = Run().held()
    run.at(10_000, "tick")
    # The confirmation lay in a buffer while the process was stopped.
    assert run.at(29_698, "reply", 2, 10_000, 1) == [("lost", "ok"), ("timer", None)]
    assert run.at(29_699, "link_up") == []
    assert run.machine.phase == "lost"
    # The server may have it still.
    assert run.at(30_000, "release")[0] == ("send", "RELEASE")


def test_a_reply_older_than_the_lease_is_confirmed() -> None:
    run = Run(wait=None)
    run.at(0, "start")
    assert run.at(29_698, "reply", 1, 0, Granted(0)) == [("send", "RENEW")]
    assert run.at(29_700, "reply", 2, 29_699, 0)[0] == ("send", "ENQUEUE", 0)


def test_after_a_reconnect_holds_are_renewed_at_once() -> None:
    run = Run().held()
    assert run.at(100, "link_down") == [("timer", 29_698)]
    assert run.at(200, "link_up")[0] == ("send", "RENEW")


@pytest.mark.parametrize(("answer", "outcome"), [(1, "ok"), (0, "ok"), (None, "lost")])
def test_releases(answer: int | None, outcome: str) -> None:
    run = Run().held()
    assert run.at(5, "release")[0] == ("send", "RELEASE")
    assert run.at(6, "reply", 2, 5, answer)[0] == ("released", outcome)
    assert run.machine.phase == "ended"


def test_a_repeated_release_that_finds_nothing_is_unknown() -> None:
    run = Run().held()
    run.at(5, "release")
    run.at(6, "reply", 2, 5, UNANSWERED)
    run.at(6, "link_down")
    assert run.at(50, "link_up")[0] == ("send", "RELEASE")
    assert run.at(51, "reply", 3, 50, None)[0] == ("released", "unknown")


def test_a_release_is_unknown_at_the_end_of_the_lease() -> None:
    run = Run().held()
    run.at(5, "release")
    run.at(6, "reply", 2, 5, UNANSWERED)
    run.at(6, "link_down")
    assert run.at(29_698, "tick")[0] == ("released", "unknown")


def test_a_request_under_way_is_followed_by_a_second_release() -> None:
    run = Run()
    run.at(0, "start")
    run.at(1, "reply", 1, 0, UNANSWERED)
    run.at(1, "link_down")
    run.at(2, "link_up")
    run.at(3, "reply", 2, 2, Granted(0))
    run.at(5, "release")
    assert run.at(6, "reply", 3, 5, 1) == [("released", "ok"), ("timer", 1_006)]
    assert run.at(1_006, "tick")[:2] == [("send", "CANCEL"), ("send", "RELEASE")]
    assert run.at(1_007, "reply", 5, 1_006, None)[0] == ("ended", "ok")


def test_cancelling_at_each_step() -> None:
    left = [("error", "ok"), ("send", "CANCEL"), ("send", "RELEASE")]
    run = Run()
    run.at(0, "start")
    assert run.at(1, "cancel", None)[:3] == left
    run = Run()
    run.at(0, "start")
    run.at(1, "reply", 1, 0, Waits())
    assert run.at(2, "cancel", None)[:3] == left
    run = Run()
    run.at(0, "start")
    run.at(1, "message", "granted", 0)
    assert run.at(2, "cancel", None)[:3] == left
    assert run.at(3, "reply", 2, 1, 1) == []
    assert Run().held().at(1, "cancel", None) == []


def test_messages_to_those_who_do_not_wait_change_nothing() -> None:
    run = Run().held()
    for word in ("granted", "timeout", "dropped"):
        assert run.at(5, "message", word, 0) == []


def test_who_is_dropped_asks_again() -> None:
    run = Run()
    run.at(0, "start")
    run.at(1, "reply", 1, 0, Waits())
    assert run.at(2, "message", "dropped", 0) == [("timer", 22)]
    assert run.at(22, "tick")[0] == ("send", "ENQUEUE", 7_978)


def test_only_the_clock_ends_the_wait() -> None:
    run = Run()
    run.at(0, "start")
    run.at(1, "reply", 1, 0, Waits())
    assert run.at(7_999, "message", "timeout", 0) == [("timer", 8_000)]
    assert run.at(8_000, "tick")[0] == ("timed_out", "ok")


def test_a_lease_without_renewal() -> None:
    run = Run(renew=False)
    run.at(0, "start")
    assert run.at(0, "reply", 1, 0, Granted(0)) == [("acquired", 0), ("timer", 29_698)]
    run.at(1, "link_down")
    assert run.at(2, "link_up") == []


def test_a_wait_that_times_out_tells_a_silent_server_from_another_owner() -> None:
    def ends(*inputs: Any) -> bool:
        run = Run()
        run.at(0, "start")
        for now, what, *arguments in inputs:
            run.at(now, what, *arguments)
        outputs = run.machine.take(8_000 * MS, run.machine.tick)
        told = next(one for one in outputs if isinstance(one, Tell) and one.what == "timed_out")
        return told.silent

    queued = (1, "reply", 1, 0, Waits())
    assert ends()
    assert not ends(queued)
    assert ends(queued, (500, "link_down"))
    # Asked again, or told by a message, a moment before the end.
    assert not ends(queued, (7_950, "tick"))
    assert not ends(queued, (7_999, "message", "timeout", 0))
    assert ends(queued, (4_000, "message", "dropped", 0))
