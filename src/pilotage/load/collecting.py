"""Reads Prometheus: one query per measure for all nodes, at an interval, whatever the numbers of nodes and pods are."""

from __future__ import annotations

import asyncio
import math
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import aiohttp
import orjson
from prometheus_client import CollectorRegistry, Counter, Gauge

from pilotage.load.columns import LoadColumns
from pilotage.model.clock import Clock
from pilotage.model.errors import InputError, PilotageError

MAX_ANSWER_BYTES = 64 * 1024 * 1024
MAX_VALUE = 1e15


class PrometheusError(PilotageError):
    """Prometheus did not answer, or not as expected."""


@dataclass
class Collector:
    """Keeps the columns up to date."""

    columns: LoadColumns
    clock: Clock
    registry: CollectorRegistry
    on_change: Callable[[], None] = lambda: None
    problems: dict[str, str] = field(default_factory=dict)  # of the last round, by measure
    _fresh: int = 0  # samples, when they were last looked at

    def __post_init__(self) -> None:
        self._queries = Counter(
            "pilotage_load_queries", "Queries to Prometheus, by how they ended.", ["result"], registry=self.registry
        )
        fresh = Gauge("pilotage_load_fresh_nodes", "Nodes with fresh measurements.", registry=self.registry)
        stale = Gauge(
            "pilotage_load_stale", "1 while nothing fresh is known: load columns are neutral.", registry=self.registry
        )
        # Looked at when asked for: they say what the readiness says, at the same moment.
        fresh.set_function(lambda: float(self.columns.fresh_nodes()))
        stale.set_function(lambda: float(not self.columns.fresh_nodes()))

    def state(self) -> dict[str, object]:
        """For people: whether policies see measurements, and what is wrong."""
        fresh = self.columns.fresh_nodes()
        return {"fresh": fresh > 0, "nodes": fresh, "problems": dict(self.problems)}

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Collector]:
        settings = self.columns.settings
        timeout = aiohttp.ClientTimeout(total=settings.timeout_seconds)
        connector = aiohttp.TCPConnector(limit=4, ssl=_tls(settings.authority))
        async with aiohttp.ClientSession(connector=connector, timeout=timeout, trust_env=False) as session:
            tasks = [asyncio.create_task(self._run(session)), asyncio.create_task(self._age())]
            try:
                yield self
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)

    async def _run(self, session: aiohttp.ClientSession) -> None:
        while True:
            began = self.clock.now()
            try:
                await self.collect(session)
            except Exception as error:  # columns that nobody fills any more go stale, and this says why
                self._queries.labels("failed").inc()
                self.problems["round"] = f"{type(error).__name__}: {error}"[:300]
            while (left := self.columns.settings.interval_seconds - (self.clock.now() - began)) > 0:
                await asyncio.sleep(min(left, 1.0))

    async def _age(self) -> None:
        """Columns age between two rounds, and while a Prometheus that hangs draws one out: what goes stale must go
        neutral then, not when the round is over."""
        while True:
            await asyncio.sleep(min(1.0, self.columns.settings.stale_seconds))
            self._notice_staleness()

    async def collect(self, session: aiohttp.ClientSession) -> None:
        """One round. What cannot be read stays as it was, and goes stale."""
        self.problems = {}
        for measure in self.columns.settings.queries:
            try:
                values, age = await self._ask(session, self.columns.settings.query(measure))
            except PrometheusError as error:
                self._queries.labels("failed").inc()
                self.problems[measure] = str(error)
                continue
            self._queries.labels("done").inc()
            self.columns.take(measure, values, age)
        self._notice_staleness()
        self.on_change()

    def _notice_staleness(self) -> None:
        before, self._fresh = self._fresh, self.columns.fresh_samples()
        if self._fresh < before:
            self.on_change()

    async def _ask(self, session: aiohttp.ClientSession, query: str) -> tuple[dict[str, float], float]:
        settings = self.columns.settings
        headers = {}
        if settings.token_file is not None:
            try:
                headers["Authorization"] = f"Bearer {settings.token_file.read_text().strip()}"
            except OSError as error:
                raise PrometheusError(f"{settings.token_file}: {error.strerror}") from error
        asked = self.clock.now()
        try:
            async with session.post(
                f"{settings.address}/api/v1/query", data={"query": query}, headers=headers, allow_redirects=False
            ) as answer:
                content = await _bounded(answer)
                if answer.status != 200:
                    raise PrometheusError(f"status {answer.status}: {content[:200].decode('utf-8', 'replace')}")
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise PrometheusError(f"{settings.address}: {error or type(error).__name__}") from error
        values = self._values(content)
        return values, self.clock.now() - asked

    def _values(self, content: bytes) -> dict[str, float]:
        """By node, or its address. Values that are no finite number, and series that name no node, are left out."""
        try:
            answer = orjson.loads(content)
            series = answer["data"]["result"]
            if answer["status"] != "success" or answer["data"]["resultType"] != "vector":
                raise PrometheusError(f"expected an instant vector, got {str(answer)[:200]}")
            values: dict[str, float] = {}
            for one in series:
                name = self._node(one["metric"])
                value = float(one["value"][1])
                if name and math.isfinite(value) and abs(value) <= MAX_VALUE:
                    values[name] = max(values.get(name, 0.0), value)
            return values
        except (KeyError, IndexError, TypeError, ValueError, AttributeError) as error:
            raise PrometheusError(
                f"an answer that cannot be read: {content[:200].decode('utf-8', 'replace')}"
            ) from error

    def _node(self, labels: dict[str, str]) -> str:
        """By the first label that names one: a name, or an address with or without a port."""
        for label in self.columns.settings.labels:
            value = labels.get(label)
            if value:
                if label != "instance":
                    return value
                return value.rpartition(":")[0].strip("[]") or value
        return ""


async def _bounded(answer: aiohttp.ClientResponse) -> bytes:
    chunks, size = [], 0
    async for chunk in answer.content.iter_chunked(1 << 16):
        size += len(chunk)
        if size > MAX_ANSWER_BYTES:
            raise PrometheusError(f"an answer of more than {MAX_ANSWER_BYTES} bytes")
        chunks.append(chunk)
    return b"".join(chunks)


def _tls(authority: object) -> ssl.SSLContext | bool:
    if authority is None:
        return True
    try:
        return ssl.create_default_context(cafile=str(authority))
    except (OSError, ssl.SSLError) as error:
        raise InputError(f"cannot be used: {error}", file=authority, expected="certificates, PEM") from error
