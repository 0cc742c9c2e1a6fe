"""HTTP connections with limits that the server itself does not have: size and time of a request's head.

Also hands on who the other side is: the name in its certificate, where it showed one.
"""

from __future__ import annotations

import asyncio
import socket
from dataclasses import dataclass
from time import perf_counter
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

_TOO_LARGE = (
    b"431 Request Header Fields Too Large",
    b'{"reason":"too-large","message":"the request\'s head is too large"}',
)
_TOO_SLOW = (b"408 Request Timeout", b'{"reason":"deadline","message":"the request\'s head came too slowly"}')
_TOO_MANY = (b"429 Too Many Requests", b'{"reason":"busy","message":"too many connections"}')
_GO_ON = b"HTTP/1.1 100 Continue\r\n\r\n"
_NO_HTTP = (b"400 Bad Request", b'{"reason":"invalid","message":"this is no HTTP request"}')
_NO_UPGRADE = (b"400 Bad Request", b'{"reason":"invalid","message":"no other protocol is spoken here"}')


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """What connections may cost, whoever is at their other end."""

    connections: int = 1000
    head_bytes: int = 32 * 1024
    head_seconds: float = 10.0  # also for the rest of a body that nobody waits for


class BoundedProtocol(HttpToolsProtocol):
    """One connection."""

    def __init__(self, *args: Any, limits: ConnectionLimits, **more: Any) -> None:
        super().__init__(*args, **more)
        self._limits = limits
        self._head_open, self._body_open = True, False
        self._held_bytes = 0  # received since a head, a part of a body or a whole message was handed on
        self._timer: asyncio.TimerHandle | None = None
        self._certificate: str | None = None
        self._local = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if len(self.connections) > self._limits.connections:
            self._refuse(*_TOO_MANY)
            return
        self._certificate, self._local = _common_name(transport), _is_local(transport)
        self._start_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_timer()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self.transport.is_closing():
            return
        self._held_bytes += len(data)  # before it is parsed: what is handed on there is no longer held
        super().data_received(data)
        if self._held_bytes > self._limits.head_bytes and not self.transport.is_closing():
            self._refuse(*_TOO_LARGE)

    def send_400_response(self, msg: str) -> None:
        self._refuse(*_NO_HTTP)

    def _unsupported_upgrade_warning(self) -> None:
        """Nothing: it has been refused, and anybody could fill the log with it."""

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._head_open = True
        self.scope["state"]["certificate"] = self._certificate
        self.scope["state"]["arrived"] = perf_counter()  # the loop's own clock may know milliseconds only
        self.scope["state"]["local"] = self._local
        self._start_timer()

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._head_open:  # else it is a trailer: nobody asks for one, and there may be any number
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self._head_open, self._held_bytes = False, 0
        self._stop_timer()
        if self.transport.is_closing():
            return  # what was refused before may have been cut at the wrong place: this may be its body
        if self.parser.should_upgrade():  # the parser takes what follows for the other protocol, a body too
            self._refuse(*_NO_UPGRADE)
            return
        if len(self.url) + sum(len(name) + len(value) for name, value in self.headers) > self._limits.head_bytes:
            self._refuse(*_TOO_LARGE)
            return
        super().on_headers_complete()
        self._body_open = True
        if self.scope["method"] == "POST":
            self.cycle.transport = _WholeAnswers(self.transport)  # type: ignore[assignment]

    def on_body(self, body: bytes) -> None:
        self._held_bytes = 0
        if self.cycle is not None and not self.transport.is_closing():
            super().on_body(body)

    def on_message_complete(self) -> None:
        self._body_open, self._held_bytes = False, 0
        self._stop_timer()
        if self.cycle is not None and not self.transport.is_closing():
            super().on_message_complete()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self._body_open and self.cycle.response_complete:
            self._start_timer()  # nobody reads the rest, so nobody else limits how long it may take

    def _start_timer(self) -> None:
        if self._timer is None:
            self._timer = self.loop.call_later(self._limits.head_seconds, self._too_slow)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _too_slow(self) -> None:
        self._timer = None
        if not self.transport.is_closing():
            self._refuse(*_TOO_SLOW)

    def _refuse(self, status: bytes, body: bytes) -> None:
        head = b"HTTP/1.1 %s\r\ncontent-type: application/json\r\ncontent-length: %d\r\nconnection: close\r\n\r\n"
        if not (self._body_open and self.cycle.response_started):  # a second answer would be taken for the next one's
            self.transport.write(head % (status, len(body)) + body)
        self.transport.close()


class _WholeAnswers:
    """A transport that holds an answer's head back until its body comes: two pieces would wake the caller twice."""

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport, self._head = transport, b""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def write(self, data: bytes) -> None:
        if not self._head and data.startswith(b"HTTP/1.1 ") and data != _GO_ON:
            self._head = data
        else:
            self._transport.write(self._head + data)
            self._head = b""


def _is_local(transport: asyncio.Transport) -> bool:
    """A Unix socket: its file says who may connect. A peer without an address may also be one that has just gone."""
    found = transport.get_extra_info("socket")
    return found is not None and found.family == socket.AF_UNIX


def _common_name(transport: asyncio.Transport) -> str | None:
    """Of the certificate that the other side showed and the TLS layer checked."""
    certificate = transport.get_extra_info("peercert")
    for part in (certificate or {}).get("subject", ()):
        for key, value in part:
            if key == "commonName":
                return str(value)
    return "" if certificate else None
