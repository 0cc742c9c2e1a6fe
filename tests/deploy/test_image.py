"""What the Containerfile says: it is read here, and what it builds is built without containers."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from deploy.chart import ROOT, of_kind, rendered
from pilotage.kube.client import Json
from pilotage.lab.build import KUBERNETES, VERSION_STAMP
from pilotage.lab.plugin_build import plugin_sources

PARTS = ("service.enabled=true", "dashboard.enabled=true", "pluginScheduler.enabled=true")
TEXT = (ROOT / "deploy" / "Containerfile").read_text().replace("\\\n", " ")


def stages() -> dict[str, list[tuple[str, str]]]:
    """Instructions by the name of their stage; the last has none."""
    found: dict[str, list[tuple[str, str]]] = {}
    name = "arguments"
    for line in TEXT.splitlines():
        if not line or line.startswith("#"):
            continue
        word, rest = line.split(maxsplit=1)
        if word == "FROM":
            name = rest.partition(" AS ")[2]
        found.setdefault(name, []).append((word, rest))
    return found


def copied(stage: str) -> list[str]:
    """What a stage takes from the checkout."""
    copies = [rest.split() for word, rest in stages()[stage] if word == "COPY" and not rest.startswith("--from")]
    return [source for words in copies for source in words[:-1]]


@pytest.fixture(scope="module")
def pods() -> list[Json]:
    return [one["spec"]["template"]["spec"] for one in of_kind(rendered(*PARTS), "Deployment").values()]


def test_images_are_made_in_stages_and_run_as_the_user_of_the_chart(pods: list[Json]) -> None:
    assert list(stages()) == ["arguments", "plugin-build", "kube-scheduler", "build", ""]
    (user,) = {(one["securityContext"]["runAsUser"], one["securityContext"]["runAsGroup"]) for one in pods}
    for stage in ("kube-scheduler", ""):
        assert ("USER", f"{user[0]}:{user[1]}") in stages()[stage]


def test_the_image_holds_what_the_chart_starts(pods: list[Json]) -> None:
    (copy,) = {tuple(one["initContainers"][0]["command"]) for one in pods if "initContainers" in one}
    assert "PILOTAGE_CACHE=/opt/pilotage/cache " in TEXT
    assert copy[2] == "/opt/pilotage/cache/kernels"
    assert "PILOTAGE_CACHE=/var/cache/pilotage" in TEXT


def test_sources_have_times_that_layers_keep_before_kernels_are_compiled(tmp_path: Path) -> None:
    """numba compares the time of a source with the one it noted, to the fraction; an image keeps whole seconds."""
    runs = [rest for word, rest in stages()["build"] if word == "RUN"]
    (rounding,) = [i for i, run in enumerate(runs) if "os.utime" in run]
    (compiling,) = [i for i, run in enumerate(runs) if "doctor --compile" in run]
    assert rounding < compiling
    source = tmp_path / "one.py"
    source.touch()
    os.utime(source, ns=(1_700_000_000_123_456_789,) * 2)
    code = runs[rounding].partition('-c "')[2].removesuffix('"').replace("/opt/pilotage/lib", str(tmp_path))
    subprocess.run([sys.executable, "-c", code], check=True)
    assert source.stat().st_mtime_ns == 1_700_000_000 * 10**9


def test_its_interpreter_is_the_one_of_the_tests() -> None:
    major_minor = ".".join(platform.python_version_tuple()[:2])
    declared = (ROOT / "pyproject.toml").read_text()
    assert ("ARG", f"PYTHON=python:{major_minor}-slim") in stages()["arguments"]
    assert f"Programming Language :: Python :: {major_minor}" in declared


def test_the_plugin_scheduler_is_built_as_in_the_lab() -> None:
    (run,) = [rest for word, rest in stages()["plugin-build"] if word == "RUN"]
    (version,) = [rest for word, rest in stages()["plugin-build"] if word == "ARG"]
    name, _, value = version.partition("=")
    assert VERSION_STAMP in run.replace(f"${{{name}}}", value)
    assert f"v{KUBERNETES}" in run
    (go,) = [line.split()[1] for line in (plugin_sources() / "go.mod").read_text().splitlines() if line[:3] == "go "]
    assert ("ARG", f"GO=golang:{go.removesuffix('.0')}") in stages()["arguments"]
    assert copied("plugin-build") == ["plugin"]


def test_nothing_that_is_copied_is_kept_from_the_build() -> None:
    ignored = (ROOT / ".containerignore").read_text().splitlines()
    assert ignored[0] == "*"
    for source in {*copied("build"), *copied("plugin-build")}:
        assert f"!{source}" in ignored


def test_the_wheel_is_built_from_exactly_what_is_copied(tmp_path: Path) -> None:
    context, out = tmp_path / "context", tmp_path / "out"
    context.mkdir()
    left_out = [
        line.removeprefix("**/") for line in (ROOT / ".containerignore").read_text().splitlines() if "**" in line
    ]
    for source in copied("build"):
        if (ROOT / source).is_dir():
            shutil.copytree(ROOT / source, context / source, ignore=shutil.ignore_patterns(*left_out))
        else:
            shutil.copy(ROOT / source, context)
    words = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(out)]
    done = subprocess.run(words, cwd=context, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    (wheel,) = out.iterdir()
    names = zipfile.ZipFile(wheel).namelist()
    assert "pilotage/cli/__init__.py" in names
    assert "pilotage/lab/plugin/go.mod" in names
    assert not [name for name in names if name.endswith("_test.go")]
