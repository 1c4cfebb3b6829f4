"""Servers with the module, and a proxy whose connections can be cut or held."""

from __future__ import annotations

import contextlib
import os
import random
import socket
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import redis

ROOT = Path(__file__).resolve().parents[3]
MODULE = os.environ.get("RLOCK_MODULE", str(ROOT / "target/release/librlock.so"))
SERVER = os.environ.get("RLOCK_TEST_SERVER") or os.environ.get("REDIS_SERVER") or "redis-server"


def free_port() -> int:
    """Is below the ports of outgoing connections, as a cluster's bus, 10,000 above: one of those can take it first."""
    while True:
        port = random.randrange(10_000, 22_700)
        with socket.socket() as one, contextlib.suppress(OSError):
            one.bind(("127.0.0.1", port))
            return port


def eventually(true: Callable[[], Any], within: float = 10.0) -> Any:
    """Polls for a true answer, also while a Sentinel kills the connections of the server that it promotes."""
    deadline = time.monotonic() + within
    while True:
        with contextlib.suppress(redis.ConnectionError):
            if value := true():
                return value
        assert time.monotonic() < deadline, "not in time"
        time.sleep(0.005)


class Server:
    def __init__(self, *options: str, module: bool = True, port: int | None = None) -> None:
        self.port = port or free_port()
        words = [SERVER, "--port", str(self.port), "--bind", "127.0.0.1", "--save", "", *options]
        words += ["--loadmodule", MODULE] if module and "--sentinel" not in options else []
        self.process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.url = f"redis://127.0.0.1:{self.port}"
        self.redis: Any = redis.Redis(port=self.port, socket_timeout=5, protocol=2)
        try:
            eventually(self._answers)
        except BaseException:
            self.stop()
            raise

    def _answers(self) -> bool:
        try:
            return bool(self.redis.ping())
        except redis.AuthenticationError:
            return True
        except (redis.ConnectionError, redis.TimeoutError):
            return False

    def do(self, *words: Any) -> Any:
        return self.redis.execute_command(*words)

    def waiters(self, lock: str) -> int:
        info = self.do("RLOCK.INFO", lock)
        return int(dict(zip(info[::2], info[1::2], strict=True))[b"waiter-count"])

    def clients(self) -> list[dict[str, str]]:
        """The connections of this package."""
        return [one for one in self.redis.client_list() if "@" in one["name"]]

    def stop(self) -> None:
        self.redis.close()
        self.process.kill()
        self.process.wait()


class Proxy:
    """Passes bytes on. `cut` closes all connections; while `holding`, replies stay in it."""

    def __init__(self, port: int) -> None:
        self.target = port
        self.holding = threading.Event()
        self.refusing = False
        self.eat: Callable[[bytes], bool] = lambda data: False  # requests whose replies are eaten and cut off
        self._pairs: list[tuple[socket.socket, socket.socket]] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self.url = f"redis://127.0.0.1:{self.port}"
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            if self.refusing:
                client.close()
                continue
            try:
                server = socket.create_connection(("127.0.0.1", self.target))
            except OSError:
                client.close()
                continue
            pair = (client, server)
            self._pairs.append(pair)
            threading.Thread(target=self._up, args=pair, daemon=True).start()
            threading.Thread(target=self._down, args=pair, daemon=True).start()

    def _up(self, client: socket.socket, server: socket.socket) -> None:
        try:
            while data := client.recv(65536):
                if self.eat(data):
                    client.shutdown(socket.SHUT_RDWR)
                    server.sendall(data)
                    time.sleep(0.02)
                    break
                server.sendall(data)
        except OSError:
            pass
        self._close(client, server)

    def _down(self, client: socket.socket, server: socket.socket) -> None:
        try:
            while data := server.recv(65536):
                while self.holding.is_set():
                    time.sleep(0.005)
                client.sendall(data)
        except OSError:
            pass
        self._close(client, server)

    def _close(self, *pair: socket.socket) -> None:
        for one in pair:
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()

    def cut(self) -> None:
        pairs, self._pairs = self._pairs, []
        for pair in pairs:
            self._close(*pair)

    def close(self) -> None:
        self.refusing = True
        self._listener.close()
        self.cut()
