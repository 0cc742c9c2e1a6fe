"""Answers of HTTP servers: the same however their bytes are cut, and refused where they are none."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pilotage.kube.answers import MAX_HEAD_BYTES, Answer
from pilotage.kube.errors import UnreachableError

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
COUNTED = HEAD + b"Content-Length: 11\r\n\r\n" + b"hello world"
CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n\r\n5;x=y\r\nhello\r\n6\r\n world\r\n0\r\nTrailer: x\r\n\r\n"
CONTINUED = b"HTTP/1.1 100 Continue\r\n\r\n" + COUNTED
CLOSED = HEAD + b"\r\nhello world"


def read(data: bytes, cuts: list[int]) -> Answer:
    answer = Answer()
    places = [0, *sorted(cut % (len(data) + 1) for cut in cuts), len(data)]
    for begin, end in pairwise(places):
        if begin < end:
            answer.feed(data[begin:end])
    return answer


@given(st.sampled_from([COUNTED, CHUNKED, CONTINUED]), st.lists(st.integers(0, 1000), max_size=20))
def test_an_answer_may_come_in_any_pieces(data: bytes, cuts: list[int]) -> None:
    answer = read(data, cuts)
    assert (answer.status, answer.take(), answer.complete, answer.keeps_open) == (200, b"hello world", True, True)
    assert answer.headers["content-type"] == "application/json"


@given(st.lists(st.integers(0, 1000), max_size=20))
def test_without_a_length_the_end_of_the_connection_ends_it(cuts: list[int]) -> None:
    answer = read(CLOSED, cuts)
    assert not answer.complete
    answer.end()
    assert (answer.take(), answer.complete, answer.keeps_open) == (b"hello world", True, False)


@given(st.sampled_from([COUNTED, CHUNKED]), st.integers(0, 1000))
def test_a_lost_rest_is_noticed(data: bytes, missing: int) -> None:
    answer = read(data[: -1 - missing % (len(data) - 1)], [])
    with pytest.raises(UnreachableError, match="before the answer was complete"):
        answer.end()


def test_what_a_stream_takes_is_gone() -> None:
    answer = read(HEAD + b"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n", [])
    assert (answer.take(), answer.take()) == (b"hello", b"")
    answer.feed(b"1\r\n!\r\n0\r\n\r\n")
    assert (answer.take(), answer.complete) == (b"!", True)


@pytest.mark.parametrize(
    "head", [b"HTTP/1.1 204 No Content\r\n\r\n", b"HTTP/1.1 304 Not Modified\r\nContent-Length: 7\r\n\r\n"]
)
def test_some_answers_have_no_body(head: bytes) -> None:
    answer = read(head, [])
    assert (answer.complete, answer.take()) == (True, b"")


@pytest.mark.parametrize(
    "head",
    [
        b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nConnection: X-Other, Close\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n",
    ],
)
def test_a_server_may_want_no_more_requests(head: bytes) -> None:
    answer = read(head, [])
    assert (answer.complete, answer.keeps_open) == (True, False)


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"SSH-2.0-OpenSSH\r\n\r\n", "no HTTP"),
        (b"HTTP/2.0 200 OK\r\n\r\n", "HTTP 2.0"),
        (b"HTTP/1.1 abc OK\r\n\r\n", "no HTTP"),
        (b"HTTP/1.1 200 OK\r\nX: " + b"x" * (MAX_HEAD_BYTES + 1), "a head of more than"),
        (HEAD + b"Content-Length: -1\r\n\r\n", "no HTTP"),
        (HEAD + b"Content-Length: 1\r\n\r\nab", "no HTTP|more was sent"),
        (COUNTED + COUNTED, "more was sent"),
        (HEAD + b"Transfer-Encoding: gzip\r\n\r\n", "'gzip'"),
        (HEAD + b"Transfer-Encoding: chunked\r\n\r\nxyz\r\n", "no HTTP"),
        (HEAD + b"Transfer-Encoding: chunked\r\n\r\n-5\r\n", "no HTTP"),
        (HEAD + b"Transfer-Encoding: chunked\r\n\r\n1\r\nabc", "no HTTP"),
    ],
)
def test_what_is_no_answer_is_refused(data: bytes, said: str) -> None:
    with pytest.raises(UnreachableError, match=said):
        read(data, [])
