"""`pilotage simulate`: one run in detail, and one decision explained."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from contract.commands import pilotage, small_trace

NODES = """sn,cpu_milli,memory_mib,gpu,model
twin-a,16000,65536,2,T4
twin-b,16000,65536,2,T4
slim,2000,65536,2,T4
other,16000,65536,2,G2
bare,64000,65536,0,
"""
PODS = """name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec
first,4000,1024,1,500,T4
huge,64001,1024,0,0,
"""


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    return small_trace(tmp_path_factory.mktemp("trace"))


@pytest.fixture
def handmade(tmp_path: Path) -> list[str]:
    (tmp_path / "nodes.csv").write_text(NODES)
    (tmp_path / "two.csv").write_text(PODS)
    return ["--nodes", str(tmp_path / "nodes.csv"), "--pods", str(tmp_path / "two.csv"), "--load", "0"]


def answer(*arguments: object) -> dict[str, Any]:
    done = pilotage("simulate", *arguments, "--json")
    assert done.code == 0, done.err
    found: dict[str, Any] = json.loads(done.out)
    return found


def test_figures_and_failures_add_up(files: list[str]) -> None:
    found = answer(*files, "--policy", "best-fit", "--seed", 5)
    assert (found["trace"], found["policy"], found["seed"], found["protocol"]) == ("small", "best-fit@1", 5, "openb")
    counted = {kind: sum(reasons.values()) for kind, reasons in found["failures"].items()}
    assert sum(counted.values()) == found["failed_pods"] > 0
    assert counted.get("multi", 0) == found["failed_multi_gpu_pods"]
    assert counted.get("share", 0) == found["failed_share_pods"]


def test_every_decision_is_written_as_parquet(files: list[str], tmp_path: Path) -> None:
    found = answer(*files, "--policy", "fgd", "--out", tmp_path / "deep" / "out")
    decisions = pl.read_parquet(tmp_path / "deep" / "out" / "decisions.parquet")
    assert decisions.height == found["decisions"]
    refused = decisions.filter(pl.col("state") == "refused")
    assert refused.height == found["failed_pods"]
    assert refused["node"].null_count() == refused.height
    assert refused["reason"].null_count() == 0
    placed = decisions.filter(pl.col("state") == "running")
    assert placed["node"].null_count() == 0
    assert (placed["devices"].list.len() == placed["gpu_count"]).all()
    assert placed["reason"].null_count() == placed.height
    meters = pl.read_parquet(tmp_path / "deep" / "out" / "meters.parquet")
    assert meters.height == found["decisions"]
    assert meters["arrived_gpu_milli"].is_sorted()
    used = int((placed["gpu_milli"] * placed["gpu_count"]).sum())
    assert meters["gpu_used"][-1] == used
    assert sorted(path.name for path in (tmp_path / "deep" / "out").iterdir()) == [
        "decisions.parquet",
        "meters.parquet",
    ]


def test_a_timed_run_writes_meters_over_time(files: list[str], tmp_path: Path) -> None:
    timed = ("--protocol", "timed", "--load", 1.4, "--arrivals", 150, "--mtbf", 10)
    found = answer(*files, *timed, "--out", tmp_path)
    assert found["restarts"] > 0
    meters = pl.read_parquet(tmp_path / "meters.parquet")
    assert meters.columns[0] == "time"
    assert meters["time"].is_sorted()
    decisions = pl.read_parquet(tmp_path / "decisions.parquet")
    assert decisions["restarts"].sum() == found["restarts"]
    assert set(decisions["state"]) <= {"finished", "waiting", "running"}


def test_the_same_seed_gives_the_same_files(files: list[str], tmp_path: Path) -> None:
    for name in ("one", "two"):
        answer(*files, "--policy", "random", "--seed", 9, "--out", tmp_path / name)
    for name in ("decisions.parquet", "meters.parquet"):
        assert pl.read_parquet(tmp_path / "one" / name).equals(pl.read_parquet(tmp_path / "two" / name))


def test_the_table_is_for_people(files: list[str]) -> None:
    done = pilotage("simulate", *files, "--policy", "fgd")
    assert done.code == 0
    assert "fgd@1 on small, seed 42" in done.out
    assert "gpu allocation percent" in done.out
    assert "Not placed" in done.out


def test_one_of_two_traces_is_not_silently_dropped(files: list[str]) -> None:
    done = pilotage("simulate", *files, "--trace", "openb-like", "--json")
    assert done.code == 2
    assert done.out == ""


# Explaining


def test_an_explanation_says_what_was_filtered_the_scores_and_how_the_tie_was_broken(handmade: list[str]) -> None:
    found = answer(*handmade, "--policy", "fgd", "--explain", "first")
    assert found["request"] == "4 CPU, 1 GiB, 1 GPU x 500 milli (T4)"
    assert found["policy"] == "fgd@1"
    assert found["filtered"] == {"excluded by selector, taint or GPU model": 2, "not enough cpu": 1}
    assert sorted(candidate["node"] for candidate in found["candidates"]) == ["twin-a", "twin-b"]
    first, second = found["candidates"]
    assert first["total"] == second["total"] == first["scores"]["fgd@1"][0]
    assert first["rank"] < second["rank"]
    assert found["node"] == first["node"]
    assert found["devices"] == [0]
    assert found["verdict"] == (
        f"{first['node']} and 1 more share the highest total {first['total']:g} of 2 candidates; "
        f"{first['node']} comes first in the order of nodes (rank {first['rank']})"
    )


def test_an_explanation_of_a_sum_shows_every_part(handmade: list[str]) -> None:
    found = answer(*handmade, "--policy", "2*gpu-packing+0.5*least-allocated", "--explain", "first")
    for candidate in found["candidates"]:
        weighed = [weighed for _, weighed in candidate["scores"].values()]
        assert list(candidate["scores"]) == ["gpu-packing@1", "least-allocated@1"]
        assert candidate["total"] == pytest.approx(sum(weighed))
        assert [
            raw * weight for (raw, _), weight in zip(candidate["scores"].values(), (2, 0.5), strict=True)
        ] == weighed


def test_a_pod_that_fits_nowhere_is_explained_and_counted(handmade: list[str]) -> None:
    found = answer(*handmade, "--policy", "fgd", "--explain", "huge")
    assert (found["node"], found["devices"], found["candidates"]) == (None, [], [])
    assert found["filtered"] == {"not enough cpu": 5}
    assert found["verdict"] == "none of 5 nodes can take the pod"
    result = answer(*handmade, "--policy", "fgd")
    assert (result["failed_pods"], result["failures"]) == (1, {"cpu": {"not enough cpu": 1}})


def test_an_explanation_is_printed_for_people_too(handmade: list[str]) -> None:
    done = pilotage("simulate", *handmade, "--explain", "first", "--top", 1)
    assert done.code == 0
    assert "excluded by selector, taint or GPU model" in done.out
    assert "... and 1 more candidates" in done.out
    assert "Verdict: twin-" in done.out
    assert "Devices: 0." in done.out
    alone = pilotage("simulate", *handmade, "--explain", "huge")
    assert "Verdict: none of 5 nodes can take the pod." in alone.out


def test_what_is_explained_is_what_the_run_does(files: list[str], tmp_path: Path) -> None:
    answer(*files, "--policy", "2*fgd+best-fit", "--seed", 3, "--out", tmp_path)
    decisions = pl.read_parquet(tmp_path / "decisions.parquet")
    for row in (0, 60, 120, decisions.height - 1):
        found = answer(*files, "--policy", "2*fgd+best-fit", "--seed", 3, "--explain", decisions["pod"][row])
        assert found["node"] == decisions["node"][row]
        assert found["devices"] == decisions["devices"][row].to_list()
        if found["node"]:
            assert found["candidates"][0]["node"] == found["node"]


def test_a_timed_run_can_be_explained(files: list[str]) -> None:
    found = answer(*files, "--protocol", "timed", "--policy", "fgd", "--explain", "pod-000140")
    assert found["time"] > 0
    assert found["node"] == found["candidates"][0]["node"]


def test_a_resource_no_node_has_is_named_in_the_explanation(tmp_path: Path) -> None:
    (tmp_path / "all.yaml").write_text(
        """
apiVersion: v1
kind: Node
metadata: {name: n}
status: {allocatable: {cpu: "8", memory: 16Gi, pods: "110"}}
---
apiVersion: v1
kind: Pod
metadata: {name: p}
spec:
  containers:
    - name: c
      resources: {requests: {cpu: "1", "example.com/fpga": "1"}, limits: {"example.com/fpga": "1"}}
"""
    )
    found = answer("--nodes", tmp_path / "all.yaml", "--load", 0, "--explain", "p")
    assert "fpga" in " ".join(found["filtered"])
