"""What a kubelet and Prometheus ask a scheduler: /healthz, /readyz and /metrics.

It runs in the scheduler's own event loop on purpose: a loop that hangs answers nobody, and is restarted.
"""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path

from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest

from pilotage.kube.listening import is_loopback
from pilotage.model.errors import InputError

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
        settings.context()
        return settings

    def context(self) -> ssl.SSLContext | None:
        """How it encrypts; off loopback it must."""
        if self.tls is None:
            if not is_loopback(self.address):
                problem = "would answer other machines in the clear"
                raise InputError(problem, field="--listen", expected="--tls DIR with tls.crt and tls.key")
            return None
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        try:
            context.load_cert_chain(self.tls / "tls.crt", self.tls / "tls.key")
            if (self.tls / "ca.crt").exists():
                context.verify_mode = ssl.CERT_OPTIONAL  # a kubelet shows none
                context.load_verify_locations(self.tls / "ca.crt")
        except (OSError, ssl.SSLError) as error:
            expected = "tls.crt and tls.key in PEM, perhaps ca.crt"
            raise InputError("holds no certificate and key", file=self.tls, expected=expected) from error
        return context


@asynccontextmanager
async def answering(
    settings: EndpointSettings | None, registry: CollectorRegistry, missing: Callable[[], str]
) -> AsyncIterator[None]:
    """Answers while the context lasts. `missing` says what keeps the process from being ready, "" for nothing."""
    if settings is None:
        yield
        return
    context = settings.context()

    async def alive(request: web.Request) -> web.Response:
        return web.Response(text="ok")

    async def ready(request: web.Request) -> web.Response:
        lacks = missing()
        return web.Response(status=503 if lacks else 200, text=lacks or "ok")

    async def metrics(request: web.Request) -> web.Response:
        if context is not None and context.verify_mode != ssl.CERT_NONE and not _certified(request):
            return web.Response(status=401, text="a client certificate is needed")
        return web.Response(body=generate_latest(registry), headers={"Content-Type": CONTENT_TYPE_LATEST})

    app = web.Application()
    app.add_routes([web.get("/healthz", alive), web.get("/readyz", ready), web.get("/metrics", metrics)])
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=CLOSING_SECONDS)
    await runner.setup()
    try:
        site = web.TCPSite(runner, settings.address, settings.port, ssl_context=context)
        try:
            await site.start()
        except OSError as error:
            where = f"{settings.address}:{settings.port}"
            raise InputError(f"{where}: {error.strerror}", field="--listen", expected="a free port") from error
        yield
    finally:
        await runner.cleanup()


def _certified(request: web.Request) -> bool:
    transport = request.transport
    return transport is not None and bool(transport.get_extra_info("peercert"))
