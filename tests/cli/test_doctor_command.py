"""`pilotage doctor`: what is installed, what is missing, what to type."""

from __future__ import annotations

import json
from importlib import metadata
from pathlib import Path

import pytest

from contract.commands import pilotage
from pilotage import __version__
from pilotage.kernels import compiling
from pilotage.kernels.compiling import cache_directory


def test_json_names_every_part_with_its_state() -> None:
    done = pilotage("doctor", "--compile-environments", "--json")
    assert done.code == 0, done.out + done.err
    found = {row["part"]: row for row in json.loads(done.out)}
    assert found["pilotage"]["detail"] == __version__
    assert {"python", "numba", "numpy", "arro3-io", "highspy", "typer", "cores", "kernels", "kernel cache"} <= set(
        found
    )
    assert {row["state"] for part, row in found.items() if part not in ("ray", "helm")} == {"ok"}
    assert str(cache_directory()) in found["kernels"]["detail"]
    assert "torch " in found["train"]["detail"]
    assert "onnxruntime " in found["graph"]["detail"]


def test_what_is_not_compiled_is_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(compiling, "cache_directory", lambda: tmp_path)
    (tmp_path / "episode.run_episode-1.nbc").touch()
    found = {row["part"]: row for row in json.loads(pilotage("doctor", "--json").out)}
    assert found["kernels"]["state"] == "ok"
    assert found["environment kernels"]["state"] == "not compiled yet"
    assert "pilotage doctor --compile-environments" in found["environment kernels"]["detail"]


def take_away(monkeypatch: pytest.MonkeyPatch, *packages: str) -> None:
    real = metadata.version

    def version(name: str) -> str:
        if name in packages:
            raise metadata.PackageNotFoundError(name)
        return real(name)

    monkeypatch.setattr(metadata, "version", version)


def test_a_missing_package_is_a_bad_answer_with_what_to_type(monkeypatch: pytest.MonkeyPatch) -> None:
    take_away(monkeypatch, "orjson")
    done = pilotage("doctor", "--json")
    assert done.code == 1
    row = next(row for row in json.loads(done.out) if row["part"] == "orjson")
    assert row == {"part": "orjson", "state": "missing", "detail": "pip install orjson"}


def test_what_only_some_commands_need_may_be_absent(monkeypatch: pytest.MonkeyPatch) -> None:
    take_away(monkeypatch, "ray", "torch", "onnx")
    monkeypatch.setenv("PATH", "")
    done = pilotage("doctor", "--json")
    assert done.code == 0
    found = {row["part"]: row for row in json.loads(done.out)}
    assert found["ray"]["state"] == found["helm"]["state"] == "not there"
    assert "pip install 'pilotage[ray]'" in found["ray"]["detail"]
    assert found["train"]["state"] == found["graph"]["state"] == "not there"
    assert "pip install 'pilotage[train]' (now without torch)" in found["train"]["detail"]


def test_programs_of_the_lab_that_are_not_built_are_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("pilotage.lab.build.lab_cache", lambda: tmp_path)
    done = pilotage("doctor", "--json")
    row = next(row for row in json.loads(done.out) if row["part"] == "lab programs")
    assert row["state"] == "not there"
    assert "pilotage lab build" in row["detail"]


def test_the_table_is_for_people() -> None:
    done = pilotage("doctor")
    assert done.code == 0
    assert "pilotage doctor" in done.out
