"""The page on an address, by uvicorn, inside an event loop that does other things too."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import uvicorn

from pilotage.dashboard.access import Guard
from pilotage.dashboard.app import Dashboard
from pilotage.dashboard.listening import Server, listen
from pilotage.dashboard.protocol import BoundedProtocol, ConnectionLimits
from pilotage.dashboard.source import Source
from pilotage.kube.keys import KeyFiles, Keys
from pilotage.kube.listening import is_loopback, read_token
from pilotage.model.clock import Clock
from pilotage.model.errors import InputError

LOGGER = logging.getLogger("pilotage.dashboard")
END_SECONDS = 2  # for open pages when the process ends
LIMITS = ConnectionLimits(connections=256)


@dataclass(frozen=True, slots=True)
class Place:
    """Where the page is to be found, and what protects it there."""

    host: str
    port: int
    guard: Guard
    certificate: Path | None = None
    key: Path | None = None
    option: str = "--address"

    @property
    def files(self) -> KeyFiles | None:
        return KeyFiles(self.certificate, self.key) if self.certificate and self.key else None

    @property
    def url(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'https' if self.certificate else 'http'}://{host}:{self.port}/"


def place_of(
    address: str,
    token_file: Path | None = None,
    certificate: Path | None = None,
    key: Path | None = None,
    *,
    plain: bool = False,
) -> Place:
    """HOST:PORT, checked: what leaves the machine needs a token, and TLS unless a proxy does it (`plain`)."""
    host, colon, number = address.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not colon or not host or not number.isdecimal() or int(number) > 65535:
        raise InputError(f"{address!r} is no address", field="--address", expected="HOST:PORT, such as 127.0.0.1:7780")
    if (certificate is None) != (key is None):
        raise InputError("one without the other", field="--tls-certificate", expected="--tls-key beside it")
    token = read_token(token_file) if token_file is not None else ""
    if not is_loopback(host):
        if not token:
            raise InputError(f"{host} leaves this machine", field="--address", expected="--token-file FILE beside it")
        if certificate is None and not plain:
            expected = "--tls-certificate and --tls-key, or --plain-http behind a proxy that has them"
            raise InputError(f"{host} leaves this machine", field="--address", expected=expected)
    place = Place(host, int(number), Guard(token), certificate, key)
    if place.files is not None:
        place.files.context()  # what is wrong with them is said before anything is begun
    return place


@dataclass(frozen=True, slots=True)
class Serving:
    """A page that can be opened."""

    url: str
    dashboard: Dashboard


@asynccontextmanager
async def serving(
    source: Source, clock: Clock, place: Place, limits: ConnectionLimits = LIMITS
) -> AsyncIterator[Serving]:
    """The page at its address; with port 0 at a free one."""
    listening = listen(place.host, place.port, place.option)
    place = replace(place, port=listening.getsockname()[1])
    dashboard = Dashboard(source, clock, place.guard)
    config = uvicorn.Config(
        dashboard.app,
        http=partial(BoundedProtocol, limits=limits),  # type: ignore[arg-type]
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=END_SECONDS,
    )
    config.load()
    server = Server(config)
    keys = Keys(place.files, server.change_keys) if place.files is not None else None
    config.ssl = keys.context if keys is not None else None
    async with dashboard.looking():
        task = asyncio.create_task(server.serve([listening]))
        try:
            async with keys.renewed(LOGGER.warning) if keys is not None else nullcontext():
                yield Serving(place.url, dashboard)
        finally:
            dashboard.feed.end()
            server.should_exit = True
            await task
            listening.close()
