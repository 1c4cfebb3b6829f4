"""The protocol RESP 2: writes commands, and reads replies.

The driver connects and logs in. Its reader is not used after that, since each reply would take it a step of a task and
several calls.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from redis.exceptions import ResponseError

from ._wire import Words


def packed(words: Words) -> bytes:
    return b"*%d\r\n%b" % (len(words), b"".join([b"$%d\r\n%b\r\n" % (len(word), word) for word in words]))


class Partial(Exception):
    """The rest of the reply has not arrived."""


def read(data: bytes, at: int) -> tuple[Any, int]:
    """Returns the reply that begins at index `at`, and the index of its end. An error reply is returned, not raised."""
    line = data.find(b"\r\n", at)
    if line < 0:
        raise Partial
    kind, text, end = data[at : at + 1], data[at + 1 : line], line + 2
    if kind == b":":
        return int(text), end
    if kind == b"+":
        return text, end
    if kind == b"-":
        return ResponseError(text.decode("utf-8", "replace")), end
    if kind not in (b"$", b"*"):
        raise ValueError(f"not a reply: {data[at:line][:64]!r}")
    size = int(text)
    if size < 0:
        return None, end
    if kind == b"$":
        if len(data) < end + size + 2:
            raise Partial
        return data[end : end + size], end + size + 2
    items: list[Any] = []
    for _ in range(size):
        item, end = read(data, end)
        items.append(item)
    return items, end


class Stream(asyncio.Protocol):
    """A connection that the driver has opened. Passes each reply to `receive`. At its end, `over` has the reason."""

    def __init__(self, connection: Any, receive: Callable[[Any], None]) -> None:
        self._receive, self._rest = receive, b""
        self.over: asyncio.Future[Exception] = asyncio.get_running_loop().create_future()
        self._transport = connection._writer.transport
        self._transport.set_protocol(self)
        # The connection may have ended before `set_protocol`. Unread bytes are an error, since no command was sent.
        reader, gone = connection._reader, self._transport.get_extra_info("socket") is None
        if gone or self._transport.is_closing() or reader.at_eof() or reader._buffer:
            self.connection_lost(None)

    def data_received(self, data: bytes) -> None:
        data, at = self._rest + data, 0
        try:
            # A TLS connection may deliver bytes while it closes. They would answer commands of the next connection.
            while at < len(data) and not self.over.done():
                value, at = read(data, at)
                self._receive(value)
        except Exception as error:
            if not isinstance(error, Partial):
                self.connection_lost(error)
        self._rest = data[at:]

    def eof_received(self) -> None:
        self.connection_lost(None)

    def connection_lost(self, error: Exception | None) -> None:
        if not self.over.done():
            self.over.set_result(error or EOFError())

    def write(self, commands: list[Words]) -> None:
        if not self.over.done():
            self._transport.write(b"".join(map(packed, commands)))

    def abort(self) -> None:
        self._transport.abort()
        self.connection_lost(None)  # the transport may have reported its end to the driver alone

    def fileno(self) -> int:
        """The file descriptor of the socket, or -1 once the socket is closed."""
        socket = self._transport.get_extra_info("socket")
        return -1 if socket is None else int(socket.fileno())
