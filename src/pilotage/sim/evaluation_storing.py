"""An evaluation as files: each condition as a comparison of its own, and what came of all of them beside the first."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

from pilotage.sim.evaluation import Evaluation
from pilotage.sim.shift import AS_GIVEN, Condition
from pilotage.sim.storing import as_json, write_results
from pilotage.workloads.files import replace_file
from pilotage.workloads.result_files import dump, table


def evaluation_json(evaluation: Evaluation) -> dict[str, object]:
    """What `evaluate --json` prints: as `compare --json`, each entry with its condition, and the findings."""
    found: dict[str, list[dict[str, object]]] = {"runs": [], "summary": []}
    for condition, outcome in zip(evaluation.trial.conditions, evaluation.outcomes, strict=True):
        content = as_json(outcome, seconds=True)
        for key, entries in found.items():
            entries += [{**entry, "condition": condition.name} for entry in content[key]]  # type: ignore[attr-defined]
    return {**found, **evaluation.findings()}


def place_of(condition: Condition, directory: Path) -> Path:
    """Where the files of a condition lie: those of the first on top."""
    return directory if condition.name == AS_GIVEN else directory / condition.slug


def write_evaluation(evaluation: Evaluation, directory: Path, command: str) -> None:
    """The same bytes for the same trial on every machine, times apart."""
    for condition, outcome in zip(evaluation.trial.conditions, evaluation.outcomes, strict=True):
        write_results(outcome, place_of(condition, directory), command)
    cases = [{**asdict(case), "objections": "; ".join(case.objections)} for case in evaluation.cases]
    files = {
        "evaluation.json": dump(evaluation.findings()),
        "cases.csv": table(cases),
        "verdicts.csv": table([asdict(tally) for tally in evaluation.tallies]),
    }
    for name, content in files.items():
        replace_file(directory / name, content)
