"""Results of gang runs as files: the same bytes for the same comparison. Files appear whole or not at all."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pilotage.gang.runs import GangRun
from pilotage.workloads.files import make_directory, replace_file
from pilotage.workloads.result_files import dump, table


def as_json(runs: Sequence[GangRun], *, seconds: bool) -> dict[str, object]:
    """What `gang compare --json` prints (with seconds) and `results.json` holds (without)."""
    return {"runs": [run.figures() | ({"seconds": round(run.seconds, 6)} if seconds else {}) for run in runs]}


def write_results(runs: Sequence[GangRun], directory: Path, command: str, **further: object) -> None:
    make_directory(directory)
    content = as_json(runs, seconds=False) | further | {"made_by": {"command": command}}
    replace_file(directory / "results.json", dump(content))
    replace_file(directory / "results.csv", table([run.figures() for run in runs]))
    replace_file(directory / "supersteps.csv", table(supersteps(runs)))


def supersteps(runs: Sequence[GangRun]) -> list[dict[str, object]]:
    """Every superstep of every run: how long it took, whether the budget was divided anew, units of each task."""
    return [
        {
            "strategy": run.strategy,
            "forecast": run.forecast,
            "penalty": run.penalty,
            "seed": run.seed,
            "superstep": run.first + t,
            "seconds": round(float(run.course.seconds_T[t]), 6),
            "divided": int(run.course.divided_T[t]),
            "units": " ".join(map(str, run.course.unit_TJ[t].tolist())),
        }
        for run in runs
        for t in range(run.length)
    ]
