"""`pilotage doctor`: what is installed, what is missing, what to type."""

from __future__ import annotations

import json
from importlib import util
from importlib.machinery import ModuleSpec

import pytest

from contract.commands import pilotage
from pilotage import __version__
from pilotage.kernels.compiling import cache_directory


def test_json_names_every_part_with_its_state() -> None:
    done = pilotage("doctor", "--compile", "--json")
    assert done.code == 0, done.out + done.err
    found = {row["part"]: row for row in json.loads(done.out)}
    assert found["pilotage"]["detail"] == __version__
    assert {"python", "numba", "numpy", "polars", "scipy", "typer", "cores", "kernels", "kernel cache"} <= set(found)
    assert {row["state"] for part, row in found.items() if part not in ("ray", "helm")} == {"ok"}
    assert str(cache_directory()) in found["kernels"]["detail"]


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
    monkeypatch.setattr(util, "find_spec", lambda name, package=None: None if name == "ray" else real(name, package))
    monkeypatch.setenv("PATH", "")
    done = pilotage("doctor", "--json")
    assert done.code == 0
    found = {row["part"]: row for row in json.loads(done.out)}
    assert found["ray"]["state"] == found["helm"]["state"] == "not there"
    assert "pip install 'pilotage[ray]'" in found["ray"]["detail"]


def test_the_table_is_for_people() -> None:
    done = pilotage("doctor")
    assert done.code == 0
    assert "pilotage doctor" in done.out
