"""The README's code and the examples run as they are written."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from support import Server

HOME = Path(__file__).resolve().parents[1]


def run(server: Server, *words: str) -> str:
    environment = {**os.environ, "REDIS_URL": server.url}
    ran = subprocess.run(
        [sys.executable, "-W", "error", *words],
        env=environment,
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert (ran.returncode, ran.stderr) == (0, "")
    return ran.stdout


@pytest.mark.parametrize("page", ["README.md", "../../docs/clients/python.md"])
def test_pages(server: Server, page: str) -> None:
    text = (HOME / page).read_text()
    code = "\n".join(re.findall(r"```python\n(.*?)```", text, re.DOTALL)).replace("redis://localhost:6399", server.url)
    assert run(server, "-c", code)


@pytest.mark.parametrize(
    ("name", "shows"), [("worker_pool", r"\['a', 'b', 'c'\]"), ("leader_election", r"(\w+ led with token \d+\n){3}")]
)
def test_examples(server: Server, name: str, shows: str) -> None:
    assert re.fullmatch(shows, run(server, str(HOME / "examples" / f"{name}.py")).strip() + "\n" * (name[0] == "l"))
