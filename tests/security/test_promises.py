"""What docs/security.md promises."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import pickle
import stat
import tempfile
from collections.abc import Callable
from pathlib import Path

import aiohttp
import psutil
import pytest

from deploy.chart import scheduler_account
from lab.labs import eventually, make_namespace, pod
from pilotage.dashboard.serving import place_of
from pilotage.dashboard.serving import serving as dashboard_serving
from pilotage.dashboard.watching import WatchedCluster
from pilotage.kernels.compiling import cache_directory
from pilotage.kube.access import find_access, read_kubeconfig
from pilotage.kube.client import Client
from pilotage.kube.errors import KubeError, UnreachableError
from pilotage.lab.controlplane import Lab, in_lab
from pilotage.model.clock import SystemClock
from pilotage.model.errors import InputError, PilotageError
from pilotage.policies.registry import find_policy
from pilotage.scheduler.endpoint import EndpointSettings
from pilotage.serving.run import Settings
from pilotage.serving.security import Security
from scheduler.live import a_scheduler
from serving.services import a_question, a_service

PRIVATE = 0o600
CALLERS = "a-token-that-callers-have-to-show"


class Fires:
    """Would leave a file behind if anybody unpickled it."""

    def __init__(self, trace: Path) -> None:
        self.trace = trace

    def __reduce__(self) -> tuple[Callable[[Path], None], tuple[Path]]:
        return Path.touch, (self.trace,)


def token_of(kubeconfig: Path) -> str:
    return str(json.loads(kubeconfig.read_bytes())["users"][0]["user"]["token"])


def test_no_credential_is_in_any_log_at_debug_level(
    lab: Lab, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    """A scheduler that works, and a request that is refused."""
    told: list[str] = []

    async def test(client: Client) -> str:
        kubeconfig = await scheduler_account(lab)
        namespace = await make_namespace(client)
        await client.create(f"/api/v1/namespaces/{namespace}/pods", pod("one", scheduler="quiet"))

        async def bound() -> bool | None:
            found = await client.get(f"/api/v1/namespaces/{namespace}/pods/one")
            return "nodeName" in found["spec"] or None

        async with a_scheduler(lab, "quiet=best-fit") as scheduler:
            scheduler.on_decision = lambda *words: told.append(repr(words))
            await eventually(bound, "the pod is bound")
            told.append(repr(scheduler.client.access) + repr(scheduler))
        access = read_kubeconfig(kubeconfig, None, SystemClock())
        async with Client(access) as own:
            with pytest.raises(KubeError) as refused:
                await own.get("/api/v1/secrets")
            told.append(f"{refused.value!r} {refused.value}")
        return token_of(kubeconfig)

    caplog.set_level(logging.INFO, logger="numba")  # a compiler that meets no credential, and talks much
    with caplog.at_level(logging.DEBUG):
        token = in_lab(lab, test)
    written = capsys.readouterr()
    expect_untold(logged(caplog) + written.out + written.err + "".join(told), token)


def logged(caplog: pytest.LogCaptureFixture) -> str:
    """Lines, and the fields that formatters may write beside them."""
    return caplog.text + "".join(repr(vars(record)) for record in caplog.records)


def expect_untold(everything: str, *credentials: str) -> None:
    assert len(everything) > 100
    for credential in credentials:
        assert len(credential) > 20
        assert credential not in everything
        assert credential.rpartition(".")[2] not in everything  # the signature of a token


async def statuses(url: str, *shown: str) -> list[int]:
    """What is answered to those who show these tokens."""
    found = []
    async with aiohttp.ClientSession() as session:
        for token in shown:
            headers = {"Authorization": f"Bearer {token}"}
            async with session.post(url, json=a_question([]), headers=headers) as answer:
                found.append(answer.status)
    return found


def test_no_credential_is_in_a_log_of_the_service_at_debug_level(
    lab: Lab, tmp_path: Path, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    """Asked with its token, with another one, and after it read a new one; following a cluster with an account."""
    path, other = tmp_path / "token", "a-token-of-somebody-else"
    path.write_text(CALLERS)
    caplog.set_level(logging.INFO, logger="numba")
    with caplog.at_level(logging.DEBUG):
        kubeconfig = in_lab(lab, lambda client: scheduler_account(lab))
        access = read_kubeconfig(kubeconfig, None, SystemClock())
        settings = Settings(("best-fit",), port=0, access=access, security=Security(token_file=path))
        with a_service(settings) as serving:
            url = f"http://127.0.0.1:{serving.port}/v1/score"
            assert asyncio.run(statuses(url, other, CALLERS))[0] == 401
            path.write_text("short")  # is refused, with a line about the file
            assert not asyncio.run(serving.reload())
            told = repr(serving.settings) + repr(serving)
    written = capsys.readouterr()
    expect_untold(logged(caplog) + written.out + written.err + told, CALLERS, other, token_of(kubeconfig))
    assert "unauthenticated" in logged(caplog)


def test_no_credential_is_in_a_log_of_the_dashboard_at_debug_level(
    lab: Lab, tmp_path: Path, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "token"
    path.write_text(CALLERS)
    place = place_of("127.0.0.1:0", path)

    async def test(client: Client) -> str:
        kubeconfig = await scheduler_account(lab)
        async with Client(read_kubeconfig(kubeconfig, None, SystemClock())) as own:
            watched = WatchedCluster(own, SystemClock())
            running = asyncio.create_task(watched.run())  # what it may not watch, events, it says
            async with dashboard_serving(watched, SystemClock(), place) as page:
                await watched.synced.wait()
                assert await statuses(f"{page.url}api/session", CALLERS, "a-token-of-somebody-else") == [204, 401]
                told = repr(place) + repr(page) + repr(watched.overview())
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
        expect_untold(told, CALLERS, token_of(kubeconfig), place.guard.cookie)
        return token_of(kubeconfig)

    with caplog.at_level(logging.DEBUG):
        token = in_lab(lab, test)
    written = capsys.readouterr()
    expect_untold(logged(caplog) + written.out + written.err, CALLERS, token, place.guard.cookie)


def unreachable(tmp_path: Path, server: str) -> Path:
    user = {"name": "u", "user": {"token": "very-secret"}}
    config = {
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u"}}],
        "clusters": [{"name": "k", "cluster": {"server": server}}],
        "users": [user],
    }
    path = tmp_path / "kubeconfig"
    path.write_text(json.dumps(config))
    return path


def test_an_error_of_the_connection_does_not_tell_the_token(tmp_path: Path) -> None:
    async def ask() -> None:
        async with Client(find_access(unreachable(tmp_path, "https://127.0.0.1:1"))) as client:
            await client.get("/version")

    with pytest.raises(UnreachableError) as failed:
        asyncio.run(ask())
    assert "secret" not in f"{failed.value!r}{failed.value}"


def test_a_token_is_never_sent_in_the_clear(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="would send a token in the clear"):
        find_access(unreachable(tmp_path, "http://127.0.0.1:1"))


def test_a_lab_listens_on_loopback_only_and_keeps_its_keys_to_itself(lab: Lab) -> None:
    for process in lab.processes.values():
        addresses = {c.laddr.ip for c in psutil.Process(process.pid).net_connections("inet") if c.status == "LISTEN"}
        assert addresses <= {"127.0.0.1"}, process.name
    secrets = [*lab.directory.glob("*.key"), *lab.directory.glob("*.kubeconfig")]
    assert len(secrets) >= 4
    assert {stat.S_IMODE(path.stat().st_mode) for path in secrets} == {PRIVATE}


def test_a_scheduler_opens_no_port_by_itself(lab: Lab) -> None:
    async def test(client: Client) -> None:
        before = listening()
        async with a_scheduler(lab, "silent=best-fit") as scheduler:
            await scheduler.synced.wait()
            assert listening() == before

    in_lab(lab, test)


def listening() -> set[tuple[str, int]]:
    found = psutil.Process().net_connections("inet")
    return {(c.laddr.ip, c.laddr.port) for c in found if c.status == "LISTEN"}


@pytest.mark.parametrize("listen", ["0.0.0.0:10259", "[::]:10259", "10.1.2.3:10259"])
def test_off_loopback_only_with_tls(listen: str) -> None:
    with pytest.raises(InputError, match="would answer other machines in the clear; expected --tls DIR"):
        EndpointSettings.of(listen, None)


@pytest.mark.parametrize("listen", ["10259", "localhost:1", "127.0.0.1:0", "127.0.0.1:99999", "127.0.0.1:x"])
def test_an_address_that_is_none_is_refused(listen: str) -> None:
    with pytest.raises(InputError) as refused:
        EndpointSettings.of(listen, None)
    assert refused.value.field == "--listen"


def test_a_directory_without_certificates_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"tls\.crt: there is no such file"):
        EndpointSettings.of("0.0.0.0:10259", tmp_path)


@pytest.mark.parametrize("name", ["weights.safetensors", "policy.json"])
def test_a_checkpoint_never_executes_code(name: str, tmp_path: Path) -> None:
    trace = tmp_path / "fired"
    checkpoint = tmp_path / "checkpoint"
    checkpoint.mkdir()
    for file in ("weights.safetensors", "policy.json"):
        (checkpoint / file).write_bytes(pickle.dumps(Fires(trace)) if file == name else b"{}")
    with pytest.raises(PilotageError):
        find_policy(str(checkpoint))
    assert not trace.exists()


def test_machine_code_is_kept_where_nobody_else_may_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PILOTAGE_CACHE", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    kept = cache_directory.__wrapped__()
    assert kept.is_relative_to(tmp_path / "kernels")
    assert stat.S_IMODE(kept.stat().st_mode) == 0o700
    kept.chmod(0o770)
    shared = cache_directory.__wrapped__()
    kept.chmod(0o700)
    monkeypatch.setattr(os, "getuid", lambda: kept.stat().st_uid + 1)  # now it is somebody else's
    for instead in (shared, cache_directory.__wrapped__()):
        assert not instead.is_relative_to(tmp_path / "kernels")
        assert stat.S_IMODE(instead.stat().st_mode) == 0o700


def test_nothing_of_the_package_reads_pickles_or_evaluates_text() -> None:
    import pilotage

    root = Path(pilotage.__file__).parent
    for path in root.rglob("*.py"):
        text = path.read_text()
        assert "pickle.load" not in text, path
        assert "torch.load(" not in text or "weights_only=True" in text, path
        assert "yaml.load(" not in text, path
        assert " eval(" not in text, path
