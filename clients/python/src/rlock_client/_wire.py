"""The module's commands, replies and messages."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote_to_bytes

from redis import exceptions as driver

from . import _errors as errors
from ._machine import MS, Answer, Command, Failed, Failure, Granted, Waits

Words = tuple[bytes, ...]

LONGEST_MS = 2**43  # the longest time that the server takes


@dataclass(frozen=True)
class Spec:
    """What is asked for."""

    key: bytes
    lease: int
    mode: bytes = b""  # READ, WRITE, PERMIT, or none
    permits: int = 0  # of a semaphore
    fair: bool = False
    fenced: bool = False
    renew: bool = True

    @property
    def lock(self) -> str:
        """The name, for people."""
        text = self.key.decode("utf-8", "backslashreplace")
        return text if text.isprintable() else repr(text)[1:-1]


def number(value: int) -> bytes:
    return b"%d" % value


def mode_of(spec: Spec) -> Words:
    """As RELEASE and RENEW say it: the server knows permits by the key."""
    return (spec.mode,) if spec.mode in (b"READ", b"WRITE") else ()


def acquire(spec: Spec, owner: bytes, holds: int = 1, wait_ms: int | None = None, channel: bytes = b"") -> Words:
    words = (b"RLOCK.ACQUIRE", spec.key, owner, number(spec.lease // MS), b"HOLDS", number(holds), *mode_of(spec))
    words += (b"PERMITS", number(spec.permits)) if spec.permits else ()
    words += (b"FAIR",) * spec.fair + (b"FENCED",) * spec.fenced
    return words if wait_ms is None else (*words, b"ENQUEUE", number(wait_ms), channel)


def release(spec: Spec, owner: bytes, holds: int = 0) -> Words:
    left = (b"HOLDS", number(holds)) if holds else (b"ALL",)
    return (b"RLOCK.RELEASE", spec.key, owner, *left, *mode_of(spec))


def words_of(command: Command, spec: Spec, owner: bytes, wait_ms: int, channel: bytes) -> Words:
    if command == "ENQUEUE":
        return acquire(spec, owner, wait_ms=wait_ms, channel=channel)
    if command == "ACQUIRE":
        return acquire(spec, owner)
    if command == "RENEW":
        return (b"RLOCK.RENEW", spec.key, owner, number(spec.lease // MS), *mode_of(spec))
    if command == "CANCEL":
        return (b"RLOCK.CANCEL", spec.key, owner)
    return release(spec, owner)


def pack(commands: list[Words]) -> bytes:
    """Commands as RESP2 and RESP3 have them."""
    parts = []
    for words in commands:
        parts.append(b"*%d\r\n" % len(words))
        parts.extend(b"$%d\r\n%b\r\n" % (len(word), word) for word in words)
    return b"".join(parts)


CODES: dict[type[Exception], str] = {
    driver.BusyLoadingError: "LOADING",
    driver.ReadOnlyError: "READONLY",
    driver.NoPermissionError: "NOPERM",
    driver.AuthenticationError: "NOAUTH",
    driver.OutOfMemoryError: "OOM",
    driver.TryAgainError: "TRYAGAIN",
    driver.MasterDownError: "MASTERDOWN",
    driver.ClusterDownError: "CLUSTERDOWN",
    driver.MovedError: "MOVED",
    driver.AskError: "ASK",
}
PASSING = frozenset({"LOADING", "BUSY", "MASTERDOWN", "CLUSTERDOWN", "TRYAGAIN", "UNBLOCKED", "MOVED", "ASK"})


def code_and_text(error: Exception) -> tuple[str, str]:
    """The server's error: its code, and the whole text. The driver takes the codes that it knows off the text."""
    text = str(error)
    code = CODES.get(type(error), "")
    if code == "NOAUTH" and "required" not in text:
        code = "WRONGPASS"
    if code:
        return code, f"{code} {text}"
    found = re.match(r"[A-Z]+\b", text)
    return (found.group(), text) if found else ("ERR", f"ERR {text}")


