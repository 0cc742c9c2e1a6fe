"""The scheduler through a real API server places pods where the simulator does."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from contract.commands import installed_pilotage
from pilotage.lab.replaying import Replayed

SECONDS = 1200  # on a machine that has much else to do
FOUND = Replayed("fgd@1", 42, 1.3, 10, 100, 90, 90, 88.0, 88.0, 0)


def test_the_scheduler_and_the_simulator_agree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PILOTAGE_LABS", str(tmp_path / "labs"))
    result = tmp_path / "result.json"
    done = installed_pilotage(
        "lab",
        "replay",
        "--trace",
        "openb-like",
        "--scale",
        0.03,
        "--policy",
        "pilotage-pack",
        "--out",
        result,
        "--json",
        seconds=SECONDS,
    )
    assert done.code == 0, done.out + done.err
    row = json.loads(done.out)
    assert row == json.loads(result.read_text())
    assert (row["elsewhere"], row["agrees"]) == (0, True)
    assert row["gpu_allocation_percent"] == row["simulated_gpu_allocation_percent"] > 80
    assert 0 < row["bound"] < row["pods"]  # some were refused: both sides of the decision were compared


def test_a_pod_elsewhere_is_no_agreement() -> None:
    assert FOUND.agrees
    assert not replace(FOUND, elsewhere=1).agrees
    assert not replace(FOUND, gpu_allocation_percent=87.99).agrees
