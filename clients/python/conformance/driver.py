"""The driver program of the conformance suite; clients/conformance/PROTOCOL.md is its contract."""

from __future__ import annotations

import asyncio
import ctypes
import json
import os
import sys
import threading
import time
from typing import Any

import redis

from rlock_client import AsyncClient, Error, Event, Invalid, Timeout, Unreachable, __version__
from rlock_client import _client as sync
from rlock_client._clock import now

CAPABILITIES = [
    "read_write",
    "downgrade",
    "fair",
    "fenced",
    "reenter",
    "owner",
    "cancel",
    "info",
    "force_release",
    "hook",
    "busy",
]
CAPABILITIES += ["fork", "sentinel", "cluster", "semaphore", "session", "one_trip", "at_least", "max_hold", "detach"]
CAPABILITIES += ["cluster_waits", "lock_all", "session_moves"]
TEXT, TEXTS, NUMBER, TRUTH = "text", "texts", "number", "truth"
FIELDS: dict[str, tuple[dict[str, str], dict[str, str]]] = {
    "hello": ({"protocol": NUMBER}, {}),
    "connect": ({"client": TEXT, "url": TEXT}, {"name": TEXT, "lease_ms": NUMBER, "response_ms": NUMBER}),
    "acquire": (
        {"client": TEXT, "guard": TEXT, "lock": TEXT},
        {
            "kind": TEXT,
            "try": TRUTH,
            "timeout_ms": NUMBER,
            "lease_ms": NUMBER,
            "fair": TRUTH,
            "fenced": TRUTH,
            "permits": NUMBER,
            "session_ms": NUMBER,
            "owner": TEXT,
            "at_least_ms": NUMBER,
            "max_hold_ms": NUMBER,
        },
    ),
    "acquire_all": ({"client": TEXT, "guard": TEXT, "locks": TEXTS}, {"try": TRUTH, "timeout_ms": NUMBER}),
    "cancel": ({"acquire": NUMBER}, {}),
    "check": ({"guard": TEXT}, {}),
    "reenter": ({"guard": TEXT, "as": TEXT}, {}),
    "release": ({"guard": TEXT}, {}),
    "downgrade": ({"guard": TEXT, "as": TEXT}, {}),
    "detach": ({"guard": TEXT}, {}),
    "adopt": ({"client": TEXT, "guard": TEXT, "lock": TEXT, "owner": TEXT}, {"kind": TEXT, "session_ms": NUMBER}),
    "locked": ({"client": TEXT, "lock": TEXT}, {"kind": TEXT}),
    "info": ({"client": TEXT, "lock": TEXT}, {"kind": TEXT}),
    "force_release": ({"client": TEXT, "lock": TEXT}, {"kind": TEXT}),
    "busy": ({"ms": NUMBER}, {}),
    "fork": ({"client": TEXT, "guard": TEXT, "lock": TEXT}, {}),
    "close": ({"client": TEXT}, {"within_ms": NUMBER}),
    "exit": ({}, {}),
}
output = threading.Lock()


