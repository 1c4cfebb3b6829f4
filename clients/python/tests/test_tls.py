"""Servers that ask clients for certificates, which is what they do by default, and for passwords."""

from __future__ import annotations

import asyncio
import gc
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import redis

from rlock_client import AsyncClient, Client, Unreachable
from support import ROOT, Server, free_port

# In seconds: on a busy machine, a handshake of TLS takes longer than it should.
PATIENCE = 20
README = Path(__file__).resolve().parents[1] / "README.md"


class Secured:
    """A server for users with a password and a certificate, and the files of a client."""

    def __init__(self, folder: Path) -> None:
        subprocess.run(["sh", str(ROOT / "scripts/certificates.sh"), str(folder)], check=True)
        self.folder, self.port = folder, free_port()
        words = ["--tls-port", str(self.port), "--tls-auth-clients", "yes", "--tls-ca-cert-file", f"{folder}/ca.crt"]
        words += ["--tls-cert-file", f"{folder}/server.crt", "--tls-key-file", f"{folder}/server.key"]
        self.server = Server(*words, "--user", "app", "on", ">se@cret", "~*", "&*", "+@all")
        self.files = {"ssl_ca_certs": "ca.crt", "ssl_certfile": "client.crt", "ssl_keyfile": "client.key"}

    def settings(self, *names: str) -> dict[str, Any]:
        return {name: f"{self.folder}/{self.files[name]}" for name in names or self.files}

    def url(self, *names: str) -> str:
        query = "&".join(f"{name}={path}" for name, path in self.settings(*names).items())
        return f"rediss://app:se%40cret@localhost:{self.port}/0?{query}"


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    secured = Secured(tmp_path_factory.mktemp("tls"))
    yield secured
    secured.server.stop()


def test_the_readme(secured: Secured) -> None:
    (code,) = re.findall(r"```python tls\n(.*?)```", README.read_text(), re.DOTALL)
    code = code.replace("redis.example", "localhost").replace("6380", str(secured.port))
    code = code.replace("Client(app)", f"Client(app, response_timeout={PATIENCE})", 1)
    code += 'with client, client.lock("shown") as held:\n    print(held.check() > 0)\n'
    # asyncio closes the socket of TLS later than the engine ends.
    words = [sys.executable, "-W", "error", "-W", "ignore::ResourceWarning", "-c", code]
    environment = {"REDIS_PASSWORD": "se@cret"}
    ran = subprocess.run(
        words, cwd=secured.folder, env=environment, capture_output=True, text=True, timeout=30, check=False
    )
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "True\n", "")


def test_a_url(secured: Secured, name: str) -> None:
    with Client(secured.url(), response_timeout=PATIENCE) as client, client.lock(name, wait=PATIENCE) as held:
        held.check()
        assert secured.server.redis.exists(name)
        assert {one["user"] for one in secured.server.clients()} == {"app"}


def test_asyncio(secured: Secured, name: str) -> None:
    app = redis.Redis(
        host="localhost", port=secured.port, username="app", password="se@cret", ssl=True, **secured.settings()
    )

    async def lock() -> None:
        for server in (app, secured.url()):
            async with (
                AsyncClient(server, response_timeout=PATIENCE) as client,
                client.lock(name, wait=PATIENCE) as held,
            ):
                held.check()

    asyncio.run(lock())
    app.close()


# asyncio closes the socket of a handshake that failed later; the engine ends before.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_refusals(secured: Secured, name: str) -> None:
    for names in (["ssl_ca_certs"], ["ssl_certfile", "ssl_keyfile"]):
        with Client(secured.url(*names)) as client, pytest.raises(Unreachable):
            client.lock(name).try_acquire()
    gc.collect()
