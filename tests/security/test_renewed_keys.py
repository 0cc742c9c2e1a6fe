"""Everything that listens by TLS takes renewed keys without a restart: real connections see the new certificate."""

from __future__ import annotations

import asyncio
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from datetime import UTC, datetime
from http.client import HTTPSConnection
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from dashboard.pages import a_page, told_cluster
from pilotage.dashboard.access import Guard
from pilotage.dashboard.serving import place_of
from pilotage.kube import keys
from pilotage.kube.keys import KeyFiles
from pilotage.lab.certificates import Authority, Identity, write_private
from pilotage.lab.ports import free_ports
from pilotage.model.clock import SystemClock
from pilotage.model.errors import InputError
from pilotage.scheduler.endpoint import EndpointSettings, answering
from pilotage.serving.run import Serving, Settings
from pilotage.serving.security import Security
from serving.services import a_service, end

LOOK_SECONDS = 0.05
WITHIN_SECONDS = 30.0
Listens = Callable[[Path], AbstractContextManager[int]]


class Mounted:
    """A directory with keys as a kubelet mounts a secret: links to a link, which is replaced as a whole."""

    def __init__(self, directory: Path) -> None:
        self.directory, self._authority = directory, Authority("test", datetime.now(UTC))
        self._versions = 0
        for name in ("tls.crt", "tls.key"):
            (directory / name).symlink_to(Path("..data", name))
        self.renew()

    def issued(self) -> Identity:
        return self._authority.issue("server")

    def write(self, name: str, data: bytes) -> None:
        """One file alone, at once."""
        target = (self.directory / name).resolve()
        write_private(self.directory / "new", data).rename(target)

    def renew(self) -> str:
        """The new certificate."""
        self._versions += 1
        version, fresh = self.directory / f"..{self._versions}", self.issued()
        version.mkdir()
        write_private(version / "tls.crt", fresh.certificate)
        write_private(version / "tls.key", fresh.key)
        (self.directory / "..new").symlink_to(version.name)
        (self.directory / "..new").rename(self.directory / "..data")
        return fresh.certificate.decode().strip()


@pytest.fixture
def mounted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Mounted:
    monkeypatch.setattr(keys, "LOOK_SECONDS", LOOK_SECONDS)
    return Mounted(tmp_path)


def security(directory: Path) -> Security:
    return Security(directory / "tls.crt", directory / "tls.key")


@contextmanager
def service(directory: Path) -> Iterator[int]:
    with a_service(Settings(policies=("least-allocated",), port=0, security=security(directory))) as serving:
        yield serving.port


@contextmanager
def page(directory: Path) -> Iterator[int]:
    told = told_cluster()
    with a_page(told.cluster, Guard(), directory / "tls.crt", directory / "tls.key") as served:
        yield int(served.url.rstrip("/").rpartition(":")[2])


@contextmanager
def endpoint(directory: Path) -> Iterator[int]:
    """Of a scheduler."""
    (port,) = free_ports(1)
    loop, started, stop = asyncio.new_event_loop(), threading.Event(), asyncio.Event()

    async def run() -> None:
        async with answering(EndpointSettings("127.0.0.1", port, directory), CollectorRegistry(), lambda: ""):
            started.set()
            await stop.wait()

    thread = threading.Thread(target=lambda: loop.run_until_complete(run()))
    thread.start()
    try:
        assert started.wait(60)
        yield port
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join(60)
        assert not thread.is_alive()
        end(loop)


def shown(port: int) -> str:
    """The certificate that a new connection gets to see."""
    return ssl.get_server_certificate(("127.0.0.1", port), timeout=10).strip()


def expect_shown(port: int, certificate: str) -> None:
    clock = SystemClock()
    deadline = clock.now() + WITHIN_SECONDS
    while shown(port) != certificate:
        assert clock.now() < deadline, "the old certificate is still shown"
        clock.wait(LOOK_SECONDS)


@contextmanager
def connected(port: int) -> Iterator[Callable[[], int]]:
    """A connection that stays; the call asks on it, and gives the status of the answer."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    connection = HTTPSConnection("127.0.0.1", port, timeout=10, context=context)
    connection.connect()
    opened = connection.sock

    def ask() -> int:
        connection.request("GET", "/healthz")
        answer = connection.getresponse()
        answer.read()
        assert connection.sock is opened
        return answer.status

    try:
        yield ask
    finally:
        connection.close()


@pytest.mark.parametrize("listens", [service, page, endpoint])
def test_renewed_keys_are_used_without_a_restart(listens: Listens, mounted: Mounted) -> None:
    with listens(mounted.directory) as port, connected(port) as ask:
        for _ in range(3):  # what works once may have used up what it needs
            expect_shown(port, mounted.renew())
            assert ask() == 200  # a connection from before goes on


@pytest.mark.parametrize("listens", [service, page, endpoint])
def test_half_a_pair_changes_nothing_until_the_rest_is_there(listens: Listens, mounted: Mounted) -> None:
    with listens(mounted.directory) as port:
        before, fresh = shown(port), mounted.issued()
        mounted.write("tls.key", fresh.key)
        SystemClock().wait(10 * LOOK_SECONDS)
        assert shown(port) == before
        mounted.write("tls.crt", fresh.certificate)
        expect_shown(port, fresh.certificate.decode().strip())


def test_renewals_are_counted_and_one_that_cannot_be_used_is_told_once(mounted: Mounted) -> None:
    def count(serving: Serving, result: str) -> float | None:
        return serving.metrics.registry.get_sample_value("pilotage_serve_reloads_total", {"result": result})

    settings = Settings(policies=("least-allocated",), port=0, security=security(mounted.directory))
    with a_service(settings) as serving:
        expect_shown(serving.port, mounted.renew())
        assert count(serving, "done") == 1
        mounted.write("tls.crt", b"no certificate")
        SystemClock().wait(10 * LOOK_SECONDS)
        assert (count(serving, "done"), count(serving, "failed")) == (1, 1)
        expect_shown(serving.port, mounted.renew())
        assert (count(serving, "done"), count(serving, "failed")) == (2, 1)


def test_keys_that_cannot_be_used_are_refused_before_anything_listens(mounted: Mounted, tmp_path: Path) -> None:
    certificate, key = mounted.directory / "tls.crt", mounted.directory / "tls.key"
    with pytest.raises(InputError, match=r"none\.key: there is no such file"):
        KeyFiles(certificate, tmp_path / "none.key").context()
    mounted.write("tls.key", mounted.issued().key)
    for refused in (
        lambda: place_of("127.0.0.1:0", None, certificate, key),
        lambda: Serving(
            Settings(policies=("least-allocated",), port=0, security=security(mounted.directory)), SystemClock()
        ),
    ):
        with pytest.raises(InputError, match=r"tls\.crt: cannot be used with .*tls\.key"):
            refused()


def test_a_key_with_a_password_is_refused_and_nobody_is_asked_for_it(mounted: Mounted) -> None:
    from cryptography.hazmat.primitives import serialization

    key = mounted.directory / "tls.key"
    found = serialization.load_pem_private_key(key.read_bytes(), None)
    locked = serialization.BestAvailableEncryption(b"secret")
    key.write_bytes(found.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, locked))
    with pytest.raises(InputError, match="a PEM chain and its key"):
        KeyFiles(mounted.directory / "tls.crt", key).context()
