"""Fixtures every test may use."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

if TYPE_CHECKING:
    from pilotage.lab.controlplane import Lab

settings.register_profile("untimed", settings.default, deadline=None)  # a first call may compile
settings.load_profile("untimed")

LEFT_OUT = pytest.StashKey[int]()
ROOT = Path(__file__).resolve().parent.parent


def data_directory() -> Path | None:
    """The public data sets: PILOTAGE_DATA, or ../shared/data beside the checkout."""
    given = os.environ.get("PILOTAGE_DATA")
    path = Path(given) if given else ROOT.parent / "shared" / "data"
    return path if path.is_dir() else None


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--all-rows", action="store_true", help="tests/parity: all 225 published runs, not a part of them")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Tests marked `data` are left out with one line where the data is absent; with CI=true they fail instead."""
    if data_directory() is not None or os.environ.get("CI") == "true":
        return
    needing = [item for item in items if item.get_closest_marker("data")]
    if needing:
        items[:] = [item for item in items if not item.get_closest_marker("data")]
        config.hook.pytest_deselected(items=needing)
        config.stash[LEFT_OUT] = len(needing)


def pytest_report_collectionfinish(config: pytest.Config) -> str | None:
    count = config.stash.get(LEFT_OUT, 0)
    return f"{count} tests left out: public data sets not found, set PILOTAGE_DATA" if count else None


def public_data(name: str) -> Path:
    path = data_directory()
    if path is None:
        pytest.fail("public data sets not found: set PILOTAGE_DATA (with CI=true this is a failure, not a skip)")
    return path / name


@pytest.fixture(scope="session")
def openb_data() -> Path:
    return public_data("openb")


@pytest.fixture(scope="session")
def gang_data() -> Path:
    return public_data("bsp")


@pytest.fixture(scope="session")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """A control plane with two nodes, for all tests of a process; `pilotage lab build` must have run before."""
    from lab.labs import a_lab
    from pilotage.lab.components import LabSettings
    from pilotage.lab.controlplane import in_lab
    from pilotage.lab.nodes import add, numbered
    from pilotage.model.cluster import Node

    settings = LabSettings(audit=True)
    with a_lab(tmp_path_factory.mktemp("labs"), settings, f"tests-{os.getpid()}") as running:
        plain = numbered(Node("node", 64_000, 256 * 2**30), 2, "shared")
        in_lab(running, lambda client: add(client, plain))
        yield running
