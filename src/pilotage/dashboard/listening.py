"""A server on an address, inside an event loop that does other things too."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Iterator
from contextlib import contextmanager

import uvicorn

from pilotage.model.errors import InputError

BACKLOG = 256


class Server(uvicorn.Server):
    """Leaves signals to whoever runs the loop."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def change_keys(self, context: ssl.SSLContext) -> None:
        """Connections from now on are by this context alone; those that are open stay as they are."""
        self.config.ssl = context
        if not self.started or self.should_exit:
            return  # it begins with this one, or is about to end
        loop, before = asyncio.get_running_loop(), self.servers
        self.servers = [
            await loop.create_server(self._protocol, sock=listening.dup(), ssl=context, backlog=BACKLOG)
            for old in before
            for listening in old.sockets
        ]
        for old in before:
            old.close()  # its sockets too, but not what was made from them

    def _protocol(self) -> asyncio.Protocol:
        kind = self.config.http_protocol_class
        return kind(config=self.config, server_state=self.server_state, app_state={})  # type: ignore[call-arg]


def listen(host: str, port: int, option: str) -> socket.socket:
    """A socket there; port 0: a free one. `option` is what the user said it by."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=BACKLOG)
    except OSError as error:
        problem = f"cannot listen on {host}:{port}: {error.strerror or error}"
        raise InputError(problem, field=option, expected="a free address of this machine") from None
