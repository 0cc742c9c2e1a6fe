"""Requests to an API server over raw JSON: decoding into full models is what makes other clients slow."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import Any

import aiohttp
import orjson
from aiohttp.abc import AbstractStreamWriter

from pilotage.kube.access import Access
from pilotage.kube.errors import KubeError, UnreachableError
from pilotage.model.errors import InputError, PilotageError

Json = dict[str, Any]

MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"

CONNECT_SECONDS, ANSWER_SECONDS = 10.0, 60.0
ANSWER_TIMEOUT = aiohttp.ClientTimeout(total=ANSWER_SECONDS, sock_connect=CONNECT_SECONDS)
MAX_ANSWER_BYTES = 1 << 30
MAX_EVENT_BYTES = 16 * 1024 * 1024  # etcd stores at most 1.5 MB of an object
MAX_CONNECTIONS = 64
BUSY_TRIES = 5  # while the server says "too many requests"
BUSY_SECONDS = 10.0  # the longest it may ask us to wait
PAGE = 500
CLOSING_TURNS = 4  # of the event loop, until closed connections have noticed


class _Guarded(aiohttp.BytesPayload):
    """A body that asks whether it may still be written, at the moment when it is.

    Getting a connection can take seconds; who waited for one, or was paused meanwhile, must not act on what was true
    before.
    """

    def __init__(self, data: bytes, check: Callable[[], None]) -> None:
        super().__init__(data)
        self._check = check
        self.stopped_by: PilotageError | None = None

    async def write_with_length(self, writer: AbstractStreamWriter, content_length: int | None) -> None:
        try:
            self._check()
        except PilotageError as error:
            self.stopped_by = error
            raise
        await super().write_with_length(writer, content_length)


class Client:
    """One connection pool; an asynchronous context."""

    def __init__(self, access: Access, *, agent: str = "pilotage") -> None:
        self.access = access
        self.calls: Counter[str] = Counter()  # requests sent, by method and what they were about
        self._agent = agent
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Client:
        connector = aiohttp.TCPConnector(limit=0, limit_per_host=MAX_CONNECTIONS, keepalive_timeout=60)
        headers = {"User-Agent": self._agent, "Accept": "application/json"}
        # Never through a proxy of the environment, never after a redirection: both would carry credentials elsewhere.
        self._session = aiohttp.ClientSession(connector=connector, headers=headers, trust_env=False)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None
            for _ in range(CLOSING_TURNS):
                await asyncio.sleep(0)

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
        data = None if body is None else orjson.dumps(body)
        guarded = _Guarded(data or b"", before_send) if before_send is not None else None
        renew = False
        for attempt in range(max(tries, 2)):  # the second one is for a token that was refused
            self.calls[f"{method} {_subject(path)}"] += 1
            token = await self._token(renew)
            try:
                async with self._send(method, path, params, guarded or data, content_type, token) as answer:
                    content = await answer.read()
                    if answer.status == 401 and not renew and self.access.tokens is not None:
                        renew = True
                        continue
                    if answer.status == 429 and attempt + 1 < tries:
                        await asyncio.sleep(_retry_after(answer.headers.get("Retry-After"), attempt))
                        continue
                    return _checked(answer.status, content)
            except (aiohttp.ClientError, TimeoutError, OSError) as error:
                if guarded is not None and guarded.stopped_by is not None:
                    raise guarded.stopped_by from None
                raise _unreachable(self.access.server, error) from error
        raise KubeError(429, "TooManyRequests", "still busy after several tries")

    async def list_all(self, path: str, **params: str) -> tuple[list[Json], str]:
        """All objects, consistent and page by page, and the resourceVersion they were read at."""
        items: list[Json] = []
        page = {**params, "limit": str(PAGE)}
        while True:
            answer = await self.get(path, **page)
            items += answer.get("items") or []
            onward = answer["metadata"].get("continue")
            if not onward:
                return items, answer["metadata"]["resourceVersion"]
            page["continue"] = onward

    # A stream

    async def lines(self, path: str, params: Mapping[str, str], idle_seconds: float) -> AsyncGenerator[bytes, None]:
        """Lines of a watch, until the server ends it or nothing came for `idle_seconds`.

        The first one is empty and comes when the server has agreed.
        """
        self.calls[f"WATCH {_subject(path)}"] += 1
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_SECONDS, sock_read=idle_seconds)
        renew = False
        while True:
            try:
                token = await self._token(renew)
                async with self._send("GET", path, params, None, "", token, timeout) as answer:
                    if answer.status == 401 and not renew and self.access.tokens is not None:
                        renew = True
                        continue
                    if answer.status != 200:
                        _checked(answer.status, await answer.read())
                    try:
                        yield b""
                        async for line in _lines(answer):
                            yield line
                    finally:
                        _abort(answer)
                return
            except (aiohttp.ClientError, TimeoutError, OSError) as error:
                raise _unreachable(self.access.server, error) from error

    async def text(self, path: str) -> str:
        """An answer that is no JSON, such as that of /readyz."""
        try:
            async with self._send("GET", path, None, None, "", await self._token(False)) as answer:
                content = await answer.read()
                if answer.status >= 400:
                    raise KubeError(answer.status, answer.reason or "", content[:200].decode("utf-8", "replace"))
                return content.decode("utf-8", "replace")
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise _unreachable(self.access.server, error) from error

    async def _token(self, renew: bool) -> str:
        """A token that cannot be had now (a plugin failed, a file is being replaced) may be there in a moment."""
        if self.access.tokens is None:
            return ""
        try:
            return await self.access.tokens.token(renew=renew)
        except InputError as error:
            raise UnreachableError(f"{self.access.server}: no token: {error}") from error

    def _send(
        self,
        method: str,
        path: str,
        params: Mapping[str, str] | None,
        data: bytes | aiohttp.BytesPayload | None,
        content_type: str,
        token: str,
        timeout: aiohttp.ClientTimeout = ANSWER_TIMEOUT,
    ) -> AbstractAsyncContextManager[aiohttp.ClientResponse]:
        if self._session is None:
            raise UnreachableError("the client is closed")
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        if data is not None:
            headers["Content-Type"] = content_type
        return self._session.request(
            method,
            self.access.server + path,
            params=params or None,
            data=data,
            headers=headers,
            ssl=self.access.tls if self.access.tls is not None else True,
            server_hostname=self.access.server_name,
            allow_redirects=False,
            timeout=timeout,
        )


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
        raise KubeError(status, str(answer.get("reason") or ""), str(answer.get("message") or "")[:1000])
    return answer


async def _lines(answer: aiohttp.ClientResponse) -> AsyncIterator[bytes]:
    rest = b""
    async for chunk in answer.content.iter_any():
        *whole, rest = (rest + chunk).split(b"\n")
        for line in whole:
            yield line
        if len(rest) > MAX_EVENT_BYTES:
            raise UnreachableError(f"an event of more than {MAX_EVENT_BYTES} bytes")


def _abort(answer: aiohttp.ClientResponse) -> None:
    """A watch that is left early: nobody waits for the farewell of its TLS connection."""
    if answer.connection is not None and answer.connection.transport is not None:
        answer.connection.transport.abort()


def _retry_after(header: str | None, attempt: int) -> float:
    asked = float(header) if header and header.isdigit() else 0.25 * 2**attempt
    return min(asked, BUSY_SECONDS)


def _unreachable(server: str, error: Exception) -> UnreachableError:
    said = str(error) or type(error).__name__
    return UnreachableError(f"{server}: {said}")
