"""`pilotage bound`: what no policy can exceed."""

from __future__ import annotations

from pilotage.cli.options import (
    JobsOption,
    JsonOption,
    LoadsOption,
    ManyPodsOption,
    ManyTracesOption,
    NodesOption,
    SeedsOption,
    console,
    print_json,
    results,
)
from pilotage.model.errors import InputError

EXAMPLE = "Example: pilotage bound --trace openb-like --seeds 42-46"


def bound(
    *,
    nodes: NodesOption = None,
    pods: ManyPodsOption = None,
    trace: ManyTracesOption = None,
    seeds: SeedsOption = None,
    load: LoadsOption = None,
    jobs: JobsOption = None,
    as_json: JsonOption = False,
) -> None:
    """Packing bound of each trace and seed: the highest GPU allocation of any run that takes the early pods.

    Early are the pods that arrive up to L0 = 0.96 x the allocation of FGD (mean of the seeds).
    """
    from rich.table import Table

    from pilotage.sim.compare import compare
    from pilotage.sim.engines import LocalEngine
    from pilotage.sim.scenario import Scenario, parse_loads, parse_seeds, sources_of

    scenario = Scenario(
        traces=sources_of(nodes, pods, trace),
        policies=("fgd",),
        seeds=parse_seeds(seeds) if seeds is not None else None,
        loads=parse_loads(load) if load is not None else None,
    )
    comparison = scenario.comparison()
    with console().status("running FGD for L0"):
        outcome = compare(comparison, LocalEngine(jobs))
    if not outcome.bounds:
        raise InputError("the packing bound is about GPUs", expected="nodes with GPUs and pods that ask for them")
    table = Table("trace", "load", "seed", "forced load %", "bound %", "FGD %", title="Packing bound")
    for run in outcome.runs:
        found = outcome.bounds[run.trace, run.load, run.seed]
        if as_json:
            print_json(
                {
                    "trace": run.trace,
                    "seed": run.seed,
                    "load": run.load,
                    "forced_load_percent": found.forced_load_percent,
                    "bound_percent": found.bound_percent,
                }
            )
        else:
            limit = "none" if found.bound_percent is None else f"{found.bound_percent:.2f}"
            cells = (f"{found.forced_load_percent:.2f}", limit, f"{run.gpu_allocation_percent:.2f}")
            table.add_row(run.trace, f"{run.load:g}", str(run.seed), *cells)
    if not as_json:
        results().print(table)
