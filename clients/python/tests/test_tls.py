"""Servers that ask clients for certificates, which is what they do by default, and for passwords."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import re
import signal
import socket
import ssl
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import redis

from rlock_client import AsyncClient, Client, Unreachable
from support import ROOT, Server, eventually, free_port

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


@pytest.fixture(autouse=True)
def nothing_unclosed() -> Iterator[None]:
    """A closed client leaves no socket open. Python's warning of one fails the test."""
    yield
    gc.collect()


def test_the_readme(secured: Secured) -> None:
    (code,) = re.findall(r"```python tls\n(.*?)```", README.read_text(), re.DOTALL)
    code = code.replace("redis.example", "localhost").replace("6380", str(secured.port))
    code = code.replace("Client(app)", f"Client(app, response_timeout={PATIENCE})", 1)
    code += 'with client, client.lock("shown") as held:\n    print(held.check() > 0)\n'
    words = [sys.executable, "-W", "error", "-c", code]
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


def test_refusals(secured: Secured, name: str) -> None:
    for names in (["ssl_ca_certs"], ["ssl_certfile", "ssl_keyfile"]):
        with Client(secured.url(*names)) as client, pytest.raises(Unreachable):
            client.lock(name).try_acquire()


class Mute:
    """A server of TLS that completes handshakes, and then neither answers nor closes."""

    def __init__(self, folder: Path) -> None:
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.load_cert_chain(folder / "server.crt", folder / "server.key")
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"rediss://localhost:{self._listener.getsockname()[1]}?ssl_ca_certs={folder}/ca.crt"
        self.accepted: list[ssl.SSLSocket] = []
        self._thread = threading.Thread(target=self._accept)
        self._thread.start()

    def _accept(self) -> None:
        while True:
            try:
                one, _ = self._listener.accept()
            except OSError:
                return
            with contextlib.suppress(OSError):
                self.accepted.append(self._context.wrap_socket(one, server_side=True))

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)  # wakes the thread
        self._thread.join()
        for one in [self._listener, *self.accepted]:
            one.close()


def test_a_server_that_hangs_after_the_handshake(secured: Secured, name: str) -> None:
    """A failed log-in closes its socket, although the server never does its part in the end of TLS."""
    mute = Mute(secured.folder)
    try:
        with Client(mute.url, response_timeout=1) as client:
            with pytest.raises(Unreachable, match="no connection in time"):
                client.lock(name).acquire()
            eventually(lambda: len(mute.accepted) > 1, PATIENCE)  # the client tries again
            mute.accepted[0].settimeout(5)
            with contextlib.suppress(ConnectionError):
                while socket.socket.recv(mute.accepted[0], 4096):  # not that of TLS, which ends earlier
                    pass
    finally:
        mute.close()


@pytest.mark.parametrize("stage", ["handshake", "use"])
def test_a_close_while_the_server_hangs(secured: Secured, name: str, stage: str) -> None:
    with Client(secured.url(), response_timeout=PATIENCE if stage == "use" else 0.3) as client:
        if stage == "use":
            client.lock(name, wait=PATIENCE).acquire().release()
        secured.server.process.send_signal(signal.SIGSTOP)
        if stage == "handshake":
            with pytest.raises(Unreachable):
                client.lock(name).try_acquire()
    secured.server.process.send_signal(signal.SIGCONT)
