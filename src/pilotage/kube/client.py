"""Requests to an API server over raw JSON: decoding into full models is what makes other clients slow."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing
from types import TracebackType
from typing import Any, TypeVar
from urllib.parse import quote, urlencode, urlsplit

import orjson

from pilotage.kube.access import Access
from pilotage.kube.connections import Connections, Stream
from pilotage.kube.errors import KubeError, UnreachableError
from pilotage.model.errors import InputError

Json = dict[str, Any]
Seen = TypeVar("Seen")  # what somebody keeps of an object

IN_PATHS = "/"  # characters that stand for themselves there, as do letters, digits and "_.-~"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"

MAX_ANSWER_BYTES = 1 << 30
MAX_EVENT_BYTES = 16 * 1024 * 1024  # etcd stores at most 1.5 MB of an object
BUSY_TRIES = 5  # while the server says "too many requests"
BUSY_SECONDS = 10.0  # the longest it may ask us to wait
PAGE = 500


class Client:
    """One connection pool; an asynchronous context."""

    def __init__(self, access: Access, *, agent: str = "pilotage") -> None:
        self.access = access
        self.calls: Counter[str] = Counter()  # requests sent, by method and what they were about
        parts = urlsplit(access.server)
        self._base = quote(parts.path, safe=IN_PATHS)
        # Never after a redirection, and never through a proxy of the environment: both would carry credentials
        # elsewhere. Compressed answers cost both sides more than the network between them does.
        host = parts.netloc.rpartition("@")[2]
        self._fixed = f" HTTP/1.1\r\nHost: {host}\r\nUser-Agent: {agent}\r\nAccept: application/json\r\n"
        self._connections: Connections | None = None

    async def __aenter__(self) -> Client:
        self._connections = Connections(self.access)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._connections is not None:
            connections, self._connections = self._connections, None
            await connections.close()

    # One request

    async def get(self, path: str, **params: str) -> Json:
        return await self.request("GET", path, params=params)

    async def create(self, path: str, body: object) -> Json:
        return await self.request("POST", path, body=body)

    async def replace(self, path: str, body: object) -> Json:
        return await self.request("PUT", path, body=body)

    async def patch(self, path: str, body: object, kind: str = MERGE_PATCH) -> Json:
        return await self.request("PATCH", path, body=body, content_type=kind)

    async def delete(self, path: str, body: object | None = None, **params: str) -> Json:
        return await self.request("DELETE", path, params=params, body=body)

    async def request(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, str] | None = None,
        body: object | None = None,
        content_type: str = "application/json",
        before_send: Callable[[], None] | None = None,
        tries: int = BUSY_TRIES,
    ) -> Json:
        """The answer's JSON. 429 is waited out a few times; a lost connection is an UnreachableError, never retried:
        only the caller knows whether asking twice does harm.

        `before_send` is called when the connection is there, with nothing awaited before the request is written to it;
        it may raise to stop it.
        """
        data = b"" if body is None else orjson.dumps(body)
        renew = False
        for attempt in range(max(tries, 2)):  # the second one is for a token that was refused
            self.calls[f"{method} {_subject(path)}"] += 1
            token = await self._token(renew)
            written = self._written(method, path, params, token, data, content_type)
            try:
                answer = await self._opened().ask(written, before_send)
            except (TimeoutError, OSError, UnreachableError) as error:
                raise _unreachable(self.access.server, error) from error
            if answer.status == 401 and not renew and self.access.tokens is not None:
                renew = True
                continue
            if answer.status == 429 and attempt + 1 < tries:
                await asyncio.sleep(_retry_after(answer.headers.get("retry-after"), attempt))
                continue
            return _checked(answer.status, answer.take())
        raise KubeError(429, "TooManyRequests", "still busy after several tries")

    async def list_all(self, path: str, **params: str) -> tuple[list[Json], str]:
        """All objects, consistent and page by page, and the resourceVersion they were read at."""
        return await self.list_read(path, lambda found: found, **params)

    async def list_read(self, path: str, read: Callable[[Json], Seen], **params: str) -> tuple[list[Seen], str]:
        """As `list_all`, what `read` makes of each object: the JSON of one page is there at a time."""
        seen: list[Seen] = []
        page = {**params, "limit": str(PAGE)}
        while True:
            answer = await self.get(path, **page)
            seen += map(read, answer.get("items") or [])
            onward = answer["metadata"].get("continue")
            if not onward:
                return seen, answer["metadata"]["resourceVersion"]
            page["continue"] = onward

    # A stream

    async def lines(
        self, path: str, params: Mapping[str, str], idle_seconds: float
    ) -> AsyncGenerator[list[bytes], None]:
        """Lines of a watch, those together that came together, until the server ends it or nothing came for
        `idle_seconds`. At first there are none: the server has agreed.
        """
        self.calls[f"WATCH {_subject(path)}"] += 1
        renew = False
        while True:
            try:
                written = self._written("GET", path, params, await self._token(renew))
                async with self._opened().stream(written, idle_seconds) as stream:
                    if stream.answer.status == 401 and not renew and self.access.tokens is not None:
                        renew = True
                        continue
                    if stream.answer.status != 200:
                        _checked(stream.answer.status, await stream.rest())
                    yield []
                    async with aclosing(_lines(stream)) as lines:
                        async for some in lines:
                            yield some
                return
            except (TimeoutError, OSError, UnreachableError) as error:
                raise _unreachable(self.access.server, error) from error

    async def text(self, path: str) -> str:
        """An answer that is no JSON, such as that of /readyz."""
        written = self._written("GET", path, None, await self._token(False))
        try:
            answer = await self._opened().ask(written)
        except (TimeoutError, OSError, UnreachableError) as error:
            raise _unreachable(self.access.server, error) from error
        content = answer.take()
        if answer.status >= 400:
            raise KubeError(answer.status, "", content[:200].decode("utf-8", "replace"))
        return content.decode("utf-8", "replace")

    async def _token(self, renew: bool) -> str:
        """A token that cannot be had now (a plugin failed, a file is being replaced) may be there in a moment."""
        if self.access.tokens is None:
            return ""
        try:
            token = await self.access.tokens.token(renew=renew)
        except InputError as error:
            raise UnreachableError(f"{self.access.server}: no token: {error}") from error
        if not (token.isascii() and token.isprintable()):  # a second line of it would be a header of its own
            raise UnreachableError(f"{self.access.server}: no token: it holds characters that no token has")
        return token

    def _opened(self) -> Connections:
        if self._connections is None:
            raise UnreachableError("the client is closed")
        return self._connections

    def _written(
        self,
        method: str,
        path: str,
        params: Mapping[str, str] | None,
        token: str,
        data: bytes = b"",
        content_type: str = "",
    ) -> bytes:
        """A request as it goes over the wire."""
        asked = f"?{urlencode(params)}" if params else ""
        head = f"{method} {self._base}{quote(path, safe=IN_PATHS)}{asked}{self._fixed}"
        if token:
            head += f"Authorization: Bearer {token}\r\n"
        if data:
            head += f"Content-Type: {content_type}\r\n"
        if method != "GET":
            head += f"Content-Length: {len(data)}\r\n"
        return b"%b\r\n%b" % (head.encode("ascii", "replace"), data)


def _subject(path: str) -> str:
    """What a path is about, without names: /api/v1/namespaces/x/pods/y/binding is pods/binding."""
    words = path.strip("/").split("/")
    words = words[2:] if words[0] == "api" else words[3:] if words[0] == "apis" else words
    if len(words) > 2 and words[0] == "namespaces" and words[2] not in ("status", "finalize"):
        words = words[2:]
    return "/".join(words[::2])


def _checked(status: int, content: bytes) -> Json:
    if len(content) > MAX_ANSWER_BYTES:
        raise UnreachableError(f"an answer of {len(content)} bytes")
    try:
        answer = orjson.loads(content) if content else {}
    except orjson.JSONDecodeError:
        answer = None
    if not isinstance(answer, dict):
        raise KubeError(status, "NotJSON", content[:200].decode("utf-8", "replace"))
    if status >= 300:
        message = str(answer.get("message") or "")[:1000]
        raise KubeError(status, str(answer.get("reason") or ""), message, _causes(answer.get("details")))
    return answer


def _causes(details: object) -> tuple[str, ...]:
    """Of a Status. Whoever answers in the place of an API server may send anything."""
    causes = details.get("causes") if isinstance(details, dict) else None
    named = [one.get("reason") for one in causes if isinstance(one, dict)] if isinstance(causes, list) else []
    return tuple(reason for reason in named if isinstance(reason, str))


async def _lines(stream: Stream) -> AsyncGenerator[list[bytes], None]:
    rest = b""
    while data := await stream.read():
        *whole, rest = (rest + data).split(b"\n")
        if whole:
            yield whole
        if len(rest) > MAX_EVENT_BYTES:
            raise UnreachableError(f"an event of more than {MAX_EVENT_BYTES} bytes")


def _retry_after(header: str | None, attempt: int) -> float:
    asked = float(header) if header and header.isdigit() else 0.25 * 2**attempt
    return min(asked, BUSY_SECONDS)


def _unreachable(server: str, error: Exception) -> UnreachableError:
    said = str(error) or type(error).__name__
    return UnreachableError(f"{server}: {said}")
