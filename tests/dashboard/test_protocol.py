"""Who a connection is held for, and how answers leave."""

from __future__ import annotations

import asyncio
import socket
from typing import Any

import pytest
import uvicorn
from uvicorn.server import ServerState

from pilotage.dashboard.protocol import BoundedProtocol, ConnectionLimits


class Transport:
    """A connection whose other side has gone: nobody can say its address any more."""

    def __init__(self, connection: socket.socket | None) -> None:
        self.connection = connection  # that is not connected: getpeername fails

    def get_extra_info(self, name: str, otherwise: Any = None) -> Any:
        return self.connection if name == "socket" else otherwise

    def is_closing(self) -> bool:
        return False


@pytest.mark.parametrize(
    ("family", "local"),
    [(socket.AF_INET, False), (socket.AF_INET6, False), (None, False), (socket.AF_UNIX, True)],
)
def test_only_a_unix_socket_is_local(family: socket.AddressFamily | None, local: bool) -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None: ...

    async def run(connection: socket.socket | None) -> bool:
        config = uvicorn.Config(app, log_config=None)
        config.load()
        made = BoundedProtocol(config, ServerState(), {}, asyncio.get_running_loop(), limits=ConnectionLimits())
        made.connection_made(Transport(connection))  # type: ignore[arg-type]
        assert made.client is None
        made.on_message_begin()
        made._stop_timer()
        return bool(made.scope["state"]["local"])

    if family is None:
        assert asyncio.run(run(None)) is local
        return
    with socket.socket(family) as connection:
        assert asyncio.run(run(connection)) is local


class Written(Transport):
    """A connection that keeps what is written to it, piece by piece."""

    def __init__(self) -> None:
        super().__init__(None)
        self.pieces: list[bytes] = []

    def write(self, data: bytes) -> None:
        self.pieces.append(data)

    def close(self) -> None: ...


@pytest.mark.parametrize(
    ("head", "pieces"),
    [
        (b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 2\r\n\r\n", [b"200"]),
        (b"POST / HTTP/1.1\r\nhost: x\r\nexpect: 100-continue\r\ncontent-length: 2\r\n\r\n", [b"100", b"200"]),
        (b"HEAD / HTTP/1.1\r\nhost: x\r\ncontent-length: 2\r\n\r\n", [b"200"]),
    ],
    ids=["POST", "100-continue", "HEAD"],
)
def test_an_answer_leaves_in_one_piece(head: bytes, pieces: list[bytes]) -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        await receive()
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"3")]})
        await send({"type": "http.response.body", "body": b"yes"})

    async def run() -> list[bytes]:
        config = uvicorn.Config(app, log_config=None)
        config.load()
        made, transport = (
            BoundedProtocol(config, ServerState(), {}, asyncio.get_running_loop(), limits=ConnectionLimits()),
            Written(),
        )
        made.connection_made(transport)  # type: ignore[arg-type]
        for data in (head, b"{}"):
            made.data_received(data)
            await asyncio.sleep(0.01)
        made.connection_lost(None)
        return transport.pieces

    written = asyncio.run(run())
    assert [piece.split(b" ")[1] for piece in written] == pieces
    assert written[-1].endswith(b"yes") == head.startswith(b"POST")


def test_trailers_are_no_headers() -> None:
    """They came after who asks was looked at, and were added to what that is looked for in."""
    seen: list[bytes] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        while (await receive())["more_body"]:
            pass
        seen.extend(name for name, _ in scope["headers"])
        await send({"type": "http.response.start", "status": 204, "headers": []})
        await send({"type": "http.response.body"})

    async def run() -> None:
        config = uvicorn.Config(app, log_config=None)
        config.load()
        made = BoundedProtocol(config, ServerState(), {}, asyncio.get_running_loop(), limits=ConnectionLimits())
        made.connection_made(Written())  # type: ignore[arg-type]
        head = b"POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n"
        made.data_received(head + b"2\r\n{}\r\n0\r\nauthorization: Bearer x\r\n\r\n")
        await asyncio.sleep(0.01)
        made.connection_lost(None)

    asyncio.run(run())
    assert seen == [b"transfer-encoding"]
