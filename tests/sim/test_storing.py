"""Results as files: whole, the same bytes, and only what is promised."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pilotage.model.errors import InputError
from pilotage.sim.compare import Comparison, Outcome, compare
from pilotage.sim.specs import TraceSource
from pilotage.sim.storing import published_name, write_results
from pilotage.workloads import openb
from pilotage.workloads.generate import openb_like_nodes, openb_like_pods


@pytest.fixture(scope="module")
def outcome(tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    place = tmp_path_factory.mktemp("trace")
    openb.write_nodes(place / "nodes.csv", openb_like_nodes(0.01))
    openb.write_pods(place / "pods.csv", openb_like_pods(60))
    return compare(Comparison((TraceSource(place / "nodes.csv", place / "pods.csv"),), ("fgd", "random"), (1, 2)))


@pytest.mark.parametrize(
    ("policy", "written"),
    [
        ("random@1", "01-Random"),
        ("dot-product@1", "02-DotProd"),
        ("gpu-clustering@1", "03-GpuClustering"),
        ("gpu-packing@1", "04-GpuPacking"),
        ("best-fit@1", "05-BestFit"),
        ("fgd@1", "06-FGD"),
        ("first-fit@1", "first-fit"),
    ],
)
def test_policies_have_their_published_name_or_their_own(policy: str, written: str) -> None:
    assert published_name(policy) == written


def test_a_sum_keeps_its_whole_name() -> None:
    assert published_name("2*fgd@1+1*best-fit@1") == "2*fgd@1+1*best-fit@1"


def test_the_same_outcome_is_the_same_bytes(outcome: Outcome, tmp_path: Path) -> None:
    for name in ("one", "two"):
        write_results(outcome, tmp_path / name, "pilotage compare")
    first, second = ({p.name: p.read_bytes() for p in (tmp_path / name).iterdir()} for name in ("one", "two"))
    assert first == second
    assert not [name for name in first if name.startswith(".")]  # nothing half-written is left


def test_results_tell_how_they_were_made(outcome: Outcome, tmp_path: Path) -> None:
    write_results(outcome, tmp_path, "pilotage compare --seeds 1-2")
    made_by = json.loads((tmp_path / "results.json").read_text())["made_by"]
    assert made_by["command"] == "pilotage compare --seeds 1-2"
    assert made_by["traces"] == {"pods": outcome.traces[0].digest}


def test_every_file_that_is_reported_exists(outcome: Outcome, tmp_path: Path) -> None:
    written = write_results(outcome, tmp_path / "a" / "b", "x")
    assert sorted(written) == sorted((tmp_path / "a" / "b").iterdir())


def test_a_file_in_the_way_is_named_and_kept(outcome: Outcome, tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("mine")
    with pytest.raises(InputError, match="taken"):
        write_results(outcome, tmp_path / "taken", "x")
    assert (tmp_path / "taken").read_text() == "mine"
