"""The machine's stories, the same for all clients: clients/conformance/machine/README.md is their contract."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from rlock_client import Error
from rlock_client import _wire as wire
from rlock_client._machine import MS, Answer, Failed, Machine, Output, Plan, Send, Tell, Waits

STORIES = Path(os.environ.get("RLOCK_STORIES", Path(__file__).resolve().parents[2] / "conformance/machine"))
WHY = Error("test")


def ns(ms: float) -> int:
    return round(ms * MS)


def answer(line: dict[str, Any]) -> Answer:
    if "error" in line:
        return Failed(line["error"], WHY)
    value = line["value"]
    return wire.answer("ENQUEUE", value, line.get("holder_lease")) if isinstance(value, list) else value


def give(machine: Machine, line: dict[str, Any]) -> list[Output]:
    at, what = ns(line["at"]), line["in"]
    if what == "reply":
        return machine.take(at, machine.reply, line["n"], ns(line["sent"]), answer(line))
    if what == "message":
        token, lease = line.get("token", 0), ns(line.get("lease", 0))
        return machine.take(at, machine.message, line["word"], token, lease, line.get("current", True))
    if what == "alive":
        return machine.take(at, machine.alive, ns(line["sent"]))
    if what == "close":
        return machine.take(at, machine.lose, "closed")
    names = {"down": "link_down", "up": "link_up", "cancel": "abandon"}
    return machine.take(at, getattr(machine, names.get(what, what)))


def shown(output: Output, machine: Machine) -> dict[str, Any]:
    if isinstance(output, Send):
        more: dict[str, Any] = {"wait": output.wait_ms} if output.command == "ENQUEUE" else {}
        more |= ({"look": True} if output.look else {}) | ({"lease": output.lease_ms} if output.lease_ms else {})
        more |= {"session": False} if output.keep else {}
        return {"send": output.command, "n": output.number, **more}
    if output.what == "acquired":
        return {"guard": output.token}
    if output.what in ("timed_out", "denied", "error", "unheld"):
        return {"refused": {"timed_out": "timeout", "unheld": "lost"}.get(output.what, output.what)}
    if output.what == "released":
        return {"released": output.outcome}
    return {output.what: machine.why if output.what == "lost" else True}


@pytest.mark.parametrize("story", sorted(STORIES.rglob("*.jsonl")) or [STORIES], ids=lambda path: path.stem)
def test_story(story: Path) -> None:
    plan, *lines = (json.loads(line) for line in story.read_text().splitlines())
    plan = plan["plan"]
    terms: Any = {name: value if isinstance(value, bool) else ns(value) for name, value in plan.items()}
    machine = Machine(Plan(**terms))
    timer = None
    for line in lines:
        told = [shown(output, machine) for output in give(machine, line)]
        before, timer = timer, machine.wake_at
        if timer != before:
            told.append({"timer": None if timer is None else timer / MS})
        assert (told, machine.phase) == (line["out"], line["state"]), line


def test_a_wait_that_times_out_tells_a_silent_server_from_another_owner() -> None:
    def ends(*inputs: Any) -> bool:
        machine = Machine(Plan(30_000 * MS, 8_000 * MS, response=5_000 * MS), True)
        machine.take(0, machine.start)
        for now, what, *arguments in inputs:
            machine.take(now * MS, getattr(machine, what), *arguments)
        outputs = machine.take(8_000 * MS, machine.tick)
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