def refusal(error: Exception, lock: str = "", follows: bool = False) -> Failed:
    """What the server's refusal means. `follows`: another server may have become the primary."""
    code, text = code_and_text(error)
    if code in PASSING or (follows and code == "READONLY"):
        return Failed(Failure.PASSING, errors.Refused(text))
    if code == "ERR" and "rlock.accept is no" in text:
        return Failed(Failure.DRAINING, errors.Refused(text))
    if "unknown command" in text.lower():
        return Failed(Failure.FINAL, errors.ModuleMissing(text))
    if code in ("NOPERM", "NOAUTH", "WRONGPASS"):
        return Failed(Failure.FINAL, errors.Permission(text))
    if code == "QUEUEFULL":
        return Failed(Failure.FINAL, errors.QueueFull(text, lock=lock))
    if code in ("WRONGTYPE", "WRONGLOCK"):
        return Failed(Failure.NO_LOCK, errors.NotALock(text, lock=lock))
    return Failed(Failure.FINAL, errors.Refused(text))


def acquired(value: Any, holder_lease_ms: Any = None) -> Answer:
    """The reply of ACQUIRE: an array that may grow, or null."""
    if value is None:
        return None
    if isinstance(value, list) and value and isinstance(value[0], int):
        if value[0] > 0:
            return Granted(value[2] if len(value) > 2 and isinstance(value[2], int) else 0)
        # -1 is a lock without an end, and -2 is none.
        known = isinstance(holder_lease_ms, int) and holder_lease_ms != -1
        return Waits(max(0, holder_lease_ms) * MS if known else None)
    return unexpected("RLOCK.ACQUIRE", value)


def integer(value: Any, command: str) -> Answer:
    return value if value is None or isinstance(value, int) else unexpected(command, value)


def unexpected(command: str, value: Any) -> Failed:
    text = f"{command} was answered with {value!r}; update the server's module, or this package"
    return Failed(Failure.FINAL, errors.Unsupported(text))


def parse(payload: bytes) -> tuple[str, tuple[bytes, bytes], int] | None:
    """Reads a message: its word, whose it is (owner and mode), and a token. None for an unknown first word."""
    fields = payload.split(b" ")
    word = fields[0].decode("ascii", "replace")
    if word not in ("granted", "timeout", "dropped") or len(fields) < 4:
        return None
    # Before the mode a grant has holds, lease and token, and a drop its reason.
    at = {"granted": 7, "timeout": 4, "dropped": 5}[word]
    mode = fields[at].upper() if len(fields) > at else b""
    token = int(fields[6]) if word == "granted" and len(fields) > 6 and fields[6].isdigit() else 0
    return word, (unquote_to_bytes(fields[2]), mode), token


@dataclass(frozen=True)
class Info:
    """A lock, as its server sees it. `holders` and `queue` have the fields of RLOCK.INFO."""

    kind: str  # none, mutex, readwrite or permits
    lease_ms: int  # -1: it has no end, -2: the lock is free
    token: int
    holder_count: int
    waiter_count: int
    holders: list[dict[str, Any]]
    queue: list[dict[str, Any]]


def pairs(value: Any) -> dict[str, Any]:
    return {name.decode(): item for name, item in zip(value[::2], value[1::2], strict=True)}


def info(value: Any) -> Info:
    """Reads the reply of INFO; fields that are not known are skipped."""
    try:
        fields = pairs(value)
        lists = [[pairs(one) for one in fields[name]] for name in ("holders", "queue")]
        counts = [fields[name] for name in ("lease-ms", "token", "holder-count", "waiter-count")]
        return Info(fields["kind"].decode(), *counts, *lists)
    except (KeyError, ValueError, TypeError, AttributeError):
        raise unexpected("RLOCK.INFO", value).error from None
