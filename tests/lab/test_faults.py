"""Things go wrong while pods arrive, for real: nothing is lost, bound twice, too full or half-placed."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from contract.commands import installed_pilotage
from pilotage.lab.faults.inject import BY_NAME

MUST_BE_ZERO = ("lost", "bound_twice", "over_capacity", "over_devices", "half_gangs")
SECONDS = 1500  # the most that a machine with much else to do may take

# Ten kills while 2,000 pods arrive; every other fault once. Longer series are an experiment.
SERIES = {
    "kills": (["scheduler-killed"], 10, 2000),
    "control plane": (["api-server-killed", "etcd-killed", "watch-expired"], 1, 100),
    "the rest": (["scheduler-killed-15s", "leader-paused", "nodes-deleted", "kwok-gone"], 1, 100),
}


@pytest.mark.parametrize("series", SERIES)
def test_faults_leave_no_trace(series: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PILOTAGE_LABS", str(tmp_path / "labs"))
    names, rounds, pods = SERIES[series]
    chosen = [word for name in names for word in ("--fault", name)]
    words = [*chosen, "--rounds", rounds, "--pods", pods, "--away", 5, "--out", tmp_path / "out", "--json"]
    done = installed_pilotage("lab", "faults", *words, seconds=SECONDS)
    assert done.code == 0, done.out + done.err
    rows = [json.loads(line) for line in done.out.splitlines()]
    assert [row["fault"] for row in rows] == names
    for row in rows:
        assert {key: row[key] for key in MUST_BE_ZERO} == dict.fromkeys(MUST_BE_ZERO, 0)
        assert row["waiting"] == 0
        assert row["pods"] >= rounds * (pods - 4)  # no gang is begun that has no room in the number
    with (tmp_path / "out" / "faults.csv").open(newline="") as stream:
        assert [row["fault"] for row in csv.DictReader(stream)] == names
    assert json.loads((tmp_path / "out" / "faults.json").read_text()) == rows
    assert list((tmp_path / "labs").iterdir()) == []


def test_every_fault_is_in_a_series() -> None:
    assert {name for names, _, _ in SERIES.values() for name in names} == set(BY_NAME)


def test_faults_can_be_listed_and_misspelled() -> None:
    listed = installed_pilotage("lab", "faults", "--list")
    assert (listed.code, len(listed.out.splitlines())) == (0, len(BY_NAME))
    refused = installed_pilotage("lab", "faults", "--fault", "kwok-gon")
    assert refused.code == 2
    assert "kwok-gone" in refused.err
