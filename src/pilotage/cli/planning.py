"""`pilotage compare --add-nodes`: how many nodes more would do."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from pilotage.cli.options import check_place, console, print_json, progress_bar, results
from pilotage.model.errors import InputError

if TYPE_CHECKING:
    from pilotage.sim.compare import Comparison
    from pilotage.sim.planning import Plan


def plan(comparison: Comparison, spec: str, out: Path | None, *, as_json: bool) -> None:
    """One answer per trace and load; exit code 1 where no policy has one."""
    from pilotage.report.planning import as_dict, planning_table
    from pilotage.sim.planning import smallest_addition
    from pilotage.sim.specs import policy_of
    from pilotage.workloads.node_template import parse

    for name, value in (("--consolidate", comparison.consolidation), ("--price", comparison.price)):
        if value is not None:
            raise InputError("has no effect on planning", field=name, expected="--add-nodes without it")
    if comparison.protocol != "openb":
        problem = "timed runs let pods wait, so any number of nodes will do"
        raise InputError(problem, field="--add-nodes", expected="--protocol openb")
    check_place(out)
    asked = [(policy_of(text), seed) for text in comparison.policies for seed in comparison.seeds]
    answers: list[tuple[str, float, list[Plan]]] = []
    with progress_bar(console(), "planning") as advance:
        total = len(asked) * len(comparison.sources) * len(comparison.loads)
        for source in comparison.sources:
            trace = source.load()
            template = parse(spec, trace.nodes)
            for load in comparison.loads:
                plans: list[Plan] = []
                for policy, seed in asked:
                    advance(len(answers) * len(asked) + len(plans), total)
                    plans.append(smallest_addition(trace, policy, seed, load, template))
                answers.append((trace.name, load, plans))
    content = [{"trace": name, "load": load, "node": spec, **as_dict(plans)} for name, load, plans in answers]
    if out is not None:
        _write(content, out)
    if as_json:
        print_json({"answers": content})
    else:
        for name, load, plans in answers:
            results().print(planning_table(plans, f"{name}, load {load:g}: {spec}"))
    if any(all(one.added is None for one in plans) for _, _, plans in answers):
        raise typer.Exit(1)


def _write(content: list[dict[str, object]], out: Path) -> None:
    from pilotage.workloads.files import make_directory, replace_file

    make_directory(out)
    replace_file(out / "plan.json", (json.dumps({"answers": content}, indent=1) + "\n").encode())
    console().print(f"wrote {out / 'plan.json'}", soft_wrap=True)
