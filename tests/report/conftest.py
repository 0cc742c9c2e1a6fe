"""Small comparisons of every kind, and a browser."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from playwright.sync_api import Browser, sync_playwright

from pilotage.sim.compare import Comparison, Outcome, Price, compare
from pilotage.sim.consolidation import Consolidation
from pilotage.sim.protocols import Timing
from pilotage.sim.specs import TraceSource
from pilotage.workloads import openb
from pilotage.workloads.generate import openb_like_nodes, openb_like_pods

HOSTILE = "</script><script>window.stolen=1</script><a href=\"https://example.com/x\" onclick='stolen()'>&amp;%{x}"
KINDS = ("loads", "timed", "without gpus", "hostile", "gangs")


def source(directory: Path, name: str, pods: int, scale: float = 0.02) -> TraceSource:
    openb.write_nodes(directory / "nodes.csv", openb_like_nodes(scale))
    openb.write_pods(directory / f"{name}.csv", openb_like_pods(pods))
    return TraceSource(directory / "nodes.csv", directory / f"{name}.csv")


@pytest.fixture(scope="session")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Outcome]:
    """One outcome for each of KINDS."""
    directory = tmp_path_factory.mktemp("traces")
    one = source(directory, "one_list", 150)
    policies = ("fgd", "best-fit", "random")
    loads = compare(Comparison((one,), policies, (1, 2, 3), loads=(0.9, 1.3), price=Price(2.5, "EUR")))
    timed = Comparison((one,), policies[::2], (1, 2), "timed", (1.4,), timing=Timing(arrivals=200))
    return {
        "loads": loads,
        "timed": compare(timed),
        "without gpus": compare(without_gpus(directory)),
        "gangs": compare(with_gangs()),
        "hostile": renamed(loads, {"one_list": f"{HOSTILE}1", "random@1": f"{HOSTILE}2", "fgd@1": f"{HOSTILE}3"}),
    }


def with_gangs() -> Comparison:
    """With and without the term for nearness, with and without moving pods; node failures make seeds differ."""
    return Comparison(
        (TraceSource(name="openb-like-gangs"),),
        ("fgd", "fgd+0.2*gang-locality"),
        (1, 2),
        "timed",
        (0.0,),
        timing=Timing(mtbf_hours=100.0),
        consolidation=Consolidation("fragOnePod", 0.01),
    )


def without_gpus(directory: Path) -> Comparison:
    nodes, pods = directory / "cpu_nodes.csv", directory / "web.csv"
    rows = (f"n{i},{8000 + 4000 * (i % 2)},16384,0," for i in range(6))
    nodes.write_text("\n".join(["sn,cpu_milli,memory_mib,gpu,model", *rows]) + "\n")
    wanted = (f"p{i},{1000 + 700 * (i % 7)},512,0,0" for i in range(40))
    pods.write_text("\n".join(["name,cpu_milli,memory_mib,num_gpu,gpu_milli", *wanted]) + "\n")
    return Comparison((TraceSource(nodes, pods),), ("least-allocated", "best-fit"), (1, 2, 3), loads=(0.0,))


def renamed(outcome: Outcome, names: dict[str, str]) -> Outcome:
    """The same with other names of traces and policies."""

    def new(name: str) -> str:
        return names.get(name, name)

    return replace(
        outcome,
        comparison=replace(outcome.comparison, price=Price(2.5, HOSTILE)),
        traces=tuple(replace(trace, name=new(trace.name)) for trace in outcome.traces),
        runs=tuple(replace(run, trace=new(run.trace), policy=new(run.policy)) for run in outcome.runs),
        bounds={(new(trace), load, seed): bound for (trace, load, seed), bound in outcome.bounds.items()},
        summary=tuple(
            replace(row, trace=new(row.trace), policy=new(row.policy), baseline=new(row.baseline))
            for row in outcome.summary
        ),
    )


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Not for longer than a module: as long as it is open, an event loop runs in this thread, and no other may."""
    path = os.environ.get("PILOTAGE_CHROMIUM") or shutil.which("chromium")
    if path is None:
        if os.environ.get("CI") == "true":
            pytest.fail("no chromium found: install it or set PILOTAGE_CHROMIUM (with CI=true this is a failure)")
        pytest.skip("no chromium found: install it or set PILOTAGE_CHROMIUM")
    alone = ["--no-sandbox"] if os.geteuid() == 0 else []
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=path, args=alone)
        yield opened
        opened.close()
