"""Replies, from bytes that arrive in any pieces."""

from __future__ import annotations

import asyncio

import pytest
from redis.exceptions import ResponseError

from rlock_client._stream import Partial, Stream, packed, read

REPLIES = b"*6\r\n:-3\r\n+OK\r\n$4\r\na\r\nb\r\n$-1\r\n*0\r\n-NOPERM no\r\n*-1\r\n$0\r\n\r\n"


def test_replies_in_pieces() -> None:
    items, end = read(REPLIES, 0)
    assert items[:5] == [-3, b"OK", b"a\r\nb", None, []]
    assert isinstance(items[5], ResponseError)
    assert str(items[5]) == "NOPERM no"
    assert read(REPLIES, end) == (None, end + 5)
    assert read(REPLIES, end + 5) == (b"", len(REPLIES))
    for cut in range(end):
        with pytest.raises(Partial):
            read(REPLIES[:cut], 0)


@pytest.mark.parametrize("data", [b"HTTP/1.1 400 Bad Request\r\n", b":one\r\n", b"$x\r\n", b"*1\r\n\r\n"])
def test_what_is_no_reply(data: bytes) -> None:
    with pytest.raises(ValueError, match=r"not a reply|invalid literal"):
        read(data, 0)


def test_commands() -> None:
    assert packed((b"SET", b"", b"\r\n")) == b"*3\r\n$3\r\nSET\r\n$0\r\n\r\n$2\r\n\r\n\r\n"


class Opened:
    """A connection, as the driver has it."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer


@pytest.mark.parametrize("last", [b"", b"-ERR max number of clients reached\r\n"])
def test_an_end_before_the_takeover(last: bytes) -> None:
    """The server closes the connection after the log-in: only the driver's reader learns of that."""

    async def serve(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(last)
        writer.close()

    async def run() -> None:
        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
        while not getattr(reader, "_eof"):  # noqa: B009, a private name
            await asyncio.sleep(0.001)
        assert Stream(Opened(reader, writer), print).over.done()
        writer.transport.abort()
        server.close()
        await asyncio.sleep(0)  # the transport closes its socket

    asyncio.run(asyncio.wait_for(run(), 5))
