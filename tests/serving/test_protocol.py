"""Who a connection is held for."""

from __future__ import annotations

import asyncio
import socket
from typing import Any

import pytest
import uvicorn
from uvicorn.server import ServerState

from pilotage.serving.protocol import BoundedProtocol


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
        made = BoundedProtocol(config, ServerState(), {}, asyncio.get_running_loop())
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
