"""Connections that are kept: used again where they can be, and never where they must not."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from kube.servers import until
from pilotage.kube import connections
from pilotage.kube.access import Access, load_certificate
from pilotage.kube.client import Client
from pilotage.kube.errors import UnreachableError
from pilotage.lab.certificates import Authority
from pilotage.model.clock import SystemClock

FINE = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"
REQUEST = b"GET / HTTP/1.1\r\n\r\n"

Say = Callable[[asyncio.StreamWriter], None]


class Server:
    """Says to each request what the test says, byte by byte, and counts."""

    def __init__(self, say: Say) -> None:
        self.say, self.connected, self.requests = say, 0, list[bytes]()
        self.writers: list[asyncio.StreamWriter] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connected += 1
        self.writers.append(writer)
        try:
            while True:
                self.requests.append(await reader.readuntil(b"\r\n\r\n"))
                self.say(writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()


@asynccontextmanager
async def a_server(say: Say, tls: ssl.SSLContext | None = None) -> AsyncIterator[tuple[Server, str]]:
    server = Server(say)
    listening = await asyncio.start_server(server.serve, "127.0.0.1", 0, ssl=tls)
    scheme = "http" if tls is None else "https"
    try:
        yield server, f"{scheme}://127.0.0.1:{listening.sockets[0].getsockname()[1]}"
    finally:
        listening.close()
        for writer in server.writers:
            writer.close()


def test_a_connection_is_used_again() -> None:
    async def run() -> None:
        async with a_server(lambda writer: writer.write(FINE)) as (server, url), Client(Access(url, None)) as client:
            for _ in range(5):
                assert await client.get("/x") == {}
            assert (server.connected, len(server.requests)) == (1, 5)

    asyncio.run(run())


def test_not_after_the_server_said_that_it_closes() -> None:
    last = FINE.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")

    async def run() -> None:
        async with a_server(lambda writer: writer.write(last)) as (server, url), Client(Access(url, None)) as client:
            assert (await client.get("/x"), await client.get("/x")) == ({}, {})
            assert server.connected == 2

    asyncio.run(run())


def test_not_when_it_has_been_idle_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "IDLE_SECONDS", -1.0)

    async def run() -> None:
        async with a_server(lambda writer: writer.write(FINE)) as (server, url), Client(Access(url, None)) as client:
            assert (await client.get("/x"), await client.get("/x")) == ({}, {})
            assert server.connected == 2

    asyncio.run(run())


def test_not_when_the_server_closed_it_meanwhile() -> None:
    async def run() -> None:
        async with a_server(lambda writer: writer.write(FINE)) as (server, url):
            pool = connections.Connections(Access(url, None))
            assert (await pool.ask(REQUEST)).take() == b"{}"
            (kept,) = pool._free
            server.writers[0].close()
            await until(lambda: kept.closed, "the connection is closed")
            assert (await pool.ask(REQUEST)).take() == b"{}"
            assert server.connected == 2
            await pool.close()

    asyncio.run(run())


def test_not_when_who_asked_has_left() -> None:
    """The answer to a request that nobody waits for any more must not become that of the next one."""

    async def run() -> None:
        async with a_server(lambda writer: None) as (server, url), Client(Access(url, None)) as client:
            asking = asyncio.create_task(client.get("/x"))
            await until(lambda: len(server.requests) == 1, "the request is there")
            asking.cancel()
            await asyncio.gather(asking, return_exceptions=True)
            server.say = lambda writer: writer.write(FINE)
            assert await client.get("/y") == {}
            assert server.connected == 2

    asyncio.run(run())


def test_nor_when_something_was_said_that_nobody_asked_for() -> None:
    async def run() -> None:
        async with a_server(lambda writer: writer.write(FINE)) as (server, url):
            pool = connections.Connections(Access(url, None))
            await pool.ask(REQUEST)
            (kept,) = pool._free
            server.writers[0].write(FINE)
            await until(lambda: kept.closed, "the connection is closed")
            await pool.close()

    asyncio.run(run())


def test_silence_has_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "ANSWER_SECONDS", 0.01)

    async def run() -> None:
        async with a_server(lambda writer: None) as (_, url), Client(Access(url, None)) as client:
            with pytest.raises(UnreachableError, match=r"no answer within 0\.01 s"):
                await client.get("/x")

    asyncio.run(run())


def test_who_was_away_hears_what_was_said_meanwhile() -> None:
    """A process that was paused finds its timers due before it has read what waits for it."""

    async def run() -> None:
        async with a_server(lambda writer: None) as (server, url):
            pool = connections.Connections(Access(url, None))
            async with asyncio.TaskGroup() as group:
                asking = group.create_task(pool.ask(REQUEST))
                await until(lambda: len(server.requests) == 1, "the request is there")
                (connection,) = pool._open
                long_ago = asyncio.get_running_loop().time() - 100.0
                connection._silent(long_ago, connections.ANSWER_SECONDS)
                server.writers[0].write(FINE)
            assert asking.result().take() == b"{}"
            await pool.close()

    asyncio.run(run())


def test_a_stream_that_nobody_reads_is_not_taken_in_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    """And nothing of it is lost when somebody does."""
    monkeypatch.setattr(connections, "MAX_WAITING_BYTES", 1000)
    lines = [b"%0100d\n" % number for number in range(50_000)]
    body = b"".join(lines)

    async def run() -> None:
        head = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body)
        async with a_server(lambda writer: writer.write(head + body)) as (_, url):
            pool = connections.Connections(Access(url, None))
            async with pool.stream(REQUEST, 10.0) as stream:
                await until(lambda: stream.connection._paused, "reading is paused")
                assert sum(map(len, stream.answer.pieces)) < len(body)
                assert await stream.rest() == body
            await pool.close()

    asyncio.run(run())


def test_names_and_tokens_cannot_add_headers() -> None:
    class Broken:
        async def token(self, *, renew: bool = False) -> str:
            return "x\r\nHost: elsewhere"

    async def run() -> None:
        async with a_server(lambda writer: writer.write(FINE)) as (server, url):
            async with Client(Access(url, None)) as client:
                await client.get("/api/v1/pods/a b\r\nX: y?z", labelSelector="a=b&c")
            assert server.requests[0].startswith(b"GET /api/v1/pods/a%20b%0D%0AX%3A%20y%3Fz?labelSelector=a%3Db%26c ")
            async with Client(Access(url, None, Broken())) as client:
                with pytest.raises(UnreachableError, match="characters that no token has"):
                    await client.get("/x")
            assert len(server.requests) == 1

    asyncio.run(run())


@pytest.mark.parametrize(
    ("trusted", "server_name", "said"),
    [
        ("ours", None, ""),
        ("ours", "localhost", ""),
        ("ours", "elsewhere.example", "not valid for 'elsewhere.example'"),
        ("another", None, "certificate verify failed"),
    ],
)
def test_the_server_must_show_a_certificate_of_its_authority(trusted: str, server_name: str | None, said: str) -> None:
    authorities = {name: Authority(name, SystemClock().wall()) for name in ("ours", "another")}
    shown = authorities["ours"].issue("server")
    served, asking = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    load_certificate(served, shown.certificate, shown.key, "test")
    asking.load_verify_locations(cadata=authorities[trusted].pem.decode())

    async def run() -> None:
        async with (
            a_server(lambda writer: writer.write(FINE), served) as (server, url),
            Client(Access(url, asking, server_name=server_name)) as client,
        ):
            if said:
                with pytest.raises(UnreachableError, match=said):
                    await client.get("/x")
            else:
                assert (await client.get("/x"), await client.get("/x")) == ({}, {})
            assert len(server.requests) == (0 if said else 2)

    asyncio.run(run())
