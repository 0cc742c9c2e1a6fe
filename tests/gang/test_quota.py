"""Quotas as files of control groups of either version, in directories that stand for the kernel's."""

from __future__ import annotations

from pathlib import Path

import pytest

from pilotage.gang.quota import make_quota, version_here
from pilotage.model.errors import InputError


def a_root(place: Path, version: int) -> Path:
    """The files by which a version is known."""
    (place / "cpu").mkdir()
    if version == 2:
        (place / "cgroup.controllers").write_text("cpuset cpu io\n")
        (place / "cgroup.subtree_control").write_text("cpu memory\n")
    return place


@pytest.mark.parametrize(
    ("version", "said"),
    [
        (2, {"cpu.max": "75000 100000"}),
        (1, {"cpu.cfs_period_us": "100000", "cpu.cfs_quota_us": "75000"}),
    ],
)
def test_what_a_quota_writes(tmp_path: Path, version: int, said: dict[str, str]) -> None:
    root = a_root(tmp_path, version)
    assert version_here(root) == version
    quota = make_quota("one", root)
    assert quota.path.parent == (root if version == 2 else root / "cpu")
    for milli in (1500, 750):  # changed in place
        quota.set(milli)
        assert quota.milli() == milli
    assert {name: (quota.path / name).read_text() for name in said} == said
    quota.set(1)
    assert quota.milli() == 10  # the kernel takes no smaller one
    assert quota.command(["work", "a b"])[-3:] == [str(quota.path / "cgroup.procs"), "work", "a b"]


def test_version_2_without_cpu_is_refused(tmp_path: Path) -> None:
    root = a_root(tmp_path, 2)
    (root / "cgroup.subtree_control").write_text("memory\n")
    with pytest.raises(InputError, match="control groups for CPU cannot be written"):
        version_here(root)
