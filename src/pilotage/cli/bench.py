"""`pilotage bench`: the project's own benchmarks, one JSON line each."""

from __future__ import annotations

import gc
import resource
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Annotated

import typer

from pilotage.cli.options import JsonOption, NodesOption, PodsOption, console, print_json, results
from pilotage.model.errors import InputError

if TYPE_CHECKING:
    from pilotage.envs.settings import EnvSettings
    from pilotage.policies.api import Policy
    from pilotage.workloads.trace import Trace

app = typer.Typer(name="bench", help="The project's own benchmarks.", no_args_is_help=True)

PODS = 10_866  # as many as the published default run has
REPEATS = 5
MIN_SCALE, MAX_SCALE = 0.01, 1000
ENVIRONMENTS = "balance,packing,load"


@app.callback()
def _group() -> None:
    """More benchmarks join this group; a callback keeps their names."""


@app.command(epilog="Example: pilotage bench sim --json")
def sim(
    *,
    nodes: NodesOption = None,
    pods: PodsOption = None,
    policies: Annotated[str, typer.Option("--policies", metavar="LIST", help="Names, or all.")] = "all",
    scales: Annotated[
        str,
        typer.Option("--scales", metavar="LIST", help="Sizes of the cluster; of all policies only FGD beside 1."),
    ] = "1,10",
    as_json: JsonOption = False,
) -> None:
    """Time whole runs of the OpenB protocol: building the run, deciding, its three metrics. Best of five.

    Kernels are compiled and the order of the pods is made before. Some policies learn about a workload when they meet
    it for the first time: that time stands apart (first_seconds).

    Without files: the shipped trace openb-like, 1,213 nodes and 10,866 pods at scale 1.
    """
    from rich.table import Table

    from pilotage.policies.registry import find_policy, registered
    from pilotage.workloads.generate import openb_like_nodes, openb_like_pods
    from pilotage.workloads.trace import Trace, load_trace

    if nodes is not None and pods is None:
        raise InputError("has no effect without --pods", field="--nodes")
    # In a process of its own: compiling takes more memory than any run, and the peak is to be that of the runs.
    subprocess.run([sys.executable, "-m", "pilotage", "doctor", "--compile"], check=True, stdout=subprocess.DEVNULL)
    names = list(registered()) if policies == "all" else [name.strip() for name in policies.split(",")]
    table = Table(
        "policy", "nodes", "pods", "seconds", "decisions/s", "made ready s", "peak MB", title="pilotage bench sim"
    )
    for scale in [1.0] if pods else _parse_scales(scales):
        if pods is not None:
            trace = load_trace(nodes=nodes, pods=pods)
        else:
            trace = Trace.of("openb-like", openb_like_nodes(scale), openb_like_pods(round(PODS * scale)))
        for name in ["fgd"] if scale != 1 and policies == "all" else names:
            with console().status(f"{name} on {len(trace.nodes)} nodes"):
                row = _measure(
                    trace, find_policy(name), load=1.3 if pods else 0.0, repeats=REPEATS if scale < 50 else 1
                )
            if as_json:
                print_json(row)
            else:
                table.add_row(*(f"{v:,.4g}" if isinstance(v, float) else str(v) for v in row.values()))
    if not as_json:
        results().print(table)


@app.command(epilog="Example: pilotage bench env --json")
def env(
    *,
    names: Annotated[str, typer.Option("--envs", metavar="LIST", help="Environments.")] = ENVIRONMENTS,
    copies: Annotated[int, typer.Option("--copies", min=1, max=1_000_000, help="Clusters side by side.")] = 256,
    steps: Annotated[int, typer.Option("--steps", min=1, help="Steps to time, over all copies.")] = 1_000_000,
    nodes: Annotated[
        str | None,
        typer.Option("--nodes", metavar="N", help="Nodes, or fewest-most.  [default: those of the environment]"),
    ] = None,
    reference: Annotated[
        bool, typer.Option("--reference", help="Also what random actions and the best heuristic reach on 100 seeds.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Time the vector environments on one core, with random actions among those that are allowed. Best of five.

    A step is one pod in one copy: action, reward, mask and observation, and the next episode where one ends.
    """
    from rich.table import Table

    from pilotage.envs.settings import EnvSettings, parse_nodes

    changes = {} if nodes is None else {"nodes": parse_nodes(nodes)}
    table = Table("env", "copies", "nodes", "steps/s", *(("random", "greedy", "by") if reference else ()))
    table.title = "pilotage bench env"
    for name in names.split(","):
        settings = EnvSettings.of(name.strip(), **changes)
        with console().status(f"{settings.environment} with {copies} copies"):
            row = _measure_steps(settings, copies, steps) | (_reference(settings) if reference else {})
        if as_json:
            print_json(row)
        else:
            table.add_row(*(f"{v:,.{0 if v > 1000 else 3}f}" if isinstance(v, float) else str(v) for v in row.values()))
    if not as_json:
        results().print(table)


def _measure_steps(settings: EnvSettings, copies: int, steps: int) -> dict[str, object]:
    from pilotage.envs.reference import random_choice
    from pilotage.envs.vector import VectorCluster

    vector, choose = VectorCluster(settings, copies, seed=0), random_choice(0)
    vector.reset()
    vector.step(choose(vector, 0))  # compiled before the clock starts
    rounds = max(1, steps // copies // REPEATS)
    best = float("inf")
    for repeat in range(REPEATS):
        started = time.perf_counter()
        for number in range(rounds):
            vector.step(choose(vector, repeat * rounds + number))
        best = min(best, time.perf_counter() - started)
    fewest, most = settings.nodes
    return {
        "env": settings.environment,
        "copies": copies,
        "nodes": str(most) if fewest == most else f"{fewest}-{most}",
        "steps_per_second": round(rounds * copies / best, 1),
    }


def _reference(settings: EnvSettings) -> dict[str, object]:
    from pilotage.envs.reference import reference

    found = reference(settings)
    return {"random_return": found.random, "greedy_return": found.greedy, "greedy_policy": found.policy}


def _parse_scales(text: str) -> list[float]:
    try:
        scales = [float(part) for part in text.split(",")]
    except ValueError:
        scales = [0.0]
    if not all(MIN_SCALE <= scale <= MAX_SCALE for scale in scales):
        raise InputError(
            f"{text!r}", field="--scales", expected=f"numbers from {MIN_SCALE} to {MAX_SCALE}, such as 1,10"
        )
    return scales


def _measure(trace: Trace, policy: Policy, load: float, repeats: int) -> dict[str, object]:
    from pilotage.sim.protocols import arrival_of, openb_run
    from pilotage.sim.results import openb_result

    arrival_of(trace, load, 42)  # the order of pods belongs to the seed, not to the run: policies share it
    started = time.perf_counter()
    openb_run(trace, policy, 42, load)  # what a policy finds out about a workload it keeps
    first, best, decisions = time.perf_counter() - started, float("inf"), 0
    for _ in range(repeats):
        gc.collect()
        started = time.perf_counter()
        run = openb_run(trace, policy, 42, load)
        run.advance()
        result = openb_result(run, trace.name, policy.name, 42, load)
        best = min(best, time.perf_counter() - started)
        decisions = result.decisions
    return {
        "policy": policy.name,
        "nodes": len(trace.nodes),
        "pods": decisions,
        "seconds": round(best, 6),
        "decisions_per_second": round(decisions / best, 1),
        "first_seconds": round(first, 3),
        "peak_rss_mb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, 1),
    }
