"""The published results, and our runs of the same experiments."""

from __future__ import annotations

import csv
from functools import cache
from itertools import product
from pathlib import Path
from typing import NamedTuple

from pilotage.policies.registry import find_policy
from pilotage.sim.openb_tables import OpenbTables
from pilotage.sim.protocols import openb_run, run_openb
from pilotage.sim.run import Run
from pilotage.workloads.trace import Trace, load_trace

LOAD = 1.3
LISTS = (
    "default",
    "cpu100",
    "cpu250",
    "gpushare40",
    "gpushare100",
    "gpuspec10",
    "gpuspec33",
    "multigpu20",
    "multigpu50",
)
POLICIES = {
    "dot-product": "02-DotProd",
    "gpu-clustering": "03-GpuClustering",
    "gpu-packing": "04-GpuPacking",
    "best-fit": "05-BestFit",
    "fgd": "06-FGD",
}
SEEDS = (42, 43, 44, 45, 46)
FILES = {
    "allocation_L": "gpu_allocation_percent.csv",
    "fragmentation_L": "gpu_fragmentation_percent_of_cluster.csv",
    "fragmentation_ratio_L": "gpu_fragmentation_percent_of_idle.csv",
}
WRITTEN = {
    "openb_allocation.csv": "gpu_allocation_percent.csv",
    "openb_fragmentation.csv": "gpu_fragmentation_percent_of_cluster.csv",
    "openb_fragmentation_ratio.csv": "gpu_fragmentation_percent_of_idle.csv",
}


class Experiment(NamedTuple):
    """One row of the published tables."""

    pods: str
    policy: str
    seed: int


EVERY_ROW = [Experiment(*row) for row in product(LISTS, POLICIES, SEEDS)]
# Every list with every policy; the seeds in turn, so that every policy meets each of them.
SOME_ROWS = [
    Experiment(pods, policy, SEEDS[(i + j) % len(SEEDS)])
    for i, pods in enumerate(LISTS)
    for j, policy in enumerate(POLICIES)
]


def pods_file(data: Path, pods: str) -> Path:
    return data / f"openb_pod_list_{pods}.csv"


def nodes_file(data: Path) -> Path:
    return data / "openb_node_list_gpu_node.csv"


@cache
def trace(data: Path, pods: str) -> Trace:
    return load_trace(nodes=nodes_file(data), pods=pods_file(data, pods))


def tables(data: Path, row: Experiment) -> OpenbTables:
    found = run_openb(trace(data, row.pods), find_policy(row.policy), row.seed, LOAD).tables
    assert found is not None
    return found


@cache
def finished_default(data: Path, policy: str) -> Run:
    """The run of the default list with seed 42, every decision kept."""
    run = openb_run(trace(data, "default"), find_policy(policy), 42, LOAD)
    run.advance()
    return run


@cache
def _rows(data: Path, name: str) -> dict[tuple[str, str, int], dict[str, str]]:
    with (data / "expected" / name).open(newline="") as file:
        return {(row["workload"], row["sc_policy"], int(row["seed"])): row for row in csv.DictReader(file)}


def expected_cells(data: Path, table: str, row: Experiment) -> list[str]:
    """The 131 cells of one row, as text."""
    found = _rows(data, FILES[table])[pods_file(data, row.pods).stem, POLICIES[row.policy], row.seed]
    return [found[str(percent)] for percent in range(131)]


def expected_lines(data: Path, name: str) -> list[str]:
    return (data / "expected" / name).read_text().splitlines()
