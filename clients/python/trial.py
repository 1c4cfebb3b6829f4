"""Tries the installed package in a fresh project: both faces, against a server of its own."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import time

from rlock_client import AsyncClient, Client, Denied, Guard, LockLost, __version__


def start(port: int) -> subprocess.Popen[bytes]:
    server, module = os.environ.get("REDIS_SERVER", "redis-server"), os.environ["RLOCK_MODULE"]
    words = [server, "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--loadmodule", module]
    return subprocess.Popen(words, stdout=subprocess.DEVNULL)


def threads(url: str) -> None:
    with Client(url, wait=10, session_grace=2) as client:
        with client.lock("trial", fenced=True) as held:
            guard: Guard = held
            print(f"rlock-client {__version__}: token {guard.token}, {guard.check():.0f} s left")
            try:
                client.lock("trial").try_acquire()
            except Denied as error:
                print(error)
        try:
            with client.lock("trial", lease=1) as held:
                client.lock("trial").force_release()
                held.lost.wait(5)
        except LockLost as error:
            print(error)


async def tasks(url: str) -> None:
    async with AsyncClient(url, wait=10) as client, client.read_write_lock("pages").read() as held:
        print("asyncio:", held.owner.decode().split("@")[0])


def main() -> None:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port: int = one.getsockname()[1]
    server = start(port)
    try:
        deadline = time.monotonic() + 10
        while True:
            with socket.socket() as one:
                if one.connect_ex(("127.0.0.1", port)) == 0:
                    break
            if time.monotonic() > deadline:
                raise SystemExit("the server does not start")
            time.sleep(0.02)
        threads(f"redis://127.0.0.1:{port}")
        asyncio.run(tasks(f"redis://127.0.0.1:{port}"))
    finally:
        server.kill()
        server.wait()


if __name__ == "__main__":
    main()
