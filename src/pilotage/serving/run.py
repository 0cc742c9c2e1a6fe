"""The service as a process: caches, listening sockets, reload, and an end that loses no request."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import uvicorn

from pilotage.dashboard.listening import BACKLOG, Server, listen
from pilotage.dashboard.protocol import BoundedProtocol, ConnectionLimits
from pilotage.dashboard.serving import Place
from pilotage.dashboard.serving import serving as showing
from pilotage.dashboard.watching import WatchedPods
from pilotage.kube.access import Access
from pilotage.kube.binding import Binder
from pilotage.kube.cache import ClusterCache
from pilotage.kube.client import Client
from pilotage.kube.keys import Keys
from pilotage.load.collecting import Collector
from pilotage.load.columns import LoadColumns
from pilotage.load.settings import LoadSettings
from pilotage.model.clock import Clock
from pilotage.model.cluster import Node
from pilotage.model.errors import InputError, PilotageError
from pilotage.policies.api import WorkloadMix
from pilotage.serving.app import Service
from pilotage.serving.callers import Sessions
from pilotage.serving.extender import Extender
from pilotage.serving.following import STALE_SECONDS, Following
from pilotage.serving.logs import log
from pilotage.serving.metrics import Metrics
from pilotage.serving.offered import Offered
from pilotage.serving.questions import Answering, Limits
from pilotage.serving.scoring import Scoring
from pilotage.serving.security import Gate, Security
from pilotage.serving.showing import ScoredPods, ServedCluster
from pilotage.serving.v1 import Api, Own
from pilotage.serving.warming import warmed

KEEP_ALIVE_SECONDS = 120  # longer than Go clients keep idle connections, so that they never meet one being closed
GRACE_SECONDS = 10


@dataclass(frozen=True)
class Settings:
    """How a service runs."""

    policies: tuple[str, ...] = ("fgd",)
    host: str | None = "127.0.0.1"  # None: no TCP
    port: int = 8650  # 0: any free one
    socket: Path | None = None  # a Unix socket beside it
    security: Security = Security()  # noqa: RUF009 - frozen
    access: Access | None = None  # None: no cluster is followed, callers bring their snapshots
    nodes: tuple[Node, ...] = ()  # in the place of a cluster that is followed: one that stands still, to measure with
    load: LoadSettings | None = None
    mix: WorkloadMix | None = None
    limits: Limits = Limits()  # noqa: RUF009 - frozen
    connections: ConnectionLimits = ConnectionLimits()  # noqa: RUF009 - frozen
    stale_seconds: float = STALE_SECONDS
    seed: int = 0
    instance: str = "pilotage-serve"
    dashboard: Place | None = None  # of a page about the cluster that is followed


@dataclass
class Serving:
    """A running service."""

    settings: Settings
    clock: Clock
    metrics: Metrics = field(default_factory=Metrics)
    port: int = 0  # that is listened on
    page: str = ""  # address of the dashboard
    own: Own | None = None
    collector: Collector | None = None
    _warm: bool = False
    _keys: Keys | None = None  # of the port
    _reloading: asyncio.Lock = field(default_factory=asyncio.Lock)

    def __post_init__(self) -> None:
        settings = self.settings
        settings.security.check(settings.host)
        self.offered = Offered.read(settings.policies)
        self.gate = Gate(settings.security.client_authority is not None, settings.security.token())
        if settings.security.files is not None:
            settings.security.files.context()  # what is wrong with them is said before anything else happens
        self.columns = LoadColumns(settings.load, self.clock) if settings.load is not None else None
        self.sessions = Sessions(self._scoring, self.clock)

    def _scoring(self, addresses: dict[str, str]) -> Scoring:
        cache = ClusterCache(on_problem=self._problem)
        if self.columns is not None:
            cache.measured = partial(self.columns.fill, addresses=addresses)
        return Scoring(cache, lambda: self.offered, self.settings.mix, self.settings.seed)

    def _problem(self, text: str) -> None:
        self.metrics.problems.inc()
        log(logging.WARNING, "problem", detail=text[:500])

    # Ready?

    def obstacles(self) -> dict[str, str]:
        found = {} if self._warm else {"policies": "being compiled"}
        if self.own is not None and self.own.obstacle():
            found["cluster"] = self.own.obstacle()
        return found

    def details(self, known: bool) -> dict[str, object]:
        """For people. Problems name addresses and say what came from them: for callers who are known alone."""
        said: dict[str, object] = {"policies": self.offered.names}
        if self.collector is not None:
            state = self.collector.state()
            said["load"] = state if known else {key: state[key] for key in ("fresh", "nodes")}
        return said

    # Running

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Serving]:
        """Listens while the context is open; at its end requests under way are answered."""
        async with AsyncExitStack() as stack:
            listening = None
            if self.settings.host is not None:
                listening = stack.enter_context(listen(self.settings.host, self.settings.port, "--host, --port"))
                self.port = listening.getsockname()[1]
            extender = await self._follow(stack)
            if self.columns is not None:
                self.collector = Collector(self.columns, self.clock, self.metrics.registry, self._measured)
                await stack.enter_async_context(self.collector.running())
            api = Api(self.sessions, self.own, extender.on_scored if extender is not None else None)
            answering = Answering(self.metrics, self.gate, self.settings.limits)
            service = Service(api, extender, answering, self.obstacles, self.details)
            servers = self._servers(service, listening)
            tasks = [asyncio.create_task(server.serve(sockets)) for server, sockets in servers]
            ticking = asyncio.create_task(self._publish())
            made: tuple[int, int] | None = None
            try:
                while not all(server.started for server, _ in servers):
                    for task in tasks:
                        if task.done():
                            await task
                    await asyncio.sleep(0.01)
                made = _identity(self.settings.socket)
                self.offered = await asyncio.to_thread(warmed, self.offered, self.settings.mix)
                self._warm = True
                keys = self._keys
                async with keys.renewed(self._not_renewed, self._renewed) if keys is not None else nullcontext():
                    yield self
            finally:
                ticking.cancel()
                for server, _ in servers:
                    server.should_exit = True
                await asyncio.gather(*tasks, return_exceptions=True)
                with suppress(asyncio.CancelledError):
                    await ticking
                if self.settings.socket is not None and _identity(self.settings.socket) == made:
                    self.settings.socket.unlink(missing_ok=True)  # a successor may have put its own there

    async def _follow(self, stack: AsyncExitStack) -> Extender | None:
        access = self.settings.access
        if access is None:
            return self._looked_at() if self.settings.nodes else None
        client = await stack.enter_async_context(Client(access, agent="pilotage-serve"))
        addresses: dict[str, str] = {}
        scoring = self._scoring(addresses)
        following = Following(client, scoring.cache, self.clock, self._problem, self.settings.stale_seconds, addresses)
        self.own = Own(scoring, following.obstacle)
        binder = Binder(client, self.clock, self.settings.instance)
        extender = Extender(self.own, binder, self.metrics)
        if self.settings.dashboard is not None:
            scored = ScoredPods(self.offered.names[0])
            watched = ServedCluster(client, self.clock, scoring.cache, scored, following.obstacle)
            following.pods, extender.on_scored = WatchedPods(watched), scored.note
            page = await stack.enter_async_context(showing(watched, self.clock, self.settings.dashboard))
            self.page = page.url
        await stack.enter_async_context(following.running())
        return extender

    def _looked_at(self) -> Extender:
        scoring = self._scoring({})
        scoring.cache.set_nodes(self.settings.nodes)
        self.own = Own(scoring, lambda: "")
        return Extender(self.own, None, self.metrics)

    def _measured(self) -> None:
        """New measurements: kept scores do not hold any more."""
        if self.own is not None:
            self.own.scoring.cache.measure()
        for session in self.sessions:
            session.cache.measure()

    def _servers(
        self, service: Service, listening: socket.socket | None
    ) -> list[tuple[Server, list[socket.socket] | None]]:
        settings = self.settings
        common: dict[str, object] = {
            "http": partial(BoundedProtocol, limits=settings.connections),
            "ws": "none",
            "lifespan": "off",
            "log_config": None,
            "access_log": False,
            "server_header": False,
            "proxy_headers": False,  # who asks is decided by sockets and certificates
            "date_header": False,
            "timeout_keep_alive": KEEP_ALIVE_SECONDS,
            "timeout_graceful_shutdown": GRACE_SECONDS,
            "backlog": BACKLOG,
        }
        servers: list[tuple[Server, list[socket.socket] | None]] = []
        if listening is not None:
            config = uvicorn.Config(service, **common)  # type: ignore[arg-type]
            config.load()
            server = Server(config)
            if settings.security.files is not None:
                self._keys = Keys(settings.security.files, server.change_keys)
                config.ssl = self._keys.context
            servers.append((server, [listening]))
        if settings.socket is not None:
            _prepare_socket(settings.socket)
            config = uvicorn.Config(service, uds=str(settings.socket), **common)  # type: ignore[arg-type]
            servers.append((Server(config), None))
        return servers

    async def _publish(self) -> None:
        while True:
            self.metrics.sessions.set(len(self.sessions))
            if self.own is not None:
                cache = self.own.scoring.cache
                cache.refresh()  # the next request would do it: it waits less, and nodes are counted before it
                self.metrics.nodes.set(len(cache.state.nodes))
                self.metrics.pods.set(len(cache.pods))
            await asyncio.sleep(1.0)

    async def reload(self) -> bool:
        """Policies, token and keys as they are on disk now; what was there stays when something is wrong with them.

        One after another: of two at a time the one that read first could end last, and both would have one edition.
        """
        async with self._reloading:
            return await self._reload()

    async def _reload(self) -> bool:
        try:
            fresh = await asyncio.to_thread(Offered.read, self.settings.policies, self.offered.edition + 1)
            fresh = await asyncio.to_thread(warmed, fresh, self.settings.mix)
            token = self.settings.security.token()
            if self._keys is not None:
                await self._keys.renew()
        except PilotageError as error:
            self._not_renewed(str(error))
            return False
        self.offered, self.gate.token = fresh, token
        self.metrics.edition.set(fresh.edition)
        self._renewed(policies=fresh.names)
        return True

    def _renewed(self, **what: object) -> None:
        self.metrics.reloads.labels("done").inc()
        log(logging.INFO, "reload", outcome="done", **what)

    def _not_renewed(self, why: str) -> None:
        self.metrics.reloads.labels("failed").inc()
        log(logging.ERROR, "reload", outcome="failed", detail=why)


def _identity(path: Path | None) -> tuple[int, int] | None:
    """Of a file, whatever it is called; None where there is none."""
    if path is None or not path.exists():
        return None
    found = path.stat()
    return found.st_dev, found.st_ino


def _prepare_socket(path: Path) -> None:
    """A file for its owner alone: the server takes its place and keeps its mode.

    A socket that is there was left by a killed service, or belongs to one that this one takes over from; anything else
    is not ours.
    """
    if path.is_socket():
        path.unlink()
    elif path.exists():
        raise InputError("there is something that is no socket", file=path, expected="a path for a new socket")
    try:
        with socket.socket(socket.AF_UNIX) as placeholder:
            placeholder.bind(str(path))
        path.chmod(0o600)
    except OSError as error:
        raise InputError(f"cannot be made: {error}", file=path, expected="a path for a new socket") from error
