"""Connections to one API server, kept open between requests: HTTP/1.1 and no more of it than an API server needs.

A scheduler sends two small requests per pod. A general HTTP client took half as much processor time again for them.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import cast
from urllib.parse import urlsplit

from pilotage.kube.access import Access
from pilotage.kube.answers import Answer
from pilotage.kube.errors import UnreachableError

CONNECT_SECONDS, ANSWER_SECONDS = 10.0, 60.0
IDLE_SECONDS = 60.0  # after which a connection is not used again: somebody on the way may have forgotten it
LATE_SECONDS = 1.0  # that a timer may be late before it is clear that nobody was listening
MAX_CONNECTIONS = 64
MAX_WAITING_BYTES = 1 << 20  # of a stream that nobody takes; more is not read from the network
CLOSING_TURNS = 4  # of the event loop, until closed connections have noticed


class Connection(asyncio.Protocol):
    """One request at a time."""

    def __init__(self) -> None:
        self.closed = False
        self.idle_since = 0.0
        self._answer: Answer | None = None
        self._fault: Exception | None = None
        self._news: asyncio.Future[None] | None = None  # somebody waits for more of the answer
        self._whole = True  # only the end of the answer is news
        self._paused = False

    # What the event loop tells

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        answer = self._answer
        if answer is None:  # nobody asked
            self.abort()
            return
        try:
            answer.feed(data)
        except UnreachableError as error:
            self.fail(error)
            return
        if answer.complete or not self._whole:
            self._wake()
            if not self._whole and sum(map(len, answer.pieces)) > MAX_WAITING_BYTES:
                self._paused = True
                self._transport.pause_reading()

    def connection_lost(self, error: Exception | None) -> None:
        self.closed = True
        if self._answer is not None and not self._answer.complete and self._fault is None:
            try:
                self._answer.end()
            except UnreachableError as unfinished:
                self._fault = error or unfinished
        self._wake()

    # What clients do

    def send(self, request: bytes, *, whole: bool) -> Answer:
        """`whole`: the answer is waited for as a whole, and not read as it comes."""
        self._answer = answer = Answer()
        self._whole = whole
        self._transport.write(request)
        return answer

    async def news(self, seconds: float) -> None:
        """Returns when the whole answer is here, or, of a stream, when there is more of it. Raises what went wrong."""
        if self._fault is not None:
            raise self._fault
        if self._paused:
            self._paused = False
            self._transport.resume_reading()
        loop = asyncio.get_running_loop()
        self._news = loop.create_future()
        self._timer = loop.call_later(seconds, self._silent, loop.time() + seconds, seconds)
        try:
            await self._news
        finally:
            self._timer.cancel()
            self._news = None
        if self._fault is not None:
            raise self._fault

    def _silent(self, due: float, seconds: float) -> None:
        error, loop = TimeoutError(f"no answer within {seconds:g} s"), asyncio.get_running_loop()
        if loop.time() - due < LATE_SECONDS:
            self.fail(error)
        else:  # this process was paused, or busy (compiling): what came meanwhile has not been read yet
            self._timer = loop.call_later(LATE_SECONDS, self.fail, error)

    def fail(self, error: Exception) -> None:
        self._fault = self._fault or error
        self.abort()
        self._wake()

    def abort(self) -> None:
        """Nobody waits for the farewell of a TLS connection."""
        self.closed = True
        self._transport.abort()

    def free(self) -> bool:
        """Whether another request can be sent: the answer to the last one is complete, and nothing follows it."""
        answer, self._answer = self._answer, None
        return answer is not None and answer.complete and answer.keeps_open and not self.closed

    def _wake(self) -> None:
        if self._news is not None and not self._news.done():
            self._news.set_result(None)


@dataclass(frozen=True, slots=True)
class Stream:
    """An answer that is read as it comes."""

    connection: Connection
    answer: Answer
    idle_seconds: float  # the longest silence

    async def read(self) -> bytes:
        """What has come since; nothing at its end."""
        while not (self.answer.pieces or self.answer.complete):
            await self.connection.news(self.idle_seconds)
        return self.answer.take()

    async def rest(self) -> bytes:
        pieces = []
        while piece := await self.read():
            pieces.append(piece)
        return b"".join(pieces)


class Connections:
    """To the server of an `Access`; at most `MAX_CONNECTIONS`, those that are free are used again."""

    def __init__(self, access: Access) -> None:
        parts = urlsplit(access.server)
        host, self._tls = parts.hostname or "", access.tls
        self._address = host, parts.port or (443 if parts.scheme == "https" else 80)
        self._server_name = (access.server_name or host) if access.tls is not None else None
        self._free: deque[Connection] = deque()  # used last, at the right
        self._open: set[Connection] = set()
        self._places = asyncio.Semaphore(MAX_CONNECTIONS)

    async def ask(self, request: bytes, before_send: Callable[[], None] | None = None) -> Answer:
        """The whole answer. `before_send` is called with nothing awaited before the request is written."""
        connection = await self._take()
        try:
            if before_send is not None:
                before_send()
            answer = connection.send(request, whole=True)
            await connection.news(ANSWER_SECONDS)
            return answer
        finally:
            self._give_back(connection)

    @asynccontextmanager
    async def stream(self, request: bytes, idle_seconds: float) -> AsyncIterator[Stream]:
        """The answer as soon as its head is here."""
        connection = await self._take()
        try:
            stream = Stream(connection, connection.send(request, whole=False), idle_seconds)
            while not stream.answer.status:
                await connection.news(idle_seconds)
            yield stream
        finally:
            self._give_back(connection)

    async def close(self) -> None:
        for connection in self._open:
            connection.abort()
        for _ in range(CLOSING_TURNS):
            await asyncio.sleep(0)

    async def _take(self) -> Connection:
        if self._places.locked():
            async with asyncio.timeout(ANSWER_SECONDS):
                await self._places.acquire()
        else:
            await self._places.acquire()
        try:
            oldest = asyncio.get_running_loop().time() - IDLE_SECONDS
            while self._free and (self._free[0].closed or self._free[0].idle_since < oldest):
                self._drop(self._free.popleft())
            while self._free:
                connection = self._free.pop()
                if not connection.closed:
                    return connection
                self._drop(connection)
            return await self._connected()
        except BaseException:
            self._places.release()
            raise

    async def _connected(self) -> Connection:
        host, port = self._address
        loop = asyncio.get_running_loop()
        async with asyncio.timeout(CONNECT_SECONDS):
            _, connection = await loop.create_connection(
                Connection, host, port, ssl=self._tls, server_hostname=self._server_name
            )
        self._open.add(connection)
        return connection

    def _give_back(self, connection: Connection) -> None:
        self._places.release()
        if connection.free():
            connection.idle_since = asyncio.get_running_loop().time()
            self._free.append(connection)
        else:
            self._drop(connection)

    def _drop(self, connection: Connection) -> None:
        self._open.discard(connection)
        connection.abort()
