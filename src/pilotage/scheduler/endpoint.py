"""What a kubelet and Prometheus ask a scheduler: /healthz, /readyz and /metrics.

It runs in the scheduler's own event loop on purpose: a loop that hangs answers nobody, and is restarted.
"""

from __future__ import annotations

import socket
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, nullcontext
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest

from pilotage.kube.keys import KeyFiles, Keys
from pilotage.kube.listening import is_loopback
from pilotage.model.errors import InputError

if TYPE_CHECKING:
    from aiohttp import web

CLOSING_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class EndpointSettings:
    """Where it listens."""

    address: str
    port: int
    tls: Path | None = None  # tls.crt and tls.key; with ca.crt, /metrics is for holders of its certificates only

    @classmethod
    def of(cls, listen: str, tls: Path | None) -> EndpointSettings:
        """From the options; what is wrong with them is said now, before anything is begun."""
        address, _, port = listen.rpartition(":")
        expected = "IP:PORT, such as 0.0.0.0:10259"
        try:
            settings = cls(str(ip_address(address.strip("[]"))), int(port), tls)
        except ValueError as error:
            raise InputError(f"{listen!r} is no address", field="--listen", expected=expected) from error
        if not 0 < settings.port < 65536:
            raise InputError(f"{port} is no port", field="--listen", expected=expected)
        if tls is None and not is_loopback(settings.address):
            problem = "would answer other machines in the clear"
            raise InputError(problem, field="--listen", expected="--tls DIR with tls.crt and tls.key")
        if settings.files is not None:
            settings.files.context()
        return settings

    @property
    def files(self) -> KeyFiles | None:
        if self.tls is None:
            return None
        authority = self.tls / "ca.crt"
        return KeyFiles(self.tls / "tls.crt", self.tls / "tls.key", authority if authority.exists() else None)


@asynccontextmanager
async def answering(
    settings: EndpointSettings | None,
    registry: CollectorRegistry,
    missing: Callable[[], str],
    on_problem: Callable[[str], None] = lambda text: None,
) -> AsyncIterator[None]:
    """Answers while the context lasts. `missing` says what keeps the process from being ready, "" for nothing."""
    if settings is None:
        yield
        return
    from aiohttp import web  # a tenth of the start of a process that nobody asks

    files = settings.files

    async def alive(request: web.Request) -> web.Response:
        return web.Response(text="ok")

    async def ready(request: web.Request) -> web.Response:
        lacks = missing()
        return web.Response(status=503 if lacks else 200, text=lacks or "ok")

    async def metrics(request: web.Request) -> web.Response:
        if files is not None and files.authority is not None and not _certified(request):
            return web.Response(status=401, text="a client certificate is needed")
        return web.Response(body=generate_latest(registry), headers={"Content-Type": CONTENT_TYPE_LATEST})

    app = web.Application()
    app.add_routes([web.get("/healthz", alive), web.get("/readyz", ready), web.get("/metrics", metrics)])
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=CLOSING_SECONDS)
    await runner.setup()
    try:
        with _listening(settings) as listening:
            sites: list[web.SockSite] = []

            async def change(context: ssl.SSLContext | None) -> None:
                """New connections are by this context; those that wait to be accepted too, as the socket is one."""
                site = web.SockSite(runner, listening.dup(), ssl_context=context)
                await site.start()
                while sites:
                    await sites.pop().stop()
                sites.append(site)

            keys = Keys(files, change) if files is not None else None
            await change(keys.context if keys is not None else None)
            async with keys.renewed(on_problem) if keys is not None else nullcontext():
                yield
    finally:
        await runner.cleanup()


def _listening(settings: EndpointSettings) -> socket.socket:
    family = socket.AF_INET6 if ":" in settings.address else socket.AF_INET
    try:
        return socket.create_server((settings.address, settings.port), family=family)
    except OSError as error:
        where = f"{settings.address}:{settings.port}"
        raise InputError(f"{where}: {error.strerror}", field="--listen", expected="a free port") from error


def _certified(request: web.Request) -> bool:
    transport = request.transport
    return transport is not None and bool(transport.get_extra_info("peercert"))