def write(**fields: Any) -> None:
    line = json.dumps(fields, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"
    with output:
        sys.stdout.buffer.write(line)
        sys.stdout.buffer.flush()


def has_type(value: Any, kind: str) -> bool:
    if kind == TEXTS:
        return isinstance(value, list) and all(isinstance(one, str) for one in value)
    if kind == NUMBER:
        return isinstance(value, (int, float)) and not isinstance(value, bool)
    return isinstance(value, str if kind == TEXT else bool)


def check_fields(request: dict[str, Any]) -> None:
    if request["do"] not in FIELDS:
        raise Invalid(f"unknown request {request['do']}")
    needed, optional = FIELDS[request["do"]]
    fields = {name: value for name, value in request.items() if name not in ("id", "do")}
    for name in needed:
        if name not in fields:
            raise Invalid(f"the field {name} is missing")
    for name, value in fields.items():
        kind = {**needed, **optional}.get(name)
        if kind is None or not has_type(value, kind):
            raise Invalid(f"the field {name} is unknown or of another type")


class Driver:
    def __init__(self) -> None:
        self.clients: dict[str, AsyncClient] = {}
        self.guards: dict[str, Any] = {}
        self.used: set[str] = set()
        self.released: set[str] = set()  # what becomes of their locks later is not theirs
        self.acquires: dict[float, asyncio.Task[None]] = {}
        self.tasks: set[asyncio.Task[None]] = set()
        self.over = asyncio.Event()

    def client(self, request: dict[str, Any]) -> AsyncClient:
        if request["client"] not in self.clients:
            raise Invalid(f"unknown client {request['client']}")
        return self.clients[request["client"]]

    def guard(self, request: dict[str, Any], end: bool = False) -> Any:
        if request["guard"] not in self.guards:
            raise Invalid(f"unknown guard {request['guard']}")
        return self.guards.pop(request["guard"]) if end else self.guards[request["guard"]]

    def new(self, handle: str) -> None:
        if handle in self.used:
            raise Invalid(f"the handle {handle} was used before")
        self.used.add(handle)

    def keep(self, handle: str, guard: Any) -> None:
        self.guards[handle] = guard

        async def watch() -> None:
            nonlocal guard
            await guard.lost.wait()
            why = next(one.machine.why for one in guard._ones if one.machine.why)
            if why == "closed":
                # A guard that is dropped is released.
                del guard
                self.guards.pop(handle, None)
            if handle not in self.released:
                write(event="lost", guard=handle, why=why, at=now())

        self.start(watch())

    def start(self, work: Any) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)
        return task

    def lock(self, request: dict[str, Any]) -> Any:
        client, kind = self.client(request), request.get("kind", "lock")
        options: dict[str, Any] = {}
        if "lease_ms" in request:
            options = {"lease": request["lease_ms"] / 1000, "renew": False}
        if "session_ms" in request:
            options["session_grace"] = request["session_ms"] / 1000
        for name in ("at_least", "max_hold"):
            if f"{name}_ms" in request:
                options[name] = request[f"{name}_ms"] / 1000
        if "owner" in request and request["do"] != "adopt":
            options["owner"] = request["owner"]
        fair, fenced = request.get("fair", False), request.get("fenced", False)
        if kind == "lock":
            return client.lock(request["lock"], fair=fair, fenced=fenced, **options)
        if kind == "permit":
            return client.semaphore(request["lock"], request.get("permits", 1), **options)
        lock = client.read_write_lock(request["lock"], **options)
        if kind == "write" and not fair:
            return lock.write(fenced=fenced)
        if kind == "read" and not fair and not fenced:
            return lock.read()
        raise Invalid(f"there is no such lock: {request}")

    def hear(self, request: dict[str, Any], started: int) -> None:
        task = self.start(self.serve(request, started))
        if request.get("do") in ("acquire", "acquire_all"):
            self.acquires[request["id"]] = task
            task.add_done_callback(lambda _: self.acquires.pop(request["id"], None))

    async def serve(self, request: dict[str, Any], started: int) -> None:
        answer = {"id": request.get("id"), "ok": True, "from": started}
        try:
            check_fields(request)
            more = await getattr(self, "do_" + request["do"])(request) or {}
            write(**answer, at=more.pop("at", None) or now(), **more)
        except BaseException as error:
            at, cancelled = now(), isinstance(error, asyncio.CancelledError)
            if not cancelled and not isinstance(error, Error):
                raise
            name = "Cancelled" if cancelled else type(error).__name__
            why = {"why": error.why} if isinstance(error, Error) and error.why else {}
            if isinstance(error, Timeout) and isinstance(error.__cause__, Unreachable):
                why = {"cause": "unreachable"}
            write(**{**answer, "ok": False}, at=at, error=name, message=str(error) or "cancelled", **why)
        if request.get("do") == "exit":
            self.over.set()

    async def do_hello(self, request: dict[str, Any]) -> Any:
        driver = f"redis-py {redis.__version__}"
        return {
            "protocol": 1,
            "client": "python",
            "version": __version__,
            "driver": driver,
            "capabilities": CAPABILITIES,
        }

    async def do_connect(self, request: dict[str, Any]) -> Any:
        handle = request["client"]
        self.new(handle)

        def hook(event: Event) -> None:
            lock = {"lock": event.lock} if event.lock else {}
            write(event="hook", client=handle, name=event.kind, **lock, at=now())

        options = {"lease": request.get("lease_ms"), "response_timeout": request.get("response_ms")}
        seconds = {name: value / 1000 for name, value in options.items() if value is not None}
        client = AsyncClient(request["url"], name=request.get("name"), on_event=hook, **seconds)
        self.clients[handle] = client
        return {"identity": client.identity}

    async def do_acquire(self, request: dict[str, Any]) -> Any:
        guard, at = await self.acquired(request, self.lock(request))
        return {"at": at, "token": guard.token, "owner": guard.owner.decode()}

    async def do_acquire_all(self, request: dict[str, Any]) -> Any:
        _, at = await self.acquired(request, self.client(request).lock_all(request["locks"]))
        return {"at": at}

    async def acquired(self, request: dict[str, Any], lock: Any) -> tuple[Any, int]:
        self.new(request["guard"])
        if request.get("try") and "timeout_ms" in request:
            raise Invalid("try and timeout_ms exclude each other")
        timeout = request["timeout_ms"] / 1000 if "timeout_ms" in request else None
        guard = await (lock.try_acquire() if request.get("try") else lock.acquire(timeout))
        at = now()
        self.keep(request["guard"], guard)
        return guard, at

    async def do_cancel(self, request: dict[str, Any]) -> None:
        task = self.acquires.get(request["acquire"])
        if task is not None:
            task.cancel()

    async def do_check(self, request: dict[str, Any]) -> Any:
        left = self.guard(request).check()
        return {"left_ms": int(left * 1000)}

    async def do_reenter(self, request: dict[str, Any]) -> Any:
        guard = self.guard(request)
        self.new(request["as"])
        inner = await guard.reenter()
        self.keep(request["as"], inner)
        return {"token": inner.token}

    async def do_release(self, request: dict[str, Any]) -> None:
        await self.guard(request, end=True).release()
        self.released.add(request["guard"])

    async def do_downgrade(self, request: dict[str, Any]) -> None:
        guard = self.guard(request, end=True)
        self.new(request["as"])
        if not hasattr(guard, "downgrade"):
            raise Invalid("only a writer's guard can be downgraded")
        self.keep(request["as"], await guard.downgrade())
        self.released.add(request["guard"])

    async def do_detach(self, request: dict[str, Any]) -> Any:
        guard = self.guard(request, end=True)
        self.released.add(request["guard"])
        left = await guard.detach()
        return {"owner": guard.owner.decode(), "left_ms": int(left * 1000)}

    async def do_adopt(self, request: dict[str, Any]) -> None:
        lock = self.lock(request)
        self.new(request["guard"])
        self.keep(request["guard"], await lock.adopt(request["owner"]))

    async def do_locked(self, request: dict[str, Any]) -> Any:
        return {"value": await self.lock(request).locked()}

    async def do_info(self, request: dict[str, Any]) -> Any:
        info = await self.lock(request).info()
        return {"holders": info.holder_count, "waiters": info.waiter_count}

    async def do_force_release(self, request: dict[str, Any]) -> Any:
        return {"value": await self.lock(request).force_release()}

    async def do_busy(self, request: dict[str, Any]) -> None:
        # By PyDLL, a call keeps the GIL.
        end = time.monotonic() + request["ms"] / 1000
        while (left := end - time.monotonic()) > 0:
            ctypes.PyDLL(None).usleep(min(900_000, int(left * 1e6) + 1))

    async def do_fork(self, request: dict[str, Any]) -> Any:
        client, guard = self.client(request), self.guard(request)
        read, write_end = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.write(write_end, json.dumps(in_child(client, guard, request["lock"])).encode())
            os._exit(0)
        os.close(write_end)
        with os.fdopen(read, "rb") as pipe:
            told = await asyncio.to_thread(pipe.read)
        await asyncio.to_thread(os.waitpid, pid, 0)
        return json.loads(told)

    async def do_close(self, request: dict[str, Any]) -> None:
        within = request.get("within_ms")
        await self.client(request).close(None if within is None else within / 1000)

    async def do_exit(self, request: dict[str, Any]) -> None:
        pass


def in_child(client: AsyncClient, guard: Any, lock: str) -> dict[str, Any]:
    told: dict[str, Any] = {"check": "ok", "acquire": "ok"}
    try:
        guard.check()
    except Error as error:
        told["check"] = type(error).__name__
    try:
        # The face for threads, on the same engine: the child has no event loop.
        held = sync.Lock(client, client._spec(lock, client._plan, None)).try_acquire()
        told["owner"] = held.owner.decode()
    except Error as error:
        told["acquire"] = type(error).__name__
    return told


async def main() -> None:
    driver, loop = Driver(), asyncio.get_running_loop()

    def read() -> None:
        rest = b""
        # Without a buffered file, whose lock would be held when the process ends.
        while data := os.read(0, 65536):
            started = now()
            *lines, rest = (rest + data).split(b"\n")
            for line in lines:
                try:
                    request = json.loads(line)
                except ValueError:
                    os._exit(2)
                if not isinstance(request, dict) or "id" not in request or "do" not in request:
                    os._exit(2)
                loop.call_soon_threadsafe(driver.hear, request, started)
        os._exit(0)

    threading.Thread(target=read, daemon=True).start()
    await driver.over.wait()


if __name__ == "__main__":
    asyncio.run(main())
