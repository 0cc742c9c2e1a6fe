"""Fixtures every test may use."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

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


@pytest.fixture(scope="session")
def openb_data() -> Path:
    path = data_directory()
    if path is None:
        pytest.fail("public data sets not found: set PILOTAGE_DATA (with CI=true this is a failure, not a skip)")
    return path / "openb"
