"""The machine's stories, the same for all clients: clients/conformance/machine/README.md is their contract."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from rlock_client import Error
from rlock_client import _wire as wire
from rlock_client._machine import MS, Answer, Failed, Machine, Output, Plan, Send

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
        return machine.take(at, machine.message, line["word"], line["token"])
    if what == "alive":
        return machine.take(at, machine.alive, ns(line["sent"]))
    if what == "close":
        return machine.take(at, machine.lose, "closed")
    if what == "cancel":
        return machine.take(at, machine.cancel, WHY)
    return machine.take(at, getattr(machine, {"down": "link_down", "up": "link_up"}.get(what, what)))


def shown(output: Output, machine: Machine) -> dict[str, Any]:
    if isinstance(output, Send):
        more: dict[str, Any] = {"wait": output.wait_ms} if output.command == "ENQUEUE" else {}
        more |= ({"look": True} if output.look else {}) | ({"lease": output.lease_ms} if output.lease_ms else {})
        return {"send": output.command, "n": output.number, **more}
    if output.what == "acquired":
        return {"guard": output.token}
    if output.what in ("timed_out", "denied", "error"):
        return {"refused": output.what.replace("d_out", "out")}
    if output.what == "released":
        return {"released": output.outcome}
    return {output.what: machine.why if output.what == "lost" else True}


@pytest.mark.parametrize("story", sorted(STORIES.glob("*.jsonl")) or [STORIES], ids=lambda path: path.stem)
def test_story(story: Path) -> None:
    plan, *lines = (json.loads(line) for line in story.read_text().splitlines())
    plan = plan["plan"]
    wait = ns(plan["wait"]) if "wait" in plan else None
    grace = ns(plan["grace"]) if "grace" in plan else None
    flags = {name: plan[name] for name in ("renew", "fenced") if name in plan}
    machine = Machine(Plan(ns(plan["lease"]), wait, response=ns(plan.get("response", 5_000)), grace=grace, **flags))
    timer = None
    for line in lines:
        told = [shown(output, machine) for output in give(machine, line)]
        before, timer = timer, machine.wake_at
        if timer != before:
            told.append({"timer": None if timer is None else timer / MS})
        assert (told, machine.phase) == (line["out"], line["state"]), line
