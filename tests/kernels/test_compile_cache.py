"""Compiled kernels are kept on disk, and never used after any of their sources has changed."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from pilotage.kernels import compiling
from pilotage.kernels.compiling import cache_directory, kernel_sources, source_hash

NAMES = [path.name for path in kernel_sources()]


@pytest.fixture
def copies(tmp_path: Path) -> list[Path]:
    """The sources of the kernels, free to be edited."""
    return [Path(shutil.copy(path, tmp_path / path.name)) for path in kernel_sources()]


def test_sources_are_all_kernels_and_the_model_they_read() -> None:
    package = Path(compiling.__file__).parent
    assert set(NAMES) >= {path.name for path in package.glob("*.py")} - {"__init__.py"}
    text = "".join(path.read_text() for path in kernel_sources())
    assert {f"{name}.py" for name in re.findall(r"from pilotage\.model\.(\w+) import", text)} <= set(NAMES)
    assert all(path.is_file() for path in kernel_sources())


def test_hash_of_untouched_copies_is_the_hash_of_the_sources(copies: list[Path]) -> None:
    assert source_hash(copies) == source_hash()


@pytest.mark.parametrize("name", NAMES)
def test_an_edit_of_any_source_changes_the_cache_directory(copies: list[Path], name: str) -> None:
    before = source_hash(copies)
    edited = next(path for path in copies if path.name == name)
    edited.write_text(edited.read_text() + "\n# edited\n")
    assert source_hash(copies) != before


def test_a_new_or_renamed_source_changes_the_cache_directory(copies: list[Path]) -> None:
    before = source_hash(copies)
    added = copies[0].with_name("zz_new.py")
    added.write_text("")
    assert source_hash([*copies, added]) != before
    renamed = copies[0].rename(copies[0].with_name("a_renamed.py"))
    assert source_hash([renamed, *copies[1:]]) != before


def test_the_cache_is_where_pilotage_cache_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PILOTAGE_CACHE", str(tmp_path))
    assert cache_directory.__wrapped__() == tmp_path / "kernels" / source_hash()
    assert (tmp_path / "kernels" / source_hash()).is_dir()


def test_old_caches_are_removed_but_not_the_newest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PILOTAGE_CACHE", str(tmp_path))
    for age in range(1, 12):
        old = tmp_path / "kernels" / f"old{age}"
        old.mkdir(parents=True)
        os.utime(old, (1_000_000 - age, 1_000_000 - age))
    cache_directory.__wrapped__()
    left = sorted(path.name for path in (tmp_path / "kernels").iterdir())
    assert left == sorted([source_hash(), *(f"old{age}" for age in range(1, 8))])


def test_a_process_compiles_into_pilotage_cache_and_leaves_numbas_own_setting_alone(tmp_path: Path) -> None:
    program = (
        "import numba, numpy as np\n"
        "before = numba.config.CACHE_DIR\n"
        "from pilotage.kernels.devices import choose_devices\n"
        "assert choose_devices(np.array([1000]), 1, 500, 1, 0, 0.0) == 1\n"
        "assert numba.config.CACHE_DIR == before\n"
    )
    environment = {**os.environ, "PILOTAGE_CACHE": str(tmp_path), "NUMBA_DISABLE_JIT": "0"}
    subprocess.run([sys.executable, "-W", "error", "-c", program], check=True, env=environment, timeout=120)
    compiled = list((tmp_path / "kernels" / source_hash()).rglob("*.nbc"))
    assert any("choose_devices" in path.name for path in compiled)


def test_a_person_who_waits_is_told_once_that_kernels_are_compiled(tmp_path: Path) -> None:
    program = (
        "import sys, numpy as np\n"
        "from pilotage.cli import tell_people_of_compiling\n"
        "sys.stderr.isatty = lambda: True\n"
        "tell_people_of_compiling()\n"
        "from pilotage.kernels.devices import choose_devices\n"
        "for left in ([1000], [1000.0]):  # compiled for whole numbers, then for others\n"
        "    choose_devices(np.array(left), 1, 500, 1, 0, 0.0)\n"
    )
    environment = {**os.environ, "PILOTAGE_CACHE": str(tmp_path), "NUMBA_DISABLE_JIT": "0"}
    command = [sys.executable, "-c", program]
    first, second = (
        subprocess.run(command, check=True, env=environment, timeout=120, capture_output=True, text=True) for _ in "12"
    )
    assert first.stderr.splitlines() == ["compiling kernels: half a minute or so, only this once"]
    assert second.stderr == ""
