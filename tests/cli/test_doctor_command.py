"""`pilotage doctor`: what is installed, what is missing, what to type."""

from __future__ import annotations

import json
from importlib import util
from importlib.machinery import ModuleSpec
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
    assert {"python", "numba", "numpy", "polars", "scipy", "typer", "cores", "kernels", "kernel cache"} <= set(found)
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


def test_a_missing_package_is_a_bad_answer_with_what_to_type(monkeypatch: pytest.MonkeyPatch) -> None:
    real = util.find_spec

    def without_plotly(name: str, package: str | None = None) -> ModuleSpec | None:
        return None if name == "plotly" else real(name, package)

    monkeypatch.setattr(util, "find_spec", without_plotly)
    done = pilotage("doctor", "--json")
    assert done.code == 1
    row = next(row for row in json.loads(done.out) if row["part"] == "plotly")
    assert row == {"part": "plotly", "state": "missing", "detail": "pip install plotly"}


def test_what_only_some_commands_need_may_be_absent(monkeypatch: pytest.MonkeyPatch) -> None:
    real = util.find_spec
    absent = ("ray", "torch", "onnx")
    monkeypatch.setattr(util, "find_spec", lambda name, package=None: None if name in absent else real(name, package))
    monkeypatch.setenv("PATH", "")
    done = pilotage("doctor", "--json")
    assert done.code == 0
    found = {row["part"]: row for row in json.loads(done.out)}
    assert found["ray"]["state"] == found["helm"]["state"] == "not there"
    assert "pip install 'pilotage[ray]'" in found["ray"]["detail"]
    assert found["train"]["state"] == found["graph"]["state"] == "not there"
    assert "pip install 'pilotage[train]' (now without torch)" in found["train"]["detail"]


def test_the_table_is_for_people() -> None:
    done = pilotage("doctor")
    assert done.code == 0
    assert "pilotage doctor" in done.out
