"""A scoring service that keeps the contract, or breaks it in the way a test wants: faults the real one never has."""

from __future__ import annotations

import json
import socket
import ssl
import threading
import time
import zlib
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from socketserver import TCPServer, ThreadingMixIn, UnixStreamServer
from typing import Any

import numpy as np
from numpy.typing import NDArray

LATE_SECONDS = 3.0
HUGE = b" " * 2**22

Answer = Callable[[dict[str, Any], list[int]], bytes]


def right(request: dict[str, Any], scores: list[int]) -> bytes:
    return about(request, b64encode(bytes(scores)).decode(), numbers_of(request))


def about(request: dict[str, Any], scores: object, numbers: NDArray[np.uint32]) -> bytes:
    uid = request["pod"]["metadata"]["uid"]
    answer = {
        "apiVersion": "v1",
        "uid": uid,
        "policy": "test@1",
        "scores": scores,
        "asked": zlib.crc32(numbers.tobytes()),
    }
    return json.dumps(answer).encode()


def numbers_of(request: dict[str, Any]) -> NDArray[np.uint32]:
    return np.frombuffer(b64decode(request["candidates"]["numbers"]), "<u4")


def garbage(request: dict[str, Any], scores: list[int]) -> bytes:
    return b"\x00<html>not what was asked"


def late(request: dict[str, Any], scores: list[int]) -> bytes:
    time.sleep(LATE_SECONDS)
    return right(request, scores)


def wrong_nodes(request: dict[str, Any], scores: list[int]) -> bytes:
    """As many as were asked about, but others."""
    return about(request, b64encode(bytes(scores)).decode(), numbers_of(request) + 1)


def not_a_number(request: dict[str, Any], scores: list[int]) -> bytes:
    return about(request, [float("nan") for _ in scores], numbers_of(request))


def out_of_range(request: dict[str, Any], scores: list[int]) -> bytes:
    return right(request, [255 for _ in scores])


def huge(request: dict[str, Any], scores: list[int]) -> bytes:
    return right(request, scores) + HUGE


@dataclass
class Faulty:
    """What it answers with can be changed at any time."""

    answer: Answer = right
    names: dict[int, str] = field(default_factory=dict)  # by number
    known: dict[int, int] = field(default_factory=dict)  # generations

    def respond(self, request: dict[str, Any]) -> tuple[int, bytes]:
        """The best candidate is the one with the fewest pods, then the first by name."""
        candidates = request["candidates"]
        for one in candidates["told"]:
            self.names[one["number"]], self.known[one["number"]] = one["name"], one["generation"]
        numbers = numbers_of(request).tolist()
        generations = np.frombuffer(b64decode(candidates["generations"]), "<i8").tolist()
        asked = zip(numbers, generations, strict=True)
        unknown = [number for number, generation in asked if self.known.get(number) != generation]
        if unknown:
            return 409, json.dumps({"reason": "unknown-generation", "message": "", "unknown": unknown}).encode()
        names = [self.names[number] for number in numbers]
        best = min(names)
        return 200, self.answer(request, [100 * (name == best) for name in names])


@contextmanager
def serving(service: Faulty, at: Path | ssl.SSLContext) -> Iterator[int]:
    """On a Unix socket, or by TLS on a free port of loopback, which it yields."""

    connections: list[socket.socket] = []

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            status, body = service.respond(request)
            try:
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                if not isinstance(at, Path):  # a handshake for every request: certificates count at once
                    self.send_header("Connection", "close")
                    self.close_connection = True
                self.end_headers()
                self.wfile.write(body)
            except OSError:  # the plugin has gone: it has read enough, or waited long enough
                self.close_connection = True

        def address_string(self) -> str:
            return "a plugin"

        def log_message(self, format: str, *args: object) -> None:
            pass

    class Quiet(ThreadingMixIn):
        daemon_threads = True

        def process_request(self, request: Any, client_address: Any) -> None:
            connections.append(request)
            super().process_request(request, client_address)

        def handle_error(self, request: object, client_address: object) -> None:
            pass  # a refused handshake is what some tests are about

    if isinstance(at, Path):

        class OnSocket(Quiet, UnixStreamServer):
            pass

        server: TCPServer | UnixStreamServer = OnSocket(str(at), Handler)
    else:
        context = at

        class OnPort(Quiet, TCPServer):
            def get_request(self) -> tuple[socket.socket, Any]:
                connection, address = super().get_request()
                connection.settimeout(10)
                return context.wrap_socket(connection, server_side=True, do_handshake_on_connect=False), address

        server = OnPort(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield 0 if isinstance(at, Path) else int(server.socket.getsockname()[1])
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
        for connection in connections:  # or their threads would go on answering
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        if isinstance(at, Path):
            at.unlink()
