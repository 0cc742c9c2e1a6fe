"""Slow, large and malformed requests: answered with a reason, never a hang."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import suppress

import pytest

from pilotage.dashboard.protocol import ConnectionLimits
from pilotage.serving.questions import Limits
from pilotage.serving.run import Serving, Settings
from serving.services import a_question, a_service, a_state, ask, read

SMALL = Limits(body_bytes=20_000, requests=2)
SHORT = Limits(body_seconds=0.3)  # for what is meant to be too slow, and nothing else


@pytest.fixture(scope="module")
def service() -> Iterator[Serving]:
    with a_service(Settings(policies=("least-allocated",), port=0, limits=SMALL)) as running:
        yield running


@pytest.fixture
def impatient() -> Iterator[Serving]:
    connections = ConnectionLimits(head_seconds=0.5)
    with a_service(Settings(policies=("least-allocated",), port=0, limits=SHORT, connections=connections)) as running:
        yield running


async def raw(port: int, *parts: bytes, pause: float = 0.0) -> bytes:
    """What comes back for bytes sent as they are."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        for part in parts:
            writer.write(part)
            await writer.drain()
            await asyncio.sleep(pause)
        return await asyncio.wait_for(reader.read(), 20)  # until the other side closes
    except ConnectionResetError:
        return b""
    finally:
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()


def test_a_body_that_is_too_large_is_refused(service: Serving) -> None:
    status, answer = ask(service, "/v1/score", {"filler": "x" * 30_000})
    assert (status, answer["reason"]) == (413, "too-large")


def test_a_body_that_comes_too_slowly_is_refused(impatient: Serving) -> None:
    head = b"POST /v1/score HTTP/1.1\r\nhost: x\r\ncontent-length: 1000\r\n\r\n"
    answer = asyncio.run(raw(impatient.port, head + b"{"))
    assert answer.startswith(b"HTTP/1.1 408")
    assert b'"reason":"deadline"' in answer


@pytest.mark.parametrize("asked", [b"GET /healthz", b"POST /nothing", b"DELETE /v1/score"])
def test_a_body_that_nobody_waits_for_ends_in_time(impatient: Serving, asked: bytes) -> None:
    """Every byte of it put off the end of the connection."""

    async def drip() -> bytes:
        reader, writer = await asyncio.open_connection("127.0.0.1", impatient.port)
        writer.write(asked + b" HTTP/1.1\r\nhost: x\r\ncontent-length: 100000000\r\n\r\n")
        reading = asyncio.create_task(reader.read())
        for _ in range(100):
            writer.write(b"x")
            if (await asyncio.wait([reading], timeout=0.1))[0]:
                break
        writer.close()
        assert reading.done()
        return reading.result()

    assert asyncio.run(drip()).count(b"HTTP/1.1 ") == 1  # its own answer, and none about the rest


def test_a_body_that_nobody_waits_for_is_no_next_request(impatient: Serving) -> None:
    head = b"POST /nothing HTTP/1.1\r\nhost: x\r\ncontent-length: 1000\r\n\r\n"
    last = b"GET /healthz HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n"
    answer = asyncio.run(raw(impatient.port, head, b"x" * 1000, last, pause=0.1))
    assert [part[:3] for part in answer.split(b"HTTP/1.1 ")[1:]] == [b"404", b"200"]


def test_a_head_that_never_ends_is_refused(impatient: Serving) -> None:
    answer = asyncio.run(raw(impatient.port, b"POST /v1/score HTTP/1.1\r\nx: "))
    assert answer.startswith(b"HTTP/1.1 408")


def test_a_silent_connection_is_closed(impatient: Serving) -> None:
    assert asyncio.run(raw(impatient.port)).startswith(b"HTTP/1.1 408")


@pytest.mark.parametrize("end", [b"", b"\r\n\r\n"])
def test_a_head_that_is_too_large_is_refused(service: Serving, end: bytes) -> None:
    answer = asyncio.run(raw(service.port, b"GET /healthz HTTP/1.1\r\nx: " + b"y" * 40_000 + end))
    assert answer.startswith(b"HTTP/1.1 431")


@pytest.mark.parametrize("trailers", [b"x: y\r\n" * 7000, b"y" * 40_000], ids=["many", "one without an end"])
def test_trailers_that_are_too_large_are_refused(service: Serving, trailers: bytes) -> None:
    """They were kept without a limit, before anybody had shown a token."""
    head = b"POST /v1/score HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n0\r\nx: "
    answer = asyncio.run(raw(service.port, head, trailers, pause=0.2))
    assert answer.startswith(b"HTTP/1.1 431")


def test_what_is_no_http_is_refused(service: Serving) -> None:
    assert asyncio.run(raw(service.port, b"\x16\x03\x01hello\r\n\r\n")).startswith(b"HTTP/1.1 400")


