"""The module's commands, replies and messages."""

from __future__ import annotations

import re
from typing import Any, NamedTuple
from urllib.parse import unquote_to_bytes

from redis.asyncio.connection import DefaultParser

from . import _errors as errors
from ._machine import MS, Answer, Command, Failed, Failure, Granted, Plan, Send, Waits

Words = tuple[bytes, ...]
Claim = tuple[bytes, bytes, bytes]  # key, owner and mode of an acquisition

LONGEST_MS = 2**43  # the longest time that the server accepts


class Spec(NamedTuple):
    """The lock and the options of an acquisition."""

    key: bytes
    plan: Plan
    mode: bytes = b""  # READ, WRITE, PERMIT, or none
    permits: int = 0  # of a semaphore
    fair: bool = False
    owner: bytes = b""  # empty unless the caller named one
    adopts: bool = False  # whether it continues a hold of this owner

    @property
    def lock(self) -> str:
        return shown(self.key)


def shown(key: bytes) -> str:
    """The name of a lock, as printable text."""
    text = key.decode("utf-8", "backslashreplace")
    return text if text.isprintable() else repr(text)[1:-1]


def mode_of(mode: bytes) -> Words:
    """The mode as a word of a command. Permits have none, since the server recognises them by the key."""
    return (mode,) if mode in (b"READ", b"WRITE") else ()


