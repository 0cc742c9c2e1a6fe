"""Charts rendered by helm; a stand-in is on PATH only where helm goes wrong."""

from __future__ import annotations

import os
import shutil
import signal
import stat
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from pilotage.model.errors import InputError
from pilotage.workloads import helm
from pilotage.workloads.helm import render_chart
from pilotage.workloads.manifests import read_manifests


@pytest.fixture
def stand_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Puts a script called helm, and nothing else, on PATH."""

    def put(script: str) -> None:
        path = tmp_path / "bin" / "helm"
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
        monkeypatch.setenv("PATH", str(path.parent))

    return put


def test_without_helm_it_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(InputError, match="helm is not on PATH; expected helm 3 or later installed"):
        render_chart("app", tmp_path)


def test_helm_that_takes_too_long_is_ended(tmp_path: Path, stand_in: Callable[[str], None]) -> None:
    stand_in("/bin/sleep 600")
    with pytest.raises(InputError, match="takes too long"):
        render_chart("app", tmp_path, time_limit=0.2)


def test_helm_that_closes_its_output_and_stays_is_ended(tmp_path: Path, stand_in: Callable[[str], None]) -> None:
    stand_in("exec 1>&- 2>&-; /bin/sleep 600")
    with pytest.raises(InputError, match="takes too long"):
        render_chart("app", tmp_path, time_limit=0.2)


def test_helm_ends_with_whoever_started_it(
    tmp_path: Path, stand_in: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[int] = []

    def interrupted(process: subprocess.Popen[bytes], *_: object) -> tuple[bytes, bytes]:
        started.append(process.pid)
        raise KeyboardInterrupt

    stand_in("exec /bin/sleep 600")
    monkeypatch.setattr(helm, "_read", interrupted)
    with pytest.raises(KeyboardInterrupt):
        render_chart("app", tmp_path)
    with pytest.raises(ProcessLookupError):
        os.killpg(started[0], signal.SIGKILL)  # should it still be there, it goes now


def test_helm_that_fails_says_why(tmp_path: Path, stand_in: Callable[[str], None]) -> None:
    stand_in("echo 'chart is missing' >&2; exit 3")
    with pytest.raises(InputError, match="helm template ends with code 3: chart is missing"):
        render_chart("app", tmp_path)


@pytest.mark.parametrize("stream", ["1", "2"])
def test_helm_that_writes_too_much_is_ended(tmp_path: Path, stand_in: Callable[[str], None], stream: str) -> None:
    stand_in(f"while :; do echo 0123456789 >&{stream}; done")
    with pytest.raises(InputError, match="more than 100000 bytes"):
        render_chart("app", tmp_path, max_bytes=100_000)


def test_helm_that_is_no_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "helm"
    path.write_bytes(b"\x00\x01")
    path.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(InputError, match="cannot be started"):
        render_chart("app", tmp_path)


def test_names_are_no_options(tmp_path: Path, stand_in: Callable[[str], None]) -> None:
    stand_in('echo "$@"')
    assert render_chart("--debug", tmp_path).decode() == f"template -- --debug {tmp_path.resolve()}\n"


def real_helm() -> str | None:
    return os.environ.get("PILOTAGE_HELM") or shutil.which("helm")


@pytest.mark.skipif(real_helm() is None and os.environ.get("CI") != "true", reason="no helm; set PILOTAGE_HELM")
def test_real_helm_renders_a_chart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = real_helm()
    assert program is not None, "helm is missing: set PILOTAGE_HELM (with CI=true this is a failure, not a skip)"
    monkeypatch.setenv("PATH", str(Path(program).parent))
    chart = tmp_path / "chart"
    (chart / "templates").mkdir(parents=True)
    (chart / "Chart.yaml").write_text("{apiVersion: v2, name: web, version: 0.1.0}\n")
    (chart / "values.yaml").write_text("replicas: 3\n")
    (chart / "templates" / "deployment.yaml").write_text(
        "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: {{ .Release.Name }}-web}\n"
        "spec: {replicas: {{ .Values.replicas }}, template: {spec: {containers: [{name: main}]}}}\n"
    )
    rendered = tmp_path / "rendered.yaml"
    rendered.write_bytes(render_chart("shop", chart))
    assert read_manifests(rendered).workload.names == ["shop-web-0", "shop-web-1", "shop-web-2"]
    (chart / "templates" / "deployment.yaml").write_text('{{ fail "no" }}\n')
    with pytest.raises(InputError, match="helm template ends with code 1"):
        render_chart("shop", chart)
