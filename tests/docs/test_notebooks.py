"""Notebooks run from top to bottom, in a fresh kernel, and are small enough to read."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
NOTEBOOKS = sorted(ROOT.glob("notebooks/*.ipynb"))
RUN = """
import sys, nbformat
from nbclient import NotebookClient
book = nbformat.read(sys.argv[1], as_version=4)
NotebookClient(book, timeout=600, kernel_name="python3").execute(cwd=sys.argv[2])
"""


def test_there_are_two() -> None:
    assert len(NOTEBOOKS) == 2


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_it_runs(notebook: Path, tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", RUN, notebook, tmp_path], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_it_is_small_and_stored_without_output(notebook: Path) -> None:
    cells = json.loads(notebook.read_text())["cells"]
    assert len(cells) <= 12
    assert all(not cell.get("outputs") for cell in cells)