def session(plan: Plan) -> Words:
    return (b"SESSION", b"%d" % (plan.grace // MS)) if plan.grace else ()


def acquire(spec: Spec, owner: bytes, holds: int = 1) -> Words:
    words: Words = (b"RLOCK.ACQUIRE", spec.key, owner, b"%d" % (spec.plan.lease // MS), b"HOLDS", b"%d" % holds)
    words += mode_of(spec.mode) + ((b"PERMITS", b"%d" % spec.permits) if spec.permits else ())
    return words + (b"FAIR",) * spec.fair + (b"FENCED",) * spec.plan.fenced + session(spec.plan)


def release_of(claim: Claim, holds: int = 0) -> Words:
    key, owner, mode = claim
    left = (b"HOLDS", b"%d" % holds) if holds else (b"ALL",)
    return (b"RLOCK.RELEASE", key, owner, *left, *mode_of(mode))


def words_of(send: Send, spec: Spec, owner: bytes, channel: bytes) -> Words:
    if send.command == "ENQUEUE":
        return (*acquire(spec, owner), b"ENQUEUE", b"%d" % send.wait_ms, channel)
    if send.command == "ACQUIRE":
        return acquire(spec, owner)
    if send.command == "RENEW":
        lease = b"%d" % (send.lease_ms or spec.plan.lease // MS)
        return (b"RLOCK.RENEW", spec.key, owner, lease, *mode_of(spec.mode), *(() if send.keep else session(spec.plan)))
    claim = (spec.key, owner, spec.mode)
    return (b"RLOCK.CANCEL", spec.key, owner) if send.command == "CANCEL" else release_of(claim)


# Every user may send HELLO, whatever the ACL. Its reply has the role of the server.
HELLO: Words = (b"HELLO",)
REPLICA = "is a replica"
NOT_SERVED = "does not serve the channel's slot"

# The codes that the driver removes from the texts of errors, by its classes.
CODES = {kind: code for code, kind in DefaultParser.EXCEPTION_CLASSES.items() if isinstance(kind, type)}
# What the server's refusals mean, by the beginnings of their texts.
REFUSALS: list[tuple[str, Failure, type[errors.Error]]] = [
    (r"(LOADING|BUSY|MASTERDOWN|CLUSTERDOWN|TRYAGAIN|UNBLOCKED|UNTIED|MOVED|ASK) ", "passing", errors.Refused),
    (r".*rlock\.accept is no", "draining", errors.Refused),
    (rf".*{NOT_SERVED}", "passing", errors.Refused),
    (r".*unknown command", "final", errors.ModuleMissing),
    (r"(NOPERM|NOAUTH|WRONGPASS) ", "final", errors.Permission),
    (r"QUEUEFULL ", "final", errors.QueueFull),
    (r"(WRONGTYPE|WRONGLOCK) ", "gone", errors.NotALock),
    (r"", "final", errors.Refused),
]


def text_of(error: Exception) -> str:
    """The text of an error reply, with the code as its first word."""
    text, code = str(error), CODES.get(type(error), "")
    if code in ("NOAUTH", "WRONGPASS"):
        code = "NOAUTH" if "required" in text else "WRONGPASS"
    if not code and not text.partition(" ")[0].isupper():
        code = "ERR"
    return f"{code} {text}" if code else text


def refusal(error: Exception, server: str, lock: str = "") -> Failed:
    """The kind of failure that an error reply means, with this package's error."""
    text = text_of(error)
    if text.startswith("READONLY "):
        return Failed("passing", errors.Unreachable(REPLICA, server=server))
    failure, kind = next((failure, kind) for start, failure, kind in REFUSALS if re.match(start, text, re.IGNORECASE))
    return Failed(failure, kind(text, lock=lock, server=server))


def is_replica(value: Any) -> bool:
    """Whether the reply to HELLO is that of a replica."""
    fields = value if isinstance(value, list) else []
    return (b"role", b"replica") in zip(fields[::2], fields[1::2], strict=False)


def answer(command: Command, value: Any, holder_lease_ms: Any = None) -> Answer:
    """The machine's form of a reply. Replies to ACQUIRE are null or an array, to which later versions may append."""
    if value is None or (isinstance(value, int) and command not in ("ENQUEUE", "ACQUIRE")):
        return value
    if not isinstance(value, list) or not value or not isinstance(value[0], int):
        return unexpected(f"RLOCK.{command}", value)
    if value[0] > 0:
        return Granted(value[2] if len(value) > 2 and isinstance(value[2], int) else 0)
    # PTTL is -1 for a lock without a lease end, and -2 for a free lock.
    known = isinstance(holder_lease_ms, int) and holder_lease_ms != -1
    return Waits(max(0, holder_lease_ms) * MS if known else None)


def unexpected(command: str, value: Any) -> Failed:
    text = f"{command} was answered with {value!r}; update the server's module, or this client"
    return Failed("final", errors.Unsupported(text))


class Message(NamedTuple):
    word: str
    claim: Claim
    token: int
    lease: int


def parse(payload: bytes) -> Message | None:
    """Reads a message; None for an unknown first word."""
    fields = payload.split(b" ")
    word = fields[0].decode("ascii", "replace")
    # The index of the mode. Before it, a grant has holds, lease and token, and a drop has its reason.
    at = {"granted": 7, "timeout": 4, "dropped": 5}.get(word)
    if at is None or len(fields) < 4:
        return None
    mode = fields[at].upper() if len(fields) > at else b""
    # Other clients can publish on the channel too, so these fields may be anything.
    lease, token = (int(field) if field.isdigit() and len(field) < 20 else 0 for field in (*fields[5:7], b"", b"")[:2])
    claim = (unquote_to_bytes(fields[3]), unquote_to_bytes(fields[2]), mode)
    return Message(word, claim, token, min(lease, LONGEST_MS) * MS)


class Info(NamedTuple):
    """The state of a lock in its server. The dictionaries in `holders` and `queue` have the fields of RLOCK.INFO."""

    kind: str  # none, mutex, readwrite or permits
    lease_ms: int  # what is left of the lease; -1: no end, -2: the lock is free
    token: int  # the last fencing token, or 0
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
        fields["kind"] = fields["kind"].decode()
        fields |= {name: [pairs(one) for one in fields[name]] for name in ("holders", "queue")}
        return Info(*(fields[name.replace("_", "-")] for name in Info._fields))
    except (KeyError, ValueError, TypeError, AttributeError):
        raise unexpected("RLOCK.INFO", value).error from None
