"""The page on redis-py's Lock, beside that; as a program, `old` or `new` counts under one lock for some seconds."""

from __future__ import annotations

import os
import random
import re
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import redis
from redis.exceptions import LockNotOwnedError, ResponseError

from rlock_client import NotALock, Timeout
from support import Server

PAGE = Path(__file__).resolve().parents[3] / "docs/clients/from-redis-py-lock.md"


def blocks(page: Path, language: str) -> str:
    return "".join(re.findall(rf"```{language}\n(.*?)```", page.read_text(), re.DOTALL))


def page() -> dict[str, Any]:
    """What the page's code defines, after it ran."""
    names: dict[str, Any] = {}
    exec(blocks(PAGE, "python"), names)
    return names


def contend(side: str) -> None:
    names, holds, end = page(), 0, time.monotonic() + 3
    r: Any = redis.Redis.from_url(os.environ["REDIS_URL"])
    locks: dict[str, Callable[[], Any]] = {
        "old": lambda: r.lock("ways", timeout=10, blocking_timeout=30, sleep=0.01),
        "new": lambda: names["acquire_beside_redis_py"](names["client"].lock("ways"), wait=30),
    }
    while holds < 5 or time.monotonic() < end:
        with locks[side]():
            count = int(r.get("count") or 0)
            time.sleep(0.002)
            r.set("count", count + 1)
            holds += 1
        time.sleep(random.uniform(0, 0.02))
    names["client"].close()
    print("holds", holds)


def test_both_exclude_each_other(own_server: Server) -> None:
    words, environment = [sys.executable, __file__], {**os.environ, "REDIS_URL": own_server.url}
    sides = [
        subprocess.Popen([*words, side], env=environment, stdout=subprocess.PIPE, text=True)
        for side in ("old", "old", "new", "new")
    ]
    holds = [int(side.communicate(timeout=60)[0].split("holds ")[1]) for side in sides]
    assert int(own_server.redis.get("count")) == sum(holds), "two processes were at work at the same time"


def test_each_answers_to_a_key_of_the_other(own_server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REDIS_URL", own_server.url)
    names, r = page(), own_server.redis
    acquire, lock, theirs = (
        names["acquire_beside_redis_py"],
        names["client"].lock("facts"),
        r.lock("facts", timeout=10),
    )
    assert theirs.acquire()
    for call in (lock.try_acquire, lock.acquire, lock.locked, lock.info, lock.force_release):
        with pytest.raises(NotALock):
            call()
    with pytest.raises((NotALock, Timeout)):
        acquire(lock, 0.1)
    r.pexpire("facts", 50)  # as if its work had taken longer
    held = acquire(lock, 5)
    for call in (lambda: theirs.extend(1), theirs.locked, theirs.owned, theirs.release):
        with pytest.raises(ResponseError, match="WRONGTYPE"):
            call()
    assert not r.lock("facts").acquire(blocking=False)
    held.check()
    held.release()
    names["client"].close()
    assert theirs.acquire(blocking=False)
    r.delete("facts")
    with pytest.raises(LockNotOwnedError):
        theirs.release()


if __name__ == "__main__":
    contend(sys.argv[1])