@pytest.mark.parametrize("length", [b"content-length: %d", b"transfer-encoding: chunked"])
@pytest.mark.parametrize("protocol", [b"h2c", b"websocket"])
def test_another_protocol_is_refused_with_what_follows(
    service: Serving, caplog: pytest.LogCaptureFixture, protocol: bytes, length: bytes
) -> None:
    """The body was lost, and where it came by itself it was the next request."""
    body = b"GET /healthz HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n"
    head = b"POST /v1/score HTTP/1.1\r\nhost: x\r\nconnection: Upgrade\r\nupgrade: " + protocol + b"\r\n"
    head += length.replace(b"%d", b"%d" % len(body)) + b"\r\n\r\n"
    for parts in ([head + body], [head], [b"CONNECT x:1 HTTP/1.1\r\nhost: x\r\n\r\n" + body]):
        answer = asyncio.run(raw(service.port, *parts))
        assert answer.startswith(b"HTTP/1.1 400")
        assert answer.count(b"HTTP/1.1 ") == 1
    assert not caplog.records


def test_what_comes_with_something_refused_is_not_carried_out(service: Serving) -> None:
    large = b"GET /healthz HTTP/1.1\r\nx: " + b"y" * 40_000 + b"\r\n\r\n"
    before = service.metrics.seconds.labels("score")._sum.get()
    answer = asyncio.run(raw(service.port, large + b"POST /v1/score HTTP/1.1\r\ncontent-length: 2\r\n\r\n{}"))
    assert answer.count(b"HTTP/1.1 ") <= 1
    assert service.metrics.seconds.labels("score")._sum.get() == before


def test_more_requests_than_allowed_at_once_are_refused(service: Serving) -> None:
    head = b"POST /v1/score HTTP/1.1\r\nhost: x\r\ncontent-length: 1000\r\n\r\n{"

    async def crowd() -> list[bytes]:
        waiting = [await asyncio.open_connection("127.0.0.1", service.port) for _ in range(SMALL.requests)]
        for _, writer in waiting:
            writer.write(head)  # and nothing more: they are under way
        while service.metrics.in_flight._value.get() < SMALL.requests:
            await asyncio.sleep(0.01)
        answers = await asyncio.gather(*(raw(service.port, head) for _ in range(4)))
        for _, writer in waiting:
            writer.close()
        while service.metrics.in_flight._value.get():
            await asyncio.sleep(0.01)
        return answers

    answers = asyncio.run(asyncio.wait_for(crowd(), 60))
    assert all(b'"reason":"busy"' in answer for answer in answers), answers
    assert ask(service, "/v1/score", a_question([{"name": "a", "state": a_state()}]))[0] == 200  # and then it goes on


def test_a_deadline_that_has_passed_is_said(service: Serving) -> None:
    body = b'{"apiVersion":"v1","pod":{"metadata":{"uid":"u","name":"n","namespace":"d"},"spec":{"containers":[{}]}},'
    body += b'"candidates":[{"name":"a","state":{"allocatable":{"cpuMilli":1}}}],"deadlineMs":20}'
    head = b"POST /v1/score HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: %d\r\n\r\n" % len(body)
    answer = asyncio.run(raw(service.port, head + body[:5], body[5:], pause=0.1))
    assert answer.startswith(b"HTTP/1.1 408")


def test_unknown_paths_and_methods_are_named(service: Serving) -> None:
    assert ask(service, "/v2/score", {})[1]["reason"] == "not-found"
    status, body = read(service, "/v1/score")
    assert (status, b"method-not-allowed" in body) == (405, True)
    assert ask(service, "/extender/filter", {})[0] == 404  # no cluster is followed


def test_a_fault_of_our_own_is_an_answer_that_shows_nothing_of_it(
    service: Serving, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: object) -> None:
        raise KeyError("a secret")

    monkeypatch.setattr(service.sessions, "find", fail)
    question = a_question([{"name": "a", "state": a_state()}])
    status, answer = ask(service, "/v1/score", question)
    assert (status, answer) == (500, {"reason": "error", "message": "POST /v1/score: error"})
    assert "a question could not be answered" in caplog.text
    monkeypatch.undo()
    assert ask(service, "/v1/score", question)[0] == 200


def test_connections_beyond_the_limit_are_refused() -> None:
    settings = Settings(policies=("least-allocated",), port=0, connections=ConnectionLimits(connections=0))
    with a_service(settings) as service:
        answer = asyncio.run(raw(service.port, b"GET /healthz HTTP/1.1\r\n\r\n"))
    assert answer == b"" or answer.startswith(b"HTTP/1.1 429")  # nothing when it is closed before the question is read
